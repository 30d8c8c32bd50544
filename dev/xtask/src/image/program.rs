//! The program of the image: `quorate` without the playground, linked statically against musl.
//!
//! Musl and not a static glibc: it comes with Rust, so the program does not depend on the machine's libc, and it resolves names
//! without plug-ins, which an image from scratch does not have.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::{cargo, children, crates, repo};

/// What operators and agents spend most of their time in. In the programs of the tests it is optimised as well, by Cargo.toml.
const BUSY: [&str; 7] = ["bytes", "h2", "http", "hyper", "rustls", "tokio", "tonic"];

/// How it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// For users.
    Release,
    /// For tests: unoptimised, which saves minutes.
    Test,
}

/// Builds the program from the sources in a folder. Its bytes.
pub fn build(sources: &Path, profile: Profile) -> Result<Vec<u8>> {
    let target = target();
    install(&target)?;
    let mut build = of_profile("build", sources, profile);
    build.args(["--locked", "--package", "quorate", "--no-default-features"]);
    build.env("CARGO_ENCODED_RUSTFLAGS", flags()?);
    for (name, value) in c_compiler(&target)? {
        build.env(name, value);
    }
    eprintln!("building quorate for {target}, some minutes the first time");
    crates::fetch();
    children::run(&mut build)?;
    crates::keep();

    let file = repo::target().join(&target).join(profile.name()).join("quorate");
    let program = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    ensure!(
        is_static(&program),
        "{} needs a dynamic linker, which an image from scratch does not have: does a Cargo \
         configuration change how {target} is linked?",
        file.display()
    );
    let version = children::output(Command::new(&file).arg("--version"))?;
    ensure!(version.starts_with("quorate "), "{} reports the version {}", file.display(), version.trim());
    Ok(program)
}

/// Deletes what was built of the workspace. Cargo identifies a crate by its path within the workspace, so it would reuse what it
/// built of the other workspace.
pub fn forget(profile: Profile) -> Result<()> {
    children::run(of_profile("clean", repo::root(), profile).args(["--workspace", "--quiet"]))
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Test => "image-test",
        }
    }

    /// Its settings, in addition to those of Cargo.toml. Here, so that older sources without this profile are built with it too.
    fn settings(self) -> Vec<String> {
        match self {
            Self::Release => Vec::new(),
            Self::Test => {
                let own = ["inherits=\"dev\"", "debug=false", "strip=true"].map(str::to_owned);
                own.into_iter().chain(BUSY.map(|package| format!("package.{package}.opt-level=1"))).collect()
            }
        }
    }
}

/// The target triple of the image.
pub fn target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// A Cargo command with this profile.
fn of_profile(command: &str, sources: &Path, profile: Profile) -> Command {
    let mut cargo = cargo::command();
    cargo.current_dir(sources).env("CARGO_TARGET_DIR", repo::target());
    cargo.args([command, "--target", &target(), "--profile", profile.name()]);
    for setting in profile.settings() {
        cargo.args(["--config", &format!("profile.{}.{setting}", profile.name())]);
    }
    cargo
}

/// Installs the standard library for this target if it is missing.
pub fn install(target: &str) -> Result<()> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot =
        children::output(Command::new(rustc).args(["--print", "sysroot"]).current_dir(repo::root()))?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(target).is_dir() {
        return Ok(());
    }
    eprintln!("installing Rust's standard library for {target}: rustup target add {target}");
    let added = Command::new("rustup").args(["target", "add", target]).current_dir(repo::root()).status();
    match added {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!(
            "`rustup target add {target}` failed ({status}): is the machine online? Without it, build the \
             image with Docker: docker build -t {} .",
            super::REFERENCE
        ),
        Err(_) => bail!(
            "Rust's standard library for {target} is missing, and there is no rustup to install it: take \
             your distribution's package of it, or build the image with Docker: docker build -t {} .",
            super::REFERENCE
        ),
    }
}

