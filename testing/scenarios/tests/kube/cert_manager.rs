//! What cert-manager itself does, on which its provider relies: its own controllers issue and renew certificates.

use anyhow::{Context, Result, ensure};
use quorate_scenarios::{CertManager, Kubernetes};
use serde_json::{Value, json};
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
