//! The Certificates of cert-manager as the operator keeps them: asked for, corrected, told of where nothing comes of them, and deleted once nothing
//! rests on them. Its own controllers run in the scenarios on kubelets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::world::{RequestOutcome, World, plain, until};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use quorate_api::EtcdCluster;
use serde_json::{Value, json};

fn by_cert_manager() -> Value {
    let mut spec = plain(1);
    spec["tls"] = json!({ "provider": "cert-manager",
        "providerCfg": { "certManagerCfg": { "issuerKind": "Issuer", "issuerName": "ca" } } });
    spec
}

/// Installs the kinds of cert-manager that the operator needs.
async fn install(world: &World) -> Result<()> {
    let kinds = [("Certificate", "certificates"), ("CertificateRequest", "certificaterequests")];
    for (kind, plural) in kinds {
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let definition: CustomResourceDefinition = serde_json::from_value(json!({
            "metadata": { "name": format!("{plural}.cert-manager.io") },
            "spec": {
                "group": "cert-manager.io", "scope": "Namespaced",
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
                "versions": [{ "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} } }],
            },
        }))?;
        let api: Api<CustomResourceDefinition> = Api::all(world.client_through(|_| RequestOutcome::Open));
        api.create(&PostParams::default(), &definition).await?;
    }
    Ok(())
}

fn certificates(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("cert-manager.io", "v1", "Certificate");
    Api::namespaced_with(
        world.client_through(|_| RequestOutcome::Open),
        "default",
        &ApiResource::from_gvk(&kind),
    )
}

async fn are_named(world: &World, names: &[&str]) -> Result<()> {
    until("the Certificates follow", async || {
        let seen = certificates(world).list(&ListParams::default()).await?;
        let seen: Vec<String> = seen.items.into_iter().filter_map(|one| one.metadata.name).collect();
        Ok(if seen == names { Ok(()) } else { Err(format!("{seen:?}")) })
    })
    .await
}

async fn says(world: &World, text: &str) -> Result<()> {
    until("the condition says so", async || {
        let cluster = world.api::<EtcdCluster>().get("demo").await?;
        let conditions = cluster.status.map(|status| status.conditions).unwrap_or_default();
        let seen = conditions.into_iter().find(|one| one.type_ == "TLSReady");
        let seen = seen.map(|seen| format!("{} {}: {}", seen.status, seen.reason, seen.message));
        let seen = seen.unwrap_or_default();
        Ok(if seen.contains(text) { Ok(()) } else { Err(seen) })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn certificates_are_asked_for_through_lost_replies_and_what_cert_manager_says_of_them_is_told()
-> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let lost: Arc<[AtomicBool; 2]> = Arc::default();
    let seen = lost.clone();
    let client = world.client_through(move |sent| {
        let nth = ["POST", "PATCH"].iter().position(|method| sent.method == *method);
        let nth = nth.filter(|_| sent.kind() == "certificates");
        let is_first = nth.is_some_and(|nth| !seen[nth].swap(true, Ordering::SeqCst));
        if is_first { RequestOutcome::ReplyLost } else { RequestOutcome::Open }
    });
    let operator = world.operator_over(client, |_| {});
    world.create_cluster(by_cert_manager()).await?;
    are_named(&world, &["demo-client", "demo-server"]).await?;
    says(&world, "False AuthorityRefused: ").await?;
    says(&world, "cert-manager has not looked at it yet: does it run?").await?;
    ensure!(
        world.api::<Pod>().list(&ListParams::default()).await?.items.is_empty(),
        "nothing is made without it"
    );

    let waits =
        json!({ "status": { "conditions": [{ "type": "Ready", "status": "False", "message": "Issuing" }] } });
    let how = PatchParams::default();
    for name in ["demo-client", "demo-server"] {
        certificates(&world).patch_status(name, &how, &Patch::Merge(&waits)).await?;
    }
    says(&world, "Certificate default/demo-server is not ready: Issuing").await?;

    // An edit of the spec, and one that somebody else made, which is put right.
    let edit = json!({ "spec": { "tls": { "providerCfg": { "certManagerCfg": { "issuerKind": "Issuer", "issuerName": "other" } } } } });
    world.api::<EtcdCluster>().patch("demo", &how, &Patch::Merge(edit)).await?;
    until("the issuer is the other one", async || {
        let seen = certificates(&world).get("demo-server").await?.data["spec"]["issuerRef"].clone();
        let other = json!({ "group": "cert-manager.io", "kind": "Issuer", "name": "other" });
        Ok(if seen == other { Ok(()) } else { Err(seen.to_string()) })
    })
    .await?;
    let drift = json!({ "spec": { "duration": "1h0m0s" } });
    certificates(&world).patch("demo-server", &how, &Patch::Merge(drift)).await?;
    until("the life is put right", async || {
        let seen = certificates(&world).get("demo-server").await?.data["spec"]["duration"].clone();
        Ok(if seen == "2160h0m0s" { Ok(()) } else { Err(seen.to_string()) })
    })
    .await?;
    ensure!(lost.iter().all(|lost| lost.load(Ordering::SeqCst)), "no reply was lost");
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn where_cert_manager_is_missing_or_the_name_is_taken_status_says_so_and_the_cure_is_seen() -> Result<()>
{
    let world = World::new().await?;
    let operator = world.operator();
    world.create_cluster(by_cert_manager()).await?;
    says(&world, "cert-manager is not installed in this Kubernetes").await?;
    install(&world).await?;
    are_named(&world, &["demo-client", "demo-server"]).await?;
    let foreign = json!({ "metadata": { "ownerReferences": null } });
    certificates(&world).patch("demo-client", &PatchParams::default(), &Patch::Merge(foreign)).await?;
    says(&world, "Certificate default/demo-client exists and is not owned by this EtcdCluster").await?;
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn certificates_and_their_secrets_are_deleted_once_the_operators_own_authority_signs_alone()
-> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let operator = world.operator();
    world.create_cluster(by_cert_manager()).await?;
    are_named(&world, &["demo-client", "demo-server"]).await?;
    // cert-manager has written its Secrets, and one of somebody else has such a name.
    for (leaf, of) in [("server", "demo-server"), ("client", "somebody-elses")] {
        let secret: Secret = serde_json::from_value(json!({ "metadata": {
            "name": format!("demo-{leaf}-issued"), "labels": { "operator.etcd.io/cluster": "demo" },
            "annotations": { "cert-manager.io/certificate-name": of },
        } }))?;
        world.api::<Secret>().create(&PostParams::default(), &secret).await?;
    }
    // Nothing was signed yet: the cluster begins with an authority of the operator.
    let edit = json!({ "spec": { "tls": { "provider": "auto", "providerCfg": null } } });
    world.api::<EtcdCluster>().patch("demo", &PatchParams::default(), &Patch::Merge(edit)).await?;
    are_named(&world, &[]).await?;
    let left = async || {
        let seen = world
            .api::<Secret>()
            .list(&ListParams::default().labels("operator.etcd.io/cluster=demo"))
            .await?;
        let seen = seen.items.into_iter().filter_map(|one| one.metadata.name);
        Ok::<_, anyhow::Error>(seen.filter(|name| name.ends_with("-issued")).collect::<Vec<_>>())
    };
    until("the Secret of cert-manager is gone, and the other one is not", async || {
        let seen = left().await?;
        Ok(if seen == ["demo-client-issued"] { Ok(()) } else { Err(format!("{seen:?}")) })
    })
    .await?;
    tokio::time::sleep(Duration::from_mins(5)).await;
    ensure!(left().await? == ["demo-client-issued"]);
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn the_certificate_of_root_goes_with_its_secret_once_auth_is_not_wanted_any_more() -> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let operator = world.operator();
    let mut spec = by_cert_manager();
    spec["auth"] = json!({ "enabled": true });
    world.create_cluster(spec).await?;
    are_named(&world, &["demo-client", "demo-operator", "demo-server"]).await?;
    let secret: Secret = serde_json::from_value(json!({ "metadata": {
        "name": "demo-operator-issued", "labels": { "operator.etcd.io/cluster": "demo" },
        "annotations": { "cert-manager.io/certificate-name": "demo-operator" },
    } }))?;
    world.api::<Secret>().create(&PostParams::default(), &secret).await?;
    let edit = json!({ "spec": { "auth": null } });
    world.api::<EtcdCluster>().patch("demo", &PatchParams::default(), &Patch::Merge(edit)).await?;
    are_named(&world, &["demo-client", "demo-server"]).await?;
    until("its Secret is gone", async || {
        let names = world.names::<Secret>().await?;
        Ok(if names.contains(&"demo-operator-issued".to_owned()) {
            Err(format!("{names:?}"))
        } else {
            Ok(())
        })
    })
    .await?;
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_a_policy_changes_is_told_and_put_right_with_growing_pauses() -> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let operator = world.operator();
    world.create_cluster(by_cert_manager()).await?;
    are_named(&world, &["demo-client", "demo-server"]).await?;
    let (how, certificates) = (PatchParams::default(), certificates(&world));
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True", "message": "" }] } });
    for name in ["demo-client", "demo-server"] {
        certificates.patch_status(name, &how, &Patch::Merge(&ready)).await?;
    }
    // A policy, for an hour.
    let is_put_right = async || {
        let seen = certificates.get("demo-server").await?;
        anyhow::Ok(seen.data["spec"]["duration"] == "2160h0m0s")
    };
    let policy = json!({ "spec": { "duration": "1h0m0s" } });
    let mut writes = 0;
    for _ in 0..360 {
        if is_put_right().await? {
            writes += 1;
            certificates.patch("demo-server", &how, &Patch::Merge(&policy)).await?;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    ensure!((5..9).contains(&writes), "{writes} writes");
    says(
        &world,
        "Certificate default/demo-server is changed whenever the operator writes it (spec.duration)",
    )
    .await?;
    // It is gone.
    until("it is put right", async || {
        Ok(if is_put_right().await? { Ok(()) } else { Err("not yet".to_owned()) })
    })
    .await?;
    until("nothing is told any more", async || {
        let cluster = world.api::<EtcdCluster>().get("demo").await?;
        let told = serde_json::to_string(&cluster.status)?.contains("is changed whenever");
        Ok(if told { Err("told".to_owned()) } else { Ok(()) })
    })
    .await?;
    operator.stop().await
}

/// R26. A tenant may write EtcdClusters and nothing of cert-manager. The operator allows no ClusterIssuer.
#[tokio::test(start_paused = true)]
async fn a_running_cluster_whose_edit_names_a_cluster_issuer_that_is_not_allowed_asks_for_no_certificate()
-> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let operator = world.operator();
    let mut spec = plain(1);
    spec["tls"] = json!({ "provider": "auto" });
    world.create_cluster(spec).await?;
    until("a target is committed", async || {
        let status = world.status().await?;
        Ok(if status.target.is_some() { Ok(()) } else { Err(format!("{status:?}")) })
    })
    .await?;
    let edit = json!({ "spec": { "tls": { "provider": "cert-manager", "providerCfg": { "certManagerCfg": {
        "issuerKind": "ClusterIssuer", "issuerName": "company", "altNames": { "dnsNames": ["vault.company.example"] },
    } } } } });
    world.api::<EtcdCluster>().patch("demo", &PatchParams::default(), &Patch::Merge(edit)).await?;
    until("the edit is refused", async || {
        let found = world.condition("Stalled", "True").await?;
        let is_refused = found.as_ref().is_some_and(|(reason, _)| reason == "SpecInvalid");
        Ok(if is_refused { Ok(()) } else { Err(format!("{found:?}")) })
    })
    .await?;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let asked = certificates(&world).list(&ListParams::default()).await?.items;
    ensure!(asked.is_empty(), "{asked:?}");
    operator.stop().await
}

/// A Secret that cert-manager would write over is named, and nothing is asked.
#[expect(clippy::disallowed_methods, reason = "the test is the person who deletes the Secret")]
#[tokio::test(start_paused = true)]
async fn a_secret_of_somebody_under_the_name_that_cert_manager_would_write_is_named_and_left_alone()
-> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let somebodys: Secret = serde_json::from_value(json!({ "metadata": { "name": "demo-server-issued" } }))?;
    let somebodys = world.api::<Secret>().create(&PostParams::default(), &somebodys).await?;
    let operator = world.operator();
    world.create_cluster(by_cert_manager()).await?;
    says(&world, "False AuthorityRefused: ").await?;
    says(&world, "Secret default/demo-server-issued").await?;
    says(&world, "so nothing is asked of cert-manager. Delete or rename it").await?;
    tokio::time::sleep(Duration::from_mins(5)).await;
    are_named(&world, &["demo-client"]).await?;
    ensure!(world.api::<Secret>().get("demo-server-issued").await? == somebodys);
    world.api::<Secret>().delete("demo-server-issued", &kube::api::DeleteParams::default()).await?;
    are_named(&world, &["demo-client", "demo-server"]).await?;
    operator.stop().await
}

/// A CA of an issuer.
struct Ca {
    cert: String,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

fn ca() -> Result<Ca> {
    let key = rcgen::KeyPair::generate()?;
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, "Example CA");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    let cert = params.self_signed(&key)?.pem();
    Ok(Ca { cert, issuer: rcgen::Issuer::new(params, key) })
}

/// What cert-manager writes for this Certificate by this CA, so many seconds after the world began.
async fn issue(world: &World, leaf: &str, by: &Ca, after: i64) -> Result<()> {
    let asked = certificates(world).get(&format!("demo-{leaf}")).await?;
    let strings = |at: &str| {
        let all = asked.data.pointer(at).and_then(Value::as_array).into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut params =
        rcgen::CertificateParams::new([strings("/spec/dnsNames"), strings("/spec/ipAddresses")].concat())?;
    let name = asked.data.pointer("/spec/commonName").and_then(Value::as_str).unwrap_or_default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    if leaf == "server" {
        params.extended_key_usages.push(rcgen::ExtendedKeyUsagePurpose::ServerAuth);
    }
    let now = time::OffsetDateTime::from_unix_timestamp(world.clock.now().0 / 1000)?;
    params.not_before = now - time::Duration::hours(1) + time::Duration::seconds(after);
    params.not_after = now + time::Duration::days(90);
    let key = rcgen::KeyPair::generate()?;
    let cert = params.signed_by(&key, &by.issuer)?.pem();
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {
            "name": format!("demo-{leaf}-issued"), "labels": { "operator.etcd.io/cluster": "demo" },
            "annotations": {
                "cert-manager.io/certificate-name": format!("demo-{leaf}"),
                "cert-manager.io/issuer-name": "ca", "cert-manager.io/issuer-kind": "Issuer",
            },
        },
        "stringData": { "tls.crt": cert, "tls.key": key.serialize_pem(), "ca.crt": by.cert },
    }))?;
    let data = secret.string_data.clone().unwrap_or_default();
    let data = data.into_iter().map(|(key, text)| (key, k8s_openapi::ByteString(text.into_bytes())));
    let secret = Secret { data: Some(data.collect()), string_data: None, ..secret };
    world.api::<Secret>().create(&PostParams::default(), &secret).await?;
    Ok(())
}

/// A CA, its Issuer and the EtcdCluster are applied in one file, and cert-manager issues the CA twice in that time.
#[tokio::test(start_paused = true)]
async fn a_ca_that_is_issued_twice_before_the_cluster_begins_needs_nobody() -> Result<()> {
    let world = World::new().await?;
    install(&world).await?;
    let operator = world.operator();
    world.create_cluster(by_cert_manager()).await?;
    are_named(&world, &["demo-client", "demo-server"]).await?;
    let (earlier, later) = (ca()?, ca()?);
    issue(&world, "server", &earlier, 0).await?;
    issue(&world, "client", &later, 10).await?;
    until("what the earlier one issued is gone", async || {
        let names = world.names::<Secret>().await?;
        let issued: Vec<String> = names.into_iter().filter(|name| name.ends_with("-issued")).collect();
        Ok(if issued == ["demo-client-issued"] { Ok(()) } else { Err(format!("{issued:?}")) })
    })
    .await?;
    ensure!(world.names::<Pod>().await?.is_empty(), "nothing has begun");
    issue(&world, "server", &later, 20).await?;
    until("the cluster begins", async || {
        let pods = world.names::<Pod>().await?;
        Ok(if pods == ["demo-0"] { Ok(()) } else { Err(format!("{pods:?}")) })
    })
    .await?;
    let copied = world.api::<Secret>().get("demo-server-tls").await?.data.unwrap_or_default();
    ensure!(copied["ca.crt"].0 == later.cert.as_bytes(), "of the later one alone");
    operator.stop().await
}
