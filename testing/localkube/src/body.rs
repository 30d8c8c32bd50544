//! The body of a reply: one document, or a stream of lines.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{BoxStream, Stream};
use http_body::{Frame, SizeHint};
use serde_json::Value;

/// The body of a reply.
pub struct Body(Inner);

enum Inner {
    Whole(Option<Bytes>),
    Stream(BoxStream<'static, Bytes>),
}

impl Body {
    /// One document.
    pub fn json(value: &Value) -> Self {
        Self::whole(format!("{value}\n"))
    }

    /// A text.
    pub fn whole(text: impl Into<Bytes>) -> Self {
        Self(Inner::Whole(Some(text.into())))
    }

    /// A stream of pieces.
    pub fn stream(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Inner::Stream(Box::pin(pieces)))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Inner::Whole(whole) => Poll::Ready(whole.take().map(|bytes| Ok(Frame::data(bytes)))),
            Inner::Stream(pieces) => {
                pieces.as_mut().poll_next(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Inner::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            Inner::Whole(None) => SizeHint::with_exact(0),
            Inner::Stream(_) => SizeHint::default(),
        }
    }
}
