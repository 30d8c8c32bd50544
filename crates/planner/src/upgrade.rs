//! Which version may follow which. etcd is upgraded one minor version at a time. Patches of one minor version follow each other in both
//! directions, a half-done upgrade may be taken back, and a finished one by `downgrade`.

use quorate_model::record::Stage;
use quorate_model::{Instant, MemberName, Minor, Record, Snapshot, Version, Waiting};

use crate::draft::Draft;
use crate::safety;

/// The version to use instead of an unsound one.
const SOUND: Version = Version::new(3, 5, 32);

/// Why a version is refused for a new cluster or an edit, if it is unsound, or nothing is known of its minor version.
pub(crate) fn may_be_chosen(version: Version) -> Result<(), String> {
    if let Some(why) = version.why_unknown() {
        return Err(format!(
            "version {version} is refused: {why}. Use one of these, or a newer release of the operator"
        ));
    }
    match version.why_unsound() {
        None => Ok(()),
        Some(why) => Err(format!("version {version} is refused: {why}. Use {SOUND} or later")),
    }
}

/// How a version may be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionStep {
    /// The data of every member allow it, or members go forward.
    Forward,
    /// Members that ran the next minor version go back to this one.
    Back(Minor),
}

/// Why a version is not committed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotNow {
    /// It cannot follow; the reason, for people.
    Refused(String),
    /// etcd's downgrade prepares the data for it first.
    Downgrading,
    /// The minor upgrade before it is not finished: every member runs its version, and the data do not belong to it yet.
    Unfinished(String),
}

/// Whether the desired version may follow the version of every member's data, and where that is not known, the committed one.
pub fn permits(
    seen: &Snapshot,
    record: &Record,
    now: Instant,
    desired: Version,
) -> Result<VersionStep, NotNow> {
    let Some(committed) = record.target.as_ref().map(|target| target.version) else {
        return Ok(VersionStep::Forward);
    };
    if committed == desired {
        return Ok(VersionStep::Forward);
    }
    may_be_chosen(desired).map_err(NotNow::Refused)?;
    let with_data = record.members.iter().filter(|(_, member)| match member.stage {
        Stage::Voter | Stage::Leaving(_) => true,
        Stage::Bootstrap | Stage::Joining => false,
    });
    let versions: Vec<Version> =
        with_data.map(|(name, _)| seen.version_of(record, name, now).unwrap_or(committed)).collect();
    let line = desired.line();
    if versions.iter().all(|version| version.line() <= line) {
        if let Some(why) = unfinished(seen, record, now, line) {
            return Err(NotNow::Unfinished(why));
        }
        let adopted = record.adopted_by.is_some();
        let mut from = versions.into_iter();
        return from
            .try_for_each(|from| step(from, desired, adopted))
            .map(|()| VersionStep::Forward)
            .map_err(NotNow::Refused);
    }
    let is_under_way = record.downgrading_to == Some(line) && committed.line() == line;
    let is_ordered = is_ordered(seen, record) == Some(line);
    let has_gone_back = is_ordered && safety::data_have_gone_back(seen, record, now, line);
    if is_under_way || has_gone_back || safety::is_half_done(seen, record, now, line) {
        return Ok(VersionStep::Back(line));
    }
    if is_ordered {
        return Err(NotNow::Downgrading);
    }
    let highest = versions.into_iter().max().unwrap_or(committed);
    let why = match step(highest, desired, false) {
        Err(why) => why,
        Ok(()) => format!("version {desired} must not follow {highest}"),
    };
    Err(NotNow::Refused(why))
}

/// etcd's leader raises the cluster version some seconds after the last member runs a newer minor version. A binary of the minor version
/// after that does not start before.
fn unfinished(seen: &Snapshot, record: &Record, now: Instant, line: Minor) -> Option<String> {
    let mut statuses = record.voters().filter_map(|voter| Some((voter, seen.status_of(voter, now)?)));
    statuses.find_map(|(voter, status)| {
        let (runs, data) = (status.version.line(), status.storage_version?);
        (runs < line && data < runs).then(|| {
            format!(
                "{voter} runs etcd {runs}, and its data are still those of {data}. The next minor version is committed once etcd \
                 has raised the cluster version, some seconds after every member runs {runs}"
            )
        })
    })
}

