//! The part of Pods that the planner needs: whether they run, and if not, why.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use quorate_api::job::{Answer, Failure};
use quorate_api::keys;
use quorate_model::restore::RestoreFailure;
use quorate_model::snapshot::{ImageVolume, Unready};
use quorate_model::target::PodRevision;
use quorate_model::{
    ClusterRef, ClusterUid, GuardVerdict, Instant, Leaf, MemberId, MemberName, Uid, snapshot,
};
use serde::Deserialize;

use crate::certificate::{Certificate, rotation};
use crate::flags::{self, STARTS_NEW};
use crate::labels::{is_labelled, is_owned_by};
use crate::objects::member_name;
use crate::pod::{AGENT, AGENT_VOLUME, ETCD, FETCH, INSTALL, RESTORED};
use crate::{bootstrap, quorum_recovery};

/// What the guard expects of the volume.
const EXPECTS: &str = "--expect=";

/// The scheduler of Pods that name none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The label that newer Kubernetes copies from the node.
const ZONE: &str = "topology.kubernetes.io/zone";

/// The error of etcd when its peers know the member and its data directory is empty.
const ALREADY_BOOTSTRAPPED: &str = "has already been bootstrapped";

/// The error of etcd's check at a start when the data differ from a peer's.
const DIFFERS_FROM_PEERS: &str = "found data inconsistency with peers";

/// The reason with which a container ended whose program could not be executed.
const START_ERROR: &str = "StartError";

/// The agent's program is in an empty directory of the node, which is under the kubelet's directory.
const NOT_EXECUTABLE: &str = "the node executes no program in a volume, since the file system of the kubelet's directory is mounted noexec. \
     Mount it without noexec, or give the operator --agent-delivery=image-volume";

/// The reason with which a container ended whose memory was used up.
const OUT_OF_MEMORY: &str = "OOMKilled";

/// What a busy container runtime answers for a moment, whatever the Pod.
const PASSING: [&str; 2] = ["deadline exceeded", "is reserved for"];

/// How much of a termination message is shown.
const SHOWN: usize = 300;

/// The last entry of etcd's log when it ends by an error.
#[derive(Deserialize)]
struct LastWords {
    level: String,
    msg: String,
    error: String,
}

/// The guard's termination message.
#[derive(Deserialize)]
struct Report {
    verdict: String,
    message: String,
    #[serde(default)]
    facts: Facts,
}

/// What it is based on, as far as it is used.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Facts {
    cluster_version: Option<String>,
}

/// The Pods of the cluster, by member.
pub(super) fn read(pods: &[&Pod], at: &ClusterRef, uid: &ClusterUid) -> BTreeMap<MemberName, snapshot::Pod> {
    let ours = pods.iter().filter(|pod| is_owned_by(&pod.metadata, uid));
    ours.filter_map(|pod| Some((member_name(&pod.metadata, at)?, read_one(pod, at)))).collect()
}

