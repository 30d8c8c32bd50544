//! Commits the spec as the target, at safe points only, so that an edit in the middle of a change cannot mix two plans. A
//! stuck step is a safe point: the edit that repairs it must be accepted at once.

use quorate_model::record::Stage;
use quorate_model::{MemberName, Step, Target, Waiting};

use crate::draft::Draft;
use crate::upgrade;

pub(crate) fn target(draft: &mut Draft<'_>) {
    let Some(committed) = draft.record.target.clone() else {
        // The cluster is bootstrapped, but its status lost the target. Only the spec is left to follow.
        let desired = draft.seen.desired.clone();
        draft.write_record(Step::T1, |record| record.target = Some(desired));
        return;
    };
    let mut desired = desired(draft, &committed);
    if desired == committed {
        return;
    }
    if let Some(member) = moving_learner(draft) {
        draft.wait(Waiting::SafePoint(format!("the edit is committed once learner {member} is a voter")));
        return;
    }
    if let Err(why) = upgrade::permits(draft.seen, &draft.record, draft.now, desired.version) {
        draft.wait(Waiting::VersionRefused(why));
        // The rest of the edit waits with the version, because its flags are meant for that version.
        desired = committed.clone().with_what_is_always_safe(&desired);
    }
    if desired != committed {
        draft.write_record(Step::T1, |record| record.target = Some(desired));
    }
}

/// The desired target, with the committed value of every field that cannot change while members run. The CRD refuses such an
/// edit; this also covers an older CRD.
fn desired(draft: &Draft<'_>, committed: &Target) -> Target {
    let mut desired = draft.seen.desired.clone();
    desired.tls = committed.tls;
    desired.storage.medium = committed.storage.medium;
    desired.storage.class.clone_from(&committed.storage.class);
    desired.storage.access_mode.clone_from(&committed.storage.access_mode);
    desired.storage.bytes = desired.storage.bytes.max(committed.storage.bytes);
    desired
}

/// A learner that makes progress: etcd's list has it, and its Pod exists and is not in trouble.
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
