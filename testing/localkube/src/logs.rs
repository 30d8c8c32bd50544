//! The source of container logs: the runtime of the containers.

use bytes::Bytes;
use futures::stream::BoxStream;

/// A request for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// The Pod's namespace.
    pub namespace: String,
    /// The Pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// Whether to follow the log.
    pub follow: bool,
    /// Whether to read the previous run of the container.
    pub previous: bool,
    /// The number of lines from the end.
    pub tail: Option<u64>,
    /// Whether each line starts with its time.
    pub timestamps: bool,
}

/// Provides the logs of containers.
pub trait LogSource: Send + Sync {
    /// The log, or why there is none, in the words of the real server.
    fn open(&self, request: &LogRequest) -> Result<BoxStream<'static, Bytes>, String>;
}
