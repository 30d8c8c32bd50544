//! Why a Job has no Pod, in the words of the quota, the policy or the webhook that refuses it. The controller of Jobs tells them in an event
//! and nowhere else: a dry run by the operator would ask for other rights than that controller has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::ListParams;
use quorate_model::Instant;
use quorate_orders::{JobOutcome, outcome};
use tokio::time::timeout;

use crate::runtime::controller::Runtime;

/// Whoever waits for the words has others to serve.
const DEADLINE: Duration = Duration::from_secs(5);

/// The most events of a Job that are read.
const MOST: u32 = 50;

/// The longest part of the words that a message quotes, in characters.
const QUOTED: usize = 600;

/// For so many milliseconds words that were read are not asked for again. The controller of Jobs tries with growing delay, up to minutes,
/// and a pass over what waits comes each second.
const GOOD_FOR: i64 = 10_000;

/// The words about Jobs, by their uid, and when they were read.
#[derive(Debug, Default)]
pub(super) struct Words(BTreeMap<String, (Instant, Option<String>)>);

impl Words {
    /// Those that are not old. By a clock that was set back all are.
    fn fresh(&self, uid: &str, now: Instant) -> Option<&Option<String>> {
        let (at, words) = self.0.get(uid)?;
        (0..GOOD_FOR).contains(&now.0.saturating_sub(at.0)).then_some(words)
    }

    /// Those about a Job that has no Pod; they are read if they are old.
    async fn about(&mut self, runtime: &Runtime, job: &Job, now: Instant) -> Option<String> {
        let uid = job.metadata.uid.as_deref()?;
        if let Some(words) = self.fresh(uid, now) {
            return words.clone();
        }
        let words = words(runtime, job).await;
        self.0.insert(uid.to_owned(), (now, words.clone()));
        words
    }
}

/// What each Job has come to, with the words of who refuses its Pod where one is refused.
pub(super) async fn outcomes<'a>(
    runtime: &Runtime,
    read: &mut Words,
    jobs: &'a [Arc<Job>],
    pods: &[Arc<Pod>],
    now: Instant,
) -> Vec<(&'a Job, JobOutcome)> {
    let pods = || pods.iter().map(AsRef::as_ref);
    read.0.retain(|uid, _| jobs.iter().any(|job| job.metadata.uid.as_ref() == Some(uid)));
    let mut outcomes = Vec::with_capacity(jobs.len());
    for job in jobs {
        let outcome = match outcome(job, pods(), now) {
            JobOutcome::Running(Some(stuck)) => {
                let words = if has_pod(job, pods()) { None } else { read.about(runtime, job, now).await };
                JobOutcome::Running(Some(words.unwrap_or(stuck)))
            }
            other @ (JobOutcome::Running(None) | JobOutcome::Answered(_) | JobOutcome::Lost(_)) => other,
        };
        outcomes.push((job.as_ref(), outcome));
    }
    outcomes
}

fn has_pod<'a>(job: &Job, mut pods: impl Iterator<Item = &'a Pod>) -> bool {
    pods.any(|pod| {
        let mut owners = pod.metadata.owner_references.iter().flatten();
        owners.any(|owner| Some(&owner.uid) == job.metadata.uid.as_ref())
    })
}

/// `None` if there are none, or they cannot be read: without them the message says where they are.
async fn words(runtime: &Runtime, job: &Job) -> Option<String> {
    let (namespace, uid) = (job.metadata.namespace.as_deref()?, job.metadata.uid.as_deref()?);
    let events = Api::<Event>::namespaced(runtime.client.clone(), namespace);
    let of_job = format!("involvedObject.uid={uid},reason=FailedCreate");
    let found = timeout(DEADLINE, events.list(&ListParams::default().fields(&of_job).limit(MOST))).await;
    last(&found.ok()?.ok()?.items, job)
}

/// The last refusal of a Pod of this Job. Who may create events chooses what is in them, so the object is compared as well.
fn last(events: &[Event], job: &Job) -> Option<String> {
    let of_job = events.iter().filter(|event| {
        event.involved_object.uid == job.metadata.uid && event.reason.as_deref() == Some("FailedCreate")
    });
    let last = of_job.max_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0))?;
    let text = last.message.as_deref().unwrap_or_default().trim();
    let quoted: String = text.chars().take(QUOTED).collect();
    let name = job.metadata.name.as_deref().unwrap_or_default();
    (!quoted.is_empty()).then(|| {
        format!("no Pod of Job {name} is admitted: {quoted}. Change what refuses it{}", or_what(job))
    })
}

