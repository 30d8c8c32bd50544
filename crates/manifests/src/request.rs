//! The request that carries out an effect. The executor only sends it.
//!
//! A change of something that exists names the object's uid and the version at which it was seen, so it is refused if
//! the object is another one or has changed since.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use quorate_api::status::EtcdClusterStatus;
use quorate_api::{EtcdCluster, keys};
use quorate_model::effect::Boot;
use quorate_model::record::Stage;
use quorate_model::{
    AppliedObject, Ca, DeletedObject, Effect, Fingerprint, Instant, KubeEffect, Leaf, ManagedObject,
    MemberName, Record, Snapshot, Target, Token, Uid,
};
use serde_json::{Map, Value, json};

use crate::certificate::given::staged;
use crate::certificate::order::{self, Renewed};
use crate::certificate::{Certificate, KeyPair, Order, given, rotation};
use crate::defaults::{AgentDelivery, Defaults};
use crate::kind::Kind;
use crate::labels::{self, is_owned_by};
use crate::objects::ClusterObjects;
use crate::pod::{self, Member};
use crate::write::{Act, Write};
use crate::{
    backup_before, budget, cert_manager, connection, diff, metadata, network_policy, restored, service,
    volume,
};

/// The input of a request, besides the effect.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The EtcdCluster after status was written.
    pub cluster: &'a EtcdCluster,
    /// The objects that the plan is based on.
    pub seen: &'a ClusterObjects<'a>,
    /// The snapshot that the plan is based on.
    pub snapshot: &'a Snapshot,
    /// The record of the plan, which status has now.
    pub record: &'a Record,
    /// The defaults from the operator's flags.
    pub defaults: &'a Defaults,
    /// The time of the plan.
    pub now: Instant,
}

/// What carries out an effect on Kubernetes.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Generate a certificate, then write its Secret.
    Certificate(Box<Order>),
    /// A write to the Kubernetes API.
    Write(Write),
}

