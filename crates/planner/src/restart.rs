//! A lost Pod is made again on the member's own volume (W1), all of them at once where all are lost: that is also how
//! a hibernated cluster wakes. Finished Pods, and Pods that can not run in their old shape, are cleared away first
//! (W2). A volume is never made again empty.

use quorate_model::effect::Boot;
use quorate_model::record::{Leaving, Stage};
use quorate_model::snapshot::Pod;
use quorate_model::{Effect, KubeEffect, MemberName, PeerUrl, Step, Waiting};

use crate::draft::Draft;
use crate::upgrade;

pub(crate) fn lost_pods(draft: &mut Draft<'_>) {
    stray_pods(draft);
    let peers = peers(draft);
    let members: Vec<MemberName> = draft.record.members.keys().cloned().collect();
    for member in members {
        match draft.pod(&member) {
            Some(pod) if pod.terminating => draft.wait(Waiting::PodStopping(member)),
            Some(pod) if pod.finished => {
                draft.clear_pod(Step::W2, &member);
            }
            Some(pod) if pod.trouble.is_some() && is_stale(draft, &member) => {
                draft.clear_pod(Step::W2, &member);
            }
            // What a late call made. Nobody begins as new any more.
            Some(pod) if pod.held && draft.record.is_bootstrapped() => {
                draft.clear_pod(Step::W2, &member);
            }
            Some(pod) if forgot_its_start(pod) && draft.record.is_bootstrapped() => {
                draft.clear_pod(Step::W2, &member);
            }
            None if may_still_vote(draft, &member) => resume(draft, &member, &peers),
            Some(_) | None => {}
        }
    }
}

/// Only the Pods that do not exist, of members that may vote.
pub(crate) fn missing_pods(draft: &mut Draft<'_>) {
    let peers = peers(draft);
    let members: Vec<MemberName> = draft.record.members.keys().cloned().collect();
    for member in members {
        if draft.pod(&member).is_none() && may_still_vote(draft, &member) {
            resume(draft, &member, &peers);
        }
    }
}

/// A creation whose reply was lost may land when the member is long given up. Names are never used again, so such a Pod can
/// only be in the way.
fn stray_pods(draft: &mut Draft<'_>) {
    let unknown = |name: &&MemberName| !draft.record.members.contains_key(*name);
    let strays: Vec<MemberName> = draft.seen.pods.keys().filter(unknown).cloned().collect();
    for stray in strays {
        if draft.via().is_some() && draft.listed(&stray).is_none() {
            draft.clear_pod(Step::W2, &stray);
        }
    }
}

/// Its volume was emptied, and only its peers keep it from starting as a new member under its old id: once they are gone from
/// sight nothing would, as the guard does not run again in this Pod. In the next one it does, and refuses.
fn forgot_its_start(pod: &Pod) -> bool {
    pod.boots_new && pod.already_bootstrapped && !pod.ready
}

/// Made of another shape than the committed one.
pub(crate) fn is_stale(draft: &Draft<'_>, member: &MemberName) -> bool {
    let revision = draft.record.target.as_ref().map(|target| &target.pod.revision);
    draft.pod(member).is_some_and(|pod| Some(&pod.revision) != revision)
}

/// A member that is to leave is still needed for as long as etcd counts it.
fn may_still_vote(draft: &Draft<'_>, member: &MemberName) -> bool {
    let recorded = draft.record.members.get(member);
    let is_known = recorded.is_some_and(|member| member.id.is_some());
    match recorded.map(|member| member.stage) {
        Some(Stage::Voter) => true,
        Some(Stage::Leaving(Leaving::Shrink)) => draft.via().is_none() || draft.listed(member).is_some(),
        // Its Pod is its own protocol's business (G4). But its promotion may have been done and not been seen, and then it
        // takes this very member to have a quorum again.
        Some(Stage::Joining) => is_known && (draft.via().is_none() || draft.is_listed_voter(member)),
        Some(Stage::Leaving(Leaving::RolledBack)) => is_known && draft.via().is_none(),
        // A seed's Pod is bootstrap's business.
        Some(Stage::Leaving(Leaving::Lost | Leaving::Stray | Leaving::Removed) | Stage::Bootstrap) | None => {
            false
        }
    }
}

fn resume(draft: &mut Draft<'_>, member: &MemberName, peers: &[(MemberName, PeerUrl)]) {
    let latched = draft.record.members.get(member).and_then(|member| member.volume.clone());
    let volume = draft.volume(member).filter(|volume| Some(&volume.uid) == latched.as_ref());
    if draft.record.is_in_memory() || volume.is_none_or(|volume| volume.terminating) {
        draft.wait(Waiting::VolumeLost(member.clone()));
        return;
    }
    if let Some(refused) = upgrade::goes_back(draft, member) {
        draft.wait(refused);
        return;
    }
    let create = KubeEffect::CreatePod { member: member.clone(), boot: Boot::Resume, peers: peers.to_vec() };
    if draft.propose(Effect::kube(Step::W1, create)) {
        draft.wait(Waiting::PodStarting(member.clone()));
    }
}

fn peers(draft: &Draft<'_>) -> Vec<(MemberName, PeerUrl)> {
    let voters = draft.record.members.iter().filter(|(_, member)| member.id.is_some());
    voters.map(|(name, _)| (name.clone(), draft.seen.peer_url(name))).collect()
}
