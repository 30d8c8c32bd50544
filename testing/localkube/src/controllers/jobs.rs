//! Jobs, as the Job controller of Kubernetes 1.36 runs them: Pods until the work is done, the backoff limit is reached, the deadline is
//! over, or `podFailurePolicy` fails the Job; then its end in status, and its deletion after `ttlSecondsAfterFinished`.
//!
//! Each Pod has the finalizer `batch.kubernetes.io/job-tracking`, so that none is deleted before it is counted: its uid is recorded in
//! `status.uncountedTerminatedPods`, then the finalizer goes, then the counters of status grow.
//!
//! Indexed Jobs are not run, nor are Jobs that another controller manages. A Pod that cannot be created is tried again in silence.
//!
//! - `tally`: the Pods of a Job, counted; `outcome`: whether it is over, and why
//! - `failure_policy`: what `podFailurePolicy` says about a failed Pod
//! - `pods`: which Pods to create and delete, and when; `template`: a new Pod
//! - `status`: the status that follows

mod failure_policy;
mod outcome;
mod pods;
mod status;
mod tally;
mod template;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use quorate_apistore::fields::{
    condition, deleting, drop_finalizer, has_finalizer, integer, items, text, time, uid,
};
use quorate_apistore::store::Propagation;
use serde_json::Value;

use super::action::Action;
use super::view::{View, kinds};
use crate::events::Note;
use outcome::Outcome;
use tally::Tally;

/// The finalizer of a Pod that is not counted yet.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const COMPONENT: &str = "job-controller";

/// One pass over all Jobs.
pub fn step(view: &View, now: Timestamp) -> Vec<Action> {
    let pods = by_job(view);
    let of = |job: &Value| pods.get(uid(job)).map(Vec::as_slice).unwrap_or_default();
    let jobs = view.all(kinds::JOBS).flat_map(|job| one(view, job, of(job), now));
    jobs.chain(untrack_others(view)).collect()
}

/// When a Job has something to do although nothing changes: its deadline, the next Pod after a failure, its deletion.
pub fn due(view: &View, now: Timestamp) -> Option<Timestamp> {
    let pods = by_job(view);
    let of = |job: &Value| pods.get(uid(job)).map(Vec::as_slice).unwrap_or_default();
    let times = view.all(kinds::JOBS).filter(|job| !deleting(job)).flat_map(|job| match finished_at(job) {
        Some(at) => [removal(job, at), None],
        None => [outcome::deadline(job), pods::retry_at(of(job))],
    });
    times.flatten().filter(|at| *at > now).min()
}

fn one(view: &View, job: &Value, pods: &[&Value], now: Timestamp) -> Vec<Action> {
    if let Some(at) = finished_at(job) {
        let over = !deleting(job) && removal(job, at).is_some_and(|at| at <= now);
        return over
            .then(|| Action::delete_as(kinds::JOBS.into(), job, Propagation::Foreground))
            .into_iter()
            .collect();
    }
    if !["", "kubernetes.io/job-controller"].contains(&text(job, "/spec/managedBy")) {
        return Vec::new();
    }
    if deleting(job) {
        return pods.iter().filter_map(|pod| untrack(pod)).collect();
    }
    if job["spec"]["completionMode"] == "Indexed" {
        let why = "Skipped Job sync because completion mode is unknown";
        let note = Note::warning(job, "UnknownCompletionMode", why, COMPONENT);
        return (!view.is_recorded(&note)).then_some(Action::Record(note)).into_iter().collect();
    }
    let tally = Tally::of(job, pods);
    let outcome = Outcome::of(job, &tally, pods, now);
    let mut actions = match &outcome {
        Some(_) => pods::delete(job, &tally.active),
        None => pods::manage(job, &tally, pods, now),
    };
    actions.extend(tally.counted.iter().filter_map(|pod| untrack(pod)));
    actions.extend(status::write(job, tally, outcome.as_ref(), now));
    actions
}

/// The Pods that a Job controls, by its uid.
fn by_job(view: &View) -> BTreeMap<&str, Vec<&Value>> {
    let mut pods: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for pod in view.all(kinds::PODS) {
        if let Some(owner) = controller(pod) {
            pods.entry(owner).or_default().push(pod);
        }
    }
    pods
}

/// The uid of the Job that controls a Pod.
fn controller(pod: &Value) -> Option<&str> {
    let is_job = |owner: &&Value| {
        owner["controller"] == true && owner["kind"] == "Job" && owner["apiVersion"] == "batch/v1"
    };
    items(pod, "/metadata/ownerReferences").iter().find(is_job).map(|owner| text(owner, "/uid"))
}

/// Pods of no Job, or of one that is over, are not counted any more.
fn untrack_others(view: &View) -> Vec<Action> {
    let counting = |pod: &Value| {
        let own = controller(pod);
        view.all(kinds::JOBS).any(|job| own == Some(uid(job)) && finished_at(job).is_none())
    };
    let tracked = view.all(kinds::PODS).filter(|pod| has_finalizer(pod, TRACKING));
    tracked.filter(|pod| !counting(pod)).filter_map(untrack).collect()
}

fn untrack(pod: &Value) -> Option<Action> {
    let mut next = pod.clone();
    drop_finalizer(&mut next, TRACKING);
    (next != *pod).then(|| Action::Update(kinds::PODS.into(), next))
}

fn finished_at(job: &Value) -> Option<Timestamp> {
    let is_end =
        |one: &&Value| ["Complete", "Failed"].contains(&text(one, "/type")) && one["status"] == "True";
    let end = items(job, "/status/conditions").iter().find(is_end)?;
    time(end, "/lastTransitionTime")
}

fn removal(job: &Value, finished: Timestamp) -> Option<Timestamp> {
    let seconds = integer(job, "/spec/ttlSecondsAfterFinished")?;
    finished.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Whether a condition of a Job is true.
fn is(job: &Value, kind: &str) -> bool {
    condition(job, kind) == "True"
}
