//! The canary of a volume: a few bytes that the agent writes and syncs on it again and again. etcd answers from memory while its
//! disk hangs, also on an idle cluster where it has nothing to store. The canary notices without a write to etcd.

use crate::time::Span;

/// How old the last synced write may be: then the member is not ready. A write begins every third of this time.
pub const LIMIT: Span = Span::seconds(30);
