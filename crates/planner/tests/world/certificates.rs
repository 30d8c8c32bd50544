//! The Secrets with certificates: each effect succeeds at once.

use std::collections::{BTreeMap, BTreeSet};

use quorate_model::certificate::Validity;
use quorate_model::effect::AuthorityPlace;
use quorate_model::snapshot::{
    Authority, AuthoritySecret, Certificates, LeafCertificate, LeafSecret, Snapshot,
};
use quorate_model::{Ca, DeletedObject, Fingerprint, Instant, KubeEffect, Leaf, ObservedObject, Span};

pub const DAY: u64 = 86_400;

/// None exist yet.
pub fn none() -> Certificates {
    let names = [(Ca::Clients, "Secret default/demo-ca"), (Ca::Peers, "Secret default/demo-peer-ca")];
    let authority_names = names.into_iter().map(|(ca, name)| (ca, name.to_owned())).collect();
    Certificates { authority_names, ..Certificates::default() }
}

/// The fingerprint of the authority that is created for a port.
pub fn first(ca: Ca) -> &'static str {
    match ca {
        Ca::Clients => "ca-1",
        Ca::Peers => "peer-ca-1",
    }
}

/// The fingerprint of the one that takes its place: 16 digits and more, so that it can be named.
pub fn next(ca: Ca, trust: u32) -> String {
    format!("{}-after-generation-{trust}", first(ca))
}

fn life(now: Instant) -> Validity {
    Validity { not_before: now, not_after: now + Span::seconds(3650 * DAY) }
}

/// An authority of this cluster.
pub fn authority(seen: &Snapshot, fingerprint: &str, now: Instant) -> AuthoritySecret {
    let validity = life(now);
    AuthoritySecret {
        observed: ObservedObject::new(format!("secret of {fingerprint}"), "1"),
        incarnation: Some(seen.uid.clone()),
        owned: false,
        content: Ok(Authority {
            fingerprint: Fingerprint::new(fingerprint),
            certificate: certificate(fingerprint),
            validity,
            minted: true,
            keyless: false,
        }),
        next: None,
        staged: BTreeMap::new(),
    }
}

/// A leaf that this authority signed.
pub fn leaf(leaf: Leaf, by: &Fingerprint, version: u32, now: Instant) -> LeafSecret {
    LeafSecret {
        observed: ObservedObject::new(format!("secret of {leaf}"), version.to_string()),
        content: Ok(LeafCertificate {
            fingerprint: Fingerprint::new(format!("{leaf} {version} of {by}")),
            validity: Validity { not_before: now, not_after: now + Span::seconds(360 * DAY) },
            signed_by: Some(by.clone()),
            trusted: vec![by.clone()],
            trust: 0,
            lacks: Vec::new(),
            misnamed: None,
        }),
    }
}

/// The given authority, as it is copied.
fn copy(certificates: &Certificates, given: &Fingerprint, now: Instant) -> Authority {
    let found = certificates.given.as_ref().and_then(|given| given.content.clone().ok());
    let found = found.filter(|found| found.fingerprint == *given);
    found.unwrap_or_else(|| Authority {
        fingerprint: given.clone(),
        certificate: certificate(given.as_str()),
        validity: life(now),
        minted: false,
        keyless: false,
    })
}

/// The certificate of an authority.
pub fn certificate(fingerprint: &str) -> String {
    format!("certificate of {fingerprint}")
}

/// What is copied with a given authority that has its key somewhere else.
fn staged(certificates: &Certificates, of: &Authority) -> BTreeMap<Leaf, LeafCertificate> {
    let leaves = certificates.given.iter().flat_map(|given| &given.leaves).filter(|_| of.keyless);
    let leaves = leaves.filter_map(|(leaf, found)| Some((*leaf, found.as_ref().ok()?.clone())));
    leaves.filter(|(_, found)| found.signed_by.as_ref() == Some(&of.fingerprint)).collect()
}

/// What was issued somewhere else, where the authority has its key there.
fn copied_leaf(certificates: &Certificates, leaf: Leaf, mut made: LeafSecret, now: Instant) -> LeafSecret {
    let by = made.content.as_ref().ok().and_then(|made| made.signed_by.clone()).expect("it is signed");
    let authority = certificates.authorities.get(&leaf.ca()).and_then(|own| own.with(&by));
    if let Some(authority) = authority.filter(|authority| authority.keyless) {
        let given = certificates.given_leaf(leaf, authority, now).expect("what is copied is there");
        made.content = Ok(LeafCertificate { trusted: vec![by], ..given.clone() });
    }
    made
}

/// What an etcd that starts now trusts at each port.
pub fn trusted(seen: &Snapshot) -> BTreeMap<Ca, BTreeSet<Fingerprint>> {
    let of = |leaf: Leaf| {
        let content = seen.certificates.as_ref()?.leaves.get(&leaf)?.content.as_ref().ok()?;
        Some((leaf.ca(), content.trusted.iter().cloned().collect()))
    };
    [Leaf::Server, Leaf::Peer].into_iter().filter_map(of).collect()
}

