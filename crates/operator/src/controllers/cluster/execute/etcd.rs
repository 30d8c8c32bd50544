//! Calls that change etcd. Each goes to the member that the plan names, once, and is never repeated here.

use quorate_etcd::{CallError, MemberClient, Refusal};
use quorate_manifests::trouble;
use quorate_model::MemberName;

use super::{Scene, Stopped};
use crate::controllers::cluster::look::count;
use crate::runtime::pace::Outcome;

/// A call that changes etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Add,
    Promote,
    Remove,
    MoveLeader,
}

/// Why a call did not do what it was to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallFailed {
    /// Not sent: we do not lead, or not for long enough.
    #[error("not sent, because leadership is not certain")]
    NotLeading,
    /// There is no connection to the member that was to be asked.
    #[error("there is no connection to {0} any more")]
    ConnectError(MemberName),
    /// etcd's answer, or that there was none.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Makes one call at one member.
pub(super) async fn call<T>(
    scene: &Scene<'_>,
    call: Call,
    at: &MemberName,
    send: impl AsyncFnOnce(MemberClient) -> Result<T, CallError>,
) -> Result<(), CallFailed> {
    let client = scene.lines.open(at).ok_or_else(|| CallFailed::ConnectError(at.clone()))?;
    if !scene.shared.runtime.leadership.may_act() {
        scene.shared.runtime.metrics.dropped_write();
        return Err(CallFailed::NotLeading);
    }
    count(&scene.shared.metrics, call.as_label(), send(client).await)?;
    Ok(())
}

impl Call {
    fn as_label(self) -> &'static str {
        match self {
            Self::Add => "member_add",
            Self::Promote => "member_promote",
            Self::Remove => "member_remove",
            Self::MoveLeader => "move_leader",
        }
    }
}

impl CallFailed {
    /// For the metric.
    pub(super) fn as_label(&self) -> &'static str {
        match self {
            Self::NotLeading => "not_leading",
            Self::ConnectError(_) | Self::Call(CallError::Unreachable(_)) => "unreachable",
            Self::Call(CallError::Refused(..)) => "refused",
            Self::Call(CallError::Unknown(_)) => "unknown",
        }
    }

    /// How the pass ends with it.
    pub(super) fn into_stopped(self, what: &str) -> Stopped {
        let ended = match &self {
            Self::NotLeading
            | Self::ConnectError(_)
            | Self::Call(CallError::Unknown(_) | CallError::Unreachable(_)) => Outcome::Waiting,
            Self::Call(CallError::Refused(refusal, _)) => after(*refusal),
        };
        // What passes by itself is told by what the plan waits on; the rest needs words.
        let trouble =
            (ended == Outcome::Failed).then(|| trouble::membership_change_refused(what, &self.to_string()));
        Stopped { ended, trouble, foreign: None }
    }
}

/// When to try again after etcd refused.
fn after(refusal: Refusal) -> Outcome {
    match refusal {
        // It passes: connections of 5 s, a learner that catches up, an election.
        Refusal::UnhealthyCluster
        | Refusal::NotEnoughStartedMembers
        | Refusal::TooManyLearners
        | Refusal::LearnerNotReady
        | Refusal::NoLeader
        | Refusal::NotLeader
        | Refusal::BadLeaderTransferee => Outcome::Refused,
        // The world is not as it was seen: look again.
        Refusal::PeerUrlExists
        | Refusal::MemberExists
        | Refusal::MemberNotFound
        | Refusal::MemberNotLearner
        | Refusal::ClusterIdMismatch => Outcome::Waiting,
        Refusal::PermissionDenied
        | Refusal::Unauthenticated
        | Refusal::NotSupportedForLearner
        | Refusal::NoSpace
        | Refusal::Corrupt
        | Refusal::Other => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(error: CallError) -> Stopped {
        CallFailed::Call(error).into_stopped("MemberAdd demo-3")
    }

    #[test]
    fn h16_a_refusal_that_passes_is_asked_again_without_a_word() {
        let refused = ended(CallError::Refused(Refusal::UnhealthyCluster, "unhealthy cluster".to_owned()));
        assert_eq!((refused.ended, refused.trouble), (Outcome::Refused, None));
    }

    #[test]
    fn h45_an_unknown_outcome_ends_the_pass_and_the_next_looks_again() {
        let unknown = ended(CallError::Unknown("no answer".to_owned()));
        assert_eq!((unknown.ended, unknown.trouble), (Outcome::Waiting, None));
    }

    #[test]
    fn a_refusal_that_does_not_pass_is_told_in_etcds_own_words() {
        let refused = ended(CallError::Refused(Refusal::PermissionDenied, "permission denied".to_owned()));
        assert_eq!(refused.ended, Outcome::Failed);
        assert!(refused.trouble.unwrap().message().contains("MemberAdd demo-3: refused: permission denied"));
    }
}
