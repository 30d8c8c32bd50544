//! What cert-manager itself does, on which its provider relies: its own controllers issue and renew certificates.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use quorate_scenarios::rotations::{annotate, entry, rotation, stage};
use quorate_scenarios::{CertManager, Kubernetes, Writer, spec, until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use x509_parser::extensions::ParsedExtension;
use x509_parser::pem::parse_x509_pem;

/// The shortest life that cert-manager allows, at the end of which it is not: it is renewed after eight seconds.
fn short() -> Value {
    json!({
        "commonName": "leaf", "dnsNames": ["leaf.example"], "usages": ["server auth", "client auth"],
        "duration": "1h", "renewBefore": "59m52s",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_cert_manager_issues_certificates_and_renews_them_by_itself_with_a_new_serial() -> Result<()>
{
    let world = Kubernetes::start().await?;
    let cert_manager = CertManager::start(&world).await?;
    cert_manager.authority("ca").await?;
    cert_manager.certificate("leaf", "ca", short()).await?;
    let revision = cert_manager.revision("leaf").await?;
    let [leaf, ca] = cert_manager.issued("leaf").await?;
    ensure!(ca == cert_manager.issued("ca").await?[0] && signed(&leaf, &ca)?);
    cert_manager.reissued("leaf", revision).await?;
    let [renewed, same] = cert_manager.issued("leaf").await?;
    ensure!(serial(&renewed)? != serial(&leaf)? && same == ca && signed(&renewed, &ca)?);
    cert_manager.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_authority_of_an_issuer_replaces_the_old_one_with_the_next_renewal_and_without_an_overlap()
-> Result<()> {
    let world = Kubernetes::start().await?;
    let cert_manager = CertManager::start(&world).await?;
    cert_manager.authority("ca").await?;
    cert_manager.certificate("leaf", "ca", json!({"dnsNames": ["leaf.example"], "duration": "24h"})).await?;
    let [leaf, old] = cert_manager.issued("leaf").await?;
    cert_manager.replace_authority("ca").await?;
    let [new, _] = cert_manager.issued("ca").await?;
    ensure!(new != old && !signed(&leaf, &new)?, "the authority is not replaced");
    ensure!(cert_manager.issued("leaf").await? == [leaf, old.clone()], "it was issued anew by itself");
    cert_manager.renew("leaf").await?;
    let [renewed, alone] = cert_manager.issued("leaf").await?;
    ensure!(alone == new && signed(&renewed, &new)? && !signed(&renewed, &old)?);
    // Without its issuer a certificate stays as it is.
    cert_manager.delete_issuer("ca").await?;
    ensure!(cert_manager.issued("leaf").await? == [renewed, new]);
    Ok(())
}

/// The serial number of a certificate.
fn serial(pem: &str) -> Result<String> {
    let (_, pem) = parse_x509_pem(pem.as_bytes())?;
    Ok(pem.parse_x509()?.raw_serial_as_string())
}

/// Whether a certificate names this one as its issuer: by the identifier of its key, since an authority that is replaced keeps its name.
fn signed(pem: &str, by: &str) -> Result<bool> {
    let [(_, leaf), (_, ca)] = [parse_x509_pem(pem.as_bytes())?, parse_x509_pem(by.as_bytes())?];
    let (leaf, ca) = (leaf.parse_x509()?, ca.parse_x509()?);
    let mut names = leaf.iter_extensions().filter_map(|one| match one.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(of) => of.key_identifier.as_ref().map(|id| id.0),
        _ => None,
    });
    let named = names.next().context("it names no issuer")?;
    Ok(ca.iter_extensions().any(
        |one| matches!(one.parsed_extension(), ParsedExtension::SubjectKeyIdentifier(id) if id.0 == named),
    ))
}

/// A cluster by the provider cert-manager: servers and clients have what its issuer signs, peers an authority of the operator.
fn by_cert_manager(issuer: &str) -> Value {
    let cert_manager = json!({"issuerKind": "Issuer", "issuerName": issuer});
    json!({
        "provider": "cert-manager", "providerCfg": {"certManagerCfg": cert_manager},
        "rotation": {"clientGrace": "24h"},
    })
}

/// A renewal by the same authority: copied, and no Pod is replaced.
async fn is_copied_when_renewed(world: &Kubernetes, cert_manager: &CertManager) -> Result<()> {
    let pods = uids(world).await?;
    let before = serial(&text(world, "demo-client-tls", "tls.crt").await?)?;
    for leaf in ["demo-server", "demo-client"] {
        cert_manager.ready("Certificate", leaf).await?;
        cert_manager.renew(leaf).await?;
    }
    until("the renewed leaf is copied", async || {
        let now = serial(&text(world, "demo-client-tls", "tls.crt").await?)?;
        Ok(if now == before { Err(now) } else { Ok(()) })
    })
    .await?;
    ensure!(uids(world).await? == pods, "a renewal replaced a Pod");
    Ok(())
}

/// Leads a rotation of the authority of clients through both of its waits. The writer has read its authorities once, so another one begins
/// when both are there.
async fn grace(world: &Kubernetes, writer: Writer) -> Result<Writer> {
    let to = stage(world, "Trust").await?;
    world.reports("demo", "operator.etcd.io/clients-trust=").await?;
    writer.stop().await?.are_all_readable(world, "demo").await?;
    let writer = Writer::start(world, "demo").await?;
    annotate(world, "clients-trust", &to).await?;
    stage(world, "Sign").await?;
    world.reports("demo", "operator.etcd.io/clients-present=").await?;
    annotate(world, "clients-present", &to).await?;
    until("the rotation has ended", async || {
        let rotation = rotation(world).await?;
        Ok(if rotation.is_null() { Ok(()) } else { Err(format!("{rotation}")) })
    })
    .await?;
    world.settled_again("demo", 3).await?;
    Ok(writer)
}

async fn text(world: &Kubernetes, secret: &str, key: &str) -> Result<String> {
    Ok(String::from_utf8(entry(world, secret, key).await?)?)
}

async fn uids(world: &Kubernetes) -> Result<BTreeSet<Option<String>>> {
    Ok(world.pods_of("demo").await?.iter().map(ResourceExt::uid).collect())
}

/// A minute for a new cluster, some minutes for three rotations.
mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_cluster_begins_with_what_cert_manager_issues_and_says_why_while_it_issues_nothing()
    -> Result<()> {
        let world = Kubernetes::start().await?;
        let cert_manager = CertManager::start(&world).await?;
        let mut given = spec(1);
        given["tls"] = by_cert_manager("ca");
        world.create("demo", given).await?;
        world.reports("demo", "not found: issuer.cert-manager.io").await?;
        cert_manager.authority("ca").await?;
        world.settled("demo", 1).await?;
        let [authority, _] = cert_manager.issued("ca").await?;
        ensure!(signed(&text(&world, "demo-server-tls", "tls.crt").await?, &authority)?);
        is_copied_when_renewed(&world, &cert_manager).await?;
        world.delete("demo").await?;
        cert_manager.stop().await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn from_auto_to_cert_manager_by_a_new_authority_without_its_issuer_and_back_to_auto_under_writes()
    -> Result<()> {
        let world = Kubernetes::start().await?;
        let cert_manager = CertManager::start(&world).await?;
        cert_manager.authority("ca").await?;
        let [old, _] = cert_manager.issued("ca").await?;
        world.create("demo", spec(3)).await?;
        world.settled("demo", 3).await?;
        let mut writer = Writer::start(&world, "demo").await?;
        world.patch("demo", json!({"spec": {"tls": by_cert_manager("ca")}})).await?;
        writer = grace(&world, writer).await?;
        let [client, bundle] = [
            text(&world, "demo-client-tls", "tls.crt").await?,
            text(&world, "demo-client-tls", "ca.crt").await?,
        ];
        ensure!(signed(&client, &old)? && bundle == old);
        is_copied_when_renewed(&world, &cert_manager).await?;

        // Another authority without an overlap: the leaves of it wait until members and clients trust both.
        cert_manager.replace_authority("ca").await?;
        let [new, _] = cert_manager.issued("ca").await?;
        for leaf in ["demo-server", "demo-client"] {
            cert_manager.renew(leaf).await?;
        }
        writer = grace(&world, writer).await?;
        let [client, bundle] = [
            text(&world, "demo-client-tls", "tls.crt").await?,
            text(&world, "demo-client-tls", "ca.crt").await?,
        ];
        ensure!(signed(&client, &new)? && bundle == new, "the earlier authority is forgotten");

        // Without its issuer and without cert-manager the cluster goes on, and members that are lost come back.
        cert_manager.delete_issuer("ca").await?;
        cert_manager.stop().await?;
        world.delete_pod("demo-0").await?;
        world.settled_again("demo", 3).await?;

        // Back to an authority of the operator: the same rotation.
        world.patch("demo", json!({"spec": {"tls": {"provider": "auto", "providerCfg": null}}})).await?;
        writer = grace(&world, writer).await?;
        let authority = text(&world, "demo-ca", "tls.crt").await?;
        ensure!(authority != new && text(&world, "demo-client-tls", "ca.crt").await? == authority);
        let acknowledged = writer.stop().await?;
        let figures = acknowledged.figures();
        ensure!(figures.failed == 0, "{figures}");
        acknowledged.are_all_readable(&world, "demo").await
    }
}
