//! What is not given up while data of members are known to differ.

use quorate_model::effect::Unsafe;
use quorate_model::quorum::has_quorum;
use quorate_model::record::Loss;
use quorate_model::{Instant, MemberName, Record, Snapshot};

use super::{Judged, forbid};

/// R15: whether the data of a voter may go for good. Once data were found to differ, and until those of all voters agree, only if a quorum
/// of the voters that are left is seen to hold identical data: the one that goes may be the only one that is right, or the one by which
/// it is decided who is. Not so where its own data are certainly lost or wrong, or a person names it.
pub(crate) fn may_give_data_up(
    seen: &Snapshot,
    record: &Record,
    now: Instant,
    member: &MemberName,
) -> Judged {
    if record.differ_since.is_none() || is_named(seen, record, member) || seen.is_lost(record, member, now) {
        return Ok(());
    }
    let voters =
        seen.list(now).into_iter().flat_map(|list| &list.members).filter(|listed| !listed.is_learner);
    let others = voters.filter(|listed| seen.member_of(record, listed).as_ref() != Some(member)).count();
    let agree = seen
        .comparison(now)
        .map_or(0, |compared| compared.majority.iter().filter(|agrees| *agrees != member).count());
    if has_quorum(agree, others) { Ok(()) } else { forbid(Unsafe::DataUndecided(member.clone())) }
}

/// Whether a person ordered that another member takes its place. A Pod that was created again has lost its annotation.
fn is_named(seen: &Snapshot, record: &Record, member: &MemberName) -> bool {
    let order = record.replacement.as_ref().filter(|order| order.loss == Loss::Ordered);
    seen.is_ordered_to_be_replaced(member) || order.is_some_and(|order| order.member == *member)
}
