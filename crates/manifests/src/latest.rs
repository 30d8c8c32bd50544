//! The newest backup of a store: what a Job is ordered to find, and what the one that was found means.

use quorate_api::Reason;
use quorate_api::bootstrap::{RestoreSource, RestoreSpec, RestoreStatus};
use quorate_api::job::{ClusterName, FindOrder};
use quorate_api::latest::{LatestBackup, LatestStatus};
use quorate_model::Span;
use quorate_model::restore::{RestoreCause, RestoreFailure};

use crate::bootstrap::Hint;

/// How long after a try that failed the next one begins: each time a minute later, and no later than that.
const AGAIN_AFTER: (u64, u64) = (60, 600);

/// The order to find it, for an object of this namespace.
pub fn order(spec: &RestoreSpec, namespace: &str, except: Option<String>) -> Option<FindOrder> {
    let LatestBackup { destination, cluster, cluster_namespace: of, cluster_id, before, allow_unsigned } =
        spec.latest.as_ref()?;
    let of = of.as_deref().unwrap_or(namespace);
    Some(FindOrder {
        destination: destination.clone(),
        cluster: cluster.clone().map(|name| ClusterName { namespace: of.to_owned(), name }),
        cluster_id: cluster_id.clone(),
        before: before.as_ref().map(|before| before.0.to_string()),
        except,
        has_identities: spec.identities_secret.is_some(),
        allow_unsigned: *allow_unsigned,
    })
}

/// When a try that failed is repeated.
pub fn again_after(status: &LatestStatus) -> Span {
    let (first, most) = AGAIN_AFTER;
    Span::seconds((first * u64::from(status.attempt.max(1))).min(most))
}

/// What the look for it has come to, for people: the reason, if the last try failed, and the text. It does not end with what to do.
pub fn explain(
    latest: &LatestBackup,
    status: Option<&LatestStatus>,
    namespace: &str,
) -> (Option<Reason>, String) {
    let of = match (&latest.cluster, &latest.cluster_id) {
        (Some(cluster), _) => {
            format!("EtcdCluster {}/{cluster}", latest.cluster_namespace.as_deref().unwrap_or(namespace))
        }
        (None, id) => format!("cluster ID {}", id.as_deref().unwrap_or_default()),
    };
    let place = latest.destination.url("");
    let message = status.and_then(|status| status.message.as_deref()).unwrap_or_default();
    let Some(reason) = status.and_then(|status| status.reason.as_deref()) else {
        let why = if message.is_empty() { String::new() } else { format!(": {message}") };
        return (None, format!("a Job looks for the newest backup of {of} in {place}{why}"));
    };
    let known = Reason::ALL.iter().find(|known| known.as_str() == reason).copied();
    let text = format!("the newest backup of {of} is not known: {}", message.trim_end_matches('.'));
    (Some(known.unwrap_or(Reason::JobFailed)), text)
}

/// The one that was found, as it is recorded with the attempt.
pub(crate) fn found(
    latest: &LatestBackup,
    status: Option<&LatestStatus>,
    namespace: &str,
    hint: Hint,
    recorded: RestoreStatus,
) -> Result<RestoreStatus, RestoreFailure> {
    let Some(found) = status.and_then(|status| status.found.as_ref()) else {
        let (reason, text) = explain(latest, status, namespace);
        let seconds = status.map_or(0, |status| again_after(status).0 / 1000);
        let end = match reason {
            None => String::new(),
            Some(_) => format!(". It is looked for again after {seconds} s. {}", hint.other),
        };
        return Err(RestoreFailure::new(cause(reason), format!("{text}{end}")));
    };
    let source = RestoreSource {
        destination: latest.destination.clone(),
        key: found.key.clone(),
        sha256: found.sha256.clone(),
        version_id: None,
    };
    Ok(RestoreStatus {
        // Retention keeps it meanwhile, if its EtcdBackup is there.
        backup: found.backup_in(namespace).map(str::to_owned),
        source,
        etcd_version: Some(found.etcd_version.clone()).filter(|version| !version.is_empty()),
        snapshot_bytes: Some(found.bytes).filter(|bytes| *bytes > 0),
        revision: Some(found.revision).filter(|revision| *revision > 0),
        ..recorded
    })
}

fn cause(reason: Option<Reason>) -> RestoreCause {
    match reason {
        None => RestoreCause::NotReady,
        Some(Reason::NoBackupFound) => RestoreCause::NothingFound,
        Some(Reason::BackupAmbiguous) => RestoreCause::Ambiguous,
        Some(Reason::StoreForbidden) => RestoreCause::Forbidden,
        Some(Reason::NotInStore) => RestoreCause::Gone,
        Some(Reason::CannotDecrypt | Reason::SnapshotIncompatible | Reason::OrderRefused) => {
            RestoreCause::Refused
        }
        Some(_) => RestoreCause::Failed,
    }
}
