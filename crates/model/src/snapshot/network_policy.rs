//! The NetworkPolicy of the cluster.

use super::Presence;
use crate::object::ObservedObject;

/// The NetworkPolicy of the cluster: whether the spec wants one, and the one that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// Whether the spec wants one.
    pub wanted: bool,
    /// Whether it exists, and is as it should be. While nobody knows how it should be, the one that exists matches.
    pub presence: Presence,
    /// The one that exists, unless it is being deleted: the precondition of its deletion.
    pub seen: Option<ObservedObject>,
}
