//! The probe beside real etcd processes, asked as a kubelet asks.

mod fake_member;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fake_member::{Auth, FakeMember};
use quorate_agent::probe::{self, EndpointUrl, ProbeArgs};
use quorate_etcd::testkit::{Cluster, MINORS, Member, Pki, Setup, eventually, own_address};
use quorate_etcd::{CallError, Refusal};
use quorate_model::Minor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// A running probe; stops with the value.
struct Probe {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Probe {
    async fn beside(member: &Member) -> Self {
        Self::with(args(member)).await
    }

    async fn with(args: ProbeArgs) -> Self {
        let address = args.listen;
        let probe = probe::Probe::bind(&args).await.unwrap();
        let task = tokio::spawn(async move { probe.serve().await.unwrap() });
        Self { address, task }
    }

    /// The status and the text of a GET.
    async fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        let (head, text) = reply.split_once("\r\n\r\n").expect("an HTTP reply");
        (head.split(' ').nth(1).unwrap().parse().unwrap(), text.trim().to_owned())
    }

    async fn becomes(&self, path: &str, status: u16) -> String {
        eventually(&format!("{path} is {status}"), async || match self.get(path).await {
            (seen, text) if seen == status => Ok(text),
            other => Err(other),
        })
        .await
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn args_of(member: &FakeMember) -> ProbeArgs {
    ProbeArgs {
        listen: SocketAddr::new(own_address(), 9980),
        endpoint: format!("http://{}", member.address).parse().unwrap(),
        server_name: None,
        cert: None,
        key: None,
        cacert: None,
        liveness_grace: Duration::from_mins(1),
    }
}

fn args(member: &Member) -> ProbeArgs {
    let endpoint = member.endpoint();
    ProbeArgs {
        listen: SocketAddr::new(own_address(), 9980),
        endpoint: EndpointUrl { tls: endpoint.tls.is_some(), address: endpoint.address },
        server_name: endpoint.tls.map(|tls| tls.server_name),
        cert: None,
        key: None,
        cacert: None,
        liveness_grace: Duration::from_mins(1),
    }
}

#[tokio::test]
async fn a_member_is_ready_soon_after_it_serves_and_a_request_is_held_meanwhile() {
    let mut cluster = Cluster::start(Setup::new(Minor(3, 6), 1)).await;
    cluster.members[0].kill();
    let probe = Probe::beside(&cluster.members[0]).await;

    let begun = Instant::now();
    assert_eq!(probe.get("/readyz").await, (503, "unreachable: connection refused".to_owned()));
    let held = begun.elapsed();
    assert!((700..5000).contains(&held.as_millis()), "held for the default 800 ms: {held:?}");
    let begun = Instant::now();
    assert_eq!(probe.get("/readyz?wait=300").await.0, 503);
    assert!((200..700).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert_eq!(probe.get("/readyz?wait=60000").await.0, 503);
    assert!(
        (1900..20_000).contains(&begun.elapsed().as_millis()),
        "no longer than 2 s: {:?}",
        begun.elapsed()
    );
    // A process that is gone is the kubelet's to restart: it does not hang.
    assert_eq!(probe.get("/healthz").await.0, 200);

    cluster.members[0].start();
    let client = cluster.members[0].client();
    let serving = async {
        eventually("the member serves", async || client.status().await).await;
        Instant::now()
    };
    let ready = async {
        probe.becomes("/readyz?wait=2000", 200).await;
        Instant::now()
    };
    let (serving, ready) = tokio::join!(serving, ready);
    assert!(ready < serving + Duration::from_millis(500), "{:?}", ready - serving);
}

#[tokio::test]
async fn h18_a_learner_is_started_but_not_ready_until_it_votes() {
    for minor in MINORS {
        let mut cluster = Cluster::start(Setup::new(minor, 1)).await;
        let spare = cluster.spare(1);
        let id = cluster.add_learner(&spare).await;
        cluster.join(spare);
        let probe = Probe::beside(&cluster.members[1]).await;
        eventually("the learner answers", async || match probe.get("/readyz?wait=200").await {
            (503, why) if why == "the member is a learner" => Ok(()),
            other => Err(other),
        })
        .await;
        assert_eq!(probe.get("/healthz").await.0, 200);

        let client = cluster.members[0].client();
        eventually("the learner is promoted", async || match client.member_promote(id).await {
            Err(CallError::Refused(Refusal::LearnerNotReady, why)) => Err(why),
            other => Ok(other),
        })
        .await
        .unwrap();
        probe.becomes("/readyz", 200).await;
    }
}

#[tokio::test]
async fn a_member_without_a_quorum_stays_ready_and_healthy() {
    for minor in MINORS {
        let mut cluster = Cluster::start(Setup::new(minor, 3)).await;
        let probe = Probe::beside(&cluster.members[0]).await;
        cluster.members[1].kill();
        cluster.members[2].kill();
        let client = cluster.members[0].client();
        eventually("the leader is missed", async || match client.status().await {
            Ok(status) if status.leader.is_none() => Ok(()),
            other => Err(other),
        })
        .await;
        for path in ["/readyz?wait=800", "/healthz"] {
            assert_eq!(probe.get(path).await, (200, "ok".to_owned()), "{path} on etcd {minor}");
        }
    }
}

#[tokio::test]
async fn h40_a_hung_member_is_not_ready_within_seconds_and_not_healthy_after_the_grace_time() {
    let mut cluster = Cluster::start(Setup::new(Minor(3, 7), 1)).await;
    let grace = ProbeArgs { liveness_grace: Duration::from_secs(3), ..args(&cluster.members[0]) };
    let probe = Probe::with(grace).await;
    probe.becomes("/readyz", 200).await;

    cluster.members[0].pause();
    let hung_at = Instant::now();
    let (status, why) = probe.get("/readyz?wait=800").await;
    assert_eq!(status, 503, "{why}");
    assert!(hung_at.elapsed() < Duration::from_secs(1), "a kubelet has its answer: {:?}", hung_at.elapsed());
    assert!(why.contains("no answer within 800ms"), "{why}");
    assert_eq!(probe.get("/healthz").await.0, 200, "slow is not hung");
    let why = probe.becomes("/healthz", 503).await;
    assert!(why.starts_with("hung: no answer for "), "{why}");
    assert!(hung_at.elapsed() > Duration::from_secs(3), "{:?}", hung_at.elapsed());

    cluster.members[0].resume();
    probe.becomes("/healthz", 200).await;
    probe.becomes("/readyz", 200).await;

    // Killed and slow to come back: a new process is not judged by the silence of the old one.
    cluster.members[0].kill();
    probe.becomes("/readyz", 503).await;
    assert_eq!(probe.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn renewed_certificates_are_taken_from_disk_without_a_restart() {
    let cluster = Cluster::start(Setup { tls: true, ..Setup::new(Minor(3, 6), 1) }).await;
    let dir = cluster.dir().join("mounted");
    let file = |name: &str| -> PathBuf { dir.join(name) };
    let tls = cluster.members[0].endpoint().tls.unwrap();
    let probe = Probe::with(ProbeArgs {
        cert: Some(file("tls.crt")),
        key: Some(file("tls.key")),
        cacert: Some(file("ca.crt")),
        ..args(&cluster.members[0])
    })
    .await;
    let (status, why) = probe.get("/readyz?wait=200").await;
    assert!(status == 503 && why.contains("cannot read") && why.contains("ca.crt"), "{why}");

    fs::create_dir(&dir).unwrap();
    let foreign = quorate_etcd::testkit::Pki::new(&cluster.dir().join("foreign"));
    fs::write(file("ca.crt"), fs::read(foreign.ca_file()).unwrap()).unwrap();
    fs::write(file("tls.crt"), &tls.cert).unwrap();
    fs::write(file("tls.key"), &tls.key).unwrap();
    let why = probe.get("/readyz?wait=200").await.1;
    assert_eq!(why, "unreachable: certificate signed by unknown authority");

    fs::write(file("ca.crt"), &tls.ca).unwrap();
    probe.becomes("/readyz", 200).await;
    let renewed = cluster.pki().leaf("renewed", &[]);
    fs::copy(renewed.cert, file("tls.crt")).unwrap();
    fs::copy(renewed.key, file("tls.key")).unwrap();
    probe.becomes("/readyz", 200).await;
    fs::write(file("tls.crt"), "rubbish").unwrap();
    assert_eq!(probe.get("/readyz?wait=2000").await.0, 200, "a voter that lives stays ready");
}

#[tokio::test]
async fn s06_where_status_needs_a_user_a_voter_is_ready_and_a_learner_is_not() {
    let voter = Probe::with(args_of(&fake_member::start(Auth::RefusesVoter).await)).await;
    assert_eq!(voter.get("/readyz").await, (200, "ok".to_owned()));
    assert_eq!(voter.get("/healthz").await.0, 200);
    let learner = Probe::with(args_of(&fake_member::start(Auth::RefusesLearner).await)).await;
    let (status, why) = learner.get("/readyz").await;
    assert!(status == 503 && why.contains("the member is a learner"), "{why}");
    assert_eq!(learner.get("/healthz").await.0, 200);
}

/// What a probe of a member with TLS reads its certificates from.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(pki: &Pki) -> Self {
        let mounted = Self(tempfile::tempdir().unwrap());
        mounted.put_ca(pki);
        mounted.put_leaf(pki);
        mounted
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put_ca(&self, pki: &Pki) {
        fs::copy(pki.ca_file(), self.file("ca.crt")).unwrap();
    }

    fn put_leaf(&self, pki: &Pki) {
        let leaf = pki.leaf("client", &[]);
        fs::copy(leaf.cert, self.file("tls.crt")).unwrap();
        fs::copy(leaf.key, self.file("tls.key")).unwrap();
    }

    /// The first moment of silence after an answer is a hang.
    fn args(&self, member: &FakeMember) -> ProbeArgs {
        ProbeArgs {
            endpoint: EndpointUrl { tls: true, address: member.address },
            server_name: Some("127.0.0.1".to_owned()),
            cert: Some(self.file("tls.crt")),
            key: Some(self.file("tls.key")),
            cacert: Some(self.file("ca.crt")),
            liveness_grace: Duration::ZERO,
            ..args_of(member)
        }
    }
}

#[tokio::test]
async fn a_voter_that_lives_stays_ready_and_healthy_without_trust_and_is_not_healthy_when_it_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let (own, foreign) = (Pki::new(&dir.path().join("own")), Pki::new(&dir.path().join("foreign")));
    let member = fake_member::start_tls(&own).await;
    let mounted = Mounted::new(&own);
    let probe = Probe::with(mounted.args(&member)).await;
    assert_eq!(probe.get("/readyz").await, (200, "ok".to_owned()));

    let lives = async |what: &str| {
        for path in ["/readyz?wait=800", "/healthz"] {
            assert_eq!(probe.get(path).await, (200, "ok".to_owned()), "{path}: {what}");
        }
    };
    mounted.put_ca(&foreign);
    lives("the probe does not trust etcd").await;
    mounted.put_ca(&own);
    mounted.put_leaf(&foreign);
    lives("etcd does not trust the probe").await;
    fs::write(mounted.file("tls.crt"), "rubbish").unwrap();
    lives("the probe has no certificate").await;

    member.hang();
    let (status, why) = probe.get("/readyz?wait=800").await;
    assert_eq!(status, 503, "{why}");
    let why = probe.becomes("/healthz", 503).await;
    assert!(why.starts_with("hung: "), "{why}");
}

#[tokio::test]
async fn a_member_that_was_never_reached_for_want_of_trust_is_not_ready_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let (own, foreign) = (Pki::new(&dir.path().join("own")), Pki::new(&dir.path().join("foreign")));
    let member = fake_member::start_tls(&own).await;
    let mounted = Mounted::new(&own);
    mounted.put_ca(&foreign);
    let probe = Probe::with(mounted.args(&member)).await;
    let why = "unreachable: certificate signed by unknown authority".to_owned();
    assert_eq!(probe.get("/readyz?wait=2000").await, (503, why));
    assert_eq!(probe.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn concurrent_requests_share_one_observation() {
    let member = fake_member::start(Auth::Disabled).await;
    let probe = Probe::with(args_of(&member)).await;
    let mut requests = tokio::task::JoinSet::new();
    let probe = std::sync::Arc::new(probe);
    for _ in 0..50 {
        let probe = probe.clone();
        requests.spawn(async move { probe.get("/readyz").await });
    }
    for reply in requests.join_all().await {
        assert_eq!(reply, (200, "ok".to_owned()));
    }
    // One for the first, and one or two for all who came while it was under way.
    let looks = member.statuses();
    assert!(looks <= 4, "{looks} looks for 50 requests");
}

#[tokio::test]
async fn a_kubelet_that_asks_every_second_has_etcd_asked_every_third_time() {
    let member = fake_member::start(Auth::Disabled).await;
    let probe = Probe::with(args_of(&member)).await;
    assert_eq!(probe.get("/readyz").await, (200, "ok".to_owned()));
    let looks = member.statuses();
    for _ in 0..10 {
        assert_eq!(probe.get("/readyz").await, (200, "ok".to_owned()));
    }
    assert_eq!(member.statuses(), looks, "what was found a moment ago counts");
    eventually("etcd is asked again", async || {
        assert_eq!(probe.get("/readyz").await, (200, "ok".to_owned()));
        if member.statuses() > looks { Ok(()) } else { Err(looks) }
    })
    .await;
}

#[tokio::test]
async fn a_member_that_was_never_ready_is_waited_for_by_the_first_request() {
    let dir = tempfile::tempdir().unwrap();
    let (own, foreign) = (Pki::new(&dir.path().join("own")), Pki::new(&dir.path().join("foreign")));
    let member = fake_member::start_tls(&own).await;
    let mounted = Mounted::new(&own);
    mounted.put_ca(&foreign);
    let probe = std::sync::Arc::new(Probe::with(mounted.args(&member)).await);
    let first = tokio::spawn({
        let probe = probe.clone();
        async move { probe.get("/readyz").await }
    });
    // Longer than a request is held that a member answers which was ready before.
    assert_eq!(probe.get("/readyz?wait=1500").await.0, 503);
    assert!(!first.is_finished());
    mounted.put_ca(&own);
    assert_eq!(first.await.unwrap(), (200, "ok".to_owned()));
}

#[tokio::test]
async fn a_probe_that_cannot_work_reports_why() {
    let member: EndpointUrl = "https://127.0.0.1:2379".parse().unwrap();
    assert_eq!((member.tls, member.address), (true, "127.0.0.1:2379".parse().unwrap()));
    assert!("demo-0.demo:2379".parse::<EndpointUrl>().unwrap_err().contains("http://"));
    assert!("http://demo-0.demo:2379".parse::<EndpointUrl>().unwrap_err().contains("not an IP address"));

    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let without_files = ProbeArgs {
        listen: taken.local_addr().unwrap(),
        endpoint: member,
        server_name: None,
        cert: None,
        key: None,
        cacert: None,
        liveness_grace: Duration::from_mins(1),
    };
    let taken_port = ProbeArgs { endpoint: "http://127.0.0.1:1".parse().unwrap(), ..without_files.clone() };
    let why = probe::Probe::bind(&without_files).await.err().unwrap();
    assert_eq!(why, "an https endpoint needs --server-name");
    let why = probe::Probe::bind(&taken_port).await.err().unwrap();
    assert!(why.starts_with("cannot listen on 127.0.0.1:"), "{why}");
}
