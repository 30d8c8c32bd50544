//! The kinds that are served: the built-in ones that the operator, the tests and kubectl need, and those that custom
//! resource definitions add.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::fields::{flag, integer, items, text};
use crate::schema::Schema;

/// A resource, as URLs name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    /// The API group, empty for the core.
    pub group: String,
    /// The plural.
    pub plural: String,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Its resource.
    pub resource: ResourceKey,
    /// Its namespace, empty for cluster-scoped resources.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The properties of a kind.
#[derive(Clone, Debug)]
pub struct ResourceInfo {
    /// The API group, empty for the core group.
    pub group: String,
    /// The version it is served in.
    pub version: String,
    /// `Pod`
    pub kind: String,
    /// `pods`
    pub plural: String,
    /// `pod`
    pub singular: String,
    /// `po`
    pub short_names: Vec<String>,
    /// `all`
    pub categories: Vec<String>,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// `status`, `scale`, `eviction` and so on.
    pub subresources: Vec<String>,
    /// Printer columns of a custom resource.
    pub columns: Vec<PrinterColumn>,
    /// The schema of a custom resource, as defined.
    pub schema: Option<Value>,
    /// The same schema, compiled.
    pub compiled: Option<Arc<Schema>>,
    /// The paths of the scale subresource.
    pub scale: Option<ScalePaths>,
}

/// A column of `kubectl get`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrinterColumn {
    /// Its heading.
    pub name: String,
    /// `integer`, `string`, `date` and so on.
    pub kind: String,
    /// An optional format.
    pub format: Option<String>,
    /// What the column shows.
    pub description: Option<String>,
    /// 0 is always shown, greater values only with `-o wide`.
    pub priority: i32,
    /// The JSONPath of its value.
    pub json_path: String,
}

/// The fields behind the scale subresource of a custom resource, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// The desired replicas.
    pub spec_replicas: String,
    /// The observed replicas.
    pub status_replicas: String,
    /// The selector of the Pods.
    pub selector: Option<String>,
}

/// Every kind that is served.
#[derive(Clone, Debug)]
pub struct Resources {
    kinds: BTreeMap<ResourceKey, Arc<ResourceInfo>>,
}

impl ResourceKey {
    /// The kind with this plural in this group.
    pub fn new(group: impl Into<String>, plural: impl Into<String>) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }
}

impl ObjectKey {
    /// One object; the namespace is empty for cluster-scoped resources.
    pub fn new(resource: ResourceKey, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { resource, namespace: namespace.into(), name: name.into() }
    }

    /// The key under which a real server stores it in etcd.
    pub fn registry_path(&self) -> String {
        // Jobs are older than the rule that the group is part of the key.
        let own = if self.resource.group == "batch" { "" } else { self.resource.group.as_str() };
        let group = if own.is_empty() { "" } else { "/" };
        let namespace = if self.namespace.is_empty() { "" } else { "/" };
        let plural = match (self.resource.group.as_str(), self.resource.plural.as_str()) {
            ("", "services") => "services/specs",
            ("", "endpoints") => "services/endpoints",
            (_, plural) => plural,
        };
        format!("/registry{group}{own}/{plural}{namespace}{}/{}", self.namespace, self.name)
    }
}

impl ResourceInfo {
    /// `etcdclusters.operator.etcd.io`, or `pods`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `apps/v1`, or `v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Its key.
    pub fn key(&self) -> ResourceKey {
        ResourceKey::new(self.group.clone(), self.plural.clone())
    }

