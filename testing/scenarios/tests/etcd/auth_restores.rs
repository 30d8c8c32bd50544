//! What needs the role root goes on with auth on, at real etcd: backups, comparisons, restores in place and the recovery of a lost quorum.
//! After each of them auth is on, its user reads and writes, and who is no user does neither.

use anyhow::{Context, Result, ensure};
use quorate_etcd::Read;
use quorate_scenarios::{NamespaceClient, Playground, World, Writer, until};
use serde_json::{Value, json};

use super::auth::{user, user_of};
use super::space::{QUOTA, with_quota};

/// A cluster of three with an EtcdUser that may do everything, a backup of before auth, and then auth on.
async fn with_auth(world: &Playground, store: &Value) -> Result<NamespaceClient> {
    let mut spec = with_quota(3, &json!({ "quotaBackendBytes": QUOTA, "autoCompactionRetention": "1h" }));
    // Status soon names the order to recover a quorum.
    spec["recovery"] = json!({ "gracePeriod": "5s" });
    world.create("demo", spec).await?;
    world.settled("demo", 3).await?;
    user(world, "app").await?;
    let app = user_of(world, "app").await?;
    let (_, member) = app.members("demo").await?.remove(0);
    member.put("of-before", "auth").await?;
    world.back_up("before", "demo", store).await?;
    world.is_backed_up("before").await?;
    world.patch("demo", json!({ "spec": { "auth": { "enabled": true, "clientGrace": "0s" } } })).await?;
    world.wait_for_condition("demo", "AuthReady", "True").await?;
    app.settled("demo", 3).await?;
    Ok(app)
}

/// Waits until auth is on in the cluster that is not the one with this ID any more.
async fn is_guarded_after(world: &Playground, app: &NamespaceClient, id: &str) -> Result<()> {
    app.settled("demo", 3).await?;
    ensure!(world.one_cluster_id("demo").await? != id, "the same cluster");
    until("auth is on, and the user writes", async || {
        let (nobody, users) = (world.members("demo").await?, app.members("demo").await?);
        for ((name, nobody), (_, user)) in nobody.into_iter().zip(users) {
            if let Err(error) = user.put("writes/of-a-user", "x").await {
                return Ok(Err(format!("{name}, its user: {error}")));
            }
            if nobody.get("writes/of-a-user", Read::Linearizable).await.is_ok() {
                return Ok(Err(format!("{name}: who is no user reads")));
            }
            ensure!(nobody.put("writes/of-nobody", "x").await.is_err(), "{name}: who is no user writes");
        }
        Ok(Ok(()))
    })
    .await?;
    world.wait_for_condition("demo", "AuthReady", "True").await?;
    world.wait_for_condition("demo", "Ready", "True").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_auth_a_snapshot_that_has_it_is_restored_in_place_and_a_lost_quorum_is_recovered() -> Result<()>
{
    let world = Playground::start().await?;
    let store = world.claim_for_backups("backups").await?;
    let app = with_auth(&world, &store).await?;
    let id = world.one_cluster_id("demo").await?;
    let writer = Writer::start(&app, "demo").await?;
    world.back_up("with", "demo", &store).await?;
    let revision = world.is_backed_up("with").await?["result"]["revision"].as_i64().context("a revision")?;
    let acknowledged = writer.stop().await?;
    world.restore_in_place("back", "demo", &id, "with").await?;
    world.restore_is("back", "Complete").await?;
    is_guarded_after(&world, &app, &id).await?;
    acknowledged.are_readable_as_of(&app, "demo", revision).await?;

    let id = world.one_cluster_id("demo").await?;
    let acknowledged = Writer::start(&app, "demo").await?.stop().await?;
    let names: Vec<String> = world.member_ids("demo").await?.into_keys().collect();
    for lost in &names[1..] {
        world.wipe_volume(lost).await?;
        world.delete_pod(lost).await?;
    }
    world.wait_for_condition("demo", "QuorumAvailable", "False").await?;
    world.reports("demo", "operator.etcd.io/recover-quorum-from=auto").await?;
    let order = json!({ "metadata": { "annotations": { "operator.etcd.io/recover-quorum-from": "auto" } } });
    world.patch("demo", order).await?;
    until("the cluster has another ID", async || {
        let status = world.status("demo").await?;
        let is_other = status["clusterID"].as_str().is_some_and(|other| other != id);
        Ok(if is_other { Ok(()) } else { Err(status.to_string()) })
    })
    .await?;
    is_guarded_after(&world, &app, &id).await?;
    acknowledged.are_all_readable(&app, "demo").await
}

/// Some minutes, and what it shows above all is there in the simulation.
mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_snapshot_of_before_auth_is_restored_in_place_and_auth_is_on_again_by_itself() -> Result<()> {
        let world = Playground::start().await?;
        let store = world.claim_for_backups("backups").await?;
        let app = with_auth(&world, &store).await?;
        let id = world.one_cluster_id("demo").await?;
        let (_, member) = app.members("demo").await?.remove(0);
        member.put("of-after", "auth").await?;
        world.restore_in_place("back", "demo", &id, "before").await?;
        world.restore_is("back", "Complete").await?;
        is_guarded_after(&world, &app, &id).await?;
        for (name, member) in app.members("demo").await? {
            let [before, after] = ["of-before", "of-after"].map(|key| member.get(key, Read::Linearizable));
            ensure!(before.await?.is_some() && after.await?.is_none(), "{name} has other data");
        }
        Ok(())
    }
}
