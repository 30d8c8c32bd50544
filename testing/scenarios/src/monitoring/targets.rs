//! What the discovery of Kubernetes (`role: pod`) finds, as a file that Prometheus reads.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

/// How often the Pods are listed.
const PACE: Duration = Duration::from_millis(500);

/// Keeps the file up to date until this is dropped.
pub(super) struct Targets(JoinHandle<()>);

impl Targets {
    pub(super) async fn write(client: Client, file: PathBuf) -> Result<Self> {
        let pods: Api<Pod> = Api::all(client);
        let mut last = None;
        update(&pods, &file, &mut last).await?;
        let task = async move {
            loop {
                tokio::time::sleep(PACE).await;
                // While the API does not answer, Prometheus scrapes what was there, as with the discovery itself.
                let _ = update(&pods, &file, &mut last).await;
            }
        };
        Ok(Self(tokio::spawn(task)))
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn update(pods: &Api<Pod>, file: &Path, last: &mut Option<Value>) -> Result<()> {
    let found: Vec<Value> = pods.list(&ListParams::default()).await?.items.iter().flat_map(of_pod).collect();
    let found = json!(found);
    if last.as_ref() != Some(&found) {
        let fresh = file.with_extension("new");
        std::fs::write(&fresh, found.to_string())?;
        std::fs::rename(&fresh, file).context("cannot write the targets")?;
        *last = Some(found);
    }
    Ok(())
}

/// One target for each port that a container names, with the labels that the discovery gives it.
fn of_pod(pod: &Pod) -> Vec<Value> {
    let Some(ip) = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()) else { return Vec::new() };
    let ip = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    let mut of_all = Map::new();
    of_all.insert("__meta_kubernetes_namespace".to_owned(), json!(pod.namespace()));
    of_all.insert("__meta_kubernetes_pod_name".to_owned(), json!(pod.name_any()));
    for (name, value) in pod.labels() {
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        of_all.insert(format!("__meta_kubernetes_pod_label_{name}"), json!(value));
        of_all.insert(format!("__meta_kubernetes_pod_labelpresent_{name}"), json!("true"));
    }
    let spec = pod.spec.as_ref();
    let first = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten();
    let containers = first.chain(spec.into_iter().flat_map(|spec| &spec.containers));
    containers.flat_map(|container| of_container(container, &ip, &of_all)).collect()
}

fn of_container(container: &Container, ip: &str, of_all: &Map<String, Value>) -> Vec<Value> {
    let ports = container.ports.iter().flatten();
    let target = |port: &k8s_openapi::api::core::v1::ContainerPort| {
        let mut labels = of_all.clone();
        labels.insert("__meta_kubernetes_pod_container_name".to_owned(), json!(container.name));
        labels.insert("__meta_kubernetes_pod_container_port_name".to_owned(), json!(port.name));
        json!({"targets": [format!("{ip}:{}", port.container_port)], "labels": labels})
    };
    ports.map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_a_pod_is_a_target_with_the_labels_of_the_pod() {
        let pod = json!({
            "metadata": {"name": "demo-0", "namespace": "a", "labels": {"operator.etcd.io/cluster": "demo"}},
            "spec": {"containers": [{"name": "etcd", "ports": [{"name": "metrics", "containerPort": 2381}]}]},
            "status": {"podIP": "fd00::1"},
        });
        let labels = json!({
            "__meta_kubernetes_namespace": "a",
            "__meta_kubernetes_pod_name": "demo-0",
            "__meta_kubernetes_pod_label_operator_etcd_io_cluster": "demo",
            "__meta_kubernetes_pod_labelpresent_operator_etcd_io_cluster": "true",
            "__meta_kubernetes_pod_container_name": "etcd",
            "__meta_kubernetes_pod_container_port_name": "metrics",
        });
        let found = of_pod(&serde_json::from_value(pod).unwrap());
        assert_eq!(found, [json!({"targets": ["[fd00::1]:2381"], "labels": labels})]);
    }

    #[test]
    fn a_pod_without_an_address_is_none() {
        let pod = json!({"spec": {"containers": [{"name": "etcd", "ports": [{"containerPort": 1}]}]}});
        assert_eq!(of_pod(&serde_json::from_value(pod).unwrap()), Vec::<Value>::new());
    }
}
