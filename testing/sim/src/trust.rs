//! Certificates and the keys behind them.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use quorate_manifests::certificate::{Generate, KeyPair};
use quorate_model::Instant;
use quorate_model::certificate::Validity;
use quorate_pki::Pair;
use serde_json::Value;

/// The keys that exist.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// How many authorities were generated.
    authorities: u64,
    /// A person's backup of the Secret of the first authority.
    pub(crate) backup: Option<Value>,
    /// The authorities that a running etcd trusts, by the uid of its Pod: as they were in its Secret when it started.
    pub(crate) members: BTreeMap<String, String>,
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
        if let Ok(Value::String(text)) = serde_json::to_value(ByteString(cert.as_bytes().to_vec())) {
            self.validities.insert(text, (validity.not_before, validity.not_after));
        }
        KeyPair { cert, key }
    }

    /// From when until when a certificate is valid that is stored as this.
    pub fn validity(&self, stored: &Value) -> Option<(Instant, Instant)> {
        self.validities.get(stored.as_str()?).copied()
    }
}

/// The number of the key of every leaf. Nothing depends on it.
const OF_LEAVES: u64 = 1_000_000;

fn of(Validity { not_before, not_after }: Validity) -> quorate_pki::Validity {
    quorate_pki::Validity { not_before: not_before.0, not_after: not_after.0 }
}
