//! Events: what changed from one status to the next, each reported once.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use quorate_api::status::{
    AgentDeliveryStatus, EtcdClusterStatus, MemberPhase, MemberStatus, Phase, QuarantinedVolume,
    RecoveryResult,
};
use quorate_api::{ConditionType, Explanation, Reason, conditions};

/// An event on the EtcdCluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventText {
    /// Something is wrong: type Warning instead of Normal.
    pub warning: bool,
    /// What happened.
    pub what: Explanation,
}

impl EventText {
    /// An event of type Warning.
    pub fn warning(what: Explanation) -> Self {
        Self { warning: true, what }
    }

    fn normal(reason: Reason, message: String) -> Self {
        Self { warning: false, what: Explanation::new(reason, message) }
    }
}

/// The events of the change from one status to another.
pub fn events(before: &EtcdClusterStatus, after: &EtcdClusterStatus) -> Vec<EventText> {
    let conditions = ConditionType::ALL.into_iter().filter_map(|type_| {
        let [before, after] =
            [before, after].map(|status| conditions::find(&status.conditions, type_.as_str()));
        of_condition(type_, before, after?)
    });
    let stopped = after.hibernating || after.phase == Some(Phase::Deleting);
    let members = after.members.iter().flat_map(|member| {
        let before = before.members.iter().find(|before| before.name == member.name);
        of_member(before, member, stopped)
    });
    let gone =
        before.members.iter().filter(|member| after.members.iter().all(|after| after.name != member.name));
    let gone =
        gone.map(|member| EventText::normal(Reason::MemberRemoved, format!("{} is removed", member.name)));
    let known = |name: &str| before.quarantined_volumes.iter().any(|before| before.name == name);
    let kept = after.quarantined_volumes.iter().filter(|volume| !known(&volume.name)).map(quarantined);
    let delivery = after.agent_delivery.as_ref().filter(|_| before.agent_delivery.is_none()).map(falls_back);
    let mut news = Vec::new();
    let recovered = recovered(before, after);
    let others = delivery.into_iter().chain(recovered);
    for event in conditions.chain(members).chain(gone).chain(kept).chain(others) {
        if !news.contains(&event) {
            news.push(event);
        }
    }
    news
}

/// How a replacement ended.
fn recovered(before: &EtcdClusterStatus, after: &EtcdClusterStatus) -> Option<EventText> {
    let last = |status: &EtcdClusterStatus| {
        status.recovery.as_ref().map(|recovery| (recovery.last_result, recovery.message.clone()))
    };
    let recovery = after.recovery.as_ref().filter(|_| last(before) != last(after))?;
    let message = recovery.message.clone();
    match recovery.last_result? {
        RecoveryResult::Succeeded | RecoveryResult::Withdrawn => {
            Some(EventText::normal(Reason::MemberReplaced, message))
        }
        RecoveryResult::Unknown => None,
    }
}

fn falls_back(delivery: &AgentDeliveryStatus) -> EventText {
    let message = format!(
        "an init container brings the agent into Pods of this cluster from now on: {}",
        delivery.reason
    );
    EventText::normal(Reason::ImageVolumeFailed, message)
}

fn quarantined(volume: &QuarantinedVolume) -> EventText {
    let QuarantinedVolume { name, kept_until, reason, .. } = volume;
    let until = match kept_until {
        Some(Time(at)) => format!("until {at}"),
        None => "until a person deletes it".to_owned(),
    };
    let message = format!(
        "PersistentVolumeClaim {name} of a former member is kept {until} and never used again ({reason}). If the \
         members that are left lack data, copy them from it; otherwise delete it"
    );
    EventText::warning(Explanation::new(Reason::VolumeQuarantined, message))
}

/// A condition is reported when its status changes. A condition that reports what is wrong, also when its reason changes.
fn of_condition(type_: ConditionType, before: Option<&Condition>, after: &Condition) -> Option<EventText> {
    let turned = before.is_none_or(|before| before.status != after.status);
    let news = turned || before.is_some_and(|before| before.reason != after.reason);
    let first = before.is_none();
    let (holds, fails) = match conditions::holds(after) {
        Some(holds) => (holds, !holds),
        None => (false, false),
    };
    let warning = match type_ {
        ConditionType::Progressing if news && !is_reported_elsewhere(after) => is_reason_to_worry(after),
        ConditionType::Degraded if news && holds && !is(after, Reason::MembersMissing) => true,
        ConditionType::Degraded if turned && fails && !first => false,
        ConditionType::QuorumAvailable if news && fails && is(after, Reason::QuorumLost) => true,
        ConditionType::Available | ConditionType::Bootstrapped if turned && holds => false,
        ConditionType::Available if turned && !first && is_refused(after) => true,
        ConditionType::UpToDate
            if news && (is(after, Reason::SpecInvalid) || is(after, Reason::VersionRefused)) =>
        {
            true
        }
        ConditionType::SplitBrain
        | ConditionType::ExistingData
        | ConditionType::SingleMemberRecoveryActive
            if turned && holds =>
        {
            true
        }
        ConditionType::SingleMemberRecoveryActive if news && !is(after, Reason::NoReplacement) => true,
        ConditionType::TlsReady if news && is_certificate_trouble(after) => true,
        ConditionType::TlsReady if is_another_moment(before, after) => true,
        ConditionType::TlsReady if news && is(after, Reason::RotatingAuthority) => false,
        ConditionType::UpToDate if news && is(after, Reason::Downgrading) => false,
        ConditionType::VersionUpgradeBlocked if news && is(after, Reason::KnownCorruptVersion) => true,
        ConditionType::VersionUpgradeBlocked if news && is(after, Reason::UpgradeBackupFailed) => true,
        ConditionType::AuthReady
            if news
                && (is(after, Reason::NotOurs)
                    || is(after, Reason::UsersWithoutEtcdUser)
                    || is(after, Reason::ClientsHaveTime)) =>
        {
            true
        }
        ConditionType::AuthReady if turned && (holds || !first) => false,
        ConditionType::AuthReady if news && is(after, Reason::AuthStaysOn) => true,
        ConditionType::DataStoreReady | ConditionType::BackupHealthy if news && fails => true,
        ConditionType::DataStoreReady if turned && holds => false,
        ConditionType::BackupHealthy if turned && holds && !first => false,
        // They sum up what the others report.
        ConditionType::Ready
        | ConditionType::Stalled
        | ConditionType::Available
        | ConditionType::Progressing
        | ConditionType::Degraded
        | ConditionType::QuorumAvailable
        | ConditionType::Bootstrapped
        | ConditionType::UpToDate
        | ConditionType::TlsReady
        | ConditionType::AuthReady
        | ConditionType::DataStoreReady
        | ConditionType::SplitBrain
        | ConditionType::ExistingData
        | ConditionType::SingleMemberRecoveryActive
        | ConditionType::VersionUpgradeBlocked
        | ConditionType::BackupHealthy => return None,
    };
    // A reason of a newer operator is reported by the operator that knows it.
    Some(EventText { warning, what: conditions::explanation(after)? })
}

