//! What an EtcdRestore reports: a pure function of it and of its EtcdCluster.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use quorate_api::bootstrap::RestoreStatus;
use quorate_api::restore::{EtcdRestoreStatus, RestorePhase};
use quorate_api::status::{EtcdClusterStatus, OrderedBy};
use quorate_api::{ConditionType, EtcdBackup, EtcdCluster, EtcdRestore, Explanation, Reason};
use quorate_manifests::restore::{is_of_earlier_incarnation, is_outlived, object};
use quorate_model::Instant;

use super::reading::{self, NextAct};
use crate::controllers::backup::{ConditionValue, JobOutcome, set};
use crate::runtime::clock::timestamp;

/// What is reported as an event: whether it is a warning, and what.
pub(super) type Event = Option<(bool, Explanation)>;

/// What is observed for an EtcdRestore.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) restore: &'a EtcdRestore,
    pub(super) cluster: Option<&'a EtcdCluster>,
    /// The EtcdBackup that it names.
    pub(super) backup: Option<&'a EtcdBackup>,
    /// The Jobs that read its snapshot, and what each has come to.
    pub(super) jobs: &'a [(&'a Job, JobOutcome)],
    pub(super) now: Instant,
}

impl Seen<'_> {
    pub(super) fn uid(&self) -> &str {
        self.restore.metadata.uid.as_deref().unwrap_or_default()
    }
}

/// What is next for an EtcdRestore.
pub(super) struct Decision {
    /// The status as it is to be.
    pub(super) status: EtcdRestoreStatus,
    /// What is reported as an event.
    pub(super) event: Event,
    /// What is done once the status is written.
    pub(super) then: NextAct,
}

/// Whether nothing follows any more.
pub(super) fn has_ended(status: &EtcdRestoreStatus) -> bool {
    matches!(status.phase, Some(RestorePhase::Complete | RestorePhase::Failed))
}

/// What is next.
pub(super) fn decide(seen: Seen<'_>) -> Decision {
    let Seen { restore, now, .. } = seen;
    let before = restore.status.clone().unwrap_or_default();
    if has_ended(&before) {
        return Decision { status: before, event: None, then: reading::leftover(&seen, None) };
    }
    let mut status = before.clone();
    let mut then = reading::leftover(&seen, None);
    let (phase, why) = state(&seen, &mut status, &mut then);
    status.phase = Some(phase);
    if phase == RestorePhase::Running && status.started.is_none() {
        status.started = Some(Time(timestamp(now)));
    }
    if has_ended(&status) {
        status.finished = Some(Time(timestamp(now)));
    }
    for each in RestorePhase::ALL {
        let is = if each == phase { ConditionValue::True } else { ConditionValue::False };
        set(&mut status.conditions, each.as_str(), is, &why, restore.metadata.generation, now);
    }
    let is_news = before.phase != Some(phase) || reason_of(&before) != reason_of(&status);
    let warning = match phase {
        RestorePhase::Failed => true,
        RestorePhase::Pending => !matches!(why.reason(), Reason::OrderPending | Reason::Paused),
        RestorePhase::Running => {
            why.reason() != Reason::RestoringInPlace && why.reason() != Reason::Bootstrapping
        }
        RestorePhase::Complete => false,
    };
    Decision { status, event: is_news.then_some((warning, why)), then }
}

fn reason_of(status: &EtcdRestoreStatus) -> Option<&str> {
    let phase = status.phase?.as_str();
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.type_ == phase).map(|condition| condition.reason.as_str())
}

fn state(all: &Seen<'_>, status: &mut EtcdRestoreStatus, then: &mut NextAct) -> (RestorePhase, Explanation) {
    let restore = all.restore;
    let name = &restore.spec.cluster_name;
    let Some(cluster) = all.cluster else {
        let text = format!("EtcdCluster {name} does not exist");
        return match status.phase {
            Some(RestorePhase::Running) => {
                let text = format!("{text} any more: it was deleted while its data were replaced");
                (RestorePhase::Failed, Explanation::new(Reason::ClusterNotFound, text))
            }
            Some(RestorePhase::Pending | RestorePhase::Complete | RestorePhase::Failed) | None => {
                let text = format!("{text}. Create it, or delete this EtcdRestore");
                (RestorePhase::Pending, Explanation::new(Reason::ClusterNotFound, text))
            }
        };
    };
    let seen = cluster.status.clone().unwrap_or_default();
    let is_ours = |by: &OrderedBy| {
        by.etcd_restore.as_ref().is_some_and(|own| Some(&own.uid) == restore.metadata.uid.as_ref())
    };
    if let Some(replacing) = seen.replacing.as_ref().filter(|replacing| is_ours(&replacing.ordered_by)) {
        status.old_cluster_id = Some(replacing.cluster_id.clone());
        describe(status, &replacing.restore);
        let text = "the members make way for new ones";
        return (
            RestorePhase::Running,
            condition(&seen, ConditionType::Progressing, Reason::RestoringInPlace, text),
        );
    }
    if let Some(present) = seen.incarnation.as_ref().filter(|present| is_ours(&present.ordered_by)) {
        status.old_cluster_id = Some(present.replaced_cluster_id.clone());
        if let Some(restored) = seen.bootstrap.as_ref().and_then(|bootstrap| bootstrap.restore.as_ref()) {
            describe(status, restored);
        }
        let kept = seen.quarantined_volumes.iter().map(|volume| volume.name.clone());
        status.quarantined_volumes =
            kept.filter(|volume| is_of_earlier_incarnation(cluster, volume)).collect();
        status.new_cluster_id.clone_from(&seen.cluster_id);
        return match &seen.cluster_id {
            Some(id) if is_available(&seen) => {
                let text =
                    format!("EtcdCluster {name} serves the data of the snapshot; its cluster ID is {id}");
                (RestorePhase::Complete, Explanation::new(Reason::RestoredInPlace, text))
            }
            Some(_) => {
                let text = "the new members have a cluster ID, and clients are not served yet";
                (RestorePhase::Running, Explanation::new(Reason::RestoringInPlace, text))
            }
            None => {
                let text = "the new members begin with the snapshot";
                (
                    RestorePhase::Running,
                    condition(&seen, ConditionType::Bootstrapped, Reason::RestoringInPlace, text),
                )
            }
        };
    }
    not_begun(all, cluster, &seen, status, then)
}

