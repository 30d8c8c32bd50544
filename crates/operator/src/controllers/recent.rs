//! What was read from the API server a moment ago and is used again: many workers ask for the same object, and each of them in every pass.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a reply is used again.
pub(super) const HOLDS: Duration = Duration::from_secs(30);

/// Replies by the name that was asked for. One reader at a time asks for a name, and the others take its reply.
#[derive(Debug)]
pub(super) struct Recent<T>(Mutex<HashMap<String, Arc<Reply<T>>>>);

/// The last reply, and when it was asked for.
type Reply<T> = tokio::sync::Mutex<Option<(Instant, T)>>;

impl<T: Clone> Recent<T> {
    /// The reply for a name: a recent one, else that of `ask`. A failure is not kept.
    pub(super) async fn get(
        &self,
        name: &str,
        ask: impl AsyncFnOnce() -> kube::Result<T>,
    ) -> kube::Result<T> {
        let reply = self.of(name);
        // It is held while it is asked for. Whoever waits gives up at a deadline, and then lets the next one ask.
        let mut reply = reply.lock().await;
        if let Some((_, known)) = reply.as_ref().filter(|(at, _)| at.elapsed() < HOLDS) {
            return Ok(known.clone());
        }
        let asked = Instant::now();
        let known = ask().await?;
        *reply = Some((asked, known.clone()));
        Ok(known)
    }

    /// The place for the reply of a name. Those that are used no more are removed.
    fn of(&self, name: &str) -> Arc<Reply<T>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, reply| {
            let is_recent =
                |reply: &Option<(Instant, T)>| reply.as_ref().is_some_and(|(at, _)| at.elapsed() < HOLDS);
            Arc::strong_count(reply) > 1 || reply.try_lock().is_ok_and(|reply| is_recent(&reply))
        });
        all.entry(name.to_owned()).or_default().clone()
    }
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::timeout;

    use super::*;
    use crate::runtime::lease::WRITE_DEADLINE;

    #[tokio::test(start_paused = true)]
    async fn l16_many_that_ask_for_one_name_are_answered_by_one_request_until_it_is_too_old() {
        let (recent, asked) = (Recent::default(), AtomicUsize::new(0));
        let ask = async |name: &'static str| {
            let reply = async || {
                asked.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(name)
            };
            recent.get(name, reply).await.unwrap()
        };
        let together = futures::future::join_all((0..300).map(|_| ask("n1"))).await;
        assert_eq!((together.len(), asked.load(Ordering::SeqCst)), (300, 1));
        ask("n2").await;
        assert_eq!(asked.load(Ordering::SeqCst), 2, "another name");
        tokio::time::advance(HOLDS).await;
        ask("n1").await;
        assert_eq!(asked.load(Ordering::SeqCst), 3, "it is too old");
        assert_eq!(recent.0.lock().unwrap().len(), 1, "what nobody asks for is removed");
    }

    #[tokio::test(start_paused = true)]
    async fn l16_a_read_that_fails_or_is_given_up_is_made_again_by_the_next_that_asks() {
        let recent = Recent::default();
        let failed = kube::Error::ReadEvents(std::io::Error::other("reset"));
        assert!(recent.get("n1", async || Err(failed)).await.is_err());
        let hangs = recent.get("n1", async || std::future::pending().await);
        assert!(timeout(WRITE_DEADLINE, hangs).await.is_err());
        assert_eq!(recent.get("n1", async || Ok(7)).await.unwrap(), 7);
    }
}
