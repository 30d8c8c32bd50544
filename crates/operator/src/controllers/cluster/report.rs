//! What people and Prometheus are told of a pass. Status is made first and written on every path; an event tells what has
//! changed, once.

use kube::Resource as _;
use quorate_api::status::EtcdClusterStatus;
use quorate_api::{ConditionType, EtcdCluster, Reason};
use quorate_manifests::{EventText, Invalid};
use quorate_model::{Instant, Plan, Snapshot, Waiting};

use crate::controllers::cluster::Shared;
use crate::controllers::cluster::metrics::Figures;

use crate::runtime::events::{Notice, Reported};

/// What could not be done, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// One word.
    pub(crate) reason: &'static str,
    /// What was attempted and why it did not work.
    pub(crate) message: String,
}

impl Trouble {
    /// The event that tells of it.
    pub(crate) fn event(&self) -> EventText {
        EventText { warning: true, reason: self.reason.to_owned(), message: self.message.clone() }
    }
}

/// The event for a spec that can not be honoured.
pub(crate) fn refused(invalid: &Invalid) -> EventText {
    EventText { warning: true, reason: Reason::SpecInvalid.as_str().to_owned(), message: invalid.to_string() }
}

/// The status, with what the pass before could not do.
pub(crate) fn with_trouble(mut status: EtcdClusterStatus, trouble: Option<&Trouble>) -> EtcdClusterStatus {
    let progressing = ConditionType::Progressing.as_str();
    let condition = status.conditions.iter_mut().find(|condition| condition.type_ == progressing);
    if let (Some(condition), Some(trouble)) = (condition, trouble) {
        condition.message.clone_from(&trouble.message);
    }
    status
}

/// Puts the events of a pass.
pub(crate) fn tell(
    shared: &Shared,
    said: &mut Reported,
    cluster: &EtcdCluster,
    texts: Vec<EventText>,
    now: Instant,
) {
    for text in texts {
        let EventText { warning, reason, message } = text;
        shared
            .runtime
            .events
            .tell(said, Notice { about: cluster.object_ref(&()), warning, reason, message, at: now });
    }
}

/// Shows the figures of a cluster.
pub(crate) fn show(shared: &Shared, seen: &Snapshot, plan: &Plan, now: Instant) {
    let healthy = seen.record.members.keys().filter(|member| seen.is_healthy(member, now)).count();
    let list = seen.list(now);
    let figures = Figures {
        members: list.map_or(0, |list| list.members.len()),
        desired: seen.desired.size,
        ready: seen.pods.values().filter(|pod| pod.ready).count(),
        healthy,
        leader: seen.leader(now).is_some(),
        available: list.is_some(),
    };
    shared.metrics.cluster(&seen.cluster, figures);
    for waiting in &plan.waiting {
        if let Waiting::Unsafe(why) = waiting {
            shared.metrics.refusal(why.name());
        }
    }
}
