//! `kube exec`: a program of the host that resolves the cluster's names. The host itself keeps its own resolver.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::files;
use crate::rig::Rig;
use crate::tools;

const RESOLVER: &str = "/etc/resolv.conf";

/// Becomes the program, in a mount namespace of its own.
pub fn run(dir: &Path, words: &[OsString]) -> Result<()> {
    let rig = Rig::open(dir)?.context("there is no cluster; `cargo xtask kube up` makes one")?;
    let resolver = rig.path("conf/resolv.conf");
    let search = "default.svc.cluster.local svc.cluster.local cluster.local";
    let text = format!("nameserver {}\nsearch {search}\noptions ndots:5\n", rig.addresses().control());
    files::write_if_changed(&resolver, &text)?;
    unshare(CloneFlags::CLONE_NEWNS).context("cannot leave the host's mounts: is this root?")?;
    let nothing: Option<&str> = None;
    // So that the host does not see the mount.
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)
        .context("cannot keep mounts to ourselves")?;
    mount(Some(&resolver), RESOLVER, nothing, MsFlags::MS_BIND, nothing)
        .with_context(|| format!("cannot put {} over {RESOLVER}", resolver.display()))?;
    let (program, args) = words.split_first().context("there is nothing to run")?;
    let mut command = Command::new(program);
    command.args(args).env("KUBECONFIG", rig.kubeconfig());
    if let Some(bin) = tools::binary("kubectl").parent() {
        let mut path = bin.as_os_str().to_owned();
        path.push(":");
        path.push(env::var_os("PATH").unwrap_or_default());
        command.env("PATH", path);
    }
    Err(command.exec()).with_context(|| format!("cannot run {}", program.display()))
}
