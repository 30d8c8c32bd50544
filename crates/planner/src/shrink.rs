//! Removal of one member. S1 choose; S2 move leadership away; S3 MemberRemove; S4 delete the Pod; S5 the volume, by
//! the retention policy. A rollback, a stray member and a lost one go the same way.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use quorate_model::effect::Unsafe;
use quorate_model::record::{Leaving, Stage};
use quorate_model::snapshot::Listed;
use quorate_model::target::Retention;
use quorate_model::{Effect, EtcdCall, MemberName, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON};
use crate::safety;

/// Takes every outstanding removal on; a member still in etcd's list holds up all other changes of membership.
pub(crate) fn finish(draft: &mut Draft<'_>) -> Flow {
    let leaving: Vec<(MemberName, Leaving)> = draft
        .record
        .members
        .iter()
        .filter_map(|(name, member)| match member.stage {
            Stage::Leaving(why) => Some((name.clone(), why)),
            Stage::Bootstrap | Stage::Joining | Stage::Voter => None,
        })
        .collect();
    for (name, why) in leaving {
        match draft.listed(&name) {
            Some(listed) => {
                if why == Leaving::Shrink && reconsidered(draft, &name) {
                    continue;
                }
                remove(draft, &name, listed);
                return DONE;
            }
            None => clear_away(draft, &name, why),
        }
    }
    ON
}

/// S1, then as far as it goes at once.
pub(crate) fn begin(draft: &mut Draft<'_>) -> Flow {
    let Some(victim) = victim(draft) else { return ON };
    if let Err(why) = safety::may_remove(draft.seen, &draft.record, draft.now, &victim) {
        draft.wait(Waiting::Unsafe(why));
        return DONE;
    }
    draft.enter(Step::S1, &victim, Stage::Leaving(Leaving::Shrink));
    finish(draft)
}

/// Another member fell sick since this one was chosen: it stays, and whoever is to go is chosen anew, the sick one first.
fn reconsidered(draft: &mut Draft<'_>, victim: &MemberName) -> bool {
    match safety::may_remove(draft.seen, &draft.record, draft.now, victim) {
        Err(Unsafe::VoterUnhealthy(_) | Unsafe::WouldLoseQuorum { .. }) => {
            draft.enter(Step::S1, victim, Stage::Voter);
            true
        }
        Ok(()) | Err(_) => false,
    }
}

/// Moves leadership away from a member, to the healthy voter that applied most. `true` if it does not lead.
pub(crate) fn does_not_lead(draft: &mut Draft<'_>, step: Step, member: &MemberName) -> bool {
    if !draft.is_leader(member) {
        return true;
    }
    let heir = draft
        .record
        .voters()
        .filter(|voter| *voter != member && draft.seen.is_healthy(voter, draft.now))
        .filter_map(|voter| Some((draft.status_of(voter)?, voter)))
        .max_by_key(|(said, _)| said.applied)
        .map(|(said, voter)| (voter.clone(), said.member_id));
    match heir {
        Some((to, to_id)) => {
            draft.propose(Effect::etcd(step, member.clone(), EtcdCall::MoveLeadership { to, to_id }));
            false
        }
        // Nobody to lead instead (size one): etcd elects by itself after the removal.
        None => true,
    }
}

/// Unhealthy first, then from the fullest zone, then not the leader, then the highest ordinal.
fn victim(draft: &Draft<'_>) -> Option<MemberName> {
    let zone = |member: &MemberName| draft.pod(member).and_then(|pod| pod.zone.clone());
    let mut zones: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for voter in draft.record.voters() {
        *zones.entry(zone(voter)).or_default() += 1;
    }
    let rank = |member: &&MemberName| {
        let healthy = draft.seen.is_healthy(member, draft.now);
        let crowd = zones.get(&zone(member)).copied().unwrap_or(0);
        let ordinal = draft.seen.cluster.ordinal(member);
        (healthy, Reverse(crowd), draft.is_leader(member), Reverse(ordinal))
    };
    draft.record.voters().min_by_key(rank).cloned()
}

/// S2 and S3.
fn remove(draft: &mut Draft<'_>, name: &MemberName, listed: &Listed) {
    if !does_not_lead(draft, Step::S2, name) {
        return;
    }
    let Some(via) = draft.via().cloned() else { return };
    let remove =
        EtcdCall::RemoveMember { member: name.clone(), id: listed.id, peer_url: listed.peer_url.clone() };
    draft.propose(Effect::etcd(Step::S3, via, remove));
}

/// S4 and S5; then the record forgets it, though never its name.
fn clear_away(draft: &mut Draft<'_>, name: &MemberName, why: Leaving) {
    if !draft.clear_pod(Step::S4, name) {
        return;
    }
    let retained = match why {
        Leaving::Shrink | Leaving::Removed => {
            draft.record.target.as_ref().is_some_and(|target| target.storage.when_scaled == Retention::Retain)
        }
        Leaving::RolledBack | Leaving::Lost | Leaving::Stray => false,
    };
    if retained || draft.clear_volume(Step::S5, name) {
        draft.write_record(Step::S5, |record| {
            record.members.remove(name);
        });
    } else {
        draft.wait(Waiting::VolumeGoing(name.clone()));
    }
}
