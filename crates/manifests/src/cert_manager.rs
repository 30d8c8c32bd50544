//! The Certificates of cert-manager, for `tls.provider: cert-manager`: what is asked of it, and what it says. It answers into Secrets that etcd never
//! mounts: [`certificate::given`] copies from them.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Secret;
use quorate_api::cluster::{TlsProvider, TlsSpec};
use quorate_api::{EtcdCluster, duration};
use quorate_model::{Ca, ClusterRef, Leaf};
use serde_json::{Value, json};

use crate::{certificate, data_store, diff, labels};

/// The group of cert-manager's kinds.
pub const GROUP: &str = "cert-manager.io";
/// Their version.
pub const VERSION: &str = "v1";
/// On a CertificateRequest, and on a Secret that cert-manager keeps: the Certificate that it is for.
pub const CERTIFICATE_NAME: &str = "cert-manager.io/certificate-name";

/// The kind of an issuer, if the spec names none.
const ISSUER: &str = "Issuer";

/// The life of a certificate, if the spec has none: cert-manager's own default.
const LIFE_HOURS: u64 = 90 * 24;

/// What is to be done about a Certificate.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// It does not exist.
    Create(Value),
    /// It is not as the spec wants it: the merge patch, with its preconditions.
    Patch(Value),
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

/// What is to be done about the Certificate of a leaf. `Err` with its name if somebody else's has it.
pub fn act(
    cluster: &EtcdCluster,
    at: &ClusterRef,
    leaf: Leaf,
    found: Option<&Value>,
) -> Result<Option<Act>, String> {
    let desired = desired(cluster, at, leaf);
    let Some(found) = found else { return Ok(Some(Act::Create(without_nulls(desired)))) };
    if !is_owned(cluster, found) {
        return Err(format!("Certificate {}/{}", at.namespace, name(leaf, at)));
    }
    let kept = json!({ "metadata": { "labels": desired["metadata"]["labels"] }, "spec": desired["spec"] });
    if diff::matches(found, &without_nulls(kept)) && !has_more(found, &desired) {
        return Ok(None);
    }
    let metadata = json!({
        "uid": found["metadata"]["uid"], "resourceVersion": found["metadata"]["resourceVersion"],
        "labels": desired["metadata"]["labels"],
    });
    Ok(Some(Act::Patch(json!({ "metadata": metadata, "spec": desired["spec"] }))))
}

/// What of a Certificate is not as the spec wants it, as a person finds it: `spec.duration`.
pub fn differences(cluster: &EtcdCluster, at: &ClusterRef, leaf: Leaf, found: &Value) -> Vec<String> {
    let desired = desired(cluster, at, leaf);
    let fields = desired["spec"].as_object().into_iter().flatten();
    let differs = |(field, desired): &(&String, &Value)| {
        let found = &found["spec"][field.as_str()];
        if desired.is_null() { !found.is_null() } else { !diff::matches(found, desired) }
    };
    let of_spec = fields.filter(differs).map(|(field, _)| format!("spec.{field}"));
    let labels = &desired["metadata"]["labels"];
    let of_labels =
        (!diff::matches(&found["metadata"]["labels"], labels)).then(|| "metadata.labels".to_owned());
    of_spec.chain(of_labels).collect()
}

/// Whether this EtcdCluster owns the Certificate.
pub fn is_owned(cluster: &EtcdCluster, found: &Value) -> bool {
    let mut owners = found["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    cluster.metadata.uid.is_some()
        && owners.any(|owner| owner["uid"].as_str() == cluster.metadata.uid.as_deref())
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
pub fn says(at: &ClusterRef, certificate: &Value, requests: &[Value]) -> Option<String> {
    let ready = condition(certificate, "Ready");
    if ready.is_some_and(|ready| ready["status"] == "True") {
        return None;
    }
    let name = certificate["metadata"]["name"].as_str().unwrap_or_default();
    let message = |condition: Option<&Value>| {
        let text = condition.and_then(|condition| condition["message"].as_str()).unwrap_or_default();
        text.chars().take(400).collect::<String>()
    };
    let own = match message(ready) {
        text if text.is_empty() => "cert-manager has not looked at it yet: does it run?".to_owned(),
        text => text,
    };
    let is_of =
        |request: &&Value| request["metadata"]["annotations"][CERTIFICATE_NAME].as_str() == Some(name);
    let newest = requests.iter().filter(is_of).max_by_key(|request| {
        request["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned()
    });
    let of_request =
        newest.map(|request| message(condition(request, "Ready"))).filter(|text| !text.is_empty());
    let of_request = of_request.map(|text| format!(". Its request: {text}")).unwrap_or_default();
    Some(format!("Certificate {}/{name} is not ready: {own}{of_request}", at.namespace))
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
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
            "commonName": certificate::common_name(leaf, tls),
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

/// Whether there is something that is to be gone.
fn has_more(found: &Value, desired: &Value) -> bool {
    let fields = desired["spec"].as_object().into_iter().flatten();
    fields.filter(|(_, desired)| desired.is_null()).any(|(field, _)| !found["spec"][field].is_null())
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
        match act(&cluster(cfg), &at(), leaf, None) {
            Ok(Some(Act::Create(made))) => made,
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
    fn what_differs_is_patched_what_is_filled_in_is_free_and_that_of_others_is_left_alone() {
        let cfg = json!({ "issuerName": "ca", "organizations": ["o"] });
        let mut found = made(&cfg, Leaf::Server);
        found["metadata"]["uid"] = json!("c-1");
        found["spec"]["revisionHistoryLimit"] = json!(1);
        assert_eq!(act(&cluster(&cfg), &at(), Leaf::Server, Some(&found)), Ok(None));
        let differ = |found: &Value| differences(&cluster(&cfg), &at(), Leaf::Server, found).join(" ");
        assert_eq!(differ(&found), "");
        let mut mutated = found.clone();
        mutated["spec"]["duration"] = json!("1h0m0s");
        mutated["spec"]["ipAddresses"] = json!(["192.0.2.9"]);
        mutated["metadata"]["labels"] = json!({});
        assert_eq!(differ(&mutated), "spec.duration spec.ipAddresses metadata.labels");
        for other in [json!({ "issuerName": "ca" }), json!({ "issuerName": "other", "organizations": ["o"] })]
        {
            let Ok(Some(Act::Patch(patch))) = act(&cluster(&other), &at(), Leaf::Server, Some(&found)) else {
                panic!("{other}");
            };
            assert_eq!(patch["metadata"]["uid"], "c-1");
            assert!(patch["spec"]["subject"].is_null() || patch["spec"]["issuerRef"]["name"] == "other");
        }
        found["metadata"]["ownerReferences"] = json!([]);
        let refused = act(&cluster(&cfg), &at(), Leaf::Server, Some(&found));
        assert_eq!(refused, Err("Certificate default/demo-server".to_owned()));
    }

    #[test]
    fn what_cert_manager_says_of_a_certificate_is_told_with_the_words_of_its_newest_request() {
        let certificate = |status: &str, message: &str| {
            json!({ "metadata": { "name": "demo-server" }, "status": { "conditions": [
                { "type": "Ready", "status": status, "message": message },
            ] } })
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
        assert!(
            says(&at(), &json!({ "metadata": { "name": "demo-server" } }), &[])
                .unwrap()
                .contains("does it run?")
        );
    }
}
