//! In TLS 1.3 the handshake of a client ends before the server has verified its certificate. A rejection arrives later, as
//! an alert, and the HTTP layer reports only "connection closed". The stream here keeps the alert.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use rustls::AlertDescription;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::error::describe;

/// Why the server rejected our certificate, if it did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict(Arc<Mutex<Option<String>>>);

/// A TLS stream that keeps the server's verdict.
pub(super) struct VerdictStream<S> {
    stream: S,
    verdict: Verdict,
    /// The server has sent data, so it has accepted the certificate.
    accepted: bool,
    /// A write failed with this, and the alert may still have to be read.
    broken: Option<io::Error>,
}

impl Verdict {
    /// Why the server rejected the certificate. It has read no request then.
    pub(crate) fn rejection(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn reset(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn note(&self, error: &io::Error) {
        if is_rejection(error) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(describe(error));
        }
    }
}

impl<S> VerdictStream<S> {
    pub(super) fn new(stream: S, verdict: Verdict) -> Self {
        Self { stream, verdict, accepted: false, broken: None }
    }
}

fn is_rejection(error: &io::Error) -> bool {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::AlertReceived(alert)) = tls else { return false };
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            // A signature that does not fit, as by another authority of the same subject. Sent in a handshake only.
            | AlertDescription::DecryptError
    )
}

impl<S: AsyncRead + Unpin> VerdictStream<S> {
    /// A server that rejects the certificate sends an alert and closes the connection. A write may fail before the alert is
    /// read. So a failed write reads until the alert or the end of the stream, which comes soon on a closed connection.
    fn poll_after_alert<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match written {
            Poll::Ready(Err(error)) if !self.accepted => self.broken = Some(error),
            other => return other,
        }
        let mut scratch = [0; 1024];
        loop {
            let mut buf = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {}
                Ok(()) => break,
                Err(error) => {
                    self.verdict.note(&error);
                    break;
                }
            }
        }
        Poll::Ready(Err(self.broken.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for VerdictStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.accepted |= buf.filled().len() > before;
        if let Poll::Ready(Err(error)) = &read {
            self.verdict.note(error);
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for VerdictStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = match self.broken.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => Pin::new(&mut self.stream).poll_write(cx, buf),
        };
        self.poll_after_alert(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match self.broken.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => Pin::new(&mut self.stream).poll_flush(cx),
        };
        self.poll_after_alert(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
