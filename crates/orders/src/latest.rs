//! The look for the newest backup of a store, for an EtcdCluster that is to begin with it and for an EtcdRestore. A try is recorded before its
//! Job is created, and one that failed is repeated. What was found is recorded once, and nothing is looked for any more: all that follows
//! restores the same object, whatever comes into the store meanwhile.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use quorate_api::Reason;
use quorate_api::job::{Answer, FindOrder, FoundBackup};
use quorate_api::latest::LatestStatus;
use quorate_manifests::job::find_name;
use quorate_manifests::latest::again_after;
use quorate_model::Instant;

use crate::outcome::JobOutcome;
use crate::time::timestamp;

/// What is observed of a look.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    /// The uid of the object that it is for.
    pub uid: &'a str,
    /// What has to be found.
    pub order: &'a FindOrder,
    /// What its status has.
    pub before: Option<&'a LatestStatus>,
    /// The Jobs of that object, and what each has come to.
    pub jobs: &'a [(&'a Job, JobOutcome)],
    /// The time.
    pub now: Instant,
}

/// What is next for the Jobs of a look.
#[derive(Debug, PartialEq)]
pub enum NextLook {
    /// Nothing.
    Wait,
    /// A try is due, or its Job is missing.
    Find {
        /// The number of the try.
        attempt: u32,
        /// The order.
        order: Box<FindOrder>,
    },
    /// The answer of this Job is recorded.
    DeleteJob(String),
}

/// What the status is to say, and what is done once it is written.
pub fn look(look: Look<'_>) -> (LatestStatus, NextLook) {
    let mut status = look.before.cloned().unwrap_or_default();
    if status.found.is_some() {
        return (status, leftover(&look, None));
    }
    status.attempt = status.attempt.max(1);
    if let Some(failed) = &status.failed {
        if look.now - Instant(failed.0.as_millisecond()) < again_after(&status) {
            return (status, leftover(&look, None));
        }
        // Why the last try failed stays until one succeeds: nothing else is known.
        (status.attempt, status.failed) = (status.attempt.saturating_add(1), None);
    }
    let name = find_name(look.uid, status.attempt);
    let left = leftover(&look, Some(&name));
    if left != NextLook::Wait {
        return (status, left);
    }
    let mut jobs = look.jobs.iter();
    let outcome = jobs.find(|(job, _)| job.metadata.name.as_ref() == Some(&name)).map(|(_, outcome)| outcome);
    let Some(outcome) = outcome else {
        let next = NextLook::Find { attempt: status.attempt, order: Box::new(look.order.clone()) };
        return (status, next);
    };
    if let (JobOutcome::Running(why), None) = (outcome, &status.reason) {
        status.message.clone_from(why);
    }
    match outcome.ended(found) {
        None => return (status, NextLook::Wait),
        Some(Ok(found)) => {
            (status.reason, status.message) = (None, None);
            status.found = Some(found);
        }
        Some(Err((reason, text))) => fail(&mut status, reason, &text, look.now),
    }
    (status, NextLook::DeleteJob(name))
}

/// The Job of the try that is recorded is refused.
pub fn refused(status: &mut LatestStatus, text: &str, now: Instant) {
    let text = format!("the Job is refused: {text}");
    fail(status, Reason::WriteRefused, &text, now);
}

/// The backup that an answer names.
fn found(answer: &Answer) -> Option<FoundBackup> {
    let Answer::Found(found) = answer else { return None };
    (!found.key.is_empty() && found.sha256.len() == 64).then(|| found.clone())
}

/// A Job of an earlier try. Other Jobs of the object are not of the look.
fn leftover(look: &Look<'_>, present: Option<&str>) -> NextLook {
    let of_looks = find_name(look.uid, 0);
    let of_looks = of_looks.trim_end_matches('0');
    let mut names = look.jobs.iter().filter_map(|(job, _)| job.metadata.name.as_deref());
    let left = names.find(|name| name.starts_with(of_looks) && Some(*name) != present);
    left.map_or(NextLook::Wait, |name| NextLook::DeleteJob(name.to_owned()))
}

fn fail(status: &mut LatestStatus, reason: Reason, message: &str, now: Instant) {
    status.failed = Some(Time(timestamp(now)));
    status.reason = Some(reason.as_str().to_owned());
    status.message = Some(message.to_owned());
}

#[cfg(test)]
mod tests {
    use quorate_api::job::{Failure, FailureKind};
    use serde_json::json;

    use super::*;

    const NOW: Instant = Instant(1_800_000_000_000);

    fn after(seconds: i64) -> Instant {
        Instant(NOW.0 + seconds * 1000)
    }

