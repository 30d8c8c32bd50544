//! What is next for an EtcdBackupSchedule.
//!
//! - [`decide()`]: when a backup is created, tested, deleted; `cron`: the times of a schedule
//! - `order`: a backup now; `catalog`: EtcdBackups for what the store has
//! - `retention`: which backups are kept; `verify`: restore tests; `look`: whether objects are still in the store
//! - `report`: what its status says; [`health()`]: what the schedules of a cluster say about its backups

mod catalog;
mod compared;
mod cron;
mod decide;
mod health;
mod look;
mod order;
mod report;
mod retention;
#[cfg(test)]
mod tests;
mod verify;

pub(crate) use cron::CronTimes;
pub(crate) use decide::{cluster_id, is_not_older_data, is_to_come, phase, scheduled};
pub(crate) use look::{is_fresh, is_gone_for_sure};
pub(crate) use retention::counted_since;
pub(crate) use verify::is_doubtful;

pub use catalog::{catalog_refused, is_listing};
pub use decide::{Decision, FirstWrite, NextAct, Pruning, Seen, decide, decide_beside, is_good, is_of};
pub use health::health;
pub use look::{Sighting, look_refused};
pub use report::not_ready;
pub use verify::refused;
