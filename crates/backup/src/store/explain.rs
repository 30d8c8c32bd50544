//! Failures of a store in messages that people can act on.

use std::error::Error;

use quorate_api::destination::Destination;
use quorate_api::job::{Failure, FailureKind};

/// What was attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Read,
    Write,
    Delete,
}

/// Words of a store whose key or signature is not accepted, in replies with any status.
const BAD_CREDENTIALS: [&str; 7] = [
    "InvalidAccessKeyId",
    // Of versitygw, with 404.
    "No user exists with the provided access key",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "AuthenticationFailed",
    "invalid_grant",
];

/// Whether the object is missing, and not its bucket or the user.
pub(crate) fn is_missing_object(error: &object_store::Error) -> bool {
    let text = chain(error);
    matches!(error, object_store::Error::NotFound { .. })
        && !names_missing_bucket(&text)
        && !names_bad_credentials(&text)
}

/// The failure of an act on an object.
pub(crate) fn explain(
    error: &object_store::Error,
    act: Act,
    destination: &Destination,
    key: &str,
) -> Failure {
    let url = destination.url(key);
    let what = match act {
        Act::Read => format!("cannot read {url}"),
        Act::Write => format!("cannot write {url}"),
        Act::Delete => format!("cannot delete {url}"),
    };
    let (kind, why) = class(error, act, destination);
    Failure::new(kind, format!("{what}: {why}"))
}

fn class(error: &object_store::Error, act: Act, destination: &Destination) -> (FailureKind, String) {
    use object_store::Error as E;
    let text = chain(error);
    let secret = match destination.credentials_secret() {
        Some(secret) => format!("the credentials in Secret {secret}"),
        None => "the identity of the Pod's service account or node".to_owned(),
    };
    match error {
        E::NotFound { .. } if names_missing_bucket(&text) => {
            (FailureKind::NotInStore, format!("the bucket does not exist; create it. {}", brief(&text)))
        }
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
            let why = format!("the store refuses {secret}; check them and their rights. {}", brief(&text));
            (FailureKind::StoreForbidden, why)
        }
        _ if names_bad_credentials(&text) => {
            let why = format!("the store does not accept {secret}; check them. {}", brief(&text));
            (FailureKind::StoreForbidden, why)
        }
        E::NotFound { .. } => match act {
            Act::Read | Act::Delete => (FailureKind::NotInStore, "there is no such object".to_owned()),
            // A write does not need the object. The reply to the end of an upload may have been lost: S3 has forgotten the upload when the
            // request is repeated.
            Act::Write => {
                let why = "the store answers 404. An upload that it does not know was aborted, or it is complete already and the object \
                           may be whole; another try writes the object again. If this lasts, check the endpoint";
                (FailureKind::StoreUnavailable, format!("{why}. {}", brief(&text)))
            }
        },
        _ if text.contains("redirect without LOCATION") || text.contains("AuthorizationHeaderMalformed") => {
            let why = format!("the region is not that of the bucket; correct it. {}", brief(&text));
            (FailureKind::OrderRefused, why)
        }
        E::InvalidPath { .. } | E::UnknownConfigurationKey { .. } => {
            (FailureKind::OrderRefused, brief(&text))
        }
        _ => (
            FailureKind::StoreUnavailable,
            format!("the store does not answer as it should: {}", brief(&text)),
        ),
    }
}

fn names_bad_credentials(text: &str) -> bool {
    BAD_CREDENTIALS.iter().any(|words| text.contains(words))
}

fn names_missing_bucket(text: &str) -> bool {
    ["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"]
        .iter()
        .any(|word| text.contains(word))
}

/// The error and its causes, without repetition.
fn chain(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Replies are pages of XML.
pub(super) fn brief(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(400) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use quorate_api::destination::{S3, SecretName};

    use super::*;

    #[test]
    fn failures_say_what_to_do() {
        let s3 = S3 {
            bucket: "b".to_owned(),
            credentials_secret: Some(SecretName { name: "keys".to_owned() }),
            ..S3::default()
        };
        let destination = Destination { s3: Some(s3), ..Destination::default() };
        let source = |text: &str| Box::<dyn Error + Send + Sync>::from(text.to_owned());
        let path = || "x".to_owned();
        let generic = |text| object_store::Error::Generic { store: "S3", source: source(text) };
        let table = [
            (
                object_store::Error::NotFound { path: path(), source: source("<Code>NoSuchBucket</Code>") },
                FailureKind::NotInStore,
                "create it",
            ),
            (
                object_store::Error::NotFound {
                    path: path(),
                    source: source("<Code>ContainerNotFound</Code>"),
                },
                FailureKind::NotInStore,
                "create it",
            ),
            (
                object_store::Error::NotFound {
                    path: path(),
                    source: source("<Message>No user exists with the provided access key ID.</Message>"),
                },
                FailureKind::StoreForbidden,
                "Secret keys",
            ),
            (
                object_store::Error::PermissionDenied { path: path(), source: source("AccessDenied") },
                FailureKind::StoreForbidden,
                "Secret keys",
            ),
            (generic("400: ExpiredToken"), FailureKind::StoreForbidden, "Secret keys"),
            (generic("Received redirect without LOCATION"), FailureKind::OrderRefused, "region"),
            (generic("connection refused"), FailureKind::StoreUnavailable, "connection refused"),
        ];
        for (error, kind, words) in table {
            let failure = explain(&error, Act::Write, &destination, "k");
            assert_eq!(failure.kind, kind, "{error}");
            assert!(failure.message.starts_with("cannot write s3://b/k: "), "{}", failure.message);
            assert!(failure.message.contains(words), "{words}: {}", failure.message);
        }
    }

    #[test]
    fn an_upload_that_the_store_does_not_know_is_tried_again_and_a_missing_object_is_not() {
        let destination = Destination { s3: Some(S3::default()), ..Destination::default() };
        let missing = |code: &str| object_store::Error::NotFound {
            path: "x".to_owned(),
            source: Box::<dyn Error + Send + Sync>::from(format!("404: <Code>{code}</Code>")),
        };
        let failure = explain(&missing("NoSuchUpload"), Act::Write, &destination, "k");
        assert_eq!(failure.kind, FailureKind::StoreUnavailable, "{}", failure.message);
        assert!(failure.message.contains("the object may be whole"), "{}", failure.message);
        assert!(failure.message.contains("NoSuchUpload"), "{}", failure.message);
        for act in [Act::Read, Act::Delete] {
            let failure = explain(&missing("NoSuchKey"), act, &destination, "k");
            assert_eq!(failure.kind, FailureKind::NotInStore, "{act:?}: {}", failure.message);
            assert!(failure.message.ends_with("there is no such object"), "{}", failure.message);
        }
    }

    #[test]
    fn a_missing_bucket_is_no_missing_object() {
        let missing = |text: &str| object_store::Error::NotFound {
            path: "x".to_owned(),
            source: Box::<dyn Error + Send + Sync>::from(text.to_owned()),
        };
        assert!(is_missing_object(&missing("NoSuchKey")));
        assert!(!is_missing_object(&missing("NoSuchBucket")));
        assert!(!is_missing_object(&missing("No user exists with the provided access key ID.")));
    }
}
