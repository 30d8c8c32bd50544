//! How old a snapshot is. Who restores an old one by mistake sees it before the present data are given up, and afterwards.

use quorate_api::Explanation;
use quorate_api::restore::{EtcdRestoreStatus, RestorePhase};
use quorate_model::{Instant, Span};

use super::decide::Seen;
use crate::time::timestamp;

const DAY: Span = Span::seconds(24 * 3600);

/// The explanation, with the age of the snapshot where that is a day or more. It counts to the creation of the order, so that the message
/// stays the same.
pub(super) fn told(
    seen: &Seen<'_>,
    status: &EtcdRestoreStatus,
    phase: RestorePhase,
    why: Explanation,
) -> Explanation {
    match phase {
        RestorePhase::Failed => return why,
        RestorePhase::Pending | RestorePhase::Running | RestorePhase::Complete => {}
    }
    let Some((taken, age)) = of(seen, status).filter(|(_, age)| *age >= DAY) else { return why };
    let (days, text) = (age.0 / DAY.0, why.message().trim_end_matches('.'));
    let days = if days == 1 { "a day".to_owned() } else { format!("{days} days") };
    let text = format!(
        "{text}. The snapshot is of {}, {days} before this EtcdRestore was created: what was written since is not in it",
        timestamp(taken)
    );
    Explanation::new(why.reason(), text)
}

/// When the snapshot was begun, as its manifest or its EtcdBackup has it, and how long that was before the order.
fn of(seen: &Seen<'_>, status: &EtcdRestoreStatus) -> Option<(Instant, Span)> {
    let read = status.snapshot.as_ref().and_then(|snapshot| snapshot.taken.as_ref());
    let recorded = || seen.backup?.status.as_ref()?.result.as_ref()?.started.as_ref();
    let taken = Instant(read.or_else(recorded)?.0.as_millisecond());
    let ordered = Instant(seen.restore.metadata.creation_timestamp.as_ref()?.0.as_millisecond());
    Some((taken, ordered - taken))
}
