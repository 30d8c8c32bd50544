//! Restore in place: the present incarnation of the cluster makes way for another one, which begins with a snapshot. J1 record the order; J2
//! stop every member, and wait until each is seen stopped; J3 record that, and quarantine their volumes; J4 record the new incarnation; then
//! the bootstrap B1 to B8 with the snapshot. JX the order is withdrawn before J3: the members start again.
//!
//! An old majority that runs somewhere, unseen, would acknowledge writes beside the new members. So nothing new begins before every Pod of
//! the old ones is gone, and no Pod is ever deleted by force.

use quorate_model::incarnation::{Admission, Admitted, NextIncarnation, Order, RestoreOrder};
use quorate_model::record::QuarantineCause;
use quorate_model::restore::{Restore, RestoreCause, RestoreFailure};
use quorate_model::snapshot::Volume;
use quorate_model::{MemberName, Revision, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON, Progress, for_all};
use crate::{claims, halt, incarnation, restore, stop, upgrade};

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
    draft.wait(Waiting::RestoringInPlace(next.order.clone()));
    if stop::every_pod(draft, Step::J2).is_done()
        && quarantine_volumes(draft).is_done()
        && let Err(why) = incarnation::begin(draft)
    {
        draft.wait(Waiting::Unsafe(why));
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
        let mut why = "PersistentVolumeClaims of members are being deleted, and their data would go with the Pods. It is begun once \
                       these members have new claims"
            .to_owned();
        if !draft.seen.replacement_policy.enabled {
            let orders: Vec<String> =
                claims::keeping_data(draft).map(|member| draft.seen.order_to_replace(member)).collect();
            why = format!(
                "{why}. They get none by themselves, because spec.recovery.enabled is false: {}",
                orders.join("; ")
            );
        }
        draft.wait(Waiting::OrderWaits(order, RestoreFailure::new(RestoreCause::NotReady, why)));
        return false;
    }
    let restore = match fit(draft, restore) {
        Ok(restore) => restore.raised_by_time(draft.latest()).raised_above(known_revision(draft)),
        Err(why) => {
            draft.wait(Waiting::OrderWaits(order, why));
            return false;
        }
    };
    let since = draft.now;
    let next =
        NextIncarnation { order: order.clone(), replaces, restore, members: None, stopped: false, since };
    if let Err(why) = admitted(draft, admission, &next) {
        draft.wait(Waiting::OrderWaits(order, why));
    } else if draft.seen.api_servers_time(draft.now) >= backed_up_until {
        // Nothing is taken for an order that is refused.
        draft.wait(Waiting::BackupFirst(order));
    } else if draft.seen.api_servers_time(draft.now) >= read_until {
        // Only this begins another reading, so it comes after everything else that holds the order up.
        draft.wait(Waiting::ReadAgain(order));
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
) -> Result<(), RestoreFailure> {
    let fresh = admission.and_then(|admission| admission.counts(draft.now).cloned());
    let (cause, why) = match fresh {
        Some(Admitted::Yes) => return Ok(()),
        Some(Admitted::No(why)) => {
            let text = format!(
                "the API server would not admit a new member: {why}. Mend that, or edit the spec (storageSpec, podTemplate); it is asked \
                 again with each look"
            );
            (RestoreCause::Refused, text)
        }
        Some(Admitted::Unknown(why)) => {
            let text = format!(
                "it is not known whether the API server would admit a new member: {why}. It is asked again with each look"
            );
            (RestoreCause::NotReady, text)
        }
        None => {
            let rehearsal = incarnation::rehearse(draft, next.clone());
            draft.rehearse(rehearsal);
            let text = "the API server is asked whether it would admit a new member";
            (RestoreCause::NotReady, text.to_owned())
        }
    };
    Err(RestoreFailure::new(cause, why))
}

/// The greatest revision that clients of the present incarnation may know: what members report, or at least what it began with.
fn known_revision(draft: &Draft<'_>) -> Revision {
    let members = draft.record.members.keys();
    let reported = members.filter_map(|member| Some(draft.status_of(member)?.revision));
    let began = draft.record.restore.as_ref().map(Restore::least_revision);
    reported.chain(began).max().unwrap_or(Revision(0))
}

fn fit(draft: &Draft<'_>, restore: Result<Restore, RestoreFailure>) -> Result<Restore, RestoreFailure> {
    let refused = |why: String| RestoreFailure::new(RestoreCause::Refused, why);
    let restore = restore?;
    let desired = &draft.seen.desired;
    if desired.size == 0 || draft.record.hibernating {
        return Err(refused(
            "the cluster is at size zero. Set spec.size to a number above 0 first".to_owned(),
        ));
    }
    if !draft.seen.foreign.is_empty() {
        let names: Vec<&str> = draft.seen.foreign.values().map(String::as_str).collect();
        return Err(refused(format!(
            "names that it needs are taken: {}. Delete or rename them",
            names.join(", ")
        )));
    }
    upgrade::may_be_chosen(desired.version).map_err(refused)?;
    match restore::incompatible(&restore, desired) {
        None => Ok(restore),
        Some(why) => Err(refused(why)),
    }
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

/// J3. Records that every member is stopped, then quarantines the volumes (R17): of members, of those that were joining or leaving, and of those that left.
fn quarantine_volumes(draft: &mut Draft<'_>) -> Progress {
    draft.write_record(Step::J3, |record| {
        if let Some(next) = &mut record.next_incarnation {
            next.stopped = true;
        }
    });
    let is_left = |member: &MemberName, volume: &Volume| {
        let recorded = draft.record.members.get(member).and_then(|member| member.volume.as_ref());
        let is_own = volume.cluster_uid.as_ref() == Some(&draft.seen.uid) || recorded == Some(&volume.uid);
        is_own && volume.quarantine.is_none() && !volume.terminating
    };
    let left = draft.seen.volumes.iter().filter(|(member, volume)| is_left(member, volume));
    let left: Vec<MemberName> = left.map(|(member, _)| member.clone()).collect();
    for_all(&left, |member| draft.quarantine(Step::J3, member, QuarantineCause::Superseded))
}
