//! The comparison of the members' data, by the hashes that they make of their keys and history. It is made only with a reason: data may
//! differ, or a cluster begins with a snapshot. It alone decides whose data differ: etcd's alarm CORRUPT may name nobody (3.5 never names a
//! member) or the wrong one (from 3.6 on a follower where the leader's data are wrong), and a member that ends at its start because its
//! data differ from a peer's may be the good one.

use std::collections::{BTreeMap, BTreeSet};

use super::{AlarmKind, Snapshot};
use crate::ids::{MemberId, Revision};
use crate::mutants;
use crate::names::MemberName;
use crate::quorum::{has_quorum, quorum};
use crate::record::{Loss, Record, Stage};
use crate::time::{Instant, Span};
use crate::version::Version;

/// How long a comparison counts beyond the moment when the next one is due. Data that differ stay so, and a member that answers meanwhile
/// is still the one that was asked.
pub const COMPARED_WITHIN: Span = Span::seconds(60);

/// The second comparison that a replacement needs is made at least this long after the first, whatever the grace period.
const SHORTEST_GRACE: Span = Span::seconds(1);

/// The hash that a member made of its keys and their history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeysHash {
    /// The member that made it.
    pub member_id: MemberId,
    /// The hash.
    pub hash: u32,
    /// What is newer than this is not in it.
    pub revision: Revision,
    /// What is older than this was compacted when it was made. Only hashes with the same one can be compared.
    pub compacted: Revision,
    /// The latest revision of the member when it was made.
    pub latest: Revision,
}

/// The hashes of the members that answer, asked for at one revision, one member after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hashes {
    /// When the last one arrived.
    pub at: Instant,
    /// Until when they count: a while longer than until the next ones are due.
    pub until: Instant,
    /// What each of them replied, or why it has no hash.
    pub replies: BTreeMap<MemberName, Result<KeysHash, String>>,
}

/// What the hashes say about the voters of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Those with the same data that are a majority of all voters; empty if there is no such majority.
    pub majority: BTreeSet<MemberName>,
    /// Those whose data differ from the majority's at the same revision.
    pub differ: BTreeSet<MemberName>,
    /// Without a majority: the members with the same data, group by group.
    pub groups: Vec<BTreeSet<MemberName>>,
    /// Those whose data cannot be compared with the majority's, or with anybody's if there is none.
    pub unknown: BTreeSet<MemberName>,
    /// Nobody has a revision that is not in its hash.
    pub is_complete: bool,
}

/// What must be the same for two hashes to be comparable. Versions may make them in different ways.
type Basis = (Version, Revision, Revision);

impl Hashes {
    /// Whether two members have other data at the same revision.
    pub fn differ(&self) -> bool {
        self.contradiction().is_some()
    }

    /// Two members that have other data at the same revision, and that revision.
    pub fn contradiction(&self) -> Option<(&MemberName, &MemberName, Revision)> {
        let made = || self.replies.iter().filter_map(|(member, reply)| Some((member, reply.as_ref().ok()?)));
        let contradicts = |one: &KeysHash, other: &KeysHash| {
            (one.revision, one.compacted) == (other.revision, other.compacted) && one.hash != other.hash
        };
        made().find_map(|(member, one)| {
            let (other, _) = made().find(|(_, other)| contradicts(one, other))?;
            Some((member, other, one.revision))
        })
    }
}

impl Comparison {
    /// Whether all voters have the same data, and nothing else.
    pub fn all_agree(&self) -> bool {
        self.is_complete && self.none_differs()
    }

    /// Whether all voters have the same data up to the revision of the hashes.
    pub fn none_differs(&self) -> bool {
        !self.majority.is_empty() && self.differ.is_empty() && self.unknown.is_empty()
    }
}

