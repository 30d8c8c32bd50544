//! The DataStore of Kamaji as the operator keeps it: published, put right, held while tenants use it, and deleted before any member is stopped.
//! Kamaji itself does not run here: the test writes what it would.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::world::{DieAt, Operator, RequestOutcome, Sent, World, until, until_pods};
use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use quorate_api::{EtcdCluster, keys};
use quorate_manifests::record::witness;
use quorate_model::{CrashPoint, Step};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The steps of the protocol, each with where it is passed.
const STEPS: [Step; 6] = [Step::O1, Step::O2, Step::O3, Step::O4, Step::O5, Step::O6];

/// Kamaji's kind: its fields, what is required, and its rules.
async fn install(world: &World) -> Result<()> {
    let content = json!({
        "type": "object",
        "properties": {
            "content": { "type": "string", "format": "byte" },
            "secretReference": {
                "type": "object", "required": ["keyPath"],
                "properties": {
                    "name": { "type": "string" }, "namespace": { "type": "string" },
                    "keyPath": { "type": "string", "minLength": 1 },
                },
            },
        },
    });
    let with_key = json!({
        "type": "object", "required": ["certificate", "privateKey"],
        "properties": { "certificate": content, "privateKey": content },
    });
    let authority = json!({
        "type": "object", "required": ["certificate"],
        "properties": { "certificate": content, "privateKey": content },
    });
    let spec = json!({
        "type": "object", "required": ["driver", "endpoints"],
        "properties": {
            "driver": {
                "type": "string", "enum": ["etcd", "MySQL", "PostgreSQL", "NATS"],
                "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "driver is immutable" }],
            },
            "endpoints": { "type": "array", "minItems": 1, "items": { "type": "string" } },
            "basicAuth": {
                "type": "object", "required": ["username", "password"],
                "properties": { "username": content, "password": content },
            },
            "tlsConfig": {
                "type": "object", "required": ["certificateAuthority"],
                "properties": { "certificateAuthority": authority, "clientCertificate": with_key },
            },
        },
        "x-kubernetes-validations": [{
            "rule": "self.driver != 'etcd' || (has(self.tlsConfig) && has(self.tlsConfig.certificateAuthority.privateKey) && has(self.tlsConfig.clientCertificate))",
            "message": "driver etcd needs the key of the authority and a client certificate",
        }],
    });
    let status = json!({
        "type": "object",
        "properties": {
            "ready": { "type": "boolean" }, "observedGeneration": { "type": "integer" },
            "usedBy": { "type": "array", "items": { "type": "string" } },
            "conditions": { "type": "array", "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
        },
    });
    let schema = json!({ "type": "object", "required": ["spec"], "properties": {
        "apiVersion": { "type": "string" }, "kind": { "type": "string" }, "metadata": { "type": "object" },
        "spec": spec, "status": status,
    } });
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": { "name": "datastores.kamaji.clastix.io" },
        "spec": {
            "group": "kamaji.clastix.io", "scope": "Cluster",
            "names": { "kind": "DataStore", "plural": "datastores", "singular": "datastore", "listKind": "DataStoreList" },
            "versions": [{ "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} } }],
        },
    }))?;
    let api: Api<CustomResourceDefinition> = Api::all(world.client_through(|_| RequestOutcome::Open));
    api.create(&PostParams::default(), &definition).await?;
    Ok(())
}

fn stores(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("kamaji.clastix.io", "v1alpha1", "DataStore");
    Api::all_with(world.client.clone(), &ApiResource::from_gvk(&kind))
}

fn spec() -> Value {
    json!({
        "size": 1, "version": "3.6.16", "auth": { "enabled": true },
        "etcd": { "autoCompactionMode": "periodic", "autoCompactionRetention": "5m" },
    })
}

fn asking_for(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": { "name": "demo", "annotations": { keys::KAMAJI_DATA_STORE: name } }, "spec": spec,
    })
}

async fn create(world: &World, cluster: Value) -> Result<()> {
    world.api::<EtcdCluster>().create(&PostParams::default(), &serde_json::from_value(cluster)?).await?;
    Ok(())
}

