//! In TLS 1.3 a client believes itself connected before the server has judged its certificate. The refusal arrives
//! later, as an alert, and what the HTTP layer makes of it is "connection closed".

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use rustls::AlertDescription;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::error::describe;

/// What the server last said about our certificate, if it turned it down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict(Arc<Mutex<Option<String>>>);

/// A TLS stream that remembers the server's verdict.
pub(super) struct Heard<S> {
    stream: S,
    verdict: Verdict,
    /// The server has sent something: it has accepted us.
    accepted: bool,
    /// Writing has failed with this; the server's last words are still to be heard.
    broken: Option<io::Error>,
}

impl Verdict {
    /// Why the server did not want us; it has read no request then.
    pub(crate) fn turned_down(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn hear(&self, error: &io::Error) {
        if turns_down(error) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(describe(error));
        }
    }
}

impl<S> Heard<S> {
    pub(super) fn new(stream: S, verdict: Verdict) -> Self {
        Self { stream, verdict, accepted: false, broken: None }
    }
}

fn turns_down(error: &io::Error) -> bool {
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
    )
}

impl<S: AsyncRead + Unpin> Heard<S> {
    /// A server that does not want us says why and hangs up. Whether we stumble over the one or the other first is
    /// chance, so a failed write waits for what there is to read, which on a dead connection is soon.
    fn poll_after_last_words<T>(
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
                    self.verdict.hear(&error);
                    break;
                }
            }
        }
        Poll::Ready(Err(self.broken.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.accepted |= buf.filled().len() > before;
        if let Poll::Ready(Err(error)) = &read {
            self.verdict.hear(error);
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = match self.broken.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => Pin::new(&mut self.stream).poll_write(cx, buf),
        };
        self.poll_after_last_words(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match self.broken.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => Pin::new(&mut self.stream).poll_flush(cx),
        };
        self.poll_after_last_words(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
