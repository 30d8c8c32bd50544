//! Certificates and the keys behind them.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use quorate_manifests::certificate::parsed::fingerprint;
use quorate_manifests::certificate::rotation::Shown;
use quorate_manifests::certificate::{Generate, KeyPair};
use quorate_model::certificate::Validity;
use quorate_model::{Fingerprint, Instant, Span};
use quorate_pki::Pair;
use serde_json::Value;
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

use crate::world::late_client::LateClient;

/// How long a kubelet may take to bring a Secret that has changed into a Pod: its sync period and the life of its cache, a minute each.
const KUBELET_BRINGS_WITHIN: Span = Span::seconds(120);

/// The content of the leaves' Secrets, as it is mounted: entries as they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// What servers trust.
    pub(crate) server_ca: String,
    /// What peers trust.
    pub(crate) peers_ca: String,
    /// What clients trust.
    pub(crate) client_ca: String,
    pub(crate) server: String,
    pub(crate) peer: String,
    pub(crate) client: String,
    /// The generation of trust that each Secret has at least.
    pub(crate) generation: u32,
}

/// The keys that exist.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// How many authorities were generated.
    authorities: u64,
    /// The person takes no backups.
    pub(crate) without_backups: bool,
    /// A person's backups of the Secrets of the first authorities, by their names.
    pub(crate) backups: BTreeMap<String, Value>,
    /// The authorities that a running etcd trusts, by the uid of its Pod: as they were in its Secrets when it started.
    pub(crate) members: BTreeMap<String, Mounted>,
    /// The client that reads late.
    pub(crate) client: Option<LateClient>,
    /// What the Secrets have had, the last one first, and since when.
    mounts: Vec<(Instant, Mounted)>,
    /// The certificate of the authority that signed each leaf, by the leaf's text in a Secret.
    signers: BTreeMap<String, String>,
    /// From when until when each certificate is valid, by its text in a Secret.
    validities: BTreeMap<String, (Instant, Instant)>,
}

impl Trust {
    /// Generates what the operator asks for. The key of an authority is its number.
    pub fn generate(&mut self, order: &Generate) -> KeyPair {
        let validity = match order {
            Generate::Authority { validity, .. } => *validity,
            Generate::Leaf { content, .. } => content.validity,
        };
        let Pair { cert, key } = match order {
            Generate::Authority { common_name, validity } => {
                self.authorities += 1;
                quorate_pki::authority(common_name, self.authorities, of(*validity))
            }
            Generate::Leaf { authority, content } => {
                let (key, name) = (&authority.key, &content.common_name);
                quorate_pki::leaf(key, name, &content.names, OF_LEAVES, of(content.validity))
            }
        };
        let stored = stored(&cert);
        if let Generate::Leaf { authority, .. } = order {
            self.signers.insert(stored.clone(), authority.cert.clone());
        }
        self.validities.insert(stored, (validity.not_before, validity.not_after));
        KeyPair { cert, key }
    }

    /// Somebody else has issued this leaf: what is copied of it is judged as what the operator signs.
    pub(crate) fn know(&mut self, issued: &Value) {
        let text = |key: &str| {
            let entry = serde_json::from_value::<ByteString>(issued.get(key)?.clone()).ok()?;
            Some(String::from_utf8_lossy(&entry.0).replace('\r', ""))
        };
        if let (Some(leaf), Some(signer)) = (text("tls.crt"), text("ca.crt")) {
            self.signers.insert(stored(&leaf), signer);
        }
    }

    /// The Secrets have this from now on.
    pub(crate) fn change_mounts(&mut self, content: Mounted, now: Instant) {
        if self.mounts.first().is_none_or(|(_, last)| *last != content) {
            self.mounts.insert(0, (now, content));
        }
        // What was replaced longer ago than that, no kubelet has any more.
        let mut replaced = None;
        self.mounts.retain(|(since, _)| {
            let before = replaced.replace(*since);
            before.is_none_or(|replaced: Instant| now - replaced <= KUBELET_BRINGS_WITHIN)
        });
    }

    /// How long it takes until every kubelet has brought what the Secrets have; `None` if all have.
    pub(crate) fn brought_after(&self, now: Instant) -> Option<Span> {
        let (since, _) = self.mounts.first().filter(|_| self.mounts.len() > 1)?;
        (now - *since <= KUBELET_BRINGS_WITHIN)
            .then(|| *since + KUBELET_BRINGS_WITHIN + Span::seconds(1) - now)
    }

    /// What the Secrets have.
    pub(crate) fn now(&self) -> Option<&Mounted> {
        self.mounts.first().map(|(_, now)| now)
    }