/// What a person can change besides. The spec of an EtcdBackup is immutable, and the Pod of an EtcdRestore follows the members.
fn or_what(job: &Job) -> &'static str {
    let owner = job.metadata.owner_references.iter().flatten().next().map(|owner| owner.kind.as_str());
    let is = |prefix: &str| job.metadata.name.as_ref().is_some_and(|name| name.starts_with(prefix));
    match owner {
        Some("EtcdBackup") if is("remove-") => "",
        Some("EtcdBackup") => {
            ", or delete this EtcdBackup and create another one with another spec.jobTemplate"
        }
        Some("EtcdBackupSchedule") if is("look-") => {
            ", or spec.backupTemplate.spec.jobTemplate for the EtcdBackups to come: the Pod follows spec.jobTemplate of those that it looks \
             for"
        }
        Some("EtcdBackupSchedule") => ", or spec.verify.jobTemplate",
        Some("EtcdCluster") => ", or spec.podTemplate, which the Pod follows",
        Some("EtcdRestore") => ", or spec.podTemplate of the EtcdCluster, which the Pod follows",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(uid: &str, reason: &str, at: &str, message: &str) -> Event {
        serde_json::from_value(json!({
            "metadata": {}, "involvedObject": {"kind": "Job", "uid": uid}, "reason": reason, "message": message, "lastTimestamp": at,
        }))
        .unwrap()
    }

    #[test]
    fn o10_the_last_words_of_who_refuses_a_pod_are_quoted() {
        let job: Job = serde_json::from_value(json!({"metadata": {"name": "backup-1", "uid": "a"}})).unwrap();
        let quota = "Error creating: pods \"backup-1-x\" is forbidden: exceeded quota: small";
        let events = [
            event("a", "FailedCreate", "2026-11-27T06:00:00Z", "Error creating: earlier"),
            event("a", "FailedCreate", "2026-11-27T06:01:00Z", quota),
            event("a", "SuccessfulCreate", "2026-11-27T06:02:00Z", "Created pod"),
            event("b", "FailedCreate", "2026-11-27T06:03:00Z", "of another Job"),
        ];
        let words = last(&events, &job).unwrap();
        assert!(words.starts_with(&format!("no Pod of Job backup-1 is admitted: {quota}")), "{words}");
        assert_eq!(last(&events[2..], &job), None);
    }

    #[test]
    fn o10_the_words_are_asked_for_every_ten_seconds_and_not_in_each_pass() {
        let read = Words(BTreeMap::from([("a".to_owned(), (Instant(50_000), Some("no".to_owned())))]));
        for (now, fresh) in [(50_000, true), (59_999, true), (60_000, false), (49_999, false)] {
            assert_eq!(read.fresh("a", Instant(now)).is_some(), fresh, "{now}");
        }
        assert_eq!(read.fresh("b", Instant(50_000)), None);
    }

    #[test]
    fn o10_who_reads_that_a_pod_is_refused_is_told_what_can_be_changed() {
        let words = |owner: &str, name: &str| {
            let job = json!({"metadata": {"name": name, "uid": "a", "ownerReferences": [
                {"apiVersion": "operator.etcd.io/v1alpha1", "kind": owner, "name": "x", "uid": "x"},
            ]}});
            let refused = event("a", "FailedCreate", "2026-11-27T06:00:00Z", "Error creating: no");
            last(&[refused], &serde_json::from_value(job).unwrap()).unwrap()
        };
        for (owner, name, cure) in [
            ("EtcdBackup", "backup-1", "create another one with another spec.jobTemplate"),
            ("EtcdBackup", "remove-backup-1", "no. Change what refuses it"),
            ("EtcdBackupSchedule", "verify-backup-1", "or spec.verify.jobTemplate"),
            ("EtcdBackupSchedule", "look-1", "the Pod follows spec.jobTemplate of those that it looks for"),
            ("EtcdRestore", "read-backup-1", "or spec.podTemplate of the EtcdCluster, which the Pod follows"),
        ] {
            let words = words(owner, name);
            assert!(words.ends_with(cure), "{words}");
        }
    }
}
