//! The status of a Job.

use jiff::Timestamp;
use quorate_apistore::fields::{condition, flag, items, seconds, uid};
use serde_json::{Value, json};

use super::outcome::Outcome;
use super::tally::{Count, Tally};
use super::{COMPONENT, is};
use crate::controllers::action::Action;
use crate::controllers::view::kinds;
use crate::events::Note;

/// Writes the status if it differs, and records the end of the Job as an event.
pub(super) fn write(
    job: &Value,
    mut tally: Tally<'_>,
    outcome: Option<&Outcome>,
    now: Timestamp,
) -> Vec<Action> {
    if outcome.is_some_and(|outcome| !outcome.success) {
        // What has not ended when the Job fails counts as failed.
        let rest = tally.tracked.iter().map(|pod| uid(pod).to_owned());
        let is_new =
            |uid: &String| !tally.succeeded.uncounted.contains(uid) && !tally.failed.uncounted.contains(uid);
        let ignored =
            |uid: &String| tally.counted.iter().any(|pod| uid == quorate_apistore::fields::uid(pod));
        let rest: Vec<String> = rest.filter(|uid| is_new(uid) && !ignored(uid)).collect();
        tally.failed.uncounted.extend(rest);
    }
    let mut next = job.clone();
    if !flag(job, "/spec/suspend") && job["status"]["startTime"].is_null() {
        next["status"]["startTime"] = json!(seconds(now));
    }
    suspend(&mut next, now);
    let status = &mut next["status"];
    count(status, "active", i64::try_from(tally.active.len()).unwrap_or(i64::MAX));
    status["ready"] = json!(tally.ready);
    status["terminating"] = json!(tally.terminating);
    status["uncountedTerminatedPods"] = json!({});
    for (kind, Count { number, uncounted }) in [("succeeded", &tally.succeeded), ("failed", &tally.failed)] {
        count(status, kind, *number);
        if !uncounted.is_empty() {
            status["uncountedTerminatedPods"][kind] = json!(uncounted);
        }
    }
    let note = outcome.and_then(|outcome| end(job, &mut next, &tally, outcome, now));
    let write = (next != *job).then(|| Action::UpdateStatus(kinds::JOBS.into(), next));
    write.into_iter().chain(note.map(Action::Record)).collect()
}

/// Records the outcome; once all Pods have stopped and are counted, the end.
fn end(job: &Value, next: &mut Value, tally: &Tally<'_>, outcome: &Outcome, now: Timestamp) -> Option<Note> {
    let [interim, last] = outcome.conditions();
    if !is(job, interim) {
        set_condition(next, interim, "True", &outcome.reason, &outcome.message, now);
        return None;
    }
    let counted =
        tally.tracked.is_empty() && tally.succeeded.uncounted.is_empty() && tally.failed.uncounted.is_empty();
    if !counted || !tally.active.is_empty() || tally.terminating > 0 {
        return None;
    }
    set_condition(next, last, "True", &outcome.reason, &outcome.message, now);
    if outcome.success {
        next["status"]["completionTime"] = json!(seconds(now));
        return Some(Note::normal(job, "Completed", "Job completed", COMPONENT));
    }
    Some(Note::warning(job, &outcome.reason, outcome.message.as_str(), COMPONENT))
}

/// Reports whether the Job is suspended. Its time begins anew when it is resumed.
fn suspend(job: &mut Value, now: Timestamp) {
    match (flag(job, "/spec/suspend"), condition(job, "Suspended")) {
        (true, "True") => {}
        (true, _) => {
            set_condition(job, "Suspended", "True", "JobSuspended", "Job suspended", now);
            if let Some(status) = job["status"].as_object_mut() {
                status.remove("startTime");
            }
        }
        (false, "True") => {
            set_condition(job, "Suspended", "False", "JobResumed", "Job resumed", now);
            job["status"]["startTime"] = json!(seconds(now));
        }
        (false, _) => {}
    }
}

fn set_condition(job: &mut Value, kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) {
    let now = json!(seconds(now));
    let fresh = json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastProbeTime": now, "lastTransitionTime": now,
    });
    let mut conditions = items(job, "/status/conditions").to_vec();
    match conditions.iter_mut().find(|one| one["type"] == kind) {
        Some(one) => *one = fresh,
        None => conditions.push(fresh),
    }
    job["status"]["conditions"] = json!(conditions);
}

/// Go leaves a counter out that is zero.
fn count(status: &mut Value, kind: &str, number: i64) {
    if number > 0 {
        status[kind] = json!(number);
    } else if let Some(status) = status.as_object_mut() {
        status.remove(kind);
    }
}
