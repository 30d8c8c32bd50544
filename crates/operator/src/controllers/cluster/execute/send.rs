//! One request to the Kubernetes API: sent at most once, within a deadline, only while we lead, and its failure classed
//! by what is to be done about it.

use kube::api::GetParams;
use quorate_manifests::{Kind, Write};
use serde_json::Value;
use tokio::time::timeout;

use crate::controllers::cluster::Shared;
use crate::runtime::lease::WRITE_DEADLINE;
use crate::runtime::pace::Outcome;

/// Why a request did not do what it was to do.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Not sent: we do not lead, or not for long enough.
    #[error("not sent, because leadership is not certain")]
    NotLeading,
    /// An object of that name is there.
    #[error("it exists already")]
    Exists,
    /// The object is not as it was seen.
    #[error("it has changed meanwhile: {0}")]
    Changed(String),
    /// The object is not there.
    #[error("it is not there: {0}")]
    Missing(String),
    /// The API server will not take it, however often.
    #[error("the API server refuses it: {0}")]
    Invalid(String),
    /// The operator may not do this.
    #[error("the operator may not do this: {0}")]
    Forbidden(String),
    /// Perhaps it was done, perhaps not.
    #[error("no certain outcome: {0}")]
    Unknown(String),
}

/// Sends a write.
pub async fn write(shared: &Shared, write: &Write) -> Result<Value, SendError> {
    let request = write.http().map_err(|error| SendError::Invalid(error.to_string()))?;
    // The semaphore is never closed. What is bounded is the load on the API server, nothing else waits in here.
    let _permit = shared.runtime.writers.acquire().await;
    if !shared.runtime.leadership.may_act() {
        shared.runtime.metrics.dropped_write();
        return Err(SendError::NotLeading);
    }
    send(shared, request).await
}

/// Reads an object as it is now; `None` if it is not there.
pub async fn read(
    shared: &Shared,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, SendError> {
    let path = kube::core::Request::new(kind.collection(namespace));
    let request =
        path.get(name, &GetParams::default()).map_err(|error| SendError::Invalid(error.to_string()))?;
    match send(shared, request).await {
        Ok(object) => Ok(Some(object)),
        Err(SendError::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn send(shared: &Shared, request: http::Request<Vec<u8>>) -> Result<Value, SendError> {
    match timeout(WRITE_DEADLINE, shared.runtime.client.request::<Value>(request)).await {
        Ok(reply) => reply.map_err(SendError::from),
        Err(_) => Err(SendError::Unknown(format!("no answer within {WRITE_DEADLINE:?}"))),
    }
}

impl SendError {
    /// When to try again.
    pub fn ended(&self) -> Outcome {
        match self {
            Self::NotLeading | Self::Exists | Self::Changed(_) | Self::Missing(_) => Outcome::Waiting,
            Self::Unknown(_) | Self::Invalid(_) | Self::Forbidden(_) => Outcome::Failed,
        }
    }

    /// For the metric.
    pub fn as_label(&self) -> &'static str {
        match self {
            Self::NotLeading => "not_leading",
            Self::Exists => "exists",
            Self::Changed(_) => "changed",
            Self::Missing(_) => "missing",
            Self::Invalid(_) => "invalid",
            Self::Forbidden(_) => "forbidden",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl From<kube::Error> for SendError {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = &error else {
            return Self::Unknown(crate::runtime::watch::chain(&error));
        };
        let message = status.message.clone();
        match (status.code, status.reason.as_str()) {
            (409, "AlreadyExists") => Self::Exists,
            // Conflict, and preconditions that do not hold.
            (409 | 412, _) => Self::Changed(message),
            (404, _) => Self::Missing(message),
            (401 | 403, _) => Self::Forbidden(message),
            // The server asks to come back later, or did not finish.
            (408 | 429 | 500..=599, _) => Self::Unknown(message),
            _ => Self::Invalid(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, reason: &str) -> SendError {
        let status = kube::core::Status {
            code,
            reason: reason.to_owned(),
            message: "so it is".to_owned(),
            ..kube::core::Status::default()
        };
        kube::Error::Api(Box::new(status)).into()
    }

    #[test]
    fn what_was_refused_is_told_from_what_may_have_been_done() {
        assert!(matches!(refused(409, "AlreadyExists"), SendError::Exists));
        assert!(matches!(refused(409, "Conflict"), SendError::Changed(_)));
        assert!(matches!(refused(404, "NotFound"), SendError::Missing(_)));
        assert!(matches!(refused(422, "Invalid"), SendError::Invalid(_)));
        assert!(matches!(refused(403, "Forbidden"), SendError::Forbidden(_)));
        for code in [429, 500, 503, 504] {
            assert!(matches!(refused(code, "Whatever"), SendError::Unknown(_)), "{code}");
        }
        let lost = kube::Error::ReadEvents(std::io::Error::other("reset"));
        assert!(matches!(SendError::from(lost), SendError::Unknown(text) if text.contains("reset")));
    }
}
