//! Certificates: one authority for the life of a cluster, and leaves that it signs.
//!
//! B2 create the authority; I1 record its fingerprint; I2 create the leaves; I3 renew each leaf in place; I4 keep the Secret
//! of the authority beyond its owner. etcd reads its leaf at every handshake, so nothing restarts.

use quorate_model::snapshot::{Authority, AuthoritySecret, Certificates, LeafSecret, Signing};
use quorate_model::{Effect, KubeEffect, Leaf, Step, Waiting};

use crate::draft::{Draft, Progress};

/// Done when every leaf exists, so that Pods can mount them.
pub(crate) fn provide(draft: &mut Draft<'_>) -> Progress {
    let Some(seen) = draft.seen.certificates.as_ref() else { return Progress::Done };
    match draft.seen.signing(seen, &draft.record) {
        Signing::ToCreate => {
            draft.propose(Effect::kube(Step::B2, KubeEffect::CreateAuthority));
        }
        Signing::With(secret, authority) => {
            record(draft, authority);
            keep(draft, secret);
            sign(draft, seen, authority);
        }
        // Where every leaf exists, nothing waits for it: the members serve on, and TLSReady reports it.
        Signing::Lost(loss) if !seen.are_complete() => {
            let secret = seen.authority_name.clone();
            draft.wait(Waiting::AuthorityLost { secret, loss });
        }
        Signing::Lost(_) => {}
    }
    if seen.are_complete() { Progress::Done } else { Progress::Pending }
}

/// I3 alone, where the record may lack something: leaves that are due by their dates, signed by the authority that is recorded.
pub(crate) fn renew(draft: &mut Draft<'_>) {
    let Some(seen) = draft.seen.certificates.as_ref().filter(|_| draft.record.authority.is_some()) else {
        return;
    };
    let Signing::With(_, authority) = draft.seen.signing(seen, &draft.record) else { return };
    if authority.validity.has_ended(draft.now) {
        return;
    }
    for (leaf, secret) in &seen.leaves {
        // A newer operator may have issued it for other names, which is not put right here.
        if secret.why_unusable(authority, draft.now).is_none() && secret.is_due(authority, draft.now) {
            propose_renewal(draft, *leaf, secret, authority);
        }
    }
}

/// I4, for the Secret of an earlier release or of an adopted cluster.
pub(crate) fn keep(draft: &mut Draft<'_>, seen: &AuthoritySecret) {
    if seen.owned || seen.incarnation.as_ref() != Some(&draft.seen.uid) {
        let keep = KubeEffect::KeepAuthority {
            secret: seen.uid.clone(),
            resource_version: seen.resource_version.clone(),
        };
        draft.propose(Effect::kube(Step::I4, keep));
    }
}

/// I1. Before any leaf is signed (R3).
fn record(draft: &mut Draft<'_>, authority: &Authority) {
    if draft.record.authority.is_none() {
        let fingerprint = authority.fingerprint.clone();
        draft.write_record(Step::I1, |record| record.authority = Some(fingerprint));
    }
}

/// I2, I3.
fn sign(draft: &mut Draft<'_>, seen: &Certificates, authority: &Authority) {
    if authority.validity.has_ended(draft.now) {
        if !seen.are_complete() {
            draft.wait(Waiting::AuthorityEnded(seen.authority_name.clone()));
        }
        return;
    }
    let by = &authority.fingerprint;
    for leaf in Leaf::ALL {
        match seen.leaves.get(&leaf) {
            None => {
                draft.propose(Effect::kube(Step::I2, KubeEffect::IssueLeaf { leaf, by: by.clone() }));
            }
            Some(secret) if secret.is_due(authority, draft.now) => {
                propose_renewal(draft, leaf, secret, authority);
            }
            Some(_) => {}
        }
    }
}

fn propose_renewal(draft: &mut Draft<'_>, leaf: Leaf, secret: &LeafSecret, authority: &Authority) {
    let renew = KubeEffect::RenewLeaf {
        leaf,
        by: authority.fingerprint.clone(),
        secret: secret.uid.clone(),
        resource_version: secret.resource_version.clone(),
    };
    draft.propose(Effect::kube(Step::I3, renew));
}
