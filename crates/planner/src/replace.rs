//! Replaces a member whose data are certainly lost or differ from those of a majority (`Snapshot::is_lost`), or that a person orders to
//! replace, or whose claim is being deleted. P0 note that data may be lost, and look again when the grace period is over; P1 record the intent; P3 to P5 remove the member as in
//! shrink, its volume is quarantined; P6 growth adds the new member; P7 record how it ended.
//!
//! A lost member is removed before another is added (R6). A healthy one that a person orders to replace, or whose data go with its Pod
//! (R21), is removed last: the new member is a voter by then, so no redundancy is lost, and a cluster of one can move, too. Where a cluster
//! has no place for one more, such a member moves in place: it is removed first, as a lost one is.

use std::collections::BTreeSet;

use quorate_model::effect::{LEARNER_DEADLINE, Unsafe};
use quorate_model::record::{Leaving, Loss, Replaced, Replacement, ReplacementEnd, Stage, Suspicion};
use quorate_model::snapshot::{Comparison, Hashes, Pod};
use quorate_model::{Instant, MemberName, Span, Step, Waiting};

use crate::draft::{Draft, Flow, ON, Progress};
use crate::{facts, safety, shrink};

/// This long before the grace period is over, the next pass follows soon. Longer than the interval of passes over what is not well.
const SOON: Span = Span::seconds(15);

/// P0: which voters may have lost their data, since when, and since when data differ. It is recorded, so that no crash of the operator
/// shortens or prolongs the grace period, and no difference is forgotten.
pub(crate) fn suspect(draft: &mut Draft<'_>) {
    let may_vote = |stage| matches!(stage, Stage::Voter | Stage::Leaving(Leaving::Lost));
    let members = draft.record.members.iter().filter(|(_, member)| may_vote(member.stage));
    let voters: Vec<MemberName> = members.map(|(name, _)| name.clone()).collect();
    let is_voter = |member: &MemberName| voters.contains(member);
    let mut suspected = draft.record.suspected.clone();
    suspected.retain(|member, _| is_voter(member));
    let since = draft.latest();
    for voter in &voters {
        let before = suspected.get(voter);
        match draft.seen.apparent_loss(&draft.record, voter, draft.now) {
            // The clock was set back.
            Some(loss) if before.is_none_or(|before| !before.loss.is_like(loss) || before.since > since) => {
                suspected.insert(voter.clone(), Suspicion { loss, since, rechecked: None });
            }
            None if before.is_some_and(|before| is_refuted(draft, voter, before.loss)) => {
                suspected.remove(voter);
            }
            Some(_) | None => {}
        }
    }
    let differ_since = differ_since(draft);
    draft
        .write_record(Step::P0, |record| (record.suspected, record.differ_since) = (suspected, differ_since));
    look_again(draft);
}

/// Withdraws an order whose annotation was removed before the member was. The new member goes: it is the last that was named.
pub(crate) fn withdraw_order(draft: &mut Draft<'_>) {
    let Some(order) = draft.record.replacement.clone().filter(|order| order.loss == Loss::Ordered) else {
        return;
    };
    let member = order.member;
    let is_named = draft.seen.is_ordered_to_be_replaced(&member);
    // A learner that was promoted just now is recorded as a voter first.
    if is_named || is_promoted(draft) || draft.listed(&member).is_none() || has_its_place(draft, &member) {
        return;
    }
    let message = format!(
        "{member} was not replaced: the annotation that ordered it was removed, so the order is withdrawn"
    );
    give_up(draft, &member, message);
    if draft.record.voters().count() > draft.view().size() {
        let others = draft.record.voters().filter(|voter| **voter != member);
        let newest = others.max_by_key(|voter| draft.seen.cluster.ordinal(voter)).cloned();
        if let Some(newest) = newest {
            draft.enter(Step::S1, &newest, Stage::Leaving(Leaving::Shrink));
        }
    }
}

/// Whether the list has the member that is joining as a voter.
fn is_promoted(draft: &Draft<'_>) -> bool {
    draft.record.joining().is_some_and(|(joining, _)| draft.view().is_listed_voter(joining))
}