/// The EtcdCluster has not taken the order up.
fn not_begun(
    all: &Seen<'_>,
    cluster: &EtcdCluster,
    seen: &EtcdClusterStatus,
    status: &mut EtcdRestoreStatus,
    then: &mut NextAct,
) -> (RestorePhase, Explanation) {
    let restore = all.restore;
    let (name, named) = (&restore.spec.cluster_name, &restore.spec.cluster_id);
    let pending = |reason, text: String| (RestorePhase::Pending, Explanation::new(reason, text));
    let replaced = seen.incarnation.as_ref().map(|present| &present.replaced_cluster_id);
    match &seen.cluster_id {
        Some(id) if id != named => {
            let text = format!(
                "EtcdCluster {name} has cluster ID {id}, and this EtcdRestore replaces {named}: nothing is done. If its present data are \
                 to be replaced, create another EtcdRestore with clusterID {id}"
            );
            (RestorePhase::Failed, Explanation::new(Reason::ClusterIDMismatch, text))
        }
        None if replaced == Some(named) => {
            let text = format!(
                "cluster {named} of EtcdCluster {name} was replaced by another order: nothing is done"
            );
            (RestorePhase::Failed, Explanation::new(Reason::ClusterIDMismatch, text))
        }
        None => pending(Reason::OrderPending, format!("EtcdCluster {name} has no cluster ID yet")),
        Some(_) if is_outlived(restore, cluster) => {
            let text = format!(
                "it is older than EtcdCluster {name}, or a backup tool created it: it was meant for data of before, and nothing is done. To \
                 replace the present data, create another EtcdRestore"
            );
            (RestorePhase::Failed, Explanation::new(Reason::ClusterIDMismatch, text))
        }
        Some(_) => {
            let (next, unread) = reading::decide(all, object(restore, all.backup), status);
            *then = next;
            if let Some(why) = unread {
                return (RestorePhase::Pending, why);
            }
            let own = seen.waiting_order.as_ref().filter(|own| {
                let by = own.ordered_by.etcd_restore.as_ref();
                by.is_some_and(|by| Some(&by.uid) == restore.metadata.uid.as_ref())
            });
            let reason = own.and_then(|own| Reason::ALL.iter().find(|known| known.as_str() == own.reason));
            if let (Some(own), Some(reason)) = (own, reason) {
                return pending(*reason, own.message.clone());
            }
            if cluster.spec.paused {
                let text = format!("spec.paused of EtcdCluster {name} is true. Set it to false to continue");
                return pending(Reason::Paused, text);
            }
            let text = format!("EtcdCluster {name} takes it up as soon as no older EtcdRestore is under way");
            pending(Reason::OrderPending, text)
        }
    }
}

/// What is restored, for people.
fn describe(status: &mut EtcdRestoreStatus, restore: &RestoreStatus) {
    status.url = Some(restore.source.destination.url(&restore.source.key));
    let bump = i64::try_from(restore.bump_revision).unwrap_or(i64::MAX);
    status.revision = restore.revision.map(|revision| revision.saturating_add(bump));
}

fn is_available(seen: &EtcdClusterStatus) -> bool {
    let available = ConditionType::Available.as_str();
    seen.conditions.iter().any(|condition| condition.type_ == available && condition.status == "True")
}

/// The reason and the message of a condition of the EtcdCluster.
fn condition(seen: &EtcdClusterStatus, type_: ConditionType, or: Reason, text: &str) -> Explanation {
    let found = seen.conditions.iter().find(|condition| condition.type_ == type_.as_str());
    let reason = found.and_then(|found| Reason::ALL.iter().find(|known| known.as_str() == found.reason));
    match (found, reason) {
        (Some(found), Some(reason)) if !found.message.is_empty() => {
            Explanation::new(*reason, &*found.message)
        }
        (_, _) => Explanation::new(or, text),
    }
}
