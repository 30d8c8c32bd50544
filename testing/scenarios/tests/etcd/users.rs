//! docs/users.md at real etcd: each application has the Secret of its EtcdUser, and no more than that says.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use quorate_etcd::{CallError, Deadlines, Endpoint, KeyAccess, MemberClient, Permission, Read, Refusal, Tls};
use quorate_scenarios::{NamespaceClient, Playground, spec, until};
use serde_json::{Value, json};

#[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
#[tokio::test(flavor = "multi_thread")]
async fn each_user_reads_and_writes_its_own_prefix_and_nothing_else_until_it_is_deleted() -> Result<()> {
    let world = Playground::start().await?;
    world.create("demo", spec(1)).await?;
    world.settled("demo", 1).await?;
    for (name, prefix) in [("billing", "/billing/"), ("shop", "/shop/")] {
        create(&world, name, json!([{ "prefix": prefix, "access": "ReadWrite" }])).await?;
        // Nobody is kept from anything yet, and status says so.
        is(&world, name, "True", "AuthDisabled").await?;
    }
    let auth =
        json!({ "enabled": true, "clientGrace": "0s", "allowedPrefixes": ["/billing/", "/shop/", "/ka/"] });
    world.patch("demo", json!({ "spec": { "auth": auth } })).await?;
    world.wait_for_condition("demo", "AuthReady", "True").await?;
    let root = client(&world, &entries(&world, "demo-operator-tls").await?).await?;

    let [billing, shop] = [connect(&world, "billing").await?, connect(&world, "shop").await?];
    for (client, own, other) in [(&billing, "/billing/a", "/shop/a"), (&shop, "/shop/a", "/billing/a")] {
        client.put(own, own).await?;
        let read = client.get(own, Read::Linearizable).await?.context("it was written")?;
        ensure!(read.value == own.as_bytes(), "another value");
        for denied in
            [client.put(other, "x").await.map(drop), client.get(other, Read::Serializable).await.map(drop)]
        {
            is_denied(denied)?;
        }
        is_denied(client.role_list().await.map(drop))?;
    }

    // Somebody gives it more than its spec says, and takes its role from it.
    let role =
        root.user_get(&named(&world, "billing").await?).await?.into_iter().next().context("it has a role")?;
    let everything = Permission { key: vec![0], range_end: vec![0], access: KeyAccess::Read };
    root.role_grant_permission(&role, &everything).await?;
    let [billings, shops] = [named(&world, "billing").await?, named(&world, "shop").await?];
    root.user_revoke_role(&shops, &root.user_get(&shops).await?.concat()).await?;
    // An edit has them looked at; otherwise that takes some minutes.
    for name in ["billing", "shop"] {
        let more = json!({ "spec": { "authentication": { "certificate": { "validityDuration": "48h" } } } });
        users(&world).patch(name, &PatchParams::default(), &Patch::Merge(&more)).await?;
    }
    until("the drift is put right", async || {
        let permissions = root.role_get(&role).await?;
        let roles = root.user_get(&shops).await?;
        let is_right = !permissions.contains(&everything) && roles.len() == 1;
        Ok(if is_right { Ok(()) } else { Err(format!("{permissions:?}, {roles:?}")) })
    })
    .await?;
    shop.put("/shop/b", "again").await?;
    is(&world, "billing", "True", "UserReady").await?;

    // A narrower spec takes away, and a Secret that is deleted comes back.
    let narrower = json!({ "spec": { "permissions": [{ "prefix": "/billing/", "access": "Read" }] } });
    users(&world).patch("billing", &PatchParams::default(), &Patch::Merge(&narrower)).await?;
    until("it writes no more", async || {
        Ok(is_denied(billing.put("/billing/a", "x").await.map(drop)).map_err(|error| error.to_string()))
    })
    .await?;
    billing.get("/billing/a", Read::Linearizable).await?.context("it still reads")?;
    let before = secret(&world, "billing").await?;
    secrets(&world).delete("billing-etcd", &DeleteParams::default()).await?;
    until("the Secret is written again", async || {
        let now = secret(&world, "billing").await?;
        Ok(if now["tls.crt"] == before["tls.crt"] { Err("the one of before".to_owned()) } else { Ok(()) })
    })
    .await?;
    connect(&world, "billing").await?.get("/billing/a", Read::Linearizable).await?;

    // What the EtcdCluster does not admit is refused, and taken away where that is narrowed.
    create(
        &world,
        "greedy",
        json!([{ "allKeys": true, "access": "Read" }, { "prefix": "/shop/", "access": "Read" }]),
    )
    .await?;
    is(&world, "greedy", "False", "PermissionNotAllowed").await?;
    until("it reads what is admitted", async || {
        Ok(connect(&world, "greedy")
            .await?
            .get("/shop/a", Read::Linearizable)
            .await
            .map(drop)
            .map_err(|error| error.to_string()))
    })
    .await?;
    is_denied(connect(&world, "greedy").await?.get("/billing/a", Read::Linearizable).await.map(drop))?;
    let narrower =
        json!({ "spec": { "auth": { "allowedPrefixes": ["/billing/", "/shop/b", "/shop/c", "/ka/"] } } });
    world.patch("demo", narrower).await?;
    is(&world, "shop", "False", "PermissionNotAllowed").await?;
    until("shop is refused", async || {
        Ok(is_denied(shop.put("/shop/a", "x").await.map(drop)).map_err(|error| error.to_string()))
    })
    .await?;
    let wider = json!({ "spec": { "auth": { "allowedPrefixes": ["/billing/", "/shop/", "/ka/"] } } });
    world.patch("demo", wider).await?;
    is(&world, "shop", "True", "UserReady").await?;

    // What others made is left alone.
    root.user_add("kamaji").await?;
    create(&world, "kamaji", json!([{ "prefix": "/ka/", "access": "ReadWrite" }])).await?;
    is(&world, "kamaji", "True", "UserReady").await?;
    ensure!(root.user_get("kamaji").await?.is_empty(), "it got a role");
    connect(&world, "kamaji").await?.put("/ka/a", "its own").await?;

    for name in ["billing", "kamaji", "greedy"] {
        users(&world).delete(name, &DeleteParams::default()).await?;
        gone(&world, name).await?;
    }
    // Its connection is still open, and its certificate still valid.
    is_denied(billing.get("/billing/a", Read::Linearizable).await.map(drop))?;
    let left = root.user_list().await?;
    ensure!(left == ["kamaji", "root", shops.as_str()], "{left:?}");
    ensure!(!left.contains(&billings), "it is there");
    ensure!(!root.role_list().await?.contains(&role), "its role is left");
    shop.put("/shop/c", "and the other goes on").await?;

    // One of the same name is another user: a certificate of the former one is not revived by it.
    create(&world, "billing", json!([{ "prefix": "/billing/", "access": "ReadWrite" }])).await?;
    is(&world, "billing", "True", "UserReady").await?;
    connect(&world, "billing").await?.put("/billing/a", "anew").await?;
    is_denied(billing.get("/billing/a", Read::Linearizable).await.map(drop))?;

    // Nor is one that was kept taken over, and it goes on as it was.
    let keep = json!({ "spec": { "deletionPolicy": "Retain" } });
    users(&world).patch("shop", &PatchParams::default(), &Patch::Merge(&keep)).await?;
    users(&world).delete("shop", &DeleteParams::default()).await?;
    gone(&world, "shop").await?;
    create(&world, "shop", json!([{ "prefix": "/shop/b", "access": "Read" }])).await?;
    is(&world, "shop", "True", "UserReady").await?;
    ensure!(named(&world, "shop").await? != shops, "the same user");
    is_denied(connect(&world, "shop").await?.put("/shop/c", "x").await.map(drop))?;
    shop.put("/shop/c", "with the certificate that was kept").await?;
    let said = users(&world).get("shop").await?.data["status"].to_string();
    ensure!(said.contains(&format!("etcdctl user delete {shops}")), "{said}");
    Ok(())
}