/// Whether it is too late to withdraw an order: another voter has the place of the member, and that one is not sound. If it stayed, the next
/// scale-in would remove it and delete its volume, which the replacement keeps.
fn has_its_place(draft: &Draft<'_>, member: &MemberName) -> bool {
    has_successor(draft, member) && !draft.view().is_sound(member)
}

/// Whether the cluster has its size without this member.
fn has_successor(draft: &Draft<'_>, member: &MemberName) -> bool {
    draft.record.voters().filter(|voter| *voter != member).count() >= draft.view().size()
}

/// Ends the replacement that is under way, if it is over, and begins the next one.
pub(crate) fn lost_members(draft: &mut Draft<'_>) -> Flow {
    conclude(draft);
    report(draft);
    if let Some(lost) = facts::lost_voter(draft.view()).cloned() {
        let in_memory = draft.record.is_in_memory();
        let other = if in_memory { Loss::Memory } else { Loss::NeverStarted };
        let loss = draft.seen.certain_loss(&draft.record, &lost, draft.now).unwrap_or(other);
        if draft.seen.is_ordered_to_be_replaced(&lost) {
            return begin(draft, &lost, Loss::Ordered);
        }
        if is_enabled(draft, &lost, loss) {
            return begin(draft, &lost, loss);
        }
    }
    if let Some(outstanding) = draft.record.replacement.clone() {
        let is_unfit = !draft.view().is_healthy(&outstanding.member);
        // One whose claim is being deleted is removed first only once it counts as lost.
        if outstanding.loss == Loss::Ordered && is_voter(draft, &outstanding.member) && is_unfit {
            // It was healthy when the order was taken, and is not any more: it is removed first.
            return begin(draft, &outstanding.member, Loss::Ordered);
        }
        if let Some(voter) = holds_up_move(draft, &outstanding) {
            let member = &outstanding.member;
            let message = format!(
                "{member} was not moved: voter {voter} has not been healthy for more than {LEARNER_DEADLINE}, and no member joins \
                 meanwhile. It is moved once every other member is healthy"
            );
            give_up(draft, member, message);
        } else if outstanding.in_place && moved_member(draft).is_some() {
            return shrink::begin(draft);
        }
        // Growth and shrink go on with it.
        return ON;
    }
    if let Some(member) = ordered(draft) {
        return begin(draft, &member, Loss::Ordered);
    }
    match loses_its_claim(draft) {
        Some(member) if is_enabled(draft, &member, Loss::ClaimTerminating) => {
            begin(draft, &member, Loss::ClaimTerminating)
        }
        Some(_) | None => ON,
    }
}

/// Records that a member whose claim is being deleted moves in place, if there was no place for the learner beside it: its claim was not
/// created, or its Pod was bound to no node. Its removal makes that place, and ends what R21 holds up. A learner that failed in its place would
/// fail there, too. Of fewer than three members, the others are no quorum that can do without another one. Returns whether it does.
pub(crate) fn make_place(draft: &mut Draft<'_>, learner: &MemberName) -> bool {
    let has_claim = draft.volume(learner).is_some();
    let has_node = draft.pod(learner).is_some_and(|pod| pod.node.is_some());
    let could_join = || safety::may_grow(draft.view()).is_ok();
    let lacked_place = if draft.listed(learner).is_some() { !has_node } else { !has_claim && could_join() };
    let Some(moved) = moved_member(draft).filter(|_| lacked_place) else { return false };
    if draft.view().claim_is_terminating(&moved) && draft.record.voters().count() >= safety::MOVES_IN_PLACE {
        draft.write_record(Step::P1, |record| {
            if let Some(replacement) = &mut record.replacement {
                replacement.in_place = true;
            }
        });
    }
    moves_in_place(draft)
}

fn moves_in_place(draft: &Draft<'_>) -> bool {
    draft.record.replacement.as_ref().is_some_and(|moved| moved.in_place)
}

