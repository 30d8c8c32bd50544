//! The simulation: the product's planner and its pass run against models of everything else, with faults, exhaustively in
//! small scopes and at random in large ones. The caller makes every choice.
//!
//! - [`world`]: Kubernetes, nodes, the operator's process; [`world::faults`]: the faults
//! - [`trust`]: certificates, and who trusts whom
//! - [`etcd`]: a model of etcd's membership and data
//! - [`oracle`]: the properties that must hold; `goal`: the state at the end; [`ending`]: the comparison of two ends
//! - [`explore`]: every history of a small scope; [`campaign`]: random histories
//! - [`history`]: one history, as it is stored, replayed and shortened; [`edits`]: edits of a spec
//!
//! Nothing here is linked into the operator. Nothing here waits, sleeps or chooses at random by itself.

pub mod campaign;
pub mod edits;
pub mod ending;
pub mod etcd;
pub mod explore;
mod fingerprint;
mod goal;
pub mod history;
pub mod oracle;
pub mod trust;
pub mod world;