    /// What an etcd finds that starts now in a Pod whose agent waits for this generation: the oldest that its kubelet may still have.
    pub(crate) fn mounted_at_start(&self, waits_for: u32, now: Instant) -> Option<Mounted> {
        self.oldest(now, |mounted| mounted.generation >= waits_for)
    }

    /// What a process presents: of the Secrets, the oldest content that its kubelet may still have, and none older than it started with.
    pub(crate) fn presented_by(&self, at: &str, now: Instant) -> Option<Mounted> {
        let began = self.members.get(at)?;
        self.oldest(now, |mounted| mounted.generation >= began.generation)
    }

    fn oldest(&self, now: Instant, is_fit: impl Fn(&Mounted) -> bool) -> Option<Mounted> {
        let replaced = self.mounts.iter().map(|(since, _)| Some(*since));
        let may_have = std::iter::once(None).chain(replaced).zip(&self.mounts);
        let may_have =
            may_have.filter(|(replaced, _)| replaced.is_none_or(|at| now - at <= KUBELET_BRINGS_WITHIN));
        let fit = may_have.map(|(_, (_, mounted))| mounted).filter(|mounted| is_fit(mounted)).last();
        fit.cloned()
    }

    /// Whether one of the authorities in this entry of a Secret signed the leaf in that one: one with the name and the key of its signer, whatever
    /// its dates. What a person put there is not judged.
    pub(crate) fn admits(&self, trusted: &str, leaf: &str) -> bool {
        let Some(signer) = self.signers.get(leaf) else { return true };
        let bundle =
            serde_json::from_value::<ByteString>(Value::String(trusted.to_owned())).unwrap_or_default();
        let bundle_text = String::from_utf8_lossy(&bundle.0);
        let signer = signer.trim();
        bundle_text.contains(signer) || {
            let own = identities(signer.as_bytes());
            identities(&bundle.0).iter().any(|one| own.contains(one))
        }
    }

    /// Whether the operator and the agents can verify what a server presents, where etcd can.
    pub(crate) fn is_known_to_operators(&self, leaf: &str) -> bool {
        let signer =
            self.signers.get(leaf).and_then(|signer| Pem::iter_from_buffer(signer.as_bytes()).next());
        signer.and_then(Result::ok).is_none_or(|signer| quorate_pki::verify(&signer.contents, None).is_ok())
    }

    /// From when until when a certificate is valid that is stored as this.
    pub fn validity(&self, stored: &Value) -> Option<(Instant, Instant)> {
        self.validities.get(stored.as_str()?).copied()
    }
}

/// The number of the key of every leaf. Nothing depends on it.
const OF_LEAVES: u64 = 1_000_000;

/// What a server with these entries of Secrets shows in a handshake.
pub(crate) fn shown(leaf: &str, bundle: &str) -> Shown {
    let ders = |stored: &str| -> Vec<Vec<u8>> {
        let pem = serde_json::from_value::<ByteString>(Value::String(stored.to_owned())).unwrap_or_default();
        Pem::iter_from_buffer(&pem.0).filter_map(Result::ok).map(|pem| pem.contents).collect()
    };
    let subject = |der: &Vec<u8>| Some(X509Certificate::from_der(der).ok()?.1.subject().as_raw().to_vec());
    Shown {
        leaf: ders(leaf).into_iter().next().unwrap_or_default(),
        trusted: ders(bundle).iter().filter_map(subject).collect(),
    }
}

/// The fingerprints of the certificates in this entry of a Secret.
pub(crate) fn fingerprints(stored: &str) -> Vec<Fingerprint> {
    let pem = serde_json::from_value::<ByteString>(Value::String(stored.to_owned())).unwrap_or_default();
    let ders = Pem::iter_from_buffer(&pem.0).filter_map(Result::ok).map(|pem| pem.contents);
    ders.map(|der| fingerprint(&der)).collect()
}

/// The names and the keys of the certificates in a PEM.
fn identities(pem: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let ders = Pem::iter_from_buffer(pem).filter_map(Result::ok);
    let identity = |pem: Pem| {
        let (_, certificate) = X509Certificate::from_der(&pem.contents).ok()?;
        Some((certificate.subject().as_raw().to_vec(), certificate.public_key().raw.to_vec()))
    };
    ders.filter_map(identity).collect()
}

/// As it is stored in a Secret.
fn stored(cert: &str) -> String {
    let text = serde_json::to_value(ByteString(cert.as_bytes().to_vec())).unwrap_or_default();
    text.as_str().unwrap_or_default().to_owned()
}

fn of(Validity { not_before, not_after }: Validity) -> quorate_pki::Validity {
    quorate_pki::Validity { not_before: not_before.0, not_after: not_after.0 }
}
