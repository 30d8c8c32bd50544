//! What a bootstrap begins with: nothing, or the data of one snapshot. The snapshot is recorded at B1 and stays the same from attempt to
//! attempt. What the spec and the snapshot do not agree on is refused before anything starts.

use quorate_model::effect::{Boot, NoList, NoSnapshot, NotRestored, Unfit};
use quorate_model::restore::Restore;
use quorate_model::snapshot::{Pod, needs_user};
use quorate_model::target::Medium;
use quorate_model::{Record, Revision, Target, Waiting};

use crate::delivery::MOUNTED_WITHIN;
use crate::draft::Draft;
use crate::safety;

/// What a volume must have beside twice the size of the snapshot: the log of a new member and what is written meanwhile.
const SPARE_BYTES: u64 = 256 << 20;

/// What the next attempt begins with; `None`: with nothing. An earlier attempt has recorded it.
pub(crate) fn to_begin_with(draft: &Draft<'_>) -> Result<Option<Restore>, NoSnapshot> {
    let restore = match (&draft.record.restore, &draft.seen.restore) {
        (Some(recorded), _) => recorded.clone(),
        // R23: by the later clock. By the earlier one a restore of before may have been raised as far.
        (None, Some(resolved)) => {
            resolved.clone().map_err(NoSnapshot::Failed)?.raised_by_time(draft.latest())
        }
        (None, None) => return Ok(None),
    };
    match incompatible(&restore, &draft.seen.desired) {
        None => Ok(Some(restore)),
        Some(why) => Err(NoSnapshot::Unfit(why)),
    }
}

/// How a member of the bootstrap set boots.
pub(crate) fn boot(record: &Record) -> Boot {
    match &record.restore {
        None => Boot::New,
        Some(_) if safety::must_have_data(record) => Boot::Resume,
        Some(_) => Boot::Restore,
    }
}

/// Whether a Pod has not started yet and must not restore any more. The next one requires the data.
pub(crate) fn comes_too_late(record: &Record, pod: &Pod) -> bool {
    pod.gated && pod.restores && !pod.terminating && safety::must_have_data(record)
}

/// Whether the Pod mounts the claim that the snapshot is in.
pub(crate) fn mounts_claim(record: &Record, pod: &Pod) -> bool {
    pod.restores && record.restore.as_ref().is_some_and(Restore::is_in_claim)
}

/// Whether the claim with the snapshot keeps a Pod from starting. The kubelet reports it in an event only.
pub(crate) fn is_unmounted(draft: &Draft<'_>, pod: &Pod) -> bool {
    let since = pod.mounting.filter(|_| mounts_claim(&draft.record, pod));
    since.is_some_and(|since| draft.now - since >= MOUNTED_WITHIN)
}

/// Why a quorum that has a leader does not serve its member list, by what members or etcd answer.
pub(crate) fn why_no_list(draft: &Draft<'_>) -> Option<Waiting> {
    let statuses = || draft.record.members.keys().filter_map(|member| draft.status_of(member));
    let has_leader = draft.record.had_leader || statuses().any(|status| status.leader.is_some());
    if draft.record.restore.is_none() || !has_leader || draft.seen.list(draft.now).is_some() {
        return None;
    }
    let answers = draft.record.members.keys().filter_map(|member| draft.seen.etcd.answers.get(member));
    let refused = answers.filter_map(|answer| answer.reply.as_ref().err());
    let failures: Vec<&String> = draft.seen.etcd.list_failure.iter().chain(refused).collect();
    let has_certificates = draft.record.target.as_ref().is_some_and(|target| target.tls);
    let why = if !has_certificates && failures.iter().any(|why| needs_user(why)) {
        NoList::AuthWithoutTls
    } else {
        NoList::Says((*failures.first()?).clone())
    };
    let (healthy, voters) = (statuses().count(), draft.record.members.len());
    Some(Waiting::Quorum { healthy, voters, why: Some(why) })
}

/// What keeps a restored cluster from being used (B5): a member that answers and does not have what was restored, or two that answer with
/// other data. Every member restores the same object, with its hash verified, so this is never the case. If it is, a disk or etcd is broken.
pub(crate) fn contradiction(draft: &Draft<'_>) -> Option<Waiting> {
    let restore = draft.record.restore.as_ref()?;
    lower_revision(draft, restore).or_else(|| other_data(draft))
}

/// A member with a lower revision than a restored one has. Its data are of something else.
fn lower_revision(draft: &Draft<'_>, restore: &Restore) -> Option<Waiting> {
    // What a manifest says of the revision is not trusted where the raise itself tells restored data from others. etcdutl raises the revision
    // of the last key, which is 0 in an etcd that nobody wrote to.
    let least = if restore.bump > 0 {
        Revision(restore.raise()).max(restore.floor)
    } else {
        restore.least_revision()
    };
    let mut members = draft.record.members.keys();
    members.find_map(|member| {
        let revision = draft.status_of(member)?.revision;
        let why = || Waiting::NotRestored(member.clone(), NotRestored::Lower { revision, least });
        (revision < least).then(why)
    })
}

/// Members that answer and were not compared yet, or whose data differ. A member that cannot make a hash keeps nobody waiting: the object
/// that it restored was verified. Nor does one that starts later: etcd compares it with its peers before it serves.
fn other_data(draft: &Draft<'_>) -> Option<Waiting> {
    let hashes = draft.seen.hashes(draft.now);
    let was_asked = |member| hashes.is_some_and(|hashes| hashes.replies.contains_key(member));
    let mut answering = draft.record.members.keys().filter(|member| draft.status_of(member).is_some());
    if let Some(member) = answering.find(|member| !was_asked(member)) {
        return Some(Waiting::Restoring(member.clone(), None));
    }
    let (one, other, revision) = hashes?.contradiction()?;
    Some(Waiting::NotRestored(other.clone(), NotRestored::Differs { from: one.clone(), revision }))
}

/// What of the spec does not go with the snapshot.
pub(crate) fn incompatible(restore: &Restore, desired: &Target) -> Option<Unfit> {
    if desired.storage.medium == Medium::Memory {
        return Some(Unfit::Memory);
    }
    if restore.auth == Some(true) && !desired.tls {
        return Some(Unfit::AuthWithoutTls);
    }
    if let Some(version) = restore.version.filter(|version| desired.version.line() < version.line()) {
        return Some(Unfit::OlderThan(version));
    }
    let raises = desired.version.line().known().map(|known| known.raises_revisions);
    if let Some(first) = raises.filter(|first| restore.bump > 0 && desired.version < *first) {
        return Some(Unfit::CannotRaise(desired.version, first));
    }
    let bytes = restore.bytes?;
    if let Some(quota) = desired.pod.quota.filter(|quota| *quota < bytes) {
        return Some(Unfit::OverQuota { bytes, quota });
    }
    let (needed, has) = (bytes.saturating_mul(2).saturating_add(SPARE_BYTES), desired.storage.bytes);
    (has < needed).then_some(Unfit::VolumeTooSmall { bytes, needed, has })
}