impl Snapshot {
    /// Whether anything gives a reason to compare the members: an alarm CORRUPT, a member that ends because its data differ from a
    /// peer's, an earlier comparison that found a difference, or that the cluster begins with a snapshot. A calm cluster is never asked.
    pub fn has_reason_to_compare(&self, now: Instant) -> bool {
        if self.begins_with_a_snapshot(now) {
            return true;
        }
        let is_suspected = self.record.suspected.keys().any(|member| self.record.is_wrong(member));
        let is_replaced =
            self.record.replacement.as_ref().is_some_and(|order| order.loss == Loss::Inconsistent);
        let kept_out = self.kept_out(now).next().is_some();
        let at_work = self.record.is_bootstrapped() && !self.record.hibernating && !self.deleting;
        let differ = self.record.differ_since.is_some();
        at_work && (self.is_alarmed(now) || is_suspected || is_replaced || kept_out || differ)
    }

    /// Whether members that restored a snapshot have their first leader. etcd's own check at the start of a member compares it with
    /// the peers that serve by then, and those that start at the same time find nobody.
    pub fn begins_with_a_snapshot(&self, now: Instant) -> bool {
        let has_leader = |member| self.status_of(member, now).is_some_and(|status| status.leader.is_some());
        self.record.restore.is_some()
            && !self.record.is_bootstrapped()
            && !self.deleting
            && self.record.members.keys().any(has_leader)
    }

    /// The revision up to which hashes are compared: the highest that a majority of all voters has reached, of those that were asked for
    /// their Status. One that stands still is not waited for: the others may have compacted its revision. Without such a majority, the
    /// lowest. `None` for the latest, where all have the same. A hash up to the latest revision is made anew, one up to an earlier
    /// revision may be an old one.
    pub fn revision_to_compare(&self, now: Instant) -> Option<Revision> {
        let mut revisions: Vec<Revision> =
            self.voters_that_answer(now).map(|status| status.revision).collect();
        revisions.sort_unstable();
        let differ = revisions.first() != revisions.last();
        let majority = quorum(self.count_voters(now));
        let highest = revisions.len().checked_sub(majority).and_then(|place| revisions.get(place));
        highest.or(revisions.first()).copied().filter(|_| differ)
    }

    /// The hashes, if there are recent ones.
    pub fn hashes(&self, now: Instant) -> Option<&Hashes> {
        self.etcd.hashes.as_ref().filter(|hashes| hashes.at <= now && now <= hashes.until)
    }

    /// What the hashes say, if there are recent ones and a list.
    pub fn comparison(&self, now: Instant) -> Option<Comparison> {
        let hashes = self.hashes(now)?;
        let list = self.list(now)?;
        let mut comparison = Comparison { is_complete: true, ..Comparison::default() };
        let mut groups: BTreeMap<(Basis, u32), BTreeSet<MemberName>> = BTreeMap::new();
        let voters: Vec<_> = list.members.iter().filter(|listed| !listed.is_learner).collect();
        for listed in &voters {
            let name = self.member_of(&self.record, listed).unwrap_or_else(|| MemberName::new(&*listed.name));
            let made = hashes.replies.get(&name).and_then(|reply| reply.as_ref().ok());
            let made = made.filter(|made| made.member_id == listed.id);
            match made.zip(self.status_of(&name, now).map(|status| status.version)) {
                Some((made, version)) => {
                    comparison.is_complete &= made.latest == made.revision;
                    let version = if mutants::is_broken(mutants::Rule::POneVersion) {
                        Version::new(0, 0, 0)
                    } else {
                        version
                    };
                    let basis = (version, made.revision, made.compacted);
                    groups.entry((basis, made.hash)).or_default().insert(name);
                }
                None => {
                    comparison.unknown.insert(name);
                }
            }
        }
        let is_majority = |group: &BTreeSet<MemberName>| {
            has_quorum(group.len(), voters.len()) || mutants::is_broken(mutants::Rule::PMajority)
        };
        let majority = groups.iter().find(|(_, group)| is_majority(group)).map(|(key, _)| *key);
        // Without a majority: what most of them can be compared by.
        let by_basis = |basis: Basis| -> usize {
            groups.iter().filter(|((other, _), _)| *other == basis).map(|(_, group)| group.len()).sum()
        };
        let basis = majority.map(|(basis, _)| basis);
        let basis =
            basis.or_else(|| groups.keys().map(|(basis, _)| *basis).max_by_key(|basis| by_basis(*basis)));
        for (key, group) in groups {
            match majority {
                Some(found) if found == key => comparison.majority = group,
                _ if basis != Some(key.0) => comparison.unknown.extend(group),
                Some(_) => comparison.differ.extend(group),
                None => comparison.groups.push(group),
            }
        }
        Some(comparison)
    }

