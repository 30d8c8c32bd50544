//! `cargo xtask tools`: the programs of others that tests and clusters on this machine run, in the target folder.
//!
//! Each folder of `tools/` is a Go module that pins one version by its `tool` lines. A file beside each binary records what it
//! was built from, so that a second call has nothing to do. A second clone takes the binaries from the per-user cache. Azurite is a
//! package of npm; Prometheus' programs are of Debian's packages.

mod debian;
pub mod helpers;
mod module;
pub mod monitoring;
mod npm;

use std::fs;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::progress::{self, Step};
use crate::{go, repo};
use module::{Module, Program};

/// The minor versions of etcd that have a module. The first is that of the playground's own cluster.
pub const MINORS: [&str; 3] = ["3.7", "3.6", "3.5"];

/// The folder of the emulator of Azure Blob Storage.
const AZURITE: &str = "azurite";

/// What can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Set {
    /// etcd, etcdctl and etcdutl 3.5, 3.6 and 3.7; porcupine, which judges what they answered; and kstatus, which judges statuses
    Etcd,
    /// Kubernetes with its nodes' programs, CoreDNS and Helm
    Kubernetes,
    /// versitygw, an S3 server
    S3,
    /// cert-manager's controllers, for the kube tier
    CertManager,
    /// kube-router, which carries out NetworkPolicies on nodes
    KubeRouter,
    /// Azurite, an emulator of Azure Blob Storage, for `cargo xtask test --full`; needs npm
    Azure,
    /// promtool, which tests the rules of monitoring/, Prometheus and Alertmanager; of Debian's packages, unless they are on the PATH
    Monitoring,
    /// Cargo's helpers: cargo-nextest, cargo-deny and cargo-machete, as Cargo builds them
    Cargo,
}

/// Builds what is missing or out of date, and reports it. With a minor version, only that of etcd.
pub fn run(set: Set, minor: Option<&str>) -> Result<()> {
    if let Some(minor) = minor {
        ensure!(set == Set::Etcd, "only etcd has minor versions to choose from");
        if build_all(&[Build::etcd(minor)?])? == 0 {
            println!("etcd {minor} is in {}", bin());
        }
        return Ok(());
    }
    if build(set)? == 0 {
        match set {
            Set::Etcd => println!("etcd 3.5, 3.6 and 3.7, porcupine and kstatus are in {}", bin()),
            Set::Kubernetes => println!("Kubernetes, containerd, CoreDNS and Helm are in {}", bin()),
            Set::S3 => println!("versitygw is in {}", bin()),
            Set::CertManager => println!("cert-manager and its definitions are in {}", bin()),
            Set::KubeRouter => println!("kube-router is in {}", bin()),
            Set::Azure => println!("Azurite is in the folder of tools"),
            Set::Monitoring => println!(
                "promtool is in the cache or on the PATH; Prometheus and Alertmanager are in {}",
                bin()
            ),
            Set::Cargo => println!("cargo-nextest, cargo-deny and cargo-machete are in the cache"),
        }
    }
    Ok(())
}

/// Installs the packages of the distribution that nodes need. Silent if there is nothing to do.
pub fn install_packages() -> Result<()> {
    debian::install_missing(debian::NODES)
}

/// The minor version that the arguments of a playground ask for with `--etcd-version`; else that of its own cluster.
pub fn minor_of(args: &[String]) -> &'static str {
    let flag = "--etcd-version";
    let separate = args.windows(2).find(|pair| pair[0] == flag).map(|pair| pair[1].as_str());
    let joined = args.iter().find_map(|arg| arg.strip_prefix(flag)?.strip_prefix('='));
    let version = separate.or(joined).unwrap_or_default().trim_start_matches('v');
    let is_minor = |minor: &&str| version.strip_prefix(minor).is_some_and(|rest| rest.starts_with('.'));
    MINORS.into_iter().find(is_minor).unwrap_or(MINORS[0])
}

