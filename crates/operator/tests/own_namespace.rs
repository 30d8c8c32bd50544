//! An operator that lives in a namespace that is deleted, with its clusters in it. Kubernetes deletes the Pods first, the operator's among them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::world::{Operator, RequestOutcome, Sent, World, plain, until};
use anyhow::{Context as _, Result, ensure};
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use quorate_api::{EtcdBackup, EtcdCluster, EtcdUser};
use quorate_operator::Options;
use serde_json::{Value, json};
use tokio::time::Instant;

const CLUSTER: &str = "operator.etcd.io/cluster-cleanup";
const BACKUP: &str = "operator.etcd.io/backup-cleanup";
const USER: &str = "operator.etcd.io/user-cleanup";

fn lives_in(namespace: &str) -> impl Fn(&mut Options) {
    move |options| {
        options.own_namespace = Some(namespace.to_owned());
        options.leader_elect = true;
    }
}

/// An operator in the namespace `default`, its requests with these outcomes.
fn operator(world: &World, decide: impl Fn(&Sent) -> RequestOutcome + Send + Sync + 'static) -> Operator {
    world.operator_over(world.client_through(decide), lives_in("default"))
}

fn open(_: &Sent) -> RequestOutcome {
    RequestOutcome::Open
}

fn in_namespace<K>(world: &World, namespace: &str) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    Api::namespaced(world.client.clone(), namespace)
}

/// A cluster of one, a backup whose object goes with it and a user, all with the operator's finalizer and one of another controller; and the Pod that the
/// operator runs in.
async fn content(world: &World, namespace: &str, policy: &str) -> Result<()> {
    // The store of this world counts the uids of a name over all namespaces from the same number, and collects by the uid alone what an owner
    // leaves: of two clusters of one name the end of one would take the Pods of the other.
    let name = if namespace == "default" { "demo" } else { "other" };
    let mut spec = plain(1);
    spec["storageSpec"] = json!({ "retention": { "whenDeleted": policy } });
    let cluster = json!({ "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": { "name": name }, "spec": spec });
    let backup = json!({ "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup",
        "metadata": { "name": "nightly" }, "spec": { "source": { "cluster": name },
            "destination": { "s3": { "bucket": "bkt" } }, "deletionPolicy": "Delete" } });
    // As one that was made in a cluster with certificates.
    let user = json!({ "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdUser",
        "metadata": { "name": "billing", "finalizers": [USER] }, "spec": { "cluster": name } });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "quorate" },
        "spec": { "nodeName": "n1", "containers": [{ "name": "operator", "image": "quorate" }] } });
    create::<EtcdCluster>(world, namespace, cluster).await?;
    create::<EtcdBackup>(world, namespace, backup).await?;
    create::<EtcdUser>(world, namespace, user).await?;
    create::<Pod>(world, namespace, pod).await?;
    until("there are finalizers", async || {
        let held = finalizers(world, namespace).await?;
        Ok(if held == [CLUSTER, BACKUP, USER] { Ok(()) } else { Err(format!("{held:?}")) })
    })
    .await
}

async fn create<K>(world: &World, namespace: &str, object: Value) -> Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object)?;
    in_namespace::<K>(world, namespace).create(&PostParams::default(), &object).await?;
    Ok(())
}

/// Of the cluster, of the backup and of the user.
async fn finalizers(world: &World, namespace: &str) -> Result<Vec<String>> {
    let clusters = in_namespace::<EtcdCluster>(world, namespace).list(&ListParams::default()).await?;
    let backups = in_namespace::<EtcdBackup>(world, namespace).list(&ListParams::default()).await?;
    let of_clusters = clusters.into_iter().flat_map(|one| one.metadata.finalizers.unwrap_or_default());
    let of_backups = backups.into_iter().flat_map(|one| one.metadata.finalizers.unwrap_or_default());
    let users = in_namespace::<EtcdUser>(world, namespace).list(&ListParams::default()).await?;
    let of_users = users.into_iter().flat_map(|one| one.metadata.finalizers.unwrap_or_default());
    Ok(of_clusters.chain(of_backups).chain(of_users).collect())
}