/// The request that carries out an effect on Kubernetes.
pub fn request(effect: &KubeEffect, context: &Context<'_>) -> Request {
    let Context { cluster, seen, snapshot, record, defaults, now: _ } = *context;
    let at = &snapshot.cluster;
    let write = |kind, name: &str, act| {
        Request::Write(Write { kind, namespace: at.namespace.clone(), name: name.to_owned(), act })
    };
    match effect {
        KubeEffect::AddFinalizer => write(Kind::Cluster, &at.name, finalizers(&cluster.metadata, true)),
        KubeEffect::RemoveFinalizer => write(Kind::Cluster, &at.name, finalizers(&cluster.metadata, false)),
        KubeEffect::Apply(object) => {
            let (kind, name) = metadata::called(&object.managed(), at);
            write(kind, &name, apply(context, object, &name))
        }
        KubeEffect::Delete { object, observed } => {
            let (kind, name) = match object {
                DeletedObject::Budget => (Kind::Budget, at.name.clone()),
                DeletedObject::NetworkPolicy => (Kind::NetworkPolicy, at.name.clone()),
                DeletedObject::Authority(ca) => (Kind::Secret, Certificate::from(*ca).secret_name(at)),
                DeletedObject::Certificate(leaf) => (Kind::Certificate, cert_manager::name(*leaf, at)),
                DeletedObject::Issued(leaf) => (Kind::Secret, cert_manager::secret_name(*leaf, at)),
            };
            write(kind, &name, delete(&observed.uid, &observed.resource_version))
        }
        KubeEffect::CreateBackup { name } => {
            let made = [backup_before::backup(cluster), restored::for_cluster(cluster)].into_iter().flatten();
            // The plan rests on a spec that asks for it. Without it there is nothing to order, and an empty one is refused.
            let made = made.into_iter().find(|backup| backup.metadata.name.as_ref() == Some(name));
            write(Kind::Backup, name, Act::Create(made.map_or(Value::Null, |backup| json!(backup))))
        }
        KubeEffect::CreateAuthority { ca, place, given } => {
            let generation = generation(context, *ca);
            let made = order::authority(
                cluster,
                at,
                (*ca, *place),
                &snapshot.uid,
                generation,
                context.snapshot.present(context.now),
            );
            authority_request(context, made, given.as_ref())
        }
        KubeEffect::MakeNextAuthority { ca, given, observed } => {
            let (generation, now) = (generation(context, *ca), snapshot.present(context.now));
            let made = order::next_authority((at, *ca), &snapshot.uid, observed, generation, now);
            authority_request(context, made, given.as_ref())
        }
        KubeEffect::ArrangeAuthority { ca, observed, signer } => {
            let name = Certificate::from(*ca).secret_name(at);
            let found = seen.secrets.iter().find(|seen| seen.metadata.name.as_ref() == Some(&name));
            let act = found.and_then(|found| rotation::arrange(found, observed, signer));
            write(Kind::Secret, &name, act.unwrap_or_else(refused_patch))
        }
        KubeEffect::WriteTrust { leaf, observed, trust, generation } => {
            let own = (at, &snapshot.uid);
            let act = rotation::write_trust(
                &seen.secrets,
                own,
                &record.certificates,
                observed,
                (trust, *generation),
            );
            let act = act.unwrap_or_else(refused_patch);
            write(Kind::Secret, &Certificate::from(*leaf).secret_name(at), act)
        }
        KubeEffect::KeepAuthority { ca, observed } => {
            let mut patch = json!({ "metadata": diff::precondition(observed) });
            patch["metadata"]["ownerReferences"] = Value::Null;
            patch["metadata"]["annotations"] = json!({ keys::CLUSTER_UID: snapshot.uid.as_str() });
            write(Kind::Secret, &Certificate::from(*ca).secret_name(at), Act::Patch(patch))
        }
        KubeEffect::IssueLeaf { leaf, by } => leaf_order(context, *leaf, by, None),
        KubeEffect::RenewLeaf { leaf, by, observed } => {
            let seen = snapshot.certificates.as_ref().and_then(|seen| seen.leaves.get(leaf));
            let trusts =
                seen.is_some_and(|seen| seen.content.as_ref().is_ok_and(|leaf| leaf.trusted.contains(by)));
            let own = (at, &snapshot.uid);
            let bundle = rotation::with_first(&context.seen.secrets, own, *leaf, by);
            let renewed = Renewed { observed, trusts_authority: trusts, bundle };
            leaf_order(context, *leaf, by, Some(renewed))
        }
        KubeEffect::CreateCertificate { leaf, asked } => {
            let act = cert_manager::create(cluster, at, *leaf, asked);
            // The plan rests on this spec. An empty one is refused.
            write(Kind::Certificate, &cert_manager::name(*leaf, at), act.unwrap_or(Act::Create(Value::Null)))
        }
        KubeEffect::ChangeCertificate { leaf, asked, observed } => {
            let act = cert_manager::change(cluster, at, *leaf, asked, observed);
            write(Kind::Certificate, &cert_manager::name(*leaf, at), act.unwrap_or_else(refused_patch))
        }
        KubeEffect::CreateVolume { member } => {
            let storage = &target(context).storage;
            let made = volume::volume(at, &snapshot.uid, &token(record), member, storage);
            let made = with_metadata(context, &ManagedObject::Volume(member.clone()), made);
            write(Kind::Volume, member.as_str(), Act::Create(made))
        }
        KubeEffect::AnnotateVolume { member, volume: uid, cluster_id, member_id, version } => {
            let precondition = volume_as_seen(snapshot, member, uid);
            let (cluster_id, member_id, version) = (*cluster_id, *member_id, *version);
            let uid = &snapshot.uid;
            let identity = volume::Identity { at, uid, member, record, cluster_id, member_id, version };
            let patch = volume::annotate(&precondition, identity);
            write(Kind::Volume, member.as_str(), Act::Patch(patch))
        }
        KubeEffect::ApplyMetadata { object, observed } => {
            let uid = &snapshot.uid;
            let (kind, name, patch) = metadata::patch(cluster, at, uid, seen, (object, observed));
            write(kind, &name, Act::Patch(patch))
        }
        KubeEffect::QuarantineVolume { member, volume: uid, since, why } => {
            let patch = volume::quarantine(&volume_as_seen(snapshot, member, uid), *since, *why);
            write(Kind::Volume, member.as_str(), Act::Patch(patch))
        }
        KubeEffect::ExpandVolume { member, volume: uid, bytes } => {
            let patch = volume::expand(&volume_as_seen(snapshot, member, uid), *bytes);
            write(Kind::Volume, member.as_str(), Act::Patch(patch))
        }
        KubeEffect::CreatePod { member, boot, peers } => {
            let mut made = pod::pod(&Member {
                cluster,
                at,
                target: target(context),
                token: &token(record),
                cluster_id: record.cluster_id,
                name: member,
                boot: *boot,
                restore: record.restore.as_ref(),
                quorum_recovery: record.quorum_recovery.as_ref(),
                peers,
                agent_image: &defaults.agent_image,
                by_image_volume: match defaults.agent_delivery {
                    AgentDelivery::InitContainer => false,
                    AgentDelivery::ImageVolumeFirst => {
                        record.no_image_volume.is_none() && snapshot.image_volume_refused.is_none()
                    }
                    AgentDelivery::ImageVolume => true,
                },
                // As long as the Secrets have an earlier one, waiting for the recorded one could last for ever: only a later pass writes them.
                trust: snapshot.certificates.as_ref().map_or(0, |seen| seen.trust().min(record.trust)),
                ip_family: defaults.ip_family,
                priority_class: defaults.priority_class.as_deref(),
            });
            if is_led_to(record, member, *boot) {
                made["metadata"]["labels"][keys::SERVES] = json!(keys::SERVES_VALUE);
            }
            write(Kind::Pod, member.as_str(), Act::Create(made))
        }
        KubeEffect::LabelJoined { member, pod } => {
            let seen = snapshot.pods.get(member).filter(|seen| seen.uid == *pod);
            let mut labels = labels::of_member(at, member);
            labels.insert(keys::JOINED.to_owned(), keys::JOINED_VALUE.to_owned());
            let patch = json!({ "metadata": {
                "uid": pod.as_str(),
                "resourceVersion": seen.map(|seen| &seen.resource_version),
                "annotations": { keys::JOINED: keys::JOINED_VALUE },
                "labels": labels,
            } });
            write(Kind::Pod, member.as_str(), Act::Patch(patch))
        }
        KubeEffect::LabelServes { member, pod } => {
            write(Kind::Pod, member.as_str(), Act::Patch(serve(snapshot, member, pod, None)))
        }
        KubeEffect::LeadClientsAway { member, pod, at } => {
            write(Kind::Pod, member.as_str(), Act::Patch(serve(snapshot, member, pod, Some(*at))))
        }
        KubeEffect::UngatePod { member, pod } => {
            write(Kind::Pod, member.as_str(), Act::Patch(ungate(context, pod)))
        }
        KubeEffect::EvictPod { member, pod } => {
            write(Kind::Pod, member.as_str(), Act::Evict { uid: pod.as_str().to_owned() })
        }
        KubeEffect::DeletePod { member, pod, resource_version } => {
            write(Kind::Pod, member.as_str(), delete(pod, resource_version))
        }
        KubeEffect::DeleteVolume { member, volume, resource_version } => {
            write(Kind::Volume, member.as_str(), delete(volume, resource_version))
        }
    }
}

