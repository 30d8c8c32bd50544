//! A member whose data lived in memory is lost with its Pod. It is removed, and growth brings another in its place
//! (P1, then the steps of shrink and grow): remove first, then add.

use quorate_model::record::{Leaving, Stage};
use quorate_model::target::Medium;
use quorate_model::{MemberName, Step, Waiting};

use crate::draft::{Draft, Flow, ON};
use crate::{safety, shrink};

pub(crate) fn lost_members(draft: &mut Draft<'_>) -> Flow {
    let in_memory =
        draft.record.target.as_ref().is_some_and(|target| target.storage.medium == Medium::Memory);
    let lost: Option<MemberName> = draft.record.voters().find(|voter| draft.pod(voter).is_none()).cloned();
    let Some(lost) = lost.filter(|_| in_memory) else { return ON };
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
