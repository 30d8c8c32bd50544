//! Names that stand in metadata: labels, annotations, the finalizer.

/// The API group, and the prefix of every key that is ours.
pub const GROUP: &str = "operator.etcd.io";

/// The API version.
pub const VERSION: &str = "v1alpha1";

/// Label: the cluster an object belongs to. Reflectors select on it.
pub const CLUSTER: &str = "operator.etcd.io/cluster";

/// Label: the member an object belongs to.
pub const MEMBER: &str = "operator.etcd.io/member";

/// Label: what runs, always [`NAME_VALUE`].
pub const NAME: &str = "app.kubernetes.io/name";

/// The value of [`NAME`].
pub const NAME_VALUE: &str = "etcd";

/// Label: the cluster, once more, under the name that other tools know.
pub const INSTANCE: &str = "app.kubernetes.io/instance";

/// Label: who made the object, always [`MANAGED_BY_VALUE`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The value of [`MANAGED_BY`].
pub const MANAGED_BY_VALUE: &str = "quorate";

/// Label: the cluster, as the etcd-io operator writes it.
pub const APP: &str = "app";

/// Annotation by which a human lets a new EtcdCluster serve the volumes of an earlier one: the id of that cluster.
pub const ADOPT: &str = "operator.etcd.io/adopt";

/// Annotation on volumes: the uid of the EtcdCluster they were made for.
pub const CLUSTER_UID: &str = "operator.etcd.io/cluster-uid";

/// Annotation on volumes: the id of the etcd cluster whose data they hold.
pub const CLUSTER_ID: &str = "operator.etcd.io/cluster-id";

/// Annotation on volumes: the id of the etcd member whose data they hold.
pub const MEMBER_ID: &str = "operator.etcd.io/member-id";

/// Annotation on volumes: the token of the bootstrap that their data stem from.
pub const CLUSTER_TOKEN: &str = "operator.etcd.io/cluster-token";

/// Annotation on Pods: the revision of everything that shaped them.
pub const REVISION: &str = "operator.etcd.io/revision";

/// Annotation and label on Pods whose member has joined its cluster. The annotation is read by the guard: an empty volume is a
/// loss from then on. The label is what the client Service selects by: a Pod of an attempt given up that runs after all founds a
/// cluster of its own, and no client is to meet it. The value is [`JOINED_VALUE`].
pub const JOINED: &str = "operator.etcd.io/joined";

/// The value of [`JOINED`].
pub const JOINED_VALUE: &str = "true";

/// The scheduling gate that founders' Pods are made with. Whoever sees such a Pod while the cluster is still being founded removes
/// it; what a call makes that comes later is placed on no node.
pub const FOUNDING_GATE: &str = "operator.etcd.io/founding";

/// The finalizer on EtcdClusters: Pods stop and the retention policy is carried out before the object goes.
pub const FINALIZER: &str = "operator.etcd.io/cluster-cleanup";
