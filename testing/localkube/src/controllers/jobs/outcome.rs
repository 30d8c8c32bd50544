//! Whether a Job is over, and why.

use jiff::{SignedDuration, Timestamp};
use quorate_apistore::fields::{flag, integer, items, text, time};
use serde_json::Value;

use super::tally::{Tally, has_failed};
use super::{failure_policy, is};

/// The end of a Job. It is in status before the Job's last Pods have stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Whether it succeeded.
    pub success: bool,
    /// The reason, in CamelCase.
    pub reason: String,
    /// The message.
    pub message: String,
}

impl Outcome {
    /// The end that status already has, else the one that follows from the Pods.
    pub fn of(job: &Value, tally: &Tally<'_>, pods: &[&Value], now: Timestamp) -> Option<Self> {
        Self::recorded(job)
            .or_else(|| Self::failure(job, tally, pods, now))
            .or_else(|| Self::success(job, tally))
    }

    /// The condition that records it while Pods stop, and the one at the end.
    pub fn conditions(&self) -> [&'static str; 2] {
        if self.success { ["SuccessCriteriaMet", "Complete"] } else { ["FailureTarget", "Failed"] }
    }

    fn recorded(job: &Value) -> Option<Self> {
        let interim = ["SuccessCriteriaMet", "FailureTarget"];
        let kind = interim.into_iter().find(|kind| is(job, kind))?;
        let condition = items(job, "/status/conditions").iter().find(|one| one["type"] == kind)?;
        let part = |pointer: &str| text(condition, pointer).to_owned();
        Some(Self { success: kind == interim[0], reason: part("/reason"), message: part("/message") })
    }

    fn failure(job: &Value, tally: &Tally<'_>, pods: &[&Value], now: Timestamp) -> Option<Self> {
        let failure =
            |reason: &str, message: String| Self { success: false, reason: reason.to_owned(), message };
        let failed = pods.iter().filter(|pod| has_failed(job, pod));
        if let Some(why) = failed.filter_map(|pod| failure_policy::fails_job(job, pod)).next() {
            return Some(failure("PodFailurePolicy", why));
        }
        let limit = integer(job, "/spec/backoffLimit").unwrap_or(6);
        if tally.failed.total() > limit || restarts_exceed(job, pods, limit) {
            let why = "Job has reached the specified backoff limit";
            return Some(failure("BackoffLimitExceeded", why.to_owned()));
        }
        deadline(job)
            .filter(|at| *at <= now)
            .map(|_| failure("DeadlineExceeded", "Job was active longer than specified deadline".to_owned()))
    }

    fn success(job: &Value, tally: &Tally<'_>) -> Option<Self> {
        let wanted = integer(job, "/spec/completions").unwrap_or(1);
        let reached = tally.succeeded.total() >= wanted && tally.active.is_empty();
        reached.then(|| Self {
            success: true,
            reason: "CompletionsReached".to_owned(),
            message: "Reached expected number of succeeded pods".to_owned(),
        })
    }
}

/// When a Job that runs has run for too long.
pub(super) fn deadline(job: &Value) -> Option<Timestamp> {
    let open = !flag(job, "/spec/suspend") && Outcome::recorded(job).is_none();
    let seconds = integer(job, "/spec/activeDeadlineSeconds").filter(|_| open)?;
    time(job, "/status/startTime")?.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// With `OnFailure` the kubelet restarts containers in the same Pod: these restarts count.
fn restarts_exceed(job: &Value, pods: &[&Value], limit: i64) -> bool {
    if job["spec"]["template"]["spec"]["restartPolicy"] != "OnFailure" {
        return false;
    }
    let open = pods.iter().filter(|pod| ["Running", "Pending"].contains(&text(pod, "/status/phase")));
    let statuses = open.flat_map(|pod| {
        ["/status/initContainerStatuses", "/status/containerStatuses"]
            .into_iter()
            .flat_map(|list| items(pod, list))
    });
    let restarts: i64 = statuses.filter_map(|status| integer(status, "/restartCount")).sum();
    restarts >= limit.max(1)
}
