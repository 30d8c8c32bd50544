//! From the spec to the Target: texts are parsed, defaults are filled in, and what cannot be carried out is refused.

use std::borrow::Cow;
use std::collections::BTreeMap;

use quorate_api::EtcdCluster;
use quorate_api::cluster::{self, TlsProvider};
use quorate_api::quantity::bytes;
use quorate_model::mutants::{Rule, is_broken};
use quorate_model::target::{Medium, PodRevision, PodTemplate, Retention, Storage};
use quorate_model::{Target, Version};

use crate::certificate;
use crate::defaults::{Defaults, Invalid};
use crate::flags;
use crate::metadata;
use crate::network_policy;
use crate::pod;
use crate::template::Template;

/// The Target of a spec.
pub fn resolve(cluster: &EtcdCluster, defaults: &Defaults) -> Result<Target, Invalid> {
    resolve_with(cluster, defaults, Existing::default())
}

/// What exists of a cluster besides its EtcdCluster. It counts where status has no target: then status was lost, as a target is recorded
/// before anything is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Existing {
    /// What has a quota, or may have one.
    pub(crate) data: ExistingData,
    /// The bytes of the smallest volume. An edit for larger ones that do not grow was not committed before status was lost either.
    pub(crate) smallest: Option<u64>,
    /// Whether a Pod has the operator's credential: etcd's auth may be on.
    pub(crate) credential: bool,
}

/// What exists that says which quota the default must not be below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ExistingData {
    /// Nothing: it is new.
    #[default]
    Nothing,
    /// Pods with this quota, the largest one.
    Quota(u64),
    /// Volumes, or Pods without a quota.
    Data,
}

/// The Target of a spec, beside what exists of the cluster.
pub(crate) fn resolve_with(
    cluster: &EtcdCluster,
    defaults: &Defaults,
    existing: Existing,
) -> Result<Target, Invalid> {
    let spec = &cluster.spec;
    name(cluster)?;
    let version: Version =
        spec.version.parse().map_err(|error| Invalid::new("spec.version", format!("{error}")))?;
    let storage = storage(&spec.storage_spec)?;
    let is_committed = cluster.status.as_ref().is_some_and(|status| status.target.is_some());
    let smallest = existing.smallest.filter(|_| !is_committed).unwrap_or(storage.bytes);
    let bytes = storage.bytes.min(smallest);
    let quota_before = quota_before(cluster, storage.medium, bytes, existing.data);
    let room = flags::Room { medium: storage.medium, bytes, quota_before };
    let flags = flags::settings(&spec.etcd_options, spec.etcd.as_ref(), version.line(), room)?;
    let cluster::PodTemplate { metadata, spec: pod_spec } = spec.pod_template.clone().unwrap_or_default();
    let metadata = metadata.unwrap_or_default();
    let (labels, annotations) = metadata::merged(cluster, metadata.labels, metadata.annotations);
    admitted("spec.podTemplate.metadata", &labels, &annotations)?;
    metadata_of_others(cluster)?;
    network_policy::check(cluster, defaults)?;
    let auth = auth(cluster, existing.credential && !is_committed);
    let pod_spec = pod_spec.unwrap_or_default();
    grace_is_enough(&pod_spec, &flags)?;
    let template = Template {
        image: image(cluster, defaults, version)?,
        image_pull_policy: spec.image_pull_policy.map(|policy| policy.as_str().to_owned()),
        image_pull_secrets: spec.image_pull_secrets.iter().map(|secret| secret.name.clone()).collect(),
        flags,
        labels,
        annotations,
        spec: pod_spec,
        one_member_per_node: spec.placement.one_member_per_node,
        zones: spec.placement.zones,
        auth,
    };
    let pod = template.to_status(version, &defaults.agent_image);
    let tls = match spec.tls.provider {
        TlsProvider::Auto | TlsProvider::Secrets | TlsProvider::CertManager => true,
        TlsProvider::Disabled => false,
    };
    addresses(&spec.tls)?;
    issuer(&spec.tls, defaults)?;
    common_name(&spec.tls)?;
    let size = usize::try_from(spec.size).unwrap_or(usize::MAX);
    if auth && !tls {
        let why = "etcd's auth needs TLS: a client is the user that its certificate names. Leave tls.provider out, or auth";
        return Err(Invalid::new("spec.auth.enabled", why));
    }
    Ok(Target { size, version, pod, storage, tls, auth })
}

/// Endings of names that the objects of a cluster have, so that those of `demo-peer` have names of those of `demo`: the Secret `demo-peer-ca`, the
/// Service `demo-client`, the Secret `demo-root-client-tls`.
const TAKEN_ENDINGS: [&str; 3] = ["-peer", "-client", "-root"];