/// Flags for rustc, as Cargo reads them from its environment. They replace the flags that the machine sets and remove the
/// machine's paths from the program, so that another machine builds the same one. Most machines link this target statically by
/// default; the flag is for the others.
fn flags() -> Result<String> {
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    flags.extend(private_folders()?.into_iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")));
    Ok(flags.join("\x1f"))
}

/// The folders of source files, and what the program has instead.
fn private_folders() -> Result<Vec<(String, &'static str)>> {
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
    };
    let mut folders = vec![(text(repo::root())?, "/quorate")];
    let cargo = std::env::var_os("CARGO_HOME").map(Into::into);
    let home = || std::env::home_dir().map(|home| home.join(".cargo"));
    if let Some(cargo) = cargo.or_else(home) {
        folders.push((text(&cargo)?, "/cargo"));
    }
    Ok(folders)
}

/// How the C parts are compiled: by `musl-gcc` if there is one, which the `cc` crate finds, else by the machine's own compiler.
/// They use only declarations of libc that are the same in musl, without the variants that check sizes (fortify).
fn c_compiler(target: &str) -> Result<Vec<(String, String)>> {
    let suffix = target.replace('-', "_");
    let mut set = Vec::new();
    let mut flags = vec!["-U_FORTIFY_SOURCE".to_owned()];
    let folders = private_folders()?;
    flags.extend(folders.into_iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")));
    let chosen = [format!("CC_{target}"), format!("CC_{suffix}"), "TARGET_CC".to_owned(), "CC".to_owned()];
    if chosen.iter().all(|name| std::env::var_os(name).is_none()) && !runs("musl-gcc") {
        let Some(compiler) = ["cc", "gcc", "clang"].into_iter().find(|name| runs(name)) else {
            bail!(
                "no C compiler (musl-gcc, cc, gcc or clang) on the PATH, and a few files of the `ring` crate \
                 are C: install one, such as the package `gcc`"
            );
        };
        set.push((format!("CC_{suffix}"), compiler.to_owned()));
    }
    let of_target = format!("CFLAGS_{suffix}");
    flags.extend(std::env::var(&of_target));
    set.push((of_target, flags.join(" ")));
    Ok(set)
}

fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Whether a 64-bit little-endian ELF program starts without an interpreter, which is what the dynamic linker is.
fn is_static(program: &[u8]) -> bool {
    const ELF_64_LITTLE_ENDIAN: &[u8] = b"\x7fELF\x02\x01";
    const INTERPRETER: u64 = 3;
    let number = |at: usize, bytes: usize| {
        let field = program.get(at..at + bytes)?;
        Some(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    let types = || {
        let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let header = |nth| number(usize::try_from(table + nth * size).ok()?, 4);
        (0..count).map(header).collect::<Option<Vec<u64>>>()
    };
    program.starts_with(ELF_64_LITTLE_ENDIAN)
        && types().is_some_and(|types| !types.is_empty() && !types.contains(&INTERPRETER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_is_recognised() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        // Tests are linked as the machine links, so with an interpreter unless the machine itself is of musl.
        assert_eq!(is_static(&own), cfg!(target_feature = "crt-static"));
        assert!(!is_static(b"#!/bin/sh"));
        assert!(!is_static(b"\x7fELF\x02\x01"));

        let mut program = vec![0; 64 + 56];
        program[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (program[32], program[54], program[56]) = (64, 56, 1);
        program[64] = 1;
        assert!(is_static(&program));
        program[64] = 3;
        assert!(!is_static(&program));
    }

    #[test]
    fn programs_of_tests_and_of_the_test_image_optimise_the_same_packages() {
        let manifest = repo::read(Path::new("Cargo.toml")).unwrap();
        for package in BUSY {
            let setting = format!("[profile.test.package.{package}]\nopt-level = 1\n");
            assert!(manifest.contains(&setting), "{package}");
        }
    }

    #[test]
    fn the_program_has_no_path_of_this_machine() {
        let folders = private_folders().unwrap();
        assert!(folders.iter().any(|(from, to)| Path::new(from) == repo::root() && *to == "/quorate"));
        let flags = flags().unwrap();
        assert!(flags.contains("=/cargo"), "{flags}");
    }
}
