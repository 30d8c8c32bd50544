//! The Secrets with certificates: each effect succeeds at once.

use quorate_model::certificate::Validity;
use quorate_model::snapshot::{
    Authority, AuthoritySecret, Certificates, LeafCertificate, LeafSecret, Snapshot,
};
use quorate_model::{Fingerprint, Instant, KubeEffect, Leaf, Span, Uid};

pub const DAY: u64 = 86_400;

/// None exist yet.
pub fn none() -> Certificates {
    Certificates { authority_name: "Secret default/demo-ca".to_owned(), ..Certificates::default() }
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
    let made = authority(seen, "ca-1", now);
    let Some(certificates) = seen.certificates.as_mut() else { return false };
    match write {
        KubeEffect::CreateAuthority => {
            assert!(certificates.authority.replace(made).is_none(), "two authorities");
        }
        KubeEffect::KeepAuthority { secret, .. } => {
            let kept = certificates.authority.as_mut().expect("kept Secret exists");
            assert_eq!(kept.uid, *secret);
            (kept.owned, kept.incarnation) = (false, Some(seen.uid.clone()));
        }
        KubeEffect::DeleteAuthority { secret, .. } => {
            assert_eq!(certificates.authority.take().expect("deleted Secret exists").uid, *secret);
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