#[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
async fn delete_namespace(world: &World, name: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.delete(name, &DeleteParams::default()).await?;
    until("every Pod is asked to end", async || {
        let pods = in_namespace::<Pod>(world, name).list(&ListParams::default()).await?;
        let left = pods.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).count();
        Ok(if left == 0 { Ok(()) } else { Err(format!("{left} Pods")) })
    })
    .await
}

/// What the kubelet does when the containers of all Pods have ended.
#[expect(clippy::disallowed_methods, reason = "the test is the kubelet")]
async fn end_pods(world: &World) -> Result<()> {
    let pods = world.api::<Pod>();
    for pod in pods.list(&ListParams::default()).await? {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        // One that has no node is gone by now.
        let _ = pods.delete(&pod.metadata.name.unwrap_or_default(), &now).await;
    }
    Ok(())
}

async fn namespace(world: &World, name: &str) -> Result<Option<Namespace>> {
    Ok(Api::<Namespace>::all(world.client.clone()).get_opt(name).await?)
}

/// The namespace is gone within two minutes of its deletion.
async fn is_gone(world: &World, since: Instant) -> Result<()> {
    until("the namespace is gone", async || {
        let found = namespace(world, "default").await?;
        Ok(if found.is_none() { Ok(()) } else { Err(format!("{:?}", finalizers(world, "default").await?)) })
    })
    .await?;
    ensure!(since.elapsed() < Duration::from_mins(2), "{:?}", since.elapsed());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_deleted_with_its_operator_and_its_clusters_in_it_goes_away() -> Result<()> {
    for policy in ["Retain", "Delete"] {
        let world = World::new().await?;
        let operator = operator(&world, open);
        content(&world, "default", policy).await?;
        let since = Instant::now();
        delete_namespace(&world, "default").await?;
        let cluster = world.api::<EtcdCluster>().get("demo").await?;
        ensure!(cluster.metadata.deletion_timestamp.is_none(), "it is deleted when the last Pod is gone");
        operator.stop().await?;
        ensure!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
        ensure!(finalizers(&world, "default").await?.is_empty(), "{policy}");
        end_pods(&world).await?;
        is_gone(&world, since).await.context(policy)?;
        ensure!(
            world.names::<PersistentVolumeClaim>().await?.is_empty(),
            "{policy}: its volumes went with it"
        );
        ensure!(world.names::<Secret>().await?.is_empty(), "{policy}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_does_not_lead_takes_the_finalizers_off_where_the_one_that_leads_was_killed()
-> Result<()> {
    let world = World::new().await?;
    let leader = operator(&world, open);
    content(&world, "default", "Retain").await?;
    let other = operator(&world, open);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let since = Instant::now();
    delete_namespace(&world, "default").await?;
    drop(leader);
    other.stop().await?;
    end_pods(&world).await?;
    is_gone(&world, since).await
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_ends_first_does_not_let_another_one_put_the_finalizers_back() -> Result<()> {
    let world = World::new().await?;
    let leader = operator(&world, open);
    content(&world, "default", "Retain").await?;
    let other = operator(&world, open);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let since = Instant::now();
    delete_namespace(&world, "default").await?;
    // The kubelet of the other one is late.
    leader.stop().await?;
    tokio::time::sleep(Duration::from_secs(8)).await;
    ensure!(finalizers(&world, "default").await?.is_empty(), "the lease is not there to be taken");
    other.stop().await?;
    end_pods(&world).await?;
    is_gone(&world, since).await
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_ends_leaves_its_finalizers_where_its_own_namespace_stays() -> Result<()> {
    let world = World::new().await?;
    create_namespace(&world, "team").await?;
    let first = operator(&world, open);
    content(&world, "default", "Retain").await?;
    content(&world, "team", "Retain").await?;
    // A namespace of others ends while the operator is replaced by another release.
    delete_namespace(&world, "team").await?;
    first.stop().await?;
    for namespace in ["default", "team"] {
        ensure!(finalizers(&world, namespace).await? == [CLUSTER, BACKUP, USER], "{namespace}");
    }
    let lease = world.api::<Lease>().get("quorate.operator.etcd.io").await?;
    ensure!(
        lease.spec.and_then(|spec| spec.holder_identity).is_none_or(|held| held.is_empty()),
        "it is free"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_operator_takes_nothing_off_in_other_namespaces_than_its_own() -> Result<()> {
    let world = World::new().await?;
    create_namespace(&world, "team").await?;
    let operator = operator(&world, open);
    content(&world, "default", "Retain").await?;
    content(&world, "team", "Retain").await?;
    delete_namespace(&world, "default").await?;
    operator.stop().await?;
    ensure!(finalizers(&world, "default").await?.is_empty());
    ensure!(finalizers(&world, "team").await? == [CLUSTER, BACKUP, USER]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_operator_takes_nothing_off_in_a_namespace_that_it_lives_in_and_does_not_work_in() -> Result<()> {
    let world = World::new().await?;
    create_namespace(&world, "team").await?;
    let theirs = operator(&world, open);
    content(&world, "default", "Retain").await?;
    let other = world.operator_over(world.client.clone(), |options| {
        options.own_namespace = Some("default".to_owned());
        options.namespaces = vec!["team".to_owned()];
    });
    tokio::time::sleep(Duration::from_secs(3)).await;
    delete_namespace(&world, "default").await?;
    drop(theirs);
    other.stop().await?;
    ensure!(finalizers(&world, "default").await? == [CLUSTER, BACKUP, USER]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_finalizers_of_others_stay() -> Result<()> {
    let world = World::new().await?;
    let operator = operator(&world, open);
    content(&world, "default", "Retain").await?;
    let theirs = json!({ "metadata": { "finalizers": ["example.com/audit", CLUSTER] } });
    let patch = Patch::Merge(theirs);
    world.api::<EtcdCluster>().patch("demo", &PatchParams::default(), &patch).await?;
    delete_namespace(&world, "default").await?;
    operator.stop().await?;
    ensure!(finalizers(&world, "default").await? == ["example.com/audit"]);
    Ok(())
}

fn asks_for_namespace(sent: &Sent) -> bool {
    sent.method == Method::GET && sent.path == "/api/v1/namespaces/default"
}

fn takes_off(sent: &Sent) -> bool {
    sent.method == Method::PATCH
        && sent.body.pointer("/metadata/finalizers").is_some_and(|all| *all == json!([]))
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_may_not_ask_for_its_namespace_ends_as_before() -> Result<()> {
    for outcome in [RequestOutcome::Refused(403, "Forbidden"), RequestOutcome::Never] {
        let world = World::new().await?;
        let operator =
            operator(&world, move |sent| if asks_for_namespace(sent) { outcome } else { open(sent) });
        content(&world, "default", "Retain").await?;
        delete_namespace(&world, "default").await?;
        let asked = Instant::now();
        operator.stop().await?;
        ensure!(asked.elapsed() < Duration::from_secs(25), "{outcome:?}: {:?}", asked.elapsed());
        ensure!(finalizers(&world, "default").await? == [CLUSTER, BACKUP, USER], "{outcome:?}");
        let lease = world.api::<Lease>().get("quorate.operator.etcd.io").await?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        ensure!(holder.is_empty(), "{outcome:?}: the lease is let go");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_does_not_answer_or_refuses_for_once_is_tried_again() -> Result<()> {
    let [changed, lost, never] =
        [RequestOutcome::Refused(409, "Conflict"), RequestOutcome::ReplyLost, RequestOutcome::Never];
    for outcome in [changed, lost, never] {
        let world = World::new().await?;
        let ends = Arc::new(AtomicBool::new(false));
        let (asked, patched) = (ends.clone(), [ends.clone(), Arc::new(AtomicBool::new(false))]);
        let asks = AtomicBool::new(false);
        let operator = operator(&world, move |sent| {
            let is_first =
                |seen: &AtomicBool| asked.load(Ordering::SeqCst) && !seen.swap(true, Ordering::SeqCst);
            if (asks_for_namespace(sent) && is_first(&asks)) || (takes_off(sent) && is_first(&patched[1])) {
                return outcome;
            }
            RequestOutcome::Open
        });
        content(&world, "default", "Retain").await?;
        ends.store(true, Ordering::SeqCst);
        delete_namespace(&world, "default").await?;
        let asked = Instant::now();
        operator.stop().await?;
        ensure!(asked.elapsed() < Duration::from_secs(20), "{outcome:?}: {:?}", asked.elapsed());
        ensure!(finalizers(&world, "default").await?.is_empty(), "{outcome:?}");
    }
    Ok(())
}

async fn create_namespace(world: &World, name: &str) -> Result<()> {
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}
