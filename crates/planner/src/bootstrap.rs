//! Bootstrap: all members at once, as a static bootstrap set, exactly once in the life of a cluster.
//!
//! B1 latch attempt, token and names; B2 peer Service and certificates; B3 volumes, and latch their uids; B4 all Pods,
//! `new`, each held back until it is seen (BR); B5 a quorum reports one cluster id and a leader; B6 latch cluster id and member
//! ids; B7 client Service and budget; B8 Available. Before B6 no client Service exists, so an attempt can be given up as a
//! whole (BA).

use quorate_model::effect::Boot;
use quorate_model::quorum::has_quorum;
use quorate_model::record::{Abandoned, Member, Stage};
use quorate_model::snapshot::{List, Pod};
use quorate_model::{Effect, KubeEffect, MemberName, Step, Token, Waiting};

use crate::draft::{DONE, Draft, Flow, ON, for_all};
use crate::upkeep;

pub(crate) fn run(draft: &mut Draft<'_>) -> Flow {
    if draft.record.is_bootstrapped() {
        return ON;
    }
    if draft.record.abandoned.is_none()
        && let Some(list) = formed(draft)
    {
        // R1: whoever is held back when the cluster id is latched may not begin as new any more.
        if !released(draft) {
            return DONE;
        }
        latch_cluster(draft, list);
        return ON;
    }
    if let Some(why) = draft.record.abandoned.or_else(|| reason_to_abandon(draft)) {
        draft.write_record(Step::BA, |record| record.abandoned = Some(why));
        if !cleared(draft) {
            draft.wait(Waiting::Clearing(why.as_str()));
            return DONE;
        }
    }
    if draft.record.members.is_empty() {
        if draft.seen.desired.size == 0 {
            clear_late_pods(draft);
            return DONE;
        }
        if others_run(draft) {
            return DONE;
        }
        begin_attempt(draft);
    }
    if !draft.seen.finalizer {
        draft.propose(Effect::kube(Step::B1, KubeEffect::AddFinalizer));
    }
    let ready_for_pods = upkeep::names_and_certificates(draft) == ON;
    if volumes(draft) && ready_for_pods {
        pods(draft);
    }
    DONE
}

/// B5: a quorum of the set answers with one cluster id and a leader, and serves a list of the whole set by consensus.
fn formed<'a>(draft: &Draft<'a>) -> Option<&'a List> {
    let list = draft.seen.list(draft.now)?;
    let seeds = &draft.record.members;
    let agreeing = seeds
        .keys()
        .filter_map(|seed| draft.status_of(seed))
        .filter(|said| said.cluster_id == list.cluster_id && said.leader.is_some())
        .count();
    let whole = seeds.keys().all(|seed| draft.listed(seed).is_some()) && list.members.len() == seeds.len();
    (whole && has_quorum(agreeing, seeds.len())).then_some(list)
}

/// BR, for whoever is held back and may be released. `true` once there is nobody.
fn released(draft: &mut Draft<'_>) -> bool {
    let seeds: Vec<MemberName> = draft.record.members.keys().cloned().collect();
    for_all(&seeds, |seed| {
        let held = draft.pod(seed).filter(|pod| pod.held && !pod.terminating);
        !held.is_some_and(|pod| release(draft, seed, pod))
    })
}

/// BR. Whether it may be.
fn release(draft: &mut Draft<'_>, seed: &MemberName, pod: &Pod) -> bool {
    let ungate = KubeEffect::UngatePod { member: seed.clone(), pod: pod.uid.clone() };
    let may = draft.propose(Effect::kube(Step::BR, ungate));
    if may {
        draft.wait(Waiting::PodStarting(seed.clone()));
    }
    may
}

/// B6.
fn latch_cluster(draft: &mut Draft<'_>, list: &List) {
    let ids: Vec<_> =
        draft.record.members.keys().filter_map(|seed| Some((seed.clone(), draft.listed(seed)?.id))).collect();
    let now = draft.now;
    draft.write_record(Step::B6, |record| {
        record.cluster_id = Some(list.cluster_id);
        record.abandoned = None;
        for (seed, id) in ids {
            if let Some(member) = record.members.get_mut(&seed) {
                (member.id, member.stage, member.since) = (Some(id), Stage::Voter, now);
            }
        }
    });
}

/// Pods of this incarnation without any record of it: status was lost. Where volumes tell who they are, they were adopted
/// before; data in memory tell nothing, and a second cluster must not be founded beside them. What is held back has none.
fn others_run(draft: &mut Draft<'_>) -> bool {
    let others = draft.seen.pods.iter().filter(|(_, pod)| !pod.held).map(|(name, _)| name.clone());
    let others: Vec<MemberName> = others.collect();
    if others.is_empty() || draft.record.attempt > 0 {
        return false;
    }
    draft.wait(Waiting::UnknownPods(others));
    true
}

