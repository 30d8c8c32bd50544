//! What is next for an EtcdRestore.
//!
//! - [`decide()`]: what its status says
//! - `age`: how old the snapshot is
//! - `backups`: which EtcdBackups come first
//! - `before`: the EtcdBackup of the data that are given up
//! - `reading`: whether its snapshot can be read; `whose`: whose data it has; `tenants`: who loses data with the cluster

mod age;
mod backups;
mod before;
mod decide;
mod reading;
mod tenants;
#[cfg(test)]
mod tests;
mod whose;

pub use before::{backup_not_stored, backup_refused};
pub use decide::{Decision, Event, Seen, decide, has_ended};
pub use reading::{NextAct, refused};
