//! localkube compared with a real Kubernetes: the same calls must get the same answers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use quorate_localkube::LocalKube;
use quorate_localkube::controllers::ControlPlane;
use quorate_scenarios::conformance::{
    Call, Difference, Form, Kind, Pair, Side, Verb, definition, generate, run, shortest,
};
use quorate_scenarios::{NamespaceClient, Shell, kube_client, until};
use serde_json::{Value, json};

/// The number of sequences, and of calls in each.
const SEQUENCES: u64 = 24;
const LENGTH: usize = 25;

#[tokio::test(flavor = "multi_thread")]
async fn localkube_answers_as_a_real_kubernetes_does() -> Result<()> {
    let real = Real::start().await?;
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("QUORATE_TEST_SEED").unwrap_or(1);
    let sequences = number("QUORATE_TEST_SEQUENCES").unwrap_or(SEQUENCES);
    let calls = scheduling_gates();
    if let Some(difference) = real.compare(&calls).await? {
        bail!("{}\n{difference}", calls[difference.at]);
    }
    let (mut count, mut differences) = (0, Vec::new());
    for seed in first..first + sequences {
        let calls = generate(seed, LENGTH);
        count += calls.len();
        if let Some(difference) = real.compare(&calls).await? {
            eprintln!("seed {seed}, call {}: {}\n  {difference}", difference.at, calls[difference.at]);
            differences.push((seed, calls, difference));
        }
    }
    println!("sequences {sequences} calls {count}");
    let Some((seed, calls, difference)) = differences.into_iter().next() else { return Ok(()) };
    let (calls, difference) = shortest(&calls, difference, async |calls| real.compare(calls).await).await?;
    let calls: String = calls.iter().map(|call| format!("  {call}\n")).collect();
    bail!("seed {seed} (QUORATE_TEST_SEED={seed} QUORATE_TEST_SEQUENCES=1), shortened:\n{calls}{difference}")
}

/// A Pod with scheduling gates is not scheduled while it has one, and no gate can be added later.
fn scheduling_gates() -> Vec<Call> {
    let gates = |names: &[&str]| {
        let gates: Vec<_> = names.iter().map(|name| json!({"name": format!("example.org/{name}")})).collect();
        json!({"spec": {"schedulingGates": gates}})
    };
    let pod = |name: &str, more: &Value| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "schedulerName": "nobody", "automountServiceAccountToken": false,
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [{
                    "name": "etcd", "image": "etcd:v3.6.1",
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                }],
            },
        });
        for (field, value) in more["spec"].as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
        Call { body: pod, ..Call::of(Verb::Post, Kind::Pod, "") }
    };
    let patch = |body| Call { body, ..Call::of(Verb::Patch(Form::Merge), Kind::Pod, "a") };
    let bind = || {
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": "$namespace"});
        let body =
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": target});
        Call { subresource: "binding", body, ..Call::of(Verb::Post, Kind::Pod, "a") }
    };
    let placed = {
        let mut placed = gates(&["one"]);
        placed["spec"]["nodeName"] = json!("$namespace");
        placed
    };
    vec![
        pod("a", &gates(&["one", "two"])),
        pod("b", &placed),
        bind(),
        patch(gates(&["one", "two", "three"])),
        patch(gates(&["two"])),
        bind(),
        patch(json!({"spec": {"schedulingGates": null}})),
        patch(gates(&["one"])),
        bind(),
        Call::of(Verb::Get, Kind::Pod, "a"),
    ]
}

/// A real Kubernetes, with the definition that the calls need.
struct Real {
    kubeconfig: PathBuf,
    client: Client,
}

impl Real {
    async fn start() -> Result<Self> {
        let kubeconfig = std::env::var_os("QUORATE_TEST_KUBECONFIG").map(PathBuf::from);
        let kubeconfig = kubeconfig.context("run this through `cargo xtask test kube`")?;
        let client = kube_client(&kubeconfig, "default").await?;
        let real = Self { kubeconfig, client };
        define(&real.client).await?;
        Ok(real)
    }

    /// Sends the calls to both sides, each with a new namespace.
    async fn compare(&self, calls: &[Call]) -> Result<Option<Difference>> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("conform-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let client = kube_client(&self.kubeconfig, &name).await?;
        add_namespace(&client, &name).await?;
        NamespaceClient::new(client.clone()).wait_for_service_account().await?;
        let mut pair = Pair { ours: ours(&name).await?, real: Side::new(client.clone(), None).await? };
        let found = run(&mut pair, calls).await;
        delete_namespace(&client, &name).await?;
        found
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        // A program, because `Drop` cannot await.
        let name = definition().metadata.name.unwrap_or_default();
        let delete = format!("kubectl delete customresourcedefinition --wait=false {name}");
        if let Err(error) = Shell::start(&self.kubeconfig, "default").and_then(|shell| shell.now(&delete)) {
            eprintln!("{error:#}");
        }
    }
}

/// A new localkube, whose controllers run when the test asks them to.
async fn ours(namespace: &str) -> Result<Side> {
    let kube = LocalKube::new(Arc::new(now));
    quorate_apistore::cluster_defaults::create(kube.store(), "/volumes")?;
    let client = Client::new(kube.service(), namespace);
    define(&client).await?;
    add_namespace(&client, namespace).await?;
    let mut plane = ControlPlane::new(kube.store());
    Side::new(
        client,
        Some(Box::new(move || {
            plane.settle();
        })),
    )
    .await
}

async fn define(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let desired = definition();
    let name = desired.metadata.name.clone().context("a definition has a name")?;
    if definitions.get_opt(&name).await?.is_none() {
        definitions.create(&PostParams::default(), &desired).await?;
    }
    until("the definition is served", async || {
        // Right after it is established a real Kubernetes answers "storage is (re)initializing".
        let path = Kind::EtcdCluster.path(client.default_namespace());
        let list = http::Request::builder().uri(path).body(Vec::new())?;
        Ok(client.request::<Value>(list).await.map(drop).map_err(|error| error.to_string()))
    })
    .await
}

async fn add_namespace(client: &Client, name: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    // A node without a kubelet for scheduled Pods. Without a node a real Kubernetes would delete them.
    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({"metadata": {"name": name}, "spec": {"unschedulable": true}});
    nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
    Ok(())
}

/// Deletes a namespace, and removes finalizers that would block its deletion.
#[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
async fn delete_namespace(client: &Client, name: &str) -> Result<()> {
    for kind in Kind::ALL {
        let (version, plural) = (kind.api_version(), kind.plural());
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind.kind()), plural);
        let objects: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
        for object in objects.list(&ListParams::default()).await? {
            let name = object.metadata.name.unwrap_or_default();
            if object.metadata.finalizers.is_some() {
                let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                objects.patch(&name, &PatchParams::default(), &patch).await.map(drop).or_else(gone)?;
            }
        }
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.delete(name, &DeleteParams::default()).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

fn gone(error: kube::Error) -> Result<()> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(()),
        other => Err(other.into()),
    }
}

#[expect(clippy::disallowed_methods, reason = "these times are not compared")]
fn now() -> Timestamp {
    Timestamp::now()
}
