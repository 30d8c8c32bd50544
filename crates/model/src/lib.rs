//! The domain model that every other crate shares: the identity of a member, what was observed, what is desired, and what is
//! to be done. Plain values only.
//!
//! This crate never does I/O, reads a clock, draws a random number, or knows Kubernetes' or etcd's wire formats.
//!
//! - [`names`]: clusters, members, ordinals, tokens, peer URLs
//! - [`object`]: the Kubernetes objects of a cluster
//! - [`ids`]: etcd's own numbers: member, cluster, revision
//! - [`version`]: etcd versions and minors
//! - [`quorum`]: quorum arithmetic
//! - [`auth`]: etcd's auth, and how far it is switched on
//! - [`certificate`]: leaves, fingerprints, when a certificate ends
//! - [`time`]: instants and spans, given from outside
//! - [`target`]: the validated spec, and its committed copy
//! - [`record`]: what is recorded in status and outlives the operator
//! - [`incarnation`]: the incarnations of a cluster, and the order for another one
//! - [`adoption`]: why volumes of an earlier cluster are not adopted
//! - [`quorum_recovery`]: the recovery of a lost quorum
//! - [`restore`]: a bootstrap that begins with the data of a snapshot
//! - [`snapshot`]: what was observed, and how old it is
//! - [`guard`]: whether etcd may start on a volume; [`canary`]: whether that volume takes writes
//! - [`refusal`]: why etcd refused a call
//! - [`effect`]: what is to be done, with its precondition and its step
//! - [`mutants`]: rules that a test can turn off
//! - [`crash_point`]: the moments before and after a step, for tests

pub mod adoption;
pub mod auth;
pub mod canary;
pub mod certificate;
pub mod crash_point;
pub mod effect;
pub mod fleet;
pub mod guard;
pub mod ids;
pub mod incarnation;
pub mod mutants;
pub mod names;
pub mod object;
pub mod quorum;
pub mod quorum_recovery;
pub mod record;
pub mod refusal;
pub mod restore;
pub mod rotation;
pub mod snapshot;
pub mod target;
pub mod time;
pub mod version;

pub use certificate::{Ca, Fingerprint, Leaf};
pub use crash_point::CrashPoint;
pub use effect::{Effect, EtcdCall, KubeEffect, Plan, Protocol, Step, Waiting};
pub use guard::GuardVerdict;
pub use ids::{ClusterId, MemberId, Revision};
pub use names::{ClusterRef, ClusterUid, MemberName, Ordinal, PeerUrl, Token, Uid};
pub use object::{AppliedObject, DeletedObject, ManagedObject, ObservedObject};
pub use record::Record;
pub use refusal::Refusal;
pub use snapshot::Snapshot;
pub use target::Target;
pub use time::{Backoff, ClockDifference, Instant, Present, Span};
pub use version::{Minor, Version};
