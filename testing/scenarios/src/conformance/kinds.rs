//! The kinds that the calls use.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The group of the EtcdCluster in these calls. It is not the operator's group, so the operator never sees one.
const GROUP: &str = "conformance.etcd.io";

/// A kind, and the URL of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the kind of that name")]
pub enum Kind {
    ConfigMap,
    Secret,
    ServiceAccount,
    Service,
    Claim,
    Pod,
    Lease,
    Budget,
    Job,
    EtcdCluster,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::ConfigMap,
        Self::Secret,
        Self::ServiceAccount,
        Self::Service,
        Self::Claim,
        Self::Pod,
        Self::Lease,
        Self::Budget,
        Self::Job,
        Self::EtcdCluster,
    ];

    /// The plural name in URLs.
    pub fn plural(self) -> &'static str {
        self.words().2
    }

    /// The kind in objects.
    pub fn kind(self) -> &'static str {
        self.words().1
    }

    /// `policy/v1`
    pub fn api_version(self) -> String {
        self.words().0.to_owned()
    }

    /// The URL path of the objects in a namespace.
    pub fn path(self, namespace: &str) -> String {
        let (version, _, plural) = self.words();
        let root = if version.contains('/') { "apis" } else { "api" };
        format!("/{root}/{version}/namespaces/{namespace}/{plural}")
    }

    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::ConfigMap => ("v1", "ConfigMap", "configmaps"),
            Self::Secret => ("v1", "Secret", "secrets"),
            Self::ServiceAccount => ("v1", "ServiceAccount", "serviceaccounts"),
            Self::Service => ("v1", "Service", "services"),
            Self::Claim => ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
            Self::Pod => ("v1", "Pod", "pods"),
            Self::Lease => ("coordination.k8s.io/v1", "Lease", "leases"),
            Self::Budget => ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
            Self::Job => ("batch/v1", "Job", "jobs"),
            Self::EtcdCluster => ("conformance.etcd.io/v1alpha1", "EtcdCluster", "etcdclusters"),
        }
    }
}

/// The installed definition of EtcdCluster, moved to the group of these calls.
pub fn definition() -> CustomResourceDefinition {
    let mut definition = quorate_api::crd("EtcdCluster").expect("it is one of our kinds");
    GROUP.clone_into(&mut definition.spec.group);
    definition.spec.names.short_names = None;
    definition.metadata.name = Some(format!("{}.{GROUP}", definition.spec.names.plural));
    definition
}
