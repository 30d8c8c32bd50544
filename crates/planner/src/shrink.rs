//! Removal of one member. S1 choose; S2 move leadership away; S3 MemberRemove; S4 delete the Pod; S5 delete, retain or
//! quarantine the volume. A learner that is rolled back, a stray member and a lost one are removed the same way.

use std::cmp::Reverse;

use quorate_model::effect::Unsafe;
use quorate_model::record::{Leaving, Stage};
use quorate_model::snapshot::Listed;
use quorate_model::target::Retention;
use quorate_model::{Effect, EtcdCall, MemberName, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON, Progress};
use crate::{View, leadership, replace, safety, upkeep};

/// Continues every outstanding removal. While the member is in etcd's list, no other change of membership begins.
pub(crate) fn finish(draft: &mut Draft<'_>) -> Flow {
    for name in draft.members() {
        let Some(Stage::Leaving(why)) = draft.view().stage_of(&name) else { continue };
        match draft.listed(&name) {
            Some(_) if why == Leaving::Shrink && is_needed_again(draft, &name) => {
                draft.enter(Step::S1, &name, Stage::Voter);
                // A call whose outcome is not known may still remove it: nothing else begins before the list was read again.
                return DONE;
            }
            Some(listed) => {
                let may_stay = match why {
                    Leaving::Shrink => true,
                    // A moved one that is not healthy any more goes, unless it may be the one that is right. A voter is in the way of less.
                    Leaving::Replaced => draft.view().is_healthy(&name) || is_undecided(draft, &name),
                    Leaving::Lost | Leaving::RolledBack | Leaving::Stray | Leaving::Removed => false,
                };
                if may_stay && keep_if_another_is_unhealthy(draft, &name) {
                    continue;
                }
                let is_confirmed = match why {
                    Leaving::Lost | Leaving::Replaced => replace::confirm(draft, &name).is_done(),
                    Leaving::Shrink | Leaving::RolledBack | Leaving::Stray | Leaving::Removed => true,
                };
                if is_confirmed {
                    remove(draft, &name, listed, why);
                }
                return DONE;
            }
            None => settle_pod_and_volume(draft, &name, why),
        }
    }
    ON
}

/// Whether the size was edited back before the member was removed, however long that is held up: it would be removed only to grow again. One
/// answer that is missing, or a full database, says nothing about its data. In the place of one that may have lost them another one grows.
fn is_needed_again(draft: &Draft<'_>, member: &MemberName) -> bool {
    let may_be_lost = || {
        draft.record.suspected.contains_key(member)
            || draft.seen.apparent_loss(&draft.record, member, draft.now).is_some()
    };
    draft.record.voters().count() < draft.view().size() && !may_be_lost()
}

/// The steps of a removal have the numbers of the protocol that it is part of.
struct Steps {
    remove: Step,
    pod: Step,
    volume: Step,
}

fn steps(why: Leaving) -> Steps {
    match why {
        Leaving::Lost | Leaving::Replaced => Steps { remove: Step::P3, pod: Step::P4, volume: Step::P5 },
        Leaving::Shrink | Leaving::RolledBack | Leaving::Stray | Leaving::Removed => {
            Steps { remove: Step::S3, pod: Step::S4, volume: Step::S5 }
        }
    }
}

/// S1, then as far as it goes at once.
pub(crate) fn begin(draft: &mut Draft<'_>) -> Flow {
    let moved = replace::moved_member(draft);
    let why = if moved.is_some() { Leaving::Replaced } else { Leaving::Shrink };
    let Some(member) = moved.or_else(|| member_to_remove(draft)) else { return ON };
    let is_moved = why == Leaving::Replaced;
    if let Err(why) = safety::may_remove(draft.view(), &member) {
        // Only a rollout gives all the same version. What cures another voter must not wait for a member that is moved.
        let flow = match why {
            // Members of different versions are not compared, so it comes first where data differ, too.
            Unsafe::VersionsMixed(_) | Unsafe::DataUndecided(_) => ON,
            Unsafe::VoterUnhealthy(_) | Unsafe::WouldLoseQuorum { .. } if is_moved => ON,
            _ => DONE,
        };
        draft.wait(Waiting::Unsafe(why));
        return flow;
    }
    draft.enter(Step::S1, &member, Stage::Leaving(why));
    finish(draft)
}

fn is_undecided(draft: &Draft<'_>, member: &MemberName) -> bool {
    matches!(safety::may_remove(draft.view(), member), Err(Unsafe::DataUndecided(_)))
}

