//! What is known after a call failed. A lost reply does not mean failure: the call may have succeeded before (R8).

mod describe;

use quorate_model::Refusal;
use tonic::{Code, Status};

pub(crate) use describe::describe;

/// Why a call has no reply, by what is known about its effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// etcd refused and certainly did nothing. With etcd's message.
    #[error("refused: {1}")]
    Refused(Refusal, String),
    /// It may have been done: the reply was lost or late, or leaves it open.
    #[error("outcome unknown: {0}")]
    Unknown(String),
    /// It was certainly not sent: there was no connection.
    #[error("unreachable: {0}")]
    Unreachable(String),
}

impl CallError {
    /// The refusal, if it is one.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(refusal, _) => Some(*refusal),
            Self::Unknown(_) | Self::Unreachable(_) => None,
        }
    }

    /// Whether the call may have taken effect.
    pub fn may_have_applied(&self) -> bool {
        match self {
            Self::Unknown(_) => true,
            Self::Refused(..) | Self::Unreachable(_) => false,
        }
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        // First, because without a connection there is no message of etcd; the source has the reason.
        if let Some(reason) = describe::never_connected(&status) {
            return Self::Unreachable(reason);
        }
        match refusal(status.code(), status.message()) {
            Some(refusal) => Self::Refused(refusal, status.message().to_owned()),
            None => Self::Unknown(describe::lost(&status)),
        }
    }
}

/// Etcd's messages are the contract, its codes are not: some of its errors arrive as `Unknown`, and some changed code
/// between minor versions.
fn refusal(code: Code, message: &str) -> Option<Refusal> {
    cluster_refusal(message).or_else(|| auth_refusal(message)).or_else(|| refusal_by_code(code, message))
}

fn cluster_refusal(message: &str) -> Option<Refusal> {
    Some(match message {
        "etcdserver: unhealthy cluster" => Refusal::UnhealthyCluster,
        "etcdserver: re-configuration failed due to not enough started members" => {
            Refusal::NotEnoughStartedMembers
        }
        "etcdserver: too many learner members in cluster" => Refusal::TooManyLearners,
        "etcdserver: can only promote a learner member which is in sync with leader" => {
            Refusal::LearnerNotReady
        }
        "etcdserver: Peer URLs already exists" => Refusal::PeerUrlExists,
        "etcdserver: member ID already exist" => Refusal::MemberExists,
        "etcdserver: member not found" => Refusal::MemberNotFound,
        "etcdserver: can only promote a learner member" => Refusal::MemberNotLearner,
        "etcdserver: no leader" => Refusal::NoLeader,
        "etcdserver: not leader" => Refusal::NotLeader,
        "etcdserver: bad leader transferee" => Refusal::BadLeaderTransferee,
        "etcdserver: cluster ID mismatch" => Refusal::ClusterIdMismatch,
        "etcdserver: permission denied" => Refusal::PermissionDenied,
        "etcdserver: invalid auth token" => Refusal::Unauthenticated,
        "etcdserver: rpc not supported for learner" => Refusal::NotSupportedForLearner,
        "etcdserver: mvcc: database space exceeded" => Refusal::NoSpace,
        "etcdserver: corrupt cluster" => Refusal::Corrupt,
        // etcd checks these before it proposes anything; the codes vary.
        "etcdserver: not capable" | "etcdserver: too many requests" | "etcdserver: request is too large" => {
            Refusal::Other
        }
        _ => return None,
    })
}