fn read_one(pod: &Pod, at: &ClusterRef) -> snapshot::Pod {
    let meta = &pod.metadata;
    let none = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&none);
    let phase = status.phase.as_deref().unwrap_or_default();
    let etcd = container(status, ETCD);
    let annotation = |key: &str| meta.annotations.as_ref().and_then(|annotations| annotations.get(key));
    let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key));
    let revision = annotation(keys::REVISION);
    // What it said before it served is history.
    let unserved = etcd.filter(|etcd| !has_been_ready(status, etcd));
    let guard = guard(status);
    snapshot::Pod {
        uid: Uid::new(meta.uid.clone().unwrap_or_default()),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        terminating: meta.deletion_timestamp.is_some(),
        finished: phase == "Failed" || phase == "Succeeded",
        ready: condition(status, "Ready").is_some_and(|ready| ready.status == "True"),
        ip: status.pod_ip.clone().filter(|ip| !ip.is_empty()),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        zone: label(ZONE).cloned(),
        revision: PodRevision(revision.cloned().unwrap_or_default()),
        trust: annotation(keys::TRUST).and_then(|trust| rotation::generation(trust)).unwrap_or(0),
        has_credential: has_credential(pod, at),
        gated: is_gated(pod),
        boots_new: starts_new(pod),
        read_only: member_name(meta, at).and_then(|member| quorum_recovery::read(pod, &member, etcd)),
        restores: restores(pod),
        restore_failure: restore_failure(status),
        fetches: container(status, FETCH).is_some_and(is_running),
        runs: etcd.is_some_and(is_running),
        mounting: etcd.filter(|etcd| !is_running(etcd) && !has_run(etcd)).and_then(|_| mounting(status)),
        node_says: None,
        stops_by: meta.deletion_timestamp.as_ref().map(|at| Instant(at.0.as_millisecond())),
        joined: annotation(keys::JOINED).is_some_and(|value| value == keys::JOINED_VALUE),
        labelled: is_labelled(meta, at)
            && label(keys::JOINED).is_some_and(|value| value == keys::JOINED_VALUE),
        serves: label(keys::SERVES).is_some_and(|value| value == keys::SERVES_VALUE),
        served_until: annotation(keys::SERVED_UNTIL)
            .and_then(|at| Some(Instant(at.parse::<Timestamp>().ok()?.as_millisecond()))),
        // The agent runs first, for as long as the restore takes.
        has_run: etcd
            .is_some_and(|etcd| if restores(pod) { has_been_ready(status, etcd) } else { has_run(etcd) }),
        unready: etcd.and_then(|etcd| unready(status, etcd)),
        restarts: etcd.map_or(0, |etcd| u32::try_from(etcd.restart_count).unwrap_or(0)),
        already_bootstrapped: etcd.is_some_and(|etcd| ended_with(etcd, ALREADY_BOOTSTRAPPED)),
        differs_from_peers: unserved.is_some_and(|etcd| ended_with(etcd, DIFFERS_FROM_PEERS)),
        refused_by_check: unserved.and_then(|etcd| ends(etcd).find_map(refused_by_check)),
        image: etcd_image(pod),
        installs_agent: installs_agent(pod),
        image_volume: image_volume(pod, status),
        guard: guard.as_ref().map(|(verdict, report)| (*verdict, report.message.clone())),
        data_need: guard.and_then(|(_, report)| report.facts.cluster_version?.parse().ok()),
        trouble: trouble(pod, status),
        quota: quota(pod),
    }
}

/// Whether one of the last termination messages has this text.
fn ended_with(etcd: &ContainerStatus, text: &str) -> bool {
    ends(etcd).any(|end| end.message.as_ref().is_some_and(|message| message.contains(text)))
}

/// The member that etcd's check at the start refused, if that ended this run: `InitialCheck` returns the error, and etcd's main logs it
/// as its last entry. The text alone proves nothing, since an entry of the log may show what a client wrote.
fn refused_by_check(end: &ContainerStateTerminated) -> Option<MemberId> {
    let last = end.message.as_ref()?.lines().rev().find(|line| !line.trim().is_empty())?;
    let LastWords { level, msg, error } = serde_json::from_str(last.trim()).ok()?;
    let is_end = end.exit_code == 1 && level == "fatal" && msg == "discovery failed";
    let id = error.strip_suffix(DIFFERS_FROM_PEERS).filter(|_| is_end)?;
    u64::from_str_radix(id.trim(), 16).ok().map(MemberId)
}

/// The image of etcd's container.
fn etcd_image(pod: &Pod) -> Option<String> {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.find(|container| container.name == ETCD)?.image.clone()
}

/// Whether its volume of the client's certificate is that of the operator's.
fn has_credential(pod: &Pod, at: &ClusterRef) -> bool {
    let own = Certificate::from(Leaf::Operator).secret_name(at);
    let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .any(|volume| volume.secret.as_ref().is_some_and(|secret| secret.secret_name.as_ref() == Some(&own)))
}

fn is_gated(pod: &Pod) -> bool {
    gates(pod).any(|gate| gate == keys::BOOTSTRAP_GATE)
}

fn gates(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten()).map(|gate| &*gate.name)
}

fn starts_new(pod: &Pod) -> bool {
    args(pod).any(|arg| arg == STARTS_NEW)
}

fn restores(pod: &Pod) -> bool {
    args(pod).any(|arg| arg.strip_prefix(EXPECTS) == Some(RESTORED))
}

/// Why the agent could not fetch or restore the snapshot, by the message with which its container ended last. It counts until that has
/// succeeded, or until a later run of etcd's is ready for the first time.
fn restore_failure(status: &PodStatus) -> Option<RestoreFailure> {
    let etcd = container(status, ETCD).filter(|etcd| !has_been_ready(status, etcd))?;
    let end = container(status, FETCH).and_then(unfetched).or_else(|| ends(etcd).next())?;
    let Failure { kind, message, database_bytes: _, wrote: _ } = failure(end.message.as_deref()?)?;
    Some(RestoreFailure::new(bootstrap::cause(kind.into()), message))
}

