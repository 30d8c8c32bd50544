//! The PodDisruptionBudget: which evictions drains may make, while the operator disrupts members itself (R16).

use std::collections::BTreeSet;

use quorate_model::effect::Unsafe;
use quorate_model::quorum::quorum;
use quorate_model::record::{Leaving, Stage};
use quorate_model::snapshot::{Budget, BudgetPolicy};
use quorate_model::{AppliedObject, DeletedObject, ManagedObject, MemberName, Step, Waiting};

use crate::draft::{Draft, Progress};
use crate::view::voters_of;
use crate::{claims, safety};

/// Creates the budget, corrects it, or deletes it where the spec wants none.
pub(crate) fn apply(draft: &mut Draft<'_>) {
    match (min_available(draft), &draft.seen.budget) {
        (Some(min_available), seen) => {
            let excludes = excluded(draft);
            let differs =
                |budget: &Budget| budget.min_available != Some(min_available) || budget.excludes != excludes;
            if seen.as_ref().is_none_or(differs) {
                draft.apply(Step::K1, AppliedObject::Budget { min_available, excludes });
            }
        }
        (None, Some(budget)) => draft.delete(Step::K1, DeletedObject::Budget, &budget.observed),
        (None, None) => {}
    }
}

/// R16, R21: while a Pod keeps data the budget admits no eviction. For its own one the operator takes the Pod out of its budget: so other
/// budgets are asked, and no drain takes another Pod meanwhile. Done once the eviction may follow.
pub(crate) fn let_go(draft: &mut Draft<'_>, member: &MemberName) -> Progress {
    let is_foreign = draft.seen.foreign.contains_key(&ManagedObject::DisruptionBudget);
    let Some(min_available) = min_available(draft).filter(|_| !is_foreign && any_keeps_data(draft)) else {
        return Progress::Done;
    };
    let seen = draft.seen.budget.as_ref();
    let excluded = seen.and_then(|budget| budget.excludes.clone());
    if excluded.as_ref() == Some(member) {
        return Progress::Done;
    }
    // The one before is selected again first, or a drain could take it beside this one.
    let excludes = excluded.is_none().then(|| member.clone());
    let is_closed = safety::budget_is_closed(draft.view(), member).is_ok();
    let is_due = !draft.changes(&ManagedObject::DisruptionBudget) && (is_closed || excludes.is_none());
    let goes = is_due && excludes.is_some();
    if is_due {
        draft.apply(Step::K1, AppliedObject::Budget { min_available, excludes });
    }
    if goes {
        return Progress::Done;
    }
    draft.wait(Waiting::Unsafe(Unsafe::BudgetOpen(member.clone())));
    Progress::Pending
}

/// The Pod that the budget goes on not selecting: the one that the operator restarts, until it is back.
fn excluded(draft: &Draft<'_>) -> Option<MemberName> {
    let excluded = draft.seen.budget.as_ref()?.excludes.clone()?;
    let is_back = draft.pod(&excluded).is_some_and(|pod| pod.ready && !pod.terminating);
    let restarts = draft.view().is_stale(&excluded) && is_rolling(draft);
    let stays = any_keeps_data(draft) && draft.record.voters().any(|voter| *voter == excluded);
    (stays && (restarts || !is_back)).then_some(excluded)
}

/// R21: whether a drain would end data with a Pod.
fn any_keeps_data(draft: &Draft<'_>) -> bool {
    claims::keeping_data(draft).next().is_some()
}

/// Corrects the budget where the record may lack something: only where etcd's list has the voters that are recorded and no other.
pub(crate) fn keep_up(draft: &mut Draft<'_>) {
    let Some(list) = draft.seen.list(draft.now) else { return };
    let listed = voters_of(list).map(|listed| draft.view().member_of(listed));
    let listed: BTreeSet<Option<MemberName>> = listed.collect();
    let recorded = safety::voters_by_record(&draft.record).cloned().map(Some).collect();
    let wants_budget = draft.seen.budget_policy != BudgetPolicy::None;
    if listed == recorded && wants_budget {
        apply(draft);
    }
}

/// How many Pods an eviction must leave ready. It is a number because Pods without a controller have no scale: a percentage would
/// allow no eviction at all.
fn min_available(draft: &Draft<'_>) -> Option<usize> {
    let voters = voters_soon(draft);
    let all_but_one = voters.saturating_sub(1);
    let open = match draft.seen.budget_policy {
        BudgetPolicy::OneAtATime => all_but_one,
        // A quorum of one or two is all of them: for its own eviction the operator admits one.
        BudgetPolicy::Quorum if voters <= 2 && is_rolling(draft) => all_but_one,
        BudgetPolicy::Quorum => quorum(voters),
        BudgetPolicy::None => return None,
    };
    Some(if must_be_closed(draft) { voters.max(draft.seen.pods.len()) } else { open })
}

/// The voters, with the learner that may be promoted before the budget is raised. Three or more may lose one also while the next
/// learner cannot be added; fewer may lose none before the committed size is reached, unless a rollout comes before the growth.
fn voters_soon(draft: &Draft<'_>) -> usize {
    let voters = safety::voters_by_record(&draft.record).count();
    let learners = usize::from(draft.record.joining().is_some());
    let is_mixed = || matches!(safety::members_may_join(draft.view()), Err(Unsafe::VersionsMixed(_)));
    let rolls_first = learners == 0 && is_mixed();
    if voters < 3 && !rolls_first { voters.max(draft.view().size()) } else { voters + learners }
}

/// Whether no Pod may be evicted now, although enough of them are ready: a ready one does not store what is written, or leaves.
fn must_be_closed(draft: &Draft<'_>) -> bool {
    let has_leader = draft.seen.leader(draft.now).is_some();
    let is_ready = |member: &MemberName| draft.pod(member).is_some_and(|pod| pod.ready && !pod.terminating);
    let mut voters = draft.record.voters();
    let any_pretends = voters.any(|voter| is_ready(voter) && !draft.view().is_sound(voter));
    let any_leaves = draft.record.members.iter().any(|(name, member)| match member.stage {
        Stage::Leaving(Leaving::Shrink | Leaving::Lost | Leaving::Removed | Leaving::Replaced) => {
            draft.view().is_listed_voter(name) || is_ready(name)
        }
        // Its promotion may have been carried out unobserved.
        Stage::Leaving(Leaving::RolledBack | Leaving::Stray) => draft.view().is_listed_voter(name),
        Stage::Bootstrap | Stage::Joining | Stage::Voter => false,
    });
    // In an election nobody follows a leader for a moment.
    any_keeps_data(draft) || (has_leader && any_pretends) || any_leaves
}

/// Whether a Pod is to be restarted, and all voters are healthy.
fn is_rolling(draft: &Draft<'_>) -> bool {
    let view = draft.view();
    let any_stale = view.record.voters().any(|voter| view.is_stale(voter));
    any_stale && view.record.voters().all(|voter| view.is_sound(voter))
}
