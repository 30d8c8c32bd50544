//! The port to etcd: a client for one member. Replies are plain data, and failures are classed by what is known about the
//! outcome.
//!
//! - [`MemberClient`]: the calls, each with a deadline, none ever retried
//! - [`Endpoint`], [`Tls`], [`Deadlines`]: where and how to dial, and over which [`Transport`]; [`TlsConfig`]: what members share
//! - [`MemberStatus`], [`MemberList`], ...: the replies
//! - [`SnapshotStream`]: the database of a member, as it arrives
//! - [`CallError`], [`Refusal`]: refused, unknown or unreachable
//! - [`fn@handshake`]: which leaf a process of etcd presents, and which authorities it trusts
//! - [`wire`]: etcd's messages and stubs, client and server side
//! - `testkit` (a feature): real etcd processes for tests
//!
//! It never decides, never retries and never balances over members: the caller names the member.

mod client;
mod dial;
mod endpoint;
mod error;
mod handshake;
mod reply;
mod snapshot;
#[cfg(feature = "testkit")]
pub mod testkit;
mod transport;
pub mod wire;

pub use client::{MemberClient, Read};
pub use dial::TlsConfig;
pub use endpoint::{BadEndpoint, Deadlines, Endpoint, Tls};
pub use error::CallError;
pub use handshake::{Handshake, HandshakeError, handshake};
pub use quorate_model::Refusal;
pub use quorate_model::snapshot::{Alarm, AlarmKind};
pub use reply::{AuthStatus, KeyAccess, ListedMember, MemberList, MemberStatus, Permission, StoredValue};
pub use snapshot::{SnapshotChunk, SnapshotStream};
pub use transport::{Duplex, Stream, Transport};
