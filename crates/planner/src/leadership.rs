//! Moves leadership away from a member that is to be removed or restarted (S2, U4).
//!
//! While a transfer is under way, etcd drops proposals, so a transfer that does not come about stops writes for up to an election
//! timeout. Healthy is not enough to take over: a member whose disk is slow stores everything, but its vote comes too late. So
//! each member is tried once, the one furthest ahead first. After that the attempts follow with growing delay, and are reported.

use std::cmp::Reverse;

use quorate_model::snapshot::{StatusReply, TransferAttempt};
use quorate_model::{Backoff, EtcdCall, MemberId, MemberName, Span, Step, Waiting};

use crate::draft::{Draft, Progress};

/// The delays after every member was tried once. etcd's election timeout is 1 s by default and a few seconds where members are far
/// apart, so attempts at this distance stop writes for a small part of the time. A disk that works again, or a network that recovered, is
/// found within the longest one.
const DELAYS: Backoff = Backoff { first: Span::seconds(30), longest: Span::seconds(600) };

/// Moves leadership away from a member. Done when it does not lead, or when no other voter is healthy: then etcd elects after the
/// removal or the restart.
pub(crate) fn move_away(draft: &mut Draft<'_>, step: Step, member: &MemberName) -> Progress {
    if !draft.view().is_leader(member) {
        return Progress::Done;
    }
    let Some(leader) = draft.seen.leader(draft.now) else { return Progress::Done };
    let able = targets(draft, member);
    let attempts = draft.seen.etcd.transfers.iter().copied().filter(|attempt| attempt.from == leader);
    let attempts: Vec<TransferAttempt> = attempts.collect();
    let times = |to: MemberId| attempts.iter().filter(|attempt| attempt.to == to).count();
    // Each is tried as often as the others; among those, the one furthest ahead first.
    let next = able.iter().min_by_key(|(_, status)| {
        (times(status.member_id), Reverse(status.applied), Reverse(status.committed))
    });
    let Some((to, status)) = next else { return Progress::Done };
    let all_tried = times(status.member_id) > 0;
    if all_tried {
        let tried = able.iter().map(|(name, status)| (name.clone(), times(status.member_id))).collect();
        draft.wait(Waiting::LeaderTransferFailed { leader: member.clone(), tried });
    }
    if !all_tried || is_delay_over(draft, &attempts, able.len()) {
        draft.call(step, member, EtcdCall::MoveLeadership { to: to.clone(), to_id: status.member_id });
    }
    Progress::Pending
}

/// The voters that may take over: healthy ones, which have applied what was committed (R15).
fn targets<'a>(draft: &Draft<'a>, leader: &MemberName) -> Vec<(MemberName, &'a StatusReply)> {
    let others = draft.record.voters().filter(|voter| *voter != leader);
    others
        .filter(|voter| draft.view().is_listed_voter(voter) && draft.view().is_sound(voter))
        .filter_map(|voter| Some((voter.clone(), draft.status_of(voter)?)))
        .collect()
}

/// Whether the delay since the last attempt is over. It doubles with every attempt after each member was tried once. An attempt in
/// the future does not count: the clock was set back, and waiting for it could take any time.
fn is_delay_over(draft: &Draft<'_>, attempts: &[TransferAttempt], able: usize) -> bool {
    let Some(last) = attempts.last().filter(|last| last.at <= draft.now) else { return true };
    let rounds = u32::try_from((attempts.len() + 1).saturating_sub(able)).unwrap_or(u32::MAX);
    draft.now - last.at >= DELAYS.after(rounds)
}
