//! From Kubernetes objects to the Snapshot. The caller fills in etcd's part.
//!
//! Pods, Services, budgets, policies and Secrets belong to the cluster if this EtcdCluster controls them. Volumes carry no owner
//! reference. They belong to the cluster by label and name, also those of an earlier incarnation, which their annotations name.

mod cut;
mod maintenance;
mod pods;
mod published;
mod rotation;
mod services;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_core::Resource;
use quorate_api::cluster::{
    AfterRestore, DEFAULT_GRACE_PERIOD, DEFAULT_KEEP_VOLUMES, MAX_SIZE, OperatorDefaults, TlsProvider,
};
use quorate_api::{EtcdCluster, duration, keys};
use quorate_model::auth::AuthPolicy;
use quorate_model::quorum_recovery::RecoverFrom;
use quorate_model::snapshot::{
    Certificates, DefaultsTurn, Etcd, Issuance, LastNodes, Pod as MemberPod, Presence, ReplacementPolicy,
    Volume,
};
use quorate_model::{
    ClusterId, ClusterRef, ClusterUid, ManagedObject, MemberId, MemberName, Ordinal, Record, Revision,
    Snapshot, Span, Target, Uid, Version,
};
use serde_json::Value;

use crate::certificate::{Certificate, given};
use crate::defaults::{AgentDelivery, Defaults, Invalid};
use crate::kind::Kind;
use crate::labels::{self, is_labelled, is_owned_by};
use crate::objects::{ClusterObjects, cluster_ref, member_name};
use crate::target::{self, Existing, ExistingData};
use crate::{
    backup_before, bootstrap, budget, certificate, connection, data_store, metadata, names, network_policy,
    record, restore, service, volume,
};

pub use cut::{cut, trim};

/// The names that B2 to B4 create objects under. Before the first of these steps they are read, since the watches select on the label of the
/// cluster and do not show objects of other programs.
pub fn names_to_bootstrap(cluster: &EtcdCluster) -> Vec<(Kind, String)> {
    let at = cluster_ref(cluster);
    let members = (0..cluster.spec.size.min(MAX_SIZE)).map(|ordinal| at.member(Ordinal(ordinal)).to_string());
    let of_members = members.flat_map(|name| [(Kind::Volume, name.clone()), (Kind::Pod, name)]);
    let certificates =
        Certificate::ALL.into_iter().filter(|_| cluster.spec.tls.provider != TlsProvider::Disabled);
    let secrets = certificates.map(|certificate| (Kind::Secret, certificate.secret_name(&at)));
    let services = [at.name.clone(), service::client_name(&at)].map(|name| (Kind::Service, name));
    services.into_iter().chain(secrets).chain(of_members).collect()
}

/// The Snapshot of the objects, and what is wrong with the spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The Snapshot, without the parts of etcd and of cert-manager, and without what the API server refused.
    pub snapshot: Snapshot,
    /// Why the spec cannot be carried out, if so. The committed target is then used.
    pub refused: Option<Invalid>,
    /// The EtcdCluster with the last spec that was accepted, if the present one is refused. All that follows reads this one.
    pub accepted: Option<EtcdCluster>,
}

