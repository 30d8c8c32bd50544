//! Faults of nodes. They are annotations of the Node object, which the playground's nodes follow.

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::cli::print_line;
use crate::cli::status::client;
use crate::home::Home;
use crate::node::{PARTITIONED, STOPPED};

pub(super) async fn partition(home: &Home, node: &str, undo: bool) -> Result<()> {
    annotate(home, node, PARTITIONED, undo).await?;
    print_line(if undo {
        format!("{node} reaches the other nodes again; etcd may take 5 s to resolve names anew")
    } else {
        format!(
            "{node} is cut off: members on it and those on other nodes do not reach each other. The operator reaches all.\n\
             Undo: quorate playground fault partition {node} --undo"
        )
    });
    Ok(())
}

pub(super) async fn stop(home: &Home, node: &str, undo: bool) -> Result<()> {
    annotate(home, node, STOPPED, undo).await?;
    print_line(if undo {
        format!("{node} starts, with the Pods that are still its own")
    } else {
        format!(
            "{node} is stopped: its processes are killed and its Pods are not started again. Data on its volumes stay.\n\
             Undo: quorate playground fault stop-node {node} --undo"
        )
    });
    Ok(())
}

async fn annotate(home: &Home, node: &str, annotation: &str, remove: bool) -> Result<()> {
    let nodes: Api<Node> = Api::all(client(home).await?);
    let list = nodes.list(&kube::api::ListParams::default()).await?;
    let names: Vec<String> = list.iter().map(ResourceExt::name_any).collect();
    if !names.iter().any(|name| name == node) {
        bail!("there is no node {node}; the nodes are {}", names.join(", "));
    }
    let value = (!remove).then_some("true");
    let patch = Patch::Merge(json!({"metadata": {"annotations": {annotation: value}}}));
    nodes.patch(node, &PatchParams::default(), &patch).await?;
    Ok(())
}
