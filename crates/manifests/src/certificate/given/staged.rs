//! The leaves that come with an authority without its key. They are copied with it, into its Secret (C1), so that what was begun can be ended: whoever
//! makes the originals may exchange them at any moment. etcd mounts them only from the Secrets of leaves (I2, I3).

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use quorate_model::{Ca, Fingerprint, Leaf};
use serde_json::{Value, json};

use crate::certificate::kinds::{KeyPair, entry};
use crate::certificate::parsed::one;

/// The leaves of the port of clients.
pub(crate) fn leaves() -> impl Iterator<Item = Leaf> {
    Leaf::ALL.into_iter().filter(|leaf| leaf.ca() == Ca::Clients)
}

/// The entries of a leaf and its key in the Secret of the authority.
pub(crate) fn entries_of(leaf: Leaf) -> (String, String) {
    (format!("staged-{leaf}.crt"), format!("staged-{leaf}.key"))
}

/// The entries with these leaves; those of others are taken out.
pub(crate) fn entries(pairs: &BTreeMap<Leaf, KeyPair>) -> BTreeMap<String, Value> {
    let text = |pem: &str| json!(ByteString(pem.as_bytes().to_vec()));
    let of = |leaf: Leaf| {
        let (cert, key) = entries_of(leaf);
        let pair = pairs.get(&leaf);
        let value = |pem: Option<&String>| pem.map_or(Value::Null, |pem| text(pem));
        [(cert, value(pair.map(|pair| &pair.cert))), (key, value(pair.map(|pair| &pair.key)))]
    };
    leaves().flat_map(of).collect()
}

/// The entries without any leaf.
pub(crate) fn removed() -> BTreeMap<String, Value> {
    entries(&BTreeMap::new())
}

/// The leaf with this fingerprint, and its key.
pub(crate) fn pair(secret: &Secret, leaf: Leaf, fingerprint: &Fingerprint) -> Option<KeyPair> {
    let (cert, key) = entries_of(leaf);
    let is_that = one(secret, &cert).is_ok_and(|found| found.fingerprint == *fingerprint);
    let text = |key: &str| Some(String::from_utf8_lossy(entry(secret, key)?).into_owned());
    if is_that { Some(KeyPair { cert: text(&cert)?, key: text(&key)? }) } else { None }
}