    /// `EtcdCluster.operator.etcd.io`, or `Pod`.
    pub fn qualified_kind(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// Whether this is `CustomResourceDefinition`.
    pub fn is_definition(&self) -> bool {
        self.plural == "customresourcedefinitions" && self.group == "apiextensions.k8s.io"
    }

    /// Whether `metadata.generation` counts changes of the desired state.
    pub fn counts_generations(&self) -> bool {
        let counted = [
            "pods",
            "jobs",
            "poddisruptionbudgets",
            "networkpolicies",
            "endpointslices",
            "customresourcedefinitions",
        ];
        self.schema.is_some() || counted.contains(&self.plural.as_str())
    }

    /// Whether an update must carry a resourceVersion.
    pub fn must_name_version(&self) -> bool {
        let careful = ["leases", "poddisruptionbudgets", "customresourcedefinitions"];
        self.schema.is_some() || careful.contains(&self.plural.as_str())
    }

    /// Whether an update of an object that does not exist creates it.
    pub fn is_created_by_replacing(&self) -> bool {
        ["leases", "endpoints", "events", "services"].contains(&self.plural.as_str())
    }

    /// Whether it has this subresource.
    pub fn has(&self, subresource: &str) -> bool {
        self.subresources.iter().any(|own| own == subresource)
    }

    /// The kind that a custom resource definition adds, or why the definition is invalid.
    pub fn from_definition(definition: &Value) -> Result<Self, String> {
        let names = &definition["spec"]["names"];
        let texts = |value: &Value| -> Vec<String> {
            items(value, "").iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let version = items(definition, "/spec/versions")
            .iter()
            .find(|version| flag(version, "/served"))
            .ok_or("spec.versions: Required value: must have a served version")?;
        let schema = version.pointer("/schema/openAPIV3Schema").cloned();
        let compiled = schema.as_ref().map(Schema::compile).transpose()?.map(Arc::new);
        let mut subresources = Vec::new();
        if version.pointer("/subresources/status").is_some() {
            subresources.push("status".to_owned());
        }
        let pointer = |path: &str| path.replace('.', "/");
        let scale = version.pointer("/subresources/scale").map(|scale| ScalePaths {
            spec_replicas: pointer(text(scale, "/specReplicasPath")),
            status_replicas: pointer(text(scale, "/statusReplicasPath")),
            selector: scale.get("labelSelectorPath").and_then(Value::as_str).map(pointer),
        });
        if scale.is_some() {
            subresources.push("scale".to_owned());
        }
        let columns = items(version, "/additionalPrinterColumns").iter().map(PrinterColumn::read).collect();
        Ok(Self {
            group: text(definition, "/spec/group").to_owned(),
            version: text(version, "/name").to_owned(),
            kind: text(names, "/kind").to_owned(),
            plural: text(names, "/plural").to_owned(),
            singular: text(names, "/singular").to_owned(),
            short_names: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
            namespaced: text(definition, "/spec/scope") == "Namespaced",
            subresources,
            columns,
            schema,
            compiled,
            scale,
        })
    }
}

impl PrinterColumn {
    fn read(column: &Value) -> Self {
        let optional = |key: &str| column.get(key).and_then(Value::as_str).map(str::to_owned);
        Self {
            name: text(column, "/name").to_owned(),
            kind: text(column, "/type").to_owned(),
            format: optional("format"),
            description: optional("description"),
            priority: integer(column, "/priority")
                .and_then(|priority| i32::try_from(priority).ok())
                .unwrap_or(0),
            json_path: text(column, "/jsonPath").to_owned(),
        }
    }
}

impl Resources {
    /// The built-in kinds.
    pub fn builtin() -> Self {
        let kinds = BUILT_IN.iter().map(|row| {
            let info = row.info();
            (info.key(), Arc::new(info))
        });
        Self { kinds: kinds.collect() }
    }

    /// A kind by its key.
    pub fn get(&self, key: &ResourceKey) -> Option<Arc<ResourceInfo>> {
        self.kinds.get(key).cloned()
    }

    /// A kind by group, version and plural, as URLs name it.
    pub fn served(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ResourceInfo>> {
        self.get(&ResourceKey::new(group, plural)).filter(|info| info.version == version)
    }

    /// Every kind.
    pub fn all(&self) -> impl Iterator<Item = &Arc<ResourceInfo>> {
        self.kinds.values()
    }

    /// Serves a kind. It replaces one of the same key.
    pub fn add(&mut self, info: ResourceInfo) {
        self.kinds.insert(info.key(), Arc::new(info));
    }

    /// Stops serving a kind.
    pub fn remove(&mut self, key: &ResourceKey) {
        self.kinds.remove(key);
    }
}

#[derive(Clone, Copy)]
struct Row {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    subresources: &'static [&'static str],
    categories: &'static [&'static str],
}

const fn row(group: &'static str, kind: &'static str, plural: &'static str) -> Row {
    Row { group, kind, plural, short: &[], namespaced: true, subresources: &[], categories: &[] }
}

const fn cluster_wide(row: Row) -> Row {
    Row { namespaced: false, ..row }
}

const ALL: &[&str] = &["all"];

const BUILT_IN: &[Row] = &[
    Row {
        short: &["po"],
        subresources: &["status", "log", "eviction", "binding"],
        categories: ALL,
        ..row("", "Pod", "pods")
    },
    Row { short: &["svc"], subresources: &["status"], categories: ALL, ..row("", "Service", "services") },
    Row { short: &["ep"], ..row("", "Endpoints", "endpoints") },
    Row { short: &["cm"], ..row("", "ConfigMap", "configmaps") },
    row("", "Secret", "secrets"),
    Row { short: &["sa"], ..row("", "ServiceAccount", "serviceaccounts") },
    Row { short: &["ev"], ..row("", "Event", "events") },
    Row {
        short: &["pvc"],
        subresources: &["status"],
        ..row("", "PersistentVolumeClaim", "persistentvolumeclaims")
    },
    cluster_wide(Row {
        short: &["pv"],
        subresources: &["status"],
        ..row("", "PersistentVolume", "persistentvolumes")
    }),
    cluster_wide(Row { short: &["no"], subresources: &["status"], ..row("", "Node", "nodes") }),
    cluster_wide(Row {
        short: &["ns"],
        subresources: &["status", "finalize"],
        ..row("", "Namespace", "namespaces")
    }),
    row("coordination.k8s.io", "Lease", "leases"),
    Row {
        short: &["pdb"],
        subresources: &["status"],
        ..row("policy", "PodDisruptionBudget", "poddisruptionbudgets")
    },
    Row { short: &["netpol"], ..row("networking.k8s.io", "NetworkPolicy", "networkpolicies") },
    Row { subresources: &["status"], categories: ALL, ..row("batch", "Job", "jobs") },
    cluster_wide(Row { short: &["sc"], ..row("storage.k8s.io", "StorageClass", "storageclasses") }),
    row("discovery.k8s.io", "EndpointSlice", "endpointslices"),
    Row { short: &["ev"], ..row("events.k8s.io", "Event", "events") },
    cluster_wide(Row {
        short: &["crd", "crds"],
        subresources: &["status"],
        ..row("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions")
    }),
];

impl Row {
    fn info(&self) -> ResourceInfo {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        ResourceInfo {
            group: self.group.to_owned(),
            version: "v1".to_owned(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            short_names: owned(self.short),
            categories: owned(self.categories),
            namespaced: self.namespaced,
            subresources: owned(self.subresources),
            columns: Vec::new(),
            schema: None,
            compiled: None,
            scale: None,
        }
    }
}
