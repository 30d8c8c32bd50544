//! R23: what the operator does by the time is judged by the time of the world, whatever its clock shows.

use quorate_api::{duration, keys};
use quorate_apistore::fields::uid;
use quorate_manifests::{Act, Kind, Write};
use quorate_model::record::{Leaving, Loss, Stage};
use quorate_model::{EtcdCall, Instant, Span};
use serde_json::Value;

use super::{Oracle, Property};
use crate::world::World;

/// By so much clocks may differ.
const APART: Span = Span::seconds(61);

impl Oracle {
    /// A clock was set. How long ago clients were led away is not told by the operator's any more.
    pub(crate) fn clock_was_set(&mut self) {
        self.endpoint_until.clear();
        self.clock_was_set = true;
    }
}

impl World {
    /// Notes since when members are recorded as suspected.
    pub(super) fn see_suspected(&mut self) {
        let (record, now) = (self.record(), self.now);
        self.oracle.suspected_at.retain(|member, _| record.suspected.contains_key(member));
        for member in record.suspected.keys() {
            self.oracle.suspected_at.entry(member.clone()).or_insert(now);
        }
    }

    /// Checks a write that signs, or that deletes what was kept.
    pub(super) fn judge_time_of_write(&mut self, write: &Write, there: Option<&Value>) {
        match (write.kind, &write.act) {
            (Kind::Volume, Act::Patch(patch)) => {
                let is_quarantined = patch["metadata"]["annotations"][keys::QUARANTINED_SINCE].is_string();
                if let Some(there) = there.filter(|_| is_quarantined) {
                    let now = self.now;
                    self.oracle.quarantined_at.entry(uid(there).to_owned()).or_insert(now);
                }
            }
            (Kind::Volume, Act::Delete { uid, .. }) => {
                let Some(since) = self.oracle.quarantined_at.get(uid).copied() else { return };
                let cluster = self.cluster().filter(|cluster| cluster.metadata.deletion_timestamp.is_none());
                let Some(cluster) = cluster else { return };
                self.judge_age(since, &cluster.spec.recovery.keep_volumes, || write.object());
            }
            (Kind::Secret, Act::Create(object) | Act::Patch(object)) => {
                let validity = self.trust.validity(&object["data"]["tls.crt"]);
                let is_wrong = |(begins, ends): &(Instant, Instant)| {
                    *begins > self.now + APART || *ends < self.now + APART
                };
                if let Some((begins, ends)) = validity.filter(is_wrong) {
                    let how = format!("{} is valid from {} to {}", write.object(), begins.0, ends.0);
                    self.oracle.add_violation(Property::TimeIsTrue, how);
                }
            }
            (
                Kind::Cluster
                | Kind::Pod
                | Kind::Volume
                | Kind::Service
                | Kind::Budget
                | Kind::Secret
                | Kind::NetworkPolicy
                | Kind::Certificate
                | Kind::Backup,
                Act::Create(_) | Act::Patch(_) | Act::PatchStatus(_) | Act::Evict { .. } | Act::Delete { .. },
            ) => {}
        }
    }

    /// Checks that a member that may be lost has had its grace period when it is removed.
    pub(super) fn judge_time_of_call(&mut self, call: &EtcdCall) {
        let EtcdCall::RemoveMember { member, .. } = call else { return };
        let record = self.record();
        let is_leaving =
            record.members.get(member).map(|one| one.stage) == Some(Stage::Leaving(Leaving::Lost));
        // One that never started has no data, and is given up at once.
        let has_begun = record.replacement.as_ref().is_none_or(|order| order.loss != Loss::NeverStarted);
        let is_lost = is_leaving && has_begun;
        let since = self.oracle.suspected_at.get(member).copied();
        let (Some(since), Some(cluster)) =
            (since.filter(|_| is_lost && !record.is_in_memory()), self.cluster())
        else {
            return;
        };
        self.judge_age(since, &cluster.spec.recovery.grace_period, || call.to_string());
    }

    fn judge_age(&mut self, since: Instant, limit: &str, what: impl FnOnce() -> String) {
        let (age, limit) = (self.now - since, duration::seconds(limit).map_or(Span(0), Span::seconds));
        if age.0 + APART.0 < limit.0 {
            let how = format!("{} after {age} instead of {limit}", what());
            self.oracle.add_violation(Property::TimeIsTrue, how);
        }
    }
}
