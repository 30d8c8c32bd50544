//! Whether this machine can run a cluster. Everything that is missing is reported at once.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use nix::unistd::{AccessFlags, access};

use crate::{cgroups, tools};

/// The capabilities that are needed, with their bits.
const CAPABILITIES: [(u32, &str); 4] =
    [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN"), (1, "CAP_DAC_OVERRIDE"), (5, "CAP_KILL")];

/// Programs that are started by name.
const PROGRAMS: [&str; 8] = ["ip", "nft", "runc", "nsenter", "setsid", "mount", "mkfs.ext4", "fsfreeze"];

/// Controllers that limit containers, if each has a hierarchy.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuset", "memory", "pids", "devices"];

/// Whether packets of a bridge pass nftables.
const BRIDGE: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";

/// Fails with everything that is missing.
pub fn check() -> Result<()> {
    let mut missing = machine();
    for program in PROGRAMS {
        if !on_path(program) {
            missing.push(format!("the program {program}"));
        }
    }
    if on_path("nft") && tools::call(&["nft", "list", "tables"]).is_err() {
        missing.push("nftables in the kernel".to_owned());
    }
    judge(&missing)
}

/// As [`check`], without the programs, which can be installed: whether it is worth installing them.
pub fn check_machine() -> Result<()> {
    judge(&machine())
}

fn judge(missing: &[String]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    bail!("this machine cannot run a cluster. Missing: {}", missing.join(", "))
}

/// What the machine itself lacks.
fn machine() -> Vec<String> {
    let mut missing = Vec::new();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    missing.extend(capabilities(&status).into_iter().map(|name| format!("{name} (are you root?)")));
    if tools::call(&["unshare", "--net", "true"]).is_err() {
        missing.push("network namespaces".to_owned());
    }
    let filesystems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !filesystems.contains("overlay") && tools::call(&["modprobe", "overlay"]).is_err() {
        missing.push("the overlay filesystem".to_owned());
    }
    if !Path::new(BRIDGE).exists()
        && (tools::call(&["modprobe", "br_netfilter"]).is_err() || !Path::new(BRIDGE).exists())
    {
        missing.push("the kernel module br_netfilter".to_owned());
    }
    let hierarchies = cgroups::hierarchies();
    if hierarchies.is_empty() {
        missing.push("cgroups below /sys/fs/cgroup".to_owned());
    }
    if hierarchies.iter().any(|path| access(path, AccessFlags::W_OK).is_err()) {
        missing.push("cgroups that can be made".to_owned());
    }
    let one = hierarchies.len() == 1;
    for controller in CONTROLLERS {
        let there = hierarchies.iter().any(|path| path.ends_with(controller));
        if !one && !hierarchies.is_empty() && !there {
            missing.push(format!("the cgroup controller {controller}"));
        }
    }
    missing
}

fn capabilities(status: &str) -> Vec<&'static str> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or_default();
    CAPABILITIES.iter().filter(|(bit, _)| bits & (1 << bit) == 0).map(|(_, name)| *name).collect()
}

fn on_path(program: &str) -> bool {
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(program).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_that_is_not_effective_is_missing() {
        assert!(capabilities("Name:\tx\nCapEff:\t000001fffeffffff\n").is_empty());
        assert_eq!(capabilities("CapEff:\t000001fffeffefff\n"), ["CAP_NET_ADMIN"]);
        assert_eq!(capabilities("").len(), CAPABILITIES.len());
    }
}
