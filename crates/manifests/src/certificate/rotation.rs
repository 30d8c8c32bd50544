//! Secrets while an authority takes the place of another one: where each lies in its Secret, who trusts which, and what a handshake shows.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
pub(crate) use quorate_model::effect::AuthorityPlace as Place;
use quorate_model::rotation::Handshake;
use quorate_model::snapshot::Authority;
use quorate_model::{Ca, ClusterRef, ClusterUid, Fingerprint, Leaf, ObservedObject};
use serde_json::{Value, json};
use x509_parser::pem::Pem;

use super::given::staged;
use super::kinds::{CA, CERT, Certificate, KEY, KeyPair, entry, is_authority_of};
use super::parsed::{Parsed, certificates, one, parse_der, pem_of};
use crate::write::Act;
use crate::{diff, labels};

/// Key of a leaf's Secret: the generation of trust of its `ca.crt`. The agent waits for it before etcd reads that.
pub const TRUST: &str = "trust";

/// What the Secret of an authority has in place of the key, where somebody else has that.
pub(super) const KEYLESS: &str = "none: what it signs comes from where spec.tls says\n";

/// What a TLS handshake shows, as it came over the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The leaf that the member presents (DER).
    pub leaf: Vec<u8>,
    /// The subjects of the authorities whose leaves it admits (DER).
    pub trusted: Vec<Vec<u8>>,
}

/// Every place of an authority in its Secret.
pub(crate) const PLACES: [Place; 2] = [Place::Signer, Place::Next];

/// The entries of its certificate and of its key there.
pub(crate) fn entries_at(place: Place) -> (&'static str, &'static str) {
    match place {
        Place::Signer => (CERT, KEY),
        Place::Next => ("next.crt", "next.key"),
    }
}

/// The authority at a place of a Secret, if there is one that can be used.
pub(crate) fn at(secret: &Secret, place: Place) -> Option<Authority> {
    let (cert, key) = entries_at(place);
    entry(secret, key)?;
    let found = one(secret, cert).ok().filter(|found| found.is_authority)?;
    Some(found.into_authority(is_keyless(secret, key)))
}

/// Whether this entry says that there is no key. One that is cut or empty says nothing.
pub(super) fn is_keyless(secret: &Secret, key: &str) -> bool {
    entry(secret, key) == Some(KEYLESS.as_bytes())
}

/// The generation of trust of a leaf's Secret.
pub(crate) fn trust_of(secret: &Secret) -> u32 {
    let text = entry(secret, TRUST).map(String::from_utf8_lossy);
    text.and_then(|text| generation(&text)).unwrap_or(0)
}

/// A generation of trust as it is written into Secrets.
pub(crate) fn entry_of(generation: u32) -> ByteString {
    ByteString(generation.to_string().into_bytes())
}

/// A generation of trust as it is written in Secrets and on Pods; none with which the next one could not be counted.
pub(crate) fn generation(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|generation| *generation < 1_000_000_000)
}

/// The certificate and key of the authority of this fingerprint, in whichever Secret and place it is. The key may be the word that there is none.
pub(crate) fn pair(
    secrets: &[&Secret],
    own: (&ClusterRef, &ClusterUid),
    by: &Fingerprint,
) -> Option<KeyPair> {
    let (secret, place) = places(secrets, own).find(|(secret, place)| is_at(secret, *place, by))?;
    let (cert, key) = entries_at(place);
    let text = |key: &str| Some(String::from_utf8_lossy(entry(secret, key)?).into_owned());
    Some(KeyPair { cert: text(cert)?, key: text(key)? })
}

/// C4: the patch that gives the signer its place in its Secret, and keeps no key but its own. What came with another authority goes. `None` if the signer is
/// not in it.
pub(crate) fn arrange(secret: &Secret, observed: &ObservedObject, signer: &Fingerprint) -> Option<Act> {
    let place = PLACES.into_iter().find(|place| is_at(secret, *place, signer))?;
    let (cert, key) = entries_at(place);
    let value = |key: &str| Some(json!(ByteString(entry(secret, key)?.to_vec())));
    let (next_cert, next_key) = entries_at(Place::Next);
    let mut data: BTreeMap<String, Value> = BTreeMap::new();
    if !is_keyless(secret, key) {
        data.extend(staged::removed());
    }
    data.extend([next_cert, next_key].map(|key| (key.to_owned(), Value::Null)));
    let signer = [(CA, value(cert)?), (CERT, value(cert)?), (KEY, value(key)?)];
    data.extend(signer.map(|(key, value)| (key.to_owned(), value)));
    Some(patch(observed, &json!(data)))
}

/// C2, C6: the patch of a leaf's `ca.crt` and of its generation of trust: these authorities in this order, and nothing else. Their certificates are
/// recorded; where status was lost they are beside leaves.
pub(crate) fn write_trust(
    secrets: &[&Secret],
    own: (&ClusterRef, &ClusterUid),
    recorded: &BTreeMap<Fingerprint, String>,
    observed: &ObservedObject,
    (trust, generation): (&[Fingerprint], u32),
) -> Option<Act> {
    let beside = Leaf::ALL.into_iter().filter_map(|leaf| leaf_secret(secrets, own, leaf));
    let beside: Vec<Block> = beside.flat_map(|secret| blocks(secret, CA)).collect();
    let certificate = |one: &Fingerprint| {
        let beside = || beside.iter().find(|block| block.fingerprint == *one);
        recorded.get(one).or_else(|| Some(&beside()?.pem)).map(String::as_str)
    };
    let pem: String = trust.iter().map(certificate).collect::<Option<_>>()?;
    let data = json!({ CA: ByteString(pem.into_bytes()), TRUST: entry_of(generation) });
    Some(patch(observed, &data))
}

