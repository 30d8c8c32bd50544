//! Packages of the distribution that nodes and their networks need: installed by apt-get, else named in the error.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Places of a file of the package, one of which exists if it is installed, and the package.
type Needed = (&'static [&'static str], &'static str);

/// What nodes need.
pub const NODES: &[Needed] = &[
    (&["/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc"], "runc"),
    (&["/usr/lib/cni/bridge", "/opt/cni/bin/bridge"], "containernetworking-plugins"),
    (&["/usr/sbin/conntrack", "/usr/bin/conntrack"], "conntrack"),
    (&["/usr/sbin/nft", "/usr/bin/nft"], "nftables"),
    (&["/usr/sbin/ip", "/usr/bin/ip", "/sbin/ip"], "iproute2"),
    (&["/usr/bin/nsenter"], "util-linux"),
    (&["/usr/bin/mount", "/bin/mount"], "mount"),
    (&["/usr/sbin/modprobe", "/sbin/modprobe"], "kmod"),
];

/// What carries out NetworkPolicies in the networks of nodes.
pub const POLICIES: &[Needed] =
    &[(&["/usr/sbin/iptables-save"], "iptables"), (&["/usr/sbin/ipset", "/sbin/ipset"], "ipset")];

/// Installs those of these packages that are missing, and prints which.
pub fn install_missing(needed: &[Needed]) -> Result<()> {
    let missing = missing(needed, |path| Path::new(path).exists());
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    eprintln!("installing with apt-get: {list}");
    let apt = |args: &[&str]| -> Result<bool> {
        let mut apt = Command::new("apt-get");
        apt.args(["-qq", "-y"]).args(args).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        Ok(apt.status().context("there is no apt-get")?.success())
    };
    let install = || -> Result<bool> {
        let mut install = vec!["install", "--no-install-recommends"];
        install.extend(&missing);
        Ok(apt(&install)? || (apt(&["update"])? && apt(&install)?))
    };
    match install() {
        Ok(true) => Ok(()),
        Ok(false) => {
            bail!("apt-get cannot install {list}. Install them by hand; they are needed by the nodes")
        }
        Err(error) => bail!("{error:#}. Install by hand what the nodes need: {list}"),
    }
}

fn missing(needed: &[Needed], there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let missing = needed.iter().filter(|(places, _)| !places.iter().any(|place| there(place)));
    missing.map(|(_, package)| *package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_missing_when_none_of_its_places_has_it() {
        assert!(missing(NODES, |_| true).is_empty());
        assert_eq!(missing(NODES, |path| path != "/usr/sbin/nft"), Vec::<&str>::new());
        assert_eq!(missing(NODES, |path| !path.ends_with("/nft")), ["nftables"]);
    }
}
