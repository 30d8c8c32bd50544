//! The Pods of a Job, counted.

use std::collections::BTreeSet;

use quorate_apistore::fields::{condition, deleting, has_finalizer, integer, items, text, uid};
use serde_json::{Value, json};

use super::{TRACKING, failure_policy};

/// What became of a Job's Pods.
pub(super) struct Tally<'a> {
    /// Those that neither ended nor are being deleted.
    pub active: Vec<&'a Value>,
    /// How many of these are ready.
    pub ready: usize,
    /// How many are being deleted and have not ended.
    pub terminating: usize,
    /// Those whose finalizer is not needed any more: recorded in status, or ignored by the policy.
    pub counted: Vec<&'a Value>,
    /// Those that still have the finalizer.
    pub tracked: Vec<&'a Value>,
    /// Those that succeeded.
    pub succeeded: Count,
    /// Those that failed.
    pub failed: Count,
}

/// A counter of status, and the uids of Pods that it does not contain yet.
pub(super) struct Count {
    /// The counter.
    pub number: i64,
    /// The uids.
    pub uncounted: Vec<String>,
}

impl<'a> Tally<'a> {
    /// Counts the Pods of a Job.
    pub fn of(job: &Value, pods: &[&'a Value]) -> Self {
        let pods = || pods.iter().copied();
        let tracked: Vec<&Value> = pods().filter(|pod| has_finalizer(pod, TRACKING)).collect();
        let uids: BTreeSet<&str> = tracked.iter().map(|pod| uid(pod)).collect();
        let recorded: BTreeSet<&str> =
            ["succeeded", "failed"].into_iter().flat_map(|kind| uncounted(job, kind)).collect();
        let mut succeeded = Count::of(job, "succeeded", &uids);
        let mut failed = Count::of(job, "failed", &uids);
        let mut counted = Vec::new();
        for pod in &tracked {
            if recorded.contains(uid(pod)) {
                counted.push(*pod);
            } else if pod["status"]["phase"] == "Succeeded" {
                succeeded.uncounted.push(uid(pod).to_owned());
            } else if has_failed(job, pod) {
                if failure_policy::counts(job, pod) {
                    failed.uncounted.push(uid(pod).to_owned());
                } else {
                    counted.push(*pod);
                }
            }
        }
        let active: Vec<&Value> = pods().filter(|pod| !is_over(pod) && !deleting(pod)).collect();
        Self {
            ready: active.iter().filter(|pod| condition(pod, "Ready") == "True").count(),
            terminating: pods().filter(|pod| !is_over(pod) && deleting(pod)).count(),
            active,
            counted,
            tracked,
            succeeded,
            failed,
        }
    }
}

impl Count {
    fn of(job: &Value, kind: &str, tracked: &BTreeSet<&str>) -> Self {
        let (still, done): (Vec<&str>, Vec<&str>) =
            uncounted(job, kind).partition(|uid| tracked.contains(uid));
        let before = integer(job, &format!("/status/{kind}")).unwrap_or(0);
        Self { number: before + length(&done), uncounted: still.into_iter().map(str::to_owned).collect() }
    }

    /// All of them.
    pub fn total(&self) -> i64 {
        self.number + length(&self.uncounted)
    }
}

/// Whether a Pod counts as failed. One that is being deleted does, unless the Job replaces Pods only after their end; then one that
/// never had a node still does, because nobody will report its end.
pub(super) fn has_failed(job: &Value, pod: &Value) -> bool {
    let deleted = deleting(pod) && pod["status"]["phase"] != "Succeeded";
    let replaced = !waits_for_the_end(job) || text(pod, "/spec/nodeName").is_empty();
    pod["status"]["phase"] == "Failed" || (deleted && replaced)
}

/// Whether a Pod is replaced only after it has ended.
pub(super) fn waits_for_the_end(job: &Value) -> bool {
    job["spec"]["podReplacementPolicy"] == "Failed" || job["spec"]["podFailurePolicy"].is_object()
}

/// Whether a Pod has ended.
pub(super) fn is_over(pod: &Value) -> bool {
    [json!("Succeeded"), json!("Failed")].contains(&pod["status"]["phase"])
}

fn uncounted<'a>(job: &'a Value, kind: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let uids = items(job, &format!("/status/uncountedTerminatedPods/{kind}"));
    uids.iter().filter_map(Value::as_str)
}

fn length<T>(list: &[T]) -> i64 {
    i64::try_from(list.len()).unwrap_or(i64::MAX)
}
