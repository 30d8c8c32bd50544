//! The guard on volumes that real etcd processes have written.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use quorate_agent::guard::{Expect, GuardArgs, Report, inspect};
use quorate_agent::run::exit;
use quorate_etcd::MemberStatus;
use quorate_etcd::testkit::{Cluster, MINORS, Setup, own_address};
use quorate_model::{ClusterId, GuardVerdict, Minor};
use tempfile::TempDir;

/// A member's volume, in a temporary directory.
struct Volume(TempDir);

impl Volume {
    fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With an identity from the guard and data from etcd, as in a Pod; etcd is dead. With its last status.
    async fn of(minor: Minor) -> (Self, MemberStatus) {
        let volume = Self::empty();
        assert_fit(&volume.guard(Expect::Fresh));
        let mut cluster = Cluster::start(Setup::new(minor, 1)).await;
        let client = cluster.members[0].client();
        for n in 0..20 {
            client.put(&format!("key{n}"), vec![b'x'; 5000]).await.unwrap();
        }
        let status = client.status().await.unwrap();
        cluster.members[0].kill();
        fs::rename(cluster.members[0].data_dir(), volume.data()).unwrap();
        (volume, status)
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    fn db(&self) -> PathBuf {
        self.data().join("member/snap/db")
    }

    fn logs(&self) -> PathBuf {
        self.data().join("member/wal")
    }

    fn first_log(&self) -> PathBuf {
        self.logs().join("0000000000000000-0000000000000000.wal")
    }

    fn identity(&self) -> PathBuf {
        self.0.path().join("quorate.json")
    }

    fn args(&self, expect: Expect) -> GuardArgs {
        GuardArgs {
            data_dir: self.data(),
            identity: self.identity(),
            token: "uid-1-1".to_owned(),
            cluster_uid: "uid-1".to_owned(),
            member: "demo-0".to_owned(),
            expect,
            joined: None,
            seen: None,
            cluster_id: None,
            termination_log: self.0.path().join("termination-log"),
        }
    }

    fn guard(&self, expect: Expect) -> Report {
        inspect(&self.args(expect))
    }
}

#[track_caller]
fn assert_fit(report: &Report) {
    assert_eq!(report.verdict, GuardVerdict::Fit, "{report:?}");
}

#[track_caller]
fn assert_refused(report: &Report, verdict: GuardVerdict, why: &str) {
    assert_eq!(report.verdict, verdict, "{report:?}");
    assert!(report.message.contains(why), "{report:?}");
}

#[test]
fn an_empty_volume_gets_its_identity_at_the_first_start_and_survives_a_crash_before_etcd_wrote() {
    let volume = Volume::empty();
    assert_refused(&volume.guard(Expect::Data), GuardVerdict::DataMissing, "has joined its cluster before");
    assert!(!volume.identity().exists(), "a refusal changes nothing");

    assert_fit(&volume.guard(Expect::Fresh));
    assert_fit(&volume.guard(Expect::Fresh));
    // etcd died between its database and its log: to etcd, and to us, nothing has begun.
    fs::create_dir_all(volume.data().join("member/snap")).unwrap();
    fs::create_dir_all(volume.data().join("member/wal.tmp")).unwrap();
    File::create(volume.db()).unwrap();
    assert_fit(&volume.guard(Expect::Fresh));
    assert_refused(&volume.guard(Expect::Data), GuardVerdict::DataMissing, "has joined its cluster before");
}

#[tokio::test]
async fn a_member_resumes_its_own_data_with_every_expectation_of_the_operator() {
    for minor in MINORS {
        let (volume, status) = Volume::of(minor).await;
        for expect in [Expect::Fresh, Expect::Data] {
            let mut args = volume.args(expect);
            args.cluster_id = Some(status.cluster_id);
            let report = inspect(&args);
            assert_fit(&report);
            assert_eq!(report.facts.cluster_id, Some(status.cluster_id.to_string()), "etcd {minor}");
            assert_eq!(report.facts.member_id, Some(status.member_id.to_string()));
            assert!(report.facts.data && report.facts.db_bytes.is_some_and(|bytes| bytes > 0));
        }
    }
}

#[tokio::test]
async fn h05_data_and_identities_of_others_are_refused_and_left_alone() {
    let (volume, status) = Volume::of(Minor(3, 6)).await;
    let identity = fs::read(volume.identity()).unwrap();
    let with = |change: &dyn Fn(&mut GuardArgs)| {
        let mut args = volume.args(Expect::Data);
        change(&mut args);
        inspect(&args)
    };

    let other_member = with(&|args| args.member = "demo-1".to_owned());
    assert_refused(&other_member, GuardVerdict::ForeignIdentity, "belongs to member demo-0 of cluster uid-1");
    let other_cluster = with(&|args| {
        args.cluster_uid = "uid-2".to_owned();
        args.token = "uid-2-1".to_owned();
    });
    assert_refused(&other_cluster, GuardVerdict::ForeignIdentity, "not to member demo-0 of cluster uid-2");
    let other_attempt = with(&|args| args.token = "uid-1-2".to_owned());
    assert_refused(&other_attempt, GuardVerdict::ForeignIdentity, "token uid-1-1");
    let other_log = with(&|args| args.cluster_id = Some(ClusterId(status.cluster_id.0 + 1)));
    assert_refused(
        &other_log,
        GuardVerdict::ForeignData,
        &format!("belong to cluster {}", status.cluster_id),
    );
    assert_eq!(fs::read(volume.identity()).unwrap(), identity, "a refusal changes nothing");

    // Adopted: the operator was asked to continue under a new uid with the data of the old token.
    let adopted = with(&|args| args.cluster_uid = "uid-2".to_owned());
    assert_fit(&adopted);
    assert!(fs::read_to_string(volume.identity()).unwrap().contains("uid-2"));

    fs::write(volume.identity(), "rubbish").unwrap();
    assert_refused(&volume.guard(Expect::Data), GuardVerdict::ForeignIdentity, "is not an identity file");
    fs::remove_file(volume.identity()).unwrap();
    for expect in [Expect::Fresh, Expect::Data] {
        assert_refused(&volume.guard(expect), GuardVerdict::ForeignData, "no identity file");
    }
    fs::remove_dir_all(volume.data()).unwrap();
    fs::write(volume.identity(), identity).unwrap();
    let reused = with(&|args| {
        args.member = "demo-1".to_owned();
        args.expect = Expect::Fresh;
    });
    assert_refused(&reused, GuardVerdict::ForeignIdentity, "belongs to member demo-0");
}

#[tokio::test]
async fn h01_h21_an_emptied_volume_is_reported_and_never_starts_as_new() {
    let (volume, _) = Volume::of(Minor(3, 6)).await;
    assert_fit(&volume.guard(Expect::Fresh));
    fs::remove_dir_all(volume.data()).unwrap();
    assert_refused(&volume.guard(Expect::Data), GuardVerdict::DataMissing, "has joined its cluster before");
    // A guard has seen the data, so a member that the operator takes for new is not new.
    assert_refused(&volume.guard(Expect::Fresh), GuardVerdict::DataMissing, "at an earlier start");
}

#[tokio::test]
async fn data_that_etcd_could_not_open_are_corrupt() {
    for minor in MINORS {
        let (volume, _) = Volume::of(minor).await;
        let page = 4096;
        let whole = fs::read(volume.db()).unwrap();
        let log = fs::read(volume.first_log()).unwrap();
        let damage_db = |damage: &dyn Fn(&mut Vec<u8>)| {
            let mut db = whole.clone();
            damage(&mut db);
            fs::write(volume.db(), db).unwrap();
            volume.guard(Expect::Data)
        };
        let corrupt = |report: &Report, why| assert_refused(report, GuardVerdict::CorruptData, why);

        assert_fit(&damage_db(&|db| db[16..64].fill(0xff)));
        assert_fit(&damage_db(&|db| db[page + 16..page + 64].fill(0xff)));
        corrupt(&damage_db(&|db| db[..2 * page].fill(0)), "neither meta page is valid");
        corrupt(&damage_db(&|db| (db[40] ^= 1, db[page + 40] ^= 1).0), "neither meta page is valid");
        corrupt(&damage_db(&|db| db[2 * page..].fill(0)), "root page is overwritten");
        corrupt(&damage_db(&|db| db.truncate(2 * page)), "");
        corrupt(&damage_db(&Vec::clear), "neither meta page is valid");
        fs::remove_file(volume.db()).unwrap();
        corrupt(&volume.guard(Expect::Data), "no database");
        fs::write(volume.db(), &whole).unwrap();
        assert_fit(&volume.guard(Expect::Data));

        let mut file = File::options().write(true).open(volume.first_log()).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&[0; 512]).unwrap();
        corrupt(&volume.guard(Expect::Data), "does not begin like a log");
        fs::write(volume.first_log(), log).unwrap();
        assert_fit(&volume.guard(Expect::Data));

        fs::remove_dir_all(volume.logs()).unwrap();
        assert_refused(&volume.guard(Expect::Data), GuardVerdict::DataMissing, "");
    }
}

