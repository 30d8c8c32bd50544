//! Certificates and the keys behind them.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use quorate_manifests::certificate::{Generate, KeyPair};
use quorate_model::Instant;
use quorate_model::certificate::Validity;
use quorate_pki::Pair;
use serde_json::Value;

/// What a running etcd trusts: the entries of its Secrets.
#[derive(Clone, Debug)]
pub(crate) struct Trusted {
    /// At the port of clients.
    pub(crate) by_servers: String,
    /// At the port of peers.
    pub(crate) by_peers: String,
}

/// The keys that exist.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// How many authorities were generated.
    authorities: u64,
    /// A person's backups of the Secrets of the first authorities, by their names.
    pub(crate) backups: BTreeMap<String, Value>,
    /// The authorities that a running etcd trusts, by the uid of its Pod: as they were in its Secrets when it started.
    pub(crate) members: BTreeMap<String, Trusted>,
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

    /// Whether one of the authorities in this entry of a Secret signed the leaf in that one. What a person put there is not judged.
    pub(crate) fn admits(&self, trusted: &str, leaf: &str) -> bool {
        let bundle = serde_json::from_value::<ByteString>(Value::String(trusted.to_owned()));
        let bundle = bundle.map(|bundle| String::from_utf8_lossy(&bundle.0).into_owned()).unwrap_or_default();
        self.signers.get(leaf).is_none_or(|signer| bundle.contains(signer.trim()))
    }

    /// From when until when a certificate is valid that is stored as this.
    pub fn validity(&self, stored: &Value) -> Option<(Instant, Instant)> {
        self.validities.get(stored.as_str()?).copied()
    }
}

/// The number of the key of every leaf. Nothing depends on it.
const OF_LEAVES: u64 = 1_000_000;

/// As it is stored in a Secret.
fn stored(cert: &str) -> String {
    let text = serde_json::to_value(ByteString(cert.as_bytes().to_vec())).unwrap_or_default();
    text.as_str().unwrap_or_default().to_owned()
}

fn of(Validity { not_before, not_after }: Validity) -> quorate_pki::Validity {
    quorate_pki::Validity { not_before: not_before.0, not_after: not_after.0 }
}
