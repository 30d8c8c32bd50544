//! Who answers at the address of a Pod. Kubernetes uses addresses again: an operator whose view is old may reach another process
//! than the one it means.

use quorate_apistore::fields::uid;
use quorate_manifests::Kind;
use quorate_model::snapshot::{List, Listed, Pod, StatusReply};
use quorate_model::{ClusterId, EtcdCall, MemberId, MemberName, PeerUrl, Refusal};
use quorate_reconcile::CallError;

use super::World;
use super::kubelet::{Running, address_of};
use super::operator::At;
use crate::oracle::Property;

/// A cluster that is not managed here, and its only member. One of its Pods may get an address of ours.
const OTHERS: (ClusterId, MemberId) = (ClusterId(0x0bad), MemberId(0x0bad));

/// Who answers at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// The process in the Pod with this uid.
    Own(String),
    /// A member of another cluster.
    Others,
}

impl World {
    /// Who answers at the address that a Pod had when it was observed.
    pub(super) fn who_answers(&self, pod: &Pod) -> Answers {
        if self.faults.others_at.as_deref() == Some(pod.uid.as_str()) {
            return Answers::Others;
        }
        let has_it = |(_, running): &(&String, &Running)| Some(&running.ip) == pod.ip.as_ref();
        let at = self.pods.iter().find(has_it).map_or(pod.uid.as_str(), |(at, _)| at);
        Answers::Own(at.to_owned())
    }

    /// The member list as a member of another cluster has it.
    pub(super) fn others_list(&self, via: &MemberName) -> List {
        let (cluster_id, id) = OTHERS;
        let listed = Listed {
            id,
            name: "others-0".to_owned(),
            peer_url: PeerUrl::new("http://others-0.others.elsewhere.svc:2380"),
            is_learner: false,
            started: true,
        };
        List { at: self.operators_time(), cluster_id, via: via.clone(), members: vec![listed] }
    }

    /// A call reaches a member of another cluster.
    pub(super) fn others_are_called(&mut self, call: &EtcdCall) -> Result<(), CallError> {
        match call {
            EtcdCall::AddLearner { .. }
            | EtcdCall::Compact { .. }
            | EtcdCall::Defragment { .. }
            | EtcdCall::Auth { .. }
            | EtcdCall::DeleteUser { .. }
            | EtcdCall::DeleteRole { .. } => {
                let how = format!("{call} is sent to a member of another cluster");
                self.oracle.add_violation(Property::MembersAreIdAndUrl, how);
                Ok(())
            }
            EtcdCall::Promote { .. } | EtcdCall::RemoveMember { .. } => {
                Err(CallError::Refused(Refusal::MemberNotFound, "member not found".to_owned()))
            }
            EtcdCall::Downgrade { .. } => {
                Err(CallError::Refused(Refusal::Other, "invalid downgrade target version".to_owned()))
            }
            EtcdCall::MoveLeadership { .. } => {
                Err(CallError::Refused(Refusal::BadLeaderTransferee, "bad leader transferee".to_owned()))
            }
            // etcd does not mind an alarm that is not active.
            EtcdCall::Disarm { .. } => Ok(()),
        }
    }

    /// The Status of a member of another cluster: like that of one of ours, with other ids.
    pub(super) fn others_status(&self) -> Result<StatusReply, String> {
        let (cluster_id, member_id) = OTHERS;
        let mut own = self.pods.keys().filter_map(|at| self.etcd.status(at).ok());
        let like = own.next().ok_or_else(|| "unreachable".to_owned())?;
        Ok(StatusReply { cluster_id, member_id, leader: Some(member_id), errors: Vec::new(), ..like })
    }

    /// The next Pod that starts gets the address that the Pod of a member has now, if that one is gone by then.
    pub(super) fn reuse_address(&mut self, member: &str) -> bool {
        let pod = self.object(Kind::Pod, member).filter(|pod| self.pods.contains_key(uid(pod)));
        pod.is_some_and(|pod| self.faults.reused.replace(uid(&pod).to_owned()).is_none())
    }

    /// A Pod is gone, a member of another cluster has its address, and the operator does not know yet.
    pub(super) fn others_take_address(&mut self, member: &str) -> bool {
        let free = self.faults.others_at.is_none() && matches!(self.operator.at, At::Between);
        let Some(pod) = self.object(Kind::Pod, member).filter(|_| free) else { return false };
        let before = self.store.version();
        let gone = self.pods.contains_key(uid(&pod)) && self.kill_pod(member);
        if gone {
            self.operator.stale = Some((Kind::Pod, before));
            self.operator.rested_on = None;
            self.faults.others_at = Some(uid(&pod).to_owned());
        }
        gone
    }

    /// The address of a Pod that starts.
    pub(super) fn address_for(&mut self, pod: &str) -> String {
        let is_free = |old: &String| !self.pods.contains_key(old);
        let old = self.faults.reused.take_if(|old| is_free(old));
        address_of(old.as_deref().unwrap_or(pod)).to_string()
    }
}