/// etcd for the tests. Silent if there is nothing to do. The number of programs built.
pub fn build_missing() -> Result<usize> {
    build(Set::Etcd)
}

/// As [`run`], but silent if there is nothing to do. The number of programs built.
pub fn build(set: Set) -> Result<usize> {
    match set {
        Set::Etcd => {
            let mut builds = MINORS.map(Build::etcd).into_iter().collect::<Result<Vec<_>>>()?;
            builds.push(Build::porcupine()?);
            builds.push(Build::kstatus()?);
            build_all(&builds)
        }
        Set::Kubernetes => {
            debian::install_missing(debian::NODES)?;
            build_all(&[Build::kubernetes()?])
        }
        Set::S3 => build_all(&[Build::s3()?]),
        Set::CertManager => build_all(&[Build::cert_manager()?]),
        Set::KubeRouter => {
            debian::install_missing(debian::POLICIES)?;
            build_all(&[Build::kube_router()?])
        }
        Set::Azure => npm::install(AZURITE),
        Set::Monitoring => monitoring::install(),
        Set::Cargo => helpers::build(),
    }
}

/// The judge of histories. Silent if there is nothing to do.
pub fn build_judge() -> Result<()> {
    build_all(&[Build::porcupine()?]).map(drop)
}

fn build_all(builds: &[Build]) -> Result<usize> {
    progress::announce(builds.iter().filter(|build| build.compiles()).map(Build::step));
    builds.iter().map(Build::run).sum()
}

/// Programs that are built together.
pub struct Build {
    name: String,
    step: Step,
    modules: Vec<Module>,
}

impl Build {
    /// One minor version of etcd.
    pub fn etcd(minor: &str) -> Result<Self> {
        Ok(Self::of(&format!("etcd {minor}"), "a few minutes on two cores", vec![etcd(minor)?]))
    }

    /// The S3 server.
    pub fn s3() -> Result<Self> {
        Ok(Self::of("versitygw", "two minutes on two cores", vec![versitygw()?]))
    }

    fn cert_manager() -> Result<Self> {
        Ok(Self::of("cert-manager", "three minutes on two cores", vec![cert_manager()?]))
    }

    fn kube_router() -> Result<Self> {
        Ok(Self::of("kube-router", "three minutes on two cores", vec![kube_router()?]))
    }

    /// The judge of histories.
    fn porcupine() -> Result<Self> {
        Ok(Self::of("porcupine", "a few seconds", vec![porcupine()?]))
    }

    /// The judge of statuses.
    fn kstatus() -> Result<Self> {
        Ok(Self::of("kstatus", "under a minute on two cores", vec![kstatus()?]))
    }

    fn kubernetes() -> Result<Self> {
        let modules = vec![kubernetes()?, containerd()?, pause()?];
        Ok(Self::of("Kubernetes", "ten minutes on two cores", modules))
    }

    fn of(name: &str, guess: &'static str, modules: Vec<Module>) -> Self {
        let what = format!("{name} from source, once for all clones on this machine");
        Self { name: name.to_owned(), step: Step::new(&what, name, guess), modules }
    }

    /// For reports of the build.
    pub fn step(&self) -> &Step {
        &self.step
    }

    /// Whether something is missing that the cache does not have.
    pub fn compiles(&self) -> bool {
        self.modules.iter().any(|module| !module.is_built() && !module.is_cached())
    }

    /// The exact version of etcd, without `v`.
    pub fn etcd_version(&self) -> Result<String> {
        let module = self.modules.first().context("a build has a module")?;
        Ok(module.version("go.etcd.io/etcd/server/v3")?.trim_start_matches('v').to_owned())
    }

