//! The controller of EtcdUsers. Each pass: observe -> decide -> status -> acts, in etcd and in Kubernetes.
//!
//! What is next is decided by [`quorate_orders::user`]. `pass`: the worker, which reads and writes; `etcd`: what it asks of etcd, and changes
//! there.

mod etcd;
mod pass;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use quorate_api::{EtcdUser, keys};
use quorate_etcd::Transport;

use crate::controllers::Kinds;
use crate::controllers::cluster::ClusterController;
use crate::controllers::desk::by_label;
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
    kinds: Kinds,
    /// The Secrets of users.
    secrets: Index<Secret>,
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
        kinds: Kinds,
        clusters: &ClusterController,
    ) -> Self {
        let secrets = Index::default();
        let (pods, certificates) = (clusters.pods().clone(), clusters.secrets().clone());
        Self { runtime: runtime.clone(), transport, kinds, secrets, pods, certificates }
    }
}

impl Controller for UserController {
    type Root = ReadUser;
    type Worker = UserWorker;
    const NAME: &'static str = "user";

    fn roots(&self) -> &Index<ReadUser> {
        &self.kinds.users
    }

    fn watch(&self, watches: &mut Watches<'_>) {
        watches.add(&Config::default(), &self.kinds.users, itself);
        watches.add(&Config::default().labels(keys::USER), &self.secrets, |meta| by_label(meta, keys::USER));
    }

    fn worker(&self, root: &NamespacedName) -> UserWorker {
        UserWorker::new(self.clone(), root)
    }

    fn forget(&self, root: &NamespacedName) {
        self.kinds.users.remove_if_empty(root);
        self.secrets.remove_if_empty(root);
    }
}
