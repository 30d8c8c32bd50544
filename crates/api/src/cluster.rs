//! The spec of an EtcdCluster. Every rule is beside its field; rules on more than one field are in `rules`.

use k8s_openapi::api::core::v1::LocalObjectReference;
use kube_derive::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bootstrap::BootstrapSpec;
use crate::rules::{self, rule};
use crate::status::EtcdClusterStatus;

mod auth;
mod backup;
mod backup_before;
mod disruption;
mod maintenance;
mod metadata;
mod network_policy;
mod options;
mod placement;
mod pod;
mod recovery;
mod service;
mod storage;
mod tls;
mod updates;

pub use auth::{AfterRestore, AuthSpec};
pub use backup::{AllowedStore, BackupPolicy};
pub use backup_before::{
    BackupBefore, DEFAULT_DELETION_DEADLINE, DEFAULT_UPGRADE_DEADLINE, DeletionSpec, UpgradeSpec,
};
pub use disruption::{DisruptionSpec, PodDisruptionBudgetPolicy};
pub use maintenance::{DefragSpec, MaintenanceSpec};
pub use metadata::ExtraMetadata;
pub use network_policy::NetworkPolicySpec;
pub use options::{AutoCompactionMode, EtcdOptions};
pub use placement::{OneMemberPerNode, PlacementSpec, Zones};
pub use pod::{PodMetadata, PodSpec, PodTemplate, Resources};
pub use recovery::{DEFAULT_GRACE_PERIOD, DEFAULT_KEEP_VOLUMES, RecoverySpec};
pub use service::{ServiceSpec, ServiceType, TrafficDistribution};
pub use storage::{AccessMode, DEFAULT_VOLUME_SIZE, Medium, Retention, RetentionPolicy, StorageSpec};
pub use tls::{
    AltNames, AutoTlsConfig, CertManagerConfig, RotationSpec, SecretsConfig, TlsProvider, TlsProviderConfig,
    TlsSpec,
};
pub use updates::{OperatorDefaults, UpdatesSpec};

/// The largest `size`.
///
/// Every write waits for a majority, so each further pair of members costs latency and buys the loss of one more;
/// etcd's own advice ends at 7. 9 leaves room for a migration and still keeps a slip of the finger (`size: 30`) out.
pub const MAX_SIZE: u32 = 9;

/// The longest name of a cluster: `<name>-<n>`, with the largest `n` there is, must be a DNS label of 63.
pub const MAX_NAME_LENGTH: usize = 52;

/// The image repository when neither the spec nor the operator names one.
pub const DEFAULT_IMAGE_REGISTRY: &str = "gcr.io/etcd-development/etcd";

/// The desired state of an etcd cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operator.etcd.io",
    version = "v1alpha1",
    kind = "EtcdCluster",
    doc = "An etcd cluster: one Pod, one volume and one etcd member for each of its members.",
    plural = "etcdclusters",
    shortname = "etcd",
    shortname = "ec",
    namespaced,
    status = "EtcdClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    crates(kube_core = "::kube_core"),
    scale(
        spec_replicas_path = ".spec.size",
        status_replicas_path = ".status.currentReplicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{ "name": "Size", "type": "integer", "jsonPath": ".spec.size",
        "description": "Desired members" }"#,
    printcolumn = r#"{ "name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas",
        "description": "Members that serve clients" }"#,
    printcolumn = r#"{ "name": "Version", "type": "string", "jsonPath": ".status.currentVersion",
        "description": "The etcd version of the members" }"#,
    printcolumn = r#"{ "name": "Leader", "type": "string", "jsonPath": ".status.members[?(@.isLeader==true)].name",
        "description": "The member that leads" }"#,
    printcolumn = r#"{ "name": "Phase", "type": "string", "jsonPath": ".status.phase",
        "description": "The phase of the cluster" }"#,
    printcolumn = r#"{ "name": "Status", "type": "string", "jsonPath": ".status.summary",
        "description": "What matters most now: the message of condition Ready, cut" }"#,
    printcolumn = r#"{ "name": "Target", "type": "string", "jsonPath": ".status.targetVersion", "priority": 1,
        "description": "The committed etcd version" }"#,
    printcolumn = r#"{ "name": "Cluster-ID", "type": "string", "jsonPath": ".status.clusterID", "priority": 1,
        "description": "The cluster ID in etcd" }"#,
    printcolumn = r#"{ "name": "Up-To-Date", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"UpToDate\")].status",
        "description": "Whether the members match the spec" }"#,
    printcolumn = r#"{ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::spec()))]