/// How the container that fetches ended the last time, unless it has fetched.
fn unfetched(fetch: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    ends(fetch).next().filter(|end| end.exit_code != 0)
}

/// The agent's answer that it failed, if the message is one.
fn failure(message: &str) -> Option<Failure> {
    let Answer::Failed(failure) = serde_json::from_str(message.trim()).ok()? else { return None };
    Some(failure)
}

/// The arguments of etcd's container.
fn args(pod: &Pod) -> impl Iterator<Item = &String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.filter(|container| container.name == ETCD).flat_map(|etcd| etcd.args.iter().flatten())
}

/// Whether anything reads an argument of etcd's container.
pub(super) fn is_read(arg: &str) -> bool {
    arg == STARTS_NEW || arg.starts_with(EXPECTS) || flags::sets_quota(arg)
}

/// Whether etcd's container runs.
pub(super) fn etcd_runs(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| container(status, ETCD)).is_some_and(is_running)
}

/// The quota of the database by the flags of this Pod, not by those of the spec: the process keeps it until it is replaced.
fn quota(pod: &Pod) -> Option<u64> {
    flags::quota(args(pod))
}

/// Whether it runs, or may have run. An attempt whose program could not be executed did not run; only the last two attempts are
/// shown.
fn has_run(container: &ContainerStatus) -> bool {
    let not_executed = ends(container).filter(|end| is_not_executed(end)).count();
    let restarts = usize::try_from(container.restart_count).unwrap_or_default();
    let hidden = restarts > 0 && restarts + 1 > not_executed;
    is_running(container) || hidden || ends(container).count() > not_executed
}

fn is_running(container: &ContainerStatus) -> bool {
    container.state.as_ref().is_some_and(|state| state.running.is_some())
}

fn is_not_executed(end: &ContainerStateTerminated) -> bool {
    end.reason.as_deref() == Some(START_ERROR)
}

/// Whether an init container brings the agent.
fn installs_agent(pod: &Pod) -> bool {
    let all = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    all.into_iter().any(|container| container.name == INSTALL)
}

/// The image of which a volume brings the agent.
fn agent_image(pod: &Pod) -> Option<&str> {
    let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.find(|volume| volume.name == AGENT_VOLUME)?.image.as_ref()?.reference.as_deref()
}

/// What keeps a Pod from running that gets the agent by an image volume.
fn image_volume(pod: &Pod, status: &PodStatus) -> Option<ImageVolume> {
    let etcd = container(status, ETCD).filter(|etcd| !is_running(etcd) && !installs_agent(pod))?;
    if agent_image(pod).is_none() {
        // An API server that does not know the field, or has it turned off, drops it without a word.
        return Some(ImageVolume::Refused("the API server dropped the image volume".to_owned()));
    }
    let waiting = etcd.state.as_ref()?.waiting.as_ref()?;
    let message = waiting.message.as_deref().unwrap_or("no message");
    match waiting.reason.as_deref()? {
        // The second where an init container comes before it.
        "ContainerCreating" | "PodInitializing" if !has_run(etcd) => {
            Some(ImageVolume::Mounting(mounting(status)?))
        }
        reason @ "CreateContainerError" if !PASSING.iter().any(|passing| message.contains(passing)) => {
            Some(ImageVolume::Refused(format!("{reason}: {message}")))
        }
        // Some container runtimes mount image volumes noexec.
        "CrashLoopBackOff" | "RunContainerError" => {
            let end = ends(etcd).next().filter(|end| is_not_executed(end))?;
            Some(ImageVolume::Refused(end_in_words(end)))
        }
        _ => None,
    }
}

/// Since when the Pod is bound to a node that has not set up its volumes and its network yet.
fn mounting(status: &PodStatus) -> Option<Instant> {
    // Images are pulled only after this condition is true.
    condition(status, "PodReadyToStartContainers").filter(|ready| ready.status == "False")?;
    let bound = condition(status, "PodScheduled").filter(|bound| bound.status == "True")?;
    Some(Instant(bound.last_transition_time.as_ref()?.0.as_millisecond()))
}

