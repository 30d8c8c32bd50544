//! Which version may follow which. etcd is upgraded one minor version at a time, and is never silently downgraded.

use quorate_model::record::Stage;
use quorate_model::{Instant, MemberName, Minor, Record, Snapshot, Version, Waiting};

use crate::draft::Draft;

/// 3.6 may only follow 3.5.26 or later: after an upgrade from an older one, removed members return (etcd-io/etcd#20967).
const FLOOR_FOR_3_6: Version = Version::new(3, 5, 26);
/// 3.7 may only follow 3.6.11 or later (etcd's upgrade page for 3.7).
const FLOOR_FOR_3_7: Version = Version::new(3, 6, 11);

/// Whether the desired version may follow the version of every member's data: the one that the member reports now, else the
/// one that it reported last, else the committed one. The error is the reason, for people.
pub fn permits(seen: &Snapshot, record: &Record, now: Instant, desired: Version) -> Result<(), String> {
    let Some(committed) = record.target.as_ref().map(|target| target.version) else { return Ok(()) };
    if committed == desired {
        return Ok(());
    }
    let mut with_data = record.members.iter().filter(|(_, member)| match member.stage {
        Stage::Voter | Stage::Leaving(_) => true,
        Stage::Bootstrap | Stage::Joining => false,
    });
    with_data.try_for_each(|(name, member)| {
        let reported = seen.status_of(name, now).map(|status| status.version);
        step(reported.or(member.version).unwrap_or(committed), desired)
    })
}

/// Refuses an edit that was reverted too late: a Pod of the newer minor version has already run on the member's data. Within a
/// minor version, data can go back, and an image may contain another patch than its tag says. The version in an image that
/// the user names is not known.
pub(crate) fn goes_back(draft: &Draft<'_>, member: &MemberName) -> Option<Waiting> {
    let target = draft.record.target.as_ref()?;
    let desired = target.version;
    let reported = draft.status_of(member).map(|status| status.version);
    let ran = reported.or(draft.record.members.get(member)?.version)?;
    (desired.line() < ran.line() && target.pod.image_has_version).then(|| {
        Waiting::VersionRefused(format!(
            "{member} has run {ran}, and its data do not go back to {desired}: set spec.version to {ran} or later"
        ))
    })
}

/// Whether one member may go from one version to another on its data.
pub fn step(from: Version, to: Version) -> Result<(), String> {
    let refused = |why: &str| Err(format!("version {to} must not follow {from}: {why}"));
    if to < from {
        return refused("a downgrade is not done by editing the version; restore a backup, or go forward");
    }
    match (from.line(), to.line()) {
        (a, b) if a == b => Ok(()),
        (Minor(a, x), Minor(b, y)) if a == b && y == x + 1 => match (y, from) {
            (6, from) if from < FLOOR_FOR_3_6 => refused("upgrade to 3.5.26 or later first"),
            (7, from) if from < FLOOR_FOR_3_7 => refused("upgrade to 3.6.11 or later first"),
            _ => Ok(()),
        },
        (_, _) => refused("etcd is upgraded one minor version at a time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_go_forward_one_minor_at_a_time_and_only_from_safe_patches() {
        let v = |text: &str| text.parse::<Version>().unwrap();
        for (from, to, allowed) in [
            ("3.6.1", "3.6.16", true),
            ("3.6.16", "3.6.1", false),
            ("3.5.35", "3.6.16", true),
            ("3.5.25", "3.6.16", false),
            ("3.6.10", "3.7.3", false),
            ("3.6.11", "3.7.3", true),
            ("3.5.35", "3.7.3", false),
            ("3.7.3", "3.6.16", false),
        ] {
            assert_eq!(step(v(from), v(to)).is_ok(), allowed, "{from} to {to}");
        }
    }
}
