//! Replace a member whose data are certainly lost (`facts::is_lost`): P1 records it as leaving, then the steps of shrink
//! remove it and growth adds another. Remove first, then add (R6).

use quorate_model::record::{Leaving, Stage};
use quorate_model::{Step, Waiting};

use crate::draft::{Draft, Flow, ON};
use crate::{facts, safety, shrink};

pub(crate) fn lost_members(draft: &mut Draft<'_>) -> Flow {
    let Some(lost) = facts::lost_voter(draft) else { return ON };
    match safety::may_remove(draft.seen, &draft.record, draft.now, &lost) {
        Ok(()) => {
            draft.enter(Step::P1, &lost, Stage::Leaving(Leaving::Lost));
            shrink::finish(draft)
        }
        Err(why) => {
            draft.wait(Waiting::Unsafe(why));
            ON
        }
    }
}