/// The write that changes the status of an EtcdCluster to this one; `None` if nothing differs.
pub fn write_status(cluster: &EtcdCluster, status: &EtcdClusterStatus) -> Option<Write> {
    // It is asked at each look at each cluster of a fleet.
    if cluster.status.as_ref() == Some(status) {
        return None;
    }
    let plain = |status: &EtcdClusterStatus| serde_json::to_value(status).expect("a status is plain data");
    let before = cluster.status.as_ref().map_or_else(|| json!({}), plain);
    let change = merge_patch(&before, &plain(status))?;
    Some(patch_status(cluster, json!({ "status": change })))
}

/// The write that comes before the effects of a plan (R3). Where status has the record already, this changes nothing, and
/// is refused if the object has changed meanwhile: then the observation is outdated. `None` if nothing is to be done.
pub fn write_record(cluster: &EtcdCluster, status: &EtcdClusterStatus, effects: &[Effect]) -> Option<Write> {
    let confirm = || patch_status(cluster, json!({}));
    write_status(cluster, status).or_else(|| (!effects.is_empty()).then(confirm))
}

/// Refused if the cluster is another one, or has changed.
fn patch_status(cluster: &EtcdCluster, mut patch: Value) -> Write {
    let meta = &cluster.metadata;
    patch["metadata"] = precondition(meta);
    Write {
        kind: Kind::Cluster,
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        act: Act::PatchStatus(patch),
    }
}

