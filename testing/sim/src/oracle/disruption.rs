//! S4: no healthy voter is disrupted while another one is unhealthy, and the others remain a quorum.
//!
//! It is judged when the request lands, by the truth of that moment. A fault that strikes after the operator has observed is not
//! its doing, as long as what it observed is fresh: then a voter counts as it was at the observation. That does not excuse what
//! the operator itself has ordered since.

use std::collections::BTreeSet;

use quorate_model::effect::{Effect, EtcdCall, KubeEffect};
use quorate_model::quorum::has_quorum;
use quorate_model::record::{Leaving, Stage};
use quorate_model::snapshot::FRESH;
use quorate_model::{MemberId, MemberName, Plan, Snapshot};

use super::{Oracle, Property, Truth};

/// The moment at which an effect lands.
#[derive(Clone, Copy, Debug)]
pub struct Landing<'a> {
    /// What was true when the operator observed.
    pub observed: &'a Truth,
    /// What is true now.
    pub now: &'a Truth,
}

impl Landing<'_> {
    fn is_fresh(&self) -> bool {
        self.now.now - self.observed.now <= FRESH
    }

    /// Whether a voter counts as healthy. `ordered`: the members that the operator has disrupted and that are not back.
    fn is_healthy(&self, voter: MemberId, ordered: &BTreeSet<MemberId>) -> bool {
        let was_healthy =
            self.is_fresh() && self.observed.healthy.contains(&voter) && !ordered.contains(&voter);
        was_healthy || self.now.healthy.contains(&voter)
    }
}

impl Oracle {
    /// Checks an effect that disrupts or adds a voter.
    pub(super) fn judge_disruption(
        &mut self,
        observed: &Snapshot,
        plan: &Plan,
        effect: &Effect,
        landing: Landing<'_>,
    ) {
        match effect {
            Effect::Kube {
                write: KubeEffect::EvictPod { member, pod } | KubeEffect::DeletePod { member, pod, .. },
                ..
            } => {
                self.judge_end_of_data(observed, member, pod.as_str(), landing);
                let terminates =
                    plan.record.next_incarnation.is_some() || plan.record.quorum_recovery.is_some();
                let stays = observed.deleting
                    || plan.record.hibernating
                    || terminates
                    || plan.record.cluster_id.is_none();
                let Some(id) = landing.now.members.get(pod.as_str()).filter(|_| !stays) else { return };
                if let Some(KubeEffect::DeletePod { .. }) = effect.as_kube() {
                    self.judge_delete(observed, member, *id, landing);
                }
                self.judge_restart(member, *id, plan, landing);
                self.ordered.insert(*id);
            }
            Effect::Etcd { call: EtcdCall::RemoveMember { member, id, .. }, .. } => {
                self.judge_removal(member, *id, landing);
                self.judge_replacement(member, *id, plan, landing);
            }
            Effect::Etcd { call: EtcdCall::AddLearner { member, .. }, .. } => {
                // A learner changes no quorum, so a late request does no harm: what was observed counts, however long ago.
                let Some(conf) = &landing.observed.conf else { return };
                // One whose disk hangs is found by the next entry, and this call is one.
                let is_healthy = |voter: &MemberId| {
                    landing.observed.is_healthy(*voter)
                        || landing.observed.up_to_date.contains(voter)
                        || landing.now.is_healthy(*voter)
                };
                if let Some(unhealthy) = conf.voters().find(|voter| !is_healthy(voter)) {
                    let how = format!("{member} is added while voter {unhealthy} is not healthy");
                    self.add_violation(Property::RemoveBeforeAdd, how);
                }
            }
            Effect::Kube { .. } | Effect::Etcd { .. } => {}
        }
    }

    /// Members that are back are no longer disrupted by the operator.
    pub(super) fn see_who_is_back(&mut self, now: &Truth) {
        self.ordered.retain(|id| !now.healthy.contains(id));
    }

