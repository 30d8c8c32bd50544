//! Backups of etcd: stores, the stream of a snapshot into one, its verification, and the way back.
//! `docs/protocols/backup.md` has the numbered steps.
//!
//! - [`back_up`]: a snapshot of etcd into a store ([`taken`]: whether it is there already); [`remove()`]: the way out of it
//! - [`Found`]: an object that is to be restored, and its download; [`read()`]: whether it could be; [`verify()`]: a restore test ([`longest_start`]: of its etcd)
//! - [`take`]: a snapshot that who reaches the store has handed on to who does not
//! - [`look()`]: whether objects are still there; [`find()`]: which backup of a cluster is the newest
//! - [`list()`]: what there is of a cluster, for EtcdBackups that were lost; [`inspect()`]: one of those objects
//! - [`bbolt`]: the format of a database; `auth`: whether auth is enabled in one, while it passes by
//! - [`etcdutl`]: the program that makes a data directory of a snapshot
//! - `store`: where objects are; `walk`: the manifests of one; `source`: which member sends the snapshot;
//!   `agree`: whether others have the same data; `signature`: who vouches for a manifest; `codec`: zstd and age; `trailer`: etcd's own hash
//! - [`Context`]: the directories, the log and the order to stop
//!
//! Every failure is a [`Failure`](quorate_api::job::Failure), which the operator reports as it is. Nothing here waits longer than it
//! must: the Job tries again, and so does the kubelet.

mod agree;
mod auth;
mod backup;
pub mod bbolt;
mod codec;
mod context;
pub mod etcdutl;
mod find;
mod handed;
mod hex;
mod inspect;
mod limit;
mod list;
mod look;
mod manifest;
mod pace;
mod read;
mod remove;
mod restore;
mod room;
mod root;
#[cfg(test)]
mod rubbish;
mod signature;
mod source;
mod spool;
mod store;
mod trailer;
mod verify;
mod walk;

pub use backup::{back_up, taken};
pub use context::{Context, Places};
pub use find::find;
pub use handed::{Handed, Note, fetch_for_test, is_whole, take};
pub use inspect::inspect;
pub use list::list;
pub use look::look;
pub use read::read;
pub use remove::remove;
pub use restore::{Fetched, Found};
pub use store::Store;
pub use verify::{longest_start, verify};

/// What an act returns.
pub type Result<T> = std::result::Result<T, quorate_api::job::Failure>;
