//! What a Job has come to: the answer in the termination message of its Pod, or what Kubernetes says of the Job.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use quorate_api::Reason;
use quorate_api::job::{Answer, Failure, Task};
use quorate_manifests::job::{CONTAINER, FETCHES};
use quorate_model::Instant;

/// The longest part of a last word that a message quotes, in characters.
const QUOTED: usize = 300;
/// After so many milliseconds a Job has a Pod, unless something keeps it from having one.
const POD_AFTER: i64 = 30_000;
/// For so many milliseconds after a Job ended, its Pod's answer may still be on its way to the cache: two watches have no order.
const ANSWER_WITHIN: i64 = 60_000;

/// What a Job has come to.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one at a time, and never kept")]
pub enum JobOutcome {
    /// It has not ended. Where its Pod cannot run: why.
    Running(Option<String>),
    /// It has answered.
    Answered(Answer),
    /// It ended without an answer: why, as far as that is known.
    Lost(String),
}

/// What the Job of one task has come to.
pub(crate) enum Reply<'a, T> {
    Running(Option<&'a str>),
    Done(T),
    Failed(&'a Failure),
    /// It answered something else.
    NotAsked,
    Lost(&'a str),
}

/// What is said of [`Reply::NotAsked`].
pub(crate) const NOT_ASKED: &str = "the Job answered what it was not asked";

impl JobOutcome {
    /// What it is for a Job of this task.
    pub(crate) fn of<T: Task>(&self) -> Reply<'_, &T::Answered> {
        self.asked(T::answered)
    }

    /// The same where `asked` takes the answer to what was asked.
    pub(crate) fn asked<'a, T>(&'a self, asked: impl FnOnce(&'a Answer) -> Option<T>) -> Reply<'a, T> {
        match self {
            Self::Running(stuck) => Reply::Running(stuck.as_deref()),
            Self::Answered(Answer::Failed(failure)) => Reply::Failed(failure),
            Self::Answered(answer) => asked(answer).map_or(Reply::NotAsked, Reply::Done),
            Self::Lost(text) => Reply::Lost(text),
        }
    }
}

impl<T> Reply<'_, T> {
    /// What was done, or else why not. `None` while it runs.
    pub(crate) fn ended(self) -> Option<Result<T, (Reason, String)>> {
        Some(match self {
            Self::Running(_) => return None,
            Self::Done(answered) => Ok(answered),
            Self::Failed(failure) => Err((failure.kind.into(), failure.message.clone())),
            Self::NotAsked => Err((Reason::JobFailed, NOT_ASKED.to_owned())),
            Self::Lost(text) => Err((Reason::JobFailed, text.to_owned())),
        })
    }
}

/// What a Job has come to. A Pod that has answered counts also before the Job's status follows.
pub fn outcome<'a>(job: &Job, pods: impl Iterator<Item = &'a Pod> + Clone, now: Instant) -> JobOutcome {
    let uid = job.metadata.uid.as_deref();
    let own = |pod: &&Pod| {
        let mut owners = pod.metadata.owner_references.iter().flatten();
        uid.is_some() && owners.any(|owner| Some(owner.uid.as_str()) == uid)
    };
    let ended = pods.clone().filter(own).find_map(ended);
    let last_words = ended.as_ref().and_then(|ended| ended.message.as_deref()).unwrap_or_default();
    if let Ok(answer) = serde_json::from_str::<Answer>(last_words) {
        return JobOutcome::Answered(answer);
    }
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_over = |condition: &&_| is_over(condition);
    let Some(over) = conditions.into_iter().find(is_over) else {
        let mut pods = pods.filter(own).peekable();
        let without_pod = pods.peek().is_none().then(|| pod_is_missing(job, now));
        return JobOutcome::Running(without_pod.flatten().or_else(|| pods.find_map(stuck)));
    };
    let over_at = over.last_transition_time.as_ref().map(|time| time.0.as_millisecond());
    if ended.is_none() && over_at.is_some_and(|at| now.0.saturating_sub(at) < ANSWER_WITHIN) {
        return JobOutcome::Running(None);
    }
    let quoted: String = last_words.trim().chars().take(QUOTED).collect();
    let said = match (quoted.is_empty(), &ended) {
        (false, _) => format!("its last words were: {quoted}"),
        (true, Some(ended)) => format!("its container ended with code {}", ended.exit_code),
        (true, None) => "its Pod is gone".to_owned(),
    };
    let reason = over.reason.as_deref().unwrap_or("no reason");
    let name = job.metadata.name.as_deref().unwrap_or_default();
    JobOutcome::Lost(format!("Job {name} ended without an answer ({reason}); {said}"))
}

fn is_over(condition: &k8s_openapi::api::batch::v1::JobCondition) -> bool {
    ["Complete", "Failed"].contains(&condition.type_.as_str()) && condition.status == "True"
}

/// How the Pod's work has ended: in the container that answers, or before, where that which fetches for it has failed.
fn ended(pod: &Pod) -> Option<ContainerStateTerminated> {
    let terminated = |status: &ContainerStatus| status.state.as_ref()?.terminated.clone();
    let unfetched = fetches(pod).and_then(terminated).filter(|end| end.exit_code != 0);
    unfetched.or_else(|| container(pod).and_then(terminated))
}

fn container(pod: &Pod) -> Option<&ContainerStatus> {
    let mut statuses = pod.status.as_ref()?.container_statuses.iter().flatten();
    statuses.find(|status| status.name == CONTAINER)
}

fn fetches(pod: &Pod) -> Option<&ContainerStatus> {
    let mut statuses = pod.status.as_ref()?.init_container_statuses.iter().flatten();
    statuses.find(|status| status.name == FETCHES)
}

/// That a Job has no Pod, where that is no matter of seconds any more: a quota, an admission webhook.
fn pod_is_missing(job: &Job, now: Instant) -> Option<String> {
    let created = job.metadata.creation_timestamp.as_ref()?.0.as_millisecond();
    let name = job.metadata.name.as_deref().unwrap_or_default();
    (now.0.saturating_sub(created) > POD_AFTER)
        .then(|| format!("no Pod of Job {name} exists yet: kubectl describe job {name}"))
}

/// Why a Pod does not run, where that may need a person.
fn stuck(pod: &Pod) -> Option<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let status = pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let unscheduled = conditions.find(|one| one.type_ == "PodScheduled" && one.status == "False");
    if let Some(condition) = unscheduled {
        let why = condition.message.as_deref().unwrap_or("it is not scheduled");
        return Some(format!("Pod {name} is not scheduled: {why}"));
    }
    let mut containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let is_normal = |reason: &&str| *reason == "ContainerCreating" || *reason == "PodInitializing";
    let (waiting, reason) = containers.find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        Some((waiting, waiting.reason.as_deref().filter(|reason| !is_normal(reason))?))
    })?;
    let message = waiting.message.as_deref().unwrap_or_default();
    Some(format!("Pod {name} does not start: {reason} {message}").trim_end().to_owned())
}
