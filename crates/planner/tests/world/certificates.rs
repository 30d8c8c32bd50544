//! The Secrets with certificates: each effect succeeds at once.

use std::collections::{BTreeMap, BTreeSet};

use quorate_model::certificate::Validity;
use quorate_model::snapshot::{
    Authority, AuthoritySecret, Certificates, LeafCertificate, LeafSecret, Snapshot,
};
use quorate_model::{Ca, Fingerprint, Instant, KubeEffect, Leaf, Span, Uid};

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
        uid: Uid::new(format!("secret of {fingerprint}")),
        resource_version: "1".to_owned(),
        incarnation: Some(seen.uid.clone()),
        owned: false,
        content: Ok(Authority { fingerprint: Fingerprint::new(fingerprint), validity, minted: true }),
        next: None,
        previous: None,
    }
}

/// A leaf that this authority signed.
pub fn leaf(leaf: Leaf, by: &Fingerprint, version: u32, now: Instant) -> LeafSecret {
    LeafSecret {
        uid: Uid::new(format!("secret of {leaf}")),
        resource_version: version.to_string(),
        content: Ok(LeafCertificate {
            validity: Validity { not_before: now, not_after: now + Span::seconds(360 * DAY) },
            signed_by: Some(by.clone()),
            trusted: vec![by.clone()],
            trust: 0,
            lacks: Vec::new(),
            misnamed: None,
        }),
    }
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
    let made = |ca: Ca| {
        // Beside what signs already it is another one.
        let is_first = seen.record.authority.is_none();
        authority(seen, &if is_first { first(ca).to_owned() } else { next(ca, seen.record.trust) }, now)
    };
    let made = [made(Ca::Clients), made(Ca::Peers)];
    let (uid, trust) = (seen.uid.clone(), seen.record.trust);
    let Some(certificates) = seen.certificates.as_mut() else { return false };
    match write {
        KubeEffect::CreateAuthority { ca, given } => {
            let [clients, peers] = made;
            let mut made = if *ca == Ca::Clients { clients } else { peers };
            if let (Some(given), Ok(content)) = (given, &mut made.content) {
                (content.fingerprint, content.minted) = (given.clone(), false);
            }
            assert!(certificates.authorities.insert(*ca, made).is_none(), "two authorities of {ca}");
        }
        KubeEffect::KeepAuthority { ca, secret, .. } => {
            let kept = certificates.authorities.get_mut(ca).expect("kept Secret exists");
            assert_eq!(kept.uid, *secret);
            (kept.owned, kept.incarnation) = (false, Some(uid));
        }
        KubeEffect::DeleteAuthority { ca, secret, .. } => {
            assert_eq!(certificates.authorities.remove(ca).expect("deleted Secret exists").uid, *secret);
        }
        KubeEffect::MakeNextAuthority { ca, given, secret, .. } => {
            let seen = certificates.authorities.get_mut(ca).expect("the Secret exists");
            assert_eq!(seen.uid, *secret);
            let fingerprint = given.clone().unwrap_or_else(|| Fingerprint::new(next(*ca, trust)));
            seen.next = Some(Authority { fingerprint, validity: life(now), minted: given.is_none() });
        }
        KubeEffect::ArrangeAuthority { ca, secret, signer, previous, .. } => {
            let seen = certificates.authorities.get_mut(ca).expect("the Secret exists");
            assert_eq!(seen.uid, *secret);
            let found = |one: &Fingerprint| seen.with(one).cloned().expect("it is in the Secret");
            let (signer, previous) = (found(signer), previous.as_ref().map(found));
            (seen.content, seen.next, seen.previous) = (Ok(signer), None, previous);
        }
        KubeEffect::WriteTrust { leaf: kind, secret, trust, drop, generation, .. } => {
            let seen = certificates.leaves.get_mut(kind).expect("the Secret exists");
            assert_eq!(seen.uid, *secret);
            let content = seen.content.as_mut().expect("it can be read");
            let rest =
                content.trusted.iter().filter(|one| !trust.contains(one) && Some(*one) != drop.as_ref());
            content.trusted = trust.iter().chain(rest).cloned().collect();
            content.trust = *generation;
        }
        KubeEffect::IssueLeaf { leaf: kind, by } => {
            let mut made = leaf(*kind, by, 1, now);
            made.content.as_mut().unwrap().trust = trust;
            assert!(certificates.leaves.insert(*kind, made).is_none(), "two leaves");
        }
        KubeEffect::RenewLeaf { leaf: kind, by, secret, resource_version } => {
            let before = certificates.leaves.get(kind).expect("renewed Secret exists");
            assert_eq!((&before.uid, &before.resource_version), (secret, resource_version));
            let version = resource_version.parse::<u32>().unwrap() + 1;
            let mut made = leaf(*kind, by, version, now);
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