/// Objects of this cluster must not have names of objects of another one.
fn name(cluster: &EtcdCluster) -> Result<(), Invalid> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let Some(ending) = TAKEN_ENDINGS.into_iter().find(|ending| name.ends_with(ending)) else { return Ok(()) };
    let other = name.strip_suffix(ending).unwrap_or_default();
    let message = format!(
        "a name that ends in {ending} is not possible: objects of an EtcdCluster {other} would have the names of objects of this one. Create it under \
         another name"
    );
    Err(Invalid::new("metadata.name", message))
}

/// Whether members have the operator's credential: where etcd's auth is wanted, or on. What is on is switched off by order, and until then
/// nobody takes the credential from the members.
fn auth(cluster: &EtcdCluster, members_have_credential: bool) -> bool {
    members_have_credential || certificate::is_with_auth(cluster)
}

/// The labels and annotations of what is no Pod.
fn metadata_of_others(cluster: &EtcdCluster) -> Result<(), Invalid> {
    let claims = cluster.spec.storage_spec.metadata.clone().unwrap_or_default();
    let service = cluster.spec.service.clone().unwrap_or_default();
    for (field, labels, annotations) in [
        ("spec.storageSpec.metadata", claims.labels, claims.annotations),
        ("spec.service", service.labels, service.annotations),
    ] {
        let (labels, annotations) = metadata::merged(cluster, labels, annotations);
        admitted(field, &labels, &annotations)?;
    }
    Ok(())
}

fn admitted(
    field: &str,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Result<(), Invalid> {
    let refused = metadata::why_refused(labels, annotations);
    refused.map_or(Ok(()), |why| Err(Invalid::new(format!("{field}, with spec.commonMetadata"), why)))
}

/// The quota that the default must not be below. A quota below the file of the database refuses every write at once, and files do not
/// shrink, so neither another default of the operator nor an edit that leaves the quota out lowers the one that is committed. A number in the
/// spec does.
fn quota_before(cluster: &EtcdCluster, medium: Medium, bytes: u64, existing: ExistingData) -> u64 {
    let of_unknown_data = match medium {
        Medium::Disk => flags::quota_of_unknown_data(bytes),
        Medium::Memory => 0,
    };
    let committed = cluster.status.as_ref().and_then(|status| status.target.as_ref());
    let committed = committed.map(|target| flags::quota(Template::read(&target.pod.template).flags.iter()));
    let is_restored = cluster.spec.bootstrap.as_ref().is_some_and(|bootstrap| bootstrap.restore.is_some());
    match (committed, existing) {
        // A flag may set no limit.
        (Some(committed), _) => committed.unwrap_or(of_unknown_data),
        (None, ExistingData::Quota(quota)) => quota,
        (None, ExistingData::Data) => of_unknown_data,
        (None, ExistingData::Nothing) if is_restored => of_unknown_data,
        (None, ExistingData::Nothing) => 0,
    }
}

/// The kubelet kills etcd when the time is up, in the middle of a transfer of leadership if need be.
fn grace_is_enough(spec: &cluster::PodSpec, flags: &[String]) -> Result<(), Invalid> {
    let needed = pod::shortest_grace(flags);
    match spec.termination_grace_period_seconds {
        Some(seconds) if seconds < needed => Err(Invalid::new(
            "spec.podTemplate.spec.terminationGracePeriodSeconds",
            format!(
                "{seconds} s are too short: a stop needs up to {needed} s (15 s and two election timeouts)"
            ),
        )),
        Some(_) | None => Ok(()),
    }
}

/// R26: the EtcdCluster with the last spec that was accepted, if a newer one was refused since or was not judged yet. Everything outside
/// this file reads this, so that nothing is derived from a refused spec. Of the newer one it has what is always safe: the size, the
/// storage class of new volumes, the retention, and whether the cluster is paused.
pub fn accepted(cluster: &EtcdCluster) -> Cow<'_, EtcdCluster> {
    if is_broken(Rule::R26) {
        return Cow::Borrowed(cluster);
    }
    let recorded = cluster.status.as_ref().and_then(|status| status.accepted_spec.as_ref());
    let Some(recorded) = recorded.filter(|recorded| **recorded != to_accept(cluster)) else {
        return Cow::Borrowed(cluster);
    };
    // What does not parse was written by another release, which the format of the status tells.
    let Ok(mut spec) = serde_json::from_str::<cluster::EtcdClusterSpec>(recorded) else {
        return Cow::Borrowed(cluster);
    };
    let newer = &cluster.spec;
    spec.size = newer.size;
    spec.paused = newer.paused;
    spec.storage_spec.storage_class_name.clone_from(&newer.storage_spec.storage_class_name);
    spec.storage_spec.retention = newer.storage_spec.retention;
    Cow::Owned(EtcdCluster { spec, metadata: cluster.metadata.clone(), status: cluster.status.clone() })
}

/// The spec as it is recorded once it is accepted.
pub fn to_accept(cluster: &EtcdCluster) -> String {
    serde_json::to_string(&cluster.spec).expect("a spec is plain data")
}

