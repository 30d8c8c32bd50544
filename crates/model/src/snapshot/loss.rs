//! Whether the data of a voter are lost, or wrong. Silence never says so: unreachable, slow, on a node that is NotReady, or ending
//! again and again is no loss, and neither is an alarm.

use super::{Pod, ReplaceMember, Snapshot, Volume};
use crate::guard::GuardVerdict;
use crate::mutants;
use crate::names::MemberName;
use crate::record::{Leaving, Loss, Record, Stage, Suspicion};
use crate::time::{Instant, Span};

/// How long the mount of a volume and the set-up of the network take where nothing is wrong.
pub const MOUNTED_WITHIN: Span = Span::seconds(300);

impl Snapshot {
    /// Whether a voter's data are certainly lost.
    ///
    /// - In memory: its Pod is gone, the guard or etcd refuses to start, or the Pod never joined and keeps ending.
    /// - On a volume: etcd's list says that the member never started, and its volume is empty or gone. That is a bootstrap member
    ///   that started after a quorum had formed without it. Nothing starts as new any more (R1), and there are no data that it could
    ///   resume. A member that had started: [`Snapshot::certain_loss`].
    pub fn is_lost(&self, record: &Record, voter: &MemberName, now: Instant) -> bool {
        if record.is_in_memory() {
            return self.lost_its_memory(voter, now) || self.certain_loss(record, voter, now).is_some();
        }
        let never_started = self.listed(record, voter, now).is_some_and(|listed| !listed.started);
        (never_started && (self.guard_misses_data(voter) || self.lost_its_volume(record, voter)))
            || self.certain_loss(record, voter, now).is_some()
    }

    /// What a voter has lost for the whole grace period. What the guard refused must be refused in a second Pod, too: a mount that
    /// failed for a moment, and a verdict of a kubelet that reports no more, replace nobody. Data that differ must differ in a second
    /// comparison, or be refused by etcd's check at the start in a second Pod.
    pub fn certain_loss(&self, record: &Record, voter: &MemberName, now: Instant) -> Option<Loss> {
        let suspected = record.suspected.get(voter)?;
        let loss = self.apparent_loss(record, voter, now).filter(|loss| loss.is_like(suspected.loss))?;
        let is_over = self.is_grace_over(suspected, now);
        let is_other_pod = || {
            let pod = self.pods.get(voter).map(|pod| &pod.uid);
            let first = suspected.rechecked.as_ref();
            (first.is_some() && pod != first) || mutants::is_broken(mutants::Rule::PSecondLook)
        };
        let is_second = match loss {
            Loss::Refused(_) => is_other_pod(),
            Loss::Inconsistent if self.is_kept_out(voter, now) => is_other_pod(),
            Loss::Inconsistent => {
                self.is_compared_again(suspected.since)
                    || mutants::is_broken(mutants::Rule::PSecondComparison)
            }
            Loss::VolumeGone
            | Loss::ClaimTerminating
            | Loss::NodeGone
            | Loss::Ordered
            | Loss::Memory
            | Loss::NeverStarted => true,
        };
        (is_over && is_second).then_some(loss)
    }

    /// Whether the data were lost for the whole grace period.
    pub fn is_grace_over(&self, suspected: &Suspicion, now: Instant) -> bool {
        let is_over = self.present(now).earliest - suspected.since >= self.replacement_policy.grace;
        is_over || mutants::is_broken(mutants::Rule::PGrace)
    }

    /// What a voter seems to have lost at this moment; one whose data were in memory, only if they differ from the others'.
    pub fn apparent_loss(&self, record: &Record, voter: &MemberName, now: Instant) -> Option<Loss> {
        if self.differs_from_majority(voter, now) {
            return Some(Loss::Inconsistent);
        }
        let answers = self.status_of(voter, now).is_some();
        // Its Pod is not deleted, so nothing of its kubelet, its guard or etcd's own check gets another look.
        if !answers && self.claim_is_terminating(record, voter) {
            return Some(Loss::ClaimTerminating);
        }
        if !record.is_in_memory() && self.is_refused_by_majority(record, voter, now) {
            return Some(Loss::Inconsistent);
        }
        if record.is_in_memory() || answers {
            return None;
        }
        let pod = self.pods.get(voter);
        if let Some((verdict, _)) = pod.and_then(|pod| pod.guard.as_ref())
            && verdict.is_loss()
        {
            return Some(Loss::Refused(*verdict));
        }
        if self.lost_its_volume(record, voter)
            || self.has_no_volume(record, voter, now)
            || self.volumes.get(voter).is_some_and(|volume| volume.lost)
        {
            return Some(Loss::VolumeGone);
        }
        let site = self.sites.get(voter)?;
        site.gone.is_some().then_some(Loss::NodeGone)
    }

    /// Whether a Pod that was bound to a node long ago has not got its volume and its network yet. Why, only its events say: a detach
    /// that Kubernetes forces after the end of a node takes six minutes, and a disk that is gone is never mounted.
    pub fn is_not_mounted(&self, member: &MemberName, now: Instant) -> bool {
        let pod = self.pods.get(member).filter(|pod| !pod.terminating && !pod.finished);
        pod.and_then(|pod| pod.mounting).is_some_and(|since| now - since > MOUNTED_WITHIN)
    }

