//! The controllers, a folder for each kind, with the same files in each.
//!
//! `cluster` runs EtcdClusters. `example` is a second kind, for tests: it shows what a controller needs.

mod cluster;
#[cfg(test)]
mod example;

use prometheus_client::registry::Registry;
use quorate_etcd::Transport;
use quorate_manifests::Defaults;
use quorate_planner::fleet::Limit;

use crate::runtime::fleet::Fleets;
use cluster::ClusterController;

/// What the controllers are configured with.
pub(crate) struct Config {
    /// What specs may leave out.
    pub(crate) defaults: Defaults,
    /// What connections to members run over.
    pub(crate) transport: Transport,
    /// How many clusters may take new defaults at a time.
    pub(crate) max_rolling: Limit,
}

/// Adds every controller of the product.
pub(crate) fn add_all(fleets: &mut Fleets, registry: &mut Registry, config: Config) {
    let Config { defaults, transport, max_rolling } = config;
    fleets.add(ClusterController::new(&fleets.runtime().clone(), registry, defaults, transport, max_rolling));
}
