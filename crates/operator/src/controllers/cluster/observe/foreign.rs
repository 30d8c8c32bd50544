//! Objects of somebody else that have our names. The watches do not show them, because they do not carry our label: they
//! are learnt of when a create meets them, and asked after until they are gone.

use std::collections::BTreeSet;

use quorate_api::keys;
use quorate_manifests::{Kind, labels};
use quorate_model::{ClusterRef, ClusterUid};
use serde_json::Value;

use crate::controllers::cluster::Shared;
use crate::controllers::cluster::execute::send;

/// An object of somebody else that has our name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Foreign {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

/// Those that are known.
#[derive(Debug, Default)]
pub struct Foreigners(BTreeSet<Foreign>);

impl Foreigners {
    /// One was met. Whether it was not known before.
    pub fn met(&mut self, foreign: Foreign) -> bool {
        self.0.insert(foreign)
    }

    /// Asks after each of them. What can not be read is believed to be there still.
    pub async fn look(&mut self, shared: &Shared, cluster: &ClusterRef, uid: &ClusterUid) -> Vec<String> {
        for foreign in std::mem::take(&mut self.0) {
            let gone = match send::read(shared, foreign.kind, &cluster.namespace, &foreign.name).await {
                Ok(object) => object.is_none_or(|object| is_ours(foreign.kind, &object, cluster, uid)),
                Err(_) => false,
            };
            if !gone {
                self.0.insert(foreign);
            }
        }
        self.0.iter().map(|foreign| foreign.kind.called(&cluster.namespace, &foreign.name)).collect()
    }
}

/// Whether an object is one of this cluster, so that the watches show it and the planner judges it. Volumes outlive
/// their cluster and are told by their label; everything else by the incarnation that owns it.
pub fn is_ours(kind: Kind, object: &Value, cluster: &ClusterRef, uid: &ClusterUid) -> bool {
    let meta = &object["metadata"];
    match kind {
        Kind::Volume => meta["labels"][keys::CLUSTER] == *cluster.name,
        Kind::Cluster => meta["uid"] == *uid.as_str(),
        Kind::Pod | Kind::Service | Kind::Budget | Kind::Secret => {
            let meta = serde_json::from_value(meta.clone()).unwrap_or_default();
            labels::is_owned_by(&meta, uid)
        }
    }
}
