//! Whether any member was reached. A Job may begin before the network knows its Pod: one that enforces NetworkPolicies lets a new Pod connect to
//! nobody until its address has come round.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorate_etcd::Transport;
use tokio::time::{Instant, sleep};

/// For how long a Job that has reached no member asks again. kube-router lets a new Pod connect after about a second, and its controller takes
/// longer where many Pods begin at once. Three attempts of so long end before anybody is alerted, and each keeps its Pod that long at most
/// when the cluster is really down. The Job's own deadline ends it earlier.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Between two times. A connection that is refused costs the member nothing.
const PAUSE: Duration = Duration::from_secs(1);

/// Why a member is no candidate.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// There was no connection to it: no address, nobody there, or nothing came back.
    Unreached(String),
    /// It was reached, or it is something else that time does not cure.
    Other(String),
}

impl Problem {
    /// The text of it.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Unreached(why) | Self::Other(why) => why,
        }
    }
}

/// Notes whether TCP connected: what is wrong after that is no matter of the network's.
#[derive(Clone, Default)]
pub(super) struct Reached(Arc<AtomicBool>);

impl Reached {
    /// The network, with a note of each connection.
    pub(super) fn transport(&self) -> Transport {
        let noted = self.0.clone();
        Transport::instead(move |address: SocketAddr| {
            let noted = noted.clone();
            async move {
                let stream = Transport::network().dial(address).await?;
                noted.store(true, Ordering::Relaxed);
                Ok(stream)
            }
        })
    }

    /// The problem of a call over that transport.
    pub(super) fn problem(&self, why: String) -> Problem {
        if self.0.load(Ordering::Relaxed) { Problem::Other(why) } else { Problem::Unreached(why) }
    }
}

/// Asks all members, and again while none of them is reached, for [`PATIENCE`] at most.
pub(super) async fn patiently<T, F: Future<Output = Vec<Result<T, Problem>>>>(
    mut ask: impl FnMut() -> F,
    log: fn(&str),
) -> Vec<Result<T, Problem>> {
    let began = Instant::now();
    let mut has_waited = false;
    loop {
        let answers = ask().await;
        if !is_nobody_there(&answers) || began.elapsed() >= PATIENCE {
            return answers;
        }
        if !has_waited {
            log("no member is reached yet: asking again, because the network may not know this Pod yet");
            has_waited = true;
        }
        sleep(PAUSE).await;
    }
}

fn is_nobody_there<T>(answers: &[Result<T, Problem>]) -> bool {
    !answers.is_empty() && answers.iter().all(|answer| matches!(answer, Err(Problem::Unreached(_))))
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    fn unreached() -> Result<u8, Problem> {
        Err(Problem::Unreached("connection refused".to_owned()))
    }

    fn refused() -> Result<u8, Problem> {
        Err(Problem::Other("it is a learner".to_owned()))
    }

    /// What comes of these answers, the last of which is given from then on; and after how many questions and how long.
    async fn asked(answers: Vec<Vec<Result<u8, Problem>>>) -> (Vec<Result<u8, Problem>>, usize, Duration) {
        let began = Instant::now();
        let mut answers = answers.into_iter().peekable();
        let (mut times, mut last) = (0, Vec::new());
        let end = patiently(
            || {
                times += 1;
                if let Some(next) = answers.next() {
                    last = next;
                }
                let again = |one: &Result<u8, Problem>| match one {
                    Ok(found) => Ok(*found),
                    Err(Problem::Unreached(why)) => Err(Problem::Unreached(why.clone())),
                    Err(Problem::Other(why)) => Err(Problem::Other(why.clone())),
                };
                ready(last.iter().map(again).collect())
            },
            |_| {},
        )
        .await;
        (end, times, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn while_no_member_is_reached_all_are_asked_again() {
        let answers = vec![
            vec![unreached(), unreached()],
            vec![unreached(), unreached()],
            vec![unreached(), Ok(2)],
            vec![Ok(1), Ok(2)],
        ];
        let (end, times, took) = asked(answers).await;
        assert_eq!((end, times), (vec![unreached(), Ok(2)], 3));
        assert!(took < Duration::from_secs(3), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends() {
        let (end, times, took) = asked(vec![vec![unreached()]]).await;
        assert_eq!(end, [unreached()]);
        assert!(
            times > 10 && took >= PATIENCE && took < PATIENCE + Duration::from_secs(2),
            "{times} {took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_was_reached_ends_the_waiting_whatever_it_says() {
        for answers in [vec![unreached(), refused()], vec![refused()], Vec::new()] {
            let (_, times, took) = asked(vec![answers]).await;
            assert_eq!((times, took), (1, Duration::ZERO));
        }
    }
}
