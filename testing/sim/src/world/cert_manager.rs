//! cert-manager, as its documentation has it: it issues a Certificate whose Secret does not exist, or is of another issuer or for other names than the
//! Certificate, by the CA that the issuer has then. It issues none anew because that CA was exchanged. It writes over whatever Secret a Certificate
//! names.

use k8s_openapi::ByteString;
use quorate_apistore::ResourceKey;
use quorate_apistore::fields::{annotation, items, name, text};
use quorate_apistore::store::{DeleteOptions, Part};
use quorate_manifests::{Act, Kind, Write, cert_manager};
use quorate_pki::{Pair, Validity, authority, client_of_others, leaf_of_others, self_signed};
use serde_json::{Value, json};

use super::World;
use super::objects::{key, resource};
use crate::oracle::Property;

/// What only the World reads: for which EtcdCluster a Certificate asked, when its Secret was written.
const WRITTEN_FOR: &str = "example.org/written-for";

/// What only the World reads: what the Certificate asked for then.
const WRITTEN_AS: &str = "example.org/written-as";

/// How long its CAs and certificates live: longer than any history.
const LIFE_MILLIS: i64 = 10 * 365 * 86_400_000;

/// cert-manager, with one Issuer `ca`, and with ClusterIssuers.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct CertManager {
    /// The number of the CA that the Issuer has, by which it signs; `None`: each certificate signs itself.
    ca: Option<u64>,
    /// How many certificates it has signed.
    issued: u64,
}

/// The uid of the EtcdCluster for which cert-manager wrote a Secret.
pub(crate) fn written_for(secret: &Value) -> Option<&str> {
    annotation(secret, WRITTEN_FOR)
}

