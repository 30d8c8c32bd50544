//! A member that begins with the data of a backup.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use quorate_agent::guard::Report;
use quorate_agent::run::{AgentStep, exit};
use quorate_api::destination::{Destination, Pvc};
use quorate_api::job::{
    Answer, BackupOrder, FailureKind, Manifest, ORDER, Origin, ReadOrder, RemoveOrder, RestoreOrder, Source,
    SourceEndpoint, VerifyOrder,
};
use quorate_etcd::Read;
use quorate_etcd::testkit::{MINORS, etcd, eventually};
use quorate_model::{GuardVerdict, Minor};
use serde::Serialize;
use tempfile::TempDir;

use super::pod::{Pod, agent};

const MINOR: Minor = Minor(3, 6);
const BUMP: u64 = 1_000_000;

/// A store with a backup of a cluster that had the key `key` with the value `value`.
struct Backup {
    dir: TempDir,
    manifest: Manifest,
}

impl Backup {
    async fn of_a_cluster(minor: Minor) -> Self {
        let source = Pod::running(minor, 1).await;
        source[0].client().put("key", "value").await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let order = order_of(&source[0]);
        let (code, answer) = job("backup", &order, minor, dir.path());
        let Answer::BackedUp(manifest) = answer else { panic!("{answer:?}") };
        assert_eq!((code, manifest.revision), (0, 2));
        Self { dir, manifest }
    }

    fn source(&self) -> Source {
        let sha256 = Some(self.manifest.stored_sha256.clone());
        Source { destination: destination(), key: self.manifest.key.clone(), sha256, version_id: None }
    }

    /// Orders its restore from these Pods.
    fn order(&self, pods: &mut [Pod]) {
        let members: Vec<_> = pods.iter().map(|pod| format!("{}={}", pod.name, pod.peer_url())).collect();
        for pod in pods {
            let order = RestoreOrder {
                source: self.source(),
                name: pod.name.clone(),
                initial_cluster: members.join(","),
                token: "uid-1-1".to_owned(),
                peer_url: pod.peer_url(),
                bump_revision: BUMP,
                least_revision: 0,
                quota_bytes: 2 << 30,
                not_before: None,
            };
            self.give(pod, &order);
        }
    }

    fn give(&self, pod: &mut Pod, order: &RestoreOrder) {
        pod.order = Some(serde_json::to_string(order).unwrap());
        pod.expect = "restored";
        pod.flags = vec![
            format!("--etcdutl={}", etcd(MINOR).with_file_name(format!("etcdutl-{}", pod.minor())).display()),
            format!("--store-pvc={}", self.dir.path().display()),
        ];
    }

    fn object(&self) -> std::path::PathBuf {
        self.dir.path().join(&self.manifest.key)
    }
}

fn destination() -> Destination {
    Destination {
        pvc: Some(Pvc { claim_name: "backups".to_owned(), prefix: None }),
        ..Destination::default()
    }
}

fn order_of(pod: &Pod) -> BackupOrder {
    BackupOrder {
        destination: destination(),
        key: "nightly.db".to_owned(),
        endpoints: vec![SourceEndpoint {
            member: pod.name.clone(),
            url: format!("http://{}:2379", pod.address),
        }],
        tls: false,
        origin: Origin { backup_uid: "uid-b".to_owned(), ..Origin::default() },
        ordered: None,
        min_revision: None,
        without_quorum: false,
        compress: true,
        recipients: Vec::new(),
        spool: false,
        quota_bytes: None,
        rate_limit: None,
        seconds: None,
    }
}

