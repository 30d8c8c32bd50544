//! Where the etcd binaries are.

use std::env;
use std::path::{Path, PathBuf};

use quorate_model::Minor;

/// The etcd server of this minor version. Panics, with what to do, if it is not there.
pub fn etcd(minor: Minor) -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin");
    let dir = env::var_os("QUORATE_ETCD_BIN_DIR").map_or_else(built, PathBuf::from);
    let binary = dir.join(format!("etcd-{minor}"));
    assert!(
        binary.is_file(),
        "no etcd to test with: {} is missing. Run `cargo xtask tools`, or set QUORATE_ETCD_BIN_DIR.",
        binary.display()
    );
    binary
}
