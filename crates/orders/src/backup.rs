//! What is next for an EtcdBackup.
//!
//! - [`decide()`]: from its creation until it has ended; `ending`: while it is being deleted
//! - [`blocker`]: one backup of a cluster at a time; [`removals`]: one removal from a store at a time, by
//!   [credentials](store_of_removal) that somebody there has
//! - [`inspects_before`]: so many at a time look for an object that was there before them
//! - [`Bound`]: so many backups at a time over all clusters
//! - [`learned()`]: what others of the same etcd have found out about its store
//! - [`running()`]: which ones read a snapshot of an EtcdCluster now
//! - [`refusing`]: whose etcd endpoints are; [`owner_of_claim`]: whose volume a destination is

mod bound;
mod decide;
mod ending;
mod existing;
mod learned;
mod queue;
mod reach;
mod running;
#[cfg(test)]
mod tests;

pub use bound::{Bound, Place, waits_for_place};
pub use decide::{
    Act, Decision, Seen, User, cut, decide, has_ended, has_finalizer, has_started, is_in_queue, is_of,
    is_of_attempt, runs, state,
};
pub use ending::{abandoned, is_of_namespace_in_deletion, removal_held, removal_refused, way_out};
pub use existing::inspects_before;
pub use learned::{Learned, learned};
pub(crate) use queue::is_stuck;
pub use queue::{RemovalQueue, blocker, removals, store_of_removal};
pub use reach::{owner_of_claim, refusing};
pub use running::running;