/// The Snapshot of the observed objects. An error only if the spec cannot be carried out and no target was committed.
pub fn snapshot(seen: &ClusterObjects<'_>, defaults: &Defaults) -> Result<Observation, Invalid> {
    let ClusterObjects {
        cluster,
        pods,
        volumes,
        services,
        budgets,
        secrets,
        network_policies,
        restores,
        conflicts: _,
    } = seen;
    let meta = &cluster.metadata;
    let at = cluster_ref(cluster);
    let uid = ClusterUid::new(meta.uid.clone().unwrap_or_default());
    let mut record = cluster.status.as_ref().map(record::from_status).unwrap_or_default();
    let confirmed = meta.annotations.as_ref().and_then(|all| all.get(keys::CONFIRM_RECORD));
    let record_doubt = cluster.status.as_ref().and_then(|status| record::witness::doubt(status, confirmed));
    if record.is_of_another(&uid) && record_doubt.is_none() {
        record = record.for_another();
    }
    if record_doubt.is_none() {
        build_missing_template(cluster, &mut record, defaults);
    }
    let mut member_pods = pods::read(pods, &at, &uid);
    let recorded: BTreeSet<Uid> =
        record.members.values().filter_map(|member| member.volume.clone()).collect();
    let volumes = read_volumes(volumes, &at, &recorded, meta.deletion_timestamp.as_ref());
    let (desired, refused) = desired(cluster, &record, defaults, existing(&member_pods, &volumes))?;
    // R26: from here on nothing reads a spec that was refused.
    let accepted = refused.as_ref().map(|_| target::accepted(cluster).into_owned());
    let cluster = accepted.as_ref().unwrap_or(cluster);
    let seen = &ClusterObjects { cluster, ..seen.clone() };
    let (adopt, unreadable) = cluster_named_by(meta, keys::ADOPT);
    let (adopt_copies, unreadable_copies) = adopt_copies(meta);
    let copies_given = meta.annotations.as_ref().and_then(|annotations| annotations.get(keys::ADOPT_COPIES));
    let (allow_downgrade, unreadable_version) = allow_downgrade(meta);
    let (replace_member, unknown_member) = replace_member(meta, &at, &record);
    let (rotation_policy, unknown_authority) = rotation::read(cluster);
    let tls = record.target.as_ref().unwrap_or(&desired).tls;
    // Also while it is being switched off: with its credential the operator does that.
    let auth = record.has_credential();
    let (auth_policy, unreadable_order) = auth_policy(cluster);
    let client_name = service::client_name(&at);
    let client_form = service::client(cluster, &at);
    let presence = |name: &str, desired: &Value| {
        services::own(services, name, &uid).map_or(Presence::Absent, |seen| {
            if service::matches(seen, desired) { Presence::Matches } else { Presence::Differs }
        })
    };
    if defaults.agent_delivery == AgentDelivery::ImageVolume {
        // There is no other way, so nothing is to be decided.
        for pod in member_pods.values_mut() {
            pod.image_volume = None;
        }
    }
    let own_budget = budgets
        .iter()
        .find(|seen| seen.metadata.name.as_ref() == Some(&at.name) && is_owned_by(&seen.metadata, &uid));
    let has_finalizer = |name: &str| meta.finalizers.iter().flatten().any(|entry| entry == name);
    let waits_for_data_store = meta.deletion_timestamp.is_some() && !data_store::ends(cluster);
    let certificates = tls.then(|| Certificates {
        given: given::read(secrets, &at, &cluster.spec.tls, defaults.verifier),
        ..certificate::read(secrets, &at, &uid, &cluster.spec.tls, auth, certificate::is_with_auth(cluster))
    });
    let snapshot = Snapshot {
        desired,
        paused: cluster.spec.paused,
        keep_volumes: keep_volumes(cluster),
        deleting: data_store::ends(cluster),
        // The API server takes no finalizer for an object that is being deleted.
        finalizer: has_finalizer(keys::FINALIZER) || waits_for_data_store,
        may_have_data_store: data_store::may_exist(cluster),
        published: published::read(cluster, certificates.as_ref(), secrets, (&at, &uid)),
        data_store: waits_for_data_store.then(|| "whether tenants use it is not known yet".to_owned()),
        adopt,
        adopt_copies,
        adopt_copies_given: copies_given.cloned(),
        restored_by: labels::restored_by(meta),
        record_doubt,
        clock_differs: None,
        claims_not_read: BTreeMap::new(),
        successors: BTreeMap::new(),
        recover_from: recover_from(meta),
        accepts_loss: accepts_loss(meta),
        rotation_policy,
        auth_policy,
        last_nodes: last_nodes(cluster),
        restore: bootstrap::by_spec(cluster),
        orders: restore::orders(restores, cluster, &record),
        record,
        image_volume_refused: None,
        volumes,
        foreign: foreign(seen, &at, &uid),
        metadata_differs: metadata::differing(cluster, &at, &uid, seen),
        peer_service: presence(&at.name, &service::peer(cluster, &at)),
        client_service: presence(&client_name, &client_form),
        client_service_selects_others: services::own(services, &client_name, &uid)
            .is_some_and(|seen| service::selects_others(seen, &client_form)),
        connection: connection::presence(cluster, secrets, &at, &uid, tls),
        endpoints: services::endpoints(services::own(services, &client_name, &uid), pods, &member_pods),
        pods: member_pods,
        budget_policy: budget::policy(cluster),
        network_policy: network_policy::read(cluster, network_policies, &at, &uid, defaults),
        budget: own_budget.map(|seen| budget::read(seen, cluster, &at)),
        certificates,
        issuance: Issuance::default(),
        etcd: Etcd::default(),
        replacement_policy: replacement_policy(cluster),
        sites: BTreeMap::new(),
        maintenance: maintenance::read(cluster),
        cluster: at,
        uid,
        allow_downgrade,
        replace_member,
        backup_before: backup_before::unread(cluster),
        running_backups: BTreeSet::new(),
        users_to_come: BTreeSet::new(),
        defaults: match cluster.spec.updates.operator_defaults {
            OperatorDefaults::Rolling => DefaultsTurn::Now,
            OperatorDefaults::OnNextChange => DefaultsTurn::OnNextChange,
        },
    };
    Ok(Observation {
        snapshot,
        accepted: accepted.clone(),
        refused: refused
            .or(unreadable)
            .or(unreadable_copies)
            .or(unreadable_version)
            .or(unknown_member)
            .or(unknown_authority)
            .or(unreadable_order),
    })
}

