//! The kube tier: the same behaviours on a real Kubernetes of this machine, with the operator from its own image, installed as
//! users install it; and what only a real Kubernetes shows.

mod permissions;

use std::process::Command;
use std::thread;

use anyhow::{Result, ensure};

use super::Context;
use super::nextest::Results;
use super::report::{State, Verdict};
use super::tiers::Tier;
use crate::image::{self, Previous};
use crate::{children, kube, manifests, repo, tools};

/// The minor version of etcd that clusters have.
pub const ETCD: &str = "3.6";

/// What the operator's image and its manifests are made of.
const OPERATOR: [&str; 4] = ["crates", "config/install", "Cargo.toml", "Cargo.lock"];

/// Builds all that is needed, if the machine can hold a cluster.
pub fn prepare(full: bool) -> Result<()> {
    if obstacle()?.is_some() {
        return Ok(());
    }
    // Both at once: each has minutes in which it uses one core only.
    thread::scope(|scope| {
        let images = scope.spawn(|| {
            // The previous one first: its build clears the workspace's crates from the target folder.
            if upgrades(full)? {
                Previous::build()?;
            }
            image::run_for_tests()
        });
        tools::build(tools::Set::Kubernetes)?;
        tools::build(tools::Set::S3)?;
        tools::build(tools::Set::CertManager)?;
        if full {
            tools::build(tools::Set::KubeRouter)?;
        }
        images.join().expect("building an image does not panic").map(drop)
    })
}

/// If the machine can hold a cluster: brings one up, runs everything and takes the cluster down. Images that this run prepared
/// are not built again.
pub fn run(context: &Context) -> Result<Verdict> {
    if let Some(obstacle) = obstacle()? {
        image::check()?;
        return Ok(Verdict::new(State::Skipped, format!("{obstacle};")));
    }
    let (previous, no_upgrade) = previous(context)?;
    let image = image::run_for_tests()?;
    let _up = Up::bring()?;
    kube::call(&["load", &image.display().to_string()])?;
    if let Some(previous) = &previous {
        kube::call(&["load", &previous.image.display().to_string()])?;
    }
    let mut results = Results::default();
    let mut variables = vec![
        ("QUORATE_TEST_KUBECONFIG", kube::kubeconfig()),
        ("QUORATE_TEST_KUBE", kube::program()?),
        ("QUORATE_TOOLS_BIN_DIR", repo::tools_bin()),
        ("QUORATE_TARGET_DIR", repo::target()),
        ("QUORATE_TEST_IMAGE", image.clone()),
    ];
    variables.extend(previous.iter().map(|previous| ("QUORATE_TEST_PREVIOUS", previous.manifests.clone())));
    let mut stories = |profile: &str| results.run(context, profile, Some(ETCD), &variables);

    stories("kube-install")?;
    let faults = manifests::drift()?;
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    kubectl(&["apply", "--server-side", "-f", "config/crd"])?;
    stories("kube-before")?;
    // Before the operator's very first request.
    let requests = permissions::Watch::start()?;
    install()?;
    stories("kube")?;
    // A part of the tests does not use every permission.
    let faults = if context.only.is_empty() { requests.faults()? } else { Vec::new() };
    stories("kube-alone")?;
    // Also if this one was asked for.
    if context.full || !context.only.is_empty() {
        stories("kube-full")?;
    }

    let mut verdict = results.verdict(Tier::Kube, context);
    verdict.what += no_upgrade;
    if !faults.is_empty() {
        verdict.state = State::Failed;
        verdict.what = format!("{}, {} wrong permissions,", verdict.what, faults.len());
        verdict.failed.extend(faults.iter().map(|fault| format!("permissions: {fault}")));
        // They are judged over all requests of the tier.
        verdict.again = Some("cargo xtask test kube".to_owned());
    }
    Ok(verdict)
}

/// The commit before, if an upgrade from it is tested; else why not, in the words of the closing line.
fn previous(context: &Context) -> Result<(Option<Previous>, &'static str)> {
    if !upgrades(context.full)? {
        return Ok((None, ", no upgrade since the operator did not change,"));
    }
    let previous = match Previous::built().filter(|_| context.prepared) {
        Some(previous) => Some(previous),
        None => Previous::build()?,
    };
    let note = if previous.is_none() { ", no upgrade for want of an earlier commit," } else { "" };
    Ok((previous, note))
}

/// Whether the upgrade from the commit before is tested: always with `--full`, else if the operator changed since.
fn upgrades(full: bool) -> Result<bool> {
    Ok(full || Previous::is_chosen() || Previous::differs_in(&OPERATOR)?)
}

/// What this machine lacks and xtask cannot install. That is no failure of what is tested.
pub fn obstacle() -> Result<Option<String>> {
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

/// Installs the operator as docs/install.md describes.
fn install() -> Result<()> {
    kubectl(&["apply", "--server-side", "-f", "config/install/quorate.yaml"])?;
    kubectl(&["-n", "quorate-system", "rollout", "status", "deployment/quorate", "--timeout=2m"])
}

fn kubectl(args: &[&str]) -> Result<()> {
    let mut kubectl = Command::new(repo::tools_bin().join("kubectl"));
    children::run(kubectl.args(args).env("KUBECONFIG", kube::kubeconfig()).current_dir(repo::root()))
}
