//! Why a Job has no Pod, or its Pod no scratch volume, in the words of the quota, the policy or the webhook that refuses it. The controllers
//! of Jobs and of ephemeral volumes tell them in an event and nowhere else: a dry run by the operator would ask for other rights than those
//! controllers have.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use quorate_model::Instant;
use quorate_orders::{JobOutcome, outcome};

use super::said::{Said, Warning};
use crate::runtime::controller::Runtime;

/// The longest part of the words that a message quotes, in characters.
const QUOTED: usize = 600;

/// What the scheduler says of a Pod whose ephemeral volume has no claim yet.
const NO_CLAIM: &str = "ephemeral volume controller";

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
    said: &Said,
    jobs: &'a [Arc<Job>],
    pods: &[Arc<Pod>],
    now: Instant,
) -> Vec<(&'a Job, JobOutcome)> {
    let pods = || pods.iter().map(AsRef::as_ref);
    let mut outcomes = Vec::with_capacity(jobs.len());
    for job in jobs {
        let outcome = match outcome(job, pods(), now) {
            JobOutcome::Running(Some(stuck)) => {
                let words = match Refused::of(job, pod_of(job, pods()), &stuck) {
                    Some(refused) => words(runtime, said, refused).await,
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
async fn words(runtime: &Runtime, said: &Said, refused: Refused<'_>) -> Option<String> {
    let (Refused::Pod(job) | Refused::Claim(job, _)) = refused;
    let namespace = job.metadata.namespace.as_deref()?;
    last(&said.about(runtime, namespace, refused.uid()?).await.ok()?, refused)
}

/// The last refusal, however old: the controllers of Jobs and volumes try with growing delay, up to minutes.
fn last(warnings: &[Warning], refused: Refused<'_>) -> Option<String> {
    let last = warnings.iter().rfind(|warning| warning.reason == refused.reason())?;
    let quoted: String = last.message.chars().take(QUOTED).collect();
    Some(refused.message(&quoted))
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

    fn warning(reason: &str, message: &str) -> Warning {
        Warning { at: None, reason: reason.to_owned(), message: message.to_owned() }
    }

    #[test]
    fn o10_the_last_words_of_who_refuses_a_pod_are_quoted() {
        let job: Job = serde_json::from_value(json!({"metadata": {"name": "backup-1", "uid": "a"}})).unwrap();
        let quota = "Error creating: pods \"backup-1-x\" is forbidden: exceeded quota: small";
        let warnings = [
            warning("FailedCreate", "Error creating: earlier"),
            warning("FailedCreate", quota),
            warning("BackoffLimitExceeded", "Job has reached the specified backoff limit"),
        ];
        let words = last(&warnings, Refused::Pod(&job)).unwrap();
        assert!(words.starts_with(&format!("no Pod of Job backup-1 is admitted: {quota}")), "{words}");
        assert_eq!(last(&warnings[2..], Refused::Pod(&job)), None);
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
        let warnings =
            [warning("FailedBinding", "ephemeral volume scratch: earlier"), warning("FailedBinding", quota)];
        let words = last(&warnings, refused).unwrap();
        assert!(
            words.starts_with(&format!("a volume of Pod backup-1-x is not admitted: {quota}. Change")),
            "{words}"
        );
        assert!(words.ends_with("with another spec.jobTemplate"), "{words}");
        let full = "Pod backup-1-x is not scheduled: 0/3 nodes are available: 3 Insufficient cpu";
        assert!(Refused::of(&job, Some(&pod), full).is_none(), "the scheduler's words say all");
    }

    #[test]
    fn o10_who_reads_that_a_pod_is_refused_is_told_what_can_be_changed() {
        let words = |owner: &str, name: &str| {
            let job = json!({"metadata": {"name": name, "uid": "a", "ownerReferences": [
                {"apiVersion": "operator.etcd.io/v1alpha1", "kind": owner, "name": "x", "uid": "x"},
            ]}});
            let refused = warning("FailedCreate", "Error creating: no");
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
