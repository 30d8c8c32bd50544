//! Leaves that somebody else has signed: `tls.provider` is `secrets`, or `cert-manager`. What signs them is known by its certificate alone, and has no
//! key here. etcd mounts copies of them, and a copy is made only of what the authority signed that all members trust: whoever makes the originals
//! need not wait for anybody.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use quorate_api::cluster::{TlsProvider, TlsSpec};
use quorate_model::snapshot::{GivenAuthority, LeafCertificate};
use quorate_model::{ClusterRef, Fingerprint, Leaf};

use super::{find, judged, staged};
use crate::cert_manager;
use crate::certificate::kinds::{CA, CERT, KEY, KeyPair, entry, is_misnamed, names};
use crate::certificate::parsed::{Parsed, certificates, pem_of};
use crate::certificate::private_key;
use crate::certificate::rotation::KEYLESS;
use crate::certificate::verify::{Presented, Verifier};
use crate::kind::Kind;

/// The longest chain from a leaf to what `ca.crt` has. Go's and rustls' verifiers know longer ones; nobody's issuer does.
const CHAIN: usize = 8;

/// The Secret in which somebody else keeps a leaf, if the spec says so.
pub(crate) fn secret_name(leaf: Leaf, at: &ClusterRef, tls: &TlsSpec) -> Option<String> {
    match tls.provider {
        TlsProvider::Auto | TlsProvider::Disabled => None,
        TlsProvider::CertManager => Some(cert_manager::secret_name(leaf, at)),
        TlsProvider::Secrets => {
            let given = tls.secrets()?;
            let name = match leaf {
                Leaf::Server => &given.server_secret,
                Leaf::Client => &given.client_secret,
                Leaf::Operator => &given.operator_secret,
                Leaf::Peer => return None,
            };
            Some(name.clone().unwrap_or_default())
        }
    }
}

/// What is in these Secrets. The authority is that of the server's certificate; the others have to be of the same one before it is taken.
pub(super) fn read(
    secrets: &[&Secret],
    at: &ClusterRef,
    tls: &TlsSpec,
    verifier: Verifier,
) -> Option<GivenAuthority> {
    let of_server = secret_name(Leaf::Server, at, tls)?;
    let server = issued(secrets, at, tls, Leaf::Server, verifier);
    let content =
        server.as_ref().map(|(_, signer)| signer.clone().into_authority(true)).map_err(Clone::clone);
    let named = |leaf: Leaf, why: String| {
        let name = secret_name(leaf, at, tls).filter(|name| !name.is_empty());
        name.map_or_else(
            || why.clone(),
            |name| format!("{}: {why}", Kind::Secret.called(&at.namespace, &name)),
        )
    };
    let other = |leaf: Leaf| {
        let issued = issued(secrets, at, tls, leaf, verifier).map(|(issued, _)| issued);
        (leaf, issued.map_err(|why| named(leaf, why)))
    };
    let others = [Leaf::Client, Leaf::Operator].map(other);
    let leaves = others.into_iter().chain([(Leaf::Server, server.map(|(issued, _)| issued))]).collect();
    let secret = Kind::Secret.called(&at.namespace, &of_server);
    Some(GivenAuthority { secret, content, leaves, issuer_says: None })
}

/// The certificate of the given authority, if it is still this one, and in place of its key the word that there is none.
pub(super) fn copy(
    secrets: &[&Secret],
    at: &ClusterRef,
    tls: &TlsSpec,
    (given, verifier): (&Fingerprint, Verifier),
) -> Option<KeyPair> {
    let (_, signer) = issued(secrets, at, tls, Leaf::Server, verifier).ok()?;
    let pair = KeyPair { cert: pem_of(&signer.der), key: KEYLESS.to_owned() };
    (signer.fingerprint == *given).then_some(pair)
}

/// A leaf with its chain, and its key, if it is as it should be.
pub(crate) fn copy_leaf(
    secrets: &[&Secret],
    at: &ClusterRef,
    tls: &TlsSpec,
    leaf: Leaf,
    verifier: Verifier,
) -> Option<(LeafCertificate, KeyPair)> {
    let (found, _) = issued(secrets, at, tls, leaf, verifier).ok()?;
    let secret = find(secrets, at, &secret_name(leaf, at, tls)?).ok()?;
    let cert = certificates(secret, CERT).ok()?.iter().map(|one| pem_of(&one.der)).collect();
    Some((found, KeyPair { cert, key: String::from_utf8_lossy(entry(secret, KEY)?).into_owned() }))
}

