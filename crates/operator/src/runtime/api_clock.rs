//! Compares the operator's clock with the API server's, by the `Date` of every reply (R23). What follows from it: `quorate_reconcile::Clocks`.

use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, Request, header};
use kube::client::Body;
use quorate_model::{ClockDifference, Instant, Present, Span};
use quorate_reconcile::{Clocks, Noted, OwnTime};

use crate::runtime::clock::Clock;

/// What is known of the API server's clock.
#[derive(Clone, Debug)]
pub(crate) struct ApiClock {
    own: Clock,
    /// Where the clock that cannot be set begins.
    begun: tokio::time::Instant,
    known: Arc<Mutex<Clocks>>,
}

impl ApiClock {
    /// Nothing is known yet.
    pub(crate) fn new(own: Clock) -> Self {
        Self { own, begun: tokio::time::Instant::now(), known: Arc::default() }
    }

    /// How far the operator's clock is from the API server's now, if it is too far.
    pub(crate) fn difference(&self) -> Option<ClockDifference> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).difference(self.now())
    }

    /// The present by both clocks.
    pub(crate) fn present(&self) -> Present {
        Present::new(self.own.now(), self.difference())
    }

    /// What the API server's clock shows.
    pub(crate) fn api_servers_time(&self) -> Instant {
        ClockDifference::of_api_server(self.difference(), self.own.now())
    }

    /// A client whose replies are looked at.
    pub(crate) fn observing(&self, client: kube::Client) -> kube::Client {
        let namespace = client.default_namespace().to_owned();
        let clock = self.clone();
        let observing = tower::service_fn(move |request: Request<Body>| {
            let (client, clock) = (client.clone(), clock.clone());
            async move {
                let sent = clock.own.now();
                let reply = client.send(request).await;
                if let Some(date) = reply.as_ref().ok().and_then(|reply| date(reply.headers())) {
                    clock.note(sent, date);
                }
                reply
            }
        });
        kube::Client::new(observing, namespace)
    }

    fn note(&self, sent: Instant, date: Instant) {
        let noted = self.known.lock().unwrap_or_else(PoisonError::into_inner).note(sent, date, self.now());
        match noted {
            Noted::Differs(by) => {
                tracing::warn!("the operator's clock is {by}: grace periods and other waits take longer");
            }
            Noted::Agrees => tracing::info!("the operator's clock agrees with the API server's again"),
            Noted::Same => {}
        }
    }

    fn now(&self) -> OwnTime {
        let steady = Span(u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        OwnTime { wall: self.own.now(), steady }
    }
}

/// What the API server's clock showed, if the reply has it.
fn date(headers: &HeaderMap) -> Option<Instant> {
    let text = headers.get(header::DATE)?.to_str().ok()?;
    let at = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Instant(at.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_a_reply_is_read() {
        let mut headers = HeaderMap::new();
        assert_eq!(date(&headers), None);
        headers.insert(header::DATE, "Fri, 15 Jan 2027 08:00:00 GMT".parse().unwrap());
        assert_eq!(date(&headers), Some(Instant(1_800_000_000_000)));
        headers.insert(header::DATE, "at noon".parse().unwrap());
        assert_eq!(date(&headers), None);
    }
}
