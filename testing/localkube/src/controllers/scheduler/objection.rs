//! One reason against a node.

/// Why a Pod cannot run on a node.
pub(super) struct Objection {
    /// In the words of the real scheduler.
    pub text: String,
    /// Whether the reason remains even if every other Pod leaves the node: preemption would not help.
    pub permanent: bool,
}
