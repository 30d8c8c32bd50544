//! The numbered steps of the protocols.

use std::fmt;

use crate::time::Span;

/// The numbered steps of the protocols. The numbers stand in the docs, the crash points and the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "named after the steps in docs/protocols")]
pub enum Step {
    B1,
    B2,
    B3,
    B4,
    B5,
    B6,
    B7,
    B8,
    /// A wish is committed as the target.
    T1,
    /// A founder's Pod is released, once it was seen.
    BR,
    /// An abandoned attempt: Pods, then volumes.
    BA,
    /// Adoption of an earlier cluster's volumes.
    BX,
    G1,
    G2,
    G3,
    G4,
    G5,
    G6,
    S1,
    S2,
    S3,
    S4,
    S5,
    Z1,
    Z2,
    /// A lost Pod is made again on its own volume; at once for all members on waking.
    W1,
    /// A finished or stuck Pod is cleared away for that.
    W2,
    P1,
    U1,
    U2,
    U3,
    U4,
    U5,
    U6,
    /// Deletion of the cluster: Pods, volumes, finalizer.
    D1,
    D2,
    D3,
    /// Upkeep: budget, stamps, expansion.
    K1,
}

/// The deadline for a learner to run before it is rolled back (G5).
pub const LEARNER_DEADLINE: Span = Span::seconds(600);

/// The deadline for a learner that runs to say something. etcd serves nobody before it has caught up, so a large database
/// is long silence: 8 GiB, the most that etcd recommends, at 2.5 MB/s.
pub const LEARNER_SYNC_DEADLINE: Span = Span::seconds(3600);

impl Step {
    /// Every step.
    pub const ALL: [Self; 38] = [
        Self::B1,
        Self::B2,
        Self::B3,
        Self::B4,
        Self::B5,
        Self::B6,
        Self::B7,
        Self::B8,
        Self::T1,
        Self::BR,
        Self::BA,
        Self::BX,
        Self::G1,
        Self::G2,
        Self::G3,
        Self::G4,
        Self::G5,
        Self::G6,
        Self::S1,
        Self::S2,
        Self::S3,
        Self::S4,
        Self::S5,
        Self::Z1,
        Self::Z2,
        Self::W1,
        Self::W2,
        Self::P1,
        Self::U1,
        Self::U2,
        Self::U3,
        Self::U4,
        Self::U5,
        Self::U6,
        Self::D1,
        Self::D2,
        Self::D3,
        Self::K1,
    ];
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
