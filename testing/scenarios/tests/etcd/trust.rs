//! docs/protocols/trust.md at real etcd: an authority of the user's takes the place of the operator's, is exchanged for one of the same name, and gives
//! the place back, under writes.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use quorate_scenarios::rotations::{annotate, entry, rotation, stage};
use quorate_scenarios::{NamespaceClient, Playground, Writer, spec, until};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P384_SHA384,
};
use serde_json::{Value, json};

use crate::rotate::certificate;

#[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
#[tokio::test(flavor = "multi_thread")]
async fn an_authority_of_the_users_is_given_exchanged_and_taken_back_under_writes_and_none_fails()
-> Result<()> {
    let world = Playground::start().await?;
    let mut given = spec(3);
    given["tls"] = json!({ "rotation": { "clientGrace": "24h" } });
    world.create("demo", given).await?;
    world.settled("demo", 3).await?;
    let own = certificate(&world, "demo-ca").await?;

    // As openssl writes it: an RSA key in PKCS #1.
    let openssl = include_str!("../../../../crates/manifests/tests/authorities/rsa-pkcs1.pem");
    put(&world, openssl, openssl).await?;
    replaced(&world, "given", json!("my-ca")).await?;
    let trusted = entry(&world, "demo-client-tls", "ca.crt").await?;
    ensure!(openssl.as_bytes().starts_with(&trusted), "the copy signs");

    // One of the same subject with another key, as an issuer makes that renews it.
    let (cert, key) = of_same_name()?;
    put(&world, &cert, &key).await?;
    replaced(&world, "exchanged", json!("my-ca")).await?;
    ensure!(
        entry(&world, "demo-client-tls", "ca.crt").await? == cert.as_bytes(),
        "the earlier one is forgotten"
    );

    // Its Secret is gone: nothing ends.
    let secrets: Api<Secret> = Api::default_namespaced(world.client.clone());
    secrets.delete("my-ca", &DeleteParams::default()).await?;
    world.reports("demo", "Secret default/my-ca cannot be taken: it does not exist").await?;
    let writer = Writer::start(&world, "demo").await?;
    writer.stop().await?.are_all_readable(&world, "demo").await?;

    replaced(&world, "taken back", Value::Null).await?;
    let last = certificate(&world, "demo-ca").await?;
    ensure!(last != own && last != cert.as_bytes(), "one of the operator's own");
    Ok(())
}

/// Names the Secret in the spec, or none, and waits until the authority of clients is another one. A client that has read its authority once is
/// restarted in between, as an API server is.
async fn replaced(world: &NamespaceClient, what: &str, secret: Value) -> Result<()> {
    let began = Instant::now();
    let writer = Writer::start(world, "demo").await?;
    let auto = json!({ "caBundleSecret": secret });
    world.patch("demo", json!({ "spec": { "tls": { "providerCfg": { "autoCfg": auto } } } })).await?;
    let to = stage(world, "Trust").await?;
    world.reports("demo", "operator.etcd.io/clients-trust=").await?;
    writer.stop().await?.are_all_readable(world, "demo").await?;
    let writer = Writer::start(world, "demo").await?;
    annotate(world, "clients-trust", &to).await?;
    stage(world, "Sign").await?;
    annotate(world, "clients-present", &to).await?;
    until("the rotation has ended", async || {
        let rotation = rotation(world).await?;
        Ok(if rotation.is_null() { Ok(()) } else { Err(format!("{rotation}")) })
    })
    .await?;
    world.settled_again("demo", 3).await?;
    writer.stop().await?.are_all_readable(world, "demo").await?;
    println!("authority of clients {what}: {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

async fn put(world: &NamespaceClient, cert: &str, key: &str) -> Result<()> {
    let secrets: Api<Secret> = Api::default_namespaced(world.client.clone());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "my-ca", "labels": { "operator.etcd.io/cluster": "demo" } },
        "stringData": { "tls.crt": cert, "tls.key": key },
    });
    if secrets.get_opt("my-ca").await?.is_some() {
        secrets
            .patch("my-ca", &PatchParams::default(), &Patch::Merge(secret))
            .await
            .context("the Secret of the CA")?;
    } else {
        secrets
            .create(&PostParams::default(), &serde_json::from_value(secret)?)
            .await
            .context("the Secret of the CA")?;
    }
    Ok(())
}

fn of_same_name() -> Result<(String, String)> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Example");
    params.distinguished_name.push(DnType::CommonName, "rsa-pkcs1 CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}
