//! From the spec to the Target: texts are parsed, defaults are filled in, and what cannot be carried out is refused.

use std::fmt;

use quorate_api::EtcdCluster;
use quorate_api::cluster::{self, DEFAULT_IMAGE_REGISTRY, TlsProvider};
use quorate_api::quantity::bytes;
use quorate_model::target::{Medium, PodRevision, PodTemplate, Retention, Storage};
use quorate_model::{Target, Version};

use crate::flags;
use crate::template::Template;

/// The default image of guard and probe. They are part of the operator's program; this is the image of the same release,
/// as `cargo xtask image` writes it.
pub const DEFAULT_AGENT_IMAGE: &str = concat!("quorate:", env!("CARGO_PKG_VERSION"));

/// The defaults from the operator's flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// The etcd image repository of clusters whose spec names none.
    pub image_registry: String,
    /// The image that guard and probe run from.
    pub agent_image: String,
}

/// Why a spec cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Invalid {
    /// Which field.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl Invalid {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            image_registry: DEFAULT_IMAGE_REGISTRY.to_owned(),
            agent_image: DEFAULT_AGENT_IMAGE.to_owned(),
        }
    }
}

/// The Target of a spec.
pub fn resolve(cluster: &EtcdCluster, defaults: &Defaults) -> Result<Target, Invalid> {
    let spec = &cluster.spec;
    let version: Version =
        spec.version.parse().map_err(|error| Invalid::new("spec.version", format!("{error}")))?;
    let storage = storage(&spec.storage_spec)?;
    let medium = storage.medium;
    let flags =
        flags::settings(&spec.etcd_options, spec.etcd.as_ref(), version.line(), storage.bytes, medium)?;
    let cluster::PodTemplate { metadata, spec: pod_spec } = spec.pod_template.clone().unwrap_or_default();
    let metadata = metadata.unwrap_or_default();
    let template = Template {
        image: image(cluster, defaults, version),
        image_pull_policy: spec.image_pull_policy.map(|policy| policy.as_str().to_owned()),
        image_pull_secrets: spec.image_pull_secrets.iter().map(|secret| secret.name.clone()).collect(),
        flags,
        labels: metadata.labels,
        annotations: metadata.annotations,
        spec: pod_spec.unwrap_or_default(),
    };
    let pod = template.seal(version, &defaults.agent_image);
    let tls = match spec.tls.provider {
        TlsProvider::Auto => true,
        TlsProvider::Disabled => false,
    };
    let size = usize::try_from(spec.size).unwrap_or(usize::MAX);
    Ok(Target { size, version, pod, storage, tls })
}

/// What is used of a spec that cannot be carried out: the size and the retention policy. Nothing more is needed to delete
/// a cluster whose spec was never committed.
pub(crate) fn always_safe(cluster: &EtcdCluster) -> Target {
    let rest = cluster::StorageSpec { retention: cluster.spec.storage_spec.retention, ..Default::default() };
    let pod =
        PodTemplate { revision: PodRevision::default(), image_has_version: false, content: String::new() };
    let storage = storage(&rest).expect("the defaults of a storage spec are sound");
    let size = usize::try_from(cluster.spec.size).unwrap_or(usize::MAX);
    Target { size, version: Version::new(0, 0, 0), pod, storage, tls: false }
}

/// The whole reference, or the repository with the version as its tag. etcd's own tags begin with a `v`.
fn image(cluster: &EtcdCluster, defaults: &Defaults, version: Version) -> String {
    let spec = &cluster.spec;
    let registry = spec.image_registry.as_deref().unwrap_or(&defaults.image_registry);
    spec.image.clone().unwrap_or_else(|| format!("{registry}:v{version}"))
}

fn storage(spec: &cluster::StorageSpec) -> Result<Storage, Invalid> {
    let field = "spec.storageSpec.volumeSizeRequest";
    let size = bytes(&spec.volume_size_request).ok_or_else(|| {
        Invalid::new(field, format!("{:?} is not a size such as 1Gi", spec.volume_size_request.0))
    })?;
    let limit_bytes = spec.volume_size_limit.as_ref().and_then(bytes);
    if limit_bytes.is_some_and(|limit| limit < size) {
        let message = "the limit is smaller than the request; raise it or leave it out";
        return Err(Invalid::new("spec.storageSpec.volumeSizeLimit", message));
    }
    Ok(Storage {
        medium: match spec.medium {
            cluster::Medium::Disk => Medium::Disk,
            cluster::Medium::Memory => Medium::Memory,
        },
        class: spec.storage_class_name.clone(),
        access_mode: spec.access_modes.as_str().to_owned(),
        bytes: size,
        limit_bytes,
        when_deleted: retention(spec.retention.when_deleted),
        when_scaled: retention(spec.retention.when_scaled),
    })
}

fn retention(retention: cluster::Retention) -> Retention {
    match retention {
        cluster::Retention::Retain => Retention::Retain,
        cluster::Retention::Delete => Retention::Delete,
    }
}
