//! Every change in order, as far back as it is kept.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use crate::errors::ApiError;
use crate::resources::ResourceKey;

/// How many changes are kept. A watch that is further behind must list again, as on a real server after compaction.
const CAPACITY: usize = 20_000;

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The version after the change.
    pub version: u64,
    /// The kind of the object.
    pub resource: ResourceKey,
    /// What happened.
    pub kind: ChangeKind,
    /// The object after the change; for a deletion, its last state.
    pub object: Arc<Value>,
    /// The object before the change.
    pub before: Option<Arc<Value>>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was removed.
    Deleted,
}

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    changes: VecDeque<Change>,
    /// Changes up to this version are no longer kept.
    compacted: u64,
}

impl History {
    pub(super) fn starting_at(version: u64) -> Self {
        Self { changes: VecDeque::new(), compacted: version }
    }

    pub(super) fn push(&mut self, change: Change) {
        self.changes.push_back(change);
        if self.changes.len() > CAPACITY
            && let Some(oldest) = self.changes.pop_front()
        {
            self.compacted = oldest.version;
        }
    }

    /// Forgets the changes after a version, and returns them, the latest one first. 410 if the version is no longer kept.
    pub(super) fn go_back_to(&mut self, version: u64) -> Result<Vec<Change>, ApiError> {
        if version < self.compacted {
            return Err(ApiError::expired(version, self.compacted + 1));
        }
        let from = self.changes.partition_point(|change| change.version <= version);
        Ok(self.changes.drain(from..).rev().collect())
    }

    pub(super) fn after(&self, resource: &ResourceKey, version: u64) -> Result<Vec<Change>, ApiError> {
        if version < self.compacted {
            return Err(ApiError::expired(version, self.compacted + 1));
        }
        let from = self.changes.partition_point(|change| change.version <= version);
        Ok(self.changes.range(from..).filter(|change| change.resource == *resource).cloned().collect())
    }
}