#[test]
fn a_volume_that_cannot_be_written_is_reported() {
    let on = |dir: &Path| {
        let volume = Volume::empty();
        let mut args = volume.args(Expect::Fresh);
        args.data_dir = dir.join("data");
        args.identity = dir.join("quorate.json");
        inspect(&args)
    };
    // Root may write everywhere but here.
    assert_refused(&on(Path::new("/proc/self")), GuardVerdict::NotWritable, "cannot write to /proc/self");
    assert_refused(&on(Path::new("/no/such/mount")), GuardVerdict::NotWritable, "/no/such/mount");
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_refused(&on(file.path()), GuardVerdict::NotWritable, "cannot read");
}

#[test]
fn the_verdict_is_json_in_the_termination_message_and_text_in_the_log() {
    let volume = Volume::empty();
    let output = agent_run(&volume.args(Expect::Data), None);
    assert_eq!(output.status.code(), Some(exit::REFUSED.into()));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(
        words.contains(r#""logger":"agent","msg":"guard: DataMissing: the volume has no etcd data"#),
        "{words}"
    );
    let message = fs::read_to_string(volume.0.path().join("termination-log")).unwrap();
    assert!(
        message.starts_with(r#"{"verdict":"DataMissing","message":"the volume has no etcd data"#),
        "{message}"
    );
    let report: Report = serde_json::from_str(&message).unwrap();
    assert_eq!(report.verdict, GuardVerdict::DataMissing);
    fs::remove_file(volume.0.path().join("termination-log")).unwrap();

    let output = agent_run(&volume.args(Expect::Fresh), None);
    assert!(output.status.success(), "{output:?}");
    assert!(
        !volume.0.path().join("termination-log").exists(),
        "the kubelet would take it for the reason of the end"
    );
}

#[test]
fn a_full_disk_is_reported_as_such() {
    let volume = Volume::empty();
    // A file system of 1 MiB in a mount namespace of its own.
    let output = agent_run(&volume.args(Expect::Fresh), Some("1m"));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("guard: DiskFull: "), "{words}");
    assert!(words.contains("etcd needs"), "{words}");
    assert_eq!(output.status.code(), Some(exit::REFUSED.into()));
}

/// `agent run` with a program that ends at once in place of etcd; on a tmpfs of this size, if one is given.
fn agent_run(args: &GuardArgs, tmpfs: Option<&str>) -> Output {
    let test = std::env::current_exe().unwrap();
    let agent = test.ancestors().nth(2).unwrap().join("examples/agent");
    let mut command = match tmpfs {
        None => Command::new(agent),
        Some(size) => {
            let mut command = Command::new("unshare");
            let mount = format!("mount -t tmpfs -o size={size} none \"$1\" && shift && exec \"$@\"");
            let at = args.identity.parent().unwrap();
            command
                .args(["--map-root-user", "--user", "--mount", "sh", "-c", &mount, "sh"])
                .args([at, &agent]);
            command
        }
    };
    let volume = args.identity.parent().unwrap();
    let expect = match args.expect {
        Expect::Fresh => "fresh",
        Expect::Data => "data",
        Expect::Restored => "restored",
    };
    command
        .args(["run", "--token", &args.token, "--cluster-uid", &args.cluster_uid])
        .args(["--member", &args.member, "--expect", expect])
        .arg("--data-dir")
        .arg(&args.data_dir)
        .arg("--identity")
        .arg(&args.identity)
        .arg("--termination-log")
        .arg(&args.termination_log)
        .args(["--listen", &format!("{}:9980", own_address()), "--endpoint=http://127.0.0.1:1", "--canary"])
        .arg(volume.join("canary"))
        .args(["--", "/bin/true"]);
    command.output().unwrap()
}

#[tokio::test]
async fn h01_a_member_that_has_joined_needs_its_data_also_in_a_pod_made_for_its_first_start() {
    let volume = Volume::empty();
    let joined = volume.0.path().join("joined");
    let args = || GuardArgs { joined: Some(joined.clone()), ..volume.args(Expect::Fresh) };
    assert_fit(&inspect(&args()));
    fs::write(&joined, "").unwrap();
    assert_fit(&inspect(&args()));
    fs::write(&joined, "true").unwrap();
    assert_eq!(inspect(&args()).verdict, GuardVerdict::DataMissing);
}
