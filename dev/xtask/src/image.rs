//! `cargo xtask image`: the container image as an OCI archive. It has one static program, no shell and no other program, and
//! does not run as root. `Dockerfile` builds the same image with Docker.

mod kept;
mod previous;
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use xtask::oci::{Image, Tar, architecture};

use crate::{cargo, children, repo};

pub use previous::Previous;
use program::Profile;

/// The image's name and tag. It is the operator's default for `--agent-image`; `cargo xtask manifests --check` compares them.
pub const REFERENCE: &str = concat!("quorate:", env!("CARGO_PKG_VERSION"));

/// The user and group of the program. By number, so that the kubelet can check that it is not root.
const USER: &str = "65532:65532";

/// Where programs look up the name and the home directory of their user.
const PASSWD: &str = "quorate:x:65532:65532:quorate:/:/sbin/nologin\n";
const GROUP: &str = "quorate:x:65532:\n";

/// The authorities that stores of backups are trusted by: those of this machine's distribution.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// Installs what a build needs that Rust does not bring along, silent when there is nothing to do.
pub fn prepare() -> Result<()> {
    program::install(&program::target())
}

/// Checks that its program compiles, where the image itself is not built.
pub fn check() -> Result<()> {
    let check = ["check", "--quiet", "--package", "quorate", "--no-default-features"];
    children::run(cargo::command().args(check))
}

/// Builds the program and writes the image.
pub fn run() -> Result<()> {
    let program = program::build(repo::root(), Profile::Release)?;
    write(REFERENCE, &program, &repo::target().join("image/quorate.tar"))
}

/// Builds the program of the image alone. Its path.
pub fn release_program() -> Result<PathBuf> {
    program::build(repo::root(), Profile::Release)?;
    Ok(repo::target().join(program::target()).join("release/quorate"))
}

/// As [`run`], for tests: it takes less time to build, and is larger. A commit that was built on this machine is not built again.
pub fn run_for_tests() -> Result<PathBuf> {
    let build = || program::build(repo::root(), Profile::Test);
    let program = match kept::clean_commit() {
        Some(commit) => kept::program(commit, build)?,
        None => build()?,
    };
    let file = repo::target().join("image/quorate-test.tar");
    write(REFERENCE, &program, &file)?;
    Ok(file)
}

fn write(reference: &str, program: &[u8], file: &Path) -> Result<()> {
    let architecture = architecture()?;
    let mut layer = Tar::default();
    layer.folder("etc");
    layer.file("etc/group", 0o644, GROUP.as_bytes());
    layer.file("etc/passwd", 0o644, PASSWD.as_bytes());
    layer.folder("etc/ssl");
    layer.folder("etc/ssl/certs");
    layer.file(AUTHORITIES, 0o644, &authorities()?);
    layer.file("quorate", 0o755, program);
    let archive = Image {
        reference,
        architecture,
        config: json!({
            "User": USER,
            "Entrypoint": ["/quorate"],
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": "quorate",
                "org.opencontainers.image.description": "Runs etcd clusters on Kubernetes",
                "org.opencontainers.image.version": env!("CARGO_PKG_VERSION"),
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        }),
        layer: layer.finish(),
    }
    .archive();

    fs::create_dir_all(file.parent().expect("it lies in a folder"))?;
    fs::write(file, &archive.bytes).with_context(|| format!("cannot write {}", file.display()))?;
    println!(
        "{reference} ({architecture}, {}, program {}) in {}\n{}",
        mebibytes(archive.bytes.len()),
        mebibytes(program.len()),
        repo::relative(file).display(),
        archive.digest,
    );
    Ok(())
}

fn authorities() -> Result<Vec<u8>> {
    let file = Path::new("/").join(AUTHORITIES);
    fs::read(&file)
        .with_context(|| format!("cannot read {}: install the package ca-certificates", file.display()))
}

fn mebibytes(bytes: usize) -> String {
    let tenths = (bytes * 10).div_ceil(1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_builds_the_same() {
        let docker = repo::read(Path::new("Dockerfile")).unwrap();
        let toolchain = repo::read(Path::new("rust-toolchain.toml")).unwrap();
        let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap();
        let base = format!("FROM rust:{}-alpine", channel.trim_matches('"'));
        let user = format!("USER {USER}");
        for line in
            [&base, &user, PASSWD.trim(), GROUP.trim(), "--no-default-features", REFERENCE, AUTHORITIES]
        {
            assert!(docker.contains(line), "{line}");
        }
    }

    #[test]
    fn sizes_are_rounded_up() {
        assert_eq!(mebibytes(0), "0.0 MiB");
        assert_eq!(mebibytes(1), "0.1 MiB");
        assert_eq!(mebibytes(12 << 20), "12.0 MiB");
    }
}
