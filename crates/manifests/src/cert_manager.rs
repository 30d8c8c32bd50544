//! The Certificates of cert-manager, for `tls.provider: cert-manager`: what is asked of it, and what it says. It answers into Secrets that etcd never
//! mounts: [`certificate::given`] copies from them.

pub(crate) mod object;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use quorate_api::cluster::{TlsProvider, TlsSpec};
use quorate_api::{EtcdCluster, duration};
use quorate_model::snapshot::{Asked, Issuance, IssuedLeaf, IssuedSecret, SeenCertificate};
use quorate_model::{Ca, ClusterRef, ClusterUid, Leaf, ObservedObject};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::certificate::parsed::hex;
use crate::kind::Kind;
use crate::write::Act;
use crate::{certificate, data_store, diff, labels};
pub use object::{Certificate, GROUP, VERSION};

/// On a CertificateRequest, and on a Secret that cert-manager keeps: the Certificate that it is for.
pub const CERTIFICATE_NAME: &str = "cert-manager.io/certificate-name";

/// The kind of an issuer, if the spec names none.
const ISSUER: &str = "Issuer";

/// The life of a certificate, if the spec has none: cert-manager's own default.
const LIFE_HOURS: u64 = 90 * 24;

/// What was read of Certificates and of what cert-manager wrote for them.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// The Certificates that there are, or are not; of one that is missing here that is not known.
    pub certificates: BTreeMap<Leaf, Option<Arc<Certificate>>>,
    /// The Secrets that they name, as far as no watch shows them, since they lack the label of the cluster.
    pub secrets: BTreeMap<Leaf, Arc<Secret>>,
    /// The CertificateRequests of the namespace.
    pub requests: Vec<Value>,
    /// Why a Certificate, or the Secret that it names, could not be read.
    pub failures: BTreeMap<(Kind, Leaf), String>,
    /// Why a Certificate could not be written when that was tried last.
    pub refusals: BTreeMap<Leaf, String>,
    /// The API server has no such kind.
    pub is_missing: bool,
}

/// What was seen of what cert-manager was asked for.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What is asked for, and what there is.
    pub issuance: Issuance,
    /// Why not all of it is issued, or what is in the way of it.
    pub says: Option<String>,
}

/// Whether the spec has cert-manager issue certificates.
pub fn is_wanted(cluster: &EtcdCluster) -> bool {
    cluster.spec.tls.provider == TlsProvider::CertManager && !data_store::ends(cluster)
}

/// Whether nothing rests any more on what cert-manager has issued: the operator's own authority signs, alone.
pub fn is_left(cluster: &EtcdCluster) -> bool {
    let status = cluster.status.as_ref().and_then(|status| status.certificates.as_ref());
    cluster.spec.tls.provider == TlsProvider::Auto
        && status
            .is_some_and(|status| !status.given && status.rotation.is_none() && status.authority.is_some())
}

/// The leaves that cert-manager may issue: that of the operator only where etcd's `auth` is wanted or on.
pub fn leaves(auth: bool) -> impl Iterator<Item = Leaf> {
    Leaf::of_cluster(auth).filter(|leaf| leaf.ca() == Ca::Clients)
}

/// The name of the Certificate of a leaf.
pub fn name(leaf: Leaf, at: &ClusterRef) -> String {
    format!("{}-{leaf}", at.name)
}

/// The name of the Secret that cert-manager writes.
pub fn secret_name(leaf: Leaf, at: &ClusterRef) -> String {
    format!("{}-{leaf}-issued", at.name)
}

/// The leaf whose Certificate or Secret has this name, in a cluster that has one of this name.
pub fn leaf_called(kind: Kind, named: &str) -> Option<Leaf> {
    let suffix = |leaf: Leaf| match kind {
        Kind::Certificate => Some(format!("-{leaf}")),
        Kind::Secret => Some(format!("-{leaf}-issued")),
        Kind::Cluster
        | Kind::Pod
        | Kind::Volume
        | Kind::Service
        | Kind::Budget
        | Kind::NetworkPolicy
        | Kind::Backup => None,
    };
    leaves(true).find(|leaf| suffix(*leaf).is_some_and(|suffix| named.ends_with(&suffix)))
}

