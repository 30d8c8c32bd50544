//! Every change in order, as far back as watches may ask.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use crate::errors::ApiError;
use crate::resources::ResourceKey;

/// How many changes are kept. A watch that fell behind further lists again, as on a real server after compaction.
const KEPT: usize = 20_000;

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The version it made.
    pub version: u64,
    /// The kind of the object.
    pub resource: ResourceKey,
    /// What happened.
    pub kind: ChangeKind,
    /// The object afterwards; for a deletion, as it was last.
    pub object: Arc<Value>,
    /// The object before.
    pub before: Option<Arc<Value>>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It came.
    Added,
    /// It changed.
    Modified,
    /// It went.
    Deleted,
}

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    changes: VecDeque<Change>,
    /// Nothing at or before this version is kept.
    forgotten: u64,
}

impl History {
    pub(super) fn beginning_at(version: u64) -> Self {
        Self { changes: VecDeque::new(), forgotten: version }
    }

    pub(super) fn push(&mut self, change: Change) {
        self.changes.push_back(change);
        if self.changes.len() > KEPT
            && let Some(oldest) = self.changes.pop_front()
        {
            self.forgotten = oldest.version;
        }
    }

    pub(super) fn after(&self, resource: &ResourceKey, version: u64) -> Result<Vec<Change>, ApiError> {
        if version < self.forgotten {
            return Err(ApiError::expired(version, self.forgotten + 1));
        }
        let from = self.changes.partition_point(|change| change.version <= version);
        Ok(self.changes.range(from..).filter(|change| change.resource == *resource).cloned().collect())
    }
}
