//! What is known where a decision is made, and the questions that many decisions ask of it. None of them changes anything.

use quorate_model::record::{Member, Stage};
use quorate_model::snapshot::{List, Listed, Pod, StatusReply, Volume};
use quorate_model::{Instant, MemberName, Minor, Record, Snapshot, Version};

/// What was observed, what is recorded, and what time it is.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What was observed.
    pub seen: &'a Snapshot,
    /// The record. In a plan in the making it may know more than the observed one.
    pub record: &'a Record,
    /// The time.
    pub now: Instant,
}

impl<'a> View<'a> {
    pub(crate) fn pod(self, member: &MemberName) -> Option<&'a Pod> {
        self.seen.pods.get(member)
    }

    pub(crate) fn volume(self, member: &MemberName) -> Option<&'a Volume> {
        self.seen.volumes.get(member)
    }

    /// Whether a volume was created for this EtcdCluster.
    pub(crate) fn is_own(self, volume: &Volume) -> bool {
        volume.cluster_uid.as_ref() == Some(&self.seen.uid)
    }

    pub(crate) fn recorded(self, member: &MemberName) -> Option<&'a Member> {
        self.record.members.get(member)
    }

    pub(crate) fn stage_of(self, member: &MemberName) -> Option<Stage> {
        self.recorded(member).map(|recorded| recorded.stage)
    }

    /// The number of voters that the committed target wants.
    pub(crate) fn size(self) -> usize {
        self.record.target.as_ref().map_or(0, |target| target.size)
    }

    pub(crate) fn status_of(self, member: &MemberName) -> Option<&'a StatusReply> {
        self.seen.status_of(member, self.now)
    }

    /// The minor version that a member's data ran on last.
    pub(crate) fn line_of(self, member: &MemberName) -> Option<Minor> {
        self.seen.version_of(self.record, member, self.now).map(Version::line)
    }

    pub(crate) fn list(self) -> Option<&'a List> {
        self.seen.list(self.now)
    }

    /// The voters that etcd's list has.
    pub(crate) fn listed_voters(self) -> impl Iterator<Item = &'a Listed> {
        self.list().into_iter().flat_map(voters_of)
    }

    pub(crate) fn listed(self, member: &MemberName) -> Option<&'a Listed> {
        self.seen.listed(self.record, member, self.now)
    }

    pub(crate) fn is_listed_voter(self, member: &MemberName) -> bool {
        self.listed(member).is_some_and(|listed| !listed.is_learner)
    }

    pub(crate) fn member_of(self, listed: &Listed) -> Option<MemberName> {
        self.seen.member_of(self.record, listed)
    }

    /// The name of a listed member; of one that the record does not know, the one in the list.
    pub(crate) fn name_of(self, listed: &Listed) -> MemberName {
        self.member_of(listed).unwrap_or_else(|| MemberName::new(&*listed.name))
    }

    pub(crate) fn is_leader(self, member: &MemberName) -> bool {
        let leader = self.seen.leader(self.now);
        leader.is_some() && leader == self.recorded(member).and_then(|recorded| recorded.id)
    }

    pub(crate) fn is_healthy(self, member: &MemberName) -> bool {
        self.seen.is_healthy(member, self.now)
    }

    pub(crate) fn is_sound(self, member: &MemberName) -> bool {
        self.seen.is_sound(member, self.now)
    }

    /// Whether a voter's data are certainly lost.
    pub(crate) fn is_lost(self, voter: &MemberName) -> bool {
        self.seen.is_lost(self.record, voter, self.now)
    }

    /// Whether the volume that is recorded for a member is gone, or is another one with its name.
    pub(crate) fn lost_its_volume(self, member: &MemberName) -> bool {
        self.seen.lost_its_volume(self.record, member)
    }

    pub(crate) fn claim_is_terminating(self, member: &MemberName) -> bool {
        self.seen.claim_is_terminating(self.record, member)
    }

    /// Whether the member's Pod has another revision than the committed one.
    pub(crate) fn is_stale(self, member: &MemberName) -> bool {
        self.seen.is_stale(self.record, member)
    }

    /// R23: a time is over only if it is over by this clock.
    pub(crate) fn earliest(self) -> Instant {
        self.seen.present(self.now).earliest
    }
}

/// The voters of a list.
pub(crate) fn voters_of(list: &List) -> impl Iterator<Item = &Listed> {
    list.members.iter().filter(|listed| !listed.is_learner)
}