/// That somebody changes what the operator writes, so often in a row.
pub fn changed(
    cluster: &EtcdCluster,
    at: &ClusterRef,
    leaf: Leaf,
    found: &Certificate,
    times: u32,
) -> String {
    format!(
        "Certificate {}/{} is changed whenever the operator writes it ({}), {times} times by now: look for a policy that does, and except it. It is \
         written again after growing pauses, an hour at most, and at once after an edit of spec.tls",
        at.namespace,
        name(leaf, at),
        differences(cluster, at, leaf, found).join(", "),
    )
}

/// What there is of what the cluster asks of cert-manager. `cluster` has the accepted spec (R26), `secrets` are those of the watches.
pub fn observe(
    cluster: &EtcdCluster,
    (at, uid): (&ClusterRef, &ClusterUid),
    auth: bool,
    secrets: &BTreeMap<String, Arc<Secret>>,
    read: &Read,
) -> Seen {
    let is_wanted = is_wanted(cluster);
    if !is_wanted && !is_left(cluster) {
        return Seen::default();
    }
    let asked =
        |leaf: Leaf| (is_wanted && (auth || leaf != Leaf::Operator)).then(|| asked(cluster, at, leaf));
    let secret = |leaf: Leaf| {
        let secret = secrets.get(&secret_name(leaf, at)).or_else(|| read.secrets.get(&leaf))?;
        Some((secret, is_issued(secret, leaf, at)))
    };
    // A Secret that a watch shows was not read.
    let failure = |leaf: Leaf| {
        let is_shown = secrets.contains_key(&secret_name(leaf, at));
        let of_secret = read.failures.get(&(Kind::Secret, leaf)).filter(|_| !is_shown);
        read.failures.get(&(Kind::Certificate, leaf)).or(of_secret)
    };
    let one = |leaf: Leaf| {
        let certificate = match read.certificates.get(&leaf) {
            _ if failure(leaf).is_some() => SeenCertificate::Unread,
            None => SeenCertificate::Unread,
            Some(None) => SeenCertificate::Absent,
            Some(Some(found)) if !labels::is_owned_by(&found.metadata, uid) => SeenCertificate::Foreign,
            Some(Some(found)) => SeenCertificate::Own {
                observed: diff::observed(&found.metadata),
                matches: differences(cluster, at, leaf, found).is_empty(),
            },
        };
        let secret = secret(leaf).map(|(secret, is_issued)| IssuedSecret {
            observed: diff::observed(&secret.metadata),
            is_issued,
        });
        IssuedLeaf { asked: asked(leaf), certificate, secret, not_before: None }
    };
    let leaves: BTreeMap<Leaf, IssuedLeaf> = leaves(true).map(|leaf| (leaf, one(leaf))).collect();
    let wanted = || leaves.iter().filter(|(_, one)| one.asked.is_some());
    let in_the_way = wanted().find_map(|(leaf, one)| {
        let certificate = Kind::Certificate.called(&at.namespace, &name(*leaf, at));
        if read.is_missing {
            let text = "cert-manager is not installed in this Kubernetes: there is no kind Certificate of cert-manager.io/v1";
            return Some(text.to_owned());
        }
        if let Some(why) = failure(*leaf).or_else(|| read.refusals.get(leaf)) {
            return Some(format!("{certificate} {why}"));
        }
        match &one.certificate {
            SeenCertificate::Unread => Some(format!("{certificate} is not read yet")),
            SeenCertificate::Foreign => {
                let found = read.certificates.get(leaf).and_then(Option::as_ref);
                let by = found.and_then(|found| labels::made_by(&found.metadata, uid));
                let by = by.map(|by| format!(" ({by})")).unwrap_or_default();
                Some(format!("{certificate} exists and is not owned by this EtcdCluster{by}. Delete or rename it"))
            }
            SeenCertificate::Absent if one.would_take_a_secret() => {
                let by = secret(*leaf).and_then(|(secret, _)| labels::made_by(&secret.metadata, uid));
                let by = by.map(|by| format!(" ({by})")).unwrap_or_default();
                let secret = Kind::Secret.called(&at.namespace, &secret_name(*leaf, at));
                Some(format!(
                    "{secret}{by} exists, and cert-manager has not written it for {certificate}. cert-manager would write over it, so nothing is asked \
                     of cert-manager. Delete or rename it"
                ))
            }
            SeenCertificate::Absent => Some(format!("{certificate} does not exist yet")),
            SeenCertificate::Own { .. } => None,
        }
    });
    let found = || wanted().filter_map(|(leaf, _)| read.certificates.get(leaf)?.as_deref());
    let says = in_the_way.or_else(|| found().find_map(|found| says(at, found, &read.requests)));
    Seen { issuance: Issuance { is_pending: says.is_some(), leaves }, says }
}

