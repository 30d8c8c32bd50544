//! What the clusters of a fleet share of the operator's process, and the turn of one of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_api::EtcdCluster;
use quorate_apistore::fields::{name, namespace};
use quorate_manifests::fleet;
use quorate_model::ClusterRef;
use quorate_model::fleet::Takes;
use quorate_model::snapshot::DefaultsTurn;
use quorate_planner::fleet::Turns;
use serde::Deserialize as _;
use serde_json::Value;

use crate::world::objects::resource;
use crate::world::{Kind, World};

/// What the clusters of a fleet share of the operator's process.
pub(in crate::world) type Shared = Arc<Mutex<Process>>;

/// The operator's process, but for its workers.
#[derive(Debug)]
pub(in crate::world) struct Process {
    pub(super) turns: Turns,
    /// Its watch of EtcdClusters is behind: it has them as of this version.
    pub(super) behind: Option<u64>,
}

impl World {
    /// Whether it is the turn of this cluster, by the product's own code; `None` where it is the only one.
    pub(in crate::world) fn defaults_turn(&mut self) -> Option<DefaultsTurn> {
        let process = self.turns.clone()?;
        let mut process = lock(&process);
        let present = || self.store.objects(&resource(Kind::Cluster));
        let earlier = process.behind.and_then(|at| self.store.objects_at(&resource(Kind::Cluster), at).ok());
        let all = earlier.unwrap_or_else(present);
        let own = all.iter().find(|cluster| at(cluster) == self.at).and_then(|own| parsed(own));
        let Some(wants) = own.and_then(|own| fleet::wants(&own, &self.at, &self.defaults)) else {
            process.turns.none_for(&self.at);
            return Some(DefaultsTurn::Now);
        };
        let taking: Vec<Takes> = all.iter().filter_map(|cluster| taking(cluster)).collect();
        Some(process.turns.turn_of(&wants, &taking, all.len(), self.operators_time()))
    }
}

fn at(cluster: &Value) -> ClusterRef {
    ClusterRef::new(namespace(cluster), name(cluster))
}

fn parsed(cluster: &Value) -> Option<EtcdCluster> {
    EtcdCluster::deserialize(cluster).ok()
}

/// A cluster of the fleet, if it takes new defaults.
pub(super) fn taking(cluster: &Value) -> Option<Takes> {
    // Most take none, and are not parsed.
    cluster.pointer("/status/takesDefaults")?;
    fleet::takes(&parsed(cluster)?, &at(cluster))
}

pub(super) fn lock(process: &Shared) -> MutexGuard<'_, Process> {
    process.lock().unwrap_or_else(PoisonError::into_inner)
}
