//! Backups that the spec wants before an upgrade (T0) and before the members of a deleted cluster are stopped (D0).

use quorate_model::snapshot::{BackupBefore, BackupPurpose, BackupState};
use quorate_model::version::Minor;
use quorate_model::{Instant, KubeEffect, Step, Waiting};

use crate::draft::{Draft, Progress};

/// Whether the spec wants a backup before upgrades.
pub(crate) fn comes_before_upgrades(draft: &Draft<'_>) -> bool {
    let backup = draft.seen.backup_before.as_ref();
    backup.is_some_and(|backup| matches!(backup.before, BackupPurpose::Upgrade(_)))
}

/// T0. Pending until the backup before an upgrade to this minor version is complete.
pub(crate) fn before_upgrade(draft: &mut Draft<'_>, to: Minor) -> Progress {
    let backup =
        draft.seen.backup_before.as_ref().filter(|backup| backup.before == BackupPurpose::Upgrade(to));
    let Some(backup) = backup else { return Progress::Done };
    match &backup.state {
        BackupState::Complete => return Progress::Done,
        BackupState::Failed(why) => draft.wait(Waiting::UpgradeBackupFailed(why.clone())),
        BackupState::Missing | BackupState::Pending { .. } | BackupState::Unknown(_) => {
            let what = take(draft, Step::T0, backup);
            draft.wait(Waiting::UpgradeBackup(what));
        }
    }
    Progress::Pending
}

/// D0. Pending until the backup before the end of the cluster is complete, or cannot become it. It never holds up deletion for longer than
/// its deadline; without the backup, the volumes are kept (D2).
pub(crate) fn before_the_end(draft: &mut Draft<'_>) -> Progress {
    let seen = draft.seen;
    let Some(backup) = &seen.backup_before else { return Progress::Done };
    let BackupPurpose::Deletion { until } = backup.before else { return Progress::Done };
    let is_complete = backup.state == BackupState::Complete && seen.clock_differs.is_none();
    // Where it never served, there is nothing to back up.
    if is_complete || seen.never_served(&draft.record) {
        return Progress::Done;
    }
    if let Some(why) = why_without(draft, backup, until) {
        draft.wait(Waiting::NoFinalBackup(why));
        return Progress::Done;
    }
    let what = take(draft, Step::D0, backup);
    draft.wait(Waiting::FinalBackup(what));
    Progress::Pending
}

/// Creates the backup where it does not exist. What it does, for people.
fn take(draft: &mut Draft<'_>, step: Step, backup: &BackupBefore) -> String {
    match &backup.state {
        BackupState::Missing => {
            draft.write(step, KubeEffect::CreateBackup { name: backup.name.clone() });
            format!("EtcdBackup {} is created", backup.name)
        }
        BackupState::Pending { what, .. } | BackupState::Unknown(what) | BackupState::Failed(what) => {
            what.clone()
        }
        BackupState::Complete => format!("EtcdBackup {} is complete", backup.name),
    }
}

/// Why the cluster ends without its backup, if it does.
fn why_without(draft: &Draft<'_>, backup: &BackupBefore, until: Instant) -> Option<String> {
    let BackupBefore { name, state, before: _ } = backup;
    // Nothing is started again while the object is being deleted.
    let runs = draft.seen.pods.values().any(|pod| !pod.terminating);
    let is_late = draft.now >= until;
    let late = |what: &str| {
        is_late.then(|| format!("EtcdBackup {name} was not complete within its deadline: {what}"))
    };
    match state {
        // Its age is judged again when the volumes go: it is complete then only if it is still of just now.
        BackupState::Complete => draft.seen.clock_differs.map(|differs| {
            format!("whether EtcdBackup {name} is of just now cannot be told by a clock that is {differs} that of the API server")
        }),
        BackupState::Failed(why) => Some(why.clone()),
        BackupState::Missing | BackupState::Pending { .. } if !runs => {
            Some(format!("no member runs that EtcdBackup {name} could be taken of"))
        }
        BackupState::Missing => late("it was not created"),
        BackupState::Unknown(what) | BackupState::Pending { what, .. } => late(what),
    }
}
