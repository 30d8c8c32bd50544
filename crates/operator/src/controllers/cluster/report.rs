//! Events and metrics of a pass. Status itself is written by the pass, on every path.

use kube::Resource as _;
use quorate_api::{EtcdCluster, Explanation, Reason};
use quorate_manifests::{EventText, Invalid};
use quorate_model::snapshot::Certificates;
use quorate_model::{Instant, Waiting};
use quorate_reconcile::Planned;

use crate::controllers::cluster::Shared;
use crate::controllers::cluster::metrics::Figures;
use crate::runtime::events::{Notice, Reported};

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
    let list = seen.list(now);
    let figures = Figures {
        members: list.map_or(0, |list| list.members.len()),
        desired: seen.desired.size,
        ready: seen.pods.values().filter(|pod| pod.ready).count(),
        healthy,
        leader: seen.leader(now).is_some(),
        available: seen.serves_clients(now),
        certificate_expiry: seen
            .certificates
            .as_ref()
            .and_then(Certificates::first_end)
            .map(|at| at.0 / 1000),
        // At size zero none can be taken.
        backup_healthy: planned
            .backups
            .as_ref()
            .filter(|_| !plan.record.hibernating)
            .and_then(|backups| backups.healthy),
    };
    shared.metrics.cluster(&seen.cluster, figures);
    for waiting in &plan.waiting {
        if let Waiting::Unsafe(why) = waiting {
            shared.metrics.refusal(why.name());
        }
    }
}