/// What a late call made of an attempt that was given up, where none follows that would clear it away.
fn clear_late_pods(draft: &mut Draft<'_>) {
    if draft.record.attempt > 0 {
        let late = draft.seen.pods.iter().filter(|(_, pod)| !pod.joined).map(|(name, _)| name.clone());
        for name in late.collect::<Vec<_>>() {
            draft.clear_pod(Step::BA, &name);
        }
    }
}

fn reason_to_abandon(draft: &Draft<'_>) -> Option<Abandoned> {
    let record = &draft.record;
    let committed = record.target.as_ref()?;
    if record.members.is_empty() || has_served(draft) {
        return None;
    }
    if !committed.shapes_the_same_set(&draft.seen.desired) {
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
    let emptied = |seed| draft.pod(seed).is_some_and(|pod| pod.already_bootstrapped && pod.restarts > 0);
    record.members.keys().any(emptied).then_some(Abandoned::VolumeEmptied)
}

/// A member is Ready only once it runs with a quorum, and a volume is stamped only once the cluster id is latched. Whatever
/// keeps us from seeing the cluster, there is one: it is waited for and never cleared away.
fn has_served(draft: &Draft<'_>) -> bool {
    let serves = |seed: &MemberName| {
        draft.pod(seed).is_some_and(|pod| pod.ready)
            || draft.volume(seed).is_some_and(|volume| volume.cluster_id.is_some())
    };
    draft.record.members.keys().any(serves)
}

/// BA: Pods first, then volumes, then the names. `true` once nothing of the attempt is left.
fn cleared(draft: &mut Draft<'_>) -> bool {
    let seeds: Vec<MemberName> = draft.record.members.keys().cloned().collect();
    let stopped = for_all(&seeds, |seed| draft.clear_pod(Step::BA, seed));
    let gone = stopped && for_all(&seeds, |seed| draft.clear_volume(Step::BA, seed));
    if gone {
        draft.write_record(Step::BA, |record| {
            record.members.clear();
            record.abandoned = None;
            record.target = None;
        });
    }
    gone
}

/// B1.
fn begin_attempt(draft: &mut Draft<'_>) {
    let desired = draft.seen.desired.clone();
    let uid = draft.seen.uid.clone();
    let size = desired.size;
    draft.write_record(Step::B1, |record| {
        record.attempt += 1;
        record.token = Some(Token::new(format!("{uid}-{}", record.attempt)));
        record.target = Some(desired);
    });
    for _ in 0..size {
        draft.promise_name(Step::B1, Stage::Bootstrap);
    }
}

/// B3. `true` once every member has its volume.
fn volumes(draft: &mut Draft<'_>) -> bool {
    if draft.record.is_in_memory() {
        return true;
    }
    let seeds: Vec<MemberName> = draft.record.members.keys().cloned().collect();
    for_all(&seeds, |seed| volume(draft, Step::B3, seed))
}

/// Creates a new member's volume, and recorded_steps the uid it got. `true` once latched.
pub(crate) fn volume(draft: &mut Draft<'_>, step: Step, member: &MemberName) -> bool {
    if draft.record.members.get(member).is_some_and(|member| member.volume.is_some()) {
        return true;
    }
    match draft.volume(member) {
        Some(volume) if volume.cluster_uid.as_ref() == Some(&draft.seen.uid) => {
            draft.write_record(step, |record| {
                if let Some(member) = record.members.get_mut(member) {
                    member.volume = Some(volume.uid.clone());
                }
            });
            true
        }
        Some(_) => {
            let name = format!("PersistentVolumeClaim {}/{member}", draft.seen.cluster.namespace);
            draft.wait(Waiting::ForeignObjects(vec![name]));
            false
        }
        None => {
            draft.propose(Effect::kube(step, KubeEffect::CreateVolume { member: member.clone() }));
            false
        }
    }
}

/// B4.
fn pods(draft: &mut Draft<'_>) {
    let seeds: Vec<MemberName> = draft.record.members.keys().cloned().collect();
    let peers: Vec<_> = seeds.iter().map(|seed| (seed.clone(), draft.seen.peer_url(seed))).collect();
    for seed in &seeds {
        match draft.pod(seed) {
            None => {
                let create =
                    KubeEffect::CreatePod { member: seed.clone(), boot: Boot::New, peers: peers.clone() };
                draft.propose(Effect::kube(Step::B4, create));
            }
            Some(pod) if pod.finished => {
                draft.clear_pod(Step::W2, seed);
            }
            Some(pod) if pod.held && !pod.terminating => {
                release(draft, seed, pod);
            }
            Some(pod) => match (&pod.trouble, &pod.guard) {
                (_, Some((verdict, why))) => {
                    draft.wait(Waiting::PodStuck(seed.clone(), format!("{verdict}: {why}")));
                }
                (Some(why), None) => draft.wait(Waiting::PodStuck(seed.clone(), why.clone())),
                (None, None) if pod.ip.is_none() => draft.wait(Waiting::PodStarting(seed.clone())),
                (None, None) => {}
            },
        }
    }
    draft.wait(Waiting::FirstLeader);
}
