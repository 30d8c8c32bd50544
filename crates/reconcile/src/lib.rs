//! One pass over an EtcdCluster as a state machine: it yields commands and takes replies. It has no I/O, no clock and no
//! async; the driver carries the commands out and passes the time in. The operator drives it with real calls, the
//! simulation with modelled ones, so both run the same code.
//!
//! - [`Pass`]: the order of a pass: observe, validate, plan, write the record to status, carry out the effects
//! - [`Command`], [`Task`], [`Reply`]: what it asks of its driver, and the answers
//! - [`Memory`]: what is kept from pass to pass, with the [`WriteCache`] that overlays the watches with the operator's own writes
//! - [`WriteError`], [`CallError`]: the classes of replies of the Kubernetes API and of etcd
//! - [`Clocks`]: whether the operator's clock agrees with the API server's
//! - [`is_ours`]: which object with a name of the cluster belongs to it
//! - [`member_to_ask`]: which member serves the member list

mod calm;
mod clocks;
mod command;
mod comparing;
mod free_space;
mod issuance;
mod members;
mod memory;
mod objects;
mod ownership;
mod pass;
mod progress;
mod recent;
mod reply;
mod write_cache;

pub use clocks::{Clocks, Noted, OwnTime};
pub use command::{Command, CommandId, Proved, Purpose, Reply, Task};
pub use members::member_to_ask;
pub use memory::Memory;
pub use objects::{Caches, ClusterView, Object, ReadCluster, Versions};
pub use ownership::{is_ours, is_visible};
pub use pass::{Event, Pass, PassEnd, Planned, Stop, Upcoming};
pub use reply::{CallError, EffectError, Retry, WriteError};
pub use write_cache::{CachedObjects, UNCONFIRMED_AFTER, WriteCache, version};
