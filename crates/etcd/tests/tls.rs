//! TLS as in a cluster: dialled by address, verified by name; every failure has a message.

use std::time::{Duration, Instant};

use quorate_etcd::testkit::{Cluster, Pki, Setup};
use quorate_etcd::{BadEndpoint, CallError, Deadlines, Endpoint, MemberClient, Tls};
use quorate_model::Minor;

fn client(endpoint: &Endpoint, change: impl FnOnce(&mut Tls)) -> Result<MemberClient, BadEndpoint> {
    let mut endpoint = endpoint.clone();
    change(endpoint.tls.as_mut().expect("a TLS endpoint"));
    let deadlines = Deadlines { connect: Duration::from_millis(500), ..Deadlines::default() };
    MemberClient::new(&endpoint, deadlines)
}

async fn why_unreachable(client: &MemberClient) -> String {
    match client.put("key", "value").await {
        Err(CallError::Unreachable(reason)) => reason,
        other => panic!("must be unreachable: {other:?}"),
    }
}

/// With TLS 1.3 the server rejects a certificate after the handshake, so a call may fail before the alert arrives.
async fn why_refused(client: &MemberClient) -> String {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match client.put("key", "value").await {
            Err(CallError::Unreachable(reason)) => return reason,
            Err(CallError::Unknown(_)) if Instant::now() < end => {}
            other => panic!("must be unreachable: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_member_is_dialled_by_address_and_verified_by_name() {
    let cluster = Cluster::start(Setup { tls: true, ..Setup::new(Minor(3, 6), 1) }).await;
    let endpoint = cluster.members[0].endpoint();
    let good = client(&endpoint, |_| ()).unwrap();
    good.put("key", "value").await.unwrap();

    let reason =
        why_unreachable(&client(&endpoint, |tls| tls.server_name = "m1.test.svc".into()).unwrap()).await;
    assert!(reason.starts_with("certificate name mismatch: it is not valid for m1.test.svc"), "{reason}");
    assert!(reason.contains("m0.test.svc"), "{reason}");

    let other_pki = Pki::new(&cluster.dir().join("other"));
    let other_ca = std::fs::read(other_pki.ca_file()).unwrap();
    let reason = why_unreachable(&client(&endpoint, |tls| tls.ca = other_ca).unwrap()).await;
    assert_eq!(reason, "certificate signed by unknown authority");

    let other = other_pki.tls(&other_pki.leaf("client", &[]), "m0.test.svc");
    let reason =
        why_refused(&client(&endpoint, |tls| (tls.cert, tls.key) = (other.cert, other.key)).unwrap()).await;
    assert!(reason.contains("did not accept our client certificate"), "{reason}");

    let mut hung = endpoint.clone();
    hung.tls.as_mut().unwrap().server_name = "m0.test.svc".into();
    let fresh = client(&hung, |_| ()).unwrap();
    cluster.members[0].pause();
    // The handshake never ends, so nothing was sent.
    let reason = why_unreachable(&fresh).await;
    assert!(reason.contains("the TLS handshake did not end within 500ms"), "{reason}");
    // On an open connection the call was sent, so its outcome is unknown.
    assert!(good.put("key", "value").await.unwrap_err().may_have_applied());
    cluster.members[0].resume();
}

#[tokio::test]
async fn a_server_without_tls_is_named_in_the_error() {
    let cluster = Cluster::start(Setup::new(Minor(3, 6), 1)).await;
    let pki = Pki::new(&cluster.dir().join("pki"));
    let tls = pki.tls(&pki.leaf("client", &[]), "m0.test.svc");
    let endpoint = Endpoint::tls(cluster.members[0].endpoint().address, tls);
    let reason = why_unreachable(&client(&endpoint, |_| ()).unwrap()).await;
    assert!(reason.contains("does not speak TLS"), "{reason}");
}

#[tokio::test]
async fn plain_http_to_a_member_with_tls_fails_before_the_deadline() {
    let cluster = Cluster::start(Setup { tls: true, ..Setup::new(Minor(3, 6), 1) }).await;
    let plain = Endpoint::plain(cluster.members[0].endpoint().address);
    let client = MemberClient::new(&plain, Deadlines::default()).unwrap();
    let error = client.put("key", "value").await.unwrap_err();
    assert!(!error.to_string().contains("no reply"), "{error}");
}

#[tokio::test]
async fn invalid_certificates_are_refused_before_anything_is_dialled() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    let tls = pki.tls(&pki.leaf("client", &[]), "m0.test.svc");
    let endpoint = Endpoint::tls("127.0.0.1:1".parse().unwrap(), tls);
    assert!(client(&endpoint, |_| ()).is_ok());
    assert_eq!(client(&endpoint, |tls| tls.ca.clear()).unwrap_err(), BadEndpoint::NoCa);
    for error in [
        client(&endpoint, |tls| tls.key.clear()).unwrap_err(),
        client(&endpoint, |tls| tls.cert = b"rubbish".to_vec()).unwrap_err(),
        client(&endpoint, |tls| tls.server_name = "not a name".into()).unwrap_err(),
    ] {
        assert!(matches!(&error, BadEndpoint::Tls(reason) if !reason.is_empty()), "{error:?}");
    }
}