/// Whether there is a Certificate of the cluster's that is asked for and not issued: then its requests may say why.
pub fn waits(seen: &Issuance, read: &Read) -> bool {
    let asked = seen.leaves.iter().filter(|(_, one)| one.asked.is_some());
    let mut found = asked.filter_map(|(leaf, _)| read.certificates.get(leaf)?.as_deref());
    found.any(|found| !is_ready(found))
}

/// The creation of the Certificate of a leaf, if this is what the spec asks for.
pub(crate) fn create(cluster: &EtcdCluster, at: &ClusterRef, leaf: Leaf, as_planned: &Asked) -> Option<Act> {
    let made = without_nulls(desired(cluster, at, leaf));
    (asked(cluster, at, leaf) == *as_planned).then_some(Act::Create(made))
}

/// The change of a Certificate to what the spec asks for, if it is this.
pub(crate) fn change(
    cluster: &EtcdCluster,
    at: &ClusterRef,
    leaf: Leaf,
    as_planned: &Asked,
    observed: &ObservedObject,
) -> Option<Act> {
    let desired = desired(cluster, at, leaf);
    let mut metadata = diff::precondition(observed);
    metadata["labels"] = desired["metadata"]["labels"].clone();
    let patch = json!({ "metadata": metadata, "spec": desired["spec"] });
    (asked(cluster, at, leaf) == *as_planned).then_some(Act::Patch(patch))
}

/// What the spec asks for.
fn asked(cluster: &EtcdCluster, at: &ClusterRef, leaf: Leaf) -> Asked {
    let text = desired(cluster, at, leaf).to_string();
    Asked::new(hex(&Sha256::digest(text)))
}

/// What of a Certificate is not as the spec wants it, as a person finds it: `spec.duration`.
pub fn differences(cluster: &EtcdCluster, at: &ClusterRef, leaf: Leaf, found: &Certificate) -> Vec<String> {
    let desired = desired(cluster, at, leaf);
    let fields = desired["spec"].as_object().into_iter().flatten();
    let differs = |(field, desired): &(&String, &Value)| {
        let found = &found.spec[field.as_str()];
        if desired.is_null() { !found.is_null() } else { !diff::matches(found, desired) }
    };
    let of_spec = fields.filter(differs).map(|(field, _)| format!("spec.{field}"));
    let labels = json!(found.metadata.labels);
    let of_labels =
        (!diff::matches(&labels, &desired["metadata"]["labels"])).then(|| "metadata.labels".to_owned());
    of_spec.chain(of_labels).collect()
}

/// Whether a Secret says that cert-manager wrote it for the Certificate of this leaf, by whichever issuer.
pub fn is_issued(secret: &Secret, leaf: Leaf, at: &ClusterRef) -> bool {
    let annotations = secret.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(CERTIFICATE_NAME)) == Some(&name(leaf, at))
}

/// Whether cert-manager wrote this Secret for the Certificate of this leaf, by the issuer that the spec names; why not. One that is left over
/// is of another cluster, or of another issuer.
pub(crate) fn is_of_spec(secret: &Secret, leaf: Leaf, at: &ClusterRef, tls: &TlsSpec) -> Result<(), String> {
    let given = tls.cert_manager().cloned().unwrap_or_default();
    let is = |key: &str, wanted: &str| {
        let found = secret.metadata.annotations.as_ref().and_then(|all| all.get(key));
        found.map(String::as_str) == Some(wanted)
    };
    let is_so = is(CERTIFICATE_NAME, &name(leaf, at))
        && is("cert-manager.io/issuer-name", given.issuer_name.as_deref().unwrap_or_default())
        && is("cert-manager.io/issuer-kind", given.issuer_kind.as_deref().unwrap_or(ISSUER));
    if is_so {
        Ok(())
    } else {
        Err("cert-manager has not written it for this cluster by the issuer that the spec names".to_owned())
    }
}

