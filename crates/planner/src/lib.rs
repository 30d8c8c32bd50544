//! Decides what to do next for one cluster. [`plan`] is a pure function of what was seen and of the time it is told:
//! it reads like the list of protocols, each in a file of its own, and every effect they propose passes
//! [`safety`], the one place where the rules R1 to R12 are enforced.
//!
//! This crate never does I/O, reads a clock, draws a random number, or knows Kubernetes.

mod adopt;
mod bootstrap;
mod commit;
mod deletion;
mod draft;
mod grow;
mod halt;
mod hibernate;
mod membership;
mod replace;
mod restart;
mod rollout;
pub mod safety;
mod scale;
mod shrink;
pub mod upgrade;
mod upkeep;

use quorate_model::{Instant, Plan, Snapshot};

use draft::{Draft, Flow};

/// What to do next, given what was seen and what time it is.
///
/// The record in the plan is written to status before the first effect; effects are carried out in order; the first
/// that fails ends the pass, and the next pass sees what came of it.
pub fn plan(seen: &Snapshot, now: Instant) -> Plan {
    let mut draft = Draft::new(seen, now);
    // Breaking off early is how a protocol says that nothing after it may run in this pass.
    let _ = protocols(&mut draft);
    draft.finish()
}

fn protocols(draft: &mut Draft<'_>) -> Flow {
    halt::on_newer_status(draft)?;
    deletion::finalize(draft)?;
    halt::on_split_brain(draft)?;
    halt::when_paused(draft)?;
    adopt::existing_data(draft)?;
    halt::on_foreign_objects(draft)?;
    bootstrap::run(draft)?;
    commit::target(draft);
    membership::settle(draft);
    hibernate::stop_or_wake(draft)?;
    upkeep::names_and_certificates(draft)?;
    restart::lost_pods(draft);
    halt::without_quorum(draft)?;
    upkeep::services_and_volumes(draft);
    shrink::finish(draft)?;
    grow::finish(draft)?;
    upkeep::require_all_voters_joined(draft)?;
    replace::lost_members(draft)?;
    scale::to_size(draft)?;
    rollout::next(draft)
}
