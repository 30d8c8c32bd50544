//! The recorded facts about incarnations of the cluster.

use quorate_api::status::{IncarnationStatus, OrderedBy, ReplacingStatus, RestoreOrderRef};
use quorate_model::incarnation::{Incarnation, NextIncarnation, Order};
use quorate_model::quorum_recovery::RecoverFrom;
use quorate_model::{Instant, Ordinal, Uid};

use super::time::micro;
use crate::bootstrap;

pub(super) fn read(status: &IncarnationStatus) -> Option<Incarnation> {
    Some(Incarnation {
        number: status.number,
        first: Ordinal(status.first_ordinal),
        order: read_order(&status.ordered_by)?,
        replaced: status.replaced_cluster_id.parse().ok()?,
        members: status.members.and_then(|members| usize::try_from(members).ok()),
    })
}

pub(super) fn write(incarnation: &Incarnation) -> IncarnationStatus {
    let Incarnation { number, first, order, replaced, members } = incarnation;
    IncarnationStatus {
        number: *number,
        first_ordinal: first.0,
        ordered_by: write_order(order),
        replaced_cluster_id: replaced.to_string(),
        members: members.and_then(|members| u32::try_from(members).ok()),
    }
}

pub(super) fn read_next(status: &ReplacingStatus) -> Option<NextIncarnation> {
    Some(NextIncarnation {
        order: read_order(&status.ordered_by)?,
        replaces: status.cluster_id.parse().ok()?,
        restore: bootstrap::read(&status.restore),
        members: status.members.and_then(|members| usize::try_from(members).ok()),
        stopped: status.stopped,
        since: Instant(status.since.0.as_millisecond()),
    })
}

pub(super) fn write_next(next: &NextIncarnation) -> Option<ReplacingStatus> {
    let NextIncarnation { order, replaces, restore, members, stopped, since } = next;
    Some(ReplacingStatus {
        ordered_by: write_order(order),
        cluster_id: replaces.to_string(),
        restore: bootstrap::write(restore)?,
        members: members.and_then(|members| u32::try_from(members).ok()),
        stopped: *stopped,
        since: micro(*since),
    })
}

fn read_order(by: &OrderedBy) -> Option<Order> {
    match (&by.etcd_restore, &by.recover_quorum_from) {
        (Some(RestoreOrderRef { name, uid }), _) => {
            Some(Order::Restore { name: name.clone(), uid: Uid::new(&**uid) })
        }
        (None, Some(from)) => Some(Order::Recovery { from: RecoverFrom::read(from) }),
        (None, None) => None,
    }
}

/// Who ordered it, as status has it.
pub fn write_order(order: &Order) -> OrderedBy {
    match order {
        Order::Restore { name, uid } => OrderedBy {
            etcd_restore: Some(RestoreOrderRef { name: name.clone(), uid: uid.as_str().to_owned() }),
            ..OrderedBy::default()
        },
        Order::Recovery { from } => {
            OrderedBy { recover_quorum_from: Some(from.to_string()), ..OrderedBy::default() }
        }
    }
}