/// How many voters the cluster has until the replacement is over: one more than the target while a healthy member is replaced, unless it moves
/// in place. One that is not healthy for long does not move any more, and must not hold up the scale-in that removes it.
pub(crate) fn surplus(draft: &Draft<'_>) -> usize {
    let moves = |member: MemberName| !facts::is_unhealthy_for_long(draft.view(), &member);
    usize::from(!moves_in_place(draft) && moving_voter(draft).is_some_and(moves))
}

/// The healthy member that another one has taken the place of.
pub(crate) fn moved_member(draft: &Draft<'_>) -> Option<MemberName> {
    moving_voter(draft).filter(|member| draft.view().is_healthy(member))
}

/// P1 once more, before P3: whether what the member was chosen by still holds. Else it is a voter again, and the choice is made anew.
pub(crate) fn confirm(draft: &mut Draft<'_>, member: &MemberName) -> Progress {
    let loss = draft.record.replacement.as_ref().map_or(Loss::Ordered, |replacement| replacement.loss);
    // Chosen as one whose data are there, or removed as a lost one.
    let is_ordered = draft.view().stage_of(member) == Some(Stage::Leaving(Leaving::Replaced));
    if loss.is_move() && draft.view().is_healthy(member) {
        if is_ordered && (has_successor(draft, member) || moves_in_place(draft)) {
            return Progress::Done;
        }
        // It was not healthy when it was to be removed first. Now the new member comes first.
        draft.enter(Step::P1, member, Stage::Voter);
        return Progress::Pending;
    }
    let is_certain = is_ordered || draft.view().is_lost(member);
    match safety::may_replace(draft.view(), member, loss) {
        // What would cure another member must not wait for this one.
        Err(why @ (Unsafe::VoterUnhealthy(_) | Unsafe::WouldLoseQuorum { .. })) if is_certain => {
            draft.wait(Waiting::Unsafe(why));
        }
        Ok(()) | Err(_) if is_certain => return Progress::Done,
        Ok(()) | Err(_) => {}
    }
    draft.enter(Step::P1, member, Stage::Voter);
    if !loss.is_move() {
        draft.write_record(Step::P1, |record| record.replacement = None);
    }
    Progress::Pending
}

/// The other voter because of which a member does not move away from its claim for long: no member is added meanwhile. As long as the move is
/// recorded, it would hold up the scale-in by which a person removes that voter. A person can take back an order, and not this. Once the new
/// member is a voter, the move is ended by a removal.
fn holds_up_move(draft: &Draft<'_>, moved: &Replacement) -> Option<MemberName> {
    let waits = moved.loss == Loss::ClaimTerminating
        && !is_promoted(draft)
        && is_voter(draft, &moved.member)
        && draft.view().is_healthy(&moved.member)
        && draft.record.voters().count() <= draft.view().size();
    facts::unhealthy_for_long(draft.view(), Some(&moved.member)).filter(|_| waits).cloned()
}

/// The voter that another member takes the place of before it goes.
fn moving_voter(draft: &Draft<'_>) -> Option<MemberName> {
    let moved = draft.record.replacement.as_ref().filter(|moved| moved.loss.is_move())?;
    is_voter(draft, &moved.member).then(|| moved.member.clone())
}

fn is_voter(draft: &Draft<'_>, member: &MemberName) -> bool {
    draft.view().stage_of(member) == Some(Stage::Voter)
}

/// Whether what was observed shows that the data are there, and right. A Pod that is being created shows nothing, and a member that
/// answers may have wrong data.
fn is_refuted(draft: &Draft<'_>, voter: &MemberName, loss: Loss) -> bool {
    let answers = draft.status_of(voter).is_some();
    match loss {
        Loss::Inconsistent => draft.seen.agrees_with_majority(voter, draft.now),
        Loss::Refused(_) | Loss::ClaimTerminating | Loss::Ordered | Loss::Memory | Loss::NeverStarted => {
            answers
        }
        Loss::VolumeGone => true,
        Loss::NodeGone => answers || draft.seen.sites.get(voter).is_some_and(|site| site.gone.is_none()),
    }
}

