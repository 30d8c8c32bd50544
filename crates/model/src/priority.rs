//! The PriorityClass of Pods, where it is the operator's default and the namespace may refuse it.

/// The API server refused the operator's PriorityClass in the namespace of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPriorityClass {
    /// The name of the class.
    pub class: String,
    /// What the API server answered.
    pub why: String,
}

/// A Pod was refused, and its PriorityClass may be why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityClassRefused {
    /// The class, and the answer.
    pub refusal: NoPriorityClass,
    /// A Pod without the class was taken afterwards: so it was the class.
    pub taken_without: bool,
}
