//! The agent as the first process of a container, with real etcd as its child.

mod pod;
mod recover;
mod restore;
mod trust;

use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use pod::{Pod, is_alive, leader};
use quorate_agent::guard::{Report, stored};
use quorate_agent::run::{AgentStep, exit};
use quorate_etcd::testkit::{MINORS, Pki, etcd, eventually, own_address};
use quorate_etcd::{CallError, MemberClient, Read};
use quorate_model::{GuardVerdict, Minor};

const MINOR: Minor = Minor(3, 6);

fn assert_refused(pod: &Pod) {
    let report: Report = serde_json::from_str(&pod.termination_message()).unwrap();
    assert_eq!(report.verdict, GuardVerdict::DataMissing, "{report:?}");
}

#[tokio::test]
async fn s07_a_cluster_of_one_whose_volume_was_emptied_between_two_starts_is_refused() {
    let mut pods = Pod::running(MINOR, 1).await;
    let pod = &mut pods[0];
    pod.client().put("key", "value").await.unwrap();
    kill(pod.etcd_pid().await, Signal::SIGKILL).unwrap();
    assert_eq!(pod.ended().await.code(), Some(137));
    pod.empty_volume();

    pod.start();
    assert_eq!(pod.ended().await.code(), Some(exit::REFUSED.into()), "{}", pod.log());
    assert_refused(pod);
    assert!(!pod.data_dir().exists(), "etcd was not started");
}

#[tokio::test]
async fn s07_a_member_of_three_whose_volume_was_emptied_between_two_starts_is_refused() {
    let mut pods = Pod::running(MINOR, 3).await;
    pods[1].stops_with(0).await;
    pods[1].empty_volume();

    pods[1].start();
    assert_eq!(pods[1].ended().await.code(), Some(exit::REFUSED.into()), "{}", pods[1].log());
    assert_refused(&pods[1]);
    pods[0].client().put("key", "the others serve on").await.unwrap();
}

#[tokio::test]
async fn a_container_that_restarts_on_its_data_continues() {
    let mut pods = Pod::running(MINOR, 1).await;
    pods[0].client().put("key", "value").await.unwrap();
    pods[0].signal(Signal::SIGKILL);
    pods[0].ended().await;
    pods[0].start();
    pods[0].becomes_ready().await;
    let kept = pods[0].client().get("key", Read::Linearizable).await.unwrap().unwrap();
    assert_eq!(kept.value, b"value");
}

#[tokio::test]
async fn etcd_listens_for_clients_with_tls_at_every_address_of_the_pod_and_for_peers_at_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let leaf = Pki::new(dir.path()).leaf("server", &["localhost"]);
    let mut pods = Pod::cluster(MINOR, 1);
    let (first, second) = (pods[0].address, own_address());
    pods[0].more_addresses = vec![second];
    // The last one counts.
    pods[0].etcd_flags = vec![
        format!("--listen-client-urls=https://{first}:2379"),
        format!("--advertise-client-urls=https://{first}:2379"),
        format!("--cert-file={}", leaf.cert.display()),
        format!("--key-file={}", leaf.key.display()),
    ];
    pods[0].start();
    for address in [first, second] {
        eventually("etcd listens", async || TcpStream::connect((address, 2379))).await;
    }
    TcpStream::connect((first, 2380)).unwrap();
    TcpStream::connect((second, 2380)).unwrap_err();
}

#[tokio::test]
async fn etcd_never_outlives_the_agent() {
    let mut pods = Pod::running(MINOR, 1).await;
    let etcd = pods[0].etcd_pid().await;
    pods[0].signal(Signal::SIGKILL);
    pods[0].ended().await;
    eventually("etcd ends", async || if is_alive(etcd) { Err("it lives") } else { Ok(()) }).await;
}