    /// Builds what is missing, a line for each program. The number of programs built.
    pub fn run(&self) -> Result<usize> {
        let bin = repo::tools_bin();
        fs::create_dir_all(&bin).with_context(|| format!("cannot create {}", bin.display()))?;
        // One lock for each: a test that needs etcd does not wait for Kubernetes.
        let file = repo::tools().join(format!("lock-{}", self.name.to_lowercase().replace(' ', "-")));
        let _lock = xtask::lock(&file, &format!("another build of {}", self.name))?;
        let missing: Vec<_> = self.modules.iter().filter(|module| !module.is_built()).collect();
        let uncached: Vec<_> =
            missing.iter().filter(|module| !module.is_cached()).map(|module| module.folder()).collect();
        if !uncached.is_empty() {
            go::check(&uncached)?;
        }
        let built = missing.iter().map(|module| module.build()).collect::<Result<Vec<_>>>()?;
        // A part of it says nothing about the whole.
        if built.len() == self.modules.len()
            && let Some(took) = built.iter().map(|built| built.whole).sum()
        {
            self.step.took(took);
        }
        Ok(built.iter().map(|built| built.programs).sum())
    }
}

fn bin() -> String {
    repo::relative(&repo::tools_bin()).display().to_string()
}

fn etcd(minor: &str) -> Result<Module> {
    let program = |name: &str, package: &str| {
        Program::of(&format!("{name}-{minor}"), &format!("go.etcd.io/etcd/{package}/v3"))
    };
    let programs =
        vec![program("etcd", "server"), program("etcdctl", "etcdctl"), program("etcdutl", "etcdutl")];
    Module::read(&format!("etcd-{minor}"), programs)
}

/// Kubernetes, and CoreDNS and Helm, which use the same packages: these are compiled once.
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
    // Without snapshotters that need libraries or devices. The nodes use overlayfs.
    module.tags("no_btrfs no_zfs no_devmapper no_aufs");
    Ok(module)
}

fn pause() -> Result<Module> {
    Module::read("pause", vec![Program::of("pause", ".")])
}

/// A program of this repository around the checker of linearizability.
fn porcupine() -> Result<Module> {
    Module::read("porcupine", vec![Program::of("porcupine", ".")])
}

/// A program of this repository around the library kstatus, and around scripts for Argo CD.
fn kstatus() -> Result<Module> {
    Module::read("kstatus", vec![Program::of("kstatus", ".")])
}

/// A program of this repository around the controllers of cert-manager, and its definitions of kinds.
fn cert_manager() -> Result<Module> {
    const PATH: &str = "github.com/cert-manager/cert-manager";
    let programs =
        vec![Program::of("cert-manager", "."), Program::yaml("cert-manager-crds.yaml", PATH, "deploy/crds")];
    let mut module = Module::read("cert-manager", programs)?;
    let version = module.version(PATH)?.to_owned();
    module.link(&format!("{PATH}/pkg/util.AppVersion"), &version);
    Ok(module)
}

/// Of which tests use the part that carries out NetworkPolicies.
fn kube_router() -> Result<Module> {
    const NAME: &str = "kube-router";
    Module::read(NAME, vec![Program::of(NAME, "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router")])
}

/// An S3 server that keeps buckets as directories.
fn versitygw() -> Result<Module> {
    const NAME: &str = "versitygw";
    Module::read(NAME, vec![Program::of(NAME, "github.com/versity/versitygw/cmd/versitygw")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_etcd_is_the_one_that_its_module_pins() {
        for minor in MINORS {
            let version = Build::etcd(minor).unwrap().etcd_version().unwrap();
            assert!(version.starts_with(&format!("{minor}.")), "{version}");
        }
    }

    #[test]
    fn every_module_pins_the_programs_that_are_built_from_it() {
        let others = [
            kubernetes(),
            containerd(),
            pause(),
            versitygw(),
            porcupine(),
            kstatus(),
            cert_manager(),
            kube_router(),
        ];
        let modules = MINORS.into_iter().map(etcd).chain(others);
        for module in modules {
            module.unwrap().check_pins().unwrap();
        }
    }
}
