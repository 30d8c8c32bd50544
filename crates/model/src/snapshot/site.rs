//! Where volumes can be used, and when lost members are replaced.

use crate::quorum_recovery::NodeState;
use crate::time::Span;

/// What Kubernetes says about the volume of a member: of its PersistentVolume, its storage class, and the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Why it can never be used again, if so: it is bound to a node that does not exist any more, or that a person declared out of
    /// service.
    pub gone: Option<String>,
    /// The node of the member's last Pod, if it was asked for.
    pub node: Option<NodeState>,
    /// The other node on which the member last followed a leader, if there is one.
    pub served_on: Option<NodeState>,
}

/// Where a member ran, as far as status knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastNodes {
    /// The node of its Pod or, where there is none, of its last one.
    pub node: Option<String>,
    /// The node on which it last followed a leader that the operator saw.
    pub served_on: Option<String>,
}

/// `spec.recovery`: when and how a lost member is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplacementPolicy {
    /// Whether lost members are replaced without an order.
    pub enabled: bool,
    /// How long the data of a member must be lost before it is replaced.
    pub grace: Span,
}

impl Default for ReplacementPolicy {
    fn default() -> Self {
        Self { enabled: true, grace: Span::seconds(600) }
    }
}
