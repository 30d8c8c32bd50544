//! The Pod of a member whose cluster has lost its quorum, while it is recovered.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use nix::sys::signal::Signal;
use quorate_agent::run::{AgentStep, exit};
use quorate_api::destination::{Destination, Pvc};
use quorate_api::job::{
    Answer, ExtractOrder, FailureKind, Manifest, Origin, RecoverOrder, RestoreOrder, Source, StoredLog,
};
use quorate_etcd::Read;
use quorate_etcd::testkit::{MINORS, etcd};
use quorate_model::Minor;

use super::pod::{Pod, leader};

const MINOR: Minor = Minor(3, 6);
const PREFIX: &str = "quorate.recovered";

/// Runs the Pod with this order; returns the exit code and the answer.
async fn ordered(pod: &mut Pod, order: &RecoverOrder) -> (i32, Answer) {
    pod.command = "recover";
    pod.expect = "data";
    pod.order = Some(serde_json::to_string(order).unwrap());
    pod.start();
    let code = pod.ended().await.code().unwrap_or(-1);
    (code, serde_json::from_str(&pod.termination_message()).unwrap())
}

async fn read(pod: &mut Pod) -> StoredLog {
    match ordered(pod, &RecoverOrder::Read).await {
        (0, Answer::Stored(stored)) => stored,
        other => panic!("{other:?}"),
    }
}

fn destination(claim: &str) -> Destination {
    let pvc = Pvc { claim_name: claim.to_owned(), prefix: Some(PREFIX.to_owned()) };
    Destination { pvc: Some(pvc), ..Destination::default() }
}

fn extract_order(pod: &Pod, stored: StoredLog) -> RecoverOrder {
    RecoverOrder::Extract(Box::new(ExtractOrder {
        destination: destination(&pod.name),
        key: "recovered.db".to_owned(),
        origin: Origin { backup_uid: "recovery-1".to_owned(), ..Origin::default() },
        stored,
    }))
}

async fn extract(pod: &mut Pod, stored: StoredLog) -> Manifest {
    let order = extract_order(pod, stored);
    match ordered(pod, &order).await {
        (0, Answer::BackedUp(manifest)) => manifest,
        other => panic!("{other:?}: {}", pod.log()),
    }
}

/// A new member that restores the snapshot from the volume of the old one.
async fn restored_from(old: &Pod, manifest: &Manifest) -> Pod {
    let mut new = Pod::cluster(old.minor(), 1).pop().unwrap();
    let order = RestoreOrder {
        source: Source {
            destination: destination(&old.name),
            key: manifest.key.clone(),
            sha256: Some(manifest.stored_sha256.clone()),
            version_id: None,
        },
        name: new.name.clone(),
        initial_cluster: format!("{}={}", new.name, new.peer_url()),
        token: "uid-1-1".to_owned(),
        peer_url: new.peer_url(),
        bump_revision: 1_000_000,
        least_revision: 0,
        quota_bytes: 2 << 30,
        not_before: None,
    };
    new.order = Some(serde_json::to_string(&order).unwrap());
    new.expect = "restored";
    let etcdutl = etcd(old.minor()).with_file_name(format!("etcdutl-{}", old.minor()));
    new.flags =
        vec![format!("--etcdutl={}", etcdutl.display()), format!("--store-pvc={}", old.volume().display())];
    new.start();
    new.becomes_ready().await;
    new
}

async fn value(pod: &Pod, key: &str) -> Option<String> {
    let found = pod.client().get(key, Read::Linearizable).await.unwrap();
    found.map(|found| String::from_utf8(found.value).unwrap())
}

async fn kill(pod: &mut Pod) {
    pod.signal(Signal::SIGKILL);
    pod.ended().await;
}

