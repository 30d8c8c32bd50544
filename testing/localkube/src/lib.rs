//! An in-memory Kubernetes: as much of the API as the operator, its tests and kubectl need, with the real server's answers.
//!
//! - [`service`]: the REST API over the store of `quorate-apistore`, as a tower service
//! - [`controllers`]: scheduler, garbage collector, endpoints, budgets, volumes, namespaces
//! - [`tables`], [`discovery`], [`openapi`]: what kubectl needs
//!
//! `testing/scenarios/tests/kube/conformance.rs` compares its answers with a real Kubernetes, call by call. Known limits:
//!
//! - There is no server-side apply, no managed fields and no streaming list.
//! - Quantities are stored as written.
//! - A null is dropped where Go keeps it.
//! - The message for a body that cannot be decoded differs.
//! - Of a Pod with scheduling gates only the gates may change; its node selector and affinity may not.
//! - A Pod that is deleted at once reaches watches as one DELETED event, with no MODIFIED event before it.
//!
//! It never runs a container (the playground does) and is not for production.

pub mod body;
pub mod controllers;
pub mod discovery;
pub mod events;
mod fingerprint;
pub mod logs;
pub mod openapi;
mod protobuf;
mod rest;
pub mod service;
mod shared;
pub mod tables;

pub use service::{ApiService, LocalKube};
