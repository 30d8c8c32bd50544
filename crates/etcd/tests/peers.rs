//! The door of peers on every supported minor version: with `--peer-cert-allowed-cn` a member lets in what has the common name of
//! peers, and nothing else that its authority signed.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quorate_etcd::Read;
use quorate_etcd::testkit::{Cluster, Leaf, Member, PEER_NAME, Pki, Setup, eventually};
use quorate_model::Minor;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// What is behind the door: the list, the log and the snapshots of raft, the promotion of a learner, the leases.
const PATHS: [(&str, &str); 7] = [
    ("GET", "/members"),
    ("POST", "/raft"),
    ("GET", "/raft/stream/message/1"),
    ("GET", "/raft/stream/msgapp/1"),
    ("POST", "/raft/snapshot"),
    ("POST", "/members/promote/1"),
    ("POST", "/leases"),
];

macro_rules! behaviours {
    ($version:ident, $minor:expr) => {
        mod $version {
            use quorate_model::Minor;

            const MINOR: Minor = $minor;

            #[tokio::test]
            async fn s14_only_a_certificate_with_the_common_name_of_peers_is_let_in_at_the_peer_port() {
                super::only_peers_are_let_in(MINOR).await;
            }

            #[tokio::test]
            async fn s14_a_cluster_gets_the_flag_member_by_member_and_serves_on() {
                super::member_by_member(MINOR).await;
            }
        }
    };
}

behaviours!(etcd_3_5, Minor(3, 5));
behaviours!(etcd_3_6, Minor(3, 6));
behaviours!(etcd_3_7, Minor(3, 7));

async fn only_peers_are_let_in(minor: Minor) {
    let shut = Setup { args: vec![flag()], ..setup(minor, 2) };
    let mut cluster = Cluster::start(shut).await;
    let address = cluster.members[0].address();
    let [client, server, peer] = leaves(&cluster);
    for path in PATHS {
        for leaf in [&client, &server] {
            assert_eq!(answer(cluster.pki(), leaf, address, path).await, None, "{path:?} with {leaf:?}");
        }
        let answer = answer(cluster.pki(), &peer, address, path).await;
        assert!(answer.as_ref().is_some_and(|line| line.starts_with("HTTP/1.1 ")), "{path:?}: {answer:?}");
    }
    let list = answer(cluster.pki(), &peer, address, PATHS[0]).await;
    assert_eq!(list.as_deref(), Some("HTTP/1.1 200 OK"), "the door opens for peers");

    // A learner joins through it, and becomes a voter.
    let third = cluster.spare(2);
    let learner = cluster.add_learner(&third).await;
    cluster.join(third);
    let leader = cluster.led().await;
    let client = cluster.members[leader].client();
    eventually("the learner is promoted", async || client.member_promote(learner).await).await;
    write_through_all(&cluster, "joined").await;
}

async fn member_by_member(minor: Minor) {
    let mut cluster = Cluster::start(setup(minor, 3)).await;
    let [client, server, peer] = leaves(&cluster);
    let addresses: Vec<IpAddr> = cluster.members.iter().map(Member::address).collect();
    for address in &addresses {
        for leaf in [&client, &server] {
            let list = answer(cluster.pki(), leaf, *address, PATHS[0]).await;
            assert_eq!(list.as_deref(), Some("HTTP/1.1 200 OK"), "without the flag everybody is let in");
        }
    }
    for n in 0..addresses.len() {
        let member = &mut cluster.members[n];
        member.kill();
        member.add_args([flag()]);
        member.start();
        // The one that has the flag and those that do not are peers.
        write_through_all(&cluster, &format!("after {n}")).await;
        for (other, address) in addresses.iter().enumerate() {
            let list = answer(cluster.pki(), &client, *address, PATHS[0]).await;
            assert_eq!(list.is_none(), other <= n, "member {other} after the restart of {n}: {list:?}");
        }
    }
    for address in &addresses {
        assert_eq!(answer(cluster.pki(), &server, *address, PATHS[0]).await, None);
        assert!(answer(cluster.pki(), &peer, *address, PATHS[0]).await.is_some());
    }
}

fn setup(minor: Minor, size: usize) -> Setup {
    Setup { peer_tls: true, ..Setup::new(minor, size) }
}

fn flag() -> String {
    format!("--peer-cert-allowed-cn={PEER_NAME}")
}

/// Those of a client, of a server and of a peer. That of a server is valid for the address that etcd sees, so that it is not
/// refused for that.
fn leaves(cluster: &Cluster) -> [Leaf; 3] {
    let pki = cluster.pki();
    [
        pki.leaf("quorate-client", &[]),
        pki.leaf("quorate-server", &["127.0.0.1", "localhost"]),
        pki.leaf_of(PEER_NAME, "a-peer", &["127.0.0.1"]),
    ]
}

/// Every member takes a write, and every member has it.
async fn write_through_all(cluster: &Cluster, value: &str) {
    for writer in &cluster.members {
        let client = writer.client();
        // One whose outcome is not known is written again.
        eventually("a write through the member", async || client.put(&writer.name, value).await).await;
        for reader in &cluster.members {
            let client = reader.client();
            let get = async || client.get(&writer.name, Read::Linearizable).await;
            let read = eventually("a read through the member", get).await.expect("it was written");
            assert_eq!(read.value, value.as_bytes(), "{} reads {}", reader.name, writer.name);
        }
    }
}

/// The first line of what the peer port of a member answers to this certificate. `None`: it is not let in.
async fn answer(pki: &Pki, leaf: &Leaf, address: IpAddr, (method, path): (&str, &str)) -> Option<String> {
    let read = |path| std::fs::read(path).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&read(pki.ca_file())).unwrap()).unwrap();
    let cert = CertificateDer::from_pem_slice(&read(leaf.cert.clone())).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&read(leaf.key.clone())).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![cert], key)
        .unwrap();
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: member\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let exchange = async {
        let stream = TcpStream::connect(SocketAddr::new(address, 2380)).await.unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(ServerName::from(address), stream).await;
        let mut stream = stream.expect("the member presents a certificate that is valid for its address");
        // With TLS 1.3 the server rejects a certificate after the handshake.
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n") {
            answer.push(stream.read_u8().await.ok()?);
        }
        Some(String::from_utf8_lossy(&answer).trim_end().to_owned())
    };
    tokio::time::timeout(Duration::from_secs(20), exchange)
        .await
        .expect("it answers, or closes the connection")
}