/// Where status was lost, the planner commits the version that runs without a template. The Pods of a cluster that runs are then built from
/// the spec, but of the committed version: a version that was not committed must not start on a member's data.
fn build_missing_template(cluster: &EtcdCluster, record: &mut Record, defaults: &Defaults) {
    let runs = record.is_bootstrapped();
    let committed = record.target.as_mut().filter(|target| runs && target.pod.content.is_empty());
    let Some(committed) = committed else { return };
    let mut of_committed = cluster.clone();
    of_committed.spec.version = committed.version.to_string();
    if let Ok(target) = target::resolve(&of_committed, defaults) {
        committed.pod = target.pod;
    }
}

/// The desired target. Where the spec cannot be carried out, the committed target with the size and retention of the spec.
/// An object that is being deleted needs its retention policy only.
fn desired(
    cluster: &EtcdCluster,
    record: &Record,
    defaults: &Defaults,
    existing: Existing,
) -> Result<(Target, Option<Invalid>), Invalid> {
    let invalid = match target::resolve_with(cluster, defaults, existing) {
        Ok(desired) => return Ok((desired, None)),
        Err(invalid) => invalid,
    };
    let has_accepted = cluster.status.as_ref().is_some_and(|status| status.accepted_spec.is_some());
    match record.target.as_ref().filter(|_| has_accepted) {
        Some(committed) => {
            let other = target::always_safe(cluster);
            Ok((committed.clone().with_what_is_always_safe(&other), Some(invalid)))
        }
        None if cluster.metadata.deletion_timestamp.is_some() => {
            Ok((target::always_safe(cluster), Some(invalid)))
        }
        None => Err(invalid),
    }
}

/// What exists besides the EtcdCluster.
fn existing(pods: &BTreeMap<MemberName, MemberPod>, volumes: &BTreeMap<MemberName, Volume>) -> Existing {
    let data = match pods.values().filter_map(|pod| pod.quota).max() {
        Some(quota) => ExistingData::Quota(quota),
        None if pods.is_empty() && volumes.is_empty() => ExistingData::Nothing,
        None => ExistingData::Data,
    };
    // Those with data of the cluster. A file system that grows when it is mounted has room for the next Pod.
    let counts = |volume: &&Volume| {
        volume.cluster_id.is_some() && volume.quarantine.is_none() && !volume.grows_at_mount
    };
    let smallest = volumes.values().filter(counts).filter_map(|volume| volume.capacity).min();
    let credential = pods.values().any(|pod| pod.has_credential);
    Existing { data, smallest, credential }
}

