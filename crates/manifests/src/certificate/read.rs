//! From the Secrets with certificates to what decisions need of them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use quorate_api::cluster::TlsSpec;
use quorate_model::snapshot::{Authority, AuthoritySecret, Certificates, LeafCertificate, LeafSecret};
use quorate_model::{Ca, ClusterRef, ClusterUid, Leaf};

use super::given::staged;
use super::kinds::{self, CA, CERT, Certificate, KEY, entry, incarnation_of, is_authority_of, is_misnamed};
use super::parsed::{Parsed, certificates, one};
use super::rotation::{self, Place};
use crate::kind::Kind;
use crate::{diff, labels};

/// The certificates of the cluster's own that exist among these Secrets. That of the operator only where etcd's `auth` is wanted or on: one of before is not kept up.
pub fn read(
    secrets: &[&Secret],
    at: &ClusterRef,
    uid: &ClusterUid,
    tls: &TlsSpec,
    auth: bool,
    nameless: bool,
) -> Certificates {
    let named = |certificate: Certificate| {
        let name = certificate.secret_name(at);
        secrets.iter().copied().find(move |secret| secret.metadata.name.as_ref() == Some(&name))
    };
    let authority = |ca: Ca| {
        let secret = named(ca.into()).filter(|secret| is_authority_of(&secret.metadata, at, uid))?;
        Some((ca, secret))
    };
    let authorities: Vec<(Ca, &Secret)> = Ca::ALL.into_iter().filter_map(authority).collect();
    let places = authorities
        .iter()
        .flat_map(|(_, secret)| rotation::PLACES.map(|place| (secret, rotation::entries_at(place).0)));
    let signers: Vec<Parsed> = places.filter_map(|(secret, cert)| one(secret, cert).ok()).collect();
    let is_keyless = authorities.iter().any(|(_, secret)| {
        rotation::PLACES.iter().any(|place| rotation::is_keyless(secret, rotation::entries_at(*place).1))
    });
    let leaf = |leaf: Leaf| {
        let secret = named(leaf.into()).filter(|secret| labels::is_owned_by(&secret.metadata, uid))?;
        // One that cannot be signed here keeps its name.
        let nameless = nameless && leaf == Leaf::Server && kinds::given_name(tls).is_none() && !is_keyless;
        let misnamed = |name: &str| is_misnamed(name, leaf) || (nameless && !name.is_empty());
        Some((leaf, leaf_secret(secret, misnamed, &kinds::names(leaf, at, tls), &signers)))
    };
    let name = |ca: Ca| (ca, Kind::Secret.called(&at.namespace, &Certificate::from(ca).secret_name(at)));
    Certificates {
        authority_names: Ca::ALL.into_iter().map(name).collect(),
        authorities: authorities.iter().map(|(ca, secret)| (*ca, authority_secret(secret, uid))).collect(),
        leaves: Leaf::of_cluster(auth).filter_map(leaf).collect::<BTreeMap<_, _>>(),
        given: None,
    }
}

fn authority_secret(secret: &Secret, uid: &ClusterUid) -> AuthoritySecret {
    AuthoritySecret {
        observed: diff::observed(&secret.metadata),
        incarnation: incarnation_of(&secret.metadata, uid),
        owned: secret.metadata.owner_references.iter().flatten().next().is_some(),
        content: authority(secret),
        next: rotation::at(secret, Place::Next),
        staged: staged::leaves().filter_map(|leaf| Some((leaf, staged_leaf(secret, leaf)?))).collect(),
    }
}

fn authority(secret: &Secret) -> Result<Authority, String> {
    has_key(secret)?;
    let first = one(secret, CERT)?;
    if !first.is_authority {
        return Err(format!("the certificate in {CERT} is not one of an authority"));
    }
    Ok(first.into_authority(rotation::is_keyless(secret, KEY)))
}

/// A leaf that came with one of the authorities in its Secret. What it is good for was looked at before it was copied.
fn staged_leaf(secret: &Secret, leaf: Leaf) -> Option<LeafCertificate> {
    let (cert, key) = staged::entries_of(leaf);
    entry(secret, &key)?;
    let own = one(secret, &cert).ok()?;
    let authorities = rotation::PLACES.map(|place| one(secret, rotation::entries_at(place).0).ok());
    let signer = authorities.iter().flatten().find(|known| own.is_signed_by(known));
    Some(own.into_leaf(signer))
}

fn leaf_secret(
    secret: &Secret,
    misnamed: impl Fn(&str) -> bool,
    names: &[String],
    signers: &[Parsed],
) -> LeafSecret {
    let content = leaf_certificate(secret, misnamed, names, signers);
    LeafSecret { observed: diff::observed(&secret.metadata), content }
}

/// The leaf in the Secret of a user, which has this common name.
pub(crate) fn leaf_of_user(secret: &Secret, common_name: &str) -> LeafSecret {
    let content = leaf_certificate(secret, |name| name != common_name, &[], &[]);
    LeafSecret { observed: diff::observed(&secret.metadata), content }
}

fn leaf_certificate(
    secret: &Secret,
    misnamed: impl Fn(&str) -> bool,
    names: &[String],
    signers: &[Parsed],
) -> Result<LeafCertificate, String> {
    has_key(secret)?;
    let (own, trusted) = (one(secret, CERT)?, certificates(secret, CA)?);
    let mut known = trusted.iter().chain(signers);
    let signed_by = known.find(|known| own.is_signed_by(known));
    Ok(LeafCertificate {
        fingerprint: own.fingerprint.clone(),
        validity: own.validity,
        signed_by: signed_by.map(|known| known.fingerprint.clone()),
        lacks: names.iter().filter(|name| !own.names.contains(name)).cloned().collect(),
        misnamed: misnamed(&own.common_name).then(|| own.common_name.clone()),
        trust: rotation::trust_of(secret),
        trusted: trusted.into_iter().map(|known| known.fingerprint).collect(),
    })
}

fn has_key(secret: &Secret) -> Result<(), String> {
    entry(secret, KEY).map(drop).ok_or_else(|| format!("it has no {KEY}"))
}
