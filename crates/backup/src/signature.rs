//! Signatures of manifests: whoever can add objects to a store, and has no key of the namespace, decides nothing about what is restored.
//!
//! What is signed is the JSON of the manifest without the signature, whatever its fields: a manifest of a newer release has some that this
//! program does not know.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use hmac::{Hmac, KeyInit as _, Mac as _};
use quorate_api::job::{
    Failure, FailureKind, Manifest, SIGNING_KEY, SIGNING_KEY_BYTES, SIGNING_SECRET, Signature,
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::Result;
use crate::hex::digits;

/// Keeps the signature from being one of anything else.
const PURPOSE: &[u8] = b"quorate backup manifest 1\n";

/// The field of a manifest.
const FIELD: &str = "signature";

/// Digits of the name of a key.
const ID: usize = 16;

/// The keys of a namespace.
///
/// By the names of the entries.
#[derive(Debug, Default)]
pub(crate) struct Keys(BTreeMap<String, Key>);

struct Key {
    id: String,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.id)
    }
}

impl Keys {
    /// Those in the directory that the Secret is mounted at. None, where it does not exist.
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| {
            let message = format!("cannot read the keys of the namespace in {}: {error}", dir.display());
            Failure::new(FailureKind::StoreUnavailable, message)
        };
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error)),
        };
        let mut keys = Self::default();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            // The kubelet keeps the generations of a Secret beside its entries.
            if name.starts_with("..") || !path.is_file() {
                continue;
            }
            let bytes = fs::read(&path).map_err(failed)?;
            if bytes.len() < SIGNING_KEY_BYTES {
                continue;
            }
            let id = digits(&Sha256::digest(&bytes)).chars().take(ID).collect();
            keys.0.insert(name, Key { id, bytes });
        }
        Ok(keys)
    }

    /// Whether there is one to sign with.
    pub(crate) fn can_sign(&self) -> bool {
        self.0.contains_key(SIGNING_KEY)
    }

    /// Signs, if there is a key.
    pub(crate) fn sign(&self, manifest: &mut Manifest) {
        manifest.signature = None;
        let value = serde_json::to_value(&*manifest).expect("plain strings and numbers");
        manifest.signature = self.0.get(SIGNING_KEY).map(|key| Signature {
            key_id: key.id.clone(),
            hmac: digits(&key.mac(&value).finalize().into_bytes()),
        });
    }

    /// Why nobody who has a key of the namespace vouches for this text of a manifest; `None`: somebody does.
    pub(crate) fn doubt(&self, text: &[u8]) -> Option<Doubt> {
        let mut value: Value = serde_json::from_slice(text).unwrap_or_default();
        let signature = value.as_object_mut().and_then(|fields| fields.remove(FIELD));
        let signature: Option<Signature> = signature.and_then(|found| serde_json::from_value(found).ok());
        let Some(Signature { key_id, hmac }) = signature else { return Some(Doubt::NotSigned) };
        let Some(key) = self.0.values().find(|key| key.id == key_id) else {
            let id = key_id.chars().filter(char::is_ascii_hexdigit).take(ID).collect();
            return Some(Doubt::OtherKey(id));
        };
        let is_right = key.mac(&value).verify_slice(&bytes_of(&hmac)).is_ok();
        (!is_right).then_some(Doubt::Changed(key_id))
    }
}

/// Why nobody vouches for a manifest. For people it says what to do as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// It has no signature.
    NotSigned,
    /// It is signed by a key of this ID, which the namespace does not have.
    OtherKey(String),
    /// Its signature by the key of this ID is wrong.
    Changed(String),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSigned => f.write_str("has no signature. If it is to be believed, set allowUnsigned"),
            Self::OtherKey(id) => write!(
                f,
                "is signed by key {id}, which this namespace does not have. If it is to be believed, put that key into Secret {SIGNING_SECRET}, or \
                 set allowUnsigned"
            ),
            Self::Changed(id) => write!(
                f,
                "has a wrong signature for key {id}: somebody changed it. Look for an earlier version of the manifest, and do not set \
                 allowUnsigned"
            ),
        }
    }
}

#[cfg(test)]
impl Keys {
    /// A namespace with one key, of these bytes.
    pub(crate) fn of(byte: u8) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(SIGNING_KEY), [byte; SIGNING_KEY_BYTES]).unwrap();
        Self::read(dir.path()).unwrap()
    }
}

impl Key {
    fn mac(&self, value: &Value) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.bytes).expect("any length is a key");
        mac.update(PURPOSE);
        // The fields of an object are sorted.
        mac.update(value.to_string().as_bytes());
        mac
    }
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map_while(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::to_bytes;

    fn keys(dir: &Path, entries: &[(&str, u8)]) -> Keys {
        for (name, byte) in entries {
            fs::write(dir.join(name), [*byte; SIGNING_KEY_BYTES]).unwrap();
        }
        Keys::read(dir).unwrap()
    }

    #[test]
    fn o15_a_manifest_is_believed_by_its_signature_alone() {
        let dir = tempfile::tempdir().unwrap();
        let own = keys(dir.path(), &[("key", 1)]);
        let mut manifest = Manifest { key: "a.db".to_owned(), revision: 7, ..Manifest::default() };
        assert_eq!(own.doubt(&to_bytes(&manifest)), Some(Doubt::NotSigned));
        own.sign(&mut manifest);
        assert_eq!(own.doubt(&to_bytes(&manifest)), None);

        // However it is written, and whatever else a newer release puts into it: but only if that was signed.
        let text = String::from_utf8(to_bytes(&manifest).to_vec()).unwrap();
        assert_eq!(own.doubt(text.replace("  ", "").as_bytes()), None);
        for (was, is) in [("7", "8"), ("a.db", "b.db"), ("{\n", "{\n\"more\": 1,")] {
            let doubt = own.doubt(text.replacen(was, is, 1).as_bytes());
            assert!(matches!(doubt, Some(Doubt::Changed(_))), "{was}: {doubt:?}");
        }

        // A namespace that was made again has another key, until that of before is beside it.
        let again = tempfile::tempdir().unwrap();
        let other = keys(again.path(), &[("key", 2)]);
        let doubt = other.doubt(&to_bytes(&manifest));
        assert!(matches!(doubt, Some(Doubt::OtherKey(_))), "{doubt:?}");
        let both = keys(again.path(), &[("before", 1)]);
        assert_eq!(both.doubt(&to_bytes(&manifest)), None);
        both.sign(&mut manifest);
        assert!(own.doubt(&to_bytes(&manifest)).is_some() && other.doubt(&to_bytes(&manifest)).is_none());
    }

    #[test]
    fn o15_a_short_key_is_none() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("key"), [1; SIGNING_KEY_BYTES - 1]).unwrap();
        let short = Keys::read(dir.path()).unwrap();
        let mut manifest = Manifest::default();
        short.sign(&mut manifest);
        assert!(!short.can_sign() && manifest.signature.is_none());
        assert!(!Keys::read(&dir.path().join("none")).unwrap().can_sign());
    }
}
