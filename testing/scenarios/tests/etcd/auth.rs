//! docs/protocols/auth.md at real etcd: auth is switched on and off under writes of a user, and what needs root goes on between.

use anyhow::{Context as _, Result, ensure};
use quorate_scenarios::{NamespaceClient, Playground, Writer, spec, until};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn auth_is_switched_on_and_off_under_writes_of_a_user_and_none_fails() -> Result<()> {
    let world = Playground::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    user(&world, "app").await?;
    let app = user_of(&world, "app").await?;
    let writer = Writer::start(&app, "demo").await?;

    world.patch("demo", json!({ "spec": { "auth": { "enabled": true } } })).await?;
    world.wait_for_condition("demo", "AuthReady", "True").await?;
    app.settled_again("demo", 3).await?;
    // Clients with the certificate of the cluster have their time, and then it is that of no user.
    let nobody = world.members("demo").await?;
    nobody[0].1.put("writes/of-nobody", "x").await.context("clients have their time")?;
    world.patch("demo", json!({ "spec": { "auth": { "clientGrace": "0s" } } })).await?;
    until("who is no user is refused", async || {
        let written = nobody[0].1.put("writes/of-nobody", "x").await;
        Ok(if written.is_err() { Ok(()) } else { Err("who is no user writes".to_owned()) })
    })
    .await?;

    // A rollout moves leadership: each agent does, and the operator. A member more is added and removed.
    let labels = json!({ "podTemplate": { "metadata": { "labels": { "rolled": "yes" } } } });
    world.patch("demo", json!({ "spec": labels })).await?;
    app.settled_again("demo", 3).await?;
    for size in [4, 3] {
        world.patch("demo", json!({ "spec": { "size": size } })).await?;
        app.settled_again("demo", size).await?;
    }

    // The spec alone does not open the data.
    world.patch("demo", json!({ "spec": { "auth": { "enabled": false } } })).await?;
    let id = world.cluster_id("demo").await?;
    world.reports("demo", &format!("operator.etcd.io/disable-auth={id}")).await?;
    ensure!(nobody[0].1.put("writes/of-nobody", "x").await.is_err(), "who is no user writes");
    let order = json!({ "metadata": { "annotations": { "operator.etcd.io/disable-auth": id } } });
    world.patch("demo", order).await?;
    until("auth is off", async || {
        let status = world.status("demo").await?;
        Ok(if status["auth"].is_null() { Ok(()) } else { Err(status["auth"].to_string()) })
    })
    .await?;
    app.settled_again("demo", 3).await?;
    println!("auth on, a rollout, 3 to 4 to 3, auth off: {:?}", writer.figures());
    writer.stop().await?.are_all_readable(&app, "demo").await
}

/// A client with the certificate of an EtcdUser, once it has one.
pub(crate) async fn user_of(world: &NamespaceClient, name: &str) -> Result<NamespaceClient> {
    let client = world.with_certificate_of(&format!("{name}-etcd"));
    until("the user has its Secret", async || {
        Ok(client.members("demo").await.map(drop).map_err(|error| error.to_string()))
    })
    .await?;
    Ok(client)
}

/// An EtcdUser that may do everything.
pub(crate) async fn user(world: &NamespaceClient, name: &str) -> Result<()> {
    let all = json!({ "cluster": "demo", "permissions": [{ "allKeys": true, "access": "ReadWrite" }] });
    world.create_user(name, all).await
}