/// Members have no TLS here, so what they would have come to is written into status.
async fn serves(world: &World) -> Result<()> {
    // An edit before that begins the bootstrap anew, with another name.
    until("a Pod exists", async || {
        let pods = world.api::<Pod>().list(&ListParams::default()).await?;
        Ok(if pods.items.len() == 1 { Ok(()) } else { Err(format!("{} Pods", pods.items.len())) })
    })
    .await?;
    let served = json!({ "status": { "clusterID": "8e9e05c52164694d", "auth": { "stage": "On" } } });
    let clusters = world.api::<EtcdCluster>();
    let served = clusters.patch_status("demo", &PatchParams::default(), &Patch::Merge(served)).await?;
    // As the operator would have written it.
    let hash = witness::hash(&served.status.unwrap_or_default());
    let witnessed = Patch::Merge(json!({ "status": { "recordHash": hash } }));
    clusters.patch_status("demo", &PatchParams::default(), &witnessed).await?;
    Ok(())
}

/// An operator, and a cluster whose DataStore `tenants` is published.
async fn published(world: &World) -> Result<Operator> {
    install(world).await?;
    let operator = world.operator();
    create(world, asking_for("tenants", &spec())).await?;
    serves(world).await?;
    says(world, "True Published: ").await?;
    Ok(operator)
}

async fn says(world: &World, text: &str) -> Result<()> {
    until(text, async || {
        let conditions = world.status().await?.conditions;
        let seen = conditions.into_iter().find(|one| one.type_ == "DataStoreReady");
        let seen = seen.map(|seen| format!("{} {}: {}", seen.status, seen.reason, seen.message));
        let seen = seen.unwrap_or_default();
        Ok(if seen.contains(text) { Ok(()) } else { Err(seen) })
    })
    .await
}

async fn names(world: &World) -> Result<Vec<String>> {
    let listed = stores(world).list(&ListParams::default()).await?;
    Ok(listed.items.into_iter().filter_map(|one| one.metadata.name).collect())
}

async fn are(world: &World, desired: &[&str]) -> Result<()> {
    until("the DataStores follow", async || {
        let seen = names(world).await?;
        Ok(if seen == desired { Ok(()) } else { Err(format!("{seen:?}; {:#?}", world.status().await?)) })
    })
    .await
}

