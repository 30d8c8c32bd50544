//! Restart lost Pods. W1 creates a lost Pod again on the member's own volume, all at once where all are lost: that is also
//! how a hibernated cluster wakes. W2 first deletes Pods that finished or that cannot run in their old revision. A volume is
//! never created again empty.

use quorate_model::effect::{Boot, PodTrouble, RecoveryWait, Rehearsal, Successor, Unsafe};
use quorate_model::record::{Leaving, Stage};
use quorate_model::snapshot::Pod;
use quorate_model::{KubeEffect, MemberName, PeerUrl, Step, Waiting};

use crate::draft::Draft;
use crate::{upgrade, upkeep};

pub(crate) fn lost_pods(draft: &mut Draft<'_>) {
    stray_pods(draft);
    let peers = peers(draft);
    for member in draft.members() {
        match draft.pod(&member) {
            Some(pod) if pod.terminating => draft.wait(Waiting::PodStopping(member)),
            Some(pod) if pod.finished => finished_pod(draft, &member),
            Some(pod) if is_cured_by_target(draft, &member, pod) => draft.end_pod(Step::W2, &member),
            // A late call created it. No member starts as new any more.
            Some(pod) if pod.gated && draft.record.is_bootstrapped() => draft.end_pod(Step::W2, &member),
            // The order to recover the quorum has ended. The member starts again on its data.
            Some(pod) if pod.read_only.is_some() => {
                let withdrawn = draft.record.last_quorum_recovery.is_none();
                draft.wait(Waiting::Recovery(RecoveryWait::Ended { withdrawn }));
                draft.end_pod(Step::W2, &member);
            }
            Some(pod) if forgot_its_start(pod) && draft.record.is_bootstrapped() => {
                draft.end_pod(Step::W2, &member);
            }
            None if may_still_vote(draft, &member) => resume(draft, &member, &peers),
            Some(_) | None => {}
        }
    }
}

/// W2, only for Pods that ended for good, such as those that their kubelet evicted, and for those that hold no etcd.
pub(crate) fn finished_pods(draft: &mut Draft<'_>) {
    for member in draft.members() {
        match draft.pod(&member).filter(|pod| !pod.terminating) {
            Some(pod) if pod.read_only.is_some() => draft.end_pod(Step::W2, &member),
            Some(pod) if pod.finished => finished_pod(draft, &member),
            Some(_) | None => {}
        }
    }
}

/// W2 for one Pod that ended for good. Where the Pods of a member end one after another, such as those that their kubelet refuses, the
/// last one stays for a while: the next would end like it. It shows why, and who deletes it has the next one at once.
pub(crate) fn finished_pod(draft: &mut Draft<'_>, member: &MemberName) {
    match stays_for_now(draft, member) {
        Some(why) => draft.wait(Waiting::PodStuck(member.clone(), why)),
        None => draft.end_pod(Step::W2, member),
    }
}

/// Why the next Pod of a member is not created yet.
fn stays_for_now(draft: &Draft<'_>, member: &MemberName) -> Option<PodTrouble> {
    let pod = draft.pod(member)?;
    let ended = draft.seen.etcd.ended_pods.get(member).filter(|ended| ended.last == pod.uid)?;
    let delay = ended.delay();
    // The committed shape may be the cure. A clock that was set back must not make it last.
    let is_over = draft.view().is_stale(member) || ended.at > draft.now || draft.now - ended.at >= delay;
    (!is_over).then(|| {
        let why = pod.trouble.clone();
        PodTrouble::KeepsEnding { member: member.clone(), why, times: ended.times, delay }
    })
}

/// Only the Pods that do not exist, of members that may vote.
pub(crate) fn missing_pods(draft: &mut Draft<'_>) {
    let peers = peers(draft);
    for member in draft.members() {
        if draft.pod(&member).is_none() && may_still_vote(draft, &member) {
            resume(draft, &member, &peers);
        }
    }
}

