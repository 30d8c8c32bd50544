//! The custom resources of Quorate, `operator.etcd.io/v1alpha1`: their fields, conditions and reasons.
//!
//! Manifests written for the etcd-io operator keep their meaning: its fields keep their names. The resource definition
//! itself refuses whatever is wrong in one object, in schema or CEL, with a message that says what to do. There is no
//! admission webhook.
//!
//! This crate never connects to a cluster and never interprets a spec: `manifests` translates, the planner decides.
//!
//! - [`cluster`]: the spec of an EtcdCluster
//! - [`status`]: what the operator writes back, the recorded facts included
//! - [`conditions`]: condition types, and how conditions are set and read
//! - [`reason`]: reasons of conditions and events, with their messages
//! - [`backup`], [`schedule`]: an EtcdBackup, and an EtcdBackupSchedule that creates them
//! - [`destination`]: where backups are kept
//! - [`bootstrap`]: a cluster that begins with the data of a snapshot
//! - [`latest`]: the newest backup in a store
//! - [`restore`]: an EtcdRestore, which replaces the data of a running cluster
//! - [`user`]: an EtcdUser, a user of etcd with a Secret to connect with
//! - [`job`]: what the operator orders from the agent in Jobs, and its answers
//! - [`keys`]: labels, annotations, the finalizer
//! - [`quantity`]: bytes from `1Gi`
//! - [`duration`]: seconds from `365d`
//! - [`crd()`]: the resource definitions as Kubernetes gets them

pub mod backup;
pub mod bootstrap;
pub mod cluster;
pub mod conditions;
pub mod crd;
pub mod destination;
pub mod duration;
pub mod job;
pub mod keys;
pub mod latest;
pub mod quantity;
pub mod reason;
pub mod restore;
mod rules;
pub mod schedule;
pub mod status;
pub mod user;

pub use backup::{EtcdBackup, EtcdBackupSpec, EtcdBackupStatus};
pub use cluster::{EtcdCluster, EtcdClusterSpec};
pub use conditions::ConditionType;
pub use crd::{crd, crds, crds_yaml};
pub use destination::Destination;
pub use reason::{Explanation, Reason, ReasonOf};
pub use restore::{EtcdRestore, EtcdRestoreSpec, EtcdRestoreStatus};
pub use schedule::{EtcdBackupSchedule, EtcdBackupScheduleSpec, EtcdBackupScheduleStatus};
pub use status::EtcdClusterStatus;
pub use user::{EtcdUser, EtcdUserSpec, EtcdUserStatus};