#[tokio::test]
async fn what_a_lone_survivor_has_committed_comes_back_in_a_cluster_of_its_own_in_every_version() {
    for minor in MINORS {
        let mut pods = Pod::running(minor, 3).await;
        let old = pods[0].client().status().await.unwrap().cluster_id;
        for n in 0..20 {
            pods[0].client().put(&format!("key-{n}"), format!("{n}")).await.unwrap();
        }
        let at = leader(&pods).await;
        let mut survivor = pods.swap_remove(at);
        for mut lost in pods {
            kill(&mut lost).await;
        }
        // Not acknowledged: no quorum stores it.
        let late = tokio::time::timeout(Duration::from_secs(1), survivor.client().put("late", "never")).await;
        assert!(!matches!(late, Ok(Ok(_))), "{late:?}");
        kill(&mut survivor).await;

        let stored = read(&mut survivor).await;
        assert_eq!(stored.cluster_id, old.to_string());
        assert!(stored.last_index > stored.committed_index, "the write that nobody acknowledged: {stored:?}");
        let manifest = extract(&mut survivor, stored.clone()).await;
        assert!(manifest.without_quorum && manifest.snapshot_bytes > 0);
        assert!(manifest.revision >= 21, "{manifest:?}");
        assert_eq!(read(&mut survivor).await, stored, "the member's own data are as they were");
        let left: Vec<_> =
            fs::read_dir(survivor.volume()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name != "quorate.recover"), "{left:?}");

        let new = restored_from(&survivor, &manifest).await;
        for n in 0..20 {
            assert_eq!(value(&new, &format!("key-{n}")).await, Some(n.to_string()), "{minor}");
        }
        assert_eq!(value(&new, "late").await, None, "etcd drops what is not known to be committed");
        let status = new.client().status().await.unwrap();
        assert_ne!(status.cluster_id, old);
        assert!(status.revision.0 > 1_000_000);
    }
}

#[tokio::test]
async fn a_crash_after_any_step_of_an_extraction_leaves_a_member_that_extracts_again() {
    let mut pods = Pod::running(MINOR, 1).await;
    let pod = &mut pods[0];
    pod.client().put("key", "value").await.unwrap();
    pod.stops_with(exit::STOPPED.into()).await;
    let stored = read(pod).await;
    for step in &AgentStep::all()[AgentStep::A19 as usize..=AgentStep::A23 as usize] {
        let _ = fs::remove_dir_all(pod.volume().join(PREFIX));
        pod.order = Some(serde_json::to_string(&extract_order(pod, stored.clone())).unwrap());
        pod.flags = vec![format!("--crash-at={step:?}")];
        pod.start();
        assert_eq!(pod.ended().await.signal(), Some(Signal::SIGABRT as i32), "{step:?}: {}", pod.log());
        pod.flags.clear();
        let manifest = extract(pod, stored.clone()).await;
        assert_eq!(extract(pod, stored.clone()).await, manifest, "{step:?}: it is taken once");
        assert!(!pod.volume().join("quorate.recover").exists(), "{step:?}");
    }
    let manifest = extract(pod, stored).await;
    let new = restored_from(pod, &manifest).await;
    assert_eq!(value(&new, "key").await.as_deref(), Some("value"));
    // The order is withdrawn.
    let pod = &mut pods[0];
    (pod.command, pod.order) = ("run", None);
    pod.start();
    pod.becomes_ready().await;
    assert_eq!(value(pod, "key").await.as_deref(), Some("value"), "the member goes on as it was");
}

#[tokio::test]
async fn a_volume_on_which_an_etcd_still_runs_is_not_read_and_not_copied() {
    let mut pods = Pod::running(MINOR, 1).await;
    pods[0].client().put("key", "value").await.unwrap();
    let mut second = Pod::cluster(MINOR, 1).pop().unwrap();
    second.share_volume_of(&pods[0]);
    let (code, answer) = ordered(&mut second, &RecoverOrder::Read).await;
    assert_eq!(code, 1, "another try may succeed");
    let in_use =
        |answer: &Answer| matches!(answer, Answer::Failed(failure) if failure.kind == FailureKind::InUse);
    assert!(in_use(&answer), "{answer:?}");
    let order = extract_order(&second, StoredLog::default());
    assert!(in_use(&ordered(&mut second, &order).await.1));
    assert_eq!(value(&pods[0], "key").await.as_deref(), Some("value"));
    pods[0].stops_with(exit::STOPPED.into()).await;
    assert!(read(&mut second).await.committed_index > 0);
}

#[tokio::test]
async fn a_volume_without_the_members_data_is_reported_and_other_data_than_were_chosen_are_refused() {
    let mut pods = Pod::running(MINOR, 1).await;
    let pod = &mut pods[0];
    pod.stops_with(exit::STOPPED.into()).await;
    let stored = read(pod).await;
    let before = StoredLog { committed_index: stored.committed_index - 1, ..stored };
    let order = extract_order(pod, before);
    let (code, answer) = ordered(pod, &order).await;
    assert_eq!(code, 2, "every try would fail");
    assert!(
        matches!(&answer, Answer::Failed(failure) if failure.message.contains("have changed since they were chosen")),
        "{answer:?}"
    );

    pod.empty_volume();
    let (code, answer) = ordered(pod, &RecoverOrder::Read).await;
    assert_eq!(code, 1, "it is looked at again");
    assert!(matches!(&answer, Answer::NothingStored(why) if why.contains("DataMissing")), "{answer:?}");
    assert!(!pod.data_dir().exists(), "nothing is made");
}
