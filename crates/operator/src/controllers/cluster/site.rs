//! Where a volume can be used: reads of its PersistentVolume, and the nodes that it is pinned to. They are made only
//! while a member has no Pod that runs, so no watch is kept for them. One node is asked about by many clusters when a rack is lost, so
//! what was read serves all of them for a while.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use kube::Api;
use kube::api::ListParams;
use quorate_manifests::SiteQuestion;
use quorate_manifests::site::{Pin, is_out_of_service, judge, pins, state_of};
use quorate_model::snapshot::Site;
use tokio::time::timeout;

use crate::controllers::cluster::Shared;
use crate::controllers::recent::Recent;
use crate::runtime::lease::WRITE_DEADLINE;

/// What was read lately.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    volumes: Recent<Option<Arc<PersistentVolume>>>,
    nodes: Recent<Option<Arc<Node>>>,
    /// By label selector.
    labelled: Recent<Vec<Arc<Node>>>,
}

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
