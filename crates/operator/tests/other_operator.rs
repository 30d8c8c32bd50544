//! R25: another operator with the same group, kind and names makes the same EtcdCluster the controller of its objects. None of them is changed.

use std::time::Duration;

use crate::world::{World, three_members, until};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::api::{Api, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const SECRETS: [&str; 3] = ["demo-server-tls", "demo-peer-tls", "demo-client-tls"];

#[tokio::test(start_paused = true)]
async fn what_another_operator_made_for_this_etcdcluster_is_named_and_left_alone() -> Result<()> {
    let world = World::new().await?;
    let cluster = world.create_cluster(three_members()).await?;
    let uid = cluster.metadata.uid.unwrap_or_default();
    let by_cluster = |name: &str| {
        json!({ "name": name, "labels": { "app": "demo", "controller": "demo" }, "ownerReferences": [{
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "name": "demo", "uid": uid, "controller": true,
        }] })
    };
    let services = world.api::<Service>();
    let spec = json!({ "clusterIP": "None", "selector": { "app": "demo" } });
    let mut theirs = vec![create(&services, json!({ "metadata": by_cluster("demo"), "spec": spec })).await?];
    let pods = world.api::<Pod>();
    let spec = json!({ "containers": [{ "name": "etcd", "image": "etcd" }] });
    let pod = json!({ "metadata": { "name": "demo-0", "labels": { "app": "demo" } }, "spec": spec });
    create(&pods, pod).await?;
    let secrets = world.api::<Secret>();
    for name in SECRETS {
        let secret = json!({ "metadata": by_cluster(name), "data": { "tls.crt": "dGhlaXJz" } });
        theirs.push(create(&secrets, secret).await?);
    }
    let _operator = world.operator();
    until("status names each of them", async || {
        let found = world.condition("Progressing", "False").await?;
        let is_named = found.as_ref().is_some_and(|(reason, message)| {
            let secrets = SECRETS.map(|name| format!("Secret default/{name} ("));
            let others = ["Service default/demo (", "Pod default/demo-0"];
            let mut names = secrets.iter().map(String::as_str).chain(others);
            reason == "ForeignObjects"
                && message.contains("made it for this EtcdCluster")
                && names.all(|named| message.contains(named))
        });
        Ok(if is_named { Ok(()) } else { Err(format!("{found:?}")) })
    })
    .await?;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let mut seen = vec![read(&services, "demo").await?];
    for name in SECRETS {
        seen.push(read(&secrets, name).await?);
    }
    ensure!(seen == theirs, "{seen:#?}");
    ensure!(world.names::<Pod>().await? == ["demo-0"], "no Pod is created beside theirs");
    let made = world.names::<Secret>().await?;
    ensure!(made.len() == SECRETS.len(), "the names are read before the first write: {made:?}");
    Ok(())
}

async fn create<K: Serialize + DeserializeOwned + Clone + std::fmt::Debug>(
    api: &Api<K>,
    object: Value,
) -> Result<Value> {
    let made = api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(serde_json::to_value(made)?)
}

async fn read<K: Serialize + DeserializeOwned + Clone + std::fmt::Debug>(
    api: &Api<K>,
    name: &str,
) -> Result<Value> {
    Ok(serde_json::to_value(api.get(name).await?)?)
}
