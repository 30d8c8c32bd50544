//! Whose data a snapshot has. `spec.clusterID` confirms what is given up, and nothing of an object in a store tells a person what comes: in a
//! namespace with many clusters one wrong name would give a control plane the data of another one. So the data of another EtcdCluster are
//! restored only where the order says whose they are.

use quorate_api::bootstrap::SnapshotOf;
use quorate_api::restore::{EtcdRestoreStatus, ReadSnapshot, RestorePhase};
use quorate_api::{EtcdCluster, EtcdRestore, Explanation, Reason};

use super::decide::Seen;

/// Why nothing is restored: the snapshot that was read is not of the EtcdCluster that is expected.
pub(super) fn refused(seen: &Seen<'_>, cluster: &EtcdCluster, read: &ReadSnapshot) -> Option<Explanation> {
    let restore = seen.restore;
    let is_meant = match said(restore) {
        Some(said) => is_of(&said, namespace(restore), read),
        None => !is_of_other(cluster, read),
    };
    let whose = named(read).filter(|_| !is_meant)?;
    let text = match said(restore) {
        Some(_) => format!(
            "the snapshot is of {whose}, which is not what this EtcdRestore says (spec.snapshot.of, or latest): nothing is done. Create another \
             EtcdRestore with the right snapshot"
        ),
        None => format!(
            "the snapshot is of {whose}, and this EtcdRestore replaces the data of EtcdCluster {}: nothing is done. If these data are meant, \
             create another EtcdRestore that says so in spec.snapshot.of",
            restore.spec.cluster_name
        ),
    };
    Some(Explanation::new(Reason::OtherCluster, text))
}

/// The explanation, with whose data they are where they are another cluster's, or where nothing tells.
pub(super) fn told(
    seen: &Seen<'_>,
    status: &EtcdRestoreStatus,
    phase: RestorePhase,
    why: Explanation,
) -> Explanation {
    match phase {
        RestorePhase::Failed | RestorePhase::Pending | RestorePhase::Running => return why,
        RestorePhase::Complete => {}
    }
    let (Some(cluster), Some(read)) = (seen.cluster, &status.snapshot) else { return why };
    let text = match named(read) {
        Some(whose) if is_of_other(cluster, read) => format!("The data are those of {whose}"),
        Some(_) => return why,
        None => "The object has no manifest, so whose data they are is not known".to_owned(),
    };
    Explanation::new(why.reason(), format!("{}. {text}", why.message().trim_end_matches('.')))
}

/// Whether the manifest of the snapshot says that it is of another cluster: neither the name nor the cluster ID is one of this one's.
pub(super) fn is_of_other(cluster: &EtcdCluster, read: &ReadSnapshot) -> bool {
    let status = cluster.status.as_ref();
    let present = status.and_then(|status| status.cluster_id.as_ref());
    let before =
        status.and_then(|status| status.incarnation.as_ref()).map(|present| &present.replaced_cluster_id);
    let has_id = [present, before].into_iter().flatten().any(|id| read.cluster_id.as_ref() == Some(id));
    let meta = &cluster.metadata;
    let own = meta
        .namespace
        .as_ref()
        .zip(meta.name.as_ref())
        .map(|(namespace, name)| format!("{namespace}/{name}"));
    named(read).is_some() && !has_id && read.cluster != own
}

/// What the order says: by itself, or by the name under which the newest backup is looked for.
fn said(restore: &EtcdRestore) -> Option<SnapshotOf> {
    let snapshot = &restore.spec.snapshot;
    let latest = || {
        let latest = snapshot.latest.as_ref()?;
        Some(SnapshotOf {
            cluster: latest.cluster.clone(),
            cluster_namespace: latest.cluster_namespace.clone(),
            cluster_id: latest.cluster_id.clone(),
        })
    };
    snapshot.of.clone().or_else(latest)
}

fn is_of(said: &SnapshotOf, namespace: &str, read: &ReadSnapshot) -> bool {
    let SnapshotOf { cluster, cluster_namespace, cluster_id } = said;
    let in_namespace = cluster_namespace.as_deref().unwrap_or(namespace);
    let has_name =
        cluster.as_ref().is_none_or(|name| read.cluster.as_ref() == Some(&format!("{in_namespace}/{name}")));
    let number = |id: &String| u64::from_str_radix(id, 16).ok();
    let has_id = cluster_id.as_ref().is_none_or(|id| read.cluster_id.as_ref().and_then(number) == number(id));
    has_name && has_id
}

fn namespace(restore: &EtcdRestore) -> &str {
    restore.metadata.namespace.as_deref().unwrap_or_default()
}

/// For people; `None` where nothing tells.
fn named(read: &ReadSnapshot) -> Option<String> {
    match (&read.cluster, &read.cluster_id) {
        (Some(cluster), Some(id)) => Some(format!("EtcdCluster {cluster} (cluster ID {id})")),
        (Some(cluster), None) => Some(format!("EtcdCluster {cluster}")),
        (None, Some(id)) => Some(format!("the etcd cluster with ID {id}")),
        (None, None) => None,
    }
}
