//! An in-memory Kubernetes: no more of it than an operator, its tests and kubectl need, and that faithfully.
//!
//! - [`store`]: objects, every change to them in order, preconditions, finalizers, graceful deletion
//! - [`service`]: the REST API over it, as a tower service
//! - [`schema`]: custom resources: pruning, defaults, validation, CEL
//! - [`controllers`]: scheduler, garbage collector, endpoints, budgets, volumes, namespaces
//! - [`tables`], [`discovery`], [`openapi`]: what makes kubectl at home
//!
//! How it answers is compared with a real Kubernetes, call by call, in `testing/scenarios/tests/kube_conformance.rs`. Known
//! limits: no server-side apply and no managed fields, no streaming lists, quantities are kept as they are written, a null
//! is not kept where Go writes one, what can not be decoded is refused in other words, of a Pod with scheduling gates only these
//! may change, not where it may be placed, and a Pod that goes at once is shown to watches with its mark as it goes, not once
//! before.
//!
//! It never runs a container (the playground does) and is never offered for production.

pub mod body;
pub mod controllers;
pub mod discovery;
pub mod errors;
pub mod events;
pub mod fields;
mod fingerprint;
pub mod logs;
pub mod openapi;
pub mod patch;
mod protobuf;
pub mod quantity;
pub mod resources;
mod rest;
pub mod schema;
pub mod service;
pub mod store;
pub mod tables;

pub use errors::ApiError;
pub use resources::{ObjectKey, ResourceInfo, ResourceKey, Resources};
pub use service::{ApiService, LocalKube};
pub use store::Store;