    fn judge_restart(&mut self, member: &MemberName, id: MemberId, plan: &Plan, landing: Landing<'_>) {
        let Some(conf) = &landing.now.conf else { return };
        if !landing.now.healthy.contains(&id) || !conf.is_voter(id) {
            return;
        }
        let others = || conf.voters().filter(|other| *other != id);
        if let Some(unhealthy) = self.unhealthy(others(), landing) {
            let how = format!("healthy voter {member} is disrupted while {unhealthy} is not healthy");
            self.add_violation(Property::QuorumStays, how);
        }
        let left = others().filter(|other| landing.is_healthy(*other, &self.ordered)).count();
        if left < conf.quorum() && (plan.record.is_in_memory() || conf.voters().count() > 2) {
            let how = format!("without {member} only {left} voters are healthy");
            self.add_violation(Property::QuorumStays, how);
        }
    }

    /// Checks that a Pod is not deleted whose voter serves: an eviction asks every budget, and a deletion asks none.
    fn judge_delete(&mut self, observed: &Snapshot, member: &MemberName, id: MemberId, landing: Landing<'_>) {
        let is_ready = observed.pods.get(member).is_some_and(|pod| pod.ready);
        let votes = landing.now.conf.as_ref().is_some_and(|conf| conf.is_voter(id));
        let serves = landing.observed.is_free_of_faults(id) && landing.now.is_free_of_faults(id);
        if is_ready && votes && serves {
            let how = format!("Pod {member} is ready and its voter healthy, and it is deleted");
            self.add_violation(Property::ServingPodsAreEvicted, how);
        }
    }

    /// Checks that the end of a Pod is not what ends the data of a voter: whoever deleted its claim did so before the operator looked.
    fn judge_end_of_data(
        &mut self,
        observed: &Snapshot,
        member: &MemberName,
        pod: &str,
        landing: Landing<'_>,
    ) {
        let was_known = landing.observed.last_users.contains_key(pod);
        let gives_data_up = observed.deleting && self.forgoes_data;
        if was_known && landing.now.last_users.contains_key(pod) && !gives_data_up {
            let how =
                format!("the claim of voter {member} is being deleted, and its Pod was all that kept it");
            self.add_violation(Property::NoActEndsData, how);
        }
    }

    fn judge_removal(&mut self, member: &MemberName, id: MemberId, landing: Landing<'_>) {
        let Some(conf) = landing.now.conf.as_ref().filter(|conf| conf.is_voter(id)) else { return };
        let left: Vec<MemberId> = conf.voters().filter(|voter| *voter != id).collect();
        let of = left.len();
        let healthy = left.iter().filter(|voter| landing.is_healthy(**voter, &self.ordered)).count();
        if !has_quorum(healthy, of) {
            let how = format!("without {member} only {healthy} of {of} voters are healthy");
            self.add_violation(Property::QuorumStays, how);
        }
        // A member that had a fault when it was chosen may be well again when the request lands.
        let had_a_fault = landing.is_fresh() && !landing.observed.is_free_of_faults(id);
        let was_healthy = landing.now.is_free_of_faults(id) && !had_a_fault;
        if let Some(unhealthy) = self.unhealthy(left.into_iter(), landing).filter(|_| was_healthy) {
            let how = format!("healthy voter {member} is removed while {unhealthy} is not healthy");
            self.add_violation(Property::QuorumStays, how);
        }
    }

    /// Whether the data of a member that is removed as lost are there after all.
    fn judge_replacement(&mut self, member: &MemberName, id: MemberId, plan: &Plan, landing: Landing<'_>) {
        let stage = plan.record.members.get(member).map(|member| member.stage);
        let counts_as_lost = stage == Some(Stage::Leaving(Leaving::Lost)) && !plan.record.is_in_memory();
        // Whose claim is being deleted is lost with its Pod.
        let goes = landing.observed.claims_going.contains(&id);
        if counts_as_lost && landing.observed.intact.contains(&id) && !goes {
            let how = format!("{member} is removed as lost, and its data are on its volume");
            self.add_violation(Property::OnlyTheLostAreReplaced, how);
        }
    }

    fn unhealthy(
        &self,
        mut voters: impl Iterator<Item = MemberId>,
        landing: Landing<'_>,
    ) -> Option<MemberId> {
        voters.find(|voter| !landing.is_healthy(*voter, &self.ordered))
    }
}
