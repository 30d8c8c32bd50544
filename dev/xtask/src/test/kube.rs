//! L5: the same behaviours on a real Kubernetes of this machine, with the operator from its own image, installed as its
//! users install it; and what only a real Kubernetes shows.

mod permissions;

use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::layers::{Count, nextest, verdict, version};
use super::{State, Verdict};
use crate::image::{self, Previous};
use crate::{children, kube, manifests, repo, tools};

/// The etcd version that clusters have.
const ETCD: &str = "3.6";

/// Builds all that is needed, where the machine can hold a cluster.
pub fn prepare() -> Result<()> {
    if obstacle()?.is_some() {
        return Ok(());
    }
    // Both at once: each has minutes in which one core is all that it uses.
    thread::scope(|scope| {
        let images = scope.spawn(|| {
            // In this order: what the other builds of the same crates is cleared away.
            Previous::build()?;
            image::run_for_tests()
        });
        tools::build(tools::Set::Kubernetes)?;
        images.join().expect("building an image does not panic").map(drop)
    })
}

/// Where the machine can hold a cluster: runs everything and takes the cluster down again. Images that were just prepared are
/// not built again.
pub fn run(until: Instant, prepared: bool) -> Result<Verdict> {
    if let Some(obstacle) = obstacle()? {
        return Ok(Verdict { state: State::Skipped, what: format!("{obstacle};") });
    }
    let previous = match Previous::built().filter(|_| prepared) {
        Some(previous) => Some(previous),
        None => Previous::build()?,
    };
    let image = image::run_for_tests()?;
    let _up = Up::bring()?;
    kube::call(&["load", &image.display().to_string()])?;
    if let Some(previous) = &previous {
        kube::call(&["load", &previous.image.display().to_string()])?;
    }
    let mut count = Count::default();
    let mut left = Vec::new();
    let mut stories = |profile: &str| -> Result<()> {
        let mut variables = vec![
            ("QUORATE_TEST_KUBECONFIG", kube::kubeconfig()),
            ("QUORATE_TEST_KUBE", kube::program()),
            ("QUORATE_TOOLS_BIN_DIR", repo::tools_bin()),
            ("QUORATE_TARGET_DIR", repo::target()),
        ];
        variables
            .extend(previous.iter().map(|previous| ("QUORATE_TEST_PREVIOUS", previous.manifests.clone())));
        left.extend(nextest(profile, Some(&version(ETCD)?), &variables, &mut count, until)?);
        Ok(())
    };

    stories("kube-install")?;
    let faults = manifests::drift()?;
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    // What it asks for from its very first request on.
    let asked = permissions::Watch::start()?;
    install()?;
    stories("kube")?;
    let faults = asked.faults()?;
    stories("kube-alone")?;

    let mut verdict = verdict(&count, &left);
    if previous.is_none() {
        verdict.what += ", no upgrade of the operator for want of an earlier commit,";
    }
    for fault in &faults {
        eprintln!("permissions: {fault}");
    }
    if !faults.is_empty() {
        verdict.state = State::Failed;
        verdict.what = format!("{}, {} wrong permissions,", verdict.what, faults.len());
    }
    Ok(verdict)
}

/// What this machine lacks and cannot be given: not a failure of what is tested.
fn obstacle() -> Result<Option<String>> {
    if let Some(obstacle) = kube::obstacle()? {
        return Ok(Some(obstacle));
    }
    let given = tools::install_packages().and_then(|()| image::prepare());
    Ok(given.err().map(|error| format!("{error:#}").replace('\n', " ")))
}

/// A Kubernetes that goes down with this.
struct Up;

impl Up {
    fn bring() -> Result<Self> {
        let up = Self;
        kube::call(&["up"])?;
        Ok(up)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if let Err(error) = kube::call(&["down"]) {
            eprintln!("Kubernetes is not down: {error:#}; cargo xtask kube down");
        }
    }
}

/// As docs/install.md says.
fn install() -> Result<()> {
    let kubectl = |args: &[&str]| {
        let mut kubectl = Command::new(repo::tools_bin().join("kubectl"));
        children::run(kubectl.args(args).env("KUBECONFIG", kube::kubeconfig()).current_dir(repo::root()))
    };
    kubectl(&["apply", "--server-side", "-f", "config/install/quorate.yaml"])?;
    kubectl(&["-n", "quorate-system", "rollout", "status", "deployment/quorate", "--timeout=2m"])
}