/// Since when the data of members differ, as far as hashes of all of them have not agreed since. One that etcd's check keeps out has other
/// data than some peer, whoever is wrong: without a record of it, a member with wrong data would be believed as soon as the check is off.
/// Where no member makes a hash, as with auth, nothing would ever end that.
fn differ_since(draft: &Draft<'_>) -> Option<Instant> {
    let before = draft.record.differ_since;
    let hashes = draft.seen.hashes(draft.now);
    let is_refused = |member: &MemberName| draft.seen.is_refused_by_check(&draft.record, member, draft.now);
    let can_compare = hashes.is_some_and(|hashes| hashes.replies.values().any(Result::is_ok));
    let differ_by_check = can_compare && draft.seen.kept_out(draft.now).any(is_refused);
    if differ_by_check || hashes.is_some_and(Hashes::differ) {
        return before.or(Some(draft.now));
    }
    before.filter(|_| !draft.seen.comparison(draft.now).is_some_and(|compared| compared.none_differs()))
}

/// P0: when the grace period is over, the Pod of a member whose guard refuses is deleted once, so that the volume is mounted again and
/// the guard looks again. The verdict of a kubelet that reports no more is never a second one. The same where etcd's check at the start
/// refuses the data: what the next run says is about the peers as they were just seen to agree.
fn look_again(draft: &mut Draft<'_>) {
    let due = draft.record.suspected.iter().find_map(|(member, suspected)| {
        let is_refused = |pod: &Pod| {
            let (seen, record) = (draft.seen, &draft.record);
            let by_check = || {
                suspected.loss == Loss::Inconsistent
                    && seen.is_compared_again(suspected.since)
                    && seen.is_refused_by_majority(record, member, draft.now)
            };
            pod.guard.is_some() || (!record.is_in_memory() && by_check())
        };
        let pod = draft.pod(member).filter(|pod| !pod.terminating && is_refused(pod))?;
        let is_over = draft.seen.is_grace_over(suspected, draft.now);
        let is_first = suspected.rechecked.as_ref().is_none_or(|first| *first == pod.uid);
        (is_over && is_first).then(|| (member.clone(), pod.uid.clone()))
    });
    let Some((member, pod)) = due else { return };
    draft.write_record(Step::P0, |record| {
        if let Some(suspected) = record.suspected.get_mut(&member) {
            suspected.rechecked = Some(pod);
        }
    });
    draft.end_pod(Step::P0, &member);
}

/// What may be lost is reported before it is acted on.
fn report(draft: &mut Draft<'_>) {
    let not_yet = draft.record.suspected.iter().filter(|(member, _)| !draft.view().is_lost(member));
    let not_yet = not_yet.map(|(member, suspected)| (member.clone(), suspected.loss, suspected.since));
    for (member, loss, since) in not_yet.collect::<Vec<_>>() {
        let grace = draft.seen.replacement_policy.grace;
        // What is still undecided some time after that is not decided by looking more often.
        let is_due =
            (draft.now + SOON) - since >= grace && draft.now - since <= Span(grace.0.saturating_add(SOON.0));
        draft.wait(if draft.seen.replacement_policy.enabled {
            Waiting::MayBeLost { member, loss, is_due }
        } else {
            Waiting::ReplacementDisabled { member, loss }
        });
    }
    report_undecided(draft);
}

/// Where no comparison shows which data are wrong, a person decides; and where one cannot be compared with those that are right, a person
/// may have to help. Of one that is suspected, the suspicion is reported.
fn report_undecided(draft: &mut Draft<'_>) {
    let Some(compared) = draft.seen.comparison(draft.now) else { return };
    let Comparison { majority, groups, mut unknown, .. } = compared;
    let mut kept_out: Vec<MemberName> = draft.seen.kept_out(draft.now).cloned().collect();
    // One voter has nobody to differ from, and an earlier reason may be gone.
    let may_differ =
        draft.seen.is_alarmed(draft.now) || draft.record.differ_since.is_some() || !kept_out.is_empty();
    if majority.is_empty() {
        let voters = groups.iter().map(BTreeSet::len).sum::<usize>() + unknown.len();
        if may_differ || groups.len() > 1 {
            draft.wait(Waiting::Undecided { groups, unknown, kept_out, voters });
        }
        return;
    }
    unknown.retain(|member| !draft.record.suspected.contains_key(member));
    kept_out.retain(|member| unknown.contains(member));
    if may_differ && !unknown.is_empty() {
        draft.wait(Waiting::NotCompared { unknown, kept_out });
    }
}

