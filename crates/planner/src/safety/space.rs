//! Alarms: when they may be disarmed. An alarm is all that keeps etcd from writing on with data that differ, or into a database
//! that is full.

use quorate_model::snapshot::{Alarm, AlarmKind, SPACE_REGAINED_PERCENT};

use super::{Judged, Scene, Unsafe, all_voters_healthy, forbid, fresh_list};
use quorate_model::MemberId;

/// N3. NOSPACE: when every member has room again. CORRUPT: when its member is gone, and all that are left are healthy.
pub(super) fn may_disarm(scene: &Scene<'_>, alarm: Alarm) -> Judged {
    let (seen, record, now) = (scene.seen, scene.record, scene.now);
    fresh_list(seen, now)?;
    let is_gone = alarm.member != MemberId(0) && !seen.is_listed(alarm.member, now);
    match alarm.kind {
        AlarmKind::NoSpace => {
            // etcd 3.5 lifts every refusal of writes with the last alarm of either kind (`applierV3backend.Alarm`).
            let any_corrupt = seen.alarms(now).iter().any(|other| other.kind == AlarmKind::Corrupt);
            let percent = if is_gone { 100 } else { SPACE_REGAINED_PERCENT };
            let has_room = seen.is_below_quota(record, percent, now);
            if any_corrupt || seen.has_unnamed_alarm(now) || !has_room {
                forbid(Unsafe::AlarmHolds(alarm))?;
            }
            Ok(())
        }
        AlarmKind::Corrupt => {
            if !is_gone {
                forbid(Unsafe::AlarmHolds(alarm))?;
            }
            all_voters_healthy(seen, record, now, None)
        }
    }
}
