//! The agent's canary, and the readiness of a Pod that follows it. A write that its disk does not return makes the member not ready
//! after the agent's limit, also when etcd has nothing to store; one that its disk refuses, at once. A disk that is full or slow takes the
//! canary's write.

use std::hash::{Hash, Hasher};

use quorate_apistore::fields::{items, text};
use quorate_model::{Instant, canary};
use serde_json::Value;

use super::World;
use crate::etcd::Disk;

/// The times in the status of a Pod, as its kubelet keeps them.
pub(super) struct Times {
    /// When the container was started.
    pub started: String,
    /// When `Ready` and `ContainersReady` changed last.
    pub changed: String,
}

impl World {
    /// Notes since when disks hang.
    pub(super) fn note_hung_disks(&mut self) {
        let (now, etcd) = (self.now, &self.etcd);
        self.hung_since.retain(|dir, _| etcd.disk(dir) == Disk::Hung);
        for (dir, _) in etcd.bad_disks().filter(|(_, disk)| *disk == Disk::Hung) {
            self.hung_since.entry(dir.to_owned()).or_insert(now);
        }
    }

    /// Whether the last synced write of the canary is young enough.
    pub(super) fn is_canary_fresh(&self, dir: &str) -> bool {
        let is_writable = self.etcd.disk(dir) != Disk::ReadOnly;
        is_writable && self.hung_since.get(dir).is_none_or(|since| self.now - *since < canary::LIMIT)
    }

    /// Of an age, only what has an effect.
    pub(super) fn hash_canaries(&self, hasher: &mut impl Hasher) {
        for (dir, since) in &self.hung_since {
            (dir, (self.now - *since).min(canary::LIMIT)).hash(hasher);
        }
    }
}

impl Times {
    /// The times of a Pod whose container was restarted this often, and that is ready now or not.
    pub(super) fn of(pod: &Value, restarts: u32, ready: bool, now: Instant) -> Self {
        let now = jiff::Timestamp::from_millisecond(now.0).unwrap_or_default().to_string();
        let container = items(pod, "/status/containerStatuses").first();
        let same_run = container.filter(|container| {
            container["restartCount"] == restarts && container["state"]["running"].is_object()
        });
        let started = same_run.map(|container| text(container, "/state/running/startedAt").to_owned());
        let condition = items(pod, "/status/conditions").iter().find(|one| one["type"] == "Ready");
        let status = if ready { "True" } else { "False" };
        let same = condition.filter(|condition| condition["status"] == status);
        Self {
            started: started.unwrap_or_else(|| now.clone()),
            changed: same.map_or(now, |condition| text(condition, "/lastTransitionTime").to_owned()),
        }
    }

    /// Whether what changed is of the run that is under way. A run begins when the one before was seen to end.
    pub(super) fn is_lost(&self) -> bool {
        self.changed > self.started
    }
}
