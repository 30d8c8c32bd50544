//! Decisions about backups, their schedules and restores: what is next, as pure functions of what was observed and the time. No I/O, no
//! clock, no async. The controllers of the operator watch, ask, and send; they decide nothing.
//!
//! - [`backup`]: an EtcdBackup, from its place in the queue to the end of its object
//! - [`schedule`]: an EtcdBackupSchedule: its times, retention, restore tests, what it says about its backups
//! - [`restore`]: an EtcdRestore: whether its snapshot can be read, and how far its EtcdCluster is with it
//! - [`user`]: an EtcdUser: what is done in etcd for it, and its Secret
//! - [`data_store`]: the DataStore by which Kamaji keeps control planes in an EtcdCluster
//! - [`gate`]: the one place that refuses a deletion; [`user::gate`] is that of changes of etcd's users
//! - [`outcome()`]: what a Job has come to

pub mod admission;
pub mod backup;
pub mod data_store;
pub mod gate;
mod outcome;
mod ready;
pub mod restore;
pub mod schedule;
mod time;
pub mod user;

pub use outcome::{JobOutcome, outcome};
