//! What cert-manager is asked for, where the spec has it issue certificates: the Certificates, kept as the accepted spec wants them (I5), and deleted once
//! nothing rests on them any more (I6). What is issued comes back in Secrets, of which copies are made ([`certificates`](crate::certificates)).
//!
//! Before anything has started, everything is to be of one authority. An issuer whose authority is exchanged in that time leaves certificates of
//! both behind, and cert-manager issues none anew before it is due. So the Secrets of the earlier one are deleted (I7): cert-manager documents that it
//! issues a Certificate anew whose Secret does not exist.

use quorate_model::snapshot::{IssuedLeaf, SeenCertificate};
use quorate_model::{DeletedObject, KubeEffect, Leaf, ObservedObject, Protocol, Step};

use crate::draft::Draft;
use crate::safety;

/// Last of all, so that nothing else waits for cert-manager or its webhook.
pub(crate) fn keep(draft: &mut Draft<'_>, ended_by: Option<Protocol>) {
    let is_held = matches!(
        ended_by,
        Some(
            Protocol::Delete
                | Protocol::RecordDoubt
                | Protocol::SplitBrain
                | Protocol::Pause
                | Protocol::ForeignObjects
        )
    );
    if is_held {
        return;
    }
    for (leaf, one) in &draft.seen.issuance.leaves {
        let is_early = one.not_before.is_some_and(|not_before| draft.now < not_before);
        if let Some((step, write)) = act(draft, *leaf, one).filter(|(step, _)| *step == Step::I6 || !is_early)
        {
            draft.write(step, write);
        }
    }
}

fn act(draft: &Draft<'_>, leaf: Leaf, one: &IssuedLeaf) -> Option<(Step, KubeEffect)> {
    let delete = |step, object, observed: &ObservedObject| {
        Some((step, KubeEffect::Delete { object, observed: observed.clone() }))
    };
    let delete_issued = |step| {
        let secret = one.secret.as_ref().filter(|secret| secret.is_issued)?;
        delete(step, DeletedObject::Issued(leaf), &secret.observed)
    };
    match (&one.asked, &one.certificate) {
        (Some(asked), SeenCertificate::Absent) if !one.would_take_a_secret() => {
            Some((Step::I5, KubeEffect::CreateCertificate { leaf, asked: asked.clone() }))
        }
        (Some(asked), SeenCertificate::Own { observed, matches: false }) => {
            let (asked, observed) = (asked.clone(), observed.clone());
            Some((Step::I5, KubeEffect::ChangeCertificate { leaf, asked, observed }))
        }
        (Some(_), SeenCertificate::Own { matches: true, .. }) => {
            let may_go = safety::may_take_anew(draft.view()).is_ok();
            if may_go && draft.seen.is_issued_by_earlier(leaf) { delete_issued(Step::I7) } else { None }
        }
        (None, SeenCertificate::Own { observed, .. }) => {
            delete(Step::I6, DeletedObject::Certificate(leaf), observed)
        }
        // The Certificate goes first: else cert-manager would write it again.
        (None, SeenCertificate::Absent) => delete_issued(Step::I6),
        (Some(_), SeenCertificate::Absent)
        | (Some(_) | None, SeenCertificate::Unread | SeenCertificate::Foreign) => None,
    }
}
