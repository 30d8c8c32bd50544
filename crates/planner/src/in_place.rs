//! Restore in place: the present incarnation of the cluster makes way for another one, which begins with a snapshot. J1 record the order; J2
//! stop every member, and wait until each is seen stopped; J3 record that, and quarantine their volumes; J4 record the new incarnation; then
//! the bootstrap B1 to B8 with the snapshot. JX the order is withdrawn before J3: the members start again.
//!
//! An old majority that runs somewhere, unseen, would acknowledge writes beside the new members. So nothing new begins before every Pod of
//! the old ones is gone, and no Pod is ever deleted by force.

use quorate_model::effect::{NotBegun, OrderWait};
use quorate_model::incarnation::{Admission, Admitted, NextIncarnation, Order, RestoreOrder};
use quorate_model::record::QuarantineCause;
use quorate_model::restore::{Restore, RestoreFailure};
use quorate_model::{MemberName, Revision, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON, Progress, for_all};
use crate::{claims, halt, incarnation, restore, safety, stop, upgrade};

pub(crate) fn run(draft: &mut Draft<'_>) -> Flow {
    let flow = follow(draft);
    if flow.is_break() {
        halt::keep_certificates(draft);
    }
    flow
}

fn follow(draft: &mut Draft<'_>) -> Flow {
    delete_superseded_pods(draft);
    if draft.record.next_incarnation.is_none() && !begin(draft) {
        return ON;
    }
    let Some(next) = draft.record.next_incarnation.clone() else { return ON };
    if is_withdrawn(draft, &next) {
        // The members start again on their own volumes (W1).
        draft.write_record(Step::JX, |record| record.next_incarnation = None);
        return ON;
    }
    draft.wait(Waiting::Order(next.order.clone(), OrderWait::Replacing));
    if stop::every_pod(draft, Step::J2).is_done() && quarantine_volumes(draft).is_done() {
        incarnation::begin(draft);
    }
    DONE
}

/// A late call may create a Pod of an earlier incarnation again. Its names are never used again, so nothing needs it.
fn delete_superseded_pods(draft: &mut Draft<'_>) {
    let pods = draft.seen.pods.keys().filter(|member| draft.seen.is_superseded(member));
    let _ = stop::all(draft, Step::J2, &pods.cloned().collect::<Vec<_>>());
}

/// J1. Whatever refuses the snapshot refuses it here, while the present members still serve. Returns whether the order is recorded.
///
/// A change that is under way ends with the incarnation: a member that joins or leaves is stopped and its volume kept like the others'. So
/// the order also helps a cluster that is stuck in a change.
fn begin(draft: &mut Draft<'_>) -> bool {
    let orders = draft.seen.orders.iter();
    let named = orders.filter(|order| draft.record.cluster_id == Some(order.replaces));
    let now = draft.seen.api_servers_time(draft.now);
    let in_time = named.filter(|order| now < order.until).cloned();
    // One that is not ready does not hold up a newer one that is.
    in_time.collect::<Vec<_>>().into_iter().any(|order| begin_one(draft, order))
}

fn begin_one(draft: &mut Draft<'_>, ordered: RestoreOrder) -> bool {
    let RestoreOrder { order, replaces, restore, until: _, read_until, admission, backed_up_until } = ordered;
    if claims::come_first(draft) {
        let on_order = !draft.seen.replacement_policy.enabled;
        let command = |member| draft.seen.order_to_replace(member);
        let orders = on_order.then(|| claims::keeping_data(draft).map(command).collect());
        draft.wait(Waiting::Order(order, OrderWait::NotBegun(NotBegun::ClaimsFirst(orders))));
        return false;
    }
    let restore = match fit(draft, restore) {
        Ok(restore) => restore.raised_by_time(draft.latest()).raised_above(known_revision(draft)),
        Err(why) => {
            draft.wait(Waiting::Order(order, OrderWait::NotBegun(why)));
            return false;
        }
    };
    let since = draft.now;
    let next =
        NextIncarnation { order: order.clone(), replaces, restore, members: None, stopped: false, since };
    if let Err(why) = admitted(draft, admission, &next) {
        draft.wait(Waiting::Order(order, OrderWait::NotBegun(why)));
    } else if draft.seen.api_servers_time(draft.now) >= backed_up_until {
        // Nothing is taken for an order that is refused.
        draft.wait(Waiting::Order(order, OrderWait::BackupFirst));
    } else if draft.seen.api_servers_time(draft.now) >= read_until {
        // Only this begins another reading, so it comes after everything else that holds the order up.
        draft.wait(Waiting::Order(order, OrderWait::ReadAgain));
    } else {
        draft.write_record(Step::J1, |record| record.next_incarnation = Some(next));
        return true;
    }
    false
}

/// Whether the claim and the Pod of a new member would be admitted. The API server is asked in the pass in which it matters: later the old
/// members are stopped, and what refuses the new ones is an outage.
fn admitted(
    draft: &mut Draft<'_>,
    admission: Option<Admission>,
    next: &NextIncarnation,
) -> Result<(), NotBegun> {
    match admission.and_then(|admission| admission.counts(draft.now).cloned()) {
        Some(Admitted::Yes) => Ok(()),
        Some(Admitted::No(why)) => Err(NotBegun::NotAdmitted(why)),
        Some(Admitted::Unknown(why)) => Err(NotBegun::AdmissionUnknown(why)),
        None => {
            let rehearsal = incarnation::rehearse(draft, next.clone());
            draft.rehearse(rehearsal);
            Err(NotBegun::AdmissionAsked)
        }
    }
}

/// The greatest revision that clients of the present incarnation may know: what members report, or at least what it began with.
fn known_revision(draft: &Draft<'_>) -> Revision {
    let members = draft.record.members.keys();
    let reported = members.filter_map(|member| Some(draft.status_of(member)?.revision));
    let began = draft.record.restore.as_ref().map(Restore::least_revision);
    reported.chain(began).max().unwrap_or(Revision(0))
}

fn fit(draft: &Draft<'_>, restore: Result<Restore, RestoreFailure>) -> Result<Restore, NotBegun> {
    let restore = restore.map_err(NotBegun::Snapshot)?;
    let desired = &draft.seen.desired;
    if desired.size == 0 || draft.record.hibernating {
        return Err(NotBegun::SizeZero);
    }
    if !draft.seen.foreign.is_empty() {
        return Err(NotBegun::NamesTaken(draft.seen.foreign.values().cloned().collect()));
    }
    upgrade::may_be_chosen(desired.version).map_err(NotBegun::Version)?;
    restore::incompatible(&restore, desired).map_or(Ok(restore), |why| Err(NotBegun::Unfit(why)))
}

/// Whether the object that orders it is gone while nothing was given up yet.
fn is_withdrawn(draft: &Draft<'_>, next: &NextIncarnation) -> bool {
    let still_there = draft.seen.orders.iter().any(|seen| seen.order == next.order);
    let is_gone = match next.order {
        Order::Restore { .. } => !still_there,
        Order::Recovery { .. } => draft.seen.recover_from.is_none(),
    };
    is_gone && !next.stopped
}

/// J3. Records that every member is stopped, then quarantines the volumes (R17).
fn quarantine_volumes(draft: &mut Draft<'_>) -> Progress {
    draft.write_record(Step::J3, |record| {
        if let Some(next) = &mut record.next_incarnation {
            next.stopped = true;
        }
    });
    let left: Vec<MemberName> = safety::left_volumes(draft.view()).cloned().collect();
    for_all(&left, |member| draft.quarantine(Step::J3, member, QuarantineCause::Superseded))
}
