//! What a person should know of quota, database and volume before the database or the disk is full.

use quorate_api::quantity::{rounded, text};
use quorate_model::MemberName;
use quorate_model::snapshot::{
    Database, NearlyUsedUp, SPACE_REGAINED_PERCENT, share_of_volume, volume_for_quota,
};
use quorate_model::target::Medium;

use super::in_words;
use crate::picture::Picture;
use quorate_manifests::flags::keeps_every_log;
use quorate_manifests::template::Template;

/// The smallest default quota: volumes for which it is too large are for tests.
const SMALLEST_REPORTED: u64 = 16 << 20;

/// What is reported while the cluster serves. Without the sizes of files: status would change with every write.
pub(super) fn warnings(picture: &Picture<'_>) -> String {
    let mut message = nearly_full(picture);
    message.push_str(&nearly_used_up(picture));
    message.push_str(&too_large_a_quota(picture));
    message.push_str(every_log(picture));
    message
}

/// Full members whose volumes have no room for the copy that a defragmentation makes, and what to do. `None` if there is none.
pub(super) fn not_defragmented(picture: &Picture<'_>) -> Option<String> {
    let (seen, now) = (picture.seen, picture.now);
    let lacks_room = |member: &MemberName, database: &Database| {
        !database.is_below_quota(SPACE_REGAINED_PERCENT) && !seen.has_room_to_defragment(member, now)
    };
    let (names, quota) = of_databases(picture, lacks_room)?;
    let names: Vec<&str> = names.iter().map(MemberName::as_str).collect();
    let names = in_words(&names, "is", "are");
    Some(match picture.target().storage.medium {
        Medium::Memory => format!(
            "{names} not defragmented, since the copy would be in memory too. Raise spec.storageSpec.volumeSizeRequest, and \
             spec.etcd.quotaBackendBytes if that is given"
        ),
        Medium::Disk => format!(
            "{names} not defragmented: beside database and log the volume has no room for the copy that this makes. {}",
            larger_volumes(quota)
        ),
    })
}

/// Where the storage class cannot expand volumes, a member gets a larger one by a move.
const MOVE: &str = "where the storage class does not expand volumes, then move one member after the other to a new one, \
                    each when every member is healthy: annotate the EtcdCluster with operator.etcd.io/replace-member=MEMBER/ID, by status.members";

fn larger_volumes(quota: u64) -> String {
    format!(
        "Raise spec.storageSpec.volumeSizeRequest to {} or more; {MOVE}",
        rounded(volume_for_quota(quota))
    )
}

/// The voters whose databases are like this, and the largest quota among them.
fn of_databases(
    picture: &Picture<'_>,
    is_one: impl Fn(&MemberName, &Database) -> bool,
) -> Option<(Vec<MemberName>, u64)> {
    let known = picture.record.voters().filter_map(|voter| {
        let database = picture.seen.database_of(voter, picture.now)?;
        Some((voter.clone(), database, database.quota?))
    });
    let (names, quotas): (Vec<MemberName>, Vec<u64>) = known
        .filter(|(voter, database, _)| is_one(voter, database))
        .map(|(voter, _, quota)| (voter, quota))
        .unzip();
    Some((names, quotas.into_iter().max()?))
}

fn nearly_full(picture: &Picture<'_>) -> String {
    let is_nearly_full = |_: &MemberName, database: &Database| database.is_nearly_full();
    let Some((names, quota)) = of_databases(picture, is_nearly_full) else { return String::new() };
    let is_in_use = |member: &MemberName| {
        let database = picture.seen.database_of(member, picture.now);
        let packed = database.map(|database| Database { size: database.in_use, ..database });
        packed.is_none_or(|packed| packed.is_nearly_full())
    };
    let cure = if names.iter().any(is_in_use) {
        format!(
            "Delete keys that are not needed, or raise spec.storageSpec.volumeSizeRequest to {} or more, and spec.etcd.quotaBackendBytes if \
             that is given",
            rounded(volume_for_quota(quota + quota / 4))
        )
    } else {
        "The rest of the file is free: `etcdctl defrag`, one member after the other, or spec.maintenance.defrag gives it back".to_owned()
    };
    let names: Vec<&str> = names.iter().map(MemberName::as_str).collect();
    format!(
        ". {} at four fifths of the quota of {} or more, and at the quota etcd refuses writes. {cure}",
        in_words(&names, "is", "are"),
        rounded(quota)
    )
}

/// By steps, for the same reason.
fn nearly_used_up(picture: &Picture<'_>) -> String {
    let low: Vec<_> = picture.seen.nearly_used_up().collect();
    if low.is_empty() {
        return String::new();
    }
    let each: Vec<String> = low
        .iter()
        .map(|(member, volume)| {
            format!("{member} (less than {} of {})", text(volume.below), rounded(volume.all))
        })
        .collect();
    let each: Vec<&str> = each.iter().map(String::as_str).collect();
    let (seen, now) = (picture.seen, picture.now);
    // It writes what is in use, and pages that are not quite full.
    let lacks_room_to_defragment = |(member, volume): &(&MemberName, NearlyUsedUp)| {
        let database = seen.database_of(member, now);
        database.is_some_and(|database| database.in_use.saturating_mul(11) / 10 >= volume.below)
    };
    let leader = picture.record.voters().find(|voter| {
        seen.status_of(voter, now).is_some_and(|status| seen.leader(now) == Some(status.member_id))
    });
    let sent = leader.and_then(|leader| seen.database_of(leader, now)).map(|database| database.size);
    let lacks_room_for_snapshot =
        |(_, volume): &(&MemberName, NearlyUsedUp)| sent.is_some_and(|sent| sent >= volume.below);
    let copy = match (low.iter().any(lacks_room_for_snapshot), low.iter().any(lacks_room_to_defragment)) {
        (true, true) => {
            " A second copy of the database does not fit any more: neither a snapshot of the leader nor a defragmentation."
        }
        (true, false) => " A snapshot of the leader does not fit any more.",
        (false, true) => " The copy that a defragmentation makes does not fit any more.",
        (false, false) => "",
    };
    format!(
        ". Little is free on the volume of {}, and etcd ends when its volume is full.{copy} Raise spec.storageSpec.volumeSizeRequest; {MOVE}. \
         Meanwhile write less and no large values, for the log keeps what was written last; where the volume is a directory of a disk with \
         other data, make room there",
        in_words(&each, "", "").trim_end()
    )
}

fn every_log(picture: &Picture<'_>) -> &'static str {
    if keeps_every_log(&Template::from_status(&picture.target().pod).flags) {
        ". With --max-wals=0 etcd keeps every file of its log, until the volume is full: remove it from spec.etcdOptions (etcd keeps 5 then)"
    } else {
        ""
    }
}

/// A quota that is given, or that a restored cluster has.
fn too_large_a_quota(picture: &Picture<'_>) -> String {
    let target = picture.target();
    let capacity = |voter: &MemberName| picture.seen.volumes.get(voter).and_then(|volume| volume.capacity);
    let smallest = picture.record.voters().filter_map(capacity).min().unwrap_or(target.storage.bytes);
    let is_too_large = |quota: &u64| *quota > share_of_volume(smallest).max(SMALLEST_REPORTED);
    let quota = target.pod.quota.filter(|_| target.storage.medium == Medium::Disk).filter(is_too_large);
    quota.map_or_else(String::new, |quota| {
        format!(
            ". A database at the quota of {} leaves a volume of {} no room for a second copy of it, which a defragmentation needs, and a \
             member that was away for long. {}",
            rounded(quota),
            text(smallest),
            larger_volumes(quota)
        )
    })
}
