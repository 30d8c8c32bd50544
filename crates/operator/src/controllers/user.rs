//! The controller of EtcdUsers. Each pass: observe -> decide -> status -> acts, in etcd and in Kubernetes.
//!
//! What is next is decided by [`quorate_orders::user`]. `pass`: the worker, which reads and writes; `etcd`: what it asks of etcd, and changes
//! there.

mod etcd;
mod pass;

use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use quorate_api::{EtcdUser, keys};
use quorate_etcd::Transport;
use quorate_reconcile::ReadCluster;

use crate::controllers::cluster::ClusterController;
use crate::runtime::controller::{Controller, Runtime};
use crate::runtime::watch::{Index, NamespacedName, Watches, itself};
use pass::UserWorker;

/// An EtcdUser, or why it cannot be read: one that a newer operator wrote must not stop the watch.
pub(super) type ReadUser = DeserializeGuard<EtcdUser>;

/// The controller of EtcdUsers.
#[derive(Clone)]
pub(crate) struct UserController {
    runtime: Runtime,
    transport: Transport,
    users: Index<ReadUser>,
    /// The Secrets of users.
    secrets: Index<Secret>,
    clusters: Index<ReadCluster>,
    /// Members' Pods.
    pods: Index<Pod>,
    /// The Secrets of EtcdClusters.
    certificates: Index<Secret>,
}

impl UserController {
    /// The controller. What it needs of EtcdClusters is in the caches of their own controller.
    pub(crate) fn new(
        runtime: &Runtime,
        transport: Transport,
        users: Index<ReadUser>,
        clusters: &ClusterController,
    ) -> Self {
        let secrets = Index::default();
        let (pods, certificates) = (clusters.pods().clone(), clusters.secrets().clone());
        let clusters = clusters.roots().clone();
        Self { runtime: runtime.clone(), transport, users, secrets, clusters, pods, certificates }
    }
}

impl Controller for UserController {
    type Root = ReadUser;
    type Worker = UserWorker;
    const NAME: &'static str = "user";

    fn roots(&self) -> &Index<ReadUser> {
        &self.users
    }

    fn watch(&self, watches: &mut Watches<'_>) {
        watches.add(&Config::default(), &self.users, itself);
        watches.add(&Config::default().labels(keys::USER), &self.secrets, by_label);
    }

    fn worker(&self, root: &NamespacedName) -> UserWorker {
        UserWorker::new(self.clone(), root.clone())
    }

    fn forget(&self, root: &NamespacedName) {
        self.users.remove_if_empty(root);
        self.secrets.remove_if_empty(root);
    }
}

fn by_label(meta: &ObjectMeta) -> Option<NamespacedName> {
    Some(NamespacedName::new(meta.namespace.as_ref()?, meta.labels.as_ref()?.get(keys::USER)?))
}