/// What etcd's auth refuses. It checks when it applies a call, before it changes anything, so all of these did nothing. The texts that
/// begin with `auth:` are those of Maintenance in 3.5, which sends them with the code Unknown.
fn auth_refusal(message: &str) -> Option<Refusal> {
    Some(match message {
        "etcdserver: user name already exists" | "auth: user already exists" => Refusal::UserExists,
        "etcdserver: role name already exists" | "auth: role already exists" => Refusal::RoleExists,
        "etcdserver: user name not found" | "auth: user not found" => Refusal::UserNotFound,
        "etcdserver: role name not found" | "auth: role not found" => Refusal::RoleNotFound,
        "etcdserver: role is not granted to the user" | "auth: role is not granted to the user" => {
            Refusal::RoleNotGranted
        }
        "etcdserver: permission is not granted to the role"
        | "auth: permission is not granted to the role" => Refusal::PermissionNotGranted,
        "etcdserver: authentication is not enabled" | "auth: authentication is not enabled" => {
            Refusal::AuthNotEnabled
        }
        "etcdserver: root user does not exist" | "auth: root user does not exist" => Refusal::RootUserMissing,
        "etcdserver: root user does not have root role" | "auth: root user does not have root role" => {
            Refusal::RootRoleMissing
        }
        "etcdserver: revision of auth store is old" | "auth: revision in header is old" => {
            Refusal::AuthRevisionOld
        }
        "etcdserver: user name is empty" | "auth: user name is empty" => Refusal::NoUser,
        "auth: permission denied" => Refusal::PermissionDenied,
        "auth: invalid auth token" => Refusal::Unauthenticated,
        "auth: invalid auth management" => Refusal::Other,
        _ => return None,
    })
}