/// At each step without etcd: `crates/orders/src/user/tests.rs`. Here between two calls, on both ways.
#[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_that_died_left_in_etcd_is_known_again_and_goes_with_the_user() -> Result<()> {
    for point in ["after:F5", "after:F8"] {
        let world = Playground::start_with(&[("QUORATE_CRASH_AT", point)]).await?;
        world.create("demo", spec(1)).await?;
        world.settled("demo", 1).await?;
        create(&world, "billing", json!([{ "prefix": "/billing/", "access": "ReadWrite" }])).await?;
        is(&world, "billing", "True", "AuthDisabled").await.with_context(|| format!("crash {point}"))?;
        let etcd = operator(&world).await?;
        let roles = etcd.user_get(&named(&world, "billing").await?).await?;
        ensure!(roles.len() == 1 && etcd.role_list().await? == roles, "{roles:?}");
        users(&world).delete("billing", &DeleteParams::default()).await?;
        gone(&world, "billing").await.with_context(|| format!("crash {point}"))?;
        ensure!(
            etcd.user_list().await?.is_empty() && etcd.role_list().await?.is_empty(),
            "something is left"
        );
        let log = std::fs::read_to_string(world.path().join("logs/operator.log"))?;
        ensure!(log.contains(&format!("crash point {point}")), "{point} was never reached");
    }
    Ok(())
}

