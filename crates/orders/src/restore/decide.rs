//! What an EtcdRestore reports: a pure function of it and of its EtcdCluster.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use quorate_api::bootstrap::RestoreStatus;
use quorate_api::job::{ReadOrder, Task as _};
use quorate_api::restore::{EtcdRestoreStatus, RestorePhase};
use quorate_api::status::{EtcdClusterStatus, OrderedBy};
use quorate_api::{
    ConditionType, EtcdBackup, EtcdCluster, EtcdRestore, Explanation, Reason, conditions, keys,
};
use quorate_manifests::restore::{is_given_again, is_of_earlier_incarnation, is_outlived, object, until};
use quorate_manifests::restored;
use quorate_model::{Instant, Span};

use super::reading::{self, NextAct};
use super::{age, backups, before, tenants, whose};
use crate::outcome::JobOutcome;
use crate::ready;
use crate::time::timestamp;

/// Its EtcdCluster takes no order up after its deadline. An order that it took up in the last moment is seen within this time.
const TAKEN_UP_WITHIN: Span = Span::seconds(60);

/// What is reported as an event: whether it is a warning, and what.
pub type Event = Option<(bool, Explanation)>;

/// What is observed for an EtcdRestore.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// The order.
    pub restore: &'a EtcdRestore,
    /// The EtcdCluster that it names, if it exists.
    pub cluster: Option<&'a EtcdCluster>,
    /// The EtcdBackup that it names, or that stands for what it names.
    pub backup: Option<&'a EtcdBackup>,
    /// Every EtcdBackup of its namespace.
    pub backups: &'a [&'a EtcdBackup],
    /// The Jobs that read its snapshot, and what each has come to.
    pub jobs: &'a [(&'a Job, JobOutcome)],
    /// The time.
    pub now: Instant,
}

impl Seen<'_> {
    pub(crate) fn uid(&self) -> &str {
        self.restore.metadata.uid.as_deref().unwrap_or_default()
    }
}

/// What is next for an EtcdRestore.
pub struct Decision {
    /// The status as it is to be.
    pub status: EtcdRestoreStatus,
    /// What is reported as an event.
    pub event: Event,
    /// What is done once the status is written.
    pub then: NextAct,
}

/// Whether nothing follows any more.
pub fn has_ended(status: &EtcdRestoreStatus) -> bool {
    matches!(status.phase, Some(RestorePhase::Complete | RestorePhase::Failed))
}

/// What is next.
pub fn decide(seen: Seen<'_>) -> Decision {
    let Seen { restore, now, .. } = seen;
    let before = restore.status.clone().unwrap_or_default();
    if has_ended(&before) {
        let mut status = before;
        // One that ended under an operator that did not know these conditions.
        ready::restore(restore, &mut status, now);
        return Decision { status, event: None, then: reading::leftover(&seen, None) };
    }
    let mut status = before.clone();
    let mut then = reading::leftover(&seen, None);
    let found = state(&seen, &mut status, &mut then);
    let (phase, why) = match expired(&seen, &before, &found) {
        Some(why) => {
            (status.reading, then) = (None, reading::leftover(&seen, None));
            (RestorePhase::Failed, why)
        }
        None => found,
    };
    let why = age::told(&seen, &status, phase, whose::told(&seen, &status, phase, why));
    let why = tenants::told(seen.cluster, phase, why);
    status.phase = Some(phase);
    if phase == RestorePhase::Running && status.started.is_none() {
        status.started = Some(Time(timestamp(now)));
    }
    if has_ended(&status) {
        status.finished = Some(Time(timestamp(now)));
    }
    for each in RestorePhase::ALL {
        let generation = restore.metadata.generation;
        conditions::set(
            &mut status.conditions,
            each.as_str(),
            each == phase,
            &why,
            generation,
            timestamp(now),
        );
    }
    ready::restore(restore, &mut status, now);
    let is_news = before.phase != Some(phase) || reason_of(&before) != reason_of(&status);
    let warning = match phase {
        RestorePhase::Failed => true,
        RestorePhase::Pending => {
            !matches!(why.reason(), Reason::OrderPending | Reason::RestoreBackupFirst | Reason::Paused)
        }
        RestorePhase::Running => {
            why.reason() != Reason::RestoringInPlace && why.reason() != Reason::Bootstrapping
        }
        RestorePhase::Complete => false,
    };
    Decision { status, event: is_news.then_some((warning, why)), then }
}

