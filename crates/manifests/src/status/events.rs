//! Events: what changed from one status to the next, told once.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use quorate_api::status::{EtcdClusterStatus, MemberPhase, MemberStatus, Phase};
use quorate_api::{ConditionType, Reason};

/// An event on the EtcdCluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventText {
    /// It is not as it should be: type Warning instead of Normal.
    pub warning: bool,
    /// One word.
    pub reason: String,
    /// What happened, for people.
    pub message: String,
}

/// What there is to tell when one status follows another.
pub fn events(before: &EtcdClusterStatus, after: &EtcdClusterStatus) -> Vec<EventText> {
    let conditions = ConditionType::ALL.into_iter().filter_map(|type_| {
        let find = |status: &EtcdClusterStatus| {
            status.conditions.iter().find(|condition| condition.type_ == type_.as_str()).cloned()
        };
        of_condition(type_, find(before).as_ref(), &find(after)?)
    });
    let stopped = after.hibernating || after.phase == Some(Phase::Deleting);
    let members = after.members.iter().flat_map(|member| {
        let before = before.members.iter().find(|before| before.name == member.name);
        of_member(before, member, stopped)
    });
    let gone =
        before.members.iter().filter(|member| after.members.iter().all(|after| after.name != member.name));
    let gone = gone.map(|member| normal("MemberGone", format!("{} is gone", member.name)));
    let mut told = Vec::new();
    for event in conditions.chain(members).chain(gone) {
        if !told.contains(&event) {
            told.push(event);
        }
    }
    told
}

/// A condition speaks up when it turns. Of one that says what is wrong, also a new reason is news.
fn of_condition(type_: ConditionType, before: Option<&Condition>, after: &Condition) -> Option<EventText> {
    let turned = before.is_none_or(|before| before.status != after.status);
    let news = turned || before.is_some_and(|before| before.reason != after.reason);
    let (first, holds) = (before.is_none(), after.status == "True");
    let fails = after.status == "False";
    let warning = match type_ {
        ConditionType::Progressing if news && is_told(after) => is_reason_to_worry(after),
        ConditionType::Degraded if news && holds && !is(after, Reason::MembersMissing) => true,
        ConditionType::Degraded if turned && fails && !first => false,
        ConditionType::QuorumAvailable if news && fails && is(after, Reason::QuorumLost) => true,
        ConditionType::Available | ConditionType::Bootstrapped if turned && holds => false,
        ConditionType::UpToDate
            if news && (is(after, Reason::SpecInvalid) || is(after, Reason::VersionRefused)) =>
        {
            true
        }
        ConditionType::SplitBrain | ConditionType::ExistingData if turned && holds => true,
        ConditionType::Available
        | ConditionType::Progressing
        | ConditionType::Degraded
        | ConditionType::QuorumAvailable
        | ConditionType::Bootstrapped
        | ConditionType::UpToDate
        | ConditionType::TlsReady
        | ConditionType::SplitBrain
        | ConditionType::ExistingData => return None,
    };
    let reason = if type_ == ConditionType::Available { type_.as_str() } else { after.reason.as_str() };
    Some(EventText { warning, reason: reason.to_owned(), message: after.message.clone() })
}

fn is(condition: &Condition, reason: Reason) -> bool {
    condition.reason == reason.as_str()
}

/// What another condition tells in the same words is not told twice.
fn is_told(progressing: &Condition) -> bool {
    let elsewhere = [
        Reason::QuorumLost,
        Reason::SplitBrain,
        Reason::ExistingData,
        Reason::MemberUnhealthy,
        Reason::SpecInvalid,
        Reason::VersionRefused,
    ];
    !elsewhere.into_iter().any(|reason| is(progressing, reason))
}

fn is_reason_to_worry(progressing: &Condition) -> bool {
    let worries = [
        Reason::ForeignObjects,
        Reason::UnknownMember,
        Reason::VolumeLost,
        Reason::PodStuck,
        Reason::AttemptAbandoned,
    ];
    worries.into_iter().any(|reason| is(progressing, reason))
}

fn of_member(before: Option<&MemberStatus>, after: &MemberStatus, stopped: bool) -> Vec<EventText> {
    let name = &after.name;
    let mut events = Vec::new();
    if before.map(|before| before.phase) != Some(after.phase) {
        events.extend(match after.phase {
            MemberPhase::Seed => None,
            MemberPhase::Joining => Some(normal("MemberJoining", format!("{name} joins as a learner"))),
            // A seed that is latched as a voter is told by the founding of the cluster.
            MemberPhase::Voter => before
                .filter(|before| before.phase == MemberPhase::Joining)
                .map(|_| normal("MemberPromoted", format!("{name} is a voter"))),
            MemberPhase::Leaving => Some(normal("MemberLeaving", format!("{name} leaves"))),
        });
    }
    let was_voter = before.is_some_and(|before| before.phase == MemberPhase::Voter);
    let was_healthy = before.is_some_and(|before| before.healthy);
    let why = after.reason.as_deref().unwrap_or("it does not answer");
    if was_voter && after.phase == MemberPhase::Voter {
        match (was_healthy, after.healthy) {
            // It is meant to be stopped.
            (true, false) if stopped => {}
            (true, false) => {
                let message = format!("{name}: {why}");
                events.push(EventText { warning: true, reason: "MemberUnhealthy".to_owned(), message });
            }
            (false, true) => events.push(normal("MemberHealthy", format!("{name} is healthy"))),
            (true, true) | (false, false) => {}
        }
    }
    events
}

fn normal(reason: &str, message: String) -> EventText {
    EventText { warning: false, reason: reason.to_owned(), message }
}
