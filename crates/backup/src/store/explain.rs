//! Failures of a store in messages that people can act on.

use std::error::Error;

use quorate_api::destination::Destination;
use quorate_api::job::{Failure, FailureKind};

/// What was attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Read,
    /// All of a prefix.
    List,
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

/// What the client says of a server whose certificate it does not accept; the reason follows.
const BAD_CERTIFICATE: &str = "invalid peer certificate: ";

/// What the client says where it expects TLS and the server speaks something else.
const NO_TLS: &str = "received corrupt message of type InvalidContentType";

/// Words of a store that does not know a header of a request.
const UNKNOWN_HEADER: [&str; 3] = ["NotImplemented", "501 Not Implemented", "InvalidArgument"];

/// Whether the store does not know what a header of the request asks for. Another try is refused as well.
pub(crate) fn names_unknown_header(error: &object_store::Error) -> bool {
    let text = chain(error);
    matches!(error, object_store::Error::NotImplemented { .. })
        || UNKNOWN_HEADER.iter().any(|word| text.contains(word))
}

/// Words of a proxy that does not let a conditional write through.
const NO_CONDITION: [&str; 2] = ["MethodNotAllowed", "405 Method Not Allowed"];

/// Whether the store, or a proxy before it, does not know conditional writes.
pub(crate) fn names_unknown_condition(error: &object_store::Error) -> bool {
    let text = chain(error);
    names_unknown_header(error) || NO_CONDITION.iter().any(|word| text.contains(word))
}

/// Whether the object is missing, and not its bucket or the user.
pub(crate) fn is_missing_object(error: &object_store::Error) -> bool {
    let text = chain(error);
    matches!(error, object_store::Error::NotFound { .. })
        && !names_missing_bucket(&text)
        && !names_bad_credentials(&text)
}

/// Whether a store says in its own words that the object is missing, or all of its bucket.
pub(crate) fn names_what_is_missing(error: &object_store::Error) -> bool {
    let text = chain(error);
    let names_object = ["NoSuchKey", "BlobNotFound"].iter().any(|word| text.contains(word));
    matches!(error, object_store::Error::NotFound { .. })
        && (names_object || names_missing_bucket(&text))
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
        Act::List => format!("cannot list what is under {url}"),
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
        E::NotFound { .. } | E::Generic { .. } if names_missing_bucket(&text) => {
            (FailureKind::NotInStore, format!("the bucket does not exist; create it. {}", brief(&text)))
        }
        _ if is_refused(error, &text) => {
            let unseen = match act {
                Act::Read if destination.s3.is_some() => {
                    ". S3 answers so also for an object that is not there, to whom has no right s3:ListBucket on the bucket"
                }
                Act::List => {
                    ". To find the newest backup needs the right to list (S3: s3:ListBucket on the bucket; GCS: storage.objects.list; Azure: \
                     list), which backups do not need. Without it, name the object with its SHA-256 (source)"
                }
                Act::Read | Act::Write | Act::Delete => "",
            };
            let why =
                format!("the store refuses {secret}; check them and their rights{unseen}. {}", brief(&text));
            (FailureKind::StoreForbidden, why)
        }
        _ if names_bad_credentials(&text) => {
            let why = format!("the store does not accept {secret}; check them. {}", brief(&text));
            (FailureKind::StoreForbidden, why)
        }
        E::NotFound { .. } => match act {
            Act::Read | Act::List | Act::Delete => {
                (FailureKind::NotInStore, "there is no such object".to_owned())
            }
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
        _ if act == Act::Write && names_unknown_header(error) => {
            let cure = if destination.s3.is_some() {
                "if it knows no checksums of S3, set s3.checksum: None, and see what docs/backup.md says a store must allow"
            } else {
                "see what docs/backup.md says a store must allow"
            };
            let why = format!("the store does not know what the request asks for: {cure}. {}", brief(&text));
            (FailureKind::OrderRefused, why)
        }
        _ if text.contains(NO_TLS) && text.contains("(Connect)") => (
            FailureKind::OrderRefused,
            "the server does not speak TLS there; correct the endpoint".to_owned(),
        ),
        _ if text.contains(BAD_CERTIFICATE) => of_certificate(&text, destination),
        _ => (
            FailureKind::StoreUnavailable,
            format!("the store does not answer as it should: {}", brief(&text)),
        ),
    }
}

