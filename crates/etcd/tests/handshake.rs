//! What a handshake shows of a process, on every supported minor version: the authorities of its start, and the leaf of now.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use quorate_etcd::testkit::{Cluster, Leaf, PEER_NAME, Setup, own_address};
use quorate_etcd::{Handshake, HandshakeError, Stream, Transport, handshake};
use quorate_model::Minor;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const MINOR: Minor = Minor(3, 6);

macro_rules! behaviours {
    ($version:ident, $minor:expr) => {
        mod $version {
            use quorate_model::Minor;

            const MINOR: Minor = $minor;

            #[tokio::test]
            async fn a_process_shows_the_authorities_of_its_start_and_the_leaf_of_now() {
                super::authorities_of_the_start_and_leaf_of_now(MINOR, "TLS1.3").await;
            }

            #[tokio::test]
            async fn a_process_that_speaks_tls_1_2_only_shows_the_same() {
                super::authorities_of_the_start_and_leaf_of_now(MINOR, "TLS1.2").await;
            }
        }
    };
}

behaviours!(etcd_3_5, Minor(3, 5));
behaviours!(etcd_3_6, Minor(3, 6));
behaviours!(etcd_3_7, Minor(3, 7));

/// A port of a member: its leaf, and the file of the authorities that it trusts.
struct Door {
    port: u16,
    leaf: Leaf,
    trusted: PathBuf,
}

async fn authorities_of_the_start_and_leaf_of_now(minor: Minor, max: &str) {
    let (mut cluster, doors) = with_doors(minor, max);
    let own = fs::read_to_string(cluster.pki().ca_file()).unwrap();
    let [before, peers_before, after] = ["before", "before, of peers", "after"].map(authority);
    let sets = [vec![own.clone(), before], vec![own.clone(), peers_before]];
    for (door, set) in doors.iter().zip(&sets) {
        fs::write(&door.trusted, set.concat()).unwrap();
    }
    cluster.members[0].start();
    cluster.led().await;
    for (door, set) in doors.iter().zip(&sets) {
        assert_eq!(look(&cluster, door).await, shows(&door.leaf, set), "{} of etcd {minor}", door.port);
    }

    // The files of both change while it runs.
    let rotated = vec![after, own];
    for door in &doors {
        fs::write(&door.trusted, rotated.concat()).unwrap();
        let old = fs::read(&door.leaf.cert).unwrap();
        renew(&cluster, door);
        assert_ne!(fs::read(&door.leaf.cert).unwrap(), old);
    }
    for (door, set) in doors.iter().zip(&sets) {
        let shown = look(&cluster, door).await;
        assert_eq!(shown, shows(&door.leaf, set), "{} of etcd {minor}, with other files", door.port);
    }

    // Whom it refused for lack of a certificate took nothing from the others.
    cluster.led().await;
    cluster.members[0].kill();
    cluster.members[0].start();
    cluster.led().await;
    for door in &doors {
        let shown = look(&cluster, door).await;
        assert_eq!(shown, shows(&door.leaf, &rotated), "{} of etcd {minor}, started again", door.port);
    }
}

#[tokio::test]
async fn a_server_that_asks_for_no_certificate_names_no_authority() {
    let (mut cluster, doors) = with_doors(MINOR, "TLS1.3");
    cluster.members[0].add_args(["--client-cert-auth=false", "--trusted-ca-file="].map(str::to_owned));
    fs::write(&doors[1].trusted, fs::read(cluster.pki().ca_file()).unwrap()).unwrap();
    cluster.members[0].start();
    cluster.led().await;
    assert_eq!(look(&cluster, &doors[0]).await, shows(&doors[0].leaf, &[]));
}