/// What is used of a spec that cannot be carried out: the size and the retention policy. Nothing more is needed to delete
/// a cluster whose spec was never committed.
pub(crate) fn always_safe(cluster: &EtcdCluster) -> Target {
    let rest = cluster::StorageSpec { retention: cluster.spec.storage_spec.retention, ..Default::default() };
    let pod = PodTemplate {
        revision: PodRevision::default(),
        image_has_version: false,
        content: String::new(),
        quota: None,
        compacts: false,
    };
    let storage = storage(&rest).expect("the defaults of a storage spec are sound");
    let size = usize::try_from(cluster.spec.size).unwrap_or(usize::MAX);
    Target { size, version: Version::new(0, 0, 0), pod, storage, tls: false, auth: false }
}

/// The whole reference, or the repository with the version as its tag. etcd's own tags begin with a `v`.
/// The operator's own default is admitted: who sets it also sets the list.
fn image(cluster: &EtcdCluster, defaults: &Defaults, version: Version) -> Result<String, Invalid> {
    let spec = &cluster.spec;
    let (field, image) = match (&spec.image, &spec.image_registry) {
        (Some(image), _) => ("spec.image", image.clone()),
        (None, Some(registry)) => ("spec.imageRegistry", format!("{registry}:v{version}")),
        (None, None) => return Ok(format!("{}:v{version}", defaults.image_registry)),
    };
    if defaults.allowed_images.admits(&image) {
        return Ok(image);
    }
    let allowed = &defaults.allowed_images;
    let why = format!(
        "the image {image} is of none of the registries that this operator admits (--allowed-image-registries): {allowed}. Name one of \
         those, or neither image nor imageRegistry: then it is the operator's default. Members that run keep the image that they have"
    );
    Err(Invalid::new(field, why))
}

/// Further addresses of the server certificate. The CRD refuses most of what is no address.
fn addresses(tls: &cluster::TlsSpec) -> Result<(), Invalid> {
    let given = tls.alt_names().map(|names| &names.ip_addresses);
    match given.into_iter().flatten().find(|address| address.parse::<std::net::IpAddr>().is_err()) {
        None => Ok(()),
        Some(address) => Err(Invalid::new(
            format!("spec.tls.providerCfg.{}.altNames.ipAddresses", settings(tls)),
            format!("{address:?} is not an IP address such as 192.0.2.1 or 2001:db8::1"),
        )),
    }
}

/// A ClusterIssuer signs for every namespace. So whoever may write an EtcdCluster, and no Certificate, would be given by it what clients of others have.
fn issuer(tls: &cluster::TlsSpec, defaults: &Defaults) -> Result<(), Invalid> {
    let given = tls.cert_manager().filter(|_| tls.provider == TlsProvider::CertManager);
    let Some(given) = given.filter(|given| given.issuer_kind.as_deref() == Some("ClusterIssuer")) else {
        return Ok(());
    };
    let name = given.issuer_name.as_deref().unwrap_or_default();
    let allowed = &defaults.allowed_cluster_issuers;
    if allowed.iter().any(|allowed| allowed == "*" || allowed == name) {
        return Ok(());
    }
    let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
    let message = format!(
        "ClusterIssuer {name} is none that this operator admits (--allowed-cluster-issuers): {allowed}. Name one of those, or an Issuer of the \
         namespace"
    );
    Err(Invalid::new("spec.tls.providerCfg.certManagerCfg.issuerName", message))
}

/// With the common name of peers, whoever has the server's key would write the log of its members; with that of a user, the keys of that one.
fn common_name(tls: &cluster::TlsSpec) -> Result<(), Invalid> {
    let Some(why) = tls.common_name().and_then(certificate::why_refused) else { return Ok(()) };
    let message = format!("{why}: give the server another one, or none");
    Err(Invalid::new(format!("spec.tls.providerCfg.{}.commonName", settings(tls)), message))
}

/// The field with the settings of the provider that issues certificates.
fn settings(tls: &cluster::TlsSpec) -> &'static str {
    match tls.provider {
        TlsProvider::Auto | TlsProvider::Disabled => "autoCfg",
        TlsProvider::CertManager => "certManagerCfg",
        TlsProvider::Secrets => "secretsCfg",
    }
}

fn storage(spec: &cluster::StorageSpec) -> Result<Storage, Invalid> {
    let field = "spec.storageSpec.volumeSizeRequest";
    let size = bytes(&spec.volume_size_request).ok_or_else(|| {
        Invalid::new(field, format!("{:?} is not a size such as 1Gi", spec.volume_size_request.0))
    })?;
    // Go's types of the etcd-io operator write 0 for a limit that is left out.
    let limit_bytes = spec.volume_size_limit.as_ref().and_then(bytes).filter(|limit| *limit > 0);
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