/// Runs the containers of a Job; returns the exit code and the answer of the last one that ran.
fn job(command: &str, order: &impl Serialize, minor: Minor, store: &Path) -> (i32, Answer) {
    let dir = tempfile::tempdir().unwrap();
    for program in ["etcd", "etcdutl"] {
        let built = etcd(minor).with_file_name(format!("{program}-{minor}"));
        std::os::unix::fs::symlink(built.canonicalize().unwrap(), dir.path().join(program)).unwrap();
    }
    let message = dir.path().join("termination-log");
    let run = |command: &str, store: &Path| {
        let status = Command::new(agent())
            .arg(command)
            .arg(format!("--termination-log={}", message.display()))
            .arg(format!("--bin-dir={}", dir.path().display()))
            .arg(format!("--store-pvc={}", store.display()))
            .arg(format!("--scratch={}", dir.path().join("scratch").display()))
            .env(ORDER, serde_json::to_string(order).unwrap())
            .status();
        status.unwrap()
    };
    // Of a restore test only the init container reaches the store.
    let fetched = (command == "verify-backup").then(|| run("fetch-backup", store));
    let status = match fetched {
        Some(failed) if !failed.success() => failed,
        Some(_) => run(command, &dir.path().join("no store")),
        None => run(command, store),
    };
    let answer = serde_json::from_str(&fs::read_to_string(message).unwrap()).unwrap();
    (status.code().unwrap(), answer)
}

async fn has_the_data(pod: &Pod) {
    let kept = pod.client().get("key", Read::Linearizable).await.unwrap().unwrap();
    assert_eq!(kept.value, b"value");
    let revision = pod.client().status().await.unwrap().revision.0;
    assert!(revision >= i64::try_from(BUMP).unwrap(), "revisions were raised: {revision}");
    let left: Vec<_> = fs::read_dir(pod.volume()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name != "quorate.restore"), "{left:?}");
}

