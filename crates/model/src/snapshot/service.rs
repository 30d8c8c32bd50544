//! What a client needs for a write: the client Service, its endpoints, and the alarms of etcd.

use std::collections::BTreeSet;

use super::{Alarm, Snapshot};
use crate::names::MemberName;
use crate::time::Instant;

/// Whether an object of the cluster exists, and is as it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// It does not exist, or is not owned by this EtcdCluster.
    #[default]
    Absent,
    /// It exists, and differs from its desired form.
    Differs,
    /// It exists, and matches its desired form.
    Matches,
}

impl Snapshot {
    /// Whether a client that connects through the client Service can read and write.
    pub fn serves_clients(&self, now: Instant) -> bool {
        let is_refused = self.has_unnamed_alarm(now) || !self.alarms(now).is_empty();
        !is_refused && self.serving_endpoints(now).next().is_some()
    }

    /// Members behind whose endpoint of the client Service a quorum serves: each answers, and follows the leader that a quorum
    /// follows. While there is no leader, such as in an election, the last proof of a quorum counts as long as it is fresh.
    pub fn serving_endpoints(&self, now: Instant) -> impl Iterator<Item = &MemberName> {
        let (quorum, leader) = (self.had_quorum(now), self.leader(now));
        self.endpoints.iter().filter(move |member| {
            let status = self.status_of(member, now).filter(|status| quorum && !status.is_learner);
            status.is_some_and(|status| leader.is_none() || status.leader == leader)
        })
    }

    /// The alarms by any member's answer. Each makes etcd refuse writes until it is disarmed, also when its member is gone.
    pub fn alarms(&self, now: Instant) -> BTreeSet<Alarm> {
        let answers = self.etcd.answers.keys().filter_map(|member| self.status_of(member, now));
        answers.flat_map(|status| status.alarms.iter().copied()).collect()
    }

    /// Whether a member reports an alarm without a member, such as the one of a failed comparison of hashes.
    pub fn has_unnamed_alarm(&self, now: Instant) -> bool {
        let mut answers = self.etcd.answers.keys().filter_map(|member| self.status_of(member, now));
        answers.any(|status| status.errors.iter().any(|error| error.contains("alarm:CORRUPT")))
    }
}
