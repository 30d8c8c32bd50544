//! The spec becomes the committed target at safe points only, so that an edit half way through cannot mix two plans
//! (DESIGN: target). A stuck step is a safe point: the edit that cures it must be accepted at once.

use quorate_model::record::Stage;
use quorate_model::{MemberName, Step, Target, Waiting};

use crate::draft::Draft;
use crate::upgrade;

pub(crate) fn target(draft: &mut Draft<'_>) {
    let Some(committed) = draft.record.target.clone() else {
        // A founded cluster whose status lost it: what is asked for now is all there is to go by.
        let wanted = draft.seen.wanted.clone();
        draft.latch(Step::T1, |record| record.target = Some(wanted));
        return;
    };
    let mut wanted = wanted(draft, &committed);
    if wanted == committed {
        return;
    }
    if let Some(member) = moving_learner(draft) {
        draft.wait(Waiting::SafePoint(format!("the edit is taken up when learner {member} is a voter")));
        return;
    }
    if let Err(why) = upgrade::permits(draft.seen, &draft.record, draft.now, wanted.version) {
        draft.wait(Waiting::VersionRefused(why));
        // The rest of the edit waits with the version: its flags are meant for it.
        wanted = committed.clone().with_what_is_always_safe(&wanted);
    }
    if wanted != committed {
        draft.latch(Step::T1, |record| record.target = Some(wanted));
    }
}

/// The wish, save what can not change under living members (the CRD refuses it; this holds where the CRD is old).
fn wanted(draft: &Draft<'_>, committed: &Target) -> Target {
    let mut wanted = draft.seen.wanted.clone();
    wanted.tls = committed.tls;
    wanted.storage.medium = committed.storage.medium;
    wanted.storage.class.clone_from(&committed.storage.class);
    wanted.storage.access_mode.clone_from(&committed.storage.access_mode);
    wanted.storage.bytes = wanted.storage.bytes.max(committed.storage.bytes);
    wanted
}

/// A learner on its way: in etcd's list, its Pod made and without trouble.
fn moving_learner(draft: &Draft<'_>) -> Option<MemberName> {
    draft
        .record
        .members
        .iter()
        .filter(|(_, member)| member.stage == Stage::Joining && member.id.is_some())
        .map(|(name, _)| name)
        .find(|name| draft.pod(name).is_some_and(|pod| pod.trouble.is_none() && pod.guard.is_none()))
        .cloned()
}
