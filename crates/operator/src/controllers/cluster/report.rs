//! Events and metrics of a pass. Status itself is written by the pass, on every path.

use std::collections::{BTreeMap, BTreeSet};

use kube::Resource as _;
use quorate_api::{EtcdCluster, Explanation, Reason};
use quorate_manifests::Invalid;
use quorate_model::snapshot::{AlarmKind, Certificates};
use quorate_model::{Instant, MemberName, Snapshot, Span, Waiting};
use quorate_reconcile::Planned;
use quorate_status::EventText;

use crate::controllers::cluster::Shared;
use crate::controllers::cluster::metrics::{Figures, MemberFigures};
use crate::runtime::events::{Notice, Reported};

/// How long before its end an authority is reported.
const AUTHORITY_ENDS_SOON: Span = Span::seconds(30 * 86_400);

/// The event for an invalid spec.
pub(crate) fn refused(invalid: &Invalid) -> EventText {
    EventText::warning(Explanation::new(Reason::SpecInvalid, invalid.to_string()))
}

/// Sends the events of a pass, beside it.
pub(crate) fn tell(
    shared: &Shared,
    reported: &mut Reported,
    cluster: &EtcdCluster,
    texts: Vec<EventText>,
    now: Instant,
) {
    for text in texts {
        let EventText { warning, what } = text;
        shared
            .runtime
            .events
            .publish(reported, Notice { about: cluster.object_ref(&()), warning, what, at: now });
    }
}

/// Sets the figures of a cluster.
pub(crate) fn show(shared: &Shared, planned: &Planned) {
    let Planned { snapshot: seen, plan, at: now, .. } = planned;
    let now = *now;
    let healthy = seen.record.members.keys().filter(|member| seen.is_healthy(member, now)).count();
    let listed = seen.list(now).map_or(&[] as &[_], |list| &list.members);
    let mut alarms: BTreeSet<_> = seen.alarms(now).into_iter().map(|alarm| alarm.kind).collect();
    if seen.has_unnamed_alarm(now) {
        alarms.insert(AlarmKind::Corrupt);
    }
    let figures = Figures {
        members: listed.len(),
        desired: seen.desired.size,
        ready: seen.pods.values().filter(|pod| pod.ready).count(),
        healthy,
        healthy_voters: seen.record.voters().filter(|voter| seen.is_healthy(voter, now)).count(),
        learners: listed.iter().filter(|member| member.is_learner).count(),
        leader: seen.leader(now),
        available: seen.serves_clients(now),
        paused: planned.cluster.0.as_ref().is_ok_and(|cluster| cluster.spec.paused),
        alarms,
        certificate_expiry: seen
            .certificates
            .as_ref()
            .and_then(Certificates::first_end)
            .map(|at| at.0 / 1000),
        certificate_overdue: seen.certificates.as_ref().map(|certificates| is_overdue(certificates, now)),
        // Also once that is past, until the stage ends.
        clients_cut_off: plan
            .record
            .rotation
            .as_ref()
            .and_then(|rotation| seen.clients_have_until(rotation))
            .map(|at| at.0 / 1000),
        // At size zero none can be taken.
        backup_healthy: planned
            .backups
            .as_ref()
            .filter(|_| !plan.record.hibernating)
            .and_then(|backups| backups.healthy),
        of_members: members(seen, now),
    };
    shared.metrics.cluster(&seen.cluster, figures);
    shared.metrics.looked_at(&seen.cluster, &planned.status, now);
    for waiting in &plan.waiting {
        if let Waiting::Unsafe(why) = waiting {
            shared.metrics.refusal(why.name());
        }
    }
}

/// Whether a leaf was not renewed when it should have been, or an authority, which nobody renews, ends soon.
fn is_overdue(certificates: &Certificates, now: Instant) -> bool {
    let mut leaves = certificates.leaves.values().filter_map(|leaf| leaf.content.as_ref().ok());
    let mut authorities = certificates.authorities.values().filter_map(|secret| secret.content.as_ref().ok());
    leaves.any(|leaf| now >= leaf.validity.overdue())
        || authorities.any(|authority| {
            now >= authority.validity.overdue() && now + AUTHORITY_ENDS_SOON >= authority.validity.not_after
        })
}

/// The figures of the members that are recorded.
fn members(seen: &Snapshot, now: Instant) -> BTreeMap<String, MemberFigures> {
    let of =
        |member: &MemberName| seen.status_of(member, now).map(|status| (status.committed, status.applied));
    let committed = seen.record.members.keys().filter_map(|member| Some(of(member)?.0)).max();
    let figures = |member: &MemberName| {
        let database = seen.database_of(member, now);
        MemberFigures {
            healthy: seen.is_healthy(member, now),
            voter: seen.record.voters().any(|voter| voter == member),
            db: database.map(|database| database.size),
            db_in_use: database.map(|database| database.in_use),
            quota: database.and_then(|database| database.quota),
            lag: of(member).zip(committed).map(|((_, applied), committed)| committed.saturating_sub(applied)),
        }
    };
    seen.record.members.keys().map(|member| (member.to_string(), figures(member))).collect()
}
