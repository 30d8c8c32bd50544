//! The recorded facts about the replacement of members. A value that only a newer operator knows counts as not recorded.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use quorate_api::status::{
    EtcdClusterStatus, LossCause, RecoveryResult, RecoveryStatus, ReplacementStatus, SuspectedLoss,
};
use quorate_model::record::{Loss, Replaced, Replacement, ReplacementEnd, Suspicion};
use quorate_model::{GuardVerdict, Instant, MemberName, Uid};

use super::{micro, timestamp};

pub(super) fn suspected(status: &EtcdClusterStatus) -> BTreeMap<MemberName, Suspicion> {
    let members = status.members.iter();
    let suspected = members.filter_map(|member| {
        let SuspectedLoss { cause, since, rechecked_pod_uid } = member.suspected.as_ref()?;
        let suspicion = Suspicion {
            loss: read_loss(*cause)?,
            since: Instant(since.0.as_millisecond()),
            rechecked: rechecked_pod_uid.as_deref().map(Uid::new),
        };
        Some((MemberName::new(&*member.name), suspicion))
    });
    suspected.collect()
}

pub(super) fn replacement(status: &EtcdClusterStatus) -> Option<Replacement> {
    let ReplacementStatus { member, cause, since, in_place } = status.recovery.as_ref()?.active.as_ref()?;
    Some(Replacement {
        member: MemberName::new(&**member),
        loss: read_loss(*cause)?,
        since: Instant(since.0.as_millisecond()),
        in_place: *in_place,
    })
}

pub(super) fn last(status: &EtcdClusterStatus) -> Option<Replaced> {
    let recovery = status.recovery.as_ref()?;
    Some(Replaced {
        member: MemberName::new(recovery.last_recovered_member.as_deref()?),
        end: match recovery.last_result? {
            RecoveryResult::Succeeded => ReplacementEnd::Succeeded,
            RecoveryResult::Withdrawn => ReplacementEnd::Withdrawn,
            RecoveryResult::Unknown => return None,
        },
        message: recovery.message.clone(),
        at: Instant(recovery.last_transition_time.as_ref()?.0.as_millisecond()),
    })
}

pub(super) fn write(replacement: Option<&Replacement>, last: Option<&Replaced>) -> Option<RecoveryStatus> {
    let active = replacement.map(|active| ReplacementStatus {
        member: active.member.as_str().to_owned(),
        cause: write_loss(active.loss),
        since: micro(active.since),
        in_place: active.in_place,
    });
    let mut recovery = RecoveryStatus { active, ..RecoveryStatus::default() };
    if let Some(Replaced { member, end, message, at }) = last {
        recovery.last_result = Some(match end {
            ReplacementEnd::Succeeded => RecoveryResult::Succeeded,
            ReplacementEnd::Withdrawn => RecoveryResult::Withdrawn,
        });
        recovery.last_recovered_member = Some(member.as_str().to_owned());
        recovery.last_transition_time = Some(Time(timestamp(*at)));
        recovery.message.clone_from(message);
    }
    (recovery != RecoveryStatus::default()).then_some(recovery)
}

pub(super) fn write_suspected(suspicion: &Suspicion) -> SuspectedLoss {
    SuspectedLoss {
        cause: write_loss(suspicion.loss),
        since: micro(suspicion.since),
        rechecked_pod_uid: suspicion.rechecked.as_ref().map(ToString::to_string),
    }
}

fn read_loss(cause: LossCause) -> Option<Loss> {
    Some(match cause {
        LossCause::DataMissing => Loss::Refused(GuardVerdict::DataMissing),
        LossCause::ForeignData => Loss::Refused(GuardVerdict::ForeignData),
        LossCause::ForeignIdentity => Loss::Refused(GuardVerdict::ForeignIdentity),
        LossCause::CorruptData => Loss::Refused(GuardVerdict::CorruptData),
        LossCause::VolumeGone => Loss::VolumeGone,
        LossCause::ClaimTerminating => Loss::ClaimTerminating,
        LossCause::NodeGone => Loss::NodeGone,
        LossCause::Inconsistent => Loss::Inconsistent,
        LossCause::Ordered => Loss::Ordered,
        LossCause::InMemory => Loss::Memory,
        LossCause::NeverStarted => Loss::NeverStarted,
        LossCause::Unknown => return None,
    })
}

fn write_loss(loss: Loss) -> LossCause {
    match loss {
        Loss::Refused(GuardVerdict::ForeignData) => LossCause::ForeignData,
        Loss::Refused(GuardVerdict::ForeignIdentity) => LossCause::ForeignIdentity,
        Loss::Refused(GuardVerdict::CorruptData) => LossCause::CorruptData,
        // The others are no loss.
        Loss::Refused(
            GuardVerdict::DataMissing
            | GuardVerdict::Fit
            | GuardVerdict::NotWritable
            | GuardVerdict::DiskFull
            | GuardVerdict::DataTooNew,
        ) => LossCause::DataMissing,
        Loss::VolumeGone => LossCause::VolumeGone,
        Loss::ClaimTerminating => LossCause::ClaimTerminating,
        Loss::NodeGone => LossCause::NodeGone,
        Loss::Inconsistent => LossCause::Inconsistent,
        Loss::Ordered => LossCause::Ordered,
        Loss::Memory => LossCause::InMemory,
        Loss::NeverStarted => LossCause::NeverStarted,
    }
}
