//! The cluster version (etcd's `version/monitor.go`, `version/version.go`, `version/downgrade.go`). The leader raises it to the lowest
//! minor version that all members run. Where a downgrade is enabled, it lowers it at once, while all binaries are still the newer ones, and
//! ends the downgrade when all members run the lower one. The version of the data follows without delay here.

use quorate_model::effect::DowngradeAction;
use quorate_model::version::Minor;
use quorate_model::{ClusterId, MemberId, Refusal, Version};

use super::calls::Reply;
use super::replicated::Role;
use super::{Etcd, Failed, Group, Stored};

impl Etcd {
    /// Downgrade: validate, enable or cancel.
    pub fn downgrade(&mut self, at: &str, action: DowngradeAction, to: Minor) -> Reply<()> {
        self.may(at, Role::Root)?;
        let group = self.consenting(at)?;
        let (cluster, tip) = (group.id, group.tip.clone());
        let refused = Err(Failed::Refused(Refusal::Other));
        match action {
            DowngradeAction::Validate | DowngradeAction::Enable => {
                let allowed = tip.cluster_version.map(|Minor(major, minor)| Minor(major, minor - 1));
                if allowed != Some(to) || tip.downgrade.is_some() {
                    return refused;
                }
                if action == DowngradeAction::Validate {
                    return Ok(());
                }
                self.set_downgrade(cluster, Some(to))
            }
            DowngradeAction::Cancel if tip.downgrade.is_none() => refused,
            DowngradeAction::Cancel => self.set_downgrade(cluster, None),
        }
    }

    fn set_downgrade(&mut self, cluster: ClusterId, to: Option<Minor>) -> Reply<()> {
        if self.commit_shared(cluster, |group| group.tip.downgrade = to) {
            Ok(())
        } else {
            Err(Failed::Unknown)
        }
    }

    /// What the leader does about the cluster version by itself. It hears of all members or leaves it.
    pub(super) fn move_cluster_version(&mut self, cluster: ClusterId) -> bool {
        let Some(group) = self.group(cluster).filter(|group| group.leader.is_some()) else { return false };
        let version_of = |id: &MemberId| {
            self.up(cluster).find(|(_, _, dir)| dir.member == *id).map(|(_, up, _)| up.launch.version.line())
        };
        let versions: Option<Vec<Minor>> = group.conf().members.keys().map(version_of).collect();
        let Some(versions) = versions else { return false };
        let (lowest, highest) = (versions.iter().min().copied(), versions.iter().max().copied());
        let known = group.tip.cluster_version;
        match group.tip.downgrade {
            Some(to) if known != Some(to) => {
                self.commit_shared(cluster, |group| group.tip.cluster_version = Some(to))
            }
            Some(to) if lowest == Some(to) && highest == Some(to) => {
                self.commit_shared(cluster, |group| group.tip.downgrade = None)
            }
            Some(_) => false,
            None => {
                let rises = known < lowest;
                rises && self.commit_shared(cluster, |group: &mut Group| group.tip.cluster_version = lowest)
            }
        }
    }

    /// Whether a binary may run on data or in a cluster with this cluster version: an older one refuses. The version of an image
    /// without a version in its tag is not known.
    pub(super) fn is_too_old(version: Version, stored: &Stored) -> bool {
        version.major > 0 && stored.cluster_version.is_some_and(|cluster| version.line() < cluster)
    }
}
