//! The classes of replies of the Kubernetes API and of etcd, and what follows from each. A reply that was lost is neither
//! done nor failed: it is unknown (R8), and the next pass observes what happened.

use quorate_model::{MemberName, Refusal};

/// After how many seconds a request is repeated that the API server had no room for, if it does not say.
const THROTTLED: u32 = 1;

/// Why a request to the Kubernetes API did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Not sent: the operator does not lead, or its lease expires too soon.
    #[error("not sent, because leadership is not certain")]
    NotLeading,
    /// Not sent: what it rests on was observed too long ago (R18).
    #[error("not sent, because what was observed is out of date")]
    Outdated,
    /// An object of that name exists.
    #[error("it exists already")]
    Exists,
    /// The object is not as it was observed.
    #[error("it has changed meanwhile: {0}")]
    Changed(String),
    /// The object does not exist.
    #[error("it is not there: {0}")]
    Missing(String),
    /// The API server rejects it as invalid.
    #[error("the API server refuses it: {0}")]
    Invalid(String),
    /// The operator has no permission, or a quota forbids it.
    #[error("the operator may not do this: {0}")]
    Forbidden(String),
    /// A PodDisruptionBudget admits no eviction now.
    #[error("the eviction is not admitted: {0}")]
    Blocked(String),
    /// The API server has too many requests, and carried this one out not at all. It says after how many seconds to try again.
    #[error("the API server has too many requests: {1}")]
    Throttled(u32, String),
    /// It may have been carried out.
    #[error("no certain outcome: {0}")]
    Unknown(String),
}

/// Why a call to etcd did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Not sent: the operator does not lead, or its lease expires too soon.
    #[error("not sent, because leadership is not certain")]
    NotLeading,
    /// Not sent: what it rests on was observed too long ago (R18).
    #[error("not sent, because what was observed is out of date")]
    Outdated,
    /// There is no connection to the member.
    #[error("there is no connection to {0} any more")]
    NoConnection(MemberName),
    /// etcd did not carry it out. With etcd's message.
    #[error("refused: {1}")]
    Refused(Refusal, String),
    /// It may have been carried out.
    #[error("outcome unknown: {0}")]
    Unknown(String),
    /// It was not sent.
    #[error("unreachable: {0}")]
    Unreachable(String),
}

/// Why an effect was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EffectError {
    /// A write to the Kubernetes API did not succeed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A call to etcd did not succeed.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// When the next pass follows one that ended early, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Retry {
    /// At once: the planner does not know the current state yet.
    Now,
    /// Soon: the cause is temporary, or the observation was outdated.
    Soon,
    /// After a pause: etcd refused temporarily.
    Refused,
    /// With growing delay: a best-effort effect failed, or a name is taken.
    Degraded,
    /// After so many seconds, and with growing delay: the API server has too many requests.
    Throttled(u32),
    /// With growing delay: the write or call failed.
    Failed,
    /// The same, and no change of the object ends the delay: the API server, or a webhook of it, did not answer.
    Unanswered,
}

impl WriteError {
    /// The class of an error of the API server.
    pub fn from_status(code: u16, reason: &str, message: String) -> Self {
        match (code, reason) {
            (409, "AlreadyExists") => Self::Exists,
            // Conflict, and preconditions that do not match.
            (409 | 412, _) => Self::Changed(message),
            (404, _) => Self::Missing(message),
            (401 | 403, _) => Self::Forbidden(message),
            (429, _) => Self::Throttled(THROTTLED, message),
            // The server is overloaded, or did not finish.
            (408 | 500..=599, _) => Self::Unknown(message),
            _ => Self::Invalid(message),
        }
    }

    /// Why nothing is created in the namespace any more, if it is being deleted.
    pub(crate) fn namespace_ends(&self) -> Option<&str> {
        let Self::Forbidden(why) = self else { return None };
        why.contains("because it is being terminated").then_some(why)
    }