/// Clients are refused although a quorum answers, which QuorumAvailable does not report.
fn is_refused(available: &Condition) -> bool {
    is(available, Reason::NoEndpoint) || is(available, Reason::AlarmActive)
}

/// Clients are cut off at a moment that was not told of before. Its message has the moment, and stays the same until the last day.
fn is_another_moment(before: Option<&Condition>, ready: &Condition) -> bool {
    let is_told =
        before.is_some_and(|before| before.reason == ready.reason && before.message == ready.message);
    (is(ready, Reason::ClientsMustFollow) || is(ready, Reason::ClientsCutOffSoon)) && !is_told
}

fn is_certificate_trouble(ready: &Condition) -> bool {
    let troubles = [
        Reason::CertificateExpiring,
        Reason::CertificateExpired,
        Reason::AuthorityLost,
        Reason::AuthorityRefused,
        Reason::RotationRefused,
        Reason::RotationHeldUp,
    ];
    troubles.into_iter().any(|reason| is(ready, reason))
}

fn is(condition: &Condition, reason: Reason) -> bool {
    condition.reason == reason.as_str()
}

/// Another condition reports it with the same message.
fn is_reported_elsewhere(progressing: &Condition) -> bool {
    let elsewhere = [
        Reason::QuorumLost,
        Reason::SplitBrain,
        Reason::ExistingData,
        Reason::MemberUnhealthy,
        Reason::SpecInvalid,
        Reason::VersionRefused,
        Reason::UpgradeBackupFailed,
        Reason::AuthorityLost,
        Reason::AuthorityRefused,
        Reason::RotationRefused,
        Reason::ClientsMustFollow,
        Reason::CertificateExpired,
        Reason::DataLost,
        Reason::ReplacementDisabled,
    ];
    elsewhere.into_iter().any(|reason| is(progressing, reason))
}

fn is_reason_to_worry(progressing: &Condition) -> bool {
    let worries = [
        Reason::DataInconsistent,
        Reason::ForeignObjects,
        Reason::MemberMismatch,
        Reason::UnmanagedMember,
        Reason::VolumeLost,
        Reason::PodStuck,
        Reason::BootstrapAbandoned,
        Reason::RestoreRefused,
        Reason::WriteRefused,
        Reason::EvictionBlocked,
        Reason::ApiUnavailable,
        Reason::StatusNotWritten,
        Reason::MembershipChangeRefused,
        Reason::StatusFromNewerVersion,
        Reason::RecordIncomplete,
        Reason::ClockDiffers,
        Reason::FinalBackupMissing,
    ];
    worries.into_iter().any(|reason| is(progressing, reason))
}

fn of_member(before: Option<&MemberStatus>, after: &MemberStatus, stopped: bool) -> Vec<EventText> {
    let name = &after.name;
    let mut events = Vec::new();
    if before.map(|before| before.phase) != Some(after.phase) {
        events.extend(match after.phase {
            MemberPhase::Bootstrap | MemberPhase::Unknown => None,
            MemberPhase::Joining => {
                Some(EventText::normal(Reason::MemberJoining, format!("{name} joins as a learner")))
            }
            // The Bootstrapped condition reports the first voters.
            MemberPhase::Voter => before
                .filter(|before| before.phase == MemberPhase::Joining)
                .map(|_| EventText::normal(Reason::MemberPromoted, format!("{name} is a voter"))),
            MemberPhase::Leaving => {
                Some(EventText::normal(Reason::MemberLeaving, format!("{name} is being removed")))
            }
        });
    }
    let was_voter = before.is_some_and(|before| before.phase == MemberPhase::Voter);
    let was_healthy = before.is_some_and(|before| before.healthy);
    let why = after.reason.as_deref().unwrap_or("it does not answer");
    if was_voter && after.phase == MemberPhase::Voter {
        match (was_healthy, after.healthy) {
            // It is stopped on purpose.
            (true, false) if stopped => {}
            (true, false) => {
                let what = Explanation::new(Reason::MemberUnhealthy, format!("{name}: {why}"));
                events.push(EventText::warning(what));
            }
            (false, true) => {
                events.push(EventText::normal(Reason::MemberHealthy, format!("{name} is healthy")));
            }
            (true, true) | (false, false) => {}
        }
    }
    events
}
