//! Builds by shell scripts.

use std::os::unix::fs::PermissionsExt;

use tokio::time::timeout;

use super::*;
use crate::process::Identity;

/// A playground whose builder is this shell script, which finds its directory in `$here`.
struct Place {
    dir: tempfile::TempDir,
    builds: Arc<Builds>,
}

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn place(builder: &str) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    for name in ["bin", "home/run", "home/logs", "home/programs"] {
        fs::create_dir_all(here.join(name)).unwrap();
    }
    let home = Home::at(&here.join("home")).unwrap();
    // In place of the shim: becomes the command of its file.
    let words = r#"$(sed 's/.*"command":.\([^]]*\)\].*/\1/; s/[",]/ /g' "$2")"#;
    script(&home.program(), &format!("exec {words}"));
    script(&here.join("bin/etcd-3.7"), "echo etcd Version: 3.7.3");
    script(&here.join("builder"), &format!("here={}\n{builder}", here.display()));
    let versions = ["3.6.16".parse().unwrap(), "3.5.35=took 9 s".parse().unwrap()];
    let builds = Builds::new(Setup {
        programs: Programs::find(Some(&here.join("bin"))).unwrap(),
        directory: Some(here.join("bin")),
        builder: Builder { program: Some(here.join("builder")), versions: versions.into() },
        home,
        back_off: Duration::from_millis(50),
    });
    Place { dir, builds }
}

impl Place {
    fn request(&self, version: &str) -> watch::Receiver<Build> {
        self.builds.request(self.builds.buildable(version).unwrap())
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }
}

async fn end(mut build: watch::Receiver<Build>) -> Build {
    let ended = build.wait_for(|build| !matches!(build, Build::Running(_)));
    timeout(Duration::from_secs(20), ended).await.expect("the build ends").unwrap().clone()
}

/// Adds an etcd of the newest patch version.
const ADD: &str = r"
    case $3 in 3.6) version=3.6.16;; 3.5) version=3.5.35;; esac
    printf '#!/bin/sh\necho etcd Version: %s\n' $version > $here/bin/etcd-$3
    chmod +x $here/bin/etcd-$3";

#[tokio::test]
async fn a_version_is_built_once_for_all_that_ask_for_it_and_is_then_there() {
    let place = place(&format!("echo $* >> $here/calls; sleep 0.2 {ADD}"));
    let builds = &place.builds;
    assert_eq!(builds.shown(), "etcd 3.7.3; etcd 3.6.16, 3.5.35 are built when a cluster asks for them");
    let (one, other) = (place.request("v3.6.16"), place.request("3.6.16"));
    assert_eq!((end(one).await, end(other).await), (Build::Done, Build::Done));
    assert_eq!(place.read("calls"), "tools etcd 3.6\n");
    assert_eq!(builds.programs().versions(), ["3.6.16", "3.7.3"]);
    assert_eq!(builds.shown(), "etcd 3.6.16, 3.7.3; etcd 3.5.35 is built when a cluster asks for it");
    assert!(builds.buildable("3.6.15").is_none());
}

#[tokio::test]
async fn two_versions_are_built_one_after_the_other() {
    let place = place(&format!("echo begin >> $here/calls; sleep 0.2; echo end >> $here/calls {ADD}"));
    let (one, other) = (place.request("3.6.16"), place.request("3.5.35"));
    let waits = Build::Running("building etcd 3.5.35 after another build of etcd".to_owned());
    let mut reported = other.clone();
    let waits = reported.wait_for(|build| *build == waits);
    drop(timeout(Duration::from_secs(20), waits).await.expect("it waits for its turn"));
    assert_eq!((end(one).await, end(other).await), (Build::Done, Build::Done));
    assert_eq!(place.read("calls"), "begin\nend\nbegin\nend\n");
}

#[tokio::test]
async fn a_build_that_fails_reports_the_end_of_its_output_and_is_tried_again_after_a_while() {
    let place = place(&format!(
        "if [ ! -e $here/failed ]; then touch $here/failed; echo no network >&2; exit 3; fi {ADD}"
    ));
    let Build::Failed(why) = end(place.request("3.6.16")).await else { panic!("the first build fails") };
    assert!(why.starts_with("etcd 3.6.16 cannot be built (exit code 3; the output is in /"), "{why}");
    assert!(why.ends_with("\nno network"), "{why}");
    assert_eq!(*place.request("3.6.16").borrow(), Build::Failed(why), "at once it is not tried again");
    let built = async {
        while end(place.request("3.6.16")).await != Build::Done {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), built).await.expect("it is tried again");
}

#[tokio::test]
async fn a_build_without_result_has_failed() {
    let place = place("true");
    let Build::Failed(why) = end(place.request("3.6.16")).await else { panic!("it adds no etcd") };
    assert_eq!(why, "etcd 3.6.16 cannot be built: only 3.7.3 were found afterwards");
}

#[tokio::test]
async fn the_stop_ends_the_build_with_all_it_started() {
    let place = place("sleep 600 & echo $! > $here/pid.new; mv $here/pid.new $here/pid; wait");
    let build = place.request("3.6.16");
    let started = async {
        while place.read("pid").is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), started).await.expect("it starts");
    let child = Identity::of(place.read("pid").trim().parse().unwrap()).expect("it runs");
    timeout(Duration::from_secs(10), place.builds.stop()).await.expect("it ends");
    let gone = async {
        while child.is_alive() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), gone).await.expect("its child ends");
    assert!(matches!(*build.borrow(), Build::Running(_)), "no Pod reports a failure");
}

#[test]
fn a_version_is_exact() {
    let read = |text: &str| text.parse::<Buildable>();
    assert_eq!(read("3.6.16=took 9 s").unwrap().duration, "took 9 s");
    assert!(read("3.6").is_err());
    assert!(read("v3.6.16").is_err());
}
