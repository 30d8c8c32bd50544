//! What the clusters of one operator have to do with each other: their turns to take new defaults of the operator.

use crate::record::Turn;
use crate::{ClusterRef, Instant};

/// A cluster that is to take new defaults of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wants {
    /// Which cluster.
    pub cluster: ClusterRef,
    /// It has too few members to serve while one of them restarts.
    pub interrupted: bool,
    /// Why it is not well, if it is not.
    pub unwell: Option<String>,
}

/// A cluster whose status records that it takes new defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takes {
    /// Which cluster.
    pub cluster: ClusterRef,
    /// It has too few members to serve while one of them restarts.
    pub interrupted: bool,
    /// Its turn.
    pub turn: Turn,
    /// Since when it is degraded, and why.
    pub degraded: Option<(Instant, String)>,
}