/// The authority of what members present at a port.
pub fn presented(seen: &Snapshot, ca: Ca) -> Option<Fingerprint> {
    let leaf = if ca == Ca::Peers { Leaf::Peer } else { Leaf::Server };
    seen.certificates.as_ref()?.leaves.get(&leaf)?.content.as_ref().ok()?.signed_by.clone()
}

/// Carries out a write of a Secret; `false` if it is another write.
pub fn write(seen: &mut Snapshot, now: Instant, write: &KubeEffect) -> bool {
    let is_first = seen.record.authority.is_none();
    let made = |ca: Ca| {
        // Beside what signs already it is another one.
        authority(seen, &if is_first { first(ca).to_owned() } else { next(ca, seen.record.trust) }, now)
    };
    let made = [made(Ca::Clients), made(Ca::Peers)];
    let (uid, trust) = (seen.uid.clone(), seen.record.trust);
    let Some(certificates) = seen.certificates.as_mut() else { return false };
    match write {
        KubeEffect::CreateAuthority { ca, place, given } => {
            let [clients, peers] = made;
            let mut made = if *ca == Ca::Clients { clients } else { peers };
            if let Some(given) = given {
                let copied = copy(certificates, given, now);
                made.staged = staged(certificates, &copied);
                made.content = Ok(copied);
            }
            if *place == AuthorityPlace::Next {
                made.next = made.content.ok();
                made.content = Err("tls.crt has no certificate".to_owned());
            }
            assert!(certificates.authorities.insert(*ca, made).is_none(), "two authorities of {ca}");
        }
        KubeEffect::KeepAuthority { ca, observed } => {
            let kept = certificates.authorities.get_mut(ca).expect("kept Secret exists");
            assert_eq!(kept.observed, *observed);
            (kept.owned, kept.incarnation) = (false, Some(uid));
        }
        KubeEffect::Delete { object: DeletedObject::Authority(ca), observed } => {
            let deleted = certificates.authorities.remove(ca).expect("deleted Secret exists");
            assert_eq!(deleted.observed, *observed);
        }
        KubeEffect::MakeNextAuthority { ca, given, observed } => {
            let copied = given.as_ref().map(|given| copy(certificates, given, now));
            let leaves = copied.as_ref().map(|copied| staged(certificates, copied));
            let seen = certificates.authorities.get_mut(ca).expect("the Secret exists");
            assert_eq!(seen.observed, *observed);
            let fingerprint = Fingerprint::new(next(*ca, trust));
            let certificate = certificate(fingerprint.as_str());
            let made =
                Authority { fingerprint, certificate, validity: life(now), minted: true, keyless: false };
            let made = copied.unwrap_or(made);
            seen.staged = leaves.unwrap_or_else(|| std::mem::take(&mut seen.staged));
            seen.next = Some(made);
        }
        KubeEffect::ArrangeAuthority { ca, observed, signer } => {
            let seen = certificates.authorities.get_mut(ca).expect("the Secret exists");
            assert_eq!(seen.observed, *observed);
            let signer = seen.with(signer).cloned().expect("it is in the Secret");
            seen.staged.retain(|_, _| signer.keyless);
            (seen.content, seen.next) = (Ok(signer), None);
        }
        KubeEffect::WriteTrust { leaf: kind, observed, trust, generation } => {
            let seen = certificates.leaves.get_mut(kind).expect("the Secret exists");
            assert_eq!(seen.observed, *observed);
            let content = seen.content.as_mut().expect("it can be read");
            content.trusted.clone_from(trust);
            content.trust = *generation;
        }
        KubeEffect::IssueLeaf { leaf: kind, by } => {
            let mut made = copied_leaf(certificates, *kind, leaf(*kind, by, 1, now), now);
            made.content.as_mut().unwrap().trust = trust;
            assert!(certificates.leaves.insert(*kind, made).is_none(), "two leaves");
        }
        KubeEffect::RenewLeaf { leaf: kind, by, observed } => {
            let before = certificates.leaves.get(kind).expect("renewed Secret exists");
            assert_eq!(before.observed, *observed);
            let version = observed.resource_version.parse::<u32>().unwrap() + 1;
            let mut made = copied_leaf(certificates, *kind, leaf(*kind, by, version, now), now);
            if let (Ok(made), Ok(before)) = (&mut made.content, &before.content) {
                // Of the bundle nothing is taken away.
                made.trust = before.trust;
                made.trusted.extend(before.trusted.iter().filter(|one| *one != by).cloned());
            }
            certificates.leaves.insert(*kind, made);
        }
        _ => return false,
    }
    true
}
