//! The words of a snapshot that a cluster begins with, and of orders to replace its data.

use quorate_api::{Reason, keys};
use quorate_model::effect::{NoSnapshot, NotBegun, NotRestored, OrderWait, Unfit};
use quorate_model::incarnation::Order;
use quorate_model::restore::RestoreCause;

use super::edit::version_refused;

use super::{Row, Stops, moves, replace_command, waits};

/// No member is started. A backup is not watched, so this may last.
pub(super) fn no_snapshot(why: &NoSnapshot) -> Row {
    let text = match why {
        NoSnapshot::Failed(why) => why.message.clone(),
        NoSnapshot::Unfit(why) => unfit(why),
    };
    waits(reason(why.cause()), format!("no member is started: {text}")).stopping(Stops::Everything)
}

pub(super) fn not_restored(member: &str, why: &NotRestored) -> Row {
    let text = match why {
        NotRestored::Failed(why) => why.message.clone(),
        NotRestored::Lower { revision, least } => format!(
            "it reports revision {revision}, and a member that was restored has {least} at least. The cluster is not used. \
             Delete the EtcdCluster, and restore into a new one"
        ),
        NotRestored::Differs { from, revision } => format!(
            "{from} and {member} have other data at revision {revision}, although both restored the same snapshot. The cluster is not used. \
             They are compared again every half minute, because versions of etcd are known whose hashes differ for a while. If this \
             stays, delete the EtcdCluster, and restore into a new one"
        ),
    };
    waits(reason(why.cause()), format!("{member} could not restore the snapshot: {text}"))
        .stopping(Stops::Nothing)
}

pub(super) fn order(order: &Order, wait: &OrderWait) -> Row {
    let order = order_name(order);
    let goes_on = format!("{order} is not begun, and the members go on as they are");
    match wait {
        OrderWait::NotBegun(why) => waits(reason(why.cause()), format!("{goes_on}: {}", not_begun(why))),
        OrderWait::BackupFirst => waits(
            Reason::RestoreBackupFirst,
            format!(
                "{goes_on}: the data that it gives up are backed up first. Its status names the EtcdBackup, and says how to go on if that fails"
            ),
        ),
        OrderWait::ReadAgain => waits(
            Reason::RestoreReadAgain,
            format!(
                "{goes_on}: its snapshot was read too long ago, and may be gone from the store meanwhile. It is read again"
            ),
        ),
        OrderWait::Replacing => moves(
            Reason::RestoringInPlace,
            format!(
                "{order} replaces the data: every member is stopped, its volume is quarantined, and new members begin with the snapshot"
            ),
        ),
    }
}

/// Who ordered another incarnation.
pub(crate) fn order_name(order: &Order) -> String {
    match order {
        Order::Restore { name, uid: _ } => format!("EtcdRestore {name}"),
        Order::Recovery { from } => format!("{}={from}", keys::RECOVER_QUORUM_FROM),
    }
}

/// Why an order for another incarnation is not begun.
fn not_begun(why: &NotBegun) -> String {
    match why {
        NotBegun::Snapshot(why) => why.message.clone(),
        NotBegun::Unfit(why) => unfit(why),
        NotBegun::Version(why) => version_refused(why),
        NotBegun::SizeZero => {
            "the cluster is at size zero. Set spec.size to a number above 0 first".to_owned()
        }
        NotBegun::NamesTaken(names) => {
            format!("names that it needs are taken: {}. Delete or rename them", names.join(", "))
        }
        NotBegun::ClaimsFirst(orders) => {
            let on_order = orders.as_ref().map_or_else(String::new, |orders| {
                format!(
                    ". They get none by themselves, because spec.recovery.enabled is false: {}",
                    orders.iter().map(replace_command).collect::<Vec<_>>().join("; ")
                )
            });
            format!(
                "PersistentVolumeClaims of members are being deleted, and their data would go with the Pods. It is begun once these members \
                 have new claims{on_order}"
            )
        }
        NotBegun::NotAdmitted(why) => format!(
            "the API server would not admit a new member: {why}. Mend that, or edit the spec (storageSpec, podTemplate); it is asked \
             again with each look"
        ),
        NotBegun::AdmissionUnknown(why) => format!(
            "it is not known whether the API server would admit a new member: {why}. It is asked again with each look"
        ),
        NotBegun::AdmissionAsked => "the API server is asked whether it would admit a new member".to_owned(),
    }
}

/// What of the spec does not go with a snapshot, and what to do.
pub(super) fn unfit(why: &Unfit) -> String {
    match why {
        Unfit::Memory => {
            "a snapshot is not restored into memory. Use spec.storageSpec.medium \"\"".to_owned()
        }
        Unfit::AuthWithoutTls => {
            "auth is enabled in the snapshot, and where spec.tls.provider is disabled neither the operator nor the members' own checks have a \
             certificate to log in with. Restore it into a new EtcdCluster with TLS (spec.bootstrap.restore), or order a snapshot of \
             before auth was enabled"
                .to_owned()
        }
        Unfit::OlderThan(version) => format!(
            "the snapshot is of etcd {version}, and an older minor version does not start on its data. Set spec.version to {} or \
             newer",
            version.line()
        ),
        Unfit::CannotRaise(version, first) => {
            format!("etcd {version} cannot raise revisions. Set spec.version to {first} or newer")
        }
        Unfit::OverQuota { bytes, quota } => format!(
            "the snapshot has {bytes} bytes, and the quota of the database is {quota}. Raise spec.etcd.quotaBackendBytes, or \
             spec.storageSpec.volumeSizeRequest if that is absent"
        ),
        Unfit::VolumeTooSmall { bytes, needed, has } => format!(
            "the snapshot has {bytes} bytes, so each volume needs {needed}. Raise spec.storageSpec.volumeSizeRequest, which is {has}"
        ),
    }
}

fn reason(cause: RestoreCause) -> Reason {
    match cause {
        RestoreCause::NotReady => Reason::RestoreWaiting,
        RestoreCause::Refused => Reason::RestoreRefused,
        RestoreCause::NothingFound => Reason::NoBackupFound,
        RestoreCause::Ambiguous => Reason::BackupAmbiguous,
        RestoreCause::Gone => Reason::RestoreSourceGone,
        RestoreCause::Forbidden => Reason::RestoreForbidden,
        RestoreCause::Stale => Reason::RestoreStale,
        RestoreCause::Failed => Reason::RestoreFailed,
    }
}