/// Another member became unhealthy since this one was chosen, or data were found to differ: this one stays a voter, and the choice is made
/// again.
fn keep_if_another_is_unhealthy(draft: &mut Draft<'_>, member: &MemberName) -> bool {
    match safety::may_remove(draft.view(), member) {
        Err(
            Unsafe::VoterUnhealthy(_)
            | Unsafe::WouldLoseQuorum { .. }
            | Unsafe::VersionsMixed(_)
            | Unsafe::DataUndecided(_),
        ) => {
            draft.enter(Step::S1, member, Stage::Voter);
            true
        }
        Ok(()) | Err(_) => false,
    }
}

/// Unhealthy first, other than by a full database: such a member stores what the cluster commits. Then, where data differ, one that is not seen
/// to agree with a majority. Then one whose claim is being deleted, from the fullest zone, then not the leader, then the highest ordinal.
fn member_to_remove(draft: &Draft<'_>) -> Option<MemberName> {
    let view @ View { seen, record, now } = draft.view();
    let zone = |member: &MemberName| view.pod(member).and_then(|pod| pod.zone.as_ref());
    let rank = |member: &&MemberName| {
        let is_known = record.differ_since.is_none() || seen.agrees_with_majority(member, now);
        let crowd = record.voters().filter(|voter| zone(voter) == zone(member)).count();
        let (keeps_its_claim, leads) = (!view.claim_is_terminating(member), view.is_leader(member));
        let ordinal = seen.cluster.ordinal(member);
        (view.is_sound(member), is_known, keeps_its_claim, Reverse(crowd), leads, Reverse(ordinal))
    };
    record.voters().min_by_key(rank).cloned()
}

/// S2 and S3. Between them clients are led away (K2).
fn remove(draft: &mut Draft<'_>, name: &MemberName, listed: &Listed, why: Leaving) {
    if !leadership::move_away(draft, Step::S2, name).is_done() {
        return;
    }
    let Some(via) = draft.via().cloned() else { return };
    let (member, id, peer_url) = (name.clone(), listed.id, listed.peer_url.clone());
    let remove = Effect::etcd(steps(why).remove, via, EtcdCall::RemoveMember { member, id, peer_url });
    // It was a voter that stays when this plan began.
    draft.withdraw_clients(name);
    if draft.judge(&remove) == Err(Unsafe::StillServes(name.clone())) {
        upkeep::lead_clients_away(draft, name);
        return;
    }
    if draft.propose(remove) {
        // A quorum removes it now, so its Pod would be deleted as soon as it runs. Without quorum it is restarted.
        draft.withdraw_restart(name);
        // Its volume may have waited for long. The time of the one that takes its place begins now.
        let joining = draft.record.joining().map(|(joining, _)| joining.clone());
        if let (Leaving::Lost | Leaving::Replaced, Some(joining)) = (why, joining) {
            draft.enter(steps(why).remove, &joining, Stage::Joining);
        }
    }
}

/// S4 and S5; then the record forgets the member, but never its name.
fn settle_pod_and_volume(draft: &mut Draft<'_>, name: &MemberName, why: Leaving) {
    let steps = steps(why);
    let pod = draft.delete_pod(steps.pod, name);
    // Its node is gone or does not report. Whenever that is back, its kubelet ends the Pod. Nothing else waits for it: no member is meant by it.
    let is_stuck = draft.pod(name).is_some_and(|pod| pod.is_stuck(draft.now));
    let is_retained =
        || draft.record.target.as_ref().is_some_and(|target| target.storage.when_scaled == Retention::Retain);
    // While its Pod was stuck. It is deleted when its time is over, also where the Pod is gone by now.
    let is_quarantined = draft.volume(name).is_some_and(|volume| volume.quarantine.is_some());
    let volume = match why {
        // R17. A Pod that cannot stop, because its node is gone, does not delay it.
        Leaving::Lost | Leaving::Removed | Leaving::Replaced => {
            draft.quarantine_volume(steps.volume, name, why)
        }
        Leaving::Shrink if is_retained() => Progress::Done,
        Leaving::Shrink | Leaving::RolledBack | Leaving::Stray if pod.is_done() && !is_quarantined => {
            draft.delete_volume(steps.volume, name)
        }
        Leaving::Shrink | Leaving::RolledBack | Leaving::Stray if is_stuck || is_quarantined => {
            draft.quarantine_volume(steps.volume, name, why)
        }
        Leaving::Shrink | Leaving::RolledBack | Leaving::Stray => Progress::Pending,
    };
    if (pod.is_done() || is_stuck) && volume.is_done() {
        draft.write_record(steps.volume, |record| {
            record.members.remove(name);
            record.suspected.remove(name);
        });
    }
}