/// The cluster id in an annotation of a person.
fn cluster_named_by(meta: &ObjectMeta, key: &str) -> (Option<ClusterId>, Option<Invalid>) {
    let annotation = meta.annotations.as_ref().and_then(|annotations| annotations.get(key));
    parse_cluster(key, annotation.map(String::as_str))
}

fn auth_policy(cluster: &EtcdCluster) -> (AuthPolicy, Option<Invalid>) {
    let (disable, unreadable) = cluster_named_by(&cluster.metadata, keys::DISABLE_AUTH);
    let wanted = cluster.spec.auth.as_ref().is_some_and(|auth| auth.enabled);
    let after_restore = cluster.spec.auth.as_ref().and_then(|auth| auth.after_restore).unwrap_or_default();
    let keeps_orphans = match after_restore {
        AfterRestore::Revoke => false,
        AfterRestore::Keep => true,
    };
    let given = cluster.spec.auth.as_ref().and_then(|auth| duration::seconds(auth.client_grace.as_deref()?));
    let client_grace = given.map_or(AuthPolicy::CLIENT_GRACE, Span::seconds);
    let (clients_are_users, unreadable_word) = cluster_named_by(&cluster.metadata, keys::CLIENTS_ARE_USERS);
    let policy = AuthPolicy { wanted, disable, client_grace, clients_are_users, keeps_orphans };
    (policy, unreadable.or(unreadable_word))
}

fn parse_cluster(key: &str, id: Option<&str>) -> (Option<ClusterId>, Option<Invalid>) {
    match id.map(str::parse) {
        None => (None, None),
        Some(Ok(id)) => (Some(id), None),
        Some(Err(error)) => {
            let error: quorate_model::ids::NotHexadecimal = error;
            let field = format!("metadata.annotations[{key}]");
            (None, Some(Invalid::new(field, error.to_string())))
        }
    }
}

/// The word of a person about the volumes that there are now, for this EtcdCluster. One of an earlier EtcdCluster of that name, which a
/// repository still has, says nothing of the copies that a backup tool brings today.
fn adopt_copies(meta: &ObjectMeta) -> (Option<ClusterId>, Option<Invalid>) {
    let annotation = meta.annotations.as_ref().and_then(|annotations| annotations.get(keys::ADOPT_COPIES));
    match annotation.and_then(|word| word.split_once('/')) {
        Some((id, uid)) if Some(uid) == meta.uid.as_deref() => parse_cluster(keys::ADOPT_COPIES, Some(id)),
        Some(_) | None => (None, None),
    }
}

/// The order to recover a lost quorum.
fn recover_from(meta: &ObjectMeta) -> Option<RecoverFrom> {
    let annotation = meta.annotations.as_ref()?.get(keys::RECOVER_QUORUM_FROM)?;
    Some(RecoverFrom::read(annotation))
}

/// The data that a person accepts although the cluster was stopped with later ones: `85ce4f421a7c391d/800`.
fn accepts_loss(meta: &ObjectMeta) -> Option<(ClusterId, Revision)> {
    let (cluster, revision) = meta.annotations.as_ref()?.get(keys::ACCEPT_DATA_LOSS)?.split_once('/')?;
    Some((cluster.parse().ok()?, Revision(revision.parse().ok()?)))
}

/// Where members run or ran last, by status.
fn last_nodes(cluster: &EtcdCluster) -> BTreeMap<MemberName, LastNodes> {
    let members = cluster.status.iter().flat_map(|status| &status.members);
    let nodes = members.map(|member| {
        let nodes =
            LastNodes { node: member.node_name.clone(), served_on: member.served_on_node_name.clone() };
        (MemberName::new(&*member.name), nodes)
    });
    nodes.collect()
}