impl World {
    /// It is installed, or its Issuer has another CA from now on.
    pub(super) fn install_cert_manager(&mut self, issuer: &Value) {
        let issued = self.cert_manager.as_ref().map_or(0, |before| before.issued);
        if self.cert_manager.is_none() {
            let definitions = ResourceKey::new("apiextensions.k8s.io", "customresourcedefinitions");
            let definition = json!({
                "metadata": { "name": format!("certificates.{}", cert_manager::GROUP) },
                "spec": {
                    "group": cert_manager::GROUP, "scope": "Namespaced",
                    "names": { "kind": "Certificate", "plural": "certificates", "singular": "certificate" },
                    "versions": [{ "name": cert_manager::VERSION, "served": true, "storage": true,
                        "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                        "subresources": { "status": {} } }],
                },
            });
            self.store.create(&definitions, "", definition, false).expect("the definition is served");
        }
        self.cert_manager = Some(CertManager { ca: issuer["ca"].as_u64(), issued });
    }

    /// Somebody changes a Certificate, or deletes it.
    pub(super) fn change_certificate(&self, change: &Value) -> Result<(), String> {
        let of = key(Kind::Certificate, &self.at, change["name"].as_str().unwrap_or_default());
        if change["patch"].is_null() {
            return self
                .store
                .delete(&of, &DeleteOptions::default())
                .map(drop)
                .map_err(|error| error.message);
        }
        self.change(&of, Part::Main, |certificate| json_patch::merge(certificate, &change["patch"]))
    }

    /// It issues what is to be issued. Returns whether anything changed.
    pub(super) fn issue_certificates(&mut self) -> bool {
        if self.cert_manager.is_none() {
            return false;
        }
        let due: Vec<_> =
            self.objects(Kind::Certificate).into_iter().filter(|asked| self.is_due(asked)).collect();
        for asked in &due {
            self.issue(asked);
        }
        !due.is_empty()
    }

    fn is_due(&self, asked: &Value) -> bool {
        let secret = self.object(Kind::Secret, text(asked, "/spec/secretName"));
        let is_for = |secret: &Value| {
            annotation(secret, cert_manager::CERTIFICATE_NAME) == Some(name(asked))
                && annotation(secret, WRITTEN_AS) == Some(&asked["spec"].to_string())
        };
        !secret.is_some_and(|secret| is_for(&secret))
    }

    fn issue(&mut self, asked: &Value) {
        let Some(manager) = self.cert_manager.as_mut() else { return };
        manager.issued += 1;
        let (ca, serial) = (manager.ca, manager.issued);
        let named = text(asked, "/spec/secretName").to_owned();
        let owner = items(asked, "/metadata/ownerReferences").first().map(|owner| text(owner, "/uid"));
        let owner = owner.unwrap_or_default().to_owned();
        // Whoever asks for a name of somebody's Secret has cert-manager write over it.
        let there = self.object(Kind::Secret, &named);
        if there.as_ref().is_some_and(|there| written_for(there).is_none()) {
            let how = format!(
                "Secret {named} is somebody's, and cert-manager writes over it for Certificate {}",
                name(asked)
            );
            self.oracle.add_violation(Property::OnlyOwnedObjectsChange, how);
        }
        if there.is_some() {
            let _ = self.store.delete(&key(Kind::Secret, &self.at, &named), &DeleteOptions::default());
        }
        let issuer = &asked["spec"]["issuerRef"];
        let labels = asked["spec"]["secretTemplate"]["labels"].clone();
        let (by, pair) = self.signed(asked, ca, serial);
        let entry = |pem: &str| json!(ByteString(pem.as_bytes().to_vec()));
        let data = json!({ "tls.crt": entry(&pair.cert), "tls.key": entry(&pair.key), "ca.crt": entry(&by) });
        self.trust.know(&data);
        let secret = json!({
            "metadata": {
                "name": named, "namespace": self.at.namespace, "labels": labels,
                "annotations": {
                    cert_manager::CERTIFICATE_NAME: name(asked),
                    "cert-manager.io/issuer-name": issuer["name"], "cert-manager.io/issuer-kind": issuer["kind"],
                    WRITTEN_FOR: owner, WRITTEN_AS: asked["spec"].to_string(),
                },
            },
            "type": "kubernetes.io/tls", "data": data,
        });
        self.store
            .create(&resource(Kind::Secret), &self.at.namespace, secret, false)
            .expect("a Secret of plain parts");
        let of = key(Kind::Certificate, &self.at, name(asked));
        let ready = json!({ "conditions": [{ "type": "Ready", "status": "True", "message": "" }] });
        let _ = self.change(&of, Part::Status, |certificate| certificate["status"] = ready);
    }

    /// The certificate of its signer, and what that signed.
    fn signed(&self, asked: &Value, ca: Option<u64>, serial: u64) -> (String, Pair) {
        let strings = |at: &str| items(asked, at).iter().filter_map(Value::as_str).map(str::to_owned);
        let names: Vec<String> = strings("/spec/dnsNames").chain(strings("/spec/ipAddresses")).collect();
        let is_server = strings("/spec/usages").any(|usage| usage == "server auth");
        let began = self.now.0 / 1000 * 1000;
        let validity = Validity { not_before: began, not_after: began + LIFE_MILLIS };
        let common_name = text(asked, "/spec/commonName");
        let number = 1000 + serial;
        let made = |ca: &Pair| {
            if is_server {
                leaf_of_others(&ca.key, common_name, &names, number, validity)
            } else {
                client_of_others(&ca.key, common_name, number, validity)
            }
        };
        if let Some(number) = ca {
            let life = Validity { not_before: 1_577_836_800_000, not_after: 4_102_444_800_000 };
            let ca = authority("Example CA", number, life);
            (ca.cert.clone(), made(&ca))
        } else {
            let own = self_signed(common_name, &names, number, validity);
            (own.cert.clone(), own)
        }
    }

    /// Checks that what cert-manager is asked for is of a spec that the operator accepts: none of its ClusterIssuers is allowed.
    pub(crate) fn judge_what_is_asked(&mut self, write: &Write) {
        let (Act::Create(wish) | Act::Patch(wish)) = &write.act else { return };
        if write.kind == Kind::Certificate && text(wish, "/spec/issuerRef/kind") == "ClusterIssuer" {
            let how = format!(
                "{} asks ClusterIssuer {}, which the operator does not allow",
                write.object(),
                text(wish, "/spec/issuerRef/name")
            );
            self.oracle.add_violation(Property::NothingOfRefusedSpecs, how);
        }
    }
}