    /// When to try again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::NotLeading | Self::Outdated | Self::Exists | Self::Changed(_) | Self::Missing(_) => {
                Retry::Soon
            }
            Self::Blocked(_) => Retry::Degraded,
            Self::Throttled(seconds, _) => Retry::Throttled(*seconds),
            Self::Invalid(_) | Self::Forbidden(_) => Retry::Failed,
            Self::Unknown(_) => Retry::Unanswered,
        }
    }

    /// For the metric.
    pub fn as_label(&self) -> &'static str {
        match self {
            Self::NotLeading => "not_leading",
            Self::Outdated => "outdated",
            Self::Exists => "exists",
            Self::Changed(_) => "changed",
            Self::Missing(_) => "missing",
            Self::Invalid(_) => "invalid",
            Self::Forbidden(_) => "forbidden",
            Self::Blocked(_) => "blocked",
            Self::Throttled(..) => "throttled",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl CallError {
    /// When to try again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::NotLeading
            | Self::Outdated
            | Self::NoConnection(_)
            | Self::Unknown(_)
            | Self::Unreachable(_) => Retry::Soon,
            Self::Refused(refusal, _) => Self::retry_after(*refusal),
        }
    }

    /// For the metric.
    pub fn as_label(&self) -> &'static str {
        match self {
            Self::NotLeading => "not_leading",
            Self::Outdated => "outdated",
            Self::NoConnection(_) | Self::Unreachable(_) => "unreachable",
            Self::Refused(..) => "refused",
            Self::Unknown(_) => "unknown",
        }
    }

    /// What follows from a refusal of etcd.
    fn retry_after(refusal: Refusal) -> Retry {
        match refusal {
            // Temporary: members connected for less than 5 s, a learner that catches up, an election.
            Refusal::UnhealthyCluster
            | Refusal::NotEnoughStartedMembers
            | Refusal::TooManyLearners
            | Refusal::LearnerNotReady
            | Refusal::NoLeader
            | Refusal::NotLeader
            | Refusal::BadLeaderTransferee => Retry::Refused,
            // The observation was outdated.
            Refusal::PeerUrlExists
            | Refusal::MemberExists
            | Refusal::MemberNotFound
            | Refusal::MemberNotLearner
            | Refusal::ClusterIdMismatch
            | Refusal::AuthRevisionOld
            | Refusal::UserExists
            | Refusal::RoleExists
            | Refusal::UserNotFound
            | Refusal::RoleNotFound
            | Refusal::RoleNotGranted
            | Refusal::PermissionNotGranted
            | Refusal::AuthNotEnabled
            | Refusal::RootUserMissing
            | Refusal::RootRoleMissing => Retry::Soon,
            // Permanent.
            Refusal::PermissionDenied
            | Refusal::Unauthenticated
            | Refusal::NoUser
            | Refusal::NotSupportedForLearner
            | Refusal::NoSpace
            | Refusal::Corrupt
            | Refusal::Other => Retry::Failed,
        }
    }
}

impl EffectError {
    /// When to try again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Write(error) => error.retry(),
            Self::Call(error) => error.retry(),
        }
    }

    /// For the metric.
    pub fn as_label(&self) -> &'static str {
        match self {
            Self::Write(error) => error.as_label(),
            Self::Call(error) => error.as_label(),
        }
    }
}

/// R8: a request whose reply was lost does not count as done. Only a test that breaks the rule makes it so.
pub(crate) fn lost_reply_counts_as_done() -> bool {
    #[cfg(feature = "mutants")]
    if quorate_planner::safety::mutants::is_broken(quorate_planner::safety::mutants::Rule::R8) {
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(code: u16, reason: &str) -> WriteError {
        WriteError::from_status(code, reason, "why".to_owned())
    }

    #[test]
    fn a_refusal_is_distinguished_from_an_unknown_outcome() {
        assert_eq!(class(409, "AlreadyExists"), WriteError::Exists);
        assert!(matches!(class(409, "Conflict"), WriteError::Changed(_)));
        assert!(matches!(class(412, "Conflict"), WriteError::Changed(_)));
        assert!(matches!(class(404, "NotFound"), WriteError::Missing(_)));
        assert!(matches!(class(422, "Invalid"), WriteError::Invalid(_)));
        assert!(matches!(class(403, "Forbidden"), WriteError::Forbidden(_)));
        assert!(matches!(class(429, "TooManyRequests"), WriteError::Throttled(..)));
        for code in [408, 500, 503, 504] {
            assert!(matches!(class(code, "Whatever"), WriteError::Unknown(_)), "{code}");
        }
    }

    #[test]
    fn temporary_refusals_of_etcd_are_retried_soon_and_permanent_ones_with_growing_delay() {
        let refused = |refusal| CallError::Refused(refusal, "why".to_owned()).retry();
        assert_eq!(refused(Refusal::UnhealthyCluster), Retry::Refused);
        assert_eq!(refused(Refusal::MemberNotFound), Retry::Soon);
        assert_eq!(refused(Refusal::PermissionDenied), Retry::Failed);
        assert_eq!(CallError::Unknown("no answer".to_owned()).retry(), Retry::Soon);
    }
}