/// Why a Certificate is not issued, in cert-manager's words: its own, and those of its newest request. `None` if it is.
fn says(at: &ClusterRef, certificate: &Certificate, requests: &[Value]) -> Option<String> {
    if is_ready(certificate) {
        return None;
    }
    let name = certificate.metadata.name.as_deref().unwrap_or_default();
    let message = |condition: Option<&Value>| {
        let text = condition.and_then(|condition| condition["message"].as_str()).unwrap_or_default();
        text.chars().take(400).collect::<String>()
    };
    let own = match message(condition(&certificate.status, "Ready")) {
        text if text.is_empty() => "cert-manager has not looked at it yet: does it run?".to_owned(),
        text => text,
    };
    let is_of =
        |request: &&Value| request["metadata"]["annotations"][CERTIFICATE_NAME].as_str() == Some(name);
    let newest = requests.iter().filter(is_of).max_by_key(|request| {
        request["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned()
    });
    let of_request =
        newest.map(|request| message(condition(&request["status"], "Ready"))).filter(|text| !text.is_empty());
    let of_request = of_request.map(|text| format!(". Its request: {text}")).unwrap_or_default();
    Some(format!("Certificate {}/{name} is not ready: {own}{of_request}", at.namespace))
}

fn is_ready(certificate: &Certificate) -> bool {
    condition(&certificate.status, "Ready").is_some_and(|ready| ready["status"] == "True")
}

fn condition<'a>(status: &'a Value, type_: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

/// With null where the spec has nothing.
fn desired(cluster: &EtcdCluster, at: &ClusterRef, leaf: Leaf) -> Value {
    let tls = &cluster.spec.tls;
    let given = tls.cert_manager().cloned().unwrap_or_default();
    let (addresses, names): (Vec<String>, Vec<String>) =
        certificate::names(leaf, at, tls).into_iter().partition(|name| name.parse::<IpAddr>().is_ok());
    let some = |names: Vec<String>| if names.is_empty() { Value::Null } else { json!(names) };
    let organizations = some(certificate::organizations(leaf, tls));
    let subject =
        if organizations.is_null() { Value::Null } else { json!({ "organizations": organizations }) };
    let common_name = certificate::common_name(leaf, tls, certificate::is_with_auth(cluster));
    let common_name = if common_name.is_empty() { Value::Null } else { json!(common_name) };
    let seconds = given.validity_duration.as_deref().and_then(duration::seconds);
    let hours = seconds.map_or(LIFE_HOURS, |seconds| (seconds / 3600).max(1));
    let (algorithm, size) = match given.key_algorithm.as_deref() {
        Some("ECDSA-P384") => ("ECDSA", 384),
        Some("RSA-2048") => ("RSA", 2048),
        Some("RSA-3072") => ("RSA", 3072),
        Some("RSA-4096") => ("RSA", 4096),
        Some(_) | None => ("ECDSA", 256),
    };
    // Copies of it are made, and what restores Secrets must not bring one of before.
    let mut in_secret = labels::not_backed_up();
    in_secret.insert(quorate_api::keys::CLUSTER.to_owned(), at.name.clone());
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Certificate",
        "metadata": labels::owned(cluster, at, name(leaf, at)),
        "spec": {
            "secretName": secret_name(leaf, at),
            "secretTemplate": { "labels": in_secret },
            "commonName": common_name,
            "subject": subject,
            "dnsNames": some(names),
            "ipAddresses": some(addresses),
            "duration": format!("{hours}h0m0s"),
            // A member asks itself, with the server's certificate.
            "usages": if leaf.is_of_server() {
                json!(["digital signature", "server auth", "client auth"])
            } else {
                json!(["digital signature", "client auth"])
            },
            "privateKey": {
                "algorithm": algorithm, "size": size, "encoding": "PKCS8", "rotationPolicy": "Always",
            },
            "issuerRef": {
                "group": GROUP,
                "kind": given.issuer_kind.as_deref().unwrap_or(ISSUER),
                "name": given.issuer_name.unwrap_or_default(),
            },
        },
    })
}

