//! Failures of the transport in messages that people can act on.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError};
use tonic::Status;

/// Why there was no connection to send the call on; `None` if there may have been one.
pub(crate) fn never_connected(status: &Status) -> Option<String> {
    chain(status).find(|error| error.is::<tonic::ConnectError>()).map(describe)
}

/// The message of a call whose outcome is unknown.
pub(crate) fn lost(status: &Status) -> String {
    match status.message() {
        "" => status.code().description().to_owned(),
        message => match status.source() {
            None => message.to_owned(),
            Some(source) => join(message.to_owned(), &describe(source)),
        },
    }
}

/// A plain message of the cause where one is known; otherwise the error with its causes, without repetition.
pub(crate) fn describe(error: &(dyn Error + 'static)) -> String {
    let plain = chain(error).find_map(|cause| {
        let tls = cause.downcast_ref().map(tls);
        tls.or_else(|| cause.downcast_ref::<io::Error>().and_then(network).map(str::to_owned))
    });
    plain.unwrap_or_else(|| chain(error).fold(String::new(), |text, cause| join(text, &cause.to_string())))
}

/// The error and its causes. `source` of an `io::Error` skips the error that it wraps.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.map_or_else(|| error.source(), |inner| Some(inner))
    })
}

fn tls(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(error) => certificate(error),
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => "etcd requires a client certificate".to_owned(),
            AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::AccessDenied => {
                format!("etcd did not accept our client certificate: {alert:?}")
            }
            other => format!("etcd broke off the TLS handshake: {other:?}"),
        },
        rustls::Error::InvalidMessage(_) => "the server does not speak TLS".to_owned(),
        other => other.to_string(),
    }
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::NotValidForName => "certificate name mismatch".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "certificate name mismatch: it is not valid for {}, only for {}",
            expected.to_str(),
            if presented.is_empty() { "no name at all".to_owned() } else { presented.join(", ") }
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "certificate is not valid yet".to_owned()
        }
        other => format!("certificate not accepted: {other}"),
    }
}

/// The system's message without the error number and without "tcp connect error".
fn network(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some("connection refused"),
        io::ErrorKind::ConnectionReset => Some("connection reset"),
        io::ErrorKind::BrokenPipe => Some("connection broken"),
        io::ErrorKind::TimedOut => Some("connecting timed out"),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some("no route to it"),
        _ => None,
    }
}

fn join(text: String, more: &str) -> String {
    if text.contains(more) {
        text
    } else if text.is_empty() {
        more.to_owned()
    } else {
        format!("{text}: {more}")
    }
}
