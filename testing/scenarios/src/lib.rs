//! One suite of behaviours, written once against [`World`] and run in every world that can host it: the playground (real
//! etcd processes on localkube) and a real Kubernetes. Tests only.
//!
//! - [`mod@behaviours`]: the behaviours; each runs a [`Writer`] where writes matter
//! - [`NamespaceClient`]: what a user can see and do through the API and through etcd, the same in every world
//! - [`Playground`], [`Kubernetes`]: the worlds
//! - [`operator`], [`rig`]: what only a real Kubernetes has: the operator's own Pods, the machine's programs and nodes
//! - [`backups`]: how a user orders backups and restores; [`rounds`]: backed up, wrecked, restored, again and again
//! - [`S3Server`]: a store for backups
//! - [`ApiServers`]: kube-apiservers of a tenant whose data are in a cluster, and their clients
//! - [`kamaji`]: what Kamaji does with a DataStore, by its source
//! - [`CertManager`]: cert-manager's controllers beside a real Kubernetes
//! - [`KubeRouter`]: what carries out NetworkPolicies in the networks of nodes of this machine
//! - [`monitoring`]: Prometheus and Alertmanager beside a world, with what is shipped for them
//! - [`Writer`]: eight clients that write all the time, and watches; at the end every acknowledged write must be readable
//! - [`history`]: what a few more clients called and were answered; it must be linearizable
//! - [`rotations`]: how a user orders and follows a rotation of an authority
//! - [`Disruptions`]: who took which Pod, and what served at that moment
//! - [`Page`]: a page of the documentation; every command on it is run in a [`Shell`]
//! - [`Timeline`]: what a person sees of a cluster, second by second
//! - [`Session`]: what a page shows of a shell; what a run prints is compared with it
//! - [`conformance`]: localkube compared with a real Kubernetes, call by call
//!
//! This crate never looks into the operator. It observes what a user can observe.

mod api_servers;
pub mod backups;
pub mod behaviours;
mod cert_manager;
mod client;
pub mod conformance;
mod disruptions;
pub mod history;
pub mod kamaji;
mod kube_router;
mod kubernetes;
pub mod monitoring;
pub mod operator;
mod page;
mod playground;
pub mod rig;
pub mod rotations;
pub mod rounds;
mod s3;
mod session;
mod shell;
mod timeline;
mod world;
mod writer;

pub use api_servers::{ApiServers, Clients, Served, Tenant};
pub use cert_manager::CertManager;
pub use client::{NamespaceClient, agent_image, is_ready, kube_client, until};
pub use disruptions::{Disruptions, Taken};
pub use kube_router::KubeRouter;
pub use kubernetes::Kubernetes;
pub use page::Page;
pub use playground::{Playground, refused};
pub use s3::S3Server;
pub use session::{Session, Step, Values};
pub use shell::Shell;
pub use timeline::Timeline;
pub use world::{ProcessFault, World, clear_directory};
pub use writer::{Acknowledged, Figures, Pause, Writer, report};

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// A spec like that of the sample, with small volumes.
pub fn spec(size: usize) -> Value {
    json!({"size": size, "version": version(), "storageSpec": {"volumeSizeRequest": "64Mi"}})
}

/// Whether this is a run with `--full`, which repeats what one round shows (`QUORATE_TEST_FULL`).
pub fn is_full() -> bool {
    std::env::var_os("QUORATE_TEST_FULL").is_some()
}

/// The etcd version under test: `QUORATE_TEST_ETCD_VERSION`, or the middle one of the three pinned.
pub fn version() -> String {
    std::env::var("QUORATE_TEST_ETCD_VERSION").unwrap_or_else(|_| "3.6.16".to_owned())
}

/// A program of others that `cargo xtask tools SET` builds.
pub fn tool(name: &str, set: &str) -> Result<PathBuf> {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin");
    let directory = std::env::var_os("QUORATE_ETCD_BIN_DIR").map_or_else(built, PathBuf::from);
    let program = directory.join(name);
    ensure!(program.exists(), "{} does not exist: cargo xtask tools {set}", program.display());
    Ok(program)
}