    /// Whether the data of this voter differ from those of a majority of all voters.
    pub fn differs_from_majority(&self, voter: &MemberName, now: Instant) -> bool {
        self.comparison(now).is_some_and(|comparison| comparison.differ.contains(voter))
    }

    /// Whether this voter has the data of a majority of all voters.
    pub fn agrees_with_majority(&self, voter: &MemberName, now: Instant) -> bool {
        self.comparison(now).is_some_and(|comparison| comparison.majority.contains(voter))
    }

    /// Whether the present comparison is another one than the first, and was made when the grace period was over.
    pub fn is_compared_again(&self, first: Instant) -> bool {
        let grace = self.replacement_policy.grace.max(SHORTEST_GRACE);
        self.etcd.hashes.as_ref().is_some_and(|hashes| hashes.at - first >= grace)
    }

    /// The voters that end at their start because etcd's check finds that their data differ from a peer's. The peer may be the one that
    /// is wrong, so by itself this only gives a reason to compare those that run.
    pub fn kept_out(&self, now: Instant) -> impl Iterator<Item = &MemberName> {
        let voters = self.record.members.iter().filter(|(_, member)| member.stage == Stage::Voter);
        voters.map(|(name, _)| name).filter(move |name| self.is_kept_out(name, now))
    }

    /// Whether this member ends at its start because its data differ from a peer's.
    pub fn is_kept_out(&self, member: &MemberName, now: Instant) -> bool {
        let pod = self.pods.get(member);
        pod.is_some_and(|pod| pod.differs_from_peers && !pod.ready) && self.status_of(member, now).is_none()
    }

    /// Whether etcd's check at the start refuses the data of this voter, and a majority of all voters has the same data, and there is nobody
    /// else whom it may differ from. The check (`InitialCheck`) compares the member with each peer that it knows, voter or learner, and
    /// ends it only where a peer has another hash at the same revision and the same compacted revision. So every peer that may serve
    /// hashes must be seen to agree: one that is kept out as well serves none.
    ///
    /// What follows, where this was seen and the check refuses the data again in a later Pod: the member's data have not changed
    /// meanwhile, and neither has its compacted revision. It was that of a peer before and after, so that of all peers between. Their
    /// hashes were the same then, and that of the member another one.
    ///
    /// Another image may make hashes in another way.
    pub fn is_refused_by_majority(&self, record: &Record, voter: &MemberName, now: Instant) -> bool {
        let Some((compared, list)) = self.comparison(now).zip(self.list(now)) else { return false };
        let is_listed =
            |name: &MemberName| self.listed(record, name, now).is_some_and(|listed| !listed.is_learner);
        // One that a dead node keeps is asked by nobody.
        let may_serve = || self.pods.iter().filter(|(_, pod)| !pod.is_stuck(now));
        let all_others_agree = !compared.majority.is_empty()
            && compared.differ.is_empty()
            && compared.unknown.iter().all(|name| self.is_kept_out(name, now))
            && list.members.iter().all(|listed| !listed.is_learner)
            && may_serve().all(|(name, _)| is_listed(name));
        let Some(pod) = self.pods.get(voter).filter(|_| self.is_refused_by_check(record, voter, now)) else {
            return false;
        };
        all_others_agree && may_serve().all(|(_, other)| other.image == pod.image)
    }

    /// Whether etcd's check at the start keeps this member out, by etcd's own last words.
    pub fn is_refused_by_check(&self, record: &Record, member: &MemberName, now: Instant) -> bool {
        let own_id = record.members.get(member).and_then(|member| member.id);
        let refused = self.pods.get(member).and_then(|pod| pod.refused_by_check);
        own_id.is_some() && refused == own_id && self.is_kept_out(member, now)
    }

    /// Whether an alarm CORRUPT is active, of a member or of none.
    pub fn is_alarmed(&self, now: Instant) -> bool {
        let corrupt = |kind| kind == AlarmKind::Corrupt;
        self.has_unnamed_alarm(now) || self.alarms(now).iter().any(|alarm| corrupt(alarm.kind))
    }
}