async fn used_by(world: &World, name: &str, tenants: &[&str]) -> Result<()> {
    let status = json!({ "status": { "ready": true, "usedBy": tenants } });
    stores(world).patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

async fn ask_for(world: &World, name: Option<&str>) -> Result<()> {
    let patch = json!({ "metadata": { "annotations": { keys::KAMAJI_DATA_STORE: name } } });
    world.api::<EtcdCluster>().patch("demo", &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn is_gone(world: &World) -> Result<()> {
    until("the EtcdCluster is gone", async || {
        let found = world.api::<EtcdCluster>().get_opt("demo").await?;
        Ok(found.map_or(Ok(()), |found| Err(format!("{:#?}", found.status))))
    })
    .await
}

async fn certificate(world: &World) -> Result<Option<Vec<u8>>> {
    let secret = world.api::<Secret>().get_opt("demo-root-client-tls").await?;
    Ok(secret.and_then(|secret| secret.data).and_then(|mut data| data.remove("tls.crt")).map(|pem| pem.0))
}

#[tokio::test(start_paused = true)]
async fn a_datastore_is_published_through_lost_replies_and_what_others_change_is_put_right() -> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let lost: Arc<[AtomicBool; 2]> = Arc::default();
    let seen = lost.clone();
    let client = world.client_through(move |sent| {
        let is_of_store = sent.path.contains("/datastores");
        let is_of_secret =
            sent.path.ends_with("/secrets") && sent.body["metadata"]["name"] == "demo-root-client-tls";
        let nth = usize::from(!is_of_store);
        let is_first =
            sent.method == "POST" && (is_of_store || is_of_secret) && !seen[nth].swap(true, Ordering::SeqCst);
        if is_first { RequestOutcome::ReplyLost } else { RequestOutcome::Open }
    });
    let operator = world.operator_over(client, |_| {});
    create(&world, asking_for("tenants", &spec())).await?;
    says(&world, "False NotServing: ").await?;
    ensure!(names(&world).await?.is_empty(), "nothing is made before it serves");
    serves(&world).await?;
    says(&world, "True Published: ").await?;
    says(&world, "Kamaji has reported nothing of it yet").await?;
    ensure!(lost.iter().all(|lost| lost.load(Ordering::SeqCst)), "no reply was lost");

    let store = stores(&world).get("tenants").await?;
    let part = |secret: &str, key: &str| json!({ "secretReference": { "name": secret, "namespace": "default", "keyPath": key } });
    let expected = json!({
        "driver": "etcd",
        "endpoints": ["demo-client.default.svc:2379"],
        "tlsConfig": {
            "certificateAuthority": {
                "certificate": part("demo-root-client-tls", "ca.crt"), "privateKey": part("demo-root-client-tls", "ca.key"),
            },
            "clientCertificate": {
                "certificate": part("demo-root-client-tls", "tls.crt"), "privateKey": part("demo-root-client-tls", "tls.key"),
            },
        },
    });
    ensure!(store.data["spec"] == expected, "{:#}", store.data["spec"]);
    let cluster = world.api::<EtcdCluster>().get("demo").await?;
    let labels = store.metadata.labels.clone().context("no labels")?;
    ensure!(labels.get(keys::CLUSTER_UID) == cluster.metadata.uid.as_ref(), "{labels:?}");
    ensure!(
        (&*labels[keys::CLUSTER], &*labels[keys::CLUSTER_NAMESPACE]) == ("demo", "default"),
        "{labels:?}"
    );
    ensure!(certificate(&world).await?.is_some());

    used_by(&world, "tenants", &["a/one"]).await?;
    says(&world, "Kamaji reports it ready. Tenant a/one uses it").await?;
    let writes = || {
        let of_it = |sent: &Sent| {
            sent.path.contains("/datastores")
                || sent.path.contains("root-client-tls")
                || sent.body["metadata"]["finalizers"].is_array()
        };
        world.sent.writes().iter().filter(|sent| of_it(sent)).count()
    };
    let before = writes();
    tokio::time::sleep(Duration::from_mins(10)).await;
    ensure!(writes() == before, "nothing of it is written while nothing changes");

    let drift = json!({ "metadata": { "labels": { "theirs": "x" } }, "spec": {
        "endpoints": ["elsewhere:2379"], "basicAuth": { "username": { "content": "eA==" }, "password": { "content": "eA==" } },
        "tlsConfig": { "clientCertificate": { "certificate": { "content": "eA==" } } },
    } });
    stores(&world).patch("tenants", &PatchParams::default(), &Patch::Merge(drift)).await?;
    until("it is put right", async || {
        let seen = stores(&world).get("tenants").await?;
        let is_kept = seen.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("theirs"));
        Ok(if seen.data["spec"] == expected && is_kept { Ok(()) } else { Err(seen.data["spec"].to_string()) })
    })
    .await?;
    world.delete::<Secret>("demo-root-client-tls").await?;
    until("the credential is written again", async || {
        Ok(certificate(&world).await?.map(drop).ok_or_else(|| "missing".to_owned()))
    })
    .await?;
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn while_tenants_use_it_the_deletion_waits_and_no_member_is_touched() -> Result<()> {
    let world = World::new().await?;
    let operator = published(&world).await?;
    used_by(&world, "tenants", &["a/one", "b/two"]).await?;
    let pod = world.api::<Pod>().get("demo-0").await?.metadata.uid;
    world.delete::<EtcdCluster>("demo").await?;
    says(&world, "False DataStoreInUse: ").await?;
    says(&world, "Tenants a/one, b/two use it").await?;
    tokio::time::sleep(Duration::from_mins(30)).await;
    ensure!(world.api::<Pod>().get("demo-0").await?.metadata.uid == pod, "its member was stopped");
    ensure!(names(&world).await? == ["tenants"] && certificate(&world).await?.is_some());
    let (reason, message) = world.condition("Progressing", "True").await?.context("not Progressing")?;
    ensure!(reason == "DataStoreInUse" && message.contains("a/one, b/two"), "{reason}: {message}");

    used_by(&world, "tenants", &[]).await?;
    is_gone(&world).await?;
    ensure!(names(&world).await?.is_empty() && world.names::<Pod>().await?.is_empty());
    ensure!(certificate(&world).await?.is_none());
    operator.stop().await
}

/// Kamaji's kind of tenants, as far as it is read here.
async fn install_planes(world: &World) -> Result<Api<DynamicObject>> {
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": { "name": "tenantcontrolplanes.kamaji.clastix.io" },
        "spec": {
            "group": "kamaji.clastix.io", "scope": "Namespaced",
            "names": { "kind": "TenantControlPlane", "plural": "tenantcontrolplanes", "singular": "tenantcontrolplane", "listKind": "TenantControlPlaneList" },
            "versions": [{ "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
        },
    }))?;
    let api: Api<CustomResourceDefinition> = Api::all(world.client_through(|_| RequestOutcome::Open));
    api.create(&PostParams::default(), &definition).await?;
    let kind = GroupVersionKind::gvk("kamaji.clastix.io", "v1alpha1", "TenantControlPlane");
    Ok(Api::namespaced_with(world.client.clone(), "default", &ApiResource::from_gvk(&kind)))
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_kamaji_does_not_name_uses_the_datastore_all_the_same() -> Result<()> {
    let world = World::new().await?;
    let operator = published(&world).await?;
    let planes = install_planes(&world).await?;
    let plane = json!({
        "apiVersion": "kamaji.clastix.io/v1alpha1", "kind": "TenantControlPlane", "metadata": { "name": "events-only" },
        "spec": { "dataStore": "other", "dataStoreOverrides": [{ "resource": "/events", "dataStore": "tenants" }] },
    });
    planes.create(&PostParams::default(), &serde_json::from_value(plane)?).await?;
    let api_server = json!({
        "metadata": { "name": "api-server", "labels": {
            "component.kamaji.clastix.io/datastore": "tenants", "kamaji.clastix.io/name": "moves",
        } },
        "spec": { "containers": [{ "name": "kube-apiserver", "image": "k" }] },
    });
    world.api::<Pod>().create(&PostParams::default(), &serde_json::from_value(api_server)?).await?;
    used_by(&world, "tenants", &[]).await?;
    world.delete::<EtcdCluster>("demo").await?;
    says(&world, "Tenants default/events-only, default/moves use it").await?;
    tokio::time::sleep(Duration::from_mins(5)).await;
    ensure!(names(&world).await? == ["tenants"], "it was deleted");

    let elsewhere = json!({ "spec": { "dataStoreOverrides": null } });
    planes.patch("events-only", &PatchParams::default(), &Patch::Merge(elsewhere)).await?;
    says(&world, "Tenant default/moves uses it").await?;
    world.delete::<Pod>("api-server").await?;
    is_gone(&world).await?;
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_comes_at_the_last_moment_keeps_its_datastore() -> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let (came, late) = (Arc::new(AtomicBool::new(false)), stores(&world));
    let seen = came.clone();
    let client = world.client_through(move |sent| {
        let is_deletion = sent.method == "DELETE" && sent.path.contains("/datastores/");
        // It is slow, and a tenant comes meanwhile.
        if is_deletion && !seen.swap(true, Ordering::SeqCst) {
            let late = late.clone();
            tokio::spawn(async move {
                let status = json!({ "status": { "ready": true, "usedBy": ["a/late"] } });
                let _ = late.patch_status("tenants", &PatchParams::default(), &Patch::Merge(status)).await;
            });
            return RequestOutcome::Slow(Duration::from_secs(1));
        }
        RequestOutcome::Open
    });
    let operator = world.operator_over(client, |_| {});
    create(&world, asking_for("tenants", &spec())).await?;
    serves(&world).await?;
    says(&world, "True Published: ").await?;
    world.delete::<EtcdCluster>("demo").await?;
    says(&world, "Tenant a/late uses it").await?;
    ensure!(came.load(Ordering::SeqCst) && names(&world).await? == ["tenants"]);
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn another_name_or_none_waits_for_the_tenants_of_the_earlier_one() -> Result<()> {
    let world = World::new().await?;
    let operator = published(&world).await?;
    used_by(&world, "tenants", &["a/one"]).await?;
    ask_for(&world, Some("others")).await?;
    says(&world, "False DataStoreInUse: DataStore tenants is deleted once no tenant uses it").await?;
    ensure!(names(&world).await? == ["tenants"]);
    used_by(&world, "tenants", &[]).await?;
    are(&world, &["others"]).await?;
    says(&world, "True Published: DataStore others").await?;

    ask_for(&world, None).await?;
    are(&world, &[]).await?;
    until("nothing is left of it", async || {
        let cluster = world.api::<EtcdCluster>().get("demo").await?;
        let conditions = cluster.status.map(|status| status.conditions).unwrap_or_default();
        let has_condition = conditions.iter().any(|one| one.type_ == "DataStoreReady");
        let left = (cluster.metadata.finalizers, has_condition, certificate(&world).await?.is_some());
        let is_clean = left == (Some(vec![keys::FINALIZER.to_owned()]), false, false);
        Ok(if is_clean { Ok(()) } else { Err(format!("{left:?}")) })
    })
    .await?;
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_datastore_of_somebody_else_is_left_alone_and_the_cure_is_seen() -> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let theirs = json!({ "apiVersion": "kamaji.clastix.io/v1alpha1", "kind": "DataStore", "metadata": { "name": "tenants" },
        "spec": { "driver": "MySQL", "endpoints": ["db:3306"] } });
    let theirs: DynamicObject = serde_json::from_value(theirs)?;
    stores(&world).create(&PostParams::default(), &theirs).await?;
    let operator = world.operator();
    create(&world, asking_for("tenants", &spec())).await?;
    serves(&world).await?;
    says(&world, "False NameTaken: DataStore tenants exists and is not of this EtcdCluster").await?;
    tokio::time::sleep(Duration::from_mins(5)).await;
    ensure!(stores(&world).get("tenants").await?.data["spec"]["driver"] == "MySQL");
    ask_for(&world, Some("ours")).await?;
    are(&world, &["ours", "tenants"]).await?;
    world.delete::<EtcdCluster>("demo").await?;
    is_gone(&world).await?;
    are(&world, &["tenants"]).await?;
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn another_writer_that_sets_a_field_back_each_time_is_told_and_answered_once_a_minute() -> Result<()> {
    let world = World::new().await?;
    let operator = published(&world).await?;
    let theirs = stores(&world);
    let fight = tokio::spawn(async move {
        loop {
            let drift = json!({ "spec": { "endpoints": ["elsewhere:2379"] } });
            let how =
                PatchParams { field_manager: Some("argocd-controller".to_owned()), ..PatchParams::default() };
            let _ = theirs.patch("tenants", &how, &Patch::Merge(drift)).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    });
    says(&world, "False DataStoreContested: ").await?;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let patches = || {
        let all = world.sent.writes();
        all.iter().filter(|sent| sent.method == "PATCH" && sent.path.contains("/datastores/")).count()
    };
    let before = patches();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let more = patches() - before;
    ensure!((5..=15).contains(&more), "{more} writes in ten minutes");
    // Nor between two writes does it say that all is well.
    for _ in 0..600 {
        says(&world, "False DataStoreContested: ").await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let conditions = world.status().await?.conditions;
        ensure!(conditions.iter().any(|one| one.reason == "DataStoreContested"), "{conditions:?}");
    }
    fight.abort();
    tokio::time::sleep(Duration::from_mins(11)).await;
    says(&world, "True Published: ").await?;
    operator.stop().await
}

/// An operator of which these requests have this outcome while the flag is set, and a cluster that asks for a DataStore and serves.
async fn refused_while(
    world: &World,
    flag: &Arc<AtomicBool>,
    is_refused: fn(&Sent) -> bool,
    outcome: RequestOutcome,
) -> Result<Operator> {
    let flag = flag.clone();
    let client = world.client_through(move |sent| {
        if is_refused(sent) && flag.load(Ordering::SeqCst) { outcome } else { RequestOutcome::Open }
    });
    let operator = world.operator_over(client, |_| {});
    create(world, asking_for("tenants", &spec())).await?;
    serves(world).await?;
    Ok(operator)
}

#[tokio::test(start_paused = true)]
async fn writes_that_fail_again_and_again_are_told_however_they_fail() -> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let fails = Arc::new(AtomicBool::new(false));
    let is_write = |sent: &Sent| sent.method == "PATCH" && sent.path.contains("/datastores/");
    let operator =
        refused_while(&world, &fails, is_write, RequestOutcome::Refused(500, "InternalError")).await?;
    says(&world, "True Published: ").await?;
    fails.store(true, Ordering::SeqCst);
    let drift = json!({ "spec": { "endpoints": ["elsewhere:2379"] } });
    stores(&world).patch("tenants", &PatchParams::default(), &Patch::Merge(drift)).await?;
    says(&world, "False ").await?;
    says(&world, "DataStore").await?;
    fails.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_mins(11)).await;
    says(&world, "True Published: ").await?;
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn no_datastore_is_made_of_an_etcdcluster_that_lost_its_finalizer_meanwhile() -> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let (left, clusters) = (Arc::new(AtomicBool::new(false)), world.api::<EtcdCluster>());
    let seen = left.clone();
    let client = world.client_through(move |sent| {
        let is_of_secret =
            sent.path.ends_with("/secrets") && sent.body["metadata"]["name"] == "demo-root-client-tls";
        // What was observed says otherwise for a moment.
        if sent.method == "POST" && is_of_secret && !seen.swap(true, Ordering::SeqCst) {
            let clusters = clusters.clone();
            tokio::spawn(async move {
                let patch = json!({ "metadata": { "finalizers": [keys::FINALIZER] } });
                let _ = clusters.patch("demo", &PatchParams::default(), &Patch::Merge(patch)).await;
            });
            return RequestOutcome::Slow(Duration::from_secs(1));
        }
        RequestOutcome::Open
    });
    let operator = world.operator_over(client, |_| {});
    create(&world, asking_for("tenants", &spec())).await?;
    serves(&world).await?;
    says(&world, "True Published: ").await?;
    ensure!(left.load(Ordering::SeqCst));
    let all = world.sent.writes();
    let at = |method: &str, path: &str| {
        all.iter().position(|sent| sent.method == method && sent.path.contains(path))
    };
    let made = at("POST", "/datastores").context("none is made")?;
    let is_of_secret =
        |sent: &&Sent| sent.method == "POST" && sent.body["metadata"]["name"] == "demo-root-client-tls";
    let taken_off = all.iter().position(|sent| is_of_secret(&sent)).context("no Secret is made")?;
    let puts_finalizer = |sent: &&Sent| {
        let finalizers = sent.body["metadata"]["finalizers"].as_array();
        finalizers.is_some_and(|all| all.iter().any(|one| one == keys::DATA_STORE_FINALIZER))
    };
    let is_put_back = all.get(taken_off..made).unwrap_or_default().iter().any(|sent| puts_finalizer(&sent));
    ensure!(is_put_back, "it was made of one without its finalizer");
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn whose_namespace_is_not_admitted_has_no_datastores_read() -> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let client = world.client_through(|_| RequestOutcome::Open);
    let operator = world.operator_over(client, |options| options.defaults.kamaji_namespaces.clear());
    create(&world, asking_for("tenants", &spec())).await?;
    serves(&world).await?;
    says(&world, "False NamespaceNotAdmitted: ").await?;
    tokio::time::sleep(Duration::from_mins(5)).await;
    let asked = world.sent.all().into_iter().any(|sent| sent.path.contains("/datastores"));
    ensure!(!asked, "DataStores are read");
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn its_secret_goes_also_where_its_owner_and_the_finalizer_were_taken_off() -> Result<()> {
    let world = World::new().await?;
    let operator = published(&world).await?;
    let orphan = json!({ "metadata": { "ownerReferences": null } });
    ask_for(&world, None).await?;
    world
        .api::<Secret>()
        .patch("demo-root-client-tls", &PatchParams::default(), &Patch::Merge(orphan))
        .await?;
    let patch = json!({ "metadata": { "finalizers": [keys::FINALIZER] } });
    world.api::<EtcdCluster>().patch("demo", &PatchParams::default(), &Patch::Merge(patch)).await?;
    until("the Secret is gone", async || {
        Ok(if certificate(&world).await?.is_none() { Ok(()) } else { Err("it is left".to_owned()) })
    })
    .await?;
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_said_and_a_cluster_without_the_annotation_asks_nothing() -> Result<()> {
    let world = World::new().await?;
    let operator = world.operator();
    let mut without = spec();
    without["auth"] = Value::Null;
    create(&world, asking_for("tenants", &without)).await?;
    says(&world, "False CrdMissing: ").await?;
    install(&world).await?;
    says(&world, "False AuthOff: ").await?;
    let edit = json!({ "spec": { "auth": { "enabled": true }, "etcd": null } });
    world.api::<EtcdCluster>().patch("demo", &PatchParams::default(), &Patch::Merge(edit)).await?;
    serves(&world).await?;
    says(&world, "False CompactionOff: ").await?;
    ensure!(names(&world).await?.is_empty() && certificate(&world).await?.is_none());
    ask_for(&world, None).await?;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let asked = || {
        world
            .sent
            .all()
            .into_iter()
            // The watch of the process goes on.
            .filter(|sent| !sent.query.contains("watch=true"))
            .filter(|sent| sent.path.contains("/datastores") && sent.method == "GET")
            .count()
    };
    let before = asked();
    tokio::time::sleep(Duration::from_mins(10)).await;
    ensure!(asked() == before, "DataStores are read for a cluster that wants none");
    world.delete::<EtcdCluster>("demo").await?;
    is_gone(&world).await?;
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn n12_datastores_are_listed_once_for_all_clusters_that_are_to_have_one() -> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let operator = world.operator();
    for name in ["one", "two", "three", "demo"] {
        let mut cluster = asking_for(&format!("of-{name}"), &spec());
        cluster["metadata"]["name"] = json!(name);
        create(&world, cluster).await?;
    }
    says(&world, "False NotServing: ").await?;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let reads = world.sent.all();
    let reads = reads.iter().filter(|sent| sent.path.contains("/datastores") && sent.method == "GET");
    let lists = reads.filter(|sent| !sent.query.contains("watch=true")).count();
    ensure!(lists == 1, "{lists} lists");
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn without_rights_a_deletion_waits_and_without_the_kind_it_goes_on() -> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let forbidden = Arc::new(AtomicBool::new(true));
    let is_of_store = |sent: &Sent| sent.path.contains("/datastores");
    let operator =
        refused_while(&world, &forbidden, is_of_store, RequestOutcome::Refused(403, "Forbidden")).await?;
    says(&world, "False NoRights: ").await?;
    forbidden.store(false, Ordering::SeqCst);
    says(&world, "True Published: ").await?;

    forbidden.store(true, Ordering::SeqCst);
    world.delete::<EtcdCluster>("demo").await?;
    says(&world, "so its deletion waits").await?;
    tokio::time::sleep(Duration::from_mins(10)).await;
    until_pods(&world, &["demo-0"]).await?;
    forbidden.store(false, Ordering::SeqCst);
    remove_kind(&world).await?;
    is_gone(&world).await?;
    operator.stop().await
}

#[expect(clippy::disallowed_methods, reason = "the test is the person who uninstalls Kamaji")]
async fn remove_kind(world: &World) -> Result<()> {
    let how = DeleteParams::default();
    stores(world).delete("tenants", &how).await?;
    let api: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    api.delete("datastores.kamaji.clastix.io", &how).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_changes_nothing_about_the_end() -> Result<()> {
    for point in CrashPoint::all().filter(|point| STEPS.contains(&point.step)) {
        Box::pin(dies_at(point)).await.with_context(|| format!("crash {point}"))?;
    }
    Ok(())
}

/// From no DataStore to one, and to no cluster. The operator dies once.
async fn dies_at(point: CrashPoint) -> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let died = CancellationToken::new();
    let first = world.operator_with(Arc::new(DieAt { point, died: died.clone() }));
    create(&world, asking_for("tenants", &spec())).await?;
    serves(&world).await?;
    let at_once = [Step::O1, Step::O2, Step::O3].contains(&point.step);
    let mut running = Some(first);
    if at_once {
        died.cancelled().await;
        drop(running.take());
        running = Some(world.operator());
    }
    says(&world, "True Published: ").await?;
    ensure!(certificate(&world).await?.is_some());
    world.delete::<EtcdCluster>("demo").await?;
    if !at_once {
        died.cancelled().await;
        drop(running.take());
        running = Some(world.operator());
    }
    is_gone(&world).await?;
    ensure!(names(&world).await?.is_empty() && certificate(&world).await?.is_none());
    drop(running);
    Ok(())
}
