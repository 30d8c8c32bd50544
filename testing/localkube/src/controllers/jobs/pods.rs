//! Which Pods of a Job are created and deleted.

use jiff::{SignedDuration, Timestamp};
use quorate_apistore::fields::{condition, deleting, flag, integer, items, name, text, time};
use serde_json::Value;

use super::tally::{Tally, waits_for_the_end};
use super::{COMPONENT, template, untrack};
use crate::controllers::action::Action;
use crate::controllers::view::kinds;
use crate::events::Note;

/// How long after a failure the next Pod is created; doubled with each failure.
const BACK_OFF: SignedDuration = SignedDuration::from_secs(10);
/// The longest delay.
const MOST: SignedDuration = SignedDuration::from_mins(10);

/// Creates the Pods that are missing, or deletes those that are too many.
pub(super) fn manage(job: &Value, tally: &Tally<'_>, pods: &[&Value], now: Timestamp) -> Vec<Action> {
    let active = tally.active.len();
    let wanted = wanted(job, tally);
    if active > wanted {
        let mut surplus = tally.active.clone();
        surplus.sort_by_key(|pod| {
            (
                !text(pod, "/spec/nodeName").is_empty(),
                text(pod, "/status/phase") == "Running",
                condition(pod, "Ready") == "True",
            )
        });
        surplus.truncate(active - wanted);
        // Without its finalizer it does not count as failed.
        let untracked = surplus.iter().filter_map(|pod| untrack(pod));
        return untracked.chain(delete(job, &surplus)).collect();
    }
    let stopping = if waits_for_the_end(job) { tally.terminating } else { 0 };
    let missing = wanted.saturating_sub(active + stopping);
    if missing == 0 || retry_at(pods).is_some_and(|at| at > now) {
        return Vec::new();
    }
    let create = |number: usize| {
        let pod = template::pod(job, number, now);
        let note = Note::normal(job, "SuccessfulCreate", format!("Created pod: {}", name(&pod)), COMPONENT);
        [Action::Create(kinds::PODS.into(), pod), Action::Record(note)]
    };
    (0..missing).flat_map(create).collect()
}

/// Deletes Pods. Their finalizer stays until they are counted.
pub(super) fn delete(job: &Value, pods: &[&Value]) -> Vec<Action> {
    let delete = |pod: &&Value| {
        let note = Note::normal(job, "SuccessfulDelete", format!("Deleted pod: {}", name(pod)), COMPONENT);
        [Action::delete(kinds::PODS, pod), Action::Record(note)]
    };
    pods.iter().flat_map(delete).collect()
}

/// When the next Pod may be created: a while after the last failure, longer with each one since the last success. Pods that were
/// removed are forgotten, as by a controller that was restarted.
pub(super) fn retry_at(pods: &[&Value]) -> Option<Timestamp> {
    let ends = |phase: &'static str| {
        pods.iter().filter(move |pod| pod["status"]["phase"] == phase).filter_map(|pod| ended_at(pod))
    };
    let success = ends("Succeeded").max();
    let failures: Vec<Timestamp> =
        ends("Failed").filter(|at| success.is_none_or(|success| *at > success)).collect();
    let doublings = u32::try_from(failures.len().checked_sub(1)?).unwrap_or(u32::MAX).min(10);
    let wait = (BACK_OFF * 2_i32.pow(doublings)).min(MOST);
    failures.into_iter().max()?.checked_add(wait).ok()
}

fn wanted(job: &Value, tally: &Tally<'_>) -> usize {
    let parallelism = integer(job, "/spec/parallelism").unwrap_or(1);
    let succeeded = tally.succeeded.total();
    let wanted = match integer(job, "/spec/completions") {
        _ if flag(job, "/spec/suspend") => 0,
        Some(completions) => parallelism.min(completions - succeeded),
        None if succeeded > 0 => return tally.active.len(),
        None => parallelism,
    };
    usize::try_from(wanted).unwrap_or(0)
}

fn ended_at(pod: &Value) -> Option<Timestamp> {
    let containers = items(pod, "/status/containerStatuses").iter();
    let end = containers.filter_map(|status| time(status, "/state/terminated/finishedAt")).max();
    let deleted = || time(pod, "/metadata/deletionTimestamp").filter(|_| deleting(pod));
    end.or_else(deleted).or_else(|| time(pod, "/metadata/creationTimestamp"))
}