/// The minor version that a person has ordered a finished upgrade to be taken back to. A version that is far below, or unsound, is
/// refused.
pub(crate) fn is_ordered(seen: &Snapshot, record: &Record) -> Option<Minor> {
    let committed = record.target.as_ref()?.version.line();
    let desired = seen.desired.version;
    let Minor(major, minor) = desired.line();
    let is_next_lower = committed == Minor(major, minor + 1) && committed.goes_back();
    let is_allowed = seen.allow_downgrade == Some(desired) && desired.why_unsound().is_none();
    (is_next_lower && is_allowed).then_some(desired.line())
}

/// Refuses what the data of a member do not allow: an edit that was reverted too late, when the newer minor version had already run
/// on the data of all members.
pub(crate) fn goes_back(draft: &Draft<'_>, member: &MemberName) -> Option<Waiting> {
    let judged = safety::data_allow(draft.seen, &draft.record, draft.now, member);
    judged.err().map(|why| Waiting::VersionRefused(why.to_string()))
}

/// Whether one member may go from one version to another on its data, by what the versions alone say. `adopted`: the data were not
/// written under this operator.
pub fn step(from: Version, to: Version, adopted: bool) -> Result<(), String> {
    let refused = |why: String| Err(format!("version {to} must not follow {from}: {why}"));
    match (from.line(), to.line()) {
        (a, b) if a == b => Ok(()),
        (Minor(a, x), Minor(b, y)) if a == b && y == x + 1 => {
            let known = to.line().known();
            let floor =
                known.and_then(|to| if adopted { to.upgraded_from_adopted } else { to.upgraded_from });
            match floor {
                Some(floor) if from < floor => refused(format!("upgrade to {floor} or later first")),
                Some(_) => Ok(()),
                None => refused("this release of the operator does not know that upgrade".to_owned()),
            }
        }
        (Minor(a, x), Minor(b, y)) if a == b && x == y + 1 && from.line().goes_back() => refused(format!(
            "the upgrade to {} is finished. To take it back, set the annotation operator.etcd.io/allow-downgrade to {to}",
            from.line()
        )),
        (from, to) if to < from => refused(
            "etcd goes back one minor version at a time, and not below 3.5. Restore a backup, or go forward"
                .to_owned(),
        ),
        (_, _) => refused("etcd is upgraded one minor version at a time".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_go_forward_one_minor_at_a_time_and_only_from_safe_patches() {
        for (from, to, allowed) in [
            ("3.6.1", "3.6.16", true),
            ("3.6.16", "3.6.1", true),
            ("3.5.35", "3.6.16", true),
            ("3.5.25", "3.6.16", false),
            ("3.6.10", "3.7.3", false),
            ("3.6.11", "3.7.3", true),
            ("3.5.35", "3.7.3", false),
            ("3.7.3", "3.6.16", false),
            // Nobody has tried it with this operator.
            ("3.7.3", "3.8.0", false),
        ] {
            assert_eq!(step(v(from), v(to), false).is_ok(), allowed, "{from} to {to}");
        }
    }

    #[test]
    fn h33_data_that_others_wrote_go_to_3_6_from_a_later_patch_only() {
        assert!(step(v("3.5.31"), v("3.6.16"), false).is_ok());
        assert!(step(v("3.5.31"), v("3.6.16"), true).unwrap_err().contains("3.5.32"));
        assert!(step(v("3.5.32"), v("3.6.16"), true).is_ok());
    }

    #[test]
    fn h36_a_minor_version_that_this_operator_does_not_know_is_refused_with_those_that_it_knows() {
        for unknown in ["3.4.35", "3.8.0", "4.0.0"] {
            let why = may_be_chosen(v(unknown)).unwrap_err();
            assert!(why.contains("knows etcd 3.5, 3.6, 3.7"), "{why}");
        }
    }

    #[test]
    fn h37_versions_that_corrupt_data_are_refused_with_their_source() {
        for (version, source) in
            [("3.5.0", "13766"), ("3.5.2", "13766"), ("3.5.3", "14685"), ("3.5.5", "14685")]
        {
            assert!(may_be_chosen(v(version)).unwrap_err().contains(source), "{version}");
        }
        for sound in ["3.5.6", "3.5.35", "3.6.0", "3.7.3"] {
            assert_eq!(v(sound).why_unsound(), None, "{sound}");
        }
    }
}
