//! Backups of etcd: stores, the stream of a snapshot into one, its verification, and the way back.
//! `docs/protocols/backup.md` has the numbered steps.
//!
//! - [`back_up`]: a snapshot of etcd into a store ([`taken`]: whether it is there already); [`remove()`]: the way out of it
//! - [`Found`]: an object that is to be restored, and its download; [`read()`]: whether it could be; [`verify()`]: a restore test
//! - [`etcdutl`]: the program that makes a data directory of a snapshot
//! - `store`: where objects are; `source`: which member sends the snapshot; `codec`: zstd and age; `trailer`: etcd's own hash
//! - [`Context`]: the directories, the log and the order to stop
//!
//! Every failure is a [`Failure`](quorate_api::job::Failure), which the operator reports as it is. Nothing here waits longer than it
//! must: the Job tries again, and so does the kubelet.

mod backup;
mod codec;
mod context;
pub mod etcdutl;
mod hex;
mod manifest;
mod pace;
mod read;
mod remove;
mod restore;
mod source;
mod spool;
mod store;
mod trailer;
mod verify;

pub use backup::{back_up, taken};
pub use context::{Context, Places};
pub use read::read;
pub use remove::remove;
pub use restore::{Fetched, Found};
pub use store::Store;
pub use verify::verify;

/// What an act returns.
pub type Result<T> = std::result::Result<T, quorate_api::job::Failure>;
