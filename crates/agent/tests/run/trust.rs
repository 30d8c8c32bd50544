//! The wait for the certificate authorities of the Pod.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_agent::run::exit;
use quorate_etcd::testkit::eventually;
use tempfile::TempDir;

use super::{MINOR, Pod};

/// A Pod that needs a set of authorities, and what its kubelet has brought.
struct Waiting {
    pod: Pod,
    dirs: [PathBuf; 2],
    _dir: TempDir,
}

impl Waiting {
    /// The numbers that each directory has at the start; `None`: the kubelet has brought nothing.
    fn new(needs: u32, has: [Option<&str>; 2]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["server", "peer"].map(|name| dir.path().join(name));
        let mut pod = Pod::cluster(MINOR, 1).remove(0);
        pod.flags = vec![format!("--trust={needs}")];
        for (dir, has) in dirs.iter().zip(has) {
            fs::create_dir(dir).unwrap();
            pod.flags.push(format!("--trust-dir={}", dir.display()));
            if let Some(number) = has {
                brings(dir, number);
            }
        }
        Self { pod, dirs, _dir: dir }
    }

    /// Waits until the probe says that these files are too old, as (directory, number).
    async fn waits_for(&self, older: &[(usize, u32)], needs: u32) {
        let older: Vec<_> =
            older.iter().map(|(n, is)| format!("{}/trust is {is}", self.dirs[*n].display())).collect();
        let expected = format!(
            "waiting for the kubelet to bring the certificates: {}, and this Pod needs {needs}",
            older.join(", ")
        );
        eventually("it says what it waits for", async || match self.pod.get("/readyz?wait=200") {
            Ok((503, why)) if why == expected => Ok(()),
            other => Err(other),
        })
        .await;
        assert_eq!(self.pod.get("/healthz").unwrap().0, 200, "a restart brings nothing");
        assert_eq!(self.pod.children(), [""; 0], "no etcd was started");
        assert!(!self.pod.data_dir().exists());
    }

    /// How often the log has this.
    fn logged(&self, text: &str) -> usize {
        self.pod.log().lines().filter(|line| line.contains(text)).count()
    }
}

/// As the kubelet does: whole, and at once.
fn brings(dir: &Path, number: &str) {
    fs::write(dir.join("next"), number).unwrap();
    fs::rename(dir.join("next"), dir.join("trust")).unwrap();
}

const BEGINS: &str = "waiting for the kubelet to bring the certificates";
const ENDS: &str = "the kubelet has brought the certificates";

#[tokio::test]
async fn etcd_is_not_started_before_every_directory_has_the_authorities_that_the_pod_needs() {
    let mut waiting = Waiting::new(2, [Some("1\n"), None]);
    waiting.pod.start();
    waiting.waits_for(&[(0, 1), (1, 0)], 2).await;
    brings(&waiting.dirs[1], "1");
    waiting.waits_for(&[(0, 1), (1, 1)], 2).await;
    brings(&waiting.dirs[1], "2\n");
    waiting.waits_for(&[(0, 1)], 2).await;
    brings(&waiting.dirs[0], "not a number");
    waiting.waits_for(&[(0, 0)], 2).await;
    // Newer ones will do.
    brings(&waiting.dirs[0], "3");
    waiting.pod.becomes_ready().await;
    assert_eq!((waiting.logged(BEGINS), waiting.logged(ENDS)), (1, 1), "{}", waiting.pod.log());
}

#[tokio::test]
async fn a_stop_while_the_authorities_are_waited_for_is_a_stop() {
    let mut waiting = Waiting::new(2, [Some("2"), Some("1")]);
    waiting.pod.start();
    waiting.waits_for(&[(1, 1)], 2).await;
    let took = waiting.pod.stops_with(exit::STOPPED.into()).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(!waiting.pod.data_dir().exists(), "etcd was not started");
    assert_eq!((waiting.logged(BEGINS), waiting.logged(ENDS)), (1, 0), "{}", waiting.pod.log());

    brings(&waiting.dirs[1], "2");
    waiting.pod.start();
    waiting.pod.becomes_ready().await;
    assert_eq!((waiting.logged(BEGINS), waiting.logged(ENDS)), (1, 0), "{}", waiting.pod.log());
}

#[tokio::test]
async fn a_pod_that_needs_no_set_of_authorities_waits_for_none() {
    let mut waiting = Waiting::new(0, [None, None]);
    waiting.pod.start();
    waiting.pod.becomes_ready().await;
    waiting.pod.stops_with(exit::STOPPED.into()).await;
    waiting.pod.flags.remove(0);
    waiting.pod.start();
    waiting.pod.becomes_ready().await;
    assert_eq!(waiting.logged(BEGINS), 0);
}

#[tokio::test]
async fn a_volume_that_is_refused_is_reported_before_anything_is_waited_for() {
    let mut waiting = Waiting::new(2, [None, None]);
    fs::create_dir_all(waiting.pod.volume().join("quorate.json")).unwrap();
    waiting.pod.start();
    assert_eq!(waiting.pod.ended().await.code(), Some(exit::REFUSED.into()), "{}", waiting.pod.log());
    assert_eq!(waiting.logged(BEGINS), 0);
}
