//! Compares the operator's clock with the API server's, by the `Date` of every reply (R23).
//!
//! `Date` has whole seconds, and was written at some time between request and reply. So only what is certainly different counts. Where
//! API servers disagree, the last one that differed counts for a while.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, Request, header};
use kube::client::Body;
use quorate_model::{ClockDifference, Instant, Span};

use crate::runtime::clock::Clock;

/// From here on the clocks differ.
const TOO_FAR: Span = Span::seconds(60);

/// `Date` has no fractions of it.
const RESOLUTION: Span = Span::seconds(1);

/// A reply that took longer shows too little.
const SLOW: Span = Span::seconds(5);

/// So long after the last reply that differed the clocks agree again.
const SETTLED_AFTER: Duration = Duration::from_mins(1);

/// A difference that changes by less is reported as it was: a report that changes with every second helps nobody.
const CHANGED_BY: Span = Span::seconds(60);

/// What is known of the API server's clock.
#[derive(Clone, Debug)]
pub(crate) struct ApiClock {
    own: Clock,
    differs: Arc<Mutex<Option<Differs>>>,
}

#[derive(Clone, Copy, Debug)]
struct Differs {
    by: ClockDifference,
    /// When the last reply differed, by a clock that cannot be set.
    at: tokio::time::Instant,
}

impl ApiClock {
    /// Nothing is known yet.
    pub(crate) fn new(own: Clock) -> Self {
        Self { own, differs: Arc::default() }
    }

    /// How far the operator's clock is from the API server's, if it is too far.
    pub(crate) fn difference(&self) -> Option<ClockDifference> {
        self.differs.lock().unwrap_or_else(PoisonError::into_inner).map(|differs| differs.by)
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
                    clock.note(sent, date, clock.own.now());
                }
                reply
            }
        });
        kube::Client::new(observing, namespace)
    }

    fn note(&self, sent: Instant, date: Instant, received: Instant) {
        // Also a clock that was set meanwhile shows nothing.
        if received < sent || received - sent > SLOW {
            return;
        }
        let (now, certain) = (tokio::time::Instant::now(), certain(sent, date, received));
        let mut differs = self.differs.lock().unwrap_or_else(PoisonError::into_inner);
        match (certain, *differs) {
            (Some(by), before) => {
                if before.is_none() {
                    tracing::warn!(
                        "the operator's clock is {by}: nothing is signed, deleted or given up by it"
                    );
                }
                let kept = before.map(|before| before.by).filter(|before| is_about(*before, by));
                *differs = Some(Differs { by: kept.unwrap_or(by), at: now });
            }
            (None, Some(before)) if now - before.at >= SETTLED_AFTER => {
                tracing::info!("the operator's clock agrees with the API server's again");
                *differs = None;
            }
            (None, _) => {}
        }
    }
}

/// What the API server's clock showed, if the reply has it.
fn date(headers: &HeaderMap) -> Option<Instant> {
    let text = headers.get(header::DATE)?.to_str().ok()?;
    let at = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Instant(at.timestamp().as_millisecond()))
}

/// The least by which the clocks differ, if it is too much.
fn certain(sent: Instant, date: Instant, received: Instant) -> Option<ClockDifference> {
    let (ahead, behind) = (sent - (date + RESOLUTION), date - received);
    if ahead > TOO_FAR {
        Some(ClockDifference::Ahead(ahead))
    } else if behind > TOO_FAR {
        Some(ClockDifference::Behind(behind))
    } else {
        None
    }
}

fn is_about(one: ClockDifference, other: ClockDifference) -> bool {
    match (one, other) {
        (ClockDifference::Ahead(one), ClockDifference::Ahead(other))
        | (ClockDifference::Behind(one), ClockDifference::Behind(other)) => {
            one.0.abs_diff(other.0) < CHANGED_BY.0
        }
        (ClockDifference::Ahead(_), ClockDifference::Behind(_))
        | (ClockDifference::Behind(_), ClockDifference::Ahead(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Instant = Instant(1_800_000_000_000);

    fn at(seconds: i64) -> Instant {
        Instant(NOON.0 + seconds * 1000)
    }

    #[test]
    fn m08_only_what_is_certainly_different_counts() {
        let ahead = |seconds| Some(ClockDifference::Ahead(Span::seconds(seconds)));
        let behind = |seconds| Some(ClockDifference::Behind(Span::seconds(seconds)));
        // sent, date, received
        let table = [
            ((0, 0, 0), None),
            ((0, -61, 1), None),
            ((0, -62, 1), ahead(61)),
            ((0, 61, 1), None),
            ((0, 62, 1), behind(61)),
            ((0, -8 * 3600, 0), ahead(8 * 3600 - 1)),
        ];
        for ((sent, date, received), differs) in table {
            assert_eq!(certain(at(sent), at(date), at(received)), differs, "{sent} {date} {received}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn m08_the_clocks_agree_again_a_minute_after_the_last_reply_that_differed() {
        let clock = ApiClock::new(Clock::of_runtime(NOON));
        clock.note(at(0), at(-600), at(0));
        assert_eq!(clock.difference(), Some(ClockDifference::Ahead(Span::seconds(599))));
        clock.note(at(5), at(-590), at(5));
        assert_eq!(clock.difference(), Some(ClockDifference::Ahead(Span::seconds(599))), "it stays");
        clock.note(at(5), at(5), at(5));
        assert!(clock.difference().is_some(), "another API server");
        tokio::time::advance(SETTLED_AFTER).await;
        clock.note(at(70), at(70), at(90));
        assert!(clock.difference().is_some(), "a slow reply shows nothing");
        clock.note(at(70), at(70), at(70));
        assert_eq!(clock.difference(), None);
    }

    #[test]
    fn the_date_of_a_reply_is_read() {
        let mut headers = HeaderMap::new();
        assert_eq!(date(&headers), None);
        headers.insert(header::DATE, "Fri, 15 Jan 2027 08:00:00 GMT".parse().unwrap());
        assert_eq!(date(&headers), Some(NOON));
        headers.insert(header::DATE, "at noon".parse().unwrap());
        assert_eq!(date(&headers), None);
    }
}
