//! Bootstrap: all members at once, as a static bootstrap set, exactly once in the life of an incarnation of the cluster.
//!
//! It begins with nothing, or with the data of a snapshot ([`restore`]), which the agents restore, each in its own Pod, before etcd
//! starts.
//!
//! A further incarnation of the cluster ([`incarnation`](crate::incarnation)) begins here, too, always with a snapshot.
//!
//! B1 record attempt, token and names; B2 peer Service and certificates; B3 volumes, and record their uids; B4 all Pods,
//! `new`, each gated until it was observed (BR); B5 a quorum reports one cluster id and a leader; B6 record cluster id and
//! member ids; B7 client Service and PodDisruptionBudget; B8 Available. Before B6 no client Service exists, but clients that know
//! the names of members can write as soon as there is a leader. So an attempt is given up (BA) only before that.

use quorate_model::auth::ClientGrace;
use quorate_model::effect::{EarlierData, NoSnapshot, NotRestored, PodTrouble};
use quorate_model::quorum::has_quorum;
use quorate_model::record::{Abandoned, Member, Stage};
use quorate_model::restore::Restore;
use quorate_model::restore::RestoreFailure;
use quorate_model::snapshot::{List, Pod, StatusReply};
use quorate_model::{KubeEffect, MemberName, PeerUrl, Step, Token, Waiting};

use crate::draft::{DONE, Draft, Flow, ON, Progress, for_all};
use crate::{facts, restart, restore, stop, upgrade, upkeep};

pub(crate) fn run(draft: &mut Draft<'_>) -> Flow {
    if draft.record.is_bootstrapped() {
        return ON;
    }
    record_leader(draft);
    if draft.record.abandoned.is_none()
        && let Some(list) = formed(draft)
    {
        if let Some(contradiction) = restore::contradiction(draft) {
            draft.wait(contradiction);
            return DONE;
        }
        // R1: a Pod that is gated when the cluster id is recorded may not start as new any more.
        if !ungate_pods(draft).is_done() {
            label_joined(draft);
            return DONE;
        }
        record_cluster(draft, list);
        return ON;
    }
    if let Some(why) = draft.record.abandoned.or_else(|| reason_to_abandon(draft)) {
        draft.write_record(Step::BA, |record| record.abandoned = Some(why));
        if !delete_attempt(draft).is_done() {
            draft.wait(Waiting::Clearing(why));
            return DONE;
        }
    }
    if draft.record.members.is_empty() {
        if let Some(pods) = unknown_pods(draft) {
            draft.wait(Waiting::EarlierData(EarlierData::UnknownPods(pods)));
            return DONE;
        }
        if draft.seen.desired.size == 0 {
            delete_late_pods(draft);
            return DONE;
        }
        if let Err(why) = upgrade::may_be_chosen(draft.seen.desired.version) {
            draft.wait(Waiting::VersionRefused(why));
            return DONE;
        }
        match restore::to_begin_with(draft) {
            Ok(restore) => begin_attempt(draft, restore),
            Err(why) => {
                if let NoSnapshot::Failed(RestoreFailure { lacks: Some(name), .. }) = &why {
                    draft.write(Step::B1, KubeEffect::CreateBackup { name: name.clone() });
                }
                draft.wait(Waiting::NoSnapshot(why));
                return DONE;
            }
        }
    }
    if !draft.seen.finalizer {
        draft.write(Step::B1, KubeEffect::AddFinalizer);
    }
    label_joined(draft);
    let ready_for_pods =
        upkeep::names_and_certificates(draft).is_done() & upkeep::fence_client_service(draft).is_done();
    if create_volumes(draft).is_done() && ready_for_pods {
        create_pods(draft);
    }
    DONE
}

/// B5: a quorum of the set answers with one cluster id and a leader, and serves a list of the whole set by consensus.
fn formed<'a>(draft: &Draft<'a>) -> Option<&'a List> {
    let list = draft.seen.list(draft.now)?;
    let members = &draft.record.members;
    let statuses = members.keys().filter_map(|member| draft.status_of(member));
    let agrees = |status: &&StatusReply| status.cluster_id == list.cluster_id && status.leader.is_some();
    let agreeing = statuses.filter(agrees).count();
    let whole =
        members.keys().all(|member| draft.listed(member).is_some()) && list.members.len() == members.len();
    (whole && has_quorum(agreeing, members.len())).then_some(list)
}

/// B6, where the set has not formed yet for the operator: a client may have written to it.
pub(crate) fn record_leader(draft: &mut Draft<'_>) {
    if !draft.record.is_bootstrapped() && has_served(draft) {
        draft.write_record(Step::B6, |record| (record.had_leader, record.abandoned) = (true, None));
    }
}