#[tokio::test]
async fn a_leaf_whose_key_the_server_does_not_have_is_not_shown() {
    for version in rustls::ALL_VERSIONS {
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        for (signs, is_shown) in [(&key, true), (&other, false)] {
            let leaf = params("a server").self_signed(&key).unwrap();
            let shown = look_at_own_server(version, leaf.der(), signs).await;
            match shown {
                Ok(shown) => assert!(is_shown && shown.leaf == leaf.der().as_ref(), "{version:?}: {shown:?}"),
                Err(HandshakeError::Handshake(_)) => assert!(!is_shown, "{version:?}"),
                Err(error) => panic!("{version:?}: {error:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_port_that_is_closed_or_does_not_speak_tls_is_an_error() {
    let closed = SocketAddr::new(own_address(), 2379);
    let error = failure(&Transport::network(), closed).await;
    assert!(matches!(error, HandshakeError::Connect(_)), "{error:?}");

    let plain = Cluster::start(Setup::new(MINOR, 1)).await;
    for port in [2379, 2380] {
        let address = SocketAddr::new(plain.members[0].address(), port);
        let error = failure(&Transport::network(), address).await;
        assert!(matches!(error, HandshakeError::Closed | HandshakeError::Handshake(_)), "{port}: {error:?}");
    }

    let hangs_up = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = hangs_up.local_addr().unwrap();
    tokio::spawn(async move { drop(hangs_up.accept().await.unwrap()) });
    let error = failure(&Transport::network(), address).await;
    assert!(matches!(error, HandshakeError::Closed), "{error:?}");
}

#[tokio::test]
async fn a_port_that_never_answers_is_an_error_when_the_time_is_up() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = failure(&Transport::network(), silent.local_addr().unwrap()).await;
    assert!(matches!(error, HandshakeError::HandshakeTimedOut(TIMEOUT)), "{error:?}");

    let cluster = Cluster::start(Setup { tls: true, ..Setup::new(MINOR, 1) }).await;
    cluster.members[0].pause();
    let error = failure(&Transport::network(), cluster.members[0].endpoint().address).await;
    assert!(matches!(error, HandshakeError::HandshakeTimedOut(TIMEOUT)), "{error:?}");

    let nowhere = Transport::instead(|_| std::future::pending());
    let error = failure(&nowhere, "127.0.0.1:1".parse().unwrap()).await;
    assert!(matches!(error, HandshakeError::TimedOut(TIMEOUT)), "{error:?}");
}

#[tokio::test]
async fn what_is_no_name_of_a_server_is_not_dialled() {
    let never = Transport::instead(|_| async { panic!("it is dialled") });
    let error = handshake(&never, "127.0.0.1:1".parse().unwrap(), "not a name", TIMEOUT).await.unwrap_err();
    assert_eq!(error.to_string(), r#""not a name" is not the name of a server"#);
}

/// Of the looks that fail.
const TIMEOUT: Duration = Duration::from_millis(500);

/// A member that does not run yet, and its ports for clients and for peers, of which no authority is written.
fn with_doors(minor: Minor, max: &str) -> (Cluster, [Door; 2]) {
    let setup = Setup { tls: true, peer_tls: true, ..Setup::new(minor, 1) };
    let mut cluster = Cluster::new(setup);
    let pki = cluster.dir().join("pki");
    let door = |port, stem: &str| Door {
        port,
        leaf: Leaf { cert: pki.join(format!("{stem}.crt")), key: pki.join(format!("{stem}.key")) },
        trusted: pki.join(format!("{stem}-ca.crt")),
    };
    let doors = [door(2379, "m0"), door(2380, "m0-peer")];
    let member = &mut cluster.members[0];
    // The last one counts.
    member.add_args([
        format!("--trusted-ca-file={}", doors[0].trusted.display()),
        format!("--peer-trusted-ca-file={}", doors[1].trusted.display()),
        format!("--tls-max-version={max}"),
    ]);
    member.set_initial(&[(member.name.clone(), member.peer_url())], true);
    (cluster, doors)
}

/// Writes another leaf of the same name.
fn renew(cluster: &Cluster, door: &Door) {
    let address = cluster.members[0].address().to_string();
    match door.port {
        2379 => cluster.pki().leaf("m0", &["m0.test.svc"]),
        _ => cluster.pki().leaf_of(PEER_NAME, "m0-peer", &[&address, "127.0.0.1"]),
    };
}

async fn look(cluster: &Cluster, door: &Door) -> Handshake {
    let address = SocketAddr::new(cluster.members[0].address(), door.port);
    let shown = handshake(&Transport::network(), address, "m0.test.svc", Duration::from_secs(20)).await;
    let mut shown = shown.unwrap_or_else(|error| panic!("{}: {error:?}", door.port));
    shown.trusted.sort();
    shown
}

/// Why there is none; it is known in time.
async fn failure(transport: &Transport, address: SocketAddr) -> HandshakeError {
    let look = handshake(transport, address, "127.0.0.1", TIMEOUT);
    let ended = tokio::time::timeout(Duration::from_secs(20), look).await;
    ended.expect("it ends in time").expect_err("it shows nothing")
}

/// What is shown by a server with this leaf, which trusts these authorities (PEM).
fn shows(leaf: &Leaf, trusted: &[String]) -> Handshake {
    let mut roots = RootCertStore::empty();
    for authority in trusted {
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    }
    let mut trusted: Vec<_> = roots.subjects().iter().map(|name| name.as_ref().to_vec()).collect();
    trusted.sort();
    Handshake { leaf: der(&leaf.cert), trusted }
}

fn der(file: &Path) -> Vec<u8> {
    CertificateDer::from_pem_slice(&fs::read(file).unwrap()).unwrap().to_vec()
}

/// The certificate of an authority of this name, PEM.
fn authority(name: &str) -> String {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// Presents this leaf, and signs with this key.
#[derive(Debug)]
struct Presents(Arc<CertifiedKey>);

impl ResolvesServerCert for Presents {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

async fn look_at_own_server(
    version: &'static SupportedProtocolVersion,
    leaf: &CertificateDer<'static>,
    signs: &KeyPair,
) -> Result<Handshake, HandshakeError> {
    let key = ring::sign::any_supported_type(&signs.serialize_der().try_into().unwrap()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Presents(Arc::new(CertifiedKey::new(vec![leaf.clone()], key)))));
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let transport = Transport::instead(move |_| {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(acceptor.accept(far));
        async { Ok(Box::new(near) as Stream) }
    });
    handshake(&transport, "127.0.0.1:1".parse().unwrap(), "localhost", Duration::from_secs(20)).await
}