fn allow_downgrade(meta: &ObjectMeta) -> (Option<Version>, Option<Invalid>) {
    let annotation = meta.annotations.as_ref().and_then(|annotations| annotations.get(keys::ALLOW_DOWNGRADE));
    match annotation.map(|version| version.parse::<Version>()) {
        None => (None, None),
        Some(Ok(version)) => (Some(version), None),
        Some(Err(error)) => {
            let field = format!("metadata.annotations[{}]", keys::ALLOW_DOWNGRADE);
            (None, Some(Invalid::new(field, error.to_string())))
        }
    }
}

/// The member that the EtcdCluster's annotation orders to replace, by name and id: `demo-1/8e9e05c52164694d`. An id is never used again, so an
/// order that stays, or that Git gives again, replaces nobody else. One whose member is gone is spent.
fn replace_member(
    meta: &ObjectMeta,
    at: &ClusterRef,
    record: &Record,
) -> (Option<MemberName>, Option<Invalid>) {
    let annotation = meta.annotations.as_ref().and_then(|annotations| annotations.get(keys::REPLACE_MEMBER));
    let Some(given) = annotation.map(|given| given.trim()) else { return (None, None) };
    let (name, id) = given.split_once('/').map_or((given, None), |(name, id)| (name, Some(id)));
    let id = id.and_then(|id| id.parse::<MemberId>().ok());
    let name = MemberName::new(name);
    match record.members.get(&name) {
        // An id of before is that of another member with this name, or of a record that was lost.
        Some(member) if id.is_some() => return ((member.id == id).then_some(name), None),
        None if record.members.is_empty() || was_used(at, record, &name) => return (None, None),
        Some(_) | None => {}
    }
    let members = record.members.iter().filter_map(|(name, member)| Some(format!("{name}/{}", member.id?)));
    let members: Vec<String> = members.collect();
    let why =
        format!("{given:?} names no member of this cluster by name and id; they are {}", members.join(", "));
    (None, Some(Invalid::new(format!("metadata.annotations[{}]", keys::REPLACE_MEMBER), why)))
}

/// Whether a member had this name, and is gone: names are never used again (R2).
fn was_used(at: &ClusterRef, record: &Record, name: &MemberName) -> bool {
    at.ordinal(name).is_some_and(|ordinal| ordinal < record.next_ordinal)
}

/// The CRD refuses what is no duration; this also covers an older CRD.
fn keep_volumes(cluster: &EtcdCluster) -> Span {
    let seconds = duration::seconds(&cluster.spec.recovery.keep_volumes);
    let seconds = seconds.or_else(|| duration::seconds(DEFAULT_KEEP_VOLUMES));
    Span(seconds.map_or(u64::MAX, |seconds| seconds.saturating_mul(1000)))
}

/// `spec.recovery`. What is no duration counts as the default, like what the CRD refuses.
fn replacement_policy(cluster: &EtcdCluster) -> ReplacementPolicy {
    let spec = &cluster.spec.recovery;
    let span = |given: &str, default: &str| {
        let seconds = duration::seconds(given).or_else(|| duration::seconds(default));
        Span(seconds.unwrap_or(0).saturating_mul(1000))
    };
    ReplacementPolicy { enabled: spec.enabled, grace: span(&spec.grace_period, DEFAULT_GRACE_PERIOD) }
}

/// The volumes with the label of the cluster, and recorded ones from which somebody took it.
fn read_volumes(
    volumes: &[&PersistentVolumeClaim],
    at: &ClusterRef,
    recorded: &BTreeSet<Uid>,
    cluster_deleted: Option<&Time>,
) -> BTreeMap<MemberName, Volume> {
    let named = volumes.iter().filter_map(|volume| Some((member_name(&volume.metadata, at)?, *volume)));
    let ours = named.filter(|(_, volume)| {
        let uid = volume.metadata.uid.as_ref().map(Uid::new);
        is_labelled(&volume.metadata, at) || uid.is_some_and(|uid| recorded.contains(&uid))
    });
    ours.map(|(name, seen)| (name, volume::read(seen, at, cluster_deleted))).collect()
}

