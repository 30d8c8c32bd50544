//! Translation between the domain model and Kubernetes objects, both ways, and nothing else: no client, no clock, no
//! randomness, no decisions.
//!
//! The ground, of which the rest is made: [`Kind`], [`names`], [`labels`], [`ClusterObjects`] (what was observed), [`Write`] (one write and its request), [`Defaults`] and
//! [`Invalid`], [`certificate::kinds`], [`certificate::parsed`], and the input of a Pod ([`pod::Member`]). No file rests on one that rests on it.
//!
//! From Kubernetes: [`target`] (spec to Target), [`record`] (status to Record), [`observe`] (objects to Snapshot).
//! To Kubernetes: [`mod@request`] (Effect to the request that carries it out), made of [`pod`], [`volume`], [`service`],
//! [`budget`], [`network_policy`], [`certificate`] and [`restore`]; [`backup`] and [`job`], what Jobs are ordered to do and the Jobs themselves;
//! [`backup_before`], the EtcdBackup that the operator takes by itself; [`restored`], the one that stands for what is restored; [`user`],
//! the Secret of an EtcdUser; [`data_store`], the DataStore of Kamaji; and [`credentials`], which Secrets let somebody in. What people read is in `quorate-status`.

pub mod backup;
pub mod backup_before;
pub mod bootstrap;
pub mod budget;
pub mod catalog;
pub mod cert_manager;
pub mod certificate;
pub mod connection;
pub mod credentials;
pub mod data_store;
mod defaults;
mod diff;
pub mod flags;
pub mod fleet;
mod images;
pub mod job;
pub mod kind;
pub mod labels;
mod metadata;
pub mod names;
pub mod network_policy;
mod objects;
pub mod observe;
pub mod pod;
mod quorum_recovery;
pub mod record;
pub mod request;
pub mod restore;
pub mod restored;
pub mod service;
pub mod site;
pub mod target;
pub mod template;
pub mod user;
pub mod volume;
mod write;

pub use defaults::{AgentDelivery, DEFAULT_AGENT_IMAGE, Defaults, Invalid, IpFamily, OperatorPods};
pub use images::{AllowedImages, ImagePrefix, NoImagePrefix};
pub use kind::Kind;
pub use objects::{ClusterObjects, NameConflict, cluster_ref};
pub use observe::{Observation, names_to_bootstrap, snapshot};
pub use request::{Context, Request, merge_patch, request};
pub use site::SiteQuestion;
pub use target::resolve;
pub use write::{Act, Write};
