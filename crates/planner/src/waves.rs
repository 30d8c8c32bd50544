//! Changes of the operator's own defaults, such as a new image of the agent, reach a fleet of clusters in waves. Which cluster's turn it is
//! is observed; what follows is decided here. A change of the cluster's own spec waits for no other cluster, and takes the defaults with it.

use quorate_model::effect::Wave;
use quorate_model::mutants::{Rule, is_broken};
use quorate_model::record::Turn;
use quorate_model::snapshot::DefaultsTurn;
use quorate_model::{MemberName, Step, Target, Waiting};

use crate::draft::Draft;
use crate::fleet;

/// Whether nothing but the operator's own part of the Pods differs.
pub(crate) fn is_by_operator(desired: &Target, committed: &Target) -> bool {
    desired.differs_by_operator_only(committed)
}

/// Whether the operator's new defaults may be committed now; if they have to wait for other clusters, status reports it.
pub(crate) fn may_take_defaults(draft: &mut Draft<'_>) -> bool {
    if !disrupts(draft) {
        return true;
    }
    let turn = match draft.seen.defaults.clone() {
        // What may cure one that has begun reaches it.
        DefaultsTurn::Now if draft.record.takes_defaults.is_some() => DefaultsTurn::Now,
        // Whose turn it is was decided by its last status.
        DefaultsTurn::Now => unwell(draft).map_or(DefaultsTurn::Now, DefaultsTurn::After),
        turn @ (DefaultsTurn::OnNextChange | DefaultsTurn::After(_)) => turn,
    };
    match turn {
        DefaultsTurn::Now => true,
        DefaultsTurn::OnNextChange => false,
        DefaultsTurn::After(why) => {
            draft.wait(Waiting::Wave(why));
            false
        }
    }
}

/// Whether a new shape of the Pods restarts any: it does not where none runs. Such a cluster takes no turn, and keeps nobody waiting.
pub(crate) fn disrupts(draft: &Draft<'_>) -> bool {
    !draft.record.hibernating && draft.record.voters().next().is_some()
}

/// Why the members could not be restarted one after another now.
fn unwell(draft: &Draft<'_>) -> Option<Wave> {
    if is_broken(Rule::TurnsWell) {
        return None;
    }
    let why =
        |voter: &MemberName| Some(Wave::Sick(voter.clone(), draft.seen.why_unhealthy(voter, draft.now)?));
    draft.record.voters().find_map(why)
}

/// Records how far the turn is: from the outside nobody sees whether a cluster that is degraded was restarted with the new defaults.
pub(crate) fn note_progress(draft: &mut Draft<'_>) {
    let Some(turn) = draft.record.takes_defaults else { return };
    let has_them = |voter: &&MemberName| draft.pod(voter).is_some() && !draft.view().is_stale(voter);
    let restarted = u32::try_from(draft.record.voters().filter(has_them).count()).unwrap_or(u32::MAX);
    if restarted > turn.restarted {
        let since = draft.latest();
        draft.write_record(Step::K1, |record| record.takes_defaults = Some(Turn { since, restarted }));
    }
}

/// A turn without a restart for long keeps its place no more. What holds it up is told elsewhere.
pub(crate) fn tell_parked(draft: &mut Draft<'_>) {
    if draft.record.takes_defaults.is_some_and(|turn| fleet::is_parked(turn, draft.view().earliest())) {
        draft.wait(Waiting::Wave(Wave::Parked(fleet::PARKED_AFTER)));
    }
}

/// The turn ends when every voter has the defaults, is healthy and ready.
pub(crate) fn end_turn(draft: &mut Draft<'_>) {
    if draft.record.takes_defaults.is_none() {
        return;
    }
    let is_done = |voter| {
        let is_ready = draft.pod(voter).is_some_and(|pod| pod.ready);
        is_ready && !draft.view().is_stale(voter) && draft.view().is_healthy(voter)
    };
    if draft.record.voters().all(is_done) {
        draft.write_record(Step::K1, |record| record.takes_defaults = None);
    }
}
