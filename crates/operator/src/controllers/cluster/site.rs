//! Where a volume can be used: reads of its PersistentVolume, its storage class, and the nodes that it is pinned to. They are made only
//! while a member has no Pod that runs, so no watch is kept for them.

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::ListParams;
use quorate_manifests::SiteQuestion;
use quorate_manifests::site::{Pin, created_again, judge, pins, state_of, waits_for_consumer};
use quorate_model::snapshot::Site;
use tokio::time::timeout;

use crate::controllers::cluster::Shared;
use crate::runtime::lease::WRITE_DEADLINE;

/// What Kubernetes says about the volume. An error if anything could not be read that it depends on.
pub(super) async fn read(shared: &Shared, question: &SiteQuestion) -> Result<Site, String> {
    let read = timeout(WRITE_DEADLINE, ask(shared, question)).await;
    read.map_err(|_| format!("no answer within {WRITE_DEADLINE:?}"))?.map_err(|error| error.to_string())
}

async fn ask(shared: &Shared, question: &SiteQuestion) -> Result<Site, kube::Error> {
    let client = &shared.runtime.client;
    let waits = match &question.class {
        Some(class) => match Api::<StorageClass>::all(client.clone()).get_opt(class).await {
            // A class that does not exist binds nothing.
            Ok(class) => class.is_some_and(|class| waits_for_consumer(&class)),
            // It may not be read here: then only the volume itself shows whether it is bound.
            Err(kube::Error::Api(status)) if status.code == 403 => true,
            Err(error) => return Err(error),
        },
        None => true,
    };
    let state = async |name: &Option<String>| match name {
        Some(name) => Ok(Some(state_of(Api::<Node>::all(client.clone()).get_opt(name).await?.as_ref()))),
        None => Ok::<_, kube::Error>(None),
    };
    let (node, served_on) = (state(&question.node).await?, state(&question.served_on).await?);
    let (mut found, mut again) = (Vec::new(), None);
    if let Some(name) = &question.volume
        && let Some(volume) = Api::<PersistentVolume>::all(client.clone()).get_opt(name).await?
    {
        for pin in pins(&volume) {
            let nodes = nodes(shared, &pin).await?;
            found.push((pin, nodes));
        }
        again = created_again(&volume, question.since, &found, shared.runtime.clock.now());
    }
    Ok(Site { node, served_on, created_again: again, ..judge(&found, waits) })
}

/// The nodes with that label, and the one with that name: the labels of a driver may come later than the node.
async fn nodes(shared: &Shared, pin: &Pin) -> Result<Vec<Node>, kube::Error> {
    let nodes = Api::<Node>::all(shared.runtime.client.clone());
    let named = nodes.get_opt(&pin.value).await?;
    let labelled = match pin.label_selector() {
        Some(selector) => nodes.list(&ListParams::default().labels(&selector)).await?.items,
        None => Vec::new(),
    };
    Ok(named.into_iter().chain(labelled).collect())
}