fn refusal_by_code(code: Code, message: &str) -> Option<Refusal> {
    match code {
        Code::PermissionDenied => Some(Refusal::PermissionDenied),
        Code::Unauthenticated => Some(Refusal::Unauthenticated),
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::Unimplemented => Some(Refusal::Other),
        // The transport uses these too (a reply that is too large): only with etcd's prefix are they a refusal.
        Code::OutOfRange | Code::ResourceExhausted => {
            message.starts_with("etcdserver: ").then_some(Refusal::Other)
        }
        // "request timed out", "leader changed", "server stopped" and a dead connection: perhaps proposed.
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_recognised_by_its_message_with_any_code() {
        let table = [
            ("etcdserver: unhealthy cluster", Code::Unavailable, Refusal::UnhealthyCluster),
            (
                "etcdserver: re-configuration failed due to not enough started members",
                Code::FailedPrecondition,
                Refusal::NotEnoughStartedMembers,
            ),
            (
                "etcdserver: too many learner members in cluster",
                Code::FailedPrecondition,
                Refusal::TooManyLearners,
            ),
            (
                "etcdserver: can only promote a learner member which is in sync with leader",
                Code::FailedPrecondition,
                Refusal::LearnerNotReady,
            ),
            ("etcdserver: Peer URLs already exists", Code::FailedPrecondition, Refusal::PeerUrlExists),
            ("etcdserver: member ID already exist", Code::FailedPrecondition, Refusal::MemberExists),
            ("etcdserver: member not found", Code::NotFound, Refusal::MemberNotFound),
            (
                "etcdserver: can only promote a learner member",
                Code::FailedPrecondition,
                Refusal::MemberNotLearner,
            ),
            ("etcdserver: no leader", Code::Unavailable, Refusal::NoLeader),
            ("etcdserver: not leader", Code::FailedPrecondition, Refusal::NotLeader),
            ("etcdserver: bad leader transferee", Code::FailedPrecondition, Refusal::BadLeaderTransferee),
            ("etcdserver: cluster ID mismatch", Code::FailedPrecondition, Refusal::ClusterIdMismatch),
            ("etcdserver: permission denied", Code::PermissionDenied, Refusal::PermissionDenied),
            ("etcdserver: invalid auth token", Code::Unauthenticated, Refusal::Unauthenticated),
            ("etcdserver: rpc not supported for learner", Code::Unavailable, Refusal::NotSupportedForLearner),
            ("etcdserver: mvcc: database space exceeded", Code::ResourceExhausted, Refusal::NoSpace),
            ("etcdserver: corrupt cluster", Code::DataLoss, Refusal::Corrupt),
            ("etcdserver: too many requests", Code::ResourceExhausted, Refusal::Other),
            ("etcdserver: user name already exists", Code::FailedPrecondition, Refusal::UserExists),
            ("etcdserver: role name already exists", Code::FailedPrecondition, Refusal::RoleExists),
            ("etcdserver: user name not found", Code::FailedPrecondition, Refusal::UserNotFound),
            ("etcdserver: role name not found", Code::FailedPrecondition, Refusal::RoleNotFound),
            (
                "etcdserver: role is not granted to the user",
                Code::FailedPrecondition,
                Refusal::RoleNotGranted,
            ),
            (
                "etcdserver: permission is not granted to the role",
                Code::FailedPrecondition,
                Refusal::PermissionNotGranted,
            ),
            ("etcdserver: authentication is not enabled", Code::FailedPrecondition, Refusal::AuthNotEnabled),
            ("etcdserver: root user does not exist", Code::FailedPrecondition, Refusal::RootUserMissing),
            (
                "etcdserver: root user does not have root role",
                Code::FailedPrecondition,
                Refusal::RootRoleMissing,
            ),
            ("etcdserver: revision of auth store is old", Code::InvalidArgument, Refusal::AuthRevisionOld),
            ("etcdserver: user name is empty", Code::InvalidArgument, Refusal::NoUser),
            // 3.5, to the calls of Maintenance.
            ("auth: user not found", Code::Unknown, Refusal::UserNotFound),
            ("auth: permission denied", Code::Unknown, Refusal::PermissionDenied),
            ("auth: user name is empty", Code::Unknown, Refusal::NoUser),
            ("auth: revision in header is old", Code::Unknown, Refusal::AuthRevisionOld),
        ];
        for (words, code, refusal) in table {
            for code in [code, Code::Unknown] {
                let error = CallError::from(Status::new(code, words));
                assert_eq!(error, CallError::Refused(refusal, words.to_owned()), "{words} as {code:?}");
            }
        }
    }

    #[test]
    fn other_refusals_are_recognised_by_their_code() {
        let table = [
            (Code::InvalidArgument, "etcdserver: given member URLs are invalid", Refusal::Other),
            (Code::InvalidArgument, "etcdserver: invalid auth management", Refusal::Other),
            (
                Code::Unimplemented,
                "unknown method MoveLeader for service etcdserverpb.Maintenance",
                Refusal::Other,
            ),
            (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted", Refusal::Other),
            (Code::PermissionDenied, "denied by a proxy", Refusal::PermissionDenied),
            (Code::Unauthenticated, "no token", Refusal::Unauthenticated),
        ];
        for (code, words, refusal) in table {
            assert_eq!(CallError::from(Status::new(code, words)).refusal(), Some(refusal), "{words}");
        }
    }

    #[test]
    fn h45_a_lost_or_late_reply_is_unknown_and_never_a_failure() {
        let table = [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: request timed out, possibly due to previous leader failure"),
            (Code::Unavailable, "etcdserver: request timed out, possibly due to connection lost"),
            (Code::Unavailable, "etcdserver: request timed out, waiting for the applied index took too long"),
            (Code::Unknown, "etcdserver: request timed out, leader transfer took too long"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "etcdserver: server stopped"),
            (Code::Unknown, "etcdserver: request cancelled"),
            (Code::Unknown, "raft proposal dropped"),
            (Code::Unknown, "member promote: unknown error(EOF)"),
            (Code::Unavailable, "error reading a body from connection"),
            (Code::DeadlineExceeded, "context deadline exceeded"),
            (Code::Cancelled, "Timeout expired"),
            (
                Code::OutOfRange,
                "Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes",
            ),
            (Code::Internal, "h2 protocol error"),
        ];
        for (code, words) in table {
            let error = CallError::from(Status::new(code, words));
            assert!(error.may_have_applied(), "{words}: {error:?}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
