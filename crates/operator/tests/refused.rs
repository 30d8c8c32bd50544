//! Objects that the API server does not let the operator put right, and labels that somebody takes off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::world::{RequestOutcome, World, jobs, plain, settled, story, until};
use anyhow::{Result, ensure};
use http::Method;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use kube::api::{Patch, PatchParams};
use quorate_api::restore::RestorePhase;
use quorate_api::{EtcdRestore, keys};
use quorate_manifests::AgentDelivery;
use serde_json::{Value, json};

async fn patch<K>(world: &World, name: &str, patch: Value) -> Result<K>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + serde::de::DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    Ok(world.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_refused_because_of_their_image_volume_come_with_an_init_container() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let client = world.client_through(|sent| {
        if sent.has_image_volume() { RequestOutcome::Refused(403, "Forbidden") } else { RequestOutcome::Open }
    });
    let _operator = world
        .operator_over(client, |options| options.defaults.agent_delivery = AgentDelivery::ImageVolumeFirst);
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    let delivery = world.status().await?.agent_delivery;
    ensure!(delivery.as_ref().is_some_and(|own| own.reason.contains("refused")), "{delivery:?}");
    let sent = world.sent.all();
    let tried = sent.iter().filter(|sent| sent.body.to_string().contains("\"reference\"")).count();
    ensure!((1..=3).contains(&tried), "each of three Pods is tried at most once: {tried}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_refuses_every_pod_costs_few_requests() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let open = Arc::new(AtomicBool::new(false));
    let opened = open.clone();
    let client = world.client_through(move |sent| {
        let refuses = sent.creates_pod() && !opened.load(Ordering::SeqCst);
        if refuses { RequestOutcome::Refused(403, "exceeded quota: small") } else { RequestOutcome::Open }
    });
    let _operator = world.operator_over(client, |_| {});
    world.create_cluster(plain(1)).await?;
    until("the refusal is reported", async || {
        let progressing = world.condition("Progressing", "True").await?;
        Ok(match progressing {
            Some((reason, _)) if reason == "WriteRefused" => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })
    .await?;
    let before = world.sent.all().iter().filter(|sent| sent.creates_pod()).count();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let sent = world.sent.all().iter().filter(|sent| sent.creates_pod()).count() - before;
    ensure!(sent <= 40, "{sent} requests in ten minutes");
    open.store(true, Ordering::SeqCst);
    settled(&world, 1).await
}

#[tokio::test(start_paused = true)]
async fn l08_a_peer_service_whose_patch_is_refused_keeps_no_lost_pod_from_being_made() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let client = world.client_through(|sent| {
        let corrects = sent.method == Method::PATCH && sent.path.ends_with("/services/demo");
        if corrects { RequestOutcome::Refused(422, "Invalid") } else { RequestOutcome::Open }
    });
    let _operator = world.operator_over(client, |_| {});
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    patch::<Service>(&world, "demo", json!({ "spec": { "publishNotReadyAddresses": false } })).await?;
    let lost = world.api::<Pod>().get("demo-1").await?.metadata.uid;
    world.delete::<Pod>("demo-1").await?;
    until("the lost Pod is made again", async || {
        let pod = world.api::<Pod>().get_opt("demo-1").await?;
        let is_new = pod.is_some_and(|pod| pod.metadata.uid != lost);
        Ok(if is_new { Ok(()) } else { Err(format!("{:#?}", world.status().await?.conditions)) })
    })
    .await?;
    until("status names the Service", async || {
        Ok(match world.condition("Progressing", "False").await? {
            Some((reason, message))
                if reason == "WriteRefused" && message.contains("change Service default/demo") =>
            {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        })
    })
    .await?;
    let patches = || {
        let all = world.sent.all();
        all.iter()
            .filter(|sent| sent.method == Method::PATCH && sent.path.ends_with("/services/demo"))
            .count()
    };
    tokio::time::sleep(Duration::from_secs(30)).await;
    let before = patches();
    tokio::time::sleep(Duration::from_secs(100)).await;
    let after = patches();
    ensure!((1..=12).contains(&(after - before)), "{} patches in 100 s", after - before);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn l10_a_label_that_is_taken_off_a_volume_or_a_pod_is_put_back_and_neither_is_taken_for_lost()
-> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    let take_off = || json!({ "metadata": { "labels": { keys::CLUSTER: null } } });
    let volume: PersistentVolumeClaim = patch(&world, "demo-1", take_off()).await?;
    let pod: Pod = patch(&world, "demo-2", take_off()).await?;
    until("the labels are back", async || {
        let volume = world.api::<PersistentVolumeClaim>().get("demo-1").await?.metadata.labels;
        let pod = world.api::<Pod>().get("demo-2").await?.metadata.labels;
        let is_back = |labels: &Option<std::collections::BTreeMap<String, String>>| {
            labels.as_ref().and_then(|all| all.get(keys::CLUSTER)).is_some_and(|label| label == "demo")
        };
        let both = is_back(&volume) && is_back(&pod);
        Ok(if both {
            Ok(())
        } else {
            Err(format!("{volume:?} {pod:?} {:#?}", world.status().await?.conditions))
        })
    })
    .await?;
    settled(&world, 3).await?;
    let after = world.api::<PersistentVolumeClaim>().get("demo-1").await?.metadata.uid;
    ensure!(after == volume.metadata.uid, "the volume is another one");
    ensure!(
        world.api::<Pod>().get("demo-2").await?.metadata.uid == pod.metadata.uid,
        "the Pod is another one"
    );
    let names: Vec<String> = world.status().await?.members.into_iter().map(|member| member.name).collect();
    ensure!(names == ["demo-0", "demo-1", "demo-2"], "{names:?}");
    Ok(())
}

/// A quota that has no room for another claim, and a policy on Pods, as the API server answers for them: also to a dry run.
#[tokio::test(start_paused = true)]
async fn o03_a_restore_in_place_stops_nobody_while_the_api_server_would_refuse_new_members() -> Result<()> {
    for (kind, words, holds) in [
        ("persistentvolumeclaims", "exceeded quota: small", true),
        ("pods", "violates PodSecurity", true),
        // The old Pods are gone when the new ones come.
        ("pods", "exceeded quota: small", false),
    ] {
        let world = World::new().await?;
        let (_members, _jobs) = (world.kubelet(), jobs::kubelet(&world, jobs::able()));
        let refuses = Arc::new(AtomicBool::new(false));
        let is_refused = refuses.clone();
        let client = world.client_through(move |sent| {
            // The quota counts the old Pods as long as they are there, which is while nothing is created for real.
            let dry = sent.query.contains("dryRun") || holds;
            let is_it = sent.method == Method::POST && sent.path.ends_with(kind) && dry;
            if is_it && is_refused.load(Ordering::SeqCst) {
                RequestOutcome::Refused(403, words)
            } else {
                RequestOutcome::Open
            }
        });
        let _operator = world.operator_over(client, |_| {});
        world.create_cluster(plain(1)).await?;
        settled(&world, 1).await?;
        refuses.store(true, Ordering::SeqCst);
        story::order_restore(&world).await?;
        let status = async || {
            Ok::<_, anyhow::Error>(world.api::<EtcdRestore>().get("back").await?.status.unwrap_or_default())
        };
        if holds {
            until("its words are in the status of the order", async || {
                let text = format!("{:#?}", status().await?.conditions);
                Ok(if text.contains(words) && text.contains("RestoreRefused") { Ok(()) } else { Err(text) })
            })
            .await?;
            tokio::time::sleep(Duration::from_mins(5)).await;
            let of_cluster = world.status().await?;
            ensure!(of_cluster.replacing.is_none() && of_cluster.incarnation.is_none(), "{of_cluster:#?}");
            ensure!(world.names::<Pod>().await?.contains(&"demo-0".to_owned()), "it was stopped");
            ensure!(!world.names::<Pod>().await?.contains(&"demo-1".to_owned()), "a dry run creates nothing");
            refuses.store(false, Ordering::SeqCst);
        }
        until("the order is complete", async || {
            let now = status().await?;
            Ok(if now.phase == Some(RestorePhase::Complete) { Ok(()) } else { Err(format!("{now:#?}")) })
        })
        .await?;
    }
    Ok(())
}
