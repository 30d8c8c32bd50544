//! The words of the domain, shared by every other crate: who a member is, what was seen, what is desired, what shall
//! be done. Plain values only.
//!
//! This crate never does I/O, reads a clock, draws a random number, or knows Kubernetes' or etcd's wire formats.
//!
//! - [`names`]: clusters, members, ordinals, tokens, peer URLs
//! - [`ids`]: etcd's own numbers: member, cluster, revision
//! - [`version`]: etcd versions and minors
//! - [`quorum`]: the arithmetic everything rests on
//! - [`time`]: instants and ages, given from outside
//! - [`target`]: the committed wish
//! - [`record`]: what is recorded in status and outlives the operator
//! - [`snapshot`]: what was seen, and how old it is
//! - [`guard`]: whether etcd may start on a volume
//! - [`refusal`]: why etcd refused a call
//! - [`effect`]: what shall be done, with its precondition and its step
//! - [`crash_point`]: the moments before and after a step, for tests

pub mod crash_point;
pub mod effect;
pub mod guard;
pub mod ids;
pub mod names;
pub mod quorum;
pub mod record;
pub mod refusal;
pub mod snapshot;
pub mod target;
pub mod time;
pub mod version;

pub use crash_point::CrashPoint;
pub use effect::{Effect, EtcdCall, KubeEffect, Plan, Protocol, Step, Waiting};
pub use guard::GuardVerdict;
pub use ids::{ClusterId, MemberId, Revision};
pub use names::{ClusterRef, ClusterUid, MemberName, Ordinal, PeerUrl, Token, Uid};
pub use record::Record;
pub use refusal::Refusal;
pub use snapshot::Snapshot;
pub use target::Target;
pub use time::{Instant, Span};
pub use version::{Minor, Version};
