//! The custom resources of Quorate, `operator.etcd.io/v1alpha1`, and the words it speaks in them.
//!
//! Manifests written for the etcd-io operator keep their meaning: its fields have its names. Whatever can be told to be
//! wrong from the object alone is refused by the resource definition itself, in schema or CEL, with a message that
//! says what to do; there is no admission webhook.
//!
//! This crate never talks to a cluster and never interprets a spec: `manifests` translates, the planner decides.
//!
//! - [`cluster`]: the spec of an EtcdCluster
//! - [`status`]: what the operator writes back, the latched facts included
//! - [`condition`]: condition types and reasons
//! - [`keys`]: labels, annotations, the finalizer
//! - [`quantity`]: bytes from `1Gi`
//! - [`crd`]: the resource definitions as Kubernetes gets them

pub mod cluster;
pub mod condition;
pub mod crd;
pub mod keys;
pub mod quantity;
mod rules;
pub mod status;

pub use cluster::{EtcdCluster, EtcdClusterSpec};
pub use condition::{ConditionType, Reason};
pub use crd::{crds, crds_yaml};
pub use status::EtcdClusterStatus;
