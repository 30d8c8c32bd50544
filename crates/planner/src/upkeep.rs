//! What must stand around the members: peer Service and certificates before any Pod (B2), client Service and budget
//! once the cluster is founded (B7), the identity on every volume, and the size of volumes.

use quorate_model::quorum::quorum;
use quorate_model::record::Stage;
use quorate_model::snapshot::{Pod, Volume};
use quorate_model::target::Medium;
use quorate_model::{Effect, KubeEffect, MemberName, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON};
use crate::{facts, safety};

/// B2. Members find each other by the peer Service's names, and trust each other by the certificates.
pub(crate) fn names_and_certificates(draft: &mut Draft<'_>) -> Flow {
    let (service, certificates) = (draft.seen.peer_service, draft.seen.certificates);
    if !service {
        draft.propose(Effect::kube(Step::B2, KubeEffect::ApplyPeerService));
    }
    if !certificates {
        draft.propose(Effect::kube(Step::B2, KubeEffect::IssueCertificates));
    }
    if service && certificates {
        return ON;
    }
    draft.wait(Waiting::Objects);
    DONE
}

/// B7, and what keeps volumes in step with the record.
pub(crate) fn services_and_volumes(draft: &mut Draft<'_>) {
    // What somebody else has under our name is told (`halt`), and does not keep us from the rest.
    let foreign = |object: String| draft.seen.foreign.contains(&object);
    let at = draft.seen.cluster.clone();
    let taken = foreign(format!("Service {}/{}-client", at.namespace, at.name));
    let budget_taken = foreign(format!("PodDisruptionBudget {}/{}", at.namespace, at.name));
    // Nothing is acknowledged before it would be missed: a volume that is emptied before its Pod is marked passes for new.
    let in_memory = draft.record.is_in_memory();
    let passes_for_new = |voter| {
        let pod = draft.pod(voter).filter(|pod| pod.boots_new || !in_memory);
        pod.is_some_and(facts::lacks_joined_label)
    };
    let unmarked = draft.record.voters().any(passes_for_new);
    // It selects by the mark: an older one stands until somebody would be behind the new one.
    let somebody = draft.record.voters().any(|voter| draft.pod(voter).is_some_and(|pod| pod.labelled));
    if !draft.seen.client_service && !taken && !unmarked && somebody {
        draft.propose(Effect::kube(Step::B7, KubeEffect::ApplyClientService));
    }
    let min_available = min_available(draft);
    if draft.seen.budget != Some(min_available) && !budget_taken {
        draft.propose(Effect::kube(Step::K1, KubeEffect::ApplyBudget { min_available }));
    }
    if !draft.seen.finalizer {
        draft.propose(Effect::kube(Step::B1, KubeEffect::AddFinalizer));
    }
    stray_volumes(draft);
    for member in safety::voters_by_record(&draft.record).cloned().collect::<Vec<_>>() {
        mark(draft, &member);
        stamp(draft, &member);
        expand(draft, &member);
    }
}

/// Membership and Pods change only once the loss of any voter's data would be noticed: one that is emptied before that starts
/// as new, and may not know of a change that it has voted for.
pub(crate) fn require_all_voters_joined(draft: &mut Draft<'_>) -> Flow {
    let unmarked = |voter: &&MemberName| draft.pod(voter).is_some_and(facts::lacks_joined_label);
    let mut voters = draft.record.voters().filter(unmarked);
    // What is lost has nothing left to be missed. Why another is not marked yet is told of whoever does not answer.
    if voters.any(|voter| !facts::is_lost(draft, voter)) { DONE } else { ON }
}

