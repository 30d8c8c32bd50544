//! Objects of the cluster from which somebody took its label. The watches select on the label, so they do not show them. A volume
//! that is recorded is read by name before it counts as lost; a Pod, the connection Secret and the NetworkPolicy, once their creation found that they exist.

use quorate_manifests::{Kind, labels, names};
use quorate_model::ClusterRef;

use super::{parsed, uid};
use crate::command::Task;
use crate::memory::Memory;
use crate::objects::{ClusterView, Object, ReadCluster};

/// Whether an object of the cluster is read by name once its creation found that it exists without the label, so that the label is put back.
pub(super) fn is_looked_for(object: &Object, at: &ClusterRef) -> bool {
    let is_connection = || object.meta().name == Some(names::connection(at));
    match object.kind() {
        Kind::Pod | Kind::NetworkPolicy => true,
        Kind::Secret => is_connection(),
        Kind::Cluster | Kind::Volume | Kind::Service | Kind::Budget | Kind::Certificate | Kind::Backup => {
            false
        }
    }
}

/// The reads of what the caches lack.
pub(super) fn to_read<'a>(
    view: &'a ClusterView,
    cluster: &'a ReadCluster,
    memory: &'a Memory,
) -> impl Iterator<Item = Task> + use<'a> {
    let members = parsed(cluster).and_then(|cluster| cluster.status.as_ref()).map(|status| &status.members);
    let volumes = members.into_iter().flatten().filter(|member| member.volume_uid.is_some());
    let lacking = volumes.map(|member| &member.name).filter(|name| !view.volumes.contains_key(*name));
    let volumes = lacking.map(|name| Task::Read { kind: Kind::Volume, name: name.clone() });
    let others = memory.unlabelled.iter().map(|(kind, name)| Task::Read { kind: *kind, name: name.clone() });
    volumes.chain(others)
}

/// Puts what was read into the view, if it is what is looked for.
pub(super) fn take(
    view: &mut ClusterView,
    cluster: &ReadCluster,
    memory: &mut Memory,
    name: &str,
    read: Option<Object>,
    at: &ClusterRef,
) {
    let Some(object) = read else {
        // No kind has a name of another one: members end in a number after that of the cluster, which the policy has, and the Secret in a word.
        memory.unlabelled.retain(|(_, own)| own != name);
        return;
    };
    let (kind, meta) = (object.kind(), object.meta());
    let is_recorded = kind == Kind::Volume && recorded(cluster, name) == meta.uid.as_deref();
    let is_looked_for = memory.unlabelled.contains(&(kind, name.to_owned()));
    if is_looked_for && labels::is_labelled(meta, at) {
        memory.unlabelled.remove(&(kind, name.to_owned()));
    }
    if is_recorded || (is_looked_for && labels::is_owned_by(meta, &uid(cluster))) {
        view.insert(object);
    }
}

/// The uid of the member's volume in status.
fn recorded<'a>(cluster: &'a ReadCluster, name: &str) -> Option<&'a str> {
    let status = parsed(cluster)?.status.as_ref()?;
    status.members.iter().find(|member| member.name == name)?.volume_uid.as_deref()
}
