//! docs/kamaji.md at real etcd: Kamaji's own calls with exactly what its DataStore refers to.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, PostParams};
use quorate_etcd::{CallError, MemberClient, Read, Refusal};
use quorate_scenarios::kamaji::{Kamaji, TenantWrites, data_stores, definition, secret_of};
use quorate_scenarios::rotations::{annotate, entry, rotation, stage};
use quorate_scenarios::{NamespaceClient, Playground, report, spec, until};
use serde_json::json;

const TENANTS: [&str; 2] = ["red", "blue"];

/// The longest time in which a tenant whose members are restarted one by one has no write acknowledged, by far.
const PAUSE: Duration = Duration::from_secs(10);

#[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
#[tokio::test(flavor = "multi_thread")]
async fn two_tenants_of_kamaji_live_through_a_rotation_and_hold_up_the_deletion_of_their_cluster()
-> Result<()> {
    let world = Playground::start_with(&[("QUORATE_KAMAJI_NAMESPACES", "default")]).await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    definitions.create(&PostParams::default(), &definition()?).await?;
    let mut given = spec(3);
    given["auth"] = json!({ "enabled": true });
    given["etcd"] = json!({ "autoCompactionMode": "periodic", "autoCompactionRetention": "5m" });
    given["tls"] = json!({ "rotation": { "clientGrace": "24h" } });
    world.create("demo", given).await?;
    annotate(&world, "kamaji-datastore", "tenants").await?;
    world.wait_for_condition("demo", "DataStoreReady", "True").await?;
    world.settled("demo", 3).await?;
    let kamaji = Kamaji::start(&world, "tenants");
    world.reports("demo", "Kamaji reports it ready").await?;
    for tenant in TENANTS {
        kamaji.add(tenant).await?;
    }
    world.reports("demo", "Tenants default/blue, default/red use it").await?;
    let (red, blue) = (TenantWrites::start(&world, "red").await?, TenantWrites::start(&world, "blue").await?);
    are_kept_apart(&world).await?;

    // What would open them to each other, or take the key from Kamaji, is refused.
    let id = world.cluster_id("demo").await?;
    world.patch("demo", json!({ "spec": { "auth": { "enabled": false } } })).await?;
    annotate(&world, "disable-auth", &id).await?;
    world.reports("demo", "keeps the tenants of Kamaji from the data of each other").await?;
    are_kept_apart(&world).await?;
    world.patch("demo", json!({ "spec": { "auth": { "enabled": true } } })).await?;

    // Kamaji signs again each time that the Secret changes, and rolls its control planes.
    let before = entry(&world, "demo-ca", "tls.crt").await?;
    annotate(&world, "rotate-ca", "clients").await?;
    let to = stage(&world, "Trust").await?;
    rolled(&world, &kamaji, [&red, &blue], 1).await?;
    annotate(&world, "clients-trust", &to).await?;
    stage(&world, "Sign").await?;
    rolled(&world, &kamaji, [&red, &blue], 2).await?;
    annotate(&world, "clients-present", &to).await?;
    until("the rotation has ended", async || {
        let rotation = rotation(&world).await?;
        Ok(if rotation.is_null() { Ok(()) } else { Err(rotation.to_string()) })
    })
    .await?;
    rolled(&world, &kamaji, [&red, &blue], 3).await?;
    let after = entry(&world, "demo-ca", "tls.crt").await?;
    ensure!(after != before && entry(&world, &secret_of("red"), "ca.crt").await? == after);
    world.settled_again("demo", 3).await?;
    are_kept_apart(&world).await?;
    for (tenant, writes) in [("red", &red), ("blue", &blue)] {
        report(&format!("{tenant}, through a rotation of the authority of clients: {}", writes.kept()));
        ensure!(writes.kept().pause < PAUSE, "{tenant}: {}", writes.kept());
    }

    // The deletion waits for both, and serves them.
    world.clusters().delete("demo", &DeleteParams::default()).await?;
    world.reports("demo", "Tenants default/blue, default/red use it").await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    red.go_on("red").await?;
    blue.go_on("blue").await?;
    ensure!(world.members("demo").await?.len() == 3, "a member was stopped");
    red.stop().await?;
    kamaji.remove("red").await?;
    world.reports("demo", "Tenant default/blue uses it").await?;
    blue.go_on("blue").await?;
    blue.stop().await?;
    kamaji.remove("blue").await?;
    until("the EtcdCluster is gone", async || {
        let found = world.clusters().get_opt("demo").await?;
        Ok(if found.is_none() { Ok(()) } else { Err(format!("{:?}; {:?}", found, kamaji.failure())) })
    })
    .await?;
    ensure!(data_stores(&world).get_opt("tenants").await?.is_none(), "the DataStore is left");
    Ok(())
}

/// Each tenant had its certificate signed once more, and reads what the Secret has now.
async fn rolled(
    world: &NamespaceClient,
    kamaji: &Kamaji,
    both: [&TenantWrites; 2],
    times: u32,
) -> Result<()> {
    until(&format!("the tenants were rolled {times} times"), async || {
        let signed = TENANTS.map(|tenant| kamaji.signed(tenant));
        let rolled = both.map(|writes| writes.kept().rolled);
        let is_so =
            signed.iter().all(|signed| *signed == times + 1) && rolled.iter().all(|rolled| *rolled == times);
        let failure = kamaji.failure();
        Ok(if is_so { Ok(()) } else { Err(format!("signed {signed:?}, rolled {rolled:?}, {failure:?}")) })
    })
    .await?;
    // Not even for a moment the first certificate and the key do not fit: signing with them would have failed.
    ensure!(kamaji.unfit().is_empty(), "{:?}", kamaji.unfit());
    let bundle = entry(world, "demo-root-client-tls", "ca.crt").await?;
    ensure!(bundle.starts_with(&entry(world, "demo-ca", "tls.crt").await?), "another authority comes first");
    Ok(())
}

/// No tenant reads or writes what the other one has, or makes itself more.
async fn are_kept_apart(world: &NamespaceClient) -> Result<()> {
    for (own, other) in [("red", "blue"), ("blue", "red")] {
        let user = world.with_certificate_of(&secret_of(own));
        let members: Vec<(String, MemberClient)> = user.members("demo").await?;
        for (name, member) in members {
            let (own, other) = (format!("/{own}/probe"), format!("/{other}/probe"));
            member.put(&own, "x").await?;
            let denied = [
                member.put(&other, "x").await.map(drop),
                member.get(&other, Read::Linearizable).await.map(drop),
                member.get("/registry", Read::Serializable).await.map(drop),
                member.user_add("more").await,
            ];
            for reply in denied {
                let is_denied = matches!(reply, Err(CallError::Refused(Refusal::PermissionDenied, _)));
                ensure!(is_denied, "{own} at {name}: {reply:?}");
            }
        }
    }
    Ok(())
}
