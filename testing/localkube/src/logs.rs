//! Logs of containers, which only whoever runs them has.

use bytes::Bytes;
use futures::stream::BoxStream;

/// Which log is wanted, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// The Pod's namespace.
    pub namespace: String,
    /// The Pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// Go on as it is written.
    pub follow: bool,
    /// Of the container's last run instead of this one.
    pub previous: bool,
    /// Only so many lines from the end.
    pub tail: Option<u64>,
    /// With the time of each line.
    pub timestamps: bool,
}

/// Whoever runs containers.
pub trait LogSource: Send + Sync {
    /// The log, or why there is none, in the real server's words.
    fn open(&self, request: &LogRequest) -> Result<BoxStream<'static, Bytes>, String>;
}
