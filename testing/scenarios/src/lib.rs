//! One suite of behaviours, written once against [`World`] and run in every world that can host it: the playground's
//! (real etcd processes, our own small Kubernetes) and a real Kubernetes. Tests only.
//!
//! - [`mod@stories`]: the behaviours; each keeps a writer going where writes matter
//! - [`Eyes`]: what a person sees and does through the API and through etcd, the same everywhere
//! - [`Playground`], [`Kubernetes`]: the worlds
//! - [`operator`], [`rig`]: what a real Kubernetes has below: the operator's own Pods, the machine's programs and nodes
//! - [`Writer`]: writes all the time, and judges at the end
//! - [`Page`]: a page of the documentation whose every command is run, in a [`Shell`]
//! - [`conformance`]: our small Kubernetes beside the real one, call by call
//!
//! This crate never looks into the operator: whatever it knows, it knows from outside.

pub mod conformance;
mod eyes;
mod kubernetes;
pub mod operator;
mod page;
mod playground;
pub mod rig;
mod shell;
pub mod stories;
mod world;
mod writer;

pub use eyes::{Eyes, client, is_ready, until};
pub use kubernetes::Kubernetes;
pub use page::Page;
pub use playground::{Playground, refused};
pub use shell::Shell;
pub use world::{Blow, World, empty};
pub use writer::{Acknowledged, Writer};

use serde_json::{Value, json};

/// A spec of the sample's kind, small and quick.
pub fn spec(size: usize) -> Value {
    json!({"size": size, "version": version(), "storageSpec": {"volumeSizeRequest": "64Mi"}})
}

/// The etcd version under test: `QUORATE_TEST_ETCD_VERSION`, or the middle one of the three pinned.
pub fn version() -> String {
    std::env::var("QUORATE_TEST_ETCD_VERSION").unwrap_or_else(|_| "3.6.16".to_owned())
}