/// K1, where the set has not formed yet for the operator. A member that has followed a leader may have voted and stored what a client
/// wrote: from now on its emptied volume is a loss. In memory, upkeep finds out first in which Pod a member voted.
fn label_joined(draft: &mut Draft<'_>) {
    if !draft.record.had_leader || draft.record.is_in_memory() {
        return;
    }
    for member in draft.members() {
        let lacks_label = draft.pod(&member).is_some_and(facts::lacks_joined_label);
        if lacks_label && facts::has_followed_a_leader(draft.view(), &member) {
            draft.label_joined(&member);
        }
    }
}

/// BR, for every Pod that is gated and may be ungated. Done when none is.
fn ungate_pods(draft: &mut Draft<'_>) -> Progress {
    for_all(&draft.members(), |member| match draft.pod(member).filter(|pod| pod.gated && !pod.terminating) {
        Some(pod) if ungate(draft, member, pod) => Progress::Pending,
        Some(_) | None => Progress::Done,
    })
}

/// BR. Returns whether it is permitted.
fn ungate(draft: &mut Draft<'_>, member: &MemberName, pod: &Pod) -> bool {
    let may = draft.write(Step::BR, KubeEffect::UngatePod { member: member.clone(), pod: pod.uid.clone() });
    if may {
        draft.wait(Waiting::PodStarting(member.clone()));
    }
    may
}

/// B6.
fn record_cluster(draft: &mut Draft<'_>, list: &List) {
    let members = draft.record.members.keys();
    let ids = members.filter_map(|member| Some((member.clone(), draft.listed(member)?.id)));
    let (ids, now): (Vec<_>, _) = (ids.collect(), draft.now);
    draft.write_record(Step::B6, |record| {
        record.cluster_id = Some(list.cluster_id);
        (record.had_leader, record.abandoned) = (false, None);
        for (member, id) in ids {
            if let Some(recorded) = record.members.get_mut(&member) {
                (recorded.id, recorded.stage, recorded.since) = (Some(id), Stage::Voter, now);
            }
        }
    });
}

/// Status was lost, but Pods of this cluster still run. If their data are on volumes, adoption has already recorded them.
/// If they are in memory, nothing identifies them, and no second cluster is bootstrapped beside them. Gated Pods have no
/// data and do not count.
fn unknown_pods(draft: &Draft<'_>) -> Option<Vec<MemberName>> {
    let pods = draft.seen.pods.iter().filter(|(_, pod)| !pod.gated).map(|(name, _)| name.clone());
    let pods: Vec<MemberName> = pods.collect();
    (!pods.is_empty() && draft.record.attempt == 0).then_some(pods)
}

/// Pods of an attempt that was given up or that status has lost, where no later attempt would delete them.
fn delete_late_pods(draft: &mut Draft<'_>) {
    let late = draft.seen.pods.iter().filter(|(_, pod)| !pod.joined).map(|(name, _)| name.clone());
    let _ = stop::all(draft, Step::BA, &late.collect::<Vec<_>>());
}

fn reason_to_abandon(draft: &Draft<'_>) -> Option<Abandoned> {
    let record = &draft.record;
    let committed = record.target.as_ref()?;
    if record.members.is_empty() || record.had_leader {
        return None;
    }
    let mut desired = draft.seen.desired.clone();
    // One member is restored from a claim, whatever the size. The cluster grows to its size once it is there.
    if record.restore.as_ref().is_some_and(Restore::is_in_claim) && desired.size > 0 {
        desired.size = committed.size;
    }
    // A release of the operator is no edit: hours of a restore are not begun again for it. Its Pods are rolled once the cluster is there.
    let goes_on = record.restore.is_some() && committed.differs_by_operator_only(&desired);
    if !committed.bootstraps_the_same_set(&desired) && !goes_on {
        return Some(Abandoned::SpecEdited);
    }
    let lost = |(name, member): (&MemberName, &Member)| {
        let seen = draft.volume(name);
        member.volume.is_some()
            && seen.is_none_or(|seen| seen.terminating || Some(&seen.uid) != member.volume.as_ref())
    };
    if record.members.iter().any(lost) {
        return Some(Abandoned::VolumeLost);
    }
    // Its peers know it as started, or its Pod remembers that it had data.
    let known_to_peers = |pod: &Pod| pod.already_bootstrapped && pod.restarts > 0;
    let emptied =
        |member| draft.pod(member).is_some_and(known_to_peers) || draft.seen.guard_misses_data(member);
    record.members.keys().any(emptied).then_some(Abandoned::VolumeEmptied)
}

/// Whether the cluster exists, whatever keeps us from observing it: then it is waited for and never deleted. A member has followed a
/// leader. A member is Ready only once it runs with a quorum, and a volume is annotated only once the cluster id is recorded.
fn has_served(draft: &Draft<'_>) -> bool {
    let serves = |member: &MemberName| {
        facts::has_followed_a_leader(draft.view(), member)
            || draft.pod(member).is_some_and(|pod| pod.ready)
            || draft.volume(member).is_some_and(|volume| volume.cluster_id.is_some())
    };
    draft.record.members.keys().any(serves)
}