/// The leaves of this authority that can be copied now, with their keys.
pub(crate) fn copy_leaves(
    secrets: &[&Secret],
    at: &ClusterRef,
    tls: &TlsSpec,
    (by, verifier): (&Fingerprint, Verifier),
) -> BTreeMap<Leaf, KeyPair> {
    let copy = |leaf: Leaf| {
        let (found, pair) = copy_leaf(secrets, at, tls, leaf, verifier)?;
        (found.signed_by.as_ref() == Some(by)).then_some((leaf, pair))
    };
    staged::leaves().filter_map(copy).collect()
}

/// The leaf in a Secret, and what signed it, if members, agents and the operator accept it.
fn issued(
    secrets: &[&Secret],
    at: &ClusterRef,
    tls: &TlsSpec,
    leaf: Leaf,
    verifier: Verifier,
) -> Result<(LeafCertificate, Parsed), String> {
    let name = secret_name(leaf, at, tls).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("spec.tls.providerCfg.secretsCfg.{leaf}Secret names none"))?;
    let secret = find(secrets, at, &name)?;
    if tls.provider == TlsProvider::CertManager {
        cert_manager::is_of_spec(secret, leaf, at, tls)?;
    }
    let mut chain = certificates(secret, CERT)?;
    let own = chain.remove(0);
    let key = entry(secret, KEY).ok_or_else(|| format!("it has no {KEY}"))?;
    private_key::fits(key, &own.public_key)?;
    if certificates(secret, CA)
        .is_ok_and(|roots| roots.iter().any(|root| root.fingerprint == own.fingerprint))
    {
        return Err(
            "it has signed itself, as by a SelfSigned issuer, so it has no authority that could have signed others. Use an issuer of kind CA: have a \
             SelfSigned one issue a Certificate with isCA, and name the Secret of that in spec.ca.secretName of an Issuer"
                .to_owned(),
        );
    }
    if own.is_authority {
        return Err(format!("the certificate in {CERT} is one of an authority"));
    }
    let names = names(leaf, at, tls);
    let lacks: Vec<&str> =
        names.iter().filter(|name| !own.names.contains(name)).map(String::as_str).collect();
    if !lacks.is_empty() {
        return Err(format!("its certificate is not valid for {}", lacks.join(", ")));
    }
    if is_misnamed(&own.common_name, leaf) {
        return Err(match leaf {
            Leaf::Operator => {
                format!("its common name is {:?}: the user of the operator is root", own.common_name)
            }
            Leaf::Server | Leaf::Peer | Leaf::Client => {
                format!(
                    "its common name {:?} is reserved: members, or etcd's auth, know somebody else by it",
                    own.common_name
                )
            }
        });
    }
    let presented =
        Presented { cert: &own.der, names: &names, server: leaf.is_of_server(), at: own.validity.not_before };
    let signer = signer(secret, &own, &chain, |signer| verifier.judge(&signer.der, Some(presented)))?;
    judged(&signer)?;
    Ok((own.into_leaf(Some(&signer)), signer))
}

/// The authority that signed the leaf itself, of which it verifies. Where it is an intermediate one, it is trusted by itself, and leads to what
/// `ca.crt` has: without that everybody in the world could be a client, as with what ACME issues.
fn signer(
    secret: &Secret,
    own: &Parsed,
    chain: &[Parsed],
    verify: impl Fn(&Parsed) -> Result<(), String>,
) -> Result<Parsed, String> {
    let roots = certificates(secret, CA)
        .map_err(|why| format!("{why}: whoever issued it names no authority of its own, as with ACME"))?;
    let is_root = |one: &Parsed| roots.iter().any(|root| root.fingerprint == one.fingerprint);
    let named =
        |of: &Parsed| chain.iter().chain(&roots).filter(|one| of.is_signed_by(one)).collect::<Vec<_>>();
    // One that is renewed with another key may have the name, and even the identifier, of the one before.
    let mut judged = named(own).into_iter().map(|one| verify(one).map(|()| one));
    let first = judged.next().ok_or_else(|| {
        format!(
            "neither {CA} nor {CERT} has the authority that signed it, by issuer and authorityKeyIdentifier"
        )
    })?;
    let signer = first.or_else(|why| judged.find_map(Result::ok).ok_or(why))?;
    let mut last = signer;
    for _ in 0..CHAIN {
        if is_root(last) {
            return Ok(signer.clone());
        }
        last = named(last).first().copied().unwrap_or(last);
    }
    Err(format!("the authority that signed it does not lead to one in {CA}"))
}