/// The voter that a person orders to replace.
fn ordered(draft: &Draft<'_>) -> Option<MemberName> {
    draft.record.voters().find(|voter| draft.seen.is_ordered_to_be_replaced(voter)).cloned()
}

/// A healthy voter whose claim is being deleted (R21).
fn loses_its_claim(draft: &Draft<'_>) -> Option<MemberName> {
    let view = draft.view();
    view.record.voters().find(|voter| view.claim_is_terminating(voter) && view.is_healthy(voter)).cloned()
}

/// P1.
fn begin(draft: &mut Draft<'_>, member: &MemberName, loss: Loss) -> Flow {
    let view = draft.view();
    let moves = view.is_healthy(member) && loss.is_move();
    let judged = if moves {
        // The new member comes first. Its data are those of the leader.
        safety::may_grow(view).and_then(|()| safety::may_give_data_up(view, member))
    } else {
        safety::may_replace(view, member, loss)
    };
    if draft.wait_unless_safe(judged) {
        return ON;
    }
    let before = draft.record.replacement.as_ref();
    let before = before.filter(|before| before.member == *member && before.loss == loss);
    let since = before.map_or(draft.now, |before| before.since);
    let replacement = Replacement { member: member.clone(), loss, since, in_place: false };
    draft.write_record(Step::P1, |record| record.replacement = Some(replacement));
    if moves {
        return ON;
    }
    let why = if loss == Loss::Ordered { Leaving::Replaced } else { Leaving::Lost };
    draft.enter(Step::P1, member, Stage::Leaving(why));
    shrink::finish(draft)
}

/// Whether the operator replaces this member without an order.
fn is_enabled(draft: &mut Draft<'_>, member: &MemberName, loss: Loss) -> bool {
    let enabled = draft.seen.replacement_policy.enabled;
    if !enabled {
        draft.wait(Waiting::ReplacementDisabled { member: member.clone(), loss });
    }
    enabled
}

/// P7: the member is gone from etcd's list, and the cluster has its size again.
fn conclude(draft: &mut Draft<'_>) {
    let Some(replacement) = draft.record.replacement.clone() else { return };
    let member = &replacement.member;
    let still_in = match draft.view().stage_of(member) {
        Some(Stage::Voter | Stage::Joining | Stage::Bootstrap) => true,
        Some(Stage::Leaving(_)) => draft.listed(member).is_some(),
        None => false,
    };
    let is_small = draft.record.voters().count() < draft.view().size();
    if still_in || draft.record.joining().is_some() || is_small {
        return;
    }
    let message = format!("{member} was replaced: {}", replacement.loss);
    end(draft, member, ReplacementEnd::Succeeded, message);
}

/// A move is not made: the member stays a voter.
fn give_up(draft: &mut Draft<'_>, member: &MemberName, message: String) {
    draft.enter(Step::P1, member, Stage::Voter);
    // Its volume has no data that the others lack.
    if let Some(unused) = draft.record.joining().map(|(name, _)| name.clone()) {
        draft.enter(Step::P7, &unused, Stage::Leaving(Leaving::RolledBack));
    }
    end(draft, member, ReplacementEnd::Withdrawn, message);
}

fn end(draft: &mut Draft<'_>, member: &MemberName, how: ReplacementEnd, message: String) {
    // Status has seconds.
    let (member, at) = (member.clone(), Instant(draft.now.0.div_euclid(1000) * 1000));
    draft.write_record(Step::P7, |record| {
        record.replacement = None;
        // Whatever spoke for it must speak for it during all of another grace period.
        if how == ReplacementEnd::Withdrawn {
            record.suspected.remove(&member);
        }
        record.last_replacement = Some(Replaced { member, end: how, message, at });
    });
}