/// BA: Pods first, then volumes, then the names.
fn delete_attempt(draft: &mut Draft<'_>) -> Progress {
    let members = draft.members();
    if !stop::all(draft, Step::BA, &members).is_done()
        || !for_all(&members, |member| draft.delete_volume(Step::BA, member)).is_done()
    {
        return Progress::Pending;
    }
    draft.write_record(Step::BA, |record| {
        record.members.clear();
        (record.abandoned, record.target) = (None, None);
    });
    Progress::Done
}

/// B1.
pub(crate) fn begin_attempt(draft: &mut Draft<'_>, restore: Option<Restore>) {
    let desired = draft.seen.desired.clone();
    let uid = draft.seen.uid.clone();
    let members = draft.record.incarnation.as_ref().and_then(|present| present.members);
    let size = match &restore {
        // Most claims are mounted on one node at a time, and some disks never leave theirs: all members would be on that node, for good,
        // or never start. The others grow from the one that is restored, and are placed as ever.
        Some(restore) if restore.is_in_claim() => 1,
        Some(_) | None => members.unwrap_or(desired.size),
    };
    draft.write_record(Step::B1, |record| {
        record.attempt += 1;
        record.token = Some(Token::of_attempt(&uid, record.attempt));
        // Who begins with auth has no clients of before.
        if desired.auth && restore.is_none() {
            record.client_grace = Some(ClientGrace::Over);
        }
        record.target = Some(desired);
        record.restore = restore;
        record.earlier = None;
    });
    for _ in 0..size {
        draft.record_name(Step::B1, Stage::Bootstrap);
    }
}

/// B3.
fn create_volumes(draft: &mut Draft<'_>) -> Progress {
    if draft.record.is_in_memory() {
        return Progress::Done;
    }
    for_all(&draft.members(), |member| draft.create_volume(Step::B3, member))
}

/// B3 and B4 of the first member.
pub(crate) fn first_member(draft: &Draft<'_>) -> Vec<KubeEffect> {
    let Some(member) = draft.record.members.keys().next().cloned() else { return Vec::new() };
    let (boot, peers) = (restore::boot(&draft.record), peers(draft));
    let claim = (!draft.record.is_in_memory()).then(|| KubeEffect::CreateVolume { member: member.clone() });
    claim.into_iter().chain([KubeEffect::CreatePod { member, boot, peers }]).collect()
}

fn peers(draft: &Draft<'_>) -> Vec<(MemberName, PeerUrl)> {
    let members = draft.record.members.keys();
    members.map(|member| (member.clone(), draft.seen.peer_url(member))).collect()
}

/// B4.
fn create_pods(draft: &mut Draft<'_>) {
    let peers = peers(draft);
    for member in &draft.members() {
        match draft.pod(member) {
            None => {
                let (member, boot, peers) = (member.clone(), restore::boot(&draft.record), peers.clone());
                draft.write(Step::B4, KubeEffect::CreatePod { member, boot, peers });
            }
            Some(pod) if pod.finished && !pod.terminating => restart::finished_pod(draft, member),
            Some(pod) if pod.finished || restore::comes_too_late(&draft.record, pod) => {
                draft.end_pod(Step::W2, member);
            }
            Some(pod) if pod.gated && !pod.terminating => {
                ungate(draft, member, pod);
            }
            Some(pod)
                if let Some(failure) = &pod.restore_failure
                    && !(pod.runs || pod.fetches) =>
            {
                let failure = NotRestored::Failed(failure.clone());
                draft.wait(Waiting::NotRestored(member.clone(), failure));
            }
            Some(pod) if restore::is_unmounted(draft, pod) => {
                draft.wait(Waiting::PodStuck(member.clone(), PodTrouble::SnapshotNotMounted));
            }
            Some(pod) => match (&pod.trouble, &pod.guard) {
                (_, Some((verdict, why))) => {
                    let why = PodTrouble::Guard(*verdict, why.clone());
                    draft.wait(Waiting::PodStuck(member.clone(), why));
                }
                (Some(why), None) => {
                    draft.wait(Waiting::PodStuck(member.clone(), PodTrouble::Says(why.clone())));
                }
                (None, None) if pod.ip.is_none() => draft.wait(Waiting::PodStarting(member.clone())),
                (None, None) if pod.restores && !pod.has_run && draft.status_of(member).is_none() => {
                    draft.wait(Waiting::Restoring(member.clone(), pod.restore_failure.clone()));
                }
                (None, None) => {}
            },
        }
    }
    draft.wait(restore::why_no_list(draft).unwrap_or(Waiting::FirstLeader));
}