/// I3: a leaf's `ca.crt` with this authority first, if it has it elsewhere. Where two authorities have one name and one key, as after a renewal by
/// whoever made them, the first one is taken for the signer.
pub(crate) fn with_first(
    secrets: &[&Secret],
    own: (&ClusterRef, &ClusterUid),
    leaf: Leaf,
    first: &Fingerprint,
) -> Option<String> {
    let here = blocks(leaf_secret(secrets, own, leaf)?, CA);
    let place = here.iter().position(|block| block.fingerprint == *first).filter(|place| *place > 0)?;
    let rest = here.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, block)| block);
    Some(here.get(place).into_iter().chain(rest).map(|block| block.pem.as_str()).collect())
}

/// The bundle in which this authority comes first, and then all others of the other bundle. Who takes the first one for what signs, as Kamaji does,
/// has to find it there. `None` if that of the authority cannot be read.
pub(crate) fn bundle(first: &str, others: &[u8]) -> Option<String> {
    let first = blocks_of(first.as_bytes()).into_iter().next()?;
    let others = blocks_of(others).into_iter().filter(|block| block.fingerprint != first.fingerprint);
    let others: String = others.map(|block| block.pem).collect();
    Some(first.pem + &others)
}

/// What a handshake shows, in terms of the authorities that are known: those in the Secrets of the cluster.
pub fn read_handshake(secrets: &[&Secret], own: (&ClusterRef, &ClusterUid), shown: &Shown) -> Handshake {
    let placed =
        places(secrets, own).filter_map(|(secret, place)| certificates(secret, entries_at(place).0).ok());
    let beside =
        Leaf::ALL.into_iter().filter_map(|leaf| certificates(leaf_secret(secrets, own, leaf)?, CA).ok());
    let known: Vec<Parsed> = placed.chain(beside).flatten().filter(|known| known.is_authority).collect();
    // Subjects are all that is shown. Where several authorities have one, each of them is trusted only if it is named as often.
    let of_subject = |subject: &Vec<u8>| {
        let same = known.iter().filter(|known| known.subject == *subject);
        same.map(|known| &known.fingerprint).collect::<BTreeSet<_>>().len()
    };
    let named = |subject: &Vec<u8>| shown.trusted.iter().filter(|trusted| *trusted == subject).count();
    let trusts = known.iter().filter(|known| named(&known.subject) >= of_subject(&known.subject));
    let trusts: BTreeSet<Fingerprint> = trusts.map(|known| known.fingerprint.clone()).collect();
    let is_known = |subject: &&Vec<u8>| {
        let earlier = shown.trusted.iter().take_while(|one| !std::ptr::eq(*one, *subject));
        earlier.filter(|one| one == subject).count() < of_subject(subject)
    };
    let unknown = shown.trusted.iter().filter(|subject| !is_known(subject)).count();
    let leaf = parse_der(&shown.leaf);
    let signer = leaf.and_then(|leaf| known.iter().find(|known| leaf.is_signed_by(known)));
    let serves = signer.map(|known| known.fingerprint.clone());
    Handshake { trusts, serves, named: shown.trusted.len(), unknown }
}

/// A certificate as it stands in a Secret.
#[derive(Clone)]
struct Block {
    fingerprint: Fingerprint,
    pem: String,
}

fn blocks(secret: &Secret, key: &str) -> Vec<Block> {
    blocks_of(entry(secret, key).unwrap_or_default())
}

fn blocks_of(pem: &[u8]) -> Vec<Block> {
    let pems = Pem::iter_from_buffer(pem).filter_map(Result::ok);
    let block = |pem: Pem| {
        let parsed = parse_der(&pem.contents)?;
        Some(Block { fingerprint: parsed.fingerprint, pem: pem_of(&pem.contents) })
    };
    pems.filter_map(block).collect()
}

fn is_at(secret: &Secret, place: Place, fingerprint: &Fingerprint) -> bool {
    at(secret, place).is_some_and(|found| found.fingerprint == *fingerprint)
}

fn places<'a>(
    secrets: &'a [&'a Secret],
    (at, uid): (&'a ClusterRef, &'a ClusterUid),
) -> impl Iterator<Item = (&'a Secret, Place)> {
    let of = move |ca: Ca| {
        let name = Certificate::from(ca).secret_name(at);
        let mut named =
            secrets.iter().copied().filter(move |secret| secret.metadata.name.as_ref() == Some(&name));
        named.find(|secret| is_authority_of(&secret.metadata, at, uid))
    };
    Ca::ALL.into_iter().filter_map(of).flat_map(|secret| PLACES.map(|place| (secret, place)))
}

fn leaf_secret<'a>(
    secrets: &[&'a Secret],
    (at, uid): (&ClusterRef, &ClusterUid),
    leaf: Leaf,
) -> Option<&'a Secret> {
    let name = Certificate::from(leaf).secret_name(at);
    let mut own = secrets.iter().copied().filter(|secret| labels::is_owned_by(&secret.metadata, uid));
    own.find(|secret| secret.metadata.name.as_ref() == Some(&name))
}

fn patch(observed: &ObservedObject, data: &Value) -> Act {
    Act::Patch(json!({ "metadata": diff::precondition(observed), "data": data }))
}
