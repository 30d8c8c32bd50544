//! The packages of the workspace, as `cargo metadata` lists them.

use std::path::PathBuf;

use anyhow::Result;
use serde::Deserialize;

use crate::{cargo, children};

/// A package.
#[derive(Default, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its Cargo.toml.
    pub manifest_path: PathBuf,
    /// What its Cargo.toml names.
    pub dependencies: Vec<Dependency>,
    /// What Cargo builds of it.
    pub targets: Vec<Target>,
}

/// A dependency.
#[derive(Deserialize)]
pub struct Dependency {
    /// The package that is used.
    pub name: String,
    /// `dev`, `build`, or none.
    pub kind: Option<String>,
    /// Its folder, if it is of this workspace.
    pub path: Option<String>,
}

/// A library, a program or a program of tests.
#[derive(Deserialize)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// `lib`, `bin`, `test`, ...
    pub kind: Vec<String>,
    /// Its main file.
    pub src_path: PathBuf,
}

/// All of them.
pub fn packages() -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let mut metadata = cargo::command();
    metadata.args(["metadata", "--format-version=1", "--no-deps", "--locked"]);
    let metadata: Metadata = serde_json::from_str(&children::output(&mut metadata)?)?;
    Ok(metadata.packages)
}