#[tokio::test]
async fn an_end_of_etcd_is_the_end_of_the_container_and_its_last_words_are_the_last_of_the_log() {
    let mut pods = Pod::cluster(MINOR, 1);
    let pod = &mut pods[0];
    pod.etcd_flags = vec!["--listen-client-urls=rubbish".to_owned()];
    pod.start();
    assert_eq!(pod.ended().await.code(), Some(2), "etcd's own code");
    let log = pod.log();
    assert!(!log.lines().last().unwrap().contains(r#""logger":"agent""#), "{log}");
    assert!(log.lines().next().unwrap().contains(r#""logger":"agent""#), "{log}");
    assert_eq!(pod.termination_message(), "", "so the kubelet shows the end of the log");

    pod.etcd_flags.clear();
    pod.start();
    pod.becomes_ready().await;
    kill(pod.etcd_pid().await, Signal::SIGTERM).unwrap();
    assert_eq!(pod.ended().await.code(), Some(143), "the agent did not pass it on");
}

#[tokio::test]
async fn a_program_that_is_missing_is_reported() {
    let mut pods = Pod::cluster(MINOR, 1);
    let pod = &mut pods[0];
    pod.flags = vec!["--".to_owned(), "/no/such/etcd".to_owned()];
    pod.start();
    assert_eq!(pod.ended().await.code(), Some(exit::NOT_STARTED.into()));
    assert!(pod.log().contains("cannot start /no/such/etcd: No such file"), "{}", pod.log());
}

#[tokio::test]
async fn a_member_that_is_alone_stops_at_once() {
    let mut pods = Pod::running(MINOR, 1).await;
    let took = pods[0].stops_with(exit::STOPPED.into()).await;
    assert!(took < Duration::from_millis(1500), "{took:?}");
}

#[tokio::test]
async fn a_member_that_does_not_serve_yet_stops_at_once() {
    let mut pods = Pod::cluster(MINOR, 3);
    pods[0].start();
    let _ = pods[0].etcd_pid().await;
    let took = pods[0].stops_with(exit::STOPPED.into()).await;
    assert!(took < Duration::from_millis(2500), "{took:?}");
}

#[tokio::test]
async fn a_stop_while_the_guard_waits_for_the_volume_is_a_stop() {
    let mut pods = Pod::cluster(MINOR, 1);
    let pod = &mut pods[0];
    // Reading a pipe that nobody writes to blocks, as a disk that hangs does.
    std::fs::create_dir_all(pod.volume()).unwrap();
    nix::unistd::mkfifo(&pod.volume().join("quorate.json"), Mode::S_IRWXU).unwrap();
    pod.start();
    let listens = async || std::net::TcpStream::connect((pod.address, 9980));
    eventually("the agent has begun", listens).await;
    let took = pod.stops_with(exit::STOPPED.into()).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(!pod.data_dir().exists());
}

#[tokio::test]
async fn m24_a_volume_that_takes_no_writes_for_a_moment_is_looked_at_every_second() {
    let mut pods = Pod::cluster(MINOR, 1);
    let pod = &mut pods[0];
    let broken = pod.volume().join("quorate.json");
    std::fs::create_dir_all(&broken).unwrap();
    pod.start();
    assert_eq!(
        pod.ended().await.code(),
        Some(exit::REFUSED.into()),
        "the first time it is reported: {}",
        pod.log()
    );
    let says_why = async |pod: &Pod| {
        eventually("it says why", async || match pod.get("/readyz") {
            Ok((503, why)) if why.contains("NotWritable") => Ok(()),
            other => Err(other),
        })
        .await;
    };
    pod.start();
    says_why(pod).await;
    let took = pod.stops_with(exit::STOPPED.into()).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    pod.start();
    says_why(pod).await;
    std::fs::remove_dir(&broken).unwrap();
    pod.becomes_ready().await;
}

#[tokio::test]
async fn a_leader_hands_over_before_it_stops() {
    for minor in MINORS {
        let mut pods = Pod::running(minor, 3).await;
        let old = leader(&pods).await;
        let took = pods[old].stops_with(exit::STOPPED.into()).await;
        assert!(took >= Duration::from_secs(2), "it serves on as a follower: {took:?}");
        // Two to five seconds as a follower, and the stop of etcd on whatever machine.
        assert!(took < Duration::from_secs(15), "{took:?}");
        let log = pods[old].log();
        let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{text} is missing in {log}"));
        assert!(at("leads since") < at("stopping etcd"), "{log}");
        assert!(at("stopping etcd") < at("received signal; shutting down"), "{log}");
        assert!(
            !log.contains("leadership transfer starting")
                || at("leadership transfer starting") < at("stopping etcd")
        );
    }
}

#[tokio::test]
async fn a_second_signal_stops_etcd_at_once() {
    let mut pods = Pod::running(MINOR, 3).await;
    let begun = Instant::now();
    pods[0].signal(Signal::SIGTERM);
    eventually("it prepares", async || {
        if pods[0].log().contains("preparing to stop") { Ok(()) } else { Err("not yet") }
    })
    .await;
    pods[0].stops_with(exit::STOPPED.into()).await;
    assert!(begun.elapsed() < Duration::from_millis(1900), "{:?}", begun.elapsed());
}

/// Writes without rest until the time is up, at the first of these members until it fails, then at the next. Returns when writes were
/// acknowledged.
async fn write_until(clients: Vec<MemberClient>, end: Instant) -> Vec<Instant> {
    let (mut acknowledged, mut at) = (Vec::new(), 0);
    for n in 0.. {
        if Instant::now() > end {
            break;
        }
        match clients[at].put("key", format!("{n}")).await {
            Ok(_) => acknowledged.push(Instant::now()),
            Err(CallError::Unreachable(_) | CallError::Unknown(_)) => at = (at + 1) % clients.len(),
            Err(refused) => panic!("{refused}"),
        }
    }
    acknowledged
}

#[tokio::test]
async fn clients_write_on_while_the_leader_stops() {
    let mut pods = Pod::running(MINOR, 3).await;
    let old = leader(&pods).await;
    let others: Vec<_> = (0..3).filter(|n| *n != old).collect();
    let end = Instant::now() + Duration::from_secs(9);
    // One follower each, and one that begins at the leader.
    let writers: Vec<_> = [vec![others[0]], vec![others[1]], vec![old, others[0]]]
        .into_iter()
        .map(|order| {
            let clients = order.into_iter().map(|n| pods[n].client()).collect();
            tokio::spawn(write_until(clients, end))
        })
        .collect();
    // An open watch is what etcd waits for while nobody can write.
    let control = etcd(MINOR).with_file_name(format!("etcdctl-{MINOR}"));
    let mut watch = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(control)
        .args([&format!("--endpoints=http://{}:2379", pods[old].address), "watch", "key"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    pods[old].stops_with(exit::STOPPED.into()).await;
    // raft drops what is proposed during the transfer itself, and its client waits: so the pause is that of all of them.
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    acknowledged.sort();
    let pause = acknowledged.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    eprintln!("{} writes, the longest pause: {pause:?}", acknowledged.len());
    let _ = watch.kill();
    let _ = watch.wait();
    assert!(pause < Duration::from_secs(1), "{pause:?}");
}

#[tokio::test]
async fn s06_a_member_stays_ready_when_auth_is_enabled() {
    for minor in MINORS {
        let pods = Pod::running(minor, 1).await;
        let control = etcd(minor).with_file_name(format!("etcdctl-{minor}"));
        let run = |args: &[&str]| {
            let output = Command::new(&control)
                .arg(format!("--endpoints=http://{}:2379", pods[0].address))
                .args(args)
                .output()
                .unwrap();
            assert!(output.status.success(), "{args:?}: {output:?}");
        };
        run(&["user", "add", "root:secret"]);
        run(&["user", "grant-role", "root", "root"]);
        run(&["auth", "enable"]);
        let refused = pods[0].client().get("key", Read::Serializable).await.unwrap_err();
        assert_eq!(refused.to_string(), "refused: etcdserver: user name is empty");
        for path in ["/readyz", "/healthz"] {
            assert_eq!(pods[0].get(path).unwrap(), (200, "ok".to_owned()), "{path} on etcd {minor}");
        }
    }
}

#[tokio::test]
async fn a_volume_that_hangs_makes_the_member_not_ready_with_the_reason() {
    let mut pods = Pod::cluster(MINOR, 1);
    let pod = &mut pods[0];
    pod.flags = vec!["--canary-limit=3".to_owned()];
    // Opening a pipe that nobody reads blocks, as a write to a disk that hangs does.
    std::fs::create_dir_all(pod.volume()).unwrap();
    nix::unistd::mkfifo(&pod.canary(), Mode::S_IRWXU).unwrap();
    pod.start();
    pod.becomes_ready().await;
    let why = eventually("the hang is noticed", async || match pod.get("/readyz") {
        Ok((503, why)) => Ok(why),
        other => Err(other),
    })
    .await;
    assert!(why.starts_with("the volume hangs: a write to "), "{why}");
    assert_eq!(pod.get("/healthz").unwrap().0, 200, "a restart does not cure it");
    assert_eq!(pod.get("/volume").unwrap().0, 503);
    let (status, facts) = pod.get("/facts").unwrap();
    assert_eq!(status, 200);
    assert!(
        facts.contains(r#""volume":"the volume hangs"#) && facts.contains(r#""identity":null"#),
        "{facts}"
    );
}

#[tokio::test]
async fn facts_name_the_member_and_what_it_has() {
    let pods = Pod::running(MINOR, 1).await;
    let facts: serde_json::Value = serde_json::from_str(&pods[0].get("/facts").unwrap().1).unwrap();
    assert_eq!(facts["identity"]["member"], "demo-0");
    assert!(facts["canaryAgeMilliseconds"].as_u64().unwrap() < 10_500, "{facts}");
    let (free, all) = (facts["freeBytes"].as_u64().unwrap(), facts["volumeBytes"].as_u64().unwrap());
    assert!(free > 0 && free < all, "{facts}");
    let (status, volume) = pods[0].get("/volume").unwrap();
    let volume: quorate_api::job::VolumeSpace = serde_json::from_str(&volume).unwrap();
    assert_eq!((status, volume.volume_bytes), (200, all));
    assert!(facts["etcd"]["term"].as_u64().unwrap() >= 2, "{facts}");
    assert!(facts["etcd"]["appliedIndex"].as_u64().unwrap() >= 4, "{facts}");
}

#[tokio::test]
async fn a_crash_after_any_step_of_a_start_leaves_a_member_that_starts_again_with_its_data() {
    let mut pods = Pod::cluster(MINOR, 1);
    let pod = &mut pods[0];
    // On an empty volume, and then on its data.
    for value in ["first", "second"] {
        for step in AgentStep::all().iter().filter(|step| **step as u8 <= AgentStep::A7 as u8) {
            pod.flags = vec![format!("--crash-at={step:?}")];
            pod.start();
            assert_eq!(pod.ended().await.signal(), Some(Signal::SIGABRT as i32), "{step:?}: {}", pod.log());
        }
        pod.flags.clear();
        pod.start();
        pod.becomes_ready().await;
        let kept = pod.client().get("key", Read::Linearizable).await.unwrap();
        let expected = (value == "second").then_some(b"first".to_vec());
        assert_eq!(kept.map(|kept| kept.value), expected);
        pod.client().put("key", value).await.unwrap();
        pod.stops_with(exit::STOPPED.into()).await;
    }
}

#[tokio::test]
async fn a_crash_after_any_step_of_a_stop_leaves_a_cluster_that_serves_and_a_member_that_comes_back() {
    let mut pods = Pod::running(MINOR, 3).await;
    pods[0].stops_with(exit::STOPPED.into()).await;
    for (n, step) in AgentStep::all()[AgentStep::A8 as usize..=AgentStep::A12 as usize].iter().enumerate() {
        pods[0].flags = vec![format!("--crash-at={step:?}")];
        pods[0].start();
        pods[0].becomes_ready().await;
        // It leads, so that the stop has every step.
        let id = pods[0].client().status().await.unwrap().member_id;
        eventually("it leads", async || {
            let old = leader(&pods).await;
            if old != 0 {
                let _ = pods[old].client().move_leader(id).await;
            }
            if old == 0 { Ok(()) } else { Err("another one") }
        })
        .await;
        pods[0].client().put("key", format!("{n}")).await.unwrap();
        pods[0].signal(Signal::SIGTERM);
        assert_eq!(
            pods[0].ended().await.signal(),
            Some(Signal::SIGABRT as i32),
            "{step:?}: {}",
            pods[0].log()
        );
        // The others elect a leader, if it was not moved.
        eventually("the others serve", async || {
            let kept =
                pods[1].client().get("key", Read::Linearizable).await.map_err(|error| error.to_string())?;
            let value = kept.ok_or("nothing")?.value;
            if value == format!("{n}").into_bytes() { Ok(()) } else { Err(format!("{value:?}")) }
        })
        .await;
    }
    pods[0].flags.clear();
    pods[0].start();
    pods[0].becomes_ready().await;
    let kept = pods[0].client().get("key", Read::Linearizable).await.unwrap().unwrap();
    assert_eq!(kept.value, b"4");
}

#[tokio::test]
async fn an_etcd_that_does_not_end_is_killed_with_the_agent_when_the_grace_period_is_over() {
    let mut pods = Pod::running(MINOR, 1).await;
    let pod = &mut pods[0];
    let etcd = pod.etcd_pid().await;
    kill(etcd, Signal::SIGSTOP).unwrap();
    pod.signal(Signal::SIGTERM);
    let passed_on = async || if pod.log().contains("stopping etcd") { Ok(()) } else { Err("not yet") };
    eventually("it stops", passed_on).await;
    let ended = tokio::time::timeout(Duration::from_secs(1), pod.ended()).await;
    assert!(ended.is_err() && is_alive(etcd), "it leaves nothing behind: {}", pod.log());
    // As the kubelet does when the grace period is over.
    pod.signal(Signal::SIGKILL);
    assert_eq!(pod.ended().await.signal(), Some(Signal::SIGKILL as i32));
    eventually("etcd ends", async || if is_alive(etcd) { Err("it lives") } else { Ok(()) }).await;
    pod.start();
    pod.becomes_ready().await;
}

#[tokio::test]
async fn an_agent_that_hangs_answers_no_probe_while_etcd_serves_on_and_is_replaced_by_a_restart() {
    let mut pods = Pod::running(MINOR, 1).await;
    let pod = &mut pods[0];
    let etcd = pod.etcd_pid().await;
    pod.signal(Signal::SIGSTOP);
    // A signal takes effect a moment after it was sent.
    let silent = async || pod.get("/healthz").map_or(Ok(()), |_| Err("it answers"));
    eventually("it answers no probe, so the kubelet restarts the container", silent).await;
    pod.client().put("key", "value").await.unwrap();
    pod.signal(Signal::SIGKILL);
    pod.ended().await;
    eventually("etcd ends", async || if is_alive(etcd) { Err("it lives") } else { Ok(()) }).await;
    pod.start();
    pod.becomes_ready().await;
    let kept = pod.client().get("key", Read::Linearizable).await.unwrap().unwrap();
    assert_eq!(kept.value, b"value");
}

/// `/facts` from inside the Pod, what is stored.
fn stored_facts(pod: &Pod) -> Result<serde_json::Value, String> {
    let (_, text) = pod.get("/facts")?;
    let facts: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    facts.get("stored").cloned().ok_or(text)
}

#[tokio::test]
async fn what_a_member_has_stored_is_known_from_its_files_alone() {
    for minor in MINORS {
        let mut pods = Pod::running(minor, 3).await;
        // A follower that is behind nobody, with a log and a tree of more than one page; a leader would do as well.
        let writer = pods[0].client();
        for n in 0..300 {
            writer.put(&format!("key-{n}"), vec![b'x'; 2000]).await.unwrap();
        }
        let etcd_pid = pods[1].etcd_pid().await;
        let status = eventually("the database has all of it", async || {
            let status = pods[1].client().status().await.map_err(|error| error.to_string())?;
            let stored = stored_facts(&pods[1])?;
            let all = stored["consistentIndex"] == status.raft_index && status.revision.0 == 301;
            if all { Ok(status) } else { Err(format!("{stored} {status:?}")) }
        })
        .await;
        // Beside a running etcd, that writes on, every answer is whole.
        let writing = tokio::spawn(async move {
            for n in 0..200 {
                writer.put("more", format!("{n}")).await.unwrap();
            }
        });
        let mut last = 0;
        while !writing.is_finished() {
            let stored = stored_facts(&pods[1]).unwrap();
            let revision = stored["revision"].as_i64().unwrap();
            assert!(revision >= last && revision >= 301, "{stored}");
            assert!(stored["committedIndex"].as_u64() <= stored["lastIndex"].as_u64(), "{stored}");
            last = revision;
            tokio::task::yield_now().await;
        }
        writing.await.unwrap();
        let before = eventually("all is applied", async || {
            let now = pods[1].client().status().await.map_err(|error| error.to_string())?;
            let stored = stored_facts(&pods[1])?;
            let all = stored["consistentIndex"] == now.raft_index && now.revision.0 == 501;
            if all { Ok(now) } else { Err(format!("{stored}")) }
        })
        .await;

        kill(etcd_pid, Signal::SIGKILL).unwrap();
        pods[1].ended().await;
        let stored = stored(&pods[1].data_dir()).unwrap();
        assert_eq!(stored.cluster_id, status.cluster_id.to_string(), "etcd {minor}");
        assert_eq!(stored.member_id, status.member_id.to_string());
        assert_eq!(stored.term, before.raft_term);
        assert_eq!((stored.last_index, stored.last_term), (before.raft_index, before.raft_term));
        assert_eq!(stored.committed_index, before.raft_index);
        assert_eq!(stored.revision, before.revision.0);
        // etcd's own tool reads the same revision.
        let tool = etcd(minor).with_file_name(format!("etcdutl-{minor}"));
        let db = pods[1].data_dir().join("member/snap/db");
        let output = Command::new(tool).args(["snapshot", "status", "-w", "json"]).arg(db).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&format!(r#""revision":{}"#, stored.revision)), "{text} {output:?}");
        // Reading held nothing that keeps it from its start.
        pods[1].start();
        pods[1].becomes_ready().await;
    }
}

#[tokio::test]
async fn as_pid_1_the_agent_reaps_the_orphans_of_its_container() {
    let mut pods = Pod::cluster(MINOR, 1);
    let pod = &mut pods[0];
    let namespace =
        ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"];
    pod.wrapper = namespace.map(str::to_owned).to_vec();
    pod.flags = ["--", "sh", "-c", "(sleep 0.1 &); shift; exec \"$@\"", "sh"].map(str::to_owned).to_vec();
    pod.start();
    pod.becomes_ready().await;
    let agent = pod.children().pop().expect("unshare has one child");
    eventually("no zombie is left", async || {
        let list = Command::new("ps").args(["--ppid", &agent, "-o", "stat=,comm="]).output().unwrap();
        let list = String::from_utf8(list.stdout).unwrap();
        if list.lines().count() == 1 && list.contains("etcd") { Ok(()) } else { Err(list) }
    })
    .await;
}