/// The committed target.
fn target<'a>(context: &Context<'a>) -> &'a Target {
    context.record.target.as_ref().unwrap_or(&context.snapshot.desired)
}

/// Recorded before the first volume is created (B1).
fn token(record: &Record) -> Token {
    record.token.clone().unwrap_or_else(|| Token::new(""))
}

/// The plan rests on what is in a Secret. Where that is gone meanwhile, a patch with this precondition is refused.
fn refused_patch() -> Act {
    Act::Patch(json!({ "metadata": { "uid": "not there any more" } }))
}

/// The generation of an authority that is made: that of the trust in it. The first one has none.
fn generation(context: &Context<'_>, ca: Ca) -> u32 {
    let Context { record, .. } = context;
    if record.authority_of(ca).is_some() { record.trust + 1 } else { record.trust }
}

/// The authority is made; or a copy of the given one is written where it would have gone. If that is not there any more, nothing is.
fn authority_request(context: &Context<'_>, made: Order, given: Option<&Fingerprint>) -> Request {
    let Some(given) = given else { return Request::Certificate(Box::new(made)) };
    let (tls, at, secrets) = (&context.cluster.spec.tls, &context.snapshot.cluster, &context.seen.secrets);
    let given = (given, context.defaults.verifier);
    let Some(pair) = given::copy(secrets, at, tls, given) else { return written(&made, None) };
    let mut write = made.write(&pair);
    // With its leaves, where it has its key somewhere else.
    let staged = staged::entries(&given::issued::copy_leaves(secrets, at, tls, given));
    match &mut write.act {
        Act::Create(secret) => {
            let copied = staged.into_iter().filter(|(_, value)| !value.is_null());
            copied.for_each(|(key, value)| secret["data"][key] = value);
        }
        Act::Patch(patch) => staged.into_iter().for_each(|(key, value)| patch["data"][key] = value),
        Act::PatchStatus(_) | Act::Delete { .. } | Act::Evict { .. } => {}
    }
    Request::Write(write)
}

/// A leaf that this authority signs; or a copy of what it has signed somewhere else. Where its key is lost nothing can be signed, which the driver then
/// reports.
fn leaf_order(context: &Context<'_>, leaf: Leaf, by: &Fingerprint, renewed: Option<Renewed<'_>>) -> Request {
    let Context { cluster, seen, snapshot, record, now, defaults } = context;
    let at = &snapshot.cluster;
    let pair = rotation::pair(&seen.secrets, (at, &snapshot.uid), by);
    let pair = pair.unwrap_or_else(|| KeyPair { cert: String::new(), key: String::new() });
    // While an authority is being replaced, its `ca.crt` lacks one of both until C2 has written it.
    let trust = if record.rotation.is_some() { 0 } else { record.trust };
    let mut secrets = snapshot.certificates.iter().flat_map(|certificates| certificates.authorities.values());
    let authority = secrets.find_map(|secret| secret.with(by));
    let is_keyless = authority.is_some_and(|authority| authority.keyless);
    let made = order::leaf(cluster, at, leaf, (pair, authority), renewed, (trust, snapshot.present(*now)));
    if !is_keyless {
        return Request::Certificate(Box::new(made));
    }
    let chosen = snapshot.certificates.as_ref().zip(authority);
    let chosen = chosen.and_then(|(seen, authority)| seen.given_leaf(leaf, authority, *now));
    let copy = chosen.and_then(|chosen| {
        let original =
            given::issued::copy_leaf(&seen.secrets, at, &cluster.spec.tls, leaf, defaults.verifier);
        let original = original.filter(|(found, _)| found.fingerprint == chosen.fingerprint);
        let name = Certificate::from(leaf.ca()).secret_name(at);
        let mut named = seen.secrets.iter().filter(|seen| seen.metadata.name.as_ref() == Some(&name));
        let staged = || named.find_map(|secret| staged::pair(secret, leaf, &chosen.fingerprint));
        original.map(|(_, pair)| pair).or_else(staged)
    });
    written(&made, copy.as_ref())
}

