//! R25: the names that a cluster needs are read before the first act of its life. The watches select on the label of the cluster, so they do not
//! show what another program made, and a write is too late to find it.

use quorate_api::EtcdCluster;
use quorate_manifests::{Kind, NameConflict, names_to_bootstrap};

use super::parsed;
use crate::command::Task;
use crate::memory::Memory;
use crate::objects::{ClusterView, ReadCluster};
use crate::reply::WriteError;

/// The reads of the names that the cluster is to create objects under and that the caches do not show.
pub(super) fn to_read<'a>(
    view: &'a ClusterView,
    cluster: &'a ReadCluster,
) -> impl Iterator<Item = Task> + use<'a> {
    let names = before_first_act(cluster).map(names_to_bootstrap).into_iter().flatten();
    let is_seen = |kind: Kind, name: &String| match kind {
        Kind::Pod => view.pods.contains_key(name),
        Kind::Volume => view.volumes.contains_key(name),
        Kind::Service => view.services.contains_key(name),
        Kind::Secret => view.secrets.contains_key(name),
        Kind::Cluster | Kind::Budget | Kind::NetworkPolicy | Kind::Certificate | Kind::Backup => true,
    };
    names.filter(move |(kind, name)| !is_seen(*kind, name)).map(|(kind, name)| Task::Read { kind, name })
}

/// Whether the cluster is to create an object under this name, and has created none yet.
pub(super) fn is_needed(cluster: &ReadCluster, kind: Kind, name: &str) -> bool {
    let names = before_first_act(cluster).map(names_to_bootstrap).into_iter().flatten();
    names.into_iter().any(|(of, own)| of == kind && own == name)
}

/// A name that could not be read may be taken. It counts as taken until it is read.
pub(super) fn is_not_known(memory: &mut Memory, kind: Kind, name: &str, error: &WriteError) {
    let is_known = memory.conflicts.iter().any(|known| (known.kind, known.name.as_str()) == (kind, name));
    if !is_known {
        let made_by = Some(format!("it could not be read: {error}"));
        memory.conflicts.insert(NameConflict { kind, name: name.to_owned(), made_by });
    }
}

/// The EtcdCluster, if status records no attempt to bootstrap it, and it is to run.
fn before_first_act(cluster: &ReadCluster) -> Option<&EtcdCluster> {
    let cluster = parsed(cluster).filter(|cluster| cluster.metadata.deletion_timestamp.is_none())?;
    let status = cluster.status.as_ref();
    let has_begun = status.is_some_and(|status| status.bootstrap.is_some() || status.cluster_id.is_some());
    (!has_begun).then_some(cluster)
}
