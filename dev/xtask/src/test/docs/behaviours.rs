//! Where each behaviour is tested: a table of docs/testing.md, generated from the tests themselves and from what the tiers run.

use std::path::Path;

use anyhow::Result;

use super::section::Section;
use crate::repo;
use crate::test::full::{LIFE_CI, LIFE_FULL, WHOLE_CI, WHOLE_FULL};
use crate::test::kube::ETCD;

/// Where tests of the worlds that start programs lie.
const TESTS: &str = "testing/scenarios/tests";

/// The behaviours that every world runs, a macro for each module.
const SHARED: &str = "testing/scenarios/src/behaviours.rs";

/// Where it is.
pub const SECTION: Section = Section {
    page: "docs/testing.md",
    begin: "<!-- behaviours: written by `cargo xtask docs` -->\n",
    end: "<!-- end of behaviours -->\n",
    text: table,
};

fn table() -> Result<String> {
    let versions = |ci: &[&str], full: &[&str]| {
        let more: Vec<&str> = full.iter().copied().filter(|minor| !ci.contains(minor)).collect();
        match (ci.is_empty(), more.is_empty()) {
            (_, true) => ci.join(", "),
            (true, false) => format!("`--full`: {}", more.join(", ")),
            (false, false) => format!("{}; `--full`: {}", ci.join(", "), more.join(", ")),
        }
    };
    let mut rows = Vec::new();
    for (module, name) in shared(&repo::read(Path::new(SHARED))?) {
        let playground = if module == "life" {
            versions(LIFE_CI, &[LIFE_FULL, WHOLE_FULL].concat())
        } else {
            versions(&[], WHOLE_FULL)
        };
        rows.push(row(&name, &module, &playground, ETCD));
    }
    for file in repo::files_with("rs")?.iter().filter(|file| file.starts_with(TESTS)) {
        let place = file.strip_prefix(TESTS).expect("it begins with it").with_extension("");
        let place = place.display().to_string();
        let (world, module) = place.split_once('/').unwrap_or((place.as_str(), ""));
        let text = repo::read(file)?;
        // What only `--full` runs is the end of its file.
        let (always, full) = text.split_once("\nmod full {").unwrap_or((&text, ""));
        let always = tests(always).into_iter().map(|name| (name, true));
        for (name, in_ci) in always.chain(tests(full).into_iter().map(|name| (name, false))) {
            let ci: &[&str] = if in_ci { WHOLE_CI } else { &[] };
            rows.push(match world {
                "etcd" if module.starts_with("model") => {
                    row(&name, &place, &versions(LIFE_CI, &[LIFE_FULL, WHOLE_FULL].concat()), "")
                }
                "etcd" if module == "auth" => {
                    row(&name, &place, &versions(ci, &[LIFE_FULL, WHOLE_FULL].concat()), "")
                }
                "etcd" => row(&name, &place, &versions(ci, WHOLE_FULL), ""),
                "kube" if !in_ci || ["ipv6", "network_policy", "rounds"].contains(&module) => {
                    row(&name, &place, "", &versions(&[], &[ETCD]))
                }
                "kube" => row(&name, &place, "", ETCD),
                _ => row(&name, &place, &versions(&[], WHOLE_CI), ""),
            });
        }
    }
    Ok(format!(
        "| behaviour | module | in the playground, on etcd | on Kubernetes, on etcd |\n| --- | --- | --- | --- |\n{}",
        rows.concat()
    ))
}

fn row(name: &str, module: &str, playground: &str, kubernetes: &str) -> String {
    format!("| {} | `{module}` | {playground} | {kubernetes} |\n", name.replace('_', " "))
}

/// Module and name of the behaviours that every world runs.
fn shared(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut module = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("$crate::behaviours! { ") {
            module = rest.split(' ').next().map(str::to_owned);
        } else if line == "}" {
            module = None;
        } else if let Some(module) = &module {
            found.push((module.clone(), line.to_owned()));
        }
    }
    found
}

/// The names of the tests in a file.
fn tests(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[tokio::test");
        } else if let Some(rest) = line.strip_prefix("async fn ").filter(|_| is_test) {
            found.extend(rest.split('(').next().map(str::to_owned));
            is_test = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #[test]
    fn behaviours_and_tests_are_found_in_the_code() {
        let text = "macro_rules! life {\n  $crate::behaviours! { life in $world;\n    a_b\n    c_d\n  }\n}\n";
        let pair = |name: &str| ("life".to_owned(), name.to_owned());
        assert_eq!(super::shared(text), [pair("a_b"), pair("c_d")]);
        let text =
            "#[tokio::test(flavor = \"multi_thread\")]\n#[expect(x)]\nasync fn a_b() {}\nasync fn c() {}\n";
        assert_eq!(super::tests(text), ["a_b"]);
    }

    #[test]
    fn the_table_has_behaviours_of_every_world() {
        let table = super::table().unwrap();
        for row in [
            "| a settled cluster writes nothing to the api | `life` | 3.7; `--full`: 3.5, 3.6 | 3.6 |",
            "| a full volume is reported | `input` | `--full`: 3.6, 3.7 | 3.6 |",
        ] {
            assert!(table.contains(row), "{table}");
        }
    }
}
