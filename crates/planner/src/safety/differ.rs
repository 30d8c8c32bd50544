//! What is not given up while data of members are known to differ.

use quorate_model::MemberName;
use quorate_model::effect::Unsafe;
use quorate_model::quorum::has_quorum;
use quorate_model::record::Loss;

use super::{Judged, forbid_unless};
use crate::View;

/// R15: whether the data of a voter may go for good. Once data were found to differ, and until those of all voters agree, only if a quorum
/// of the voters that are left is seen to hold identical data: the one that goes may be the only one that is right, or the one by which
/// it is decided who is. Not so where its own data are certainly lost or wrong, or a person names it.
pub(crate) fn may_give_data_up(view: View<'_>, member: &MemberName) -> Judged {
    if view.record.differ_since.is_none() || is_named(view, member) || view.is_lost(member) {
        return Ok(());
    }
    let is_other = |name: &MemberName| name != member;
    let others =
        view.listed_voters().filter(|listed| view.member_of(listed).as_ref().is_none_or(is_other)).count();
    let compared = view.seen.comparison(view.now);
    let agree =
        compared.map_or(0, |compared| compared.majority.iter().filter(|agrees| is_other(agrees)).count());
    forbid_unless(has_quorum(agree, others), || Unsafe::DataUndecided(member.clone()))
}

/// Whether a person ordered that another member takes its place. A Pod that was created again has lost its annotation.
fn is_named(view: View<'_>, member: &MemberName) -> bool {
    let order = view.record.replacement.as_ref().filter(|order| order.loss == Loss::Ordered);
    view.seen.is_ordered_to_be_replaced(member) || order.is_some_and(|order| order.member == *member)
}