/// Whether the Pod cannot run in its old revision and might in the committed one. What has run once may run again, so it is left
/// alone while the committed revision does not run elsewhere.
fn is_cured_by_target(draft: &Draft<'_>, member: &MemberName, pod: &Pod) -> bool {
    let view = draft.view();
    let in_trouble = |voter: &MemberName| view.pod(voter).is_some_and(|pod| pod.trouble.is_some());
    let fails_elsewhere = || view.record.voters().any(|voter| !view.is_stale(voter) && in_trouble(voter));
    pod.trouble.is_some() && view.is_stale(member) && !(pod.has_run && fails_elsewhere())
}

/// A create call whose reply was lost may arrive after the member was given up. Names are never used again, so nothing needs
/// such a Pod.
fn stray_pods(draft: &mut Draft<'_>) {
    let is_unknown = |name: &MemberName| !draft.record.members.contains_key(name);
    // One that a dead node keeps goes with the node, or when it is back.
    let pods = draft.seen.pods.iter().filter(|(name, pod)| is_unknown(name) && !pod.is_stuck(draft.now));
    let strays: Vec<MemberName> = pods.map(|(name, _)| name.clone()).collect();
    for stray in strays {
        if draft.via().is_some() && draft.listed(&stray).is_none() {
            draft.end_pod(Step::W2, &stray);
        }
    }
}

/// Whether its volume was emptied and only its peers keep it from starting as a new member under its old id. Once it cannot
/// reach them nothing would, unless this Pod remembers its data. In the next Pod the guard requires them.
fn forgot_its_start(pod: &Pod) -> bool {
    pod.boots_new && pod.already_bootstrapped && !pod.ready
}

/// Whether etcd may still count the member as a voter: then its Pod is needed, also while it leaves.
fn may_still_vote(draft: &Draft<'_>, member: &MemberName) -> bool {
    let recorded = draft.record.members.get(member);
    let is_known = recorded.is_some_and(|member| member.id.is_some());
    match recorded.map(|member| member.stage) {
        Some(Stage::Voter) => true,
        // A quorum can remove it, so it is not needed any more.
        Some(Stage::Leaving(Leaving::Shrink | Leaving::Lost | Leaving::Replaced)) => draft.via().is_none(),
        // G4 creates its Pod. But its promotion may have succeeded unobserved, and then a quorum may need this member.
        Some(Stage::Joining) => is_known && (draft.via().is_none() || draft.view().is_listed_voter(member)),
        Some(Stage::Leaving(Leaving::RolledBack)) => is_known && draft.via().is_none(),
        // B4 creates the Pod of a bootstrap member.
        Some(Stage::Leaving(Leaving::Stray | Leaving::Removed) | Stage::Bootstrap) | None => false,
    }
}

fn resume(draft: &mut Draft<'_>, member: &MemberName, peers: &[(MemberName, PeerUrl)]) {
    let volume = draft.seen.own_volume(&draft.record, member);
    if draft.record.is_in_memory() || volume.is_none_or(|volume| volume.terminating) {
        // Nothing is lost with one that leaves: it was replaced, or is, or is not needed. Where a quorum needs it, `QuorumLost` counts it.
        match (draft.view().stage_of(member), draft.seen.claims_not_read.get(member)) {
            (Some(Stage::Leaving(_)), _) => {}
            (_, Some(why)) => draft.wait(Waiting::Unsafe(Unsafe::ClaimNotRead(member.clone(), why.clone()))),
            (_, None) => draft.wait(Waiting::VolumeLost(member.clone())),
        }
        return;
    }
    if let Some(refused) = upgrade::goes_back(draft, member) {
        draft.wait(refused);
        return;
    }
    upkeep::note_version(draft, member);
    draft.start_pod(Step::W1, member, Boot::Resume, peers.to_vec());
}

/// What would create the next Pod of a member, were the present one gone (R27).
pub(crate) fn rehearse(draft: &Draft<'_>, member: &MemberName) -> Rehearsal {
    let create = KubeEffect::CreatePod { member: member.clone(), boot: Boot::Resume, peers: peers(draft) };
    let of = Successor::Pod(member.clone());
    Rehearsal { of, record: draft.record.clone(), effects: vec![create] }
}

fn peers(draft: &Draft<'_>) -> Vec<(MemberName, PeerUrl)> {
    let voters = draft.record.members.iter().filter(|(_, member)| member.id.is_some());
    voters.map(|(name, _)| (name.clone(), draft.seen.peer_url(name))).collect()
}