/// How the readiness probe fails. The container's own status counts as well as the condition: the node controller makes Pods not
/// ready whose node does not report, but never containers, and another container of the Pod may not be ready.
fn unready(status: &PodStatus, etcd: &ContainerStatus) -> Option<Unready> {
    let running = etcd.state.as_ref().and_then(|state| state.running.as_ref()).filter(|_| !etcd.ready)?;
    let condition = condition(status, "Ready").filter(|ready| ready.status == "False")?;
    let instant = |time: &Time| Instant(time.0.as_millisecond());
    let started = running.started_at.as_ref().map(instant)?;
    let changed = condition.last_transition_time.as_ref().map_or(started, instant);
    let was_ready = has_been_ready(status, etcd);
    Some(if was_ready { Unready::NoMore } else { Unready::NotYet(started.max(changed)) })
}

/// Whether the run of this container that is under way was ready once. What the kubelet says of all containers became false before this
/// run started unless it was true in between. (The condition `Ready` is written by the node controller, too.)
fn has_been_ready(status: &PodStatus, container: &ContainerStatus) -> bool {
    let Some(running) = container.state.as_ref().and_then(|state| state.running.as_ref()) else {
        return false;
    };
    let lost = || condition(status, "ContainersReady").filter(|ready| ready.status == "False");
    let lost_at = || lost()?.last_transition_time.as_ref().map(|at| at.0);
    container.ready
        || running.started_at.as_ref().zip(lost_at()).is_some_and(|(started, lost)| lost > started.0)
}

/// The refusal with which the container ended last. It counts until a later run is ready for the first time: while that run is at
/// its guard, nothing else is known.
fn guard(status: &PodStatus) -> Option<(GuardVerdict, Report)> {
    let etcd = container(status, ETCD)?;
    if has_been_ready(status, etcd) {
        return None;
    }
    // Before a snapshot is fetched the guard looks at the volume, too.
    let end = container(status, FETCH).and_then(unfetched).or_else(|| ends(etcd).next())?;
    let message = end.message.as_ref()?;
    let report: Report = serde_json::from_str(message.trim()).ok()?;
    let verdict: GuardVerdict = report.verdict.parse().ok()?;
    (verdict != GuardVerdict::Fit).then_some((verdict, report))
}

/// Why the Pod cannot run. Only lasting causes, with a text that stays the same while they last.
fn trouble(pod: &Pod, status: &PodStatus) -> Option<String> {
    if status.phase.as_deref() == Some("Failed") {
        let why = [status.reason.as_deref(), status.message.as_deref()];
        let why: Vec<&str> = why.into_iter().flatten().collect();
        return Some(if why.is_empty() { "Failed".to_owned() } else { why.join(": ") });
    }
    let unscheduled = condition(status, "PodScheduled")
        .filter(|scheduled| scheduled.status == "False")
        .and_then(|scheduled| {
            let message = scheduled.message.as_deref();
            match scheduled.reason.as_deref()? {
                reason @ ("Unschedulable" | "SchedulerError") => {
                    Some(format!("{reason}: {}", message.unwrap_or("no node fits")))
                }
                _ => None,
            }
        });
    let mut containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    unscheduled
        .or_else(|| other_gates(pod))
        .or_else(|| no_scheduler(pod, status))
        .or_else(|| containers.find_map(|container| trouble_of(pod, status, container)))
}

/// A scheduler that does not exist reports nothing. Every Kubernetes has the default one.
fn no_scheduler(pod: &Pod, status: &PodStatus) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let scheduler = spec.scheduler_name.as_deref().filter(|scheduler| *scheduler != DEFAULT_SCHEDULER)?;
    let is_unnoticed = spec.node_name.is_none() && condition(status, "PodScheduled").is_none();
    is_unnoticed.then(|| {
        format!("NotScheduled: scheduler {scheduler}, which podTemplate.spec.schedulerName names, has not reported on the Pod")
    })
}

/// Scheduling gates of others, such as queues and quotas.
fn other_gates(pod: &Pod) -> Option<String> {
    let others: Vec<&str> = gates(pod).filter(|gate| *gate != keys::BOOTSTRAP_GATE).collect();
    (!others.is_empty())
        .then(|| format!("SchedulingGated: the Pod has the scheduling gates {}", others.join(", ")))
}