/// The write that puts a copy where what is made would have gone. If what is copied is not there any more, nothing is written.
fn written(made: &Order, copy: Option<&KeyPair>) -> Request {
    let empty = KeyPair { cert: String::new(), key: String::new() };
    let write = made.write(copy.unwrap_or(&empty));
    Request::Write(if copy.is_some() { write } else { Write { act: refused_patch(), ..write } })
}

/// An object that is to be created, with what the spec gives it.
fn with_metadata(context: &Context<'_>, object: &ManagedObject, mut made: Value) -> Value {
    metadata::add(context.cluster, &context.snapshot.cluster, object, &mut made);
    made
}

/// What creates an object, or brings that of this EtcdCluster with this name to its desired form.
fn apply(context: &Context<'_>, applied: &AppliedObject, name: &str) -> Act {
    let Context { cluster, seen, snapshot, defaults, .. } = *context;
    let (at, object) = (&snapshot.cluster, &applied.managed());
    let is_own = |meta: &ObjectMeta| meta.name.as_deref() == Some(name) && is_owned_by(meta, &snapshot.uid);
    let create = |made| Act::Create(with_metadata(context, object, made));
    let of_service = |desired: Value| {
        let own = seen.services.iter().find(|seen| is_own(&seen.metadata));
        (own.map(|own| service_patch(context, object, own, &desired)), desired)
    };
    let (patch, desired) = match applied {
        AppliedObject::PeerService => of_service(service::peer(cluster, at)),
        AppliedObject::ClientService => of_service(service::client(cluster, at)),
        AppliedObject::Budget { min_available, excludes } => {
            let desired = budget::budget(cluster, at, *min_available, excludes.as_ref());
            let own = seen.budgets.iter().find(|seen| is_own(&seen.metadata));
            (own.map(|own| budget::merge_patch(own, &desired)), desired)
        }
        AppliedObject::NetworkPolicy => {
            let desired = network_policy::policy(cluster, at, defaults);
            let own = seen.network_policies.iter().find(|seen| is_own(&seen.metadata));
            (own.map(|own| network_policy::merge_patch(own, &desired)), desired)
        }
        AppliedObject::Connection => {
            let tls = snapshot.certificates.is_some();
            return match connection::act(cluster, &seen.secrets, at, &snapshot.uid, tls) {
                Some(Act::Create(made)) => create(made),
                Some(act) => act,
                // The plan rests on a certificate that is there. An empty one is refused.
                None => Act::Create(Value::Null),
            };
        }
    };
    patch.map_or_else(|| create(desired), Act::Patch)
}

fn service_patch(context: &Context<'_>, object: &ManagedObject, own: &Service, desired: &Value) -> Value {
    service::lead_patch(own, desired).unwrap_or_else(|| {
        let mut patch = service::merge_patch(own, desired);
        add_metadata(context, object, &mut patch);
        patch
    })
}

/// Labels and annotations of the spec with the form that they belong to: an annotation says what a load balancer is to be, such as an internal
/// one, before there is one and as long as there is one.
fn add_metadata(context: &Context<'_>, object: &ManagedObject, patch: &mut Value) {
    let Context { cluster, seen, snapshot, .. } = context;
    let Some(observed) = snapshot.metadata_differs.get(object) else { return };
    let (.., change) = metadata::patch(cluster, &snapshot.cluster, &snapshot.uid, seen, (object, observed));
    for field in ["labels", "annotations"] {
        for (key, value) in change["metadata"][field].as_object().into_iter().flatten() {
            patch["metadata"][field][key] = value.clone();
        }
    }
}