/// Nothing of this passes while a client waits, but for a certificate that has ended: who renews it does not know who waits.
fn of_certificate(text: &str, destination: &Destination) -> (FailureKind, String) {
    let why = text.split_once(BAD_CERTIFICATE).map_or(text, |(_, why)| why);
    let (kind, cure) = if why.contains("UnknownIssuer") || why.contains("CaUsedAsEndEntity") {
        let cure = match (destination.ca_secret(), &destination.s3) {
            (Some(secret), _) => {
                format!("its authority is not in ca.crt of Secret {secret}; put the right one there")
            }
            (None, Some(_)) => "no public authority has signed it; put the certificate of its own one into ca.crt of a Secret, and name that \
                                Secret in s3.caSecret"
                .to_owned(),
            (None, None) => "no public authority has signed it; correct the endpoint, or look for a proxy on the way".to_owned(),
        };
        (FailureKind::OrderRefused, cure)
    } else if why.contains("expired") || why.contains("not valid yet") {
        (FailureKind::StoreUnavailable, "renew it, or correct the clock of the node".to_owned())
    } else {
        (FailureKind::OrderRefused, "correct the endpoint, or give the server another certificate".to_owned())
    };
    (kind, format!("the certificate of the server is not accepted: {cure}. {}", brief(why)))
}

/// `object_store` makes a class of the replies about one object only, and none of those to a list.
fn is_refused(error: &object_store::Error, text: &str) -> bool {
    match error {
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => true,
        object_store::Error::Generic { .. } => {
            !names_bad_credentials(text)
                && text.contains("list request")
                && ["401 Unauthorized", "403 Forbidden"].iter().any(|word| text.contains(word))
        }
        _ => false,
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
    fn o16_a_certificate_that_nobody_vouches_for_is_named_with_its_cure_and_not_tried_again() {
        let private = |ca: Option<&str>| {
            let ca_secret = ca.map(|name| SecretName { name: name.to_owned() });
            Destination { s3: Some(S3 { ca_secret, ..S3::default() }), ..Destination::default() }
        };
        let gcs =
            Destination { gcs: Some(quorate_api::destination::Gcs::default()), ..Destination::default() };
        let unknown = "invalid peer certificate: UnknownIssuer";
        let name = "invalid peer certificate: certificate not valid for name \"s3.example\"; certificate is only valid for DnsName(\"s4.example\")";
        let old = "invalid peer certificate: certificate expired: verification time 9 (UNIX), but certificate is not valid after 8 (1 seconds ago)";
        let plain = "received corrupt message of type InvalidContentType";
        let table = [
            (unknown, private(None), FailureKind::OrderRefused, "s3.caSecret"),
            (unknown, private(Some("ca-of-s3")), FailureKind::OrderRefused, "ca.crt of Secret ca-of-s3"),
            (unknown, gcs, FailureKind::OrderRefused, "proxy"),
            (name, private(Some("ca-of-s3")), FailureKind::OrderRefused, "s4.example"),
            (old, private(None), FailureKind::StoreUnavailable, "renew it"),
            (plain, private(None), FailureKind::OrderRefused, "does not speak TLS"),
        ];
        for (words, destination, kind, cure) in table {
            let error = object_store::Error::Generic {
                store: "S3",
                source: format!("Error performing HEAD https://s3.example/b/k in 1s, after 4 retries - client error (Connect): {words}").into(),
            };
            let failure = explain(&error, Act::Write, &destination, "k");
            assert_eq!(failure.kind, kind, "{}", failure.message);
            assert!(failure.message.contains(cure), "{cure}: {}", failure.message);
            assert!(!failure.message.contains("retries"), "{}", failure.message);
        }
    }

    #[test]
    fn o06_a_read_that_is_refused_names_the_right_to_list() {
        let destination = Destination { s3: Some(S3::default()), ..Destination::default() };
        let denied = object_store::Error::PermissionDenied {
            path: "x".to_owned(),
            source: Box::<dyn Error + Send + Sync>::from("403 Forbidden".to_owned()),
        };
        let message = |act| explain(&denied, act, &destination, "k").message;
        assert!(message(Act::Read).contains("s3:ListBucket"), "{}", message(Act::Read));
        assert!(!message(Act::Write).contains("s3:ListBucket"), "{}", message(Act::Write));
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
