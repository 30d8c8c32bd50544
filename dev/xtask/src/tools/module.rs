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

/// A binary of a module.
pub struct Program {
    /// Its name in the folder of binaries.
    pub name: String,
    /// The main package; one of the module's own begins with a dot, and is one file.
    pub package: String,
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
        Self { name: name.to_owned(), package: package.to_owned() }
    }

    fn is_own(&self) -> bool {
        self.package.starts_with('.')
    }
}

impl Module {
    /// The module of this name, without special flags.
    pub fn read(name: &str, programs: Vec<Program>) -> Result<Self> {
        let folder = repo::root().join("tools").join(name);
        let mut files = vec![folder.join("go.mod")];
        // A module without dependencies has none.
        files.extend(Some(folder.join("go.sum")).filter(|sums| sums.exists()));
        let own = programs.iter().filter(|program| program.is_own());
        files.extend(own.map(|program| folder.join(&program.package).join("main.go")));
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
            self.go_build(program, &file)?;
            eprintln!("  {} in {} s", program.name, start.elapsed().as_secs());
            compiled = Some(start.elapsed());
            Ok(file)
        })?;
        cache::place(&built, &Self::binary(program))?;
        fs::write(Self::stamp(program), self.recipe()).context("cannot record what was built")?;
        Ok(compiled)
    }

    fn go_build(&self, program: &Program, file: &Path) -> Result<()> {
        let mut build = Command::new("go");
        build.args(["build", "-C"]).arg(&self.folder).args(FLAGS).args(["-tags", self.tags]);
        build.args(["-ldflags", &self.linker, "-o"]).arg(file).arg(&program.package);
        // Without the machine's C library: packages that several programs use are compiled once.
        build.env("CGO_ENABLED", "0");
        build.env("GOWORK", "off").env("GOFLAGS", "-mod=readonly");
        let output = build.output().context("cannot run go")?;
        if !output.status.success() {
            bail!(go::explain(&program.name, &String::from_utf8_lossy(&output.stderr)));
        }
        Ok(())
    }

    fn entry(&self, program: &Program) -> Entry {
        Entry::of(&program.name, &self.name, &format!("{}\n{}", program.package, self.recipe()))
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
        for program in self.programs.iter().filter(|program| !program.is_own()) {
            let Program { name, package } = program;
            let pinned = |line: &str| line.trim().trim_start_matches("tool ") == package;
            if !self.source.lines().any(pinned) {
                bail!("tools/{}/go.mod has no tool line for {name}: {package}", self.name);
            }
        }
        Ok(())
    }
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