    /// Whether the volume that is recorded for a member is gone, or is another one with its name. One from which somebody took the label of
    /// the cluster is not shown by the watch: it is lost once a read finds it gone.
    pub fn lost_its_volume(&self, record: &Record, member: &MemberName) -> bool {
        let recorded = record.members.get(member).and_then(|member| member.volume.as_ref());
        let is_known = !self.claims_not_read.contains_key(member);
        recorded.is_some() && is_known && self.volumes.get(member).map(|volume| &volume.uid) != recorded
    }

    /// Whether nothing of a voter is left but its entry in etcd's list: no volume was recorded for it, none has its name, and it has no
    /// Pod. So it is where status was lost, or restored from before, when its claim was gone. A claim that comes later is recorded.
    fn has_no_volume(&self, record: &Record, voter: &MemberName, now: Instant) -> bool {
        let is_recorded = record.members.get(voter).is_none_or(|member| member.volume.is_some());
        let is_listed = || self.listed(record, voter, now).is_some_and(|listed| !listed.is_learner);
        !is_recorded && !self.volumes.contains_key(voter) && !self.pods.contains_key(voter) && is_listed()
    }

    /// Whether a person orders to replace this member, by the annotation of the EtcdCluster.
    pub fn is_ordered_to_be_replaced(&self, member: &MemberName) -> bool {
        self.replace_member.as_ref() == Some(member)
    }

    /// The order of a person to replace this member.
    pub fn order_to_replace(&self, member: &MemberName) -> ReplaceMember {
        let id = self.record.members.get(member).and_then(|member| member.id);
        ReplaceMember { cluster: self.cluster.clone(), member: member.clone(), id }
    }

    /// Whether the claim of a member is being deleted. Nobody can take that back, and Kubernetes ends the claim, and with most classes the
    /// data, as soon as no Pod that has a node names it any more (`kubernetes.io/pvc-protection`).
    pub fn claim_is_terminating(&self, record: &Record, member: &MemberName) -> bool {
        let recorded = record.members.get(member).and_then(|member| member.volume.as_ref());
        let is_its = |uid| recorded.is_none_or(|recorded| recorded == uid);
        !record.is_in_memory()
            && self.volumes.get(member).is_some_and(|volume| volume.terminating && is_its(&volume.uid))
    }

    /// The volume that is recorded as the member's, if it exists.
    pub fn own_volume(&self, record: &Record, member: &MemberName) -> Option<&Volume> {
        let recorded = record.members.get(member)?.volume.as_ref()?;
        self.volumes.get(member).filter(|volume| volume.uid == *recorded)
    }

    /// Whether the guard refuses the member's volume because it was emptied.
    pub fn guard_misses_data(&self, voter: &MemberName) -> bool {
        let refused = self.pods.get(voter).and_then(|pod| pod.guard.as_ref());
        refused.is_some_and(|(verdict, _)| *verdict == GuardVerdict::DataMissing)
    }

    /// The voters about whose volumes Kubernetes is to be asked: those without a Pod that runs. A node that is gone takes the Pod with
    /// it, or keeps it from stopping.
    pub fn sites_to_ask(&self) -> impl Iterator<Item = &MemberName> {
        let runs = |pod: &Pod| pod.ip.is_some() && !pod.terminating && !pod.finished;
        let in_question = self.record.members.iter().filter(move |(name, member)| {
            let may_vote = matches!(member.stage, Stage::Voter | Stage::Leaving(Leaving::Lost));
            let stopped_voter = may_vote && !self.pods.get(*name).is_some_and(runs);
            let has_volume = self.volumes.contains_key(*name) && !self.record.is_in_memory();
            let is_at_work = self.record.is_bootstrapped() && !self.record.hibernating && !self.deleting;
            // Where nothing else shows it, the node says whether a container may still run.
            let is_recovered = self.record.quorum_recovery.is_some();
            is_at_work && ((has_volume && stopped_voter) || is_recovered)
        });
        in_question.map(|(name, _)| name)
    }

    fn lost_its_memory(&self, voter: &MemberName, now: Instant) -> bool {
        let Some(pod) = self.pods.get(voter) else { return true };
        // When its node restarts, a Pod stays and its memory goes. Before the Pod is labelled joined, the guard takes that for
        // a first start, and etcd refuses it.
        let refused_by_peers = pod.already_bootstrapped && !pod.ready;
        // A Pod that was never labelled, does not answer and ended again after a restart is not the Pod in which the member
        // voted, or contradicts the others. A Pod that answers has trouble with its probe only.
        let never_joined = self.status_of(voter, now).is_none()
            && pod.has_run
            && !pod.joined
            && !pod.ready
            && pod.trouble.is_some()
            && pod.restarts > 1;
        self.guard_misses_data(voter) || refused_by_peers || never_joined
    }
}