    fn found(key: &str) -> FoundBackup {
        FoundBackup { key: key.to_owned(), sha256: "5".repeat(64), ..FoundBackup::default() }
    }

    fn job(name: &str) -> Job {
        serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
    }

    fn looked(
        before: Option<&LatestStatus>,
        jobs: &[(&str, JobOutcome)],
        now: Instant,
    ) -> (LatestStatus, NextLook) {
        let jobs: Vec<_> = jobs.iter().map(|(name, outcome)| (job(name), outcome.clone())).collect();
        let jobs: Vec<_> = jobs.iter().map(|(job, outcome)| (job, outcome.clone())).collect();
        look(Look { uid: "u1", order: &FindOrder::default(), before, jobs: &jobs, now })
    }

    fn is_find(next: &NextLook, number: u32) -> bool {
        matches!(next, NextLook::Find { attempt, .. } if *attempt == number)
    }

    #[test]
    fn o02_what_was_found_is_never_found_again() {
        let (begun, next) = looked(None, &[], NOW);
        assert!(begun.attempt == 1 && is_find(&next, 1), "{next:?}");
        // The operator crashed before the Job, or before it saw its own: the same one.
        let (again, next) = looked(Some(&begun), &[], after(5));
        assert!(again == begun && is_find(&next, 1), "{next:?}");
        let runs = ("find-backup-u1-1", JobOutcome::Running(Some("no node fits".to_owned())));
        let (waits, next) = looked(Some(&begun), &[runs], after(6));
        assert_eq!((waits.message.as_deref(), next), (Some("no node fits"), NextLook::Wait));
        let answer = ("find-backup-u1-1", JobOutcome::Answered(Answer::Found(found("a"))));
        let (done, next) = looked(Some(&waits), &[answer], after(9));
        assert_eq!(next, NextLook::DeleteJob("find-backup-u1-1".to_owned()));
        assert_eq!((done.found.as_ref(), &done.message), (Some(&found("a")), &None));
        // A Job that answers otherwise, and another Job of the object.
        let later = ("find-backup-u1-2", JobOutcome::Answered(Answer::Found(found("b"))));
        let reads = ("read-backup-u1-1", JobOutcome::Running(None));
        let (kept, next) = looked(Some(&done), &[reads, later], after(900));
        assert_eq!((kept, next), (done.clone(), NextLook::DeleteJob("find-backup-u1-2".to_owned())));
        assert_eq!(looked(Some(&done), &[], after(9000)), (done, NextLook::Wait));
    }

    #[test]
    fn o02_a_look_that_fails_is_repeated_more_and_more_seldom_and_says_why_it_failed() {
        let failure = Failure::new(FailureKind::NoBackup, "0 objects were seen");
        let failed = |number: u32| {
            [(format!("find-backup-u1-{number}"), JobOutcome::Answered(Answer::Failed(failure.clone())))]
        };
        let (mut status, mut now) = (looked(None, &[], NOW).0, 0);
        for (number, pause) in [(1, 60), (2, 120), (3, 180)] {
            let jobs = failed(number);
            let jobs: Vec<_> = jobs.iter().map(|(name, outcome)| (name.as_str(), outcome.clone())).collect();
            let (ended, next) = looked(Some(&status), &jobs, after(now));
            assert_eq!(next, NextLook::DeleteJob(format!("find-backup-u1-{number}")));
            assert_eq!(ended.reason.as_deref(), Some("NoBackupFound"));
            let (waits, next) = looked(Some(&ended), &[], after(now + pause - 1));
            assert_eq!((&waits, next), (&ended, NextLook::Wait));
            now += pause;
            let (begun, next) = looked(Some(&ended), &[], after(now));
            assert!(is_find(&next, number + 1), "{next:?}");
            assert_eq!(begun.reason.as_deref(), Some("NoBackupFound"), "nothing newer is known");
            status = begun;
        }
        let many = LatestStatus { attempt: 500, failed: Some(Time(timestamp(NOW))), ..status };
        assert!(is_find(&looked(Some(&many), &[], after(600)).1, 501));
    }

    #[test]
    fn o02_an_answer_that_names_nothing_is_no_backup() {
        let begun = looked(None, &[], NOW).0;
        for answer in [Answer::Removed, Answer::Found(FoundBackup::default())] {
            let job = ("find-backup-u1-1", JobOutcome::Answered(answer));
            let (status, _) = looked(Some(&begun), &[job], NOW);
            assert!(status.found.is_none() && status.reason.as_deref() == Some("JobFailed"), "{status:?}");
        }
    }
}
