//! One program of integration tests for each crate. Each further one links the crate and its dependencies once more, compiles the
//! shared helpers once more, and hides which of them nothing uses.

use std::path::Path;

use anyhow::Result;

use super::metadata::{Package, Target, packages};
use crate::repo;

/// Packages with another number: `quorate-scenarios` has one for each world that starts programs.
const MORE: [(&str, usize); 1] = [("quorate-scenarios", 3)];

/// A line for each package with too many programs, and for each file beside one that it does not compile.
pub fn check() -> Result<Vec<String>> {
    let packages = packages()?;
    let mut faults: Vec<String> = packages.iter().filter_map(too_many).collect();
    let files = repo::files_with("rs")?;
    for program in packages.iter().flat_map(tests_of) {
        let main = repo::relative(&program.src_path);
        let folder = main.parent().unwrap_or(Path::new(""));
        let beside = files.iter().filter(|file| file.parent() == Some(folder) && *file != main);
        let text = repo::read(main)?;
        faults.extend(beside.filter(|file| !is_compiled(file, &text)).map(|file| {
            format!("{}: no test runs it; {} has no line `mod ...;` for it", file.display(), main.display())
        }));
    }
    Ok(faults)
}

fn tests_of(package: &Package) -> impl Iterator<Item = &Target> {
    package.targets.iter().filter(|target| target.kind.iter().any(|kind| kind == "test"))
}

fn too_many(package: &Package) -> Option<String> {
    let names: Vec<&str> = tests_of(package).map(|target| target.name.as_str()).collect();
    let allowed = MORE.iter().find(|(name, _)| *name == package.name).map_or(1, |(_, count)| *count);
    (names.len() > allowed).then(|| {
        format!(
            "{} has {} programs of integration tests ({}): make each a module of tests/main.rs",
            package.name,
            names.len(),
            names.join(", ")
        )
    })
}

/// Whether the main file of its folder names it.
fn is_compiled(file: &Path, main: &str) -> bool {
    let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let line = format!("mod {name};");
    main.lines().any(|found| found.trim_start_matches("pub ") == line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, tests: &[&str]) -> Package {
        let target = |test: &&str| Target {
            name: (*test).to_owned(),
            kind: vec!["test".to_owned()],
            src_path: std::path::PathBuf::new(),
        };
        Package { name: name.to_owned(), targets: tests.iter().map(target).collect(), ..Package::default() }
    }

    #[test]
    fn a_second_program_of_integration_tests_is_a_fault() {
        assert_eq!(too_many(&package("quorate-planner", &["main"])), None);
        let fault = too_many(&package("quorate-planner", &["main", "rules"])).unwrap();
        assert!(
            fault.contains("quorate-planner has 2 programs of integration tests (main, rules)"),
            "{fault}"
        );
        assert_eq!(too_many(&package("quorate-scenarios", &["etcd", "kube", "shell"])), None);
    }

    #[test]
    fn a_file_that_no_program_names_is_a_fault() {
        assert!(is_compiled(Path::new("tests/rules.rs"), "//! x\n\nmod rules;\n"));
        assert!(is_compiled(Path::new("tests/judge.rs"), "pub mod judge;\n"));
        assert!(!is_compiled(Path::new("tests/rule.rs"), "mod rules;\n"));
    }
}
