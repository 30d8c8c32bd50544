//! Where a volume can be used: reads of its PersistentVolume, and the nodes that it is pinned to. They are made only
//! while a member has no Pod that runs, so no watch is kept for them. One node is asked about by many clusters when a rack is lost, so
//! what was read serves all of them for a while.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use kube::Api;
use kube::api::ListParams;
use quorate_manifests::SiteQuestion;
use quorate_manifests::site::{Pin, is_out_of_service, judge, pins, state_of};
use quorate_model::snapshot::Site;
use tokio::time::{Instant, timeout};

use crate::controllers::cluster::Shared;
use crate::runtime::lease::WRITE_DEADLINE;

/// How long what was read about a node or a volume is used again.
const HOLDS: Duration = Duration::from_secs(30);

/// What was read lately.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    volumes: Recent<Option<Arc<PersistentVolume>>>,
    nodes: Recent<Option<Arc<Node>>>,
    /// By label selector.
    labelled: Recent<Vec<Arc<Node>>>,
    /// The last words of nodes about Pods, by uid.
    pub(super) said: Recent<Option<String>>,
}

/// Replies by the name that was asked for. One reader at a time asks for a name, and the others take its reply.
#[derive(Debug)]
pub(super) struct Recent<T>(Mutex<HashMap<String, Arc<Reply<T>>>>);

/// The last reply, and when it was asked for.
type Reply<T> = tokio::sync::Mutex<Option<(Instant, T)>>;

/// What Kubernetes says about the volume. An error if anything could not be read that it depends on.
pub(super) async fn read(shared: &Shared, question: &SiteQuestion) -> Result<Site, String> {
    let read = timeout(WRITE_DEADLINE, ask(shared, question)).await;
    read.map_err(|_| format!("no answer within {WRITE_DEADLINE:?}"))?.map_err(|error| error.to_string())
}

async fn ask(shared: &Shared, question: &SiteQuestion) -> Result<Site, kube::Error> {
    let sites = &shared.sites;
    // Whether a container may still run there is asked anew: what rests on it ends members.
    let state = async |name: &Option<String>| match name {
        Some(name) => Ok(Some(state_of(node(shared, name).await?.as_deref()))),
        None => Ok::<_, kube::Error>(None),
    };
    let (on, served_on) = (state(&question.node).await?, state(&question.served_on).await?);
    let mut found = Vec::new();
    if let Some(name) = &question.volume
        && let Some(volume) = sites.volumes.get(name, async || volume(shared, name).await).await?
    {
        for pin in pins(&volume) {
            let nodes = nodes(shared, &pin).await?;
            found.push((pin, nodes));
        }
    }
    Ok(Site { node: on, served_on, ..judge(&found) })
}

/// The node with that name: the labels of a driver may come later than the node. Where it is not there, or out of service, also those
/// with the label.
async fn nodes(shared: &Shared, pin: &Pin) -> Result<Vec<Arc<Node>>, kube::Error> {
    let named = shared.sites.nodes.get(&pin.value, async || node(shared, &pin.value).await).await?;
    let labelled = match pin.label_selector() {
        Some(selector) if named.as_deref().is_none_or(is_out_of_service) => {
            shared.sites.labelled.get(&selector, async || labelled(shared, &selector).await).await?
        }
        Some(_) | None => Vec::new(),
    };
    Ok(named.into_iter().chain(labelled).collect())
}

async fn volume(shared: &Shared, name: &str) -> Result<Option<Arc<PersistentVolume>>, kube::Error> {
    let _permit = shared.runtime.readers.acquire().await;
    Ok(Api::all(shared.runtime.client.clone()).get_opt(name).await?.map(Arc::new))
}

async fn node(shared: &Shared, name: &str) -> Result<Option<Arc<Node>>, kube::Error> {
    let _permit = shared.runtime.readers.acquire().await;
    Ok(Api::all(shared.runtime.client.clone()).get_opt(name).await?.map(Arc::new))
}

async fn labelled(shared: &Shared, selector: &str) -> Result<Vec<Arc<Node>>, kube::Error> {
    let _permit = shared.runtime.readers.acquire().await;
    let nodes = Api::<Node>::all(shared.runtime.client.clone());
    let listed = nodes.list(&ListParams::default().labels(selector)).await?;
    Ok(listed.items.into_iter().map(Arc::new).collect())
}

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

    use super::*;

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
