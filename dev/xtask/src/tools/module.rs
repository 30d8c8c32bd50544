//! A Go module of `tools/`: what is built from it, how, and whether the results are current.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cache::{self, Entry};
use crate::{go, repo};

/// How every program is built; part of what it is built from.
const FLAGS: [&str; 2] = ["-trimpath", "-buildvcs=false"];

/// A binary of a module, or a file beside the binaries.
pub struct Program {
    /// Its name in the folder of binaries.
    name: String,
    source: Source,
}

/// What it is made of.
enum Source {
    /// A main package; one of the module's own begins with a dot, and is one file.
    Package(String),
    /// The files with this ending in a folder of a module that go.mod pins, one after the other.
    Files { module: &'static str, folder: &'static str, ending: &'static str },
}

/// One folder of `tools/`.
pub struct Module {
    name: String,
    folder: PathBuf,
    programs: Vec<Program>,
    /// go.mod, go.sum and the module's own programs.
    source: String,
    tags: &'static str,
    linker: String,
}

/// What a call of [`Module::build`] did.
pub struct Built {
    /// The number of programs that are in their place now.
    pub programs: usize,
    /// How long the compiler took, if it was called for every program.
    pub whole: Option<Duration>,
}

impl Program {
    /// A program under this name.
    pub fn of(name: &str, package: &str) -> Self {
        Self { name: name.to_owned(), source: Source::Package(package.to_owned()) }
    }

    /// The YAML files of this folder of a module, as one under this name.
    pub fn yaml(name: &str, module: &'static str, folder: &'static str) -> Self {
        Self { name: name.to_owned(), source: Source::Files { module, folder, ending: ".yaml" } }
    }

    /// The package of the module's own that it is.
    fn own(&self) -> Option<&str> {
        match &self.source {
            Source::Package(package) => Some(package.as_str()).filter(|package| package.starts_with('.')),
            Source::Files { .. } => None,
        }
    }
}

impl Module {
    /// The module of this name, without special flags.
    pub fn read(name: &str, programs: Vec<Program>) -> Result<Self> {
        let folder = repo::root().join("tools").join(name);
        let mut files = vec![folder.join("go.mod")];
        // A module without dependencies has none.
        files.extend(Some(folder.join("go.sum")).filter(|sums| sums.exists()));
        let own = programs.iter().filter_map(Program::own);
        files.extend(own.map(|package| folder.join(package).join("main.go")));
        let mut source = String::new();
        for file in files {
            source +=
                &fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            source.push('\n');
        }
        let linker = "-s -w".to_owned();
        Ok(Self { name: name.to_owned(), folder, programs, source, tags: "", linker })
    }

    /// The module's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Sets a string of the program at link time.
    pub fn link(&mut self, variable: &str, value: &str) {
        self.linker.extend([" -X ", variable, "=", value]);
    }

    /// Builds with these tags.
    pub fn tags(&mut self, tags: &'static str) {
        self.tags = tags;
    }

    /// The version of a module that go.mod pins.
    pub fn version(&self, module: &str) -> Result<&str> {
        let mut lines = self.source.lines().map(|line| line.trim().trim_start_matches("require "));
        let version = lines.find_map(|line| line.strip_prefix(module)?.strip_prefix(' '));
        let version = version.and_then(|rest| rest.split_whitespace().next());
        version.with_context(|| format!("tools/{}/go.mod pins no version of {module}", self.name))
    }

    /// Whether every program exists and was built by the present recipe.
    pub fn is_built(&self) -> bool {
        self.programs.iter().all(|program| {
            let same = fs::read_to_string(Self::stamp(program)).is_ok_and(|built| built == self.recipe());
            same && Self::binary(program).is_file()
        })
    }

    /// Whether the cache has every program.
    pub fn is_cached(&self) -> bool {
        self.programs.iter().all(|program| self.entry(program).exists())
    }

    /// Builds all programs that the cache does not have, a line each.
    pub fn build(&self) -> Result<Built> {
        let mut compiled = Vec::new();
        for program in &self.programs {
            compiled.extend(self.build_one(program)?);
        }
        let all = compiled.len() == self.programs.len();
        Ok(Built { programs: self.programs.len(), whole: all.then(|| compiled.iter().sum()) })
    }

    /// Builds it unless the cache has it, and puts it into the folder of binaries. How long the compiler took, if it was called.
    fn build_one(&self, program: &Program) -> Result<Option<Duration>> {
        let mut compiled = None;
        let built = self.entry(program).get(|scratch| {
            let start = Instant::now();
            let file = scratch.join(&program.name);
            match &program.source {
                Source::Package(package) => self.go_build(&program.name, package, &file)?,
                Source::Files { module, folder, ending } => {
                    fs::write(&file, joined(&self.fetched(module)?.join(folder), ending)?)
                        .with_context(|| format!("cannot write {}", file.display()))?;
                }
            }
            eprintln!("  {} in {} s", program.name, start.elapsed().as_secs());
            compiled = Some(start.elapsed());
            Ok(file)
        })?;
        cache::place(&built, &Self::binary(program))?;
        fs::write(Self::stamp(program), self.recipe()).context("cannot record what was built")?;
        Ok(compiled)
    }

