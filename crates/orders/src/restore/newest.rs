//! The newest backup is found once, before the snapshot is read, and stays the one that is restored.

use quorate_api::job::FoundBackup;
use quorate_api::restore::EtcdRestoreStatus;
use quorate_api::{Explanation, Reason};
use quorate_manifests::latest::{again_after, explain, order};

use super::decide::Seen;
use super::reading::NextAct;
use crate::latest::{Look, NextLook, look};

/// What is next to find it, and why the order is pending for it; `None`: it was found, or is not asked for.
pub(crate) fn decide(seen: &Seen<'_>, status: &mut EtcdRestoreStatus) -> Option<(NextAct, Explanation)> {
    let spec = &seen.restore.spec.snapshot;
    let latest = spec.latest.as_ref().filter(|_| found(status).is_none())?;
    let namespace = seen.restore.metadata.namespace.as_deref().unwrap_or_default();
    // A backup that is taken for this very order is of what it gives up.
    let order = order(spec, namespace, Some(format!("-{}", seen.uid())))?;
    let before = status.latest_backup.as_ref();
    let (looked, next) =
        look(Look { uid: seen.uid(), order: &order, before, jobs: seen.jobs, now: seen.now });
    let (reason, text) = explain(latest, Some(&looked), namespace);
    let why = match (reason, &looked.found) {
        (None, Some(found)) => {
            let text = format!(
                "the newest backup was found: {}, begun at {} ({} ago), of cluster ID {}. It is read next",
                found.key, found.started, found.age, found.cluster_id
            );
            Explanation::new(Reason::OrderPending, text)
        }
        (None, None) => {
            Explanation::new(Reason::OrderPending, format!("{text}. No member is stopped before"))
        }
        (Some(reason), _) => {
            let seconds = again_after(&looked).0 / 1000;
            let text = format!(
                "{text}. No member is stopped. It is looked for again after {seconds} s; to end that, delete this EtcdRestore"
            );
            Explanation::new(reason, text)
        }
    };
    status.latest_backup = Some(looked);
    let next = match next {
        NextLook::Wait => NextAct::Wait,
        NextLook::Find { attempt, order } => NextAct::Find { attempt, order },
        NextLook::DeleteJob(name) => NextAct::DeleteJob(name),
    };
    Some((next, why))
}

fn found(status: &EtcdRestoreStatus) -> Option<&FoundBackup> {
    status.latest_backup.as_ref()?.found.as_ref()
}