/// A creation whose reply was lost may land when the member is long given up. Nothing was ever on such a volume: what served
/// is stamped. One that is not certain to be gone from etcd stays.
fn stray_volumes(draft: &mut Draft<'_>) {
    let ours = |volume: &Volume| {
        let unused = volume.cluster_id.is_none() && volume.member_id.is_none();
        unused && volume.cluster_uid.as_ref() == Some(&draft.seen.uid)
    };
    let unknown =
        |name: &MemberName| !draft.record.members.contains_key(name) && !draft.seen.pods.contains_key(name);
    let strays = draft.seen.volumes.iter().filter(|(name, volume)| unknown(name) && ours(volume));
    for stray in strays.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
        if draft.listed(&stray).is_none() {
            let _ = draft.delete_volume(Step::S5, &stray);
        }
    }
}

/// All but one voter of the larger of what is and what shall be, and never less than a quorum of it. An integer:
/// bare Pods have no scale, so percentages would allow no eviction at all.
fn min_available(draft: &Draft<'_>) -> usize {
    let target = draft.record.target.as_ref().map_or(0, |target| target.size);
    let voters = draft.record.voters().count().max(target);
    quorum(voters).max(voters.saturating_sub(1))
}

fn mark(draft: &mut Draft<'_>, member: &MemberName) {
    let is_voter = draft.record.members.get(member).is_some_and(|member| member.stage == Stage::Voter);
    let Some(pod) = draft.pod(member).filter(|pod| is_voter && facts::lacks_joined_label(pod)) else {
        return;
    };
    if draft.record.is_in_memory() {
        if facts::is_lost(draft, member) {
            return;
        }
        if let Some(silent) = who_must_answer_first(draft, member, pod) {
            let why = "it does not answer. Until it does, or its Pod is gone, no Pod that may contradict it is marked as \
                       joined, and clients are served by marked Pods only";
            draft.wait(Waiting::Sick(silent, why.to_owned()));
            return;
        }
    }
    let label = KubeEffect::LabelJoined { member: member.clone(), pod: pod.uid.clone() };
    draft.propose(Effect::kube(Step::K1, label));
}

/// On a disk data outlive their Pod. In memory a Pod may be another than the one in which its member voted: made by a late
/// call, or made again before the cluster was seen, while a founder out of sight remembers what the others have forgotten.
fn who_must_answer_first(draft: &Draft<'_>, member: &MemberName, pod: &Pod) -> Option<MemberName> {
    let is_silent = |voter: &MemberName| {
        let id = draft.record.members.get(voter).and_then(|member| member.id);
        draft.status_of(voter).is_none_or(|said| Some(said.member_id) != id)
    };
    let may_know =
        |voter: &MemberName| draft.pod(voter).is_some_and(|pod| pod.has_run) && !facts::is_lost(draft, voter);
    let founders = || draft.record.voters().find(|voter| may_know(voter) && is_silent(voter)).cloned();
    if pod.boots_new { founders() } else { is_silent(member).then(|| member.clone()) }
}

fn stamp(draft: &mut Draft<'_>, member: &MemberName) {
    let (Some(volume), Some(cluster_id)) = (draft.volume(member), draft.record.cluster_id) else { return };
    let Some(member_id) = draft.record.members.get(member).and_then(|member| member.id) else { return };
    let stamped = volume.cluster_id == Some(cluster_id)
        && volume.member_id == Some(member_id)
        && volume.cluster_uid.as_ref() == Some(&draft.seen.uid);
    if !stamped && !volume.terminating {
        let (member, volume) = (member.clone(), volume.uid.clone());
        let annotate = KubeEffect::AnnotateVolume { member, volume, cluster_id, member_id };
        draft.propose(Effect::kube(Step::K1, annotate));
    }
}

fn expand(draft: &mut Draft<'_>, member: &MemberName) {
    let Some(storage) = draft.record.target.as_ref().map(|target| &target.storage) else { return };
    let (bytes, medium) = (storage.bytes, storage.medium);
    if let Some(volume) = draft.volume(member)
        && medium == Medium::Disk
        && volume.bytes < bytes
        && !volume.terminating
    {
        let (member, volume) = (member.clone(), volume.uid.clone());
        draft.propose(Effect::kube(Step::K1, KubeEffect::ExpandVolume { member, volume, bytes }));
    }
}
