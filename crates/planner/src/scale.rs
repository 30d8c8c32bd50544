//! Compares the voters etcd has with the target, never with what happens to be running (R4), and goes one step.

use std::cmp::Ordering;

use quorate_model::mutants::{Rule, is_broken};

use crate::draft::{Draft, Flow, ON};
use crate::{grow, replace, shrink};

pub(crate) fn to_size(draft: &mut Draft<'_>) -> Flow {
    let Some(size) = draft.record.target.as_ref().map(|target| target.size) else { return ON };
    let size = if is_broken(Rule::R4) { draft.seen.pods.len() } else { size };
    let voters = draft.record.voters().count();
    let surplus = replace::surplus(draft);
    match voters.cmp(&(size + surplus)) {
        Ordering::Less => grow::begin(draft),
        Ordering::Greater => shrink::begin(draft),
        // The new member is a voter, so the one that it takes the place of goes.
        Ordering::Equal if replace::moved_member(draft).is_some() => shrink::begin(draft),
        Ordering::Equal => ON,
    }
}