fn trouble_of(pod: &Pod, status: &PodStatus, container: &ContainerStatus) -> Option<String> {
    let name = &container.name;
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    if let Some(waiting) = waiting {
        let message = waiting.message.as_deref().unwrap_or_default();
        return match waiting.reason.as_deref()? {
            "PodInitializing" | "ContainerCreating" => None,
            // The two alternate while the kubelet tries again; a status that followed them would change forever.
            "ErrImagePull" | "ImagePullBackOff" => {
                let volume = agent_image(pod).filter(|_| *name == ETCD);
                let or_volume =
                    volume.map_or_else(String::new, |image| format!(", or the image {image} of its volume,"));
                Some(format!(
                    "ErrImagePull: the image {} of {name}{or_volume} cannot be pulled",
                    container.image
                ))
            }
            "CrashLoopBackOff" | "RunContainerError" | "CreateContainerError"
                if installs_agent(pod) && not_executable(container, message) =>
            {
                Some(format!("NotExecutable: {name}: {NOT_EXECUTABLE}"))
            }
            "CrashLoopBackOff" if was_killed_for_memory(status, container) => Some(out_of_memory(name)),
            // The kubelet's own message counts the time.
            "CrashLoopBackOff" => {
                let end = ends(container).next().map(end_in_words);
                Some(format!(
                    "CrashLoopBackOff: {name} {}",
                    end.unwrap_or_else(|| "ends again and again".to_owned())
                ))
            }
            reason if message.is_empty() => Some(format!("{reason}: {name}")),
            reason => Some(format!("{reason}: {name}: {message}")),
        };
    }
    // A container that ended is about to be restarted: that it ended is no lasting cause. One that the kernel kills again and again runs
    // in between, and does not answer.
    let is_killed_again =
        !container.ready && container.restart_count > 1 && was_killed_for_memory(status, container);
    is_killed_again.then(|| out_of_memory(name))
}

/// Whether it ended the last time because its memory was used up, and does not serve since.
fn was_killed_for_memory(status: &PodStatus, container: &ContainerStatus) -> bool {
    !has_been_ready(status, container)
        && ends(container).next().is_some_and(|end| end.reason.as_deref() == Some(OUT_OF_MEMORY))
}

fn out_of_memory(name: &str) -> String {
    format!(
        "{OUT_OF_MEMORY}: the kernel kills {name} again and again, because its memory is used up. Raise \
         podTemplate.spec.resources.limits.memory; without a limit, the node is short of memory"
    )
}

/// Whether the node refuses to execute the agent's program.
fn not_executable(container: &ContainerStatus, message: &str) -> bool {
    let ends = ends(container).filter_map(|end| end.message.as_deref());
    ends.chain([message])
        .any(|text| text.contains(AGENT) && text.to_lowercase().contains("permission denied"))
}

fn end_in_words(end: &ContainerStateTerminated) -> String {
    let reason = end.reason.as_deref().filter(|reason| *reason != "Error");
    let how = match (reason, end.signal) {
        (Some(reason), _) => format!("ended: {reason} (exit code {})", end.exit_code),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => format!("ended with exit code {}", end.exit_code),
    };
    let words = end.message.as_deref().map(last_words).unwrap_or_default();
    if words.is_empty() { how } else { format!("{how}: {words}") }
}

/// The last line that is not empty. etcd logs JSON: then its message and its error.
fn last_words(message: &str) -> String {
    #[derive(Deserialize)]
    struct Line {
        msg: Option<String>,
        error: Option<String>,
        message: Option<String>,
    }
    if let Some(Failure { message, .. }) = failure(message) {
        return message;
    }
    let lines = || message.lines().map(str::trim).filter(|line| !line.is_empty());
    let parsed = lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()).next_back();
    let words = match parsed {
        Some(Line { msg, error, message }) => {
            [msg, message, error].into_iter().flatten().collect::<Vec<_>>().join(": ")
        }
        None => lines().next_back().unwrap_or_default().to_owned(),
    };
    let cut = words.floor_char_boundary(SHOWN);
    if cut < words.len() { format!("{}...", &words[..cut]) } else { words }
}

/// How a container ended, the last time first.
fn ends(container: &ContainerStatus) -> impl Iterator<Item = &ContainerStateTerminated> {
    let states = [container.state.as_ref(), container.last_state.as_ref()];
    states.into_iter().flatten().filter_map(|state| state.terminated.as_ref())
}

fn container<'a>(status: &'a PodStatus, name: &str) -> Option<&'a ContainerStatus> {
    let mut all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.find(|container| container.name == name)
}

fn condition<'a>(status: &'a PodStatus, type_: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}
