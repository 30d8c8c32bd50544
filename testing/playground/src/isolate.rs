//! Moves the playground into a mount namespace of its own, so that its mounts and those of its containers are
//! invisible to the rest of the machine. Without root it also enters a user namespace, in which this process is root;
//! outside it keeps its user.
//!
//! Must run before any thread is started: the kernel lets only a process with one thread enter a user namespace.

use std::fs;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

/// The machine does not allow namespaces.
#[derive(Debug, thiserror::Error)]
#[error(
    "this machine does not let {who} make a user namespace, which the playground needs to give each container a file \
     system of its own. One of these helps:\n{remedies}\nThe kernel says"
)]
pub struct NoNamespace {
    who: String,
    remedies: String,
    source: Errno,
}

/// Moves this process into its namespaces.
pub fn enter() -> Result<(), NoNamespace> {
    if geteuid().is_root() && own_mounts(CloneFlags::CLONE_NEWNS).is_ok() {
        return Ok(());
    }
    let (user, group) = (geteuid(), getegid());
    own_mounts(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
        .map_err(|source| refused(source, user.as_raw()))?;
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ];
    for (file, map) in maps {
        let written = fs::write(file, map);
        written
            .map_err(|error| refused(Errno::from_raw(error.raw_os_error().unwrap_or(0)), user.as_raw()))?;
    }
    // Only root of the new namespace may do this.
    keep_to_ourselves().map_err(|source| refused(source, user.as_raw()))
}

fn own_mounts(flags: CloneFlags) -> Result<(), Errno> {
    unshare(flags)?;
    if flags.contains(CloneFlags::CLONE_NEWUSER) {
        return Ok(());
    }
    keep_to_ourselves()
}

/// Makes mounts private to this namespace.
fn keep_to_ourselves() -> Result<(), Errno> {
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)
}

fn refused(source: Errno, user: u32) -> NoNamespace {
    let switch = |file: &str, bad: &str| fs::read_to_string(file).is_ok_and(|value| value.trim() == bad);
    let mut remedies = Vec::new();
    if switch("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        remedies.push("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");
    }
    if switch("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        remedies.push("sudo sysctl -w kernel.unprivileged_userns_clone=1");
    }
    if switch("/proc/sys/user/max_user_namespaces", "0") {
        remedies.push("sudo sysctl -w user.max_user_namespaces=15000");
    }
    remedies.push("run it as root");
    remedies.push("inside a container: give the container CAP_SYS_ADMIN, or an unconfined seccomp profile");
    let remedies: Vec<String> = remedies.iter().map(|remedy| format!("  - {remedy}")).collect();
    NoNamespace { who: format!("user {user}"), remedies: remedies.join("\n"), source }
}
