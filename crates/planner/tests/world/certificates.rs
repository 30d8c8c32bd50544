//! The Secrets with certificates: each effect succeeds at once.

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

/// An authority of this cluster.
pub fn authority(seen: &Snapshot, fingerprint: &str, now: Instant) -> AuthoritySecret {
    let validity = Validity { not_before: now, not_after: now + Span::seconds(3650 * DAY) };
    AuthoritySecret {
        uid: Uid::new(format!("secret of {fingerprint}")),
        resource_version: "1".to_owned(),
        incarnation: Some(seen.uid.clone()),
        owned: false,
        content: Ok(Authority { fingerprint: Fingerprint::new(fingerprint), validity }),
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
            lacks: Vec::new(),
            misnamed: None,
        }),
    }
}

/// Carries out a write of a Secret; `false` if it is another write.
pub fn write(seen: &mut Snapshot, now: Instant, write: &KubeEffect) -> bool {
    let made = |ca: Ca| authority(seen, first(ca), now);
    let made = [made(Ca::Clients), made(Ca::Peers)];
    let uid = seen.uid.clone();
    let Some(certificates) = seen.certificates.as_mut() else { return false };
    match write {
        KubeEffect::CreateAuthority { ca } => {
            let [clients, peers] = made;
            let made = if *ca == Ca::Clients { clients } else { peers };
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
        KubeEffect::IssueLeaf { leaf: kind, by } => {
            let before = certificates.leaves.insert(*kind, leaf(*kind, by, 1, now));
            assert!(before.is_none(), "two leaves");
        }
        KubeEffect::RenewLeaf { leaf: kind, by, secret, resource_version } => {
            let before = certificates.leaves.get(kind).expect("renewed Secret exists");
            assert_eq!((&before.uid, &before.resource_version), (secret, resource_version));
            let version = resource_version.parse::<u32>().unwrap() + 1;
            certificates.leaves.insert(*kind, leaf(*kind, by, version, now));
        }
        _ => return false,
    }
    true
}
