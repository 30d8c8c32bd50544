//! Whose turn it is to take new defaults of the operator.

use strum::{IntoStaticStr, VariantNames};

use crate::names::MemberName;
use crate::snapshot::Sick;
use crate::time::Span;

/// Why a cluster does not take them now.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum Wave {
    /// A cluster has taken them and does not get ready.
    Stopped {
        /// Its namespace and name.
        cluster: String,
        /// Why it does not.
        why: String,
    },
    /// As many as may take them now.
    Full(TakingTurns),
    /// As many of those that a restart interrupts.
    FullOfInterrupted(TakingTurns),
    /// It was its turn, and they could not be committed.
    Missed,
    /// It is not well, as its status says.
    PassedOver(String),
    /// This voter is not healthy.
    Sick(MemberName, Sick),
    /// It has begun, and restarted no member for longer than this.
    Parked(Span),
}

/// Who takes new defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakingTurns {
    /// Namespaces and names of the clusters that do.
    pub now: Vec<String>,
    /// How many may.
    pub most: usize,
    /// The limit as it is given: `1+5%`.
    pub limit: String,
}
