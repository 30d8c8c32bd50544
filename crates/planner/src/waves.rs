//! Changes of the operator's own defaults, such as a new image of the agent, reach a fleet of clusters in waves. Which cluster's turn it is
//! is observed; what follows is decided here. A change of the cluster's own spec waits for no other cluster, and takes the defaults with it.

use quorate_model::snapshot::DefaultsTurn;
use quorate_model::{Step, Target, Waiting};

use crate::draft::Draft;
use crate::facts;

/// Whether nothing but the operator's own part of the Pods differs.
pub(crate) fn is_by_operator(desired: &Target, committed: &Target) -> bool {
    desired.differs_by_operator_only(committed)
}

/// Whether the operator's new defaults may be committed now; if they have to wait for other clusters, status reports it.
pub(crate) fn may_take_defaults(draft: &mut Draft<'_>) -> bool {
    // Nothing is disrupted where no Pod runs.
    let stopped = draft.record.hibernating || draft.record.voters().next().is_none();
    match draft.seen.defaults.clone() {
        DefaultsTurn::Now => true,
        DefaultsTurn::OnNextChange | DefaultsTurn::After(_) if stopped => true,
        DefaultsTurn::OnNextChange => false,
        DefaultsTurn::After(why) => {
            draft.wait(Waiting::Wave(why));
            false
        }
    }
}

/// The turn ends when every voter has the defaults, is healthy and ready.
pub(crate) fn end_turn(draft: &mut Draft<'_>) {
    if !draft.record.takes_defaults {
        return;
    }
    let is_done = |voter| {
        draft.pod(voter).is_some_and(|pod| pod.ready)
            && !facts::is_stale(draft, voter)
            && draft.seen.is_healthy(voter, draft.now)
    };
    if draft.record.voters().all(is_done) {
        draft.write_record(Step::K1, |record| record.takes_defaults = false);
    }
}