async fn gone(world: &NamespaceClient, name: &str) -> Result<()> {
    until("the EtcdUser is gone", async || {
        Ok(if users(world).get_opt(name).await?.is_none() { Ok(()) } else { Err("it is there".to_owned()) })
    })
    .await
}

/// A client with a certificate of the cluster, where auth is disabled.
async fn operator(world: &NamespaceClient) -> Result<MemberClient> {
    let members = world.members("demo").await?;
    Ok(members.into_iter().next().context("no member")?.1)
}

/// A client with what is in the Secret of a user, and nothing else.
async fn connect(world: &NamespaceClient, name: &str) -> Result<MemberClient> {
    let secret = secret(world, name).await?;
    ensure!(
        secret["username"] == named(world, name).await? && secret["type"] == "etcd",
        "{:?}",
        secret.keys()
    );
    ensure!(secret["uri"] == format!("https://{}:{}", secret["host"], secret["port"]), "{}", secret["uri"]);
    client(world, &secret).await
}

/// The name of its user in etcd.
async fn named(world: &NamespaceClient, name: &str) -> Result<String> {
    let user = users(world).get(name).await?;
    let username = user.data["status"]["username"].as_str().context("it is not made")?;
    ensure!(username.strip_prefix(name).is_some_and(|rest| rest.len() == 9), "{username}");
    Ok(username.to_owned())
}

async fn client(world: &NamespaceClient, secret: &BTreeMap<String, String>) -> Result<MemberClient> {
    let pod = world.pods().get("demo-0").await?;
    let ip = pod.status.and_then(|status| status.pod_ip).context("the Pod has no address")?;
    let pem = |key: &str| secret[key].clone().into_bytes();
    let server_name = format!("demo-client.{}.svc", world.client.default_namespace());
    let tls = Tls { server_name, ca: pem("ca.crt"), cert: pem("tls.crt"), key: pem("tls.key") };
    let endpoint = Endpoint::tls(format!("{ip}:2379").parse()?, tls);
    Ok(MemberClient::new(&endpoint, Deadlines::default())?)
}

async fn create(world: &NamespaceClient, name: &str, permissions: Value) -> Result<()> {
    let user = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdUser", "metadata": { "name": name },
        "spec": { "cluster": "demo", "permissions": permissions },
    });
    users(world).create(&PostParams::default(), &serde_json::from_value(user)?).await?;
    Ok(())
}

/// Waits until its condition Ready is so.
async fn is(world: &NamespaceClient, name: &str, ready: &str, reason: &str) -> Result<()> {
    until(&format!("{name} is Ready={ready}, {reason}"), async || {
        let user = users(world).get(name).await?;
        let conditions = user.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|one| one["type"] == "Ready").cloned().unwrap_or_default();
        let is_so = found["status"] == ready && found["reason"] == reason;
        Ok(if is_so { Ok(()) } else { Err(found.to_string()) })
    })
    .await
}

fn is_denied(reply: Result<(), CallError>) -> Result<()> {
    match reply {
        Err(CallError::Refused(Refusal::PermissionDenied, _)) => Ok(()),
        other => anyhow::bail!("not denied: {other:?}"),
    }
}

async fn secret(world: &NamespaceClient, user: &str) -> Result<BTreeMap<String, String>> {
    entries(world, &format!("{user}-etcd")).await
}

async fn entries(world: &NamespaceClient, name: &str) -> Result<BTreeMap<String, String>> {
    let data = secrets(world).get(name).await?.data.unwrap_or_default();
    data.into_iter().map(|(key, value)| Ok((key, String::from_utf8(value.0)?))).collect()
}

fn secrets(world: &NamespaceClient) -> Api<Secret> {
    Api::default_namespaced(world.client.clone())
}

fn users(world: &NamespaceClient) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("operator.etcd.io", "v1alpha1", "EtcdUser");
    Api::default_namespaced_with(world.client.clone(), &ApiResource::from_gvk_with_plural(&kind, "etcdusers"))
}