/// Why an order that has not begun never will, once its `startingDeadline` is over. What it waits for may be mended when nobody thinks of it
/// any more. An order that was taken up once does not end by time.
fn expired(
    seen: &Seen<'_>,
    before: &EtcdRestoreStatus,
    found: &(RestorePhase, Explanation),
) -> Option<Explanation> {
    let (RestorePhase::Pending, why) = found else { return None };
    if before.started.is_some() || seen.now < until(seen.restore) + TAKEN_UP_WITHIN {
        return None;
    }
    let has_job = |attempt| {
        let name = ReadOrder::job_name(seen.uid(), attempt);
        seen.jobs.iter().any(|(job, _)| job.metadata.name.as_ref() == Some(&name))
    };
    let mut under_way = before.reading.iter();
    let under_way = under_way.find(|reading| reading.failed.is_none() && has_job(reading.attempt));
    let read = under_way.map_or_else(String::new, |reading| {
        format!(
            ". Job {} was still reading its snapshot, so a longer spec.startingDeadline is needed",
            ReadOrder::job_name(seen.uid(), reading.attempt)
        )
    });
    let text = format!(
        "it could not begin within {} of its creation (spec.startingDeadline), so nothing is done, now or later. It waited for this: {}: \
         {}{read}. If the present data are still to be replaced, create another EtcdRestore, with a longer spec.startingDeadline where \
         reading the snapshot, or an EtcdBackup that comes first, takes long",
        seen.restore.spec.starting_deadline,
        why.reason(),
        why.message().trim_end_matches('.')
    );
    Some(Explanation::new(Reason::OrderExpired, text))
}

fn reason_of(status: &EtcdRestoreStatus) -> Option<&str> {
    conditions::find(&status.conditions, status.phase?.as_str()).map(|condition| condition.reason.as_str())
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
        Some(id) if is_given_again(restore, cluster) => (RestorePhase::Failed, given_again(id, cluster)),
        Some(_) => {
            if let Some(why) = backups::comes_first(all, seen) {
                *then = reading::hold(all, status);
                return (RestorePhase::Pending, why);
            }
            if all.backup.is_none()
                && let Some(made) = restored::for_restore(restore, Some(cluster))
            {
                let text = format!(
                    "EtcdBackup {} is created, and finds what is to be restored. No member is stopped before",
                    made.metadata.name.as_deref().unwrap_or_default()
                );
                *then = NextAct::Backup(Box::new(made));
                return pending(Reason::OrderPending, text);
            }
            let (next, unread) = reading::decide(all, object(restore, all.backup), status);
            *then = next;
            if let Some(why) = unread {
                return (RestorePhase::Pending, why);
            }
            let read = status.snapshot.as_ref();
            if let Some(why) = read.and_then(|read| whose::refused(all, cluster, read)) {
                return (RestorePhase::Failed, why);
            }
            let own = seen.waiting_orders.iter().find(|own| {
                let by = own.ordered_by.etcd_restore.as_ref();
                by.is_some_and(|by| Some(&by.uid) == restore.metadata.uid.as_ref())
            });
            let reason = own.and_then(|own| Reason::named(&own.reason));
            // That it is to be read again was true before it was.
            let reason = reason.filter(|reason| *reason != Reason::RestoreReadAgain);
            if reason == Some(Reason::RestoreBackupFirst) {
                let (next, why) = before::decide(all, cluster, status);
                if *then == NextAct::Wait {
                    *then = next;
                }
                return (RestorePhase::Pending, why);
            }
            if let (Some(own), Some(reason)) = (own, reason) {
                return pending(reason, own.message.clone());
            }
            if cluster.spec.paused {
                let text = format!("spec.paused of EtcdCluster {name} is true. Set it to false to continue");
                return pending(Reason::Paused, text);
            }
            if let Some(other) = seen.replacing.as_ref() {
                let other = match &other.ordered_by.etcd_restore {
                    Some(other) => format!("EtcdRestore {}", other.name),
                    None => "the order to recover its lost quorum".to_owned(),
                };
                let text = format!(
                    "EtcdCluster {name} carries out {other}, and this one waits for it. Once the data are replaced, this one is not \
                     carried out: they have another cluster ID then. To withdraw the other, delete it before the members are stopped"
                );
                return pending(Reason::OrderPending, text);
            }
            let text = format!("EtcdCluster {name} takes it up with its next look at it");
            pending(Reason::OrderPending, text)
        }
    }
}

/// It may be the order of the first time.
fn given_again(id: &str, cluster: &EtcdCluster) -> Explanation {
    let text = format!(
        "the data of cluster {id} were given up once and taken back, and this may be the order of then, given again: nothing is done. To give \
         them up once more, create another EtcdRestore with the annotation {}: {}",
        keys::GIVE_UP_AGAIN,
        cluster.metadata.uid.as_deref().unwrap_or_default()
    );
    Explanation::new(Reason::ClusterIDMismatch, text)
}

/// What is restored, for people.
fn describe(status: &mut EtcdRestoreStatus, restore: &RestoreStatus) {
    status.url = Some(restore.source.destination.url(&restore.source.key));
    let bump = i64::try_from(restore.bump_revision).unwrap_or(i64::MAX);
    status.revision =
        restore.revision.map(|revision| revision.saturating_add(bump).max(restore.least_revision));
}

fn is_available(seen: &EtcdClusterStatus) -> bool {
    conditions::is_true(&seen.conditions, ConditionType::Available.as_str())
}

/// The reason and the message of a condition of the EtcdCluster.
fn condition(seen: &EtcdClusterStatus, type_: ConditionType, or: Reason, text: &str) -> Explanation {
    let found = conditions::find(&seen.conditions, type_.as_str()).and_then(conditions::explanation);
    found.filter(|found| !found.message().is_empty()).unwrap_or_else(|| Explanation::new(or, text))
}
