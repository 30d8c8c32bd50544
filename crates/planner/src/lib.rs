//! Decides what to do next for one cluster. [`plan`] is a pure function of a snapshot and of the time. It reads like the
//! list of protocols, each in a file of its own. Every effect they propose passes [`safety`], the one place that
//! refuses one.
//!
//! - `view` and `facts`: what several protocols ask about members; `draft`: the plan while it is made, and acts that several share
//!
//! This crate never does I/O, reads a clock, draws a random number, or knows Kubernetes.

mod adopt;
mod auth;
mod backup;
mod bootstrap;
mod budget;
mod certificates;
mod claims;
mod commit;
mod connection;
mod deletion;
mod delivery;
mod downgrade;
mod draft;
mod facts;
pub mod fleet;
mod grow;
mod halt;
mod hibernate;
mod in_place;
mod incarnation;
mod issuance;
mod leadership;
mod maintain;
mod membership;
mod network_policy;
mod recover;
mod replace;
mod restart;
mod restore;
mod rollout;
mod rotate;
pub mod safety;
mod scale;
mod shrink;
mod stop;
pub mod upgrade;
mod upkeep;
mod view;
mod waves;

use std::ops::ControlFlow;

use quorate_model::{Instant, Plan, Protocol, Snapshot};

use draft::{Draft, Flow};
pub use view::View;

/// What to do next, given what was observed and what time it is.
///
/// The record in the plan is written to status before the first effect. Effects are carried out in order. The first that
/// fails ends the pass, and the next pass observes the result.
pub fn plan(seen: &Snapshot, now: Instant) -> Plan {
    let mut draft = Draft::new(seen, now);
    let ended_by = protocols(&mut draft).break_value();
    issuance::keep(&mut draft, ended_by);
    draft.finish(ended_by)
}

fn protocols(draft: &mut Draft<'_>) -> ControlFlow<Protocol> {
    claims::report(draft);
    halt::on_clock(draft);
    by(Protocol::Delete, deletion::finalize(draft))?;
    by(Protocol::RecordDoubt, halt::on_record_doubt(draft))?;
    by(Protocol::SplitBrain, halt::on_split_brain(draft))?;
    network_policy::keep_up(draft);
    by(Protocol::RecoverQuorum, recover::run(draft))?;
    by(Protocol::Pause, halt::when_paused(draft))?;
    by(Protocol::Adopt, adopt::existing_data(draft))?;
    by(Protocol::ForeignObjects, halt::on_foreign_objects(draft))?;
    delivery::fall_back(draft);
    by(Protocol::NewIncarnation, in_place::run(draft))?;
    by(Protocol::Bootstrap, bootstrap::run(draft))?;
    by(Protocol::Target, commit::target(draft))?;
    waves::note_progress(draft);
    membership::settle(draft);
    replace::suspect(draft);
    by(Protocol::Hibernate, hibernate::stop_or_wake(draft))?;
    upkeep::expand_volumes(draft);
    by(Protocol::NamesAndCertificates, upkeep::names_and_certificates(draft).into())?;
    restart::lost_pods(draft);
    connection::keep_up(draft);
    by(Protocol::NoQuorum, halt::without_quorum(draft))?;
    by(Protocol::Hibernate, hibernate::verify_woken(draft))?;
    rotate::advance(draft);
    auth::advance(draft);
    upkeep::services_and_volumes(draft);
    by(Protocol::Maintain, maintain::finish_defragmentation(draft).into())?;
    maintain::disarm(draft);
    replace::withdraw_order(draft);
    by(Protocol::Shrink, shrink::finish(draft))?;
    by(Protocol::Grow, grow::finish(draft))?;
    by(Protocol::JoinedLabels, upkeep::require_all_voters_joined(draft))?;
    by(Protocol::Downgrade, downgrade::settle(draft))?;
    by(Protocol::Replace, replace::lost_members(draft))?;
    by(Protocol::Maintain, maintain::regain_space(draft))?;
    by(Protocol::Scale, scale::to_size(draft))?;
    by(Protocol::Rollout, rollout::next(draft))?;
    by(Protocol::Maintain, maintain::defragment_by_threshold(draft))
}

/// Names the protocol that ends the pass.
fn by(protocol: Protocol, flow: Flow) -> ControlFlow<Protocol> {
    flow.map_break(|()| protocol)
}