/// Objects that have names of this cluster and are not owned by it: observed, or found by the executor.
fn foreign(seen: &ClusterObjects<'_>, at: &ClusterRef, uid: &ClusterUid) -> BTreeMap<ManagedObject, String> {
    let mut names = Names { at, uid, foreign: BTreeMap::new() };
    for conflict in &seen.conflicts {
        names.judge(conflict.kind, &conflict.name, false, conflict.made_by.clone());
    }
    names.judge_all(Kind::Pod, &seen.pods);
    names.judge_all(Kind::Service, &seen.services);
    names.judge_all(Kind::Budget, &seen.budgets);
    names.judge_all(Kind::NetworkPolicy, &seen.network_policies);
    for secret in &seen.secrets {
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        let made_by = labels::made_by(&secret.metadata, uid);
        names.judge(Kind::Secret, name, is_own_secret(&secret.metadata, at, uid), made_by);
    }
    for volume in seen.volumes.iter().filter_map(|volume| member_name(&volume.metadata, at)) {
        names.foreign.remove(&ManagedObject::Volume(volume));
    }
    // The name is needed only where the spec wants a policy.
    if !network_policy::is_wanted(seen.cluster) {
        names.foreign.remove(&ManagedObject::NetworkPolicy);
    }
    names.foreign
}

/// Leaves are owned by the EtcdCluster. An authority is not: the next cluster of that name takes it.
fn is_own_secret(meta: &ObjectMeta, at: &ClusterRef, uid: &ClusterUid) -> bool {
    let is_authority = certificate::is_of_authority(meta, at);
    is_owned_by(meta, uid) || (is_authority && certificate::is_authority_of(meta, at, uid))
}

struct Names<'a> {
    at: &'a ClusterRef,
    uid: &'a ClusterUid,
    foreign: BTreeMap<ManagedObject, String>,
}

impl Names<'_> {
    fn judge_all<K: Resource>(&mut self, kind: Kind, objects: &[&K]) {
        for meta in objects.iter().map(|object| object.meta()) {
            let name = meta.name.as_deref().unwrap_or_default();
            self.judge(kind, name, is_owned_by(meta, self.uid), labels::made_by(meta, self.uid));
        }
    }

    fn judge(&mut self, kind: Kind, name: &str, is_owned: bool, made_by: Option<String>) {
        let Some(object) = managed_object(kind, name, self.at) else { return };
        if is_owned {
            self.foreign.remove(&object);
        } else {
            let made_by = made_by.map(|by| format!(" ({by})")).unwrap_or_default();
            self.foreign.insert(object, kind.called(&self.at.namespace, name) + &made_by);
        }
    }
}

/// The object of the cluster that has this kind and name, if there is one.
fn managed_object(kind: Kind, name: &str, at: &ClusterRef) -> Option<ManagedObject> {
    let member = || Some(MemberName::new(name)).filter(|member| at.ordinal(member).is_some());
    match kind {
        Kind::Cluster | Kind::Certificate | Kind::Backup => None,
        Kind::Pod => member().map(ManagedObject::Pod),
        Kind::Volume => member().map(ManagedObject::Volume),
        Kind::Service if name == at.name => Some(ManagedObject::PeerService),
        Kind::Service => (name == service::client_name(at)).then_some(ManagedObject::ClientService),
        Kind::Budget => (name == at.name).then_some(ManagedObject::DisruptionBudget),
        Kind::NetworkPolicy => (name == at.name).then_some(ManagedObject::NetworkPolicy),
        Kind::Secret if name == names::connection(at) => Some(ManagedObject::Connection),
        Kind::Secret => {
            let mut secrets = Certificate::ALL.into_iter().map(|certificate| certificate.secret_name(at));
            secrets.any(|secret| secret == name).then(|| ManagedObject::Secret(name.to_owned()))
        }
    }
}
