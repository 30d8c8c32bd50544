//! `cargo xtask tools`: the programs that tests and clusters on this machine are made of, built as Go tools into the
//! target folder.
//!
//! Each folder of `tools/` is a Go module that pins one version by its `tool` lines. A file beside each binary records what it
//! was built from, so that a second call has nothing to do. A second clone takes the binaries from the per-user cache.

mod debian;
mod module;

use std::fs::{self, File};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::{go, repo};
use module::{Module, Program};

/// The minor versions there is a module of.
const MINORS: [&str; 3] = ["3.6", "3.7", "3.5"];

/// What can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Set {
    /// etcd, etcdctl and etcdutl 3.5, 3.6 and 3.7
    Etcd,
    /// Kubernetes with its nodes' programs, CoreDNS and Helm
    Kubernetes,
}

/// Builds what is missing or out of date, and says so.
pub fn run(set: Set) -> Result<()> {
    if build(set)? == 0 {
        let what = match set {
            Set::Etcd => "etcd 3.5, 3.6 and 3.7 are",
            Set::Kubernetes => "Kubernetes, containerd, CoreDNS and Helm are",
        };
        println!("{what} in {}", repo::relative(&repo::tools_bin()).display());
    }
    Ok(())
}

/// Installs what nodes need of the distribution, silent when there is nothing to do.
pub fn install_packages() -> Result<()> {
    debian::install_missing()
}

/// etcd for the tests, silent when there is nothing to do. The number of programs built.
pub fn build_missing() -> Result<usize> {
    build(Set::Etcd)
}

/// As [`run`], silent when there is nothing to do. The number of programs built.
pub fn build(set: Set) -> Result<usize> {
    let bin = repo::tools_bin();
    fs::create_dir_all(&bin).with_context(|| format!("cannot create {}", bin.display()))?;
    // One of its own: who needs etcd does not wait for Kubernetes.
    let lock = File::create(repo::tools().join(format!("lock-{}", set.name())))
        .context("cannot create the lock file of the tools")?;
    lock.lock().context("cannot lock the tools")?;
    if set == Set::Kubernetes {
        debian::install_missing()?;
    }
    let mut missing = Vec::new();
    for module in set.modules()? {
        if !module.is_built() {
            missing.push(module);
        }
    }
    let uncached: Vec<_> = missing.iter().filter(|module| !module.is_cached()).map(Module::folder).collect();
    if !uncached.is_empty() {
        go::check(&uncached)?;
        eprintln!(
            "building {} from source, {}, once for all clones on this machine",
            set.what(),
            set.patience()
        );
    }
    let mut built = 0;
    for module in &missing {
        built += module.build()?;
    }
    Ok(built)
}

impl Set {
    fn name(self) -> String {
        self.to_possible_value().expect("no set is skipped").get_name().to_owned()
    }

    fn what(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Kubernetes => "Kubernetes",
        }
    }

    fn patience(self) -> &'static str {
        match self {
            Self::Etcd => "about a minute for all on two cores",
            Self::Kubernetes => "ten minutes for all on two cores",
        }
    }

    fn modules(self) -> Result<Vec<Module>> {
        match self {
            Self::Etcd => MINORS.into_iter().map(etcd).collect(),
            Self::Kubernetes => Ok(vec![kubernetes()?, containerd()?, pause()?]),
        }
    }
}

fn etcd(minor: &str) -> Result<Module> {
    let program = |name: &str, package: &str| Program {
        name: format!("{name}-{minor}"),
        package: format!("go.etcd.io/etcd/{package}/v3"),
    };
    let programs =
        vec![program("etcd", "server"), program("etcdctl", "etcdctl"), program("etcdutl", "etcdutl")];
    Module::read(&format!("etcd-{minor}"), programs)
}

/// With what is built on the same of its parts, which are built once.
fn kubernetes() -> Result<Module> {
    const HELM: &str = "helm.sh/helm/v3";
    let names =
        ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"];
    let mut programs: Vec<Program> =
        names.map(|name| Program::of(name, &format!("k8s.io/kubernetes/cmd/{name}"))).into();
    programs.push(Program::of("coredns", "./coredns"));
    programs.push(Program::of("helm", &format!("{HELM}/cmd/helm")));
    let mut module = Module::read("kubernetes", programs)?;
    // Clients ask for the version; without these it is v0.0.0.
    let version = module.version("k8s.io/kubernetes")?.to_owned();
    let minor = version.split('.').nth(1).context("Kubernetes' version has a minor part")?.to_owned();
    for (name, value) in [("gitVersion", version.as_str()), ("gitMajor", "1"), ("gitMinor", &minor)] {
        module.link(&format!("k8s.io/component-base/version.{name}"), value);
    }
    let helm = module.version(HELM)?.to_owned();
    module.link(&format!("{HELM}/internal/version.version"), &helm);
    Ok(module)
}

fn containerd() -> Result<Module> {
    const PATH: &str = "github.com/containerd/containerd/v2";
    let names = ["containerd", "containerd-shim-runc-v2", "ctr"];
    let programs = names.map(|name| Program::of(name, &format!("{PATH}/cmd/{name}")));
    let mut module = Module::read("containerd", programs.into())?;
    let version = module.version(PATH)?.to_owned();
    module.link(&format!("{PATH}/version.Version"), &version);
    // Snapshotters that need libraries or devices of their own; overlayfs is what the nodes use.
    module.tags("no_btrfs no_zfs no_devmapper no_aufs");
    Ok(module)
}

fn pause() -> Result<Module> {
    Module::read("pause", vec![Program::of("pause", ".")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_modules_that_pin_what_is_built_of_them() {
        for set in Set::value_variants() {
            for module in set.modules().unwrap() {
                module.check_pins().unwrap();
            }
        }
    }
}
