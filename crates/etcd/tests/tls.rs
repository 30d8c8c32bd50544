//! TLS as in a cluster: dialled by address, verified by name, and every misfit told in words.

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

/// With TLS 1.3 a client's certificate is refused after the handshake: a call may be over before that has come.
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

    let stranger = Pki::new(&cluster.dir().join("stranger"));
    let foreign_ca = std::fs::read(stranger.ca_file()).unwrap();
    let reason = why_unreachable(&client(&endpoint, |tls| tls.ca = foreign_ca).unwrap()).await;
    assert_eq!(reason, "certificate signed by unknown authority");

    let foreign = stranger.tls(&stranger.leaf("client", &[]), "m0.test.svc");
    let reason =
        why_refused(&client(&endpoint, |tls| (tls.cert, tls.key) = (foreign.cert, foreign.key)).unwrap())
            .await;
    assert!(reason.contains("did not accept our client certificate"), "{reason}");

    let mut hung = endpoint.clone();
    hung.tls.as_mut().unwrap().server_name = "m0.test.svc".into();
    let fresh = client(&hung, |_| ()).unwrap();
    cluster.members[0].pause();
    // A handshake that never ends: nothing was sent.
    let reason = why_unreachable(&fresh).await;
    assert!(reason.contains("no connection within 500ms"), "{reason}");
    // On a connection that stood, the call was sent: nobody knows.
    assert!(good.put("key", "value").await.unwrap_err().may_have_applied());
    cluster.members[0].resume();
}

#[tokio::test]
async fn plain_http_is_told_from_tls() {
    let cluster = Cluster::start(Setup::new(Minor(3, 6), 1)).await;
    let pki = Pki::new(&cluster.dir().join("pki"));
    let tls = pki.tls(&pki.leaf("client", &[]), "m0.test.svc");
    let endpoint = Endpoint::tls(cluster.members[0].endpoint().address, tls);
    let reason = why_unreachable(&client(&endpoint, |_| ()).unwrap()).await;
    assert!(reason.contains("does not speak TLS"), "{reason}");
}

#[tokio::test]
async fn speaking_plain_http_to_a_member_with_tls_is_an_error_soon() {
    let cluster = Cluster::start(Setup { tls: true, ..Setup::new(Minor(3, 6), 1) }).await;
    let plain = Endpoint::plain(cluster.members[0].endpoint().address);
    let client = MemberClient::new(&plain, Deadlines::default()).unwrap();
    let error = client.put("key", "value").await.unwrap_err();
    assert!(!error.to_string().contains("no answer"), "{error}");
}

#[tokio::test]
async fn unusable_tls_material_is_told_before_anything_is_dialled() {
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