    fn go_build(&self, name: &str, package: &str, file: &Path) -> Result<()> {
        let mut build = self.go();
        build.arg("build").args(FLAGS).args(["-tags", self.tags]);
        build.args(["-ldflags", &self.linker, "-o"]).arg(file).arg(package);
        // Without the machine's C library: packages that several programs use are compiled once.
        build.env("CGO_ENABLED", "0");
        output(name, &mut build).map(drop)
    }

    /// The folder with the sources of a module, at the version that go.mod pins.
    fn fetched(&self, module: &str) -> Result<PathBuf> {
        let mut download = self.go();
        download.args(["mod", "download", "-json", module]);
        let told: serde_json::Value = serde_json::from_slice(&output(module, &mut download)?)?;
        let folder = told["Dir"].as_str().with_context(|| format!("go tells no folder of {module}"))?;
        Ok(folder.into())
    }

    /// go, in the module's folder.
    fn go(&self) -> Command {
        let mut go = Command::new("go");
        go.arg("-C").arg(&self.folder);
        go.env("GOWORK", "off").env("GOFLAGS", "-mod=readonly");
        go
    }

    fn entry(&self, program: &Program) -> Entry {
        let source = match &program.source {
            Source::Package(package) => package.clone(),
            Source::Files { module, folder, ending } => format!("{module}/{folder}/*{ending}"),
        };
        Entry::of(&program.name, &self.name, &format!("{source}\n{}", self.recipe()))
    }

    /// Everything that shapes the binaries.
    fn recipe(&self) -> String {
        let Self { tags, linker, source, .. } = self;
        format!("{} tags={tags} linker={linker}\n{source}", FLAGS.join(" "))
    }

    fn binary(program: &Program) -> PathBuf {
        repo::tools_bin().join(&program.name)
    }

    fn stamp(program: &Program) -> PathBuf {
        repo::tools().join(format!("built-{}", program.name))
    }

    /// A program of another module has a `tool` line.
    #[cfg(test)]
    pub fn check_pins(&self) -> Result<()> {
        for program in self.programs.iter().filter(|program| program.own().is_none()) {
            let package = match &program.source {
                Source::Package(package) => package,
                Source::Files { module, .. } => {
                    self.version(module)?;
                    continue;
                }
            };
            let pinned = |line: &str| line.trim().trim_start_matches("tool ") == package;
            if !self.source.lines().any(pinned) {
                bail!("tools/{}/go.mod has no tool line for {}: {package}", self.name, program.name);
            }
        }
        Ok(())
    }
}

/// What go prints.
fn output(what: &str, go: &mut Command) -> Result<Vec<u8>> {
    let output = go.output().context("cannot run go")?;
    if !output.status.success() {
        bail!(go::explain(what, &String::from_utf8_lossy(&output.stderr)));
    }
    Ok(output.stdout)
}

/// The documents of all YAML files in a folder, by the names of the files.
fn joined(folder: &Path, ending: &str) -> Result<String> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let mut paths: Vec<PathBuf> =
        paths.into_iter().filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    paths.sort();
    if paths.is_empty() {
        bail!("{} has no file with the ending {ending}", folder.display());
    }
    let mut text = String::new();
    for path in paths {
        let file = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        text.extend(["---\n", file.trim_end(), "\n"]);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module() -> Module {
        Module {
            name: "x".to_owned(),
            folder: PathBuf::new(),
            programs: Vec::new(),
            source: "replace a.b/c => a.b/c v9\nrequire a.b/c/d v3.0.0\n\ta.b/c v1.2.3 // indirect\n"
                .to_owned(),
            tags: "",
            linker: "-s".to_owned(),
        }
    }

    #[test]
    fn the_version_is_the_required_one_of_exactly_this_module() {
        assert_eq!(module().version("a.b/c").unwrap(), "v1.2.3");
        assert_eq!(module().version("a.b/c/d").unwrap(), "v3.0.0");
        assert!(module().version("a.b").is_err());
    }

    #[test]
    fn the_documents_of_a_folder_are_joined_by_name_and_other_files_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        assert!(joined(folder.path(), ".yaml").is_err());
        for (name, text) in [("b.yaml", "b: 1"), ("a.yaml", "a: 1\n"), ("README.md", "# c")] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        assert_eq!(joined(folder.path(), ".yaml").unwrap(), "---\na: 1\n---\nb: 1\n");
    }

    #[test]
    fn a_change_of_flags_or_sources_makes_a_binary_out_of_date() {
        let recipe = module().recipe();
        assert_eq!(recipe, module().recipe());
        let mut changed = module();
        changed.link("a.b/c.Version", "v1");
        assert_ne!(recipe, changed.recipe());
        let mut changed = module();
        changed.tags("t");
        assert_ne!(recipe, changed.recipe());
        let mut changed = module();
        changed.source.push('x');
        assert_ne!(recipe, changed.recipe());
    }
}
