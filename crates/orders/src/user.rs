//! What is next for an EtcdUser.
//!
//! - [`decide()`]: what is done in etcd, what becomes of the Secret, what its status says
//! - [`permissions`]: what a role allows, as etcd has it, and what an EtcdCluster admits
//! - [`gate`]: the one place that refuses a change of a user or of a role that is not that of the EtcdUser

mod decide;
pub mod gate;
pub mod permissions;
mod report;
#[cfg(test)]
mod tests;

pub use decide::{Act, AuthState, Decision, Etcd, Seen, asks_etcd, decide, role_name};
