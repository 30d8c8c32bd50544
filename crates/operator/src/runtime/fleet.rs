//! One worker for each cluster: begun when the cluster is first seen, ended when it is gone. Workers share nothing they
//! could wait for each other on, save the bound on writes to the Kubernetes API (R14).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_model::ClusterRef;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::controllers::cluster::{self, Shared};
use crate::runtime::watch::{Indexes, Wake};

/// The workers.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

struct Inner {
    shared: Shared,
    workers: Mutex<Workers>,
}

#[derive(Default)]
struct Workers {
    /// Every cache is filled and we lead.
    open: bool,
    by_cluster: HashMap<ClusterRef, Arc<Notify>>,
    tasks: JoinSet<()>,
}

impl Fleet {
    /// A fleet that waits for [`Fleet::open`].
    pub fn new(shared: Shared) -> Self {
        Self(Arc::new(Inner { shared, workers: Mutex::default() }))
    }

    /// From now on clusters are worked on.
    pub fn open(&self) {
        self.workers().open = true;
        for cluster in self.0.shared.indexes.clusters.clusters() {
            self.wake(&cluster);
        }
    }

    /// Waits until every worker has ended; `shared.stop` asks them to.
    pub async fn ended(&self) {
        let mut tasks = std::mem::take(&mut self.workers().tasks);
        while tasks.join_next().await.is_some() {}
    }

    /// Ends every worker where it is, as a crash would.
    pub fn abort(&self) {
        self.workers().tasks.abort_all();
    }

    /// What is watched.
    pub fn indexes(&self) -> &Indexes {
        &self.0.shared.indexes
    }

    /// Ends a worker whose cluster is gone. False if it has come back meanwhile.
    pub(crate) fn retire(&self, cluster: &ClusterRef) -> bool {
        let mut workers = self.workers();
        if self.exists(cluster) {
            return false;
        }
        workers.by_cluster.remove(cluster);
        true
    }

    fn exists(&self, cluster: &ClusterRef) -> bool {
        !self.0.shared.indexes.clusters.shelf(cluster).objects.is_empty()
    }

    fn workers(&self) -> MutexGuard<'_, Workers> {
        self.0.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Fleet {
    fn wake(&self, cluster: &ClusterRef) {
        let mut workers = self.workers();
        if let Some(bell) = workers.by_cluster.get(cluster) {
            bell.notify_one();
        } else if workers.open && self.exists(cluster) && !self.0.shared.stop.is_cancelled() {
            let bell = Arc::new(Notify::new());
            workers.by_cluster.insert(cluster.clone(), bell.clone());
            while workers.tasks.try_join_next().is_some() {}
            workers.tasks.spawn(cluster::work(self.clone(), self.0.shared.clone(), cluster.clone(), bell));
        }
    }
}
