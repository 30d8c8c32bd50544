//! Translation between the domain model and Kubernetes objects, both ways, and nothing else: no client, no clock, no
//! randomness, no decisions.
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
mod diff;
pub mod flags;
pub mod fleet;
mod images;
pub mod job;
pub mod kind;
pub mod labels;
mod metadata;
pub mod network_policy;
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

pub use images::{AllowedImages, ImagePrefix, NoImagePrefix};
pub use kind::Kind;
pub use observe::{ClusterObjects, NameConflict, Observation, names_to_bootstrap, snapshot};
pub use request::{Act, Context, Request, Write, merge_patch, request};
pub use site::SiteQuestion;
pub use target::{AgentDelivery, DEFAULT_AGENT_IMAGE, Defaults, Invalid, IpFamily, OperatorPods, resolve};