/// The gates without the operator's own. Other gates stay: the resourceVersion ensures it.
fn ungate(context: &Context<'_>, uid: &Uid) -> Value {
    let seen = context.seen.pods.iter().find(|seen| seen.metadata.uid.as_deref() == Some(uid.as_str()));
    let gates = seen.iter().filter_map(|seen| seen.spec.as_ref()?.scheduling_gates.as_ref()).flatten();
    let others: Vec<_> = gates.filter(|gate| gate.name != keys::BOOTSTRAP_GATE).collect();
    json!({
        "metadata": seen.map_or_else(|| json!({ "uid": uid.as_str() }), |seen| precondition(&seen.metadata)),
        "spec": { "schedulingGates": if others.is_empty() { Value::Null } else { json!(others) } },
    })
}

/// Whether a Pod is labelled as serving from the start (R24): that of a voter, which its readiness alone keeps from clients while it
/// starts. In a new cluster the label joined does, too. A learner has none before it votes.
fn is_led_to(record: &Record, member: &MemberName, boot: Boot) -> bool {
    match boot {
        Boot::New | Boot::Restore => true,
        // Z3: nobody knows yet whether these are the data that clients had.
        Boot::Resume if record.stopped_at.is_some() => false,
        Boot::Resume => {
            let stage = record.members.get(member).map(|member| member.stage);
            matches!(stage, Some(Stage::Voter | Stage::Bootstrap))
        }
        Boot::Join | Boot::Read | Boot::Extract => false,
    }
}

/// Leads clients to the Pod of a member, or away from it at this time.
fn serve(snapshot: &Snapshot, member: &MemberName, uid: &Uid, away: Option<Instant>) -> Value {
    let seen = snapshot.pods.get(member).filter(|seen| seen.uid == *uid);
    let until = away.and_then(|at| Timestamp::from_millisecond(at.0).ok()).map(|at| at.to_string());
    let serves = away.is_none().then_some(keys::SERVES_VALUE);
    json!({ "metadata": {
        "uid": uid.as_str(),
        "resourceVersion": seen.map(|seen| &seen.resource_version),
        "annotations": { keys::SERVED_UNTIL: until },
        "labels": { keys::SERVES: serves },
    } })
}

/// The whole list, as a merge patch replaces it. The resource version keeps entries of others.
fn finalizers(meta: &ObjectMeta, ours: bool) -> Act {
    let others = meta.finalizers.iter().flatten().filter(|entry| *entry != keys::FINALIZER).cloned();
    let all: Vec<String> = others.chain(ours.then(|| keys::FINALIZER.to_owned())).collect();
    let mut patch = json!({ "metadata": precondition(meta) });
    patch["metadata"]["finalizers"] = json!(all);
    Act::Patch(patch)
}

fn precondition(meta: &ObjectMeta) -> Value {
    json!({ "uid": meta.uid, "resourceVersion": meta.resource_version })
}

fn volume_as_seen(snapshot: &Snapshot, member: &MemberName, uid: &Uid) -> Value {
    let seen = snapshot.volumes.get(member).filter(|seen| seen.uid == *uid);
    match seen {
        Some(seen) => json!({ "uid": uid.as_str(), "resourceVersion": seen.resource_version }),
        None => json!({ "uid": uid.as_str() }),
    }
}

fn delete(uid: &Uid, resource_version: &str) -> Act {
    Act::Delete { uid: uid.as_str().to_owned(), resource_version: resource_version.to_owned() }
}

/// The merge patch from one value to another; `None` if they are the same. It merges objects within objects (RFC 7386), so what is absent
/// now is named with null, at any depth. Lists are replaced.
pub fn merge_patch(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (before, after) if before == after => None,
        (Value::Object(before), Value::Object(after)) => {
            let gone =
                before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
            let mut patch: Map<String, Value> = gone.collect();
            for (key, after) in after {
                match before.get(key) {
                    Some(before) => {
                        patch.extend(merge_patch(before, after).map(|change| (key.clone(), change)));
                    }
                    None => drop(patch.insert(key.clone(), after.clone())),
                }
            }
            Some(Value::Object(patch))
        }
        (_, after) => Some(after.clone()),
    }
}
