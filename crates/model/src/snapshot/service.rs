//! What a client needs for a write: a quorum, the client Service, its endpoints, and no alarm of etcd.

use std::collections::BTreeSet;

use super::{Alarm, FRESH, SERVED_WITHIN, Snapshot, Unhealthy};
use crate::mutants;
use crate::names::MemberName;
use crate::quorum::has_quorum;
use crate::record::Record;
use crate::time::{Instant, Span};

/// How long a voter whose Pod is ready may be unsound until clients are led away from it (R24). An election, a restart of etcd or a lost
/// packet is over by then.
pub const LED_AWAY_AFTER: Span = Span::seconds(4);

/// How long after clients were led away from a member that still serves nothing its Pod is restarted, once: then established connections end
/// (R24). A partition or a disk that recovers is over by then.
pub const CONNECTIONS_END_AFTER: Span = Span::seconds(30);

/// How long clients have to go elsewhere once a member does not get new ones any more: until its node's proxy and name servers have
/// followed the endpoints, and balancers have opened their next connections. The agent waits as long before it stops etcd.
pub const CLIENTS_LEAVE_WITHIN: Span = Span::seconds(3);

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
    /// Whether a quorum serves. For reports only: every act rests on the list of this pass (R9). One of:
    ///
    /// - It served a linearizable read in this pass.
    /// - It served some minutes ago, and every Status shows that all follow one leader and that nothing was committed since.
    /// - It served some minutes ago, there is no list for a moment, and most voters answer: an election that fails one read is no
    ///   loss of the quorum.
    /// - It served some minutes ago, and most voters answer or make a hash that the operator asked for.
    pub fn had_quorum(&self, now: Instant) -> bool {
        if self.list_just_read(now).is_some() {
            return true;
        }
        let served = self.etcd.quorum_at.is_some_and(|at| at <= now && now - at <= SERVED_WITHIN);
        let is_silent = |member: &&MemberName| self.status_of(member, now).is_none();
        let hashing = self.etcd.hashing.iter().filter(is_silent).count();
        let still_answers =
            || has_quorum(self.voters_that_answer(now).count() + hashing, self.count_voters(now));
        let is_excused = self.is_in_doubt(now) || hashing > 0;
        served && (self.list(now).is_some() || (is_excused && still_answers()))
    }

    /// Whether nothing about the cluster asks for attention: every voter is healthy, its clients are served, and no proof of progress
    /// has just failed.
    pub fn is_well(&self, now: Instant) -> bool {
        let all_healthy = self.record.voters().all(|voter| self.is_healthy(voter, now));
        all_healthy && self.serves_clients(now) && self.etcd.proof_failure.is_none()
    }

    /// Whether the list could not be read for a moment. Soon it is certain whether the quorum is lost.
    pub fn is_in_doubt(&self, now: Instant) -> bool {
        self.etcd.no_list_since.is_some_and(|since| since <= now && now - since <= FRESH)
    }

    /// Whether the file of a voter is close to its quota, so that it may raise an alarm NOSPACE at any moment, and refuse writes; or whether
    /// a volume is nearly used up.
    pub fn is_nearly_full(&self, now: Instant) -> bool {
        let is_nearly_full =
            |voter| self.database_of(voter, now).is_some_and(|database| database.is_nearly_full());
        self.record.voters().any(is_nearly_full) || self.nearly_used_up().next().is_some()
    }

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

    /// Voters that the client Service sends clients to and that are not sound: clients that connect there may fail. None while there is
    /// no leader.
    pub fn failing_endpoints(&self, now: Instant) -> impl Iterator<Item = &MemberName> {
        let has_leader = self.leader(now).is_some();
        let unsound = move |member: &&MemberName| has_leader && !self.is_sound(member, now);
        self.record.voters().filter(|voter| self.endpoints.contains(*voter)).filter(unsound)
    }

    /// Voters whose Pods are ready, and that clients are led away from.
    pub fn led_away(&self) -> impl Iterator<Item = &MemberName> {
        let is_led_away = |pod: &super::Pod| pod.ready && !pod.serves && pod.served_until.is_some();
        self.record.voters().filter(move |voter| self.pods.get(voter).is_some_and(is_led_away))
    }

    /// The voters that are not sound although their Pods are ready.
    pub fn unsound_though_ready(&self, now: Instant) -> BTreeSet<MemberName> {
        let is_ready =
            |voter: &MemberName| self.pods.get(voter).is_some_and(|pod| pod.ready && !pod.terminating);
        let unsound = self.record.voters().filter(|voter| is_ready(voter) && !self.is_sound(voter, now));
        unsound.cloned().collect()
    }

    /// R24: whether a voter is unsound for so long, while its Pod is ready, that clients are led away from it.
    pub fn misleads_clients(&self, voter: &MemberName, now: Instant) -> bool {
        let since = self.etcd.unsound_since.get(voter);
        !mutants::is_broken(mutants::Rule::R24) && since.is_some_and(|since| now - *since >= LED_AWAY_AFTER)
    }

    /// R24: whether established connections are to a voter that serves nothing, and from which new ones were led away long ago. It is cut off from
    /// the others, or hangs. One that lags, or whose data differ, answers its clients, and others decide what becomes of it.
    pub fn holds_connections(&self, voter: &MemberName, now: Instant) -> bool {
        let runs = |pod: &&super::Pod| pod.ready && !pod.terminating && pod.guard.is_none();
        let Some(pod) = self.pods.get(voter).filter(runs).filter(|pod| !pod.serves) else { return false };
        let earliest = self.present(now).earliest;
        let is_late = |until: Instant| until <= earliest && earliest - until >= CONNECTIONS_END_AFTER;
        let is_cut_off = matches!(
            self.health(voter, now),
            Err(Unhealthy::NoAnswer(_) | Unhealthy::NoLeader | Unhealthy::OtherLeader { .. })
        );
        is_cut_off && pod.served_until.is_some_and(is_late) && self.misleads_clients(voter, now)
    }

    /// R24: the voters other than this one that clients are led to and that are sound.
    pub fn others_that_serve(
        &self,
        record: &Record,
        member: &MemberName,
        now: Instant,
    ) -> BTreeSet<MemberName> {
        let is_led_to = |voter: &MemberName| {
            self.pods.get(voter).is_some_and(|pod| pod.serves && pod.is_labelled_joined() && !pod.terminating)
        };
        let others = record.voters().filter(|voter| *voter != member);
        others.filter(|voter| is_led_to(voter) && self.is_sound(voter, now)).cloned().collect()
    }

    /// The alarms by any member's answer. Each makes etcd refuse writes until it is disarmed, also when its member is gone.
    pub fn alarms(&self, now: Instant) -> BTreeSet<Alarm> {
        let answers = self.etcd.answers.keys().filter_map(|member| self.status_of(member, now));
        answers.flat_map(|status| status.alarms.iter().copied()).collect()
    }

    /// Whether a member reports an alarm without a member, such as the one of a failed comparison of hashes.
    pub fn has_unnamed_alarm(&self, now: Instant) -> bool {
        let mut answers = self.etcd.answers.keys().filter_map(|member| self.status_of(member, now));
        answers.any(|status| status.errors.iter().any(|error| is_unnamed_corrupt(error)))
    }
}

/// Whether this error of a member is an alarm CORRUPT that names nobody.
pub(super) fn is_unnamed_corrupt(error: &str) -> bool {
    error.contains("alarm:CORRUPT")
}
