//! Whether the version in the spec is refused, and whether the one that runs is known to be unsound.

use quorate_api::Reason;
use quorate_model::{MemberName, Version, Waiting};

use super::Finding;
use crate::picture::Picture;
use crate::waiting::explain;

pub(super) fn blocked(picture: &Picture<'_>) -> Finding {
    let refused = picture.waits(|waiting| {
        matches!(waiting, Waiting::VersionRefused(_) | Waiting::UpgradeBackupFailed(_))
            .then(|| explain(waiting))
    });
    if let Some(why) = refused {
        return Finding::yes(why.reason(), why.message());
    }
    let unsound = |(name, version): (&MemberName, Version)| {
        let why = version.why_unsound()?;
        Some(format!("{name} runs {version}: {why}. Upgrade to the latest patch of {}", version.line()))
    };
    let mut versions =
        picture.record.members.iter().filter_map(|(name, member)| Some((name, member.version?)));
    match versions.find_map(unsound) {
        Some(text) => Finding::no(Reason::KnownCorruptVersion, text),
        None => Finding::no(Reason::Reconciled, "no version is refused"),
    }
}