pub struct EtcdClusterSpec {
    /// How many members the cluster has. 3 survives the loss of one, 5 the loss of two; an even number survives no
    /// more than the odd number below it. 0 hibernates the cluster: its Pods stop, its volumes and member identities
    /// stay, and any later size wakes it with its data. At most 9, because every write waits for a majority.
    #[schemars(with = "i32", extend("x-kubernetes-validations" = [
        rule("self >= 0", "size must not be negative: 0 hibernates the cluster, 1 or more runs it"),
        rule("self <= 9", "size must not be larger than 9: every write waits for a majority, so more members make \
            etcd slower; 3 or 5 serve nearly always"),
    ]))]
    pub size: u32,

    /// The etcd version to run, such as 3.6.16, with or without a leading "v". Also the tag of the image, unless
    /// `image` is set.
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = [
        rule(r"self.matches('^v?(0|[1-9][0-9]{0,3})([.](0|[1-9][0-9]{0,3})){2}$')",
            "version must be a full etcd release such as 3.6.16 or v3.6.16"),
        rule(r"!self.matches('^v?([012]|3[.][0-4]|[4-9]|[1-9][0-9]+)[.]')",
            "version must be of etcd 3.5 or a later 3.x line"),
    ]))]
    pub version: String,

    /// The whole reference of the etcd image, for mirrors with names of their own. It must contain the version in
    /// `version`. Absent: `imageRegistry` with the version as tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = [
        rule("self.matches('^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$')",
            "image must be a whole image reference such as registry.example/etcd:v3.6.16"),
    ]))]
    pub image: Option<String>,

    /// The image repository, without a tag. Absent: the default of the operator, which is
    /// gcr.io/etcd-development/etcd unless its flag --image-registry names another.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = [
        rule("self.matches('^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*$')",
            "imageRegistry must be an image repository without a tag, such as gcr.io/etcd-development/etcd; \
             to name a whole image use spec.image"),
    ]))]
    pub image_registry: Option<String>,

    /// When the kubelet pulls the image: Always, IfNotPresent or Never. Absent: Kubernetes decides by the tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PullPolicy")]
    pub image_pull_policy: Option<PullPolicy>,

    /// Secrets of this namespace with credentials for the image registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::secret_names")]
    pub image_pull_secrets: Vec<LocalObjectReference>,

    /// Where each member keeps its data. Absent: a volume of 2Gi of the default storage class for each member.
    #[serde(default)]
    pub storage_spec: StorageSpec,

    /// What the cluster begins with. Absent: with nothing. Fixed once the EtcdCluster exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapSpec>,

    /// What becomes of members that are lost, and of their volumes.
    #[serde(default)]
    pub recovery: RecoverySpec,

    /// TLS between members and with clients. Absent: TLS with certificates of the operator.
    #[serde(default)]
    pub tls: TlsSpec,

    /// Who may read and write which keys. Absent: everybody with a certificate of the cluster may do everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthSpec>,

    /// The Service NAME-client, by which clients reach the members. Absent: of type ClusterIP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceSpec>,

    /// Who reaches the members by the network. Absent: no NetworkPolicy is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicySpec>,

    /// A field that newer versions of the etcd-io operator propose. Refused: every member serves its metrics on port 2381.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "metrics_of_upstream")]
    pub metrics: Option<Value>,

    /// Further etcd flags, each as one item: `--flag=value`, or `--flag` for a switch. A flag given here replaces the
    /// one that the operator would give. Flags that belong to a member's identity, that name
    /// certificates, or that would lose data are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::etcd_options")]
    pub etcd_options: Vec<String>,

    /// The settings of etcd that matter most, typed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd: Option<EtcdOptions>,

    /// Labels and annotations of every object that the operator creates for this cluster: Pods, PersistentVolumeClaims, Services, Secrets,
    /// the PodDisruptionBudget, the NetworkPolicy, and Jobs. A value in podTemplate, storageSpec or a jobTemplate comes before one of the same key here. An edit
    /// restarts the members, one after another, because their Pods are created again with it; the other objects are patched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_metadata: Option<ExtraMetadata>,

    /// What is added to the Pods of members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,

    /// How members are protected from drains and other evictions.
    #[serde(default)]
    pub disruption: DisruptionSpec,

    /// How members are spread over nodes and zones.
    #[serde(default)]
    pub placement: PlacementSpec,

    /// While this is true, no change of the spec or of the set of members is carried out. Lost Pods are still restarted on their own
    /// volumes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,

    /// When changes that do not come from this spec reach the members.
    #[serde(default)]
    pub updates: UpdatesSpec,

    /// What is done before etcd is upgraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<UpgradeSpec>,

    /// What is done before the members of a deleted EtcdCluster are stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<DeletionSpec>,

    /// What backups of this cluster may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupPolicy>,

    /// What is done for the databases of the members.
    #[serde(default)]
    pub maintenance: MaintenanceSpec,
}

fn metrics_of_upstream(_: &mut SchemaGenerator) -> Schema {
    rules::refused(
        "not supported: metrics. Remove it: every member serves the metrics of etcd on port 2381 at /metrics without a certificate, and \
         the chart's value monitoring.members.enabled creates a PodMonitor for all members",
    )
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    /// At every start of a container.
    Always,
    /// When the node does not have it.
    IfNotPresent,
    /// Never: the node must have it.
    Never,
}

impl PullPolicy {
    /// The value in Kubernetes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}
