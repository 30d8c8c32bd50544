//! Many clusters while the operator is replaced by one whose agent has another reference, which rolls every Pod, in waves.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use quorate_scenarios::{Kubernetes, Writer, agent_image, is_ready, spec};
use serde_json::json;

use super::super::super::wait::until;
use super::super::rig::{OPERATOR, Rig};
use super::verdict;

/// How long all of them may take.
const LONG: Duration = Duration::from_mins(60);

/// How many are created at a time.
const AT_A_TIME: usize = 3;

const LABEL: &str = "operator.etcd.io/cluster";

const FLAG: &str = "--agent-image=";

/// Measures and prints.
pub async fn run(rig: &Rig, ones: u32, threes: u32) -> Result<()> {
    // Dropped last: the clusters are gone before the operator is what it was.
    let args = Args::of(rig).await?;
    let world = Kubernetes::start_in(rig.kubeconfig()).await?;
    let names = |kind: &str, count: u32| (0..count).map(|n| format!("{kind}-{n}")).collect::<Vec<_>>();
    let (ones, threes) = (names("one", ones), names("three", threes));
    let of_size =
        |names: &[String], size: usize| names.iter().map(|name| (name.clone(), size)).collect::<Vec<_>>();
    let all = [of_size(&threes, 3), of_size(&ones, 1)].concat();
    let create = async |name: String, size: usize| {
        world.create(&name, spec(size)).await?;
        world.settled(&name, size).await
    };
    let mut creations =
        stream::iter(all.clone()).map(|(name, size)| create(name, size)).buffer_unordered(AT_A_TIME);
    while creations.try_next().await?.is_some() {}
    drop(creations);
    println!("{} clusters of one and {} of three have settled", ones.len(), threes.len());
    let mut writers = Vec::new();
    for name in &threes {
        writers.push((name, Writer::start(&world, name).await?));
    }

    let start = Instant::now();
    let desired = args.change(rig).await?;
    let mut most = Down::default();
    let pods_needed = ones.len() + 3 * threes.len();
    until("every Pod has the agent of the new operator", LONG, async || {
        let pods = world.pods().list(&ListParams::default().labels(LABEL)).await?.items;
        most.note(&pods, &ones, &threes);
        let is_new = |pod: &&Pod| is_ready(pod) && agent_image(pod).as_ref() == Some(&desired);
        let done = pods.iter().filter(is_new).count();
        Ok((done != pods_needed).then(|| format!("{done} of {pods_needed}")))
    })
    .await?;
    let took = start.elapsed().as_secs_f64();
    for (name, size) in &all {
        world.settled(name, *size).await?;
    }

    let (mut failed, mut dropped, mut transfers, mut acknowledged, mut longest) = (0, 0, 0, 0, 0.0_f64);
    for (name, writer) in writers {
        let written = writer.stop().await?;
        written.are_all_readable(&world, name).await?;
        let figures = written.figures();
        failed += figures.failed;
        dropped += figures.dropped;
        transfers += figures.leader_changes;
        acknowledged += figures.acknowledged;
        longest = longest.max(figures.pause.length.as_secs_f64());
        for (message, count) in &figures.messages {
            println!("{name}: failed {count} times: {message}");
        }
    }
    println!(
        "\nan operator with another agent image, {} clusters of one and {} of three: {took:.0} s until every Pod has it; size 3: \
         {failed} failed beside transfers, {dropped} dropped in {transfers} transfers, 0 lost of {acknowledged}, longest pause \
         {longest:.2}",
        ones.len(),
        threes.len(),
    );
    println!("clusters of one that were down at the same time: {} at most; of all: {}", most.ones, most.all);
    println!(
        "no write failed at size 3: {}; clusters of one go one at a time: {}",
        verdict(failed == 0),
        verdict(most.ones <= 1)
    );
    Ok(())
}

/// How many clusters lacked a ready Pod at the same time, at most.
#[derive(Default)]
struct Down {
    ones: usize,
    all: usize,
}

impl Down {
    fn note(&mut self, pods: &[Pod], ones: &[String], threes: &[String]) {
        let lacks = |names: &[String], size: usize| {
            let ready = |name: &str| {
                let own = pods.iter().filter(|pod| pod.labels().get(LABEL).is_some_and(|of| of == name));
                own.filter(|pod| is_ready(pod)).count()
            };
            names.iter().filter(|name| ready(name) < size).count()
        };
        let down = lacks(ones, 1);
        self.ones = self.ones.max(down);
        self.all = self.all.max(down + lacks(threes, 3));
    }
}

/// The arguments of the operator, which are put back when this is dropped.
struct Args<'a> {
    rig: &'a Rig,
    before: Vec<String>,
}

impl<'a> Args<'a> {
    async fn of(rig: &'a Rig) -> Result<Self> {
        let api: Api<Deployment> = Api::namespaced(rig.client(OPERATOR.0).await?, OPERATOR.0);
        let spec = api.get(OPERATOR.1).await?.spec.and_then(|spec| spec.template.spec);
        let container = spec.and_then(|spec| spec.containers.into_iter().next());
        let before =
            container.and_then(|container| container.args).context("the operator has no arguments")?;
        Ok(Self { rig, before })
    }

    /// Gives the operator another reference of the same image. Returns the reference, once the new operator runs.
    async fn change(&self, rig: &Rig) -> Result<String> {
        let image = self.before.iter().find_map(|arg| arg.strip_prefix(FLAG));
        let image = image.context("the operator has no argument for the agent's image")?;
        let other = match image.strip_prefix("docker.io/library/") {
            Some(short) => short.to_owned(),
            None => format!("docker.io/library/{image}"),
        };
        ensure!(
            !image.contains('/') || image.starts_with("docker.io/library/"),
            "{image} is not an image that was loaded"
        );
        let change =
            |arg: &String| if arg.starts_with(FLAG) { format!("{FLAG}{other}") } else { arg.clone() };
        let args: Vec<String> = self.before.iter().map(change).collect();
        let distinct: BTreeSet<&String> = args.iter().chain(&self.before).collect();
        ensure!(distinct.len() == args.len() + 1, "one argument changes");
        rig.kubectl(&patch(&args).each_ref().map(String::as_str)).await?;
        rig.wait_for_rollout().await?;
        Ok(other)
    }
}

impl Drop for Args<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.rig.kubectl_now(&patch(&self.before).each_ref().map(String::as_str)) {
            eprintln!("the operator keeps the arguments of the measurement: {error:#}");
        }
    }
}

/// The words of kubectl that give the operator these arguments.
fn patch(args: &[String]) -> [String; 7] {
    let patch = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": args}]);
    ["-n", OPERATOR.0, "patch", "deployment", OPERATOR.1, "--type=json", &format!("-p={patch}")]
        .map(str::to_owned)
}
