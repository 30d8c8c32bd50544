//! What the Jobs of all tasks have in common.

use quorate_api::EtcdCluster;

use crate::defaults::Defaults;
use crate::pod::FETCH;

/// The container with the answer.
pub const CONTAINER: &str = "agent";
/// The init container of a restore test, which fetches the backup. It answers if it cannot.
pub const FETCHES: &str = FETCH;

/// What the Jobs of all tasks are made with.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// How long it may take.
    pub seconds: i64,
    /// The EtcdCluster that it is for, if that exists.
    pub cluster: Option<&'a EtcdCluster>,
    /// What specs may leave out.
    pub defaults: &'a Defaults,
}

impl<'a> Terms<'a> {
    /// With these.
    pub fn new(seconds: i64, cluster: Option<&'a EtcdCluster>, defaults: &'a Defaults) -> Self {
        Self { seconds, cluster, defaults }
    }
}
