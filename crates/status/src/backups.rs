//! The condition about backups. What it is about are other objects, so who knows those passes their verdict in.

use quorate_api::{Explanation, Reason};

use super::conditions::Finding;
use super::picture::Picture;

/// What the EtcdBackupSchedules of a cluster say about its backups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupHealth {
    /// Whether the backups come about; `None` if that is not known yet.
    pub healthy: Option<bool>,
    /// Why, with the name of the schedule.
    pub why: Explanation,
}

/// `None` where no schedule names the cluster.
pub(super) fn find(picture: &Picture<'_>) -> Option<Finding> {
    let BackupHealth { healthy, why } = picture.backups?;
    if *healthy == Some(false) && picture.record.hibernating {
        let text = "the cluster is at size zero, so no backup of it can be taken";
        return Some(Finding { holds: None, why: Explanation::new(Reason::Hibernated, text) });
    }
    Some(Finding { holds: *healthy, why: why.clone() })
}
