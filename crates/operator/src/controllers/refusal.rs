//! Why a Job has no Pod, or its Pod no scratch volume, in the words of the quota, the policy or the webhook that refuses it. The controllers
//! of Jobs and of ephemeral volumes tell them in an event and nowhere else: a dry run by the operator would ask for other rights than those
//! controllers have.

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

/// What the scheduler says of a Pod whose ephemeral volume has no claim yet.
const NO_CLAIM: &str = "ephemeral volume controller";

/// The words about Jobs and Pods, by their uid, and when they were read.
#[derive(Debug, Default)]
pub(super) struct Words(BTreeMap<String, (Instant, Option<String>)>);

impl Words {
    /// Those that are not old. By a clock that was set back all are.
    fn fresh(&self, uid: &str, now: Instant) -> Option<&Option<String>> {
        let (at, words) = self.0.get(uid)?;
        (0..GOOD_FOR).contains(&now.0.saturating_sub(at.0)).then_some(words)
    }

    /// Those about what is refused; they are read if they are old.
    async fn about(&mut self, runtime: &Runtime, refused: Refused<'_>, now: Instant) -> Option<String> {
        let uid = refused.uid()?;
        if let Some(words) = self.fresh(uid, now) {
            return words.clone();
        }
        let words = words(runtime, refused).await;
        self.0.insert(uid.to_owned(), (now, words.clone()));
        words
    }
}

/// What a Job lacks.
#[derive(Clone, Copy)]
enum Refused<'a> {
    /// Its Pod.
    Pod(&'a Job),
    /// The claim of a volume of its Pod.
    Claim(&'a Job, &'a Pod),
}

impl<'a> Refused<'a> {
    /// What a Job that is stuck lacks, if others may refuse it.
    fn of(job: &'a Job, pod: Option<&'a Pod>, stuck: &str) -> Option<Self> {
        match pod {
            None => Some(Self::Pod(job)),
            Some(pod) => stuck.contains(NO_CLAIM).then_some(Self::Claim(job, pod)),
        }
    }

    /// The object that the events are about.
    fn uid(self) -> Option<&'a str> {
        match self {
            Self::Pod(job) => job.metadata.uid.as_deref(),
            Self::Claim(_, pod) => pod.metadata.uid.as_deref(),
        }
    }

    /// The reason of the events.
    fn reason(self) -> &'static str {
        match self {
            Self::Pod(_) => "FailedCreate",
            Self::Claim(..) => "FailedBinding",
        }
    }

    fn message(self, quoted: &str) -> String {
        match self {
            Self::Pod(job) => {
                let name = job.metadata.name.as_deref().unwrap_or_default();
                format!("no Pod of Job {name} is admitted: {quoted}. Change what refuses it{}", or_what(job))
            }
            Self::Claim(job, pod) => {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                format!(
                    "a volume of Pod {name} is not admitted: {quoted}. Change what refuses it{}",
                    or_what(job)
                )
            }
        }
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
    let uids = || {
        jobs.iter()
            .map(|job| &job.metadata)
            .chain(pods().map(|pod| &pod.metadata))
            .map(|meta| meta.uid.as_ref())
    };
    read.0.retain(|uid, _| uids().any(|known| known == Some(uid)));
    let mut outcomes = Vec::with_capacity(jobs.len());
    for job in jobs {
        let outcome = match outcome(job, pods(), now) {
            JobOutcome::Running(Some(stuck)) => {
                let words = match Refused::of(job, pod_of(job, pods()), &stuck) {
                    Some(refused) => read.about(runtime, refused, now).await,
                    None => None,
                };
                JobOutcome::Running(Some(words.unwrap_or(stuck)))
            }
            other @ (JobOutcome::Running(None) | JobOutcome::Answered(_) | JobOutcome::Lost(_)) => other,
        };
        outcomes.push((job.as_ref(), outcome));
    }
    outcomes
}

fn pod_of<'a>(job: &Job, mut pods: impl Iterator<Item = &'a Pod>) -> Option<&'a Pod> {
    pods.find(|pod| {
        let mut owners = pod.metadata.owner_references.iter().flatten();
        owners.any(|owner| Some(&owner.uid) == job.metadata.uid.as_ref())
    })
}

/// `None` if there are none, or they cannot be read: without them the message says where they are.
async fn words(runtime: &Runtime, refused: Refused<'_>) -> Option<String> {
    let (Refused::Pod(job) | Refused::Claim(job, _)) = refused;
    let (namespace, uid, reason) = (job.metadata.namespace.as_deref()?, refused.uid()?, refused.reason());
    let events = Api::<Event>::namespaced(runtime.client.clone(), namespace);
    let of_it = format!("involvedObject.uid={uid},reason={reason}");
    let found = timeout(DEADLINE, events.list(&ListParams::default().fields(&of_it).limit(MOST))).await;
    last(&found.ok()?.ok()?.items, refused)
}

/// The last refusal. Who may create events chooses what is in them, so the object is compared as well.
fn last(events: &[Event], refused: Refused<'_>) -> Option<String> {
    let of_it = events.iter().filter(|event| {
        event.involved_object.uid.as_deref() == refused.uid()
            && event.reason.as_deref() == Some(refused.reason())
    });
    let last = of_it.max_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0))?;
    let text = last.message.as_deref().unwrap_or_default().trim();
    let quoted: String = text.chars().take(QUOTED).collect();
    (!quoted.is_empty()).then(|| refused.message(&quoted))
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
        let words = last(&events, Refused::Pod(&job)).unwrap();
        assert!(words.starts_with(&format!("no Pod of Job backup-1 is admitted: {quota}")), "{words}");
        assert_eq!(last(&events[2..], Refused::Pod(&job)), None);
    }

    #[test]
    fn o10_the_words_of_who_refuses_the_scratch_volume_are_quoted() {
        let job: Job =
            serde_json::from_value(json!({"metadata": {"name": "backup-1", "uid": "a", "ownerReferences": [
                {"apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup", "name": "x", "uid": "x"},
            ]}}))
            .unwrap();
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "backup-1-x", "uid": "b"}})).unwrap();
        let waits = "Pod backup-1-x is not scheduled: 0/3 nodes are available: waiting for ephemeral volume controller to \
                     create the persistentvolumeclaim \"backup-1-x-scratch\"";
        let refused = Refused::of(&job, Some(&pod), waits).unwrap();
        let quota = "ephemeral volume scratch: persistentvolumeclaims is forbidden: exceeded quota: small";
        let events = [
            event("a", "FailedBinding", "2026-11-27T06:02:00Z", "of another object"),
            event("b", "FailedBinding", "2026-11-27T06:01:00Z", quota),
        ];
        let words = last(&events, refused).unwrap();
        assert!(
            words.starts_with(&format!("a volume of Pod backup-1-x is not admitted: {quota}. Change")),
            "{words}"
        );
        assert!(words.ends_with("with another spec.jobTemplate"), "{words}");
        let full = "Pod backup-1-x is not scheduled: 0/3 nodes are available: 3 Insufficient cpu";
        assert!(Refused::of(&job, Some(&pod), full).is_none(), "the scheduler's words say all");
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
            last(&[refused], Refused::Pod(&serde_json::from_value(job).unwrap())).unwrap()
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
