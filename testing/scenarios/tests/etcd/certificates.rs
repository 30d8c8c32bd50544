//! Certificates at real etcd: leaves are renewed while it runs, and it serves the new ones without a restart; and only peers are let in at
//! the port of peers.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams};
use quorate_scenarios::{NamespaceClient, Playground, Writer, spec, until};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyUsagePurpose};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use time::{Duration, OffsetDateTime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Leaves and their common names.
const LEAVES: [(&str, &str); 3] = [
    ("demo-server-tls", "quorate-server"),
    ("demo-peer-tls", "quorate-peer"),
    ("demo-client-tls", "quorate-client"),
];

#[tokio::test(flavor = "multi_thread")]
async fn s04_leaves_that_are_due_are_renewed_and_etcd_serves_the_new_ones_without_a_restart() -> Result<()> {
    let world = Playground::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let writer = Writer::start(&world, "demo").await?;
    let pods = starts(&world).await?;
    let authorities = async || {
        anyhow::Ok((
            read(&world, "demo-ca", "tls.crt").await?,
            read(&world, "demo-peer-ca", "tls.crt").await?,
        ))
    };
    let before_renewal = authorities().await?;
    let mut before = Vec::new();
    for (leaf, _) in LEAVES {
        before.push(read(&world, leaf, "tls.crt").await?);
    }

    let first = served_by(&world, "demo-0").await?;
    ensure!(first == der(&before[0])?, "etcd serves what is in the Secret");
    let mut due = Vec::new();
    for (leaf, common_name) in LEAVES {
        let left = Duration::hours(1);
        due.push(replace_by_one_that_ends_in(&world, "demo", (leaf, common_name), left).await?);
    }
    until("every leaf is renewed and served", async || {
        for ((leaf, _), due) in LEAVES.iter().zip(&due) {
            if read(&world, leaf, "tls.crt").await? == *due {
                return Ok(Err(format!("{leaf} is not renewed")));
            }
        }
        let desired = der(&read(&world, "demo-server-tls", "tls.crt").await?)?;
        for member in ["demo-0", "demo-1", "demo-2"] {
            if served_by(&world, member).await? != desired {
                return Ok(Err(format!("{member} does not serve it yet")));
            }
        }
        Ok(Ok(()))
    })
    .await?;
    ensure!(authorities().await? == before_renewal, "the authorities stay");
    ensure!(starts(&world).await? == pods, "nothing restarts");

    // Peers, the probe and the operator make new connections with the new leaves.
    world.delete_pod("demo-1").await?;
    world.settled_again("demo", 3).await?;
    writer.stop().await?.are_all_readable(&world, "demo").await?;
    world.wait_for_condition("demo", "TLSReady", "True").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s14_at_the_port_of_peers_a_client_and_a_server_are_refused_and_a_peer_is_not() -> Result<()> {
    let world = Playground::start().await?;
    let clusters = [("old", "3.5.35"), ("demo", "3.6.16"), ("new", "3.7.3")];
    for (cluster, version) in clusters {
        let mut spec = spec(1);
        spec["version"] = json!(version);
        world.create(cluster, spec).await?;
    }
    for (cluster, version) in clusters {
        world.settled(cluster, 1).await?;
        for path in ["/members", "/raft", "/raft/stream/message/1", "/raft/snapshot"] {
            for leaf in ["client", "server"] {
                let answer = answer_to(&world, cluster, leaf, path).await?;
                ensure!(answer.is_none(), "{version} answers {path} to the {leaf} leaf: {answer:?}");
            }
            let answer = answer_to(&world, cluster, "peer", path).await?;
            ensure!(answer.is_some(), "{version} refuses {path} to a peer");
        }
        let list = answer_to(&world, cluster, "peer", "/members").await?;
        ensure!(list.as_deref() == Some("HTTP/1.1 200 OK"), "{version}: {list:?}");
    }
    Ok(())
}

/// The first line that the first member of a cluster answers at its peer port to this leaf; `None` if it does not let it in.
async fn answer_to(world: &NamespaceClient, cluster: &str, leaf: &str, path: &str) -> Result<Option<String>> {
    let leaf = format!("{cluster}-{leaf}-tls");
    // What the member presents there comes from the authority of peers.
    let connected = connect(world, (cluster, &format!("{cluster}-0")), &leaf, 2380).await;
    // With TLS 1.3 the server rejects a certificate after the handshake.
    let mut stream = connected.context("the handshake, in which the member presents its certificate")?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: member\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let exchange = async {
        stream.write_all(request.as_bytes()).await?;
        stream.read_to_end(&mut answer).await
    };
    // An answer may come without a proper end of the connection.
    let _ = tokio::time::timeout(std::time::Duration::from_secs(20), exchange).await.context("no answer")?;
    Ok(String::from_utf8_lossy(&answer).lines().next().map(str::to_owned))
}

/// Puts a certificate of the same authority into the Secret of a leaf of a cluster, which began ten hours ago. Returns it.
pub(crate) async fn replace_by_one_that_ends_in(
    world: &NamespaceClient,
    cluster: &str,
    (leaf, common_name): (&str, &str),
    left: Duration,
) -> Result<Vec<u8>> {
    let authority = format!("{cluster}-{}", if leaf.ends_with("-peer-tls") { "peer-ca" } else { "ca" });
    let text = async |key: &str| anyhow::Ok(String::from_utf8(read(world, &authority, key).await?)?);
    let issuer_key = rcgen::KeyPair::from_pem(&text("tls.key").await?)?;
    let issuer = Issuer::from_ca_cert_pem(&text("tls.crt").await?, issuer_key)?;
    let mut params = CertificateParams::new(names(cluster, world.client.default_namespace()))?;
    params.not_before = OffsetDateTime::now_utc() - Duration::hours(10);
    params.not_after = OffsetDateTime::now_utc() + left;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let key = rcgen::KeyPair::generate()?;
    let cert = params.signed_by(&key, &issuer)?.pem().into_bytes();
    let data = json!({
        "tls.crt": ByteString(cert.clone()), "tls.key": ByteString(key.serialize_pem().into_bytes()),
    });
    let patch = Patch::Merge(json!({ "data": data }));
    secrets(world).patch(leaf, &PatchParams::default(), &patch).await?;
    Ok(cert)
}

/// Every name that a leaf of a cluster must have.
fn names(cluster: &str, namespace: &str) -> Vec<String> {
    let members =
        [format!("*.{cluster}.{namespace}.svc.cluster.local"), format!("*.{cluster}.{namespace}.svc")];
    let services = [cluster.to_owned(), format!("{cluster}-client")].into_iter().flat_map(|service| {
        let namespaced = format!("{service}.{namespace}");
        let full = [format!("{namespaced}.svc"), format!("{namespaced}.svc.cluster.local")];
        [service, namespaced].into_iter().chain(full)
    });
    let local = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    members.into_iter().chain(services).chain(local).collect()
}

/// The certificate that a member presents to a client.
async fn served_by(world: &NamespaceClient, member: &str) -> Result<CertificateDer<'static>> {
    let mut stream = connect(world, ("demo", member), "demo-client-tls", 2379).await?;
    let presented = stream.get_ref().1.peer_certificates().and_then(|all| all.first()).cloned();
    let _ = stream.shutdown().await;
    presented.map(CertificateDer::into_owned).context("it presented no certificate")
}

/// A connection to a port of a member, with the leaf in this Secret.
async fn connect(
    world: &NamespaceClient,
    (cluster, member): (&str, &str),
    leaf: &str,
    port: u16,
) -> Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    let known_by = if port == 2380 { &format!("{cluster}-peer-tls") } else { leaf };
    roots.add(der(&read(world, known_by, "ca.crt").await?)?)?;
    let cert = der(&read(world, leaf, "tls.crt").await?)?;
    let key = PrivateKeyDer::from_pem_slice(&read(world, leaf, "tls.key").await?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![cert], key)?;
    let pod = world.pods().get(member).await?;
    let ip = pod.status.and_then(|status| status.pod_ip).context("the Pod has no address")?;
    let address: SocketAddr = format!("{ip}:{port}").parse()?;
    let name = ServerName::try_from(format!("{member}.{cluster}.{}.svc", world.client.default_namespace()))?;
    let stream = TcpStream::connect(address).await?;
    Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
}

/// The uid of each Pod, and how often its containers were restarted.
async fn starts(world: &NamespaceClient) -> Result<Vec<(String, i32)>> {
    let of = |pod: Pod| {
        let restarts = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
        (pod.metadata.uid.unwrap_or_default(), restarts.iter().map(|one| one.restart_count).sum())
    };
    Ok(world.pods_of("demo").await?.into_iter().map(of).collect())
}

async fn read(world: &NamespaceClient, secret: &str, key: &str) -> Result<Vec<u8>> {
    let secret = secrets(world).get(secret).await?;
    Ok(secret.data.and_then(|mut data| data.remove(key)).with_context(|| format!("no {key}"))?.0)
}

fn der(pem: &[u8]) -> Result<CertificateDer<'static>> {
    Ok(CertificateDer::from_pem_slice(pem)?)
}

fn secrets(world: &NamespaceClient) -> Api<Secret> {
    Api::default_namespaced(world.client.clone())
}