fn failure(pod: &Pod) -> quorate_api::job::Failure {
    match serde_json::from_str(&pod.termination_message()).unwrap() {
        Answer::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn jobs_back_up_test_and_remove_and_answer_in_the_termination_message() {
    let backup = Backup::of_a_cluster(MINOR).await;
    let test = VerifyOrder { source: backup.source(), ..VerifyOrder::default() };
    let (code, answer) = job("verify-backup", &test, MINOR, backup.dir.path());
    let Answer::Verified(verified) = answer else { panic!("{answer:?}") };
    assert_eq!((code, verified.keys, verified.revision), (0, 1, 2));

    let read = |sha256: Option<String>| ReadOrder { source: Source { sha256, ..backup.source() } };
    let (code, answer) = job("read-backup", &read(None), MINOR, backup.dir.path());
    let without_auth = Manifest { auth_enabled: Some(false), ..backup.manifest.clone() };
    assert_eq!((code, answer), (0, Answer::Read(without_auth)));
    let other = read(Some("0".repeat(64)));
    let (code, answer) = job("read-backup", &other, MINOR, backup.dir.path());
    assert!(
        matches!(&answer, Answer::Failed(failure) if failure.kind == FailureKind::Mismatch),
        "{answer:?}"
    );
    assert_eq!(code, 2);

    let remove = |uid: &str| RemoveOrder {
        destination: destination(),
        key: backup.manifest.key.clone(),
        backup_uid: uid.to_owned(),
    };
    let (code, answer) = job("remove-backup", &remove("another"), MINOR, backup.dir.path());
    assert!(matches!(&answer, Answer::Failed(failure) if failure.kind == FailureKind::NotOurs), "{answer:?}");
    assert_eq!(code, 2, "every try would fail");
    assert!(backup.object().exists());
    assert_eq!(job("remove-backup", &remove("uid-b"), MINOR, backup.dir.path()), (0, Answer::Removed));
    assert!(!backup.object().exists());

    let gone = tempfile::tempdir().unwrap();
    let (code, answer) = job("remove-backup", &remove("uid-b"), MINOR, &gone.path().join("not mounted"));
    assert!(matches!(answer, Answer::Failed(failure) if failure.kind == FailureKind::StoreUnavailable));
    assert_eq!(code, 1, "another try may succeed");
    let (code, answer) = job("verify-backup", &"rubbish", MINOR, gone.path());
    assert!(matches!(answer, Answer::Failed(failure) if failure.kind == FailureKind::OrderRefused));
    assert_eq!(code, 2);
}

#[tokio::test]
async fn a_job_that_is_stopped_ends_at_once_and_says_so() {
    let store = tempfile::tempdir().unwrap();
    // A member that takes connections and answers nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let order = BackupOrder {
        endpoints: vec![SourceEndpoint {
            member: "demo-0".to_owned(),
            url: format!("http://{}", silent.local_addr().unwrap()),
        }],
        ..order_of(&Pod::cluster(MINOR, 1)[0])
    };
    let message = store.path().join("termination-log");
    let mut job = Command::new(agent())
        .arg("backup")
        .arg(format!("--termination-log={}", message.display()))
        .arg(format!("--store-pvc={}", store.path().display()))
        .env(ORDER, serde_json::to_string(&order).unwrap())
        .spawn()
        .unwrap();
    silent.set_nonblocking(true).unwrap();
    let dialled = eventually("it asks the member", async || silent.accept()).await;
    let begun = Instant::now();
    let pid = nix::unistd::Pid::from_raw(job.id().cast_signed());
    nix::sys::signal::kill(pid, Signal::SIGTERM).unwrap();
    let status = job.wait().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    drop(dialled);
    assert_eq!(status.code(), Some(1), "another try may succeed");
    let text = fs::read_to_string(message).unwrap();
    assert!(text.contains("stopped by a signal"), "{text}");
}

#[tokio::test]
async fn three_members_restore_the_same_backup_in_every_version() {
    for minor in MINORS {
        let backup = Backup::of_a_cluster(minor).await;
        let mut pods = Pod::cluster(minor, 3);
        backup.order(&mut pods);
        pods.iter_mut().for_each(Pod::start);
        for pod in &pods {
            pod.becomes_ready().await;
            has_the_data(pod).await;
        }
        let hash = async |n: usize| pods[n].client().hash_kv(None).await.unwrap().hash;
        assert_eq!(hash(0).await, hash(1).await);
        assert_eq!(hash(1).await, hash(2).await);
    }
}

#[tokio::test]
async fn a_crash_after_any_step_of_a_restore_leaves_a_member_that_restores_again_or_goes_on() {
    let backup = Backup::of_a_cluster(MINOR).await;
    let mut pods = Pod::cluster(MINOR, 1);
    let restore = &AgentStep::all()[AgentStep::A13 as usize..=AgentStep::A18 as usize];
    for step in restore {
        backup.order(&mut pods);
        let pod = &mut pods[0];
        pod.flags.push(format!("--crash-at={step:?}"));
        pod.start();
        assert_eq!(pod.ended().await.signal(), Some(Signal::SIGABRT as i32), "{step:?}: {}", pod.log());
        // The container starts again, and again after that.
        backup.order(std::slice::from_mut(pod));
        pod.start();
        pod.becomes_ready().await;
        has_the_data(pod).await;
        pod.client().put("later", format!("{step:?}")).await.unwrap();
        pod.stops_with(exit::STOPPED.into()).await;
        pod.start();
        pod.becomes_ready().await;
        let later =
            pod.client().get("later", Read::Linearizable).await.unwrap().expect("it is not restored again");
        assert_eq!(later.value, format!("{step:?}").into_bytes());
        pod.stops_with(exit::STOPPED.into()).await;
        pod.forget();
    }
}

#[tokio::test]
async fn n13_a_snapshot_that_is_older_than_allowed_is_refused_before_it_is_downloaded() {
    let backup = Backup::of_a_cluster(MINOR).await;
    let mut pods = Pod::cluster(MINOR, 1);
    backup.order(&mut pods);
    let pod = &mut pods[0];
    let order: RestoreOrder = serde_json::from_str(pod.order.as_ref().unwrap()).unwrap();
    let to = |not_before: &str| RestoreOrder { not_before: Some(not_before.to_owned()), ..order.clone() };
    backup.give(pod, &to("2999-01-01T00:00:00Z"));
    pod.start();
    assert_eq!(pod.ended().await.code(), Some(exit::NOT_RESTORED.into()), "{}", pod.log());
    let failure = failure(pod);
    assert_eq!(failure.kind, FailureKind::Stale);
    assert!(failure.message.contains(&backup.manifest.started), "{}", failure.message);
    assert!(failure.message.contains("spec.bootstrap.restore.notOlderThan"), "{}", failure.message);
    assert!(!pod.log().contains("downloading"), "{}", pod.log());

    // Nothing says how old an object without a manifest is.
    for (not_before, has_manifest) in [("2020-01-01T00:00:00Z", true), ("2999-01-01T00:00:00Z", false)] {
        if !has_manifest {
            fs::remove_file(format!("{}.json", backup.object().display())).unwrap();
        }
        backup.give(pod, &to(not_before));
        pod.start();
        pod.becomes_ready().await;
        has_the_data(pod).await;
        pod.stops_with(exit::STOPPED.into()).await;
        pod.forget();
    }
}

#[tokio::test]
async fn a_member_of_a_restore_never_starts_on_nothing_or_on_other_data() {
    let backup = Backup::of_a_cluster(MINOR).await;
    let mut pods = Pod::cluster(MINOR, 1);
    let pod = &mut pods[0];
    let refused = |pod: &Pod, verdict| {
        let report: Report = serde_json::from_str(&pod.termination_message()).unwrap();
        assert_eq!(report.verdict, verdict, "{report:?}");
    };
    // Its order was lost.
    pod.expect = "restored";
    pod.start();
    assert_eq!(pod.ended().await.code(), Some(exit::REFUSED.into()));
    refused(pod, GuardVerdict::DataMissing);
    assert!(!pod.data_dir().exists());

    // Data that no restore has made.
    pod.expect = "fresh";
    pod.start();
    pod.becomes_ready().await;
    pod.client().put("own", "data").await.unwrap();
    pod.stops_with(exit::STOPPED.into()).await;
    backup.order(std::slice::from_mut(pod));
    pod.start();
    assert_eq!(pod.ended().await.code(), Some(exit::NOT_RESTORED.into()), "{}", pod.log());
    assert_eq!(failure(pod).kind, FailureKind::Unfit);
    assert!(failure(pod).message.contains("no restore has made them. They are not replaced"));

    // They were restored, and then the volume was emptied.
    pod.forget();
    backup.order(std::slice::from_mut(pod));
    pod.start();
    pod.becomes_ready().await;
    pod.stops_with(exit::STOPPED.into()).await;
    pod.empty_volume();
    pod.start();
    assert_eq!(pod.ended().await.code(), Some(exit::REFUSED.into()));
    refused(pod, GuardVerdict::DataMissing);
}

#[tokio::test]
async fn a_restore_that_fails_is_reported_and_the_next_try_succeeds() {
    let backup = Backup::of_a_cluster(MINOR).await;
    let mut pods = Pod::cluster(MINOR, 1);
    let good = fs::read(backup.object()).unwrap();
    let mut damaged = good.clone();
    damaged[100] ^= 1;
    fs::write(backup.object(), damaged).unwrap();
    backup.order(&mut pods);
    let pod = &mut pods[0];
    pod.start();
    assert_eq!(pod.ended().await.code(), Some(exit::NOT_RESTORED.into()), "{}", pod.log());
    assert_eq!(failure(pod).kind, FailureKind::Mismatch, "{}", failure(pod).message);
    assert!(!pod.data_dir().exists());
    assert!(!pod.volume().join("quorate.restore").exists(), "what failed takes no room");
    fs::write(backup.object(), good).unwrap();

    let mut small: RestoreOrder = serde_json::from_str(pod.order.as_ref().unwrap()).unwrap();
    small.quota_bytes = 4096;
    backup.give(pod, &small);
    pod.start();
    assert_eq!(pod.ended().await.code(), Some(exit::NOT_RESTORED.into()));
    assert!(failure(pod).message.contains("the quota of the members is 4096"), "{}", failure(pod).message);

    backup.order(std::slice::from_mut(pod));
    pod.start();
    pod.becomes_ready().await;
    has_the_data(pod).await;
}

#[tokio::test]
async fn o07_what_was_fetched_is_fetched_again_only_where_it_is_not_whole_any_more() {
    let backup = Backup::of_a_cluster(MINOR).await;
    let mut pods = Pod::cluster(MINOR, 1);
    let good = fs::read(backup.object()).unwrap();
    let fetch = async |pod: &mut Pod| {
        fs::write(backup.object(), &good).unwrap();
        backup.order(std::slice::from_mut(pod));
        pod.flags.push("--crash-at=A14".to_owned());
        pod.start();
        assert_eq!(pod.ended().await.signal(), Some(Signal::SIGABRT as i32), "{}", pod.log());
        fs::remove_file(backup.object()).unwrap();
        backup.order(std::slice::from_mut(pod));
    };
    let pod = &mut pods[0];
    fetch(pod).await;
    let snapshot = pod.volume().join("quorate.restore/snapshot.db");
    let mut damaged = fs::read(&snapshot).unwrap();
    damaged[100] ^= 1;
    fs::write(&snapshot, damaged).unwrap();
    pod.start();
    assert_eq!(pod.ended().await.code(), Some(exit::NOT_RESTORED.into()), "{}", pod.log());
    assert_eq!(failure(pod).kind, FailureKind::NotInStore, "{}", failure(pod).message);

    fetch(pod).await;
    pod.start();
    pod.becomes_ready().await;
    has_the_data(pod).await;
    pod.stops_with(exit::STOPPED.into()).await;
    pod.start();
    pod.becomes_ready().await;
}

#[tokio::test]
async fn a_newer_snapshot_is_refused_before_it_is_restored() {
    let backup = Backup::of_a_cluster(Minor(3, 7)).await;
    let mut pods = Pod::cluster(MINOR, 1);
    backup.order(&mut pods);
    pods[0].start();
    assert_eq!(pods[0].ended().await.code(), Some(exit::NOT_RESTORED.into()));
    assert!(failure(&pods[0]).message.contains("this image has 3.6"), "{}", failure(&pods[0]).message);
}

#[tokio::test]
async fn a_newer_snapshot_without_a_manifest_is_refused_by_what_it_says_itself() {
    let newer = Minor(3, 7);
    let source = Pod::running(newer, 1).await;
    eventually("the data have a version", async || {
        let version = source[0].client().status().await.map_err(|error| error.to_string())?.storage_version;
        if version == Some(newer) { Ok(()) } else { Err(format!("{version:?}")) }
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let (_, answer) = job("backup", &order_of(&source[0]), newer, dir.path());
    let Answer::BackedUp(manifest) = answer else { panic!("{answer:?}") };
    let backup = Backup { dir, manifest };
    let object = backup.object();
    for entry in fs::read_dir(object.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        if path != object && path.is_file() {
            fs::remove_file(path).unwrap();
        }
    }
    let mut pods = Pod::cluster(MINOR, 1);
    backup.order(&mut pods);
    pods[0].start();
    assert_eq!(pods[0].ended().await.code(), Some(exit::NOT_RESTORED.into()));
    let failure = failure(&pods[0]);
    assert_eq!(failure.kind, FailureKind::Unfit, "{}", failure.message);
    assert!(failure.message.contains("this image has 3.6"), "{}", failure.message);
}

#[tokio::test]
async fn a_restore_that_takes_long_is_alive_and_not_ready_and_can_be_stopped() {
    let backup = Backup::of_a_cluster(MINOR).await;
    let mut pods = Pod::cluster(MINOR, 1);
    backup.order(&mut pods);
    let pod = &mut pods[0];
    // A program that does not end takes the place of etcdutl.
    let hung = pod.volume().with_file_name("hung");
    fs::create_dir_all(pod.volume()).unwrap();
    fs::write(&hung, "#!/bin/sh\n[ $1 = version ] && echo 'etcdutl version: 3.6.0' && exit\n[ $3 = --help ] && echo --bump-revision && exit\nexec sleep 1000\n").unwrap();
    fs::set_permissions(&hung, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    pod.flags[0] = format!("--etcdutl={}", hung.display());
    pod.start();
    eventually("the restore is under way", async || {
        if pod.log().contains("restoring a database") { Ok(()) } else { Err(pod.log()) }
    })
    .await;
    assert_eq!(pod.get("/healthz").unwrap().0, 200);
    assert_eq!(pod.get("/readyz?wait=200").unwrap().0, 503);
    pod.stops_with(exit::STOPPED.into()).await;
}