fn without_nulls(mut object: Value) -> Value {
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.retain(|_, field| !field.is_null());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::given::issued;

    fn cluster(cfg: &Value) -> EtcdCluster {
        let object = json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
            "metadata": { "name": "demo", "namespace": "default", "uid": "u-1" },
            "spec": { "size": 3, "version": "3.6.16", "tls": {
                "provider": "cert-manager", "providerCfg": { "certManagerCfg": cfg },
            } },
        });
        serde_json::from_value(object).unwrap()
    }

    fn at() -> ClusterRef {
        ClusterRef::new("default", "demo")
    }

    fn made(cfg: &Value, leaf: Leaf) -> Value {
        let cluster = cluster(cfg);
        match create(&cluster, &at(), leaf, &asked(&cluster, &at(), leaf)) {
            Some(Act::Create(made)) => made,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_certificate_has_the_names_that_clients_use_and_the_secret_the_label_of_the_cluster() {
        let cfg = json!({ "issuerName": "ca", "organizations": ["o"], "validityDuration": "30d", "keyAlgorithm": "RSA-3072",
            "altNames": { "dnsNames": ["etcd.example.com"], "ipAddresses": ["192.0.2.1"] } });
        let server = made(&cfg, Leaf::Server);
        let spec = &server["spec"];
        assert_eq!(
            spec["secretName"],
            issued::secret_name(Leaf::Server, &at(), &cluster(&cfg).spec.tls).unwrap()
        );
        assert_eq!(spec["secretTemplate"]["labels"]["operator.etcd.io/cluster"], "demo");
        let dns: Vec<&str> = spec["dnsNames"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(dns.contains(&"*.demo.default.svc") && dns.contains(&"etcd.example.com"), "{dns:?}");
        let addresses = spec["ipAddresses"].as_array().unwrap();
        assert!(addresses.contains(&json!("192.0.2.1")) && addresses.contains(&json!("127.0.0.1")));
        assert_eq!(
            (&spec["duration"], &spec["subject"]["organizations"]),
            (&json!("720h0m0s"), &json!(["o"]))
        );
        assert_eq!(spec["issuerRef"], json!({ "group": "cert-manager.io", "kind": "Issuer", "name": "ca" }));
        assert_eq!(
            (&spec["privateKey"]["algorithm"], &spec["privateKey"]["size"]),
            (&json!("RSA"), &json!(3072))
        );
        let client = made(&cfg, Leaf::Client);
        assert_eq!(client["spec"]["commonName"], "quorate-client");
        assert!(client["spec"].get("subject").is_none() && client["spec"].get("dnsNames").is_none());
        assert_eq!(made(&cfg, Leaf::Operator)["spec"]["commonName"], "root");
    }

    #[test]
    fn what_differs_is_patched_what_is_filled_in_is_free_and_nothing_is_made_of_another_spec_than_was_planned()
     {
        let cfg = json!({ "issuerName": "ca", "organizations": ["o"] });
        let mut found = made(&cfg, Leaf::Server);
        found["spec"]["revisionHistoryLimit"] = json!(1);
        let differ = |cfg: &Value, found: &Value| {
            let found: Certificate = serde_json::from_value(found.clone()).unwrap();
            differences(&cluster(cfg), &at(), Leaf::Server, &found).join(" ")
        };
        assert_eq!(differ(&cfg, &found), "");
        let mut mutated = found.clone();
        mutated["spec"]["duration"] = json!("1h0m0s");
        mutated["spec"]["ipAddresses"] = json!(["192.0.2.9"]);
        mutated["metadata"]["labels"] = json!({});
        assert_eq!(differ(&cfg, &mutated), "spec.duration spec.ipAddresses metadata.labels");
        let of = |cfg: &Value| asked(&cluster(cfg), &at(), Leaf::Server);
        let seen = &ObservedObject::new("c-1", "7");
        for (other, differs) in [
            (json!({ "issuerName": "ca" }), "spec.subject"),
            (json!({ "issuerName": "other", "organizations": ["o"] }), "spec.issuerRef"),
        ] {
            assert_eq!(differ(&other, &found), differs);
            let Some(Act::Patch(patch)) = change(&cluster(&other), &at(), Leaf::Server, &of(&other), seen)
            else {
                panic!("{other}");
            };
            assert_eq!(patch["metadata"]["uid"], "c-1");
            assert_eq!(patch["metadata"]["resourceVersion"], "7");
            assert!(patch["spec"]["subject"].is_null() || patch["spec"]["issuerRef"]["name"] == "other");
            assert_eq!(create(&cluster(&other), &at(), Leaf::Server, &of(&cfg)), None);
            assert_eq!(change(&cluster(&other), &at(), Leaf::Server, &of(&cfg), seen), None);
        }
    }

    #[test]
    fn a_certificate_or_a_secret_of_somebody_is_named_and_nothing_is_asked() {
        let cfg = json!({ "issuerName": "ca" });
        let (cluster, uid) = (cluster(&cfg), ClusterUid::new("u-1"));
        let secrets = |annotations: Value| {
            let secret: Secret = serde_json::from_value(json!({ "metadata": {
                "name": "demo-server-issued", "uid": "s-1", "annotations": annotations,
            } }))
            .unwrap();
            BTreeMap::from([(Leaf::Server, Arc::new(secret))])
        };
        let seen = |read: &Read| observe(&cluster, (&at(), &uid), false, &BTreeMap::new(), read);
        let absent = BTreeMap::from([(Leaf::Server, None), (Leaf::Client, None), (Leaf::Operator, None)]);
        let free = Read { certificates: absent.clone(), ..Read::default() };
        let of_free = seen(&free).issuance.leaves;
        assert!(of_free[&Leaf::Server].asked.is_some() && of_free[&Leaf::Operator].asked.is_none());

        let taken =
            Read { secrets: secrets(json!({ "cert-manager.io/certificate-name": "other" })), ..free.clone() };
        let taken = seen(&taken);
        assert!(taken.issuance.leaves[&Leaf::Server].would_take_a_secret() && taken.issuance.is_pending);
        assert!(taken.says.unwrap().starts_with("Secret default/demo-server-issued exists"));
        let left = Read {
            secrets: secrets(json!({ "cert-manager.io/certificate-name": "demo-server" })),
            ..free.clone()
        };
        assert!(!seen(&left).issuance.leaves[&Leaf::Server].would_take_a_secret());

        let mut made: Certificate = serde_json::from_value(made(&cfg, Leaf::Server)).unwrap();
        let of = |made: &Certificate| {
            let mut read = free.clone();
            read.certificates.insert(Leaf::Server, Some(Arc::new(made.clone())));
            seen(&read)
        };
        let own = |seen: &Seen| {
            matches!(
                seen.issuance.leaves[&Leaf::Server].certificate,
                SeenCertificate::Own { matches: true, .. }
            )
        };
        assert!(own(&of(&made)));
        // R25: another operator makes the same EtcdCluster the owner of its objects.
        made.metadata.labels = None;
        assert!(!own(&of(&made)));
        assert!(
            of(&made).says.unwrap().starts_with("Certificate default/demo-server exists and is not owned")
        );
        made.metadata.labels = Some(labels::of_cluster(&at()));
        made.metadata.owner_references = None;
        assert!(!own(&of(&made)));
    }

    #[test]
    fn what_cert_manager_says_of_a_certificate_is_told_with_the_words_of_its_newest_request() {
        let certificate = |status: &str, message: &str| {
            let found = json!({ "metadata": { "name": "demo-server" }, "status": { "conditions": [
                { "type": "Ready", "status": status, "message": message },
            ] } });
            serde_json::from_value::<Certificate>(found).unwrap()
        };
        let request = |of: &str, at: &str, message: &str| {
            json!({ "metadata": { "annotations": { CERTIFICATE_NAME: of }, "creationTimestamp": at },
                "status": { "conditions": [{ "type": "Ready", "message": message }] } })
        };
        let requests = [
            request("demo-server", "2026-01-01T00:00:00Z", "of yesterday"),
            request("demo-server", "2026-01-02T00:00:00Z", "Referenced \"Issuer\" not found"),
            request("other", "2026-01-03T00:00:00Z", "of another"),
        ];
        let waits = certificate("False", "Issuing certificate as Secret does not exist");
        assert_eq!(
            says(&at(), &waits, &requests).unwrap(),
            "Certificate default/demo-server is not ready: Issuing certificate as Secret does not exist. Its request: \
             Referenced \"Issuer\" not found"
        );
        assert_eq!(says(&at(), &certificate("True", ""), &requests), None);
        assert!(says(&at(), &Certificate::default(), &[]).unwrap().contains("does it run?"));
    }
}
