//! Which version may follow which. etcd is upgraded one minor version at a time. Patches of one minor version follow each other in both
//! directions, a half-done upgrade may be taken back, and a finished one by `downgrade`.

use quorate_model::effect::{NoStep, SafePoint, VersionRefused};
use quorate_model::record::Stage;
use quorate_model::{MemberName, Minor, Version, Waiting};

use crate::draft::Draft;
use crate::{View, safety};

/// Why a version is refused for a new cluster or an edit, if it is unsound, or nothing is known of its minor version.
pub(crate) fn may_be_chosen(version: Version) -> Result<(), VersionRefused> {
    if version.line().known().is_none() {
        return Err(VersionRefused::Unknown(version));
    }
    version.why_unsound().map_or(Ok(()), |_| Err(VersionRefused::Unsound(version)))
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
    /// It cannot follow.
    Refused(VersionRefused),
    /// etcd's downgrade prepares the data for it first.
    Downgrading,
    /// The minor upgrade before it is not finished: every member runs its version, and the data do not belong to it yet.
    Unfinished(SafePoint),
}

/// Whether the desired version may follow the version of every member's data, and where that is not known, the committed one.
pub(crate) fn permits(view: View<'_>, desired: Version) -> Result<VersionStep, NotNow> {
    let View { seen, record, now } = view;
    let Some(committed) = record.target.as_ref().map(|target| target.version) else {
        return Ok(VersionStep::Forward);
    };
    if committed == desired {
        return Ok(VersionStep::Forward);
    }
    may_be_chosen(desired).map_err(NotNow::Refused)?;
    let has_data = |stage| matches!(stage, Stage::Voter | Stage::Leaving(_));
    let with_data = record.members.iter().filter(|(_, member)| has_data(member.stage));
    let versions: Vec<Version> =
        with_data.map(|(name, _)| seen.version_of(record, name, now).unwrap_or(committed)).collect();
    let line = desired.line();
    if versions.iter().all(|version| version.line() <= line) {
        if let Some(why) = unfinished(view, line) {
            return Err(NotNow::Unfinished(why));
        }
        let adopted = record.adopted_by.is_some();
        let judged = versions.into_iter().try_for_each(|from| step(from, desired, adopted));
        return judged.map(|()| VersionStep::Forward).map_err(NotNow::Refused);
    }
    let is_under_way = record.downgrading_to == Some(line) && committed.line() == line;
    let is_ordered = is_ordered(view) == Some(line);
    let has_gone_back = is_ordered && safety::data_have_gone_back(view, line);
    if is_under_way || has_gone_back || safety::is_half_done(view, line) {
        return Ok(VersionStep::Back(line));
    }
    if is_ordered {
        return Err(NotNow::Downgrading);
    }
    let highest = versions.into_iter().max().unwrap_or(committed);
    step(highest, desired, false).map_err(NotNow::Refused)?;
    Err(NotNow::Refused(VersionRefused::NoStep { from: highest, to: desired, why: NoStep::Data }))
}

/// etcd's leader raises the cluster version some seconds after the last member runs a newer minor version. A binary of the minor version
/// after that does not start before.
fn unfinished(view: View<'_>, line: Minor) -> Option<SafePoint> {
    let mut statuses = view.record.voters().filter_map(|voter| Some((voter, view.status_of(voter)?)));
    statuses.find_map(|(voter, status)| {
        let (runs, data) = (status.version.line(), status.storage_version?);
        (runs < line && data < runs).then(|| SafePoint::Unfinished { voter: voter.clone(), runs, data })
    })
}

/// The minor version that a person has ordered a finished upgrade to be taken back to. A version that is far below, or unsound, is
/// refused.
pub(crate) fn is_ordered(view: View<'_>) -> Option<Minor> {
    let committed = view.record.target.as_ref()?.version.line();
    let desired = view.seen.desired.version;
    let Minor(major, minor) = desired.line();
    let is_next_lower = committed == Minor(major, minor + 1) && committed.goes_back();
    let is_allowed = view.seen.allow_downgrade == Some(desired) && desired.why_unsound().is_none();
    (is_next_lower && is_allowed).then_some(desired.line())
}

/// Refuses what the data of a member do not allow: an edit that was reverted too late, when the newer minor version had already run
/// on the data of all members.
pub(crate) fn goes_back(draft: &Draft<'_>, member: &MemberName) -> Option<Waiting> {
    let judged = safety::data_allow(draft.view(), member);
    judged.err().map(|why| Waiting::VersionRefused(VersionRefused::Unsafe(why)))
}

/// Whether one member may go from one version to another on its data, by what the versions alone say. `adopted`: the data were not
/// written under this operator.
pub fn step(from: Version, to: Version, adopted: bool) -> Result<(), VersionRefused> {
    let refused = |why| Err(VersionRefused::NoStep { from, to, why });
    match (from.line(), to.line()) {
        (a, b) if a == b => Ok(()),
        (Minor(a, x), Minor(b, y)) if a == b && y == x + 1 => {
            let known = to.line().known();
            let floor =
                known.and_then(|to| if adopted { to.upgraded_from_adopted } else { to.upgraded_from });
            match floor {
                Some(floor) if from < floor => refused(NoStep::PatchFirst(floor)),
                Some(_) => Ok(()),
                None => refused(NoStep::NotKnown),
            }
        }
        (Minor(a, x), Minor(b, y)) if a == b && x == y + 1 && from.line().goes_back() => {
            refused(NoStep::Finished)
        }
        (from, to) if to < from => refused(NoStep::TooFarBack),
        (_, _) => refused(NoStep::TooFar),
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
        let (from, to) = (v("3.5.31"), v("3.6.16"));
        let why = NoStep::PatchFirst(v("3.5.32"));
        assert_eq!(step(from, to, true), Err(VersionRefused::NoStep { from, to, why }));
        assert!(step(v("3.5.32"), v("3.6.16"), true).is_ok());
    }

    #[test]
    fn h36_a_minor_version_that_this_operator_does_not_know_is_refused_with_those_that_it_knows() {
        for unknown in ["3.4.35", "3.8.0", "4.0.0"] {
            assert_eq!(may_be_chosen(v(unknown)), Err(VersionRefused::Unknown(v(unknown))));
        }
    }

    #[test]
    fn h37_versions_that_corrupt_data_are_refused_with_their_source() {
        for (version, source) in
            [("3.5.0", "13766"), ("3.5.2", "13766"), ("3.5.3", "14685"), ("3.5.5", "14685")]
        {
            assert_eq!(may_be_chosen(v(version)), Err(VersionRefused::Unsound(v(version))));
            assert!(v(version).why_unsound().is_some_and(|why| why.contains(source)), "{version}");
        }
        for sound in ["3.5.6", "3.5.35", "3.6.0", "3.7.3"] {
            assert_eq!(v(sound).why_unsound(), None, "{sound}");
        }
    }
}
