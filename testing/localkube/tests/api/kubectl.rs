//! kubectl over HTTP, with a kubeconfig of its own. Without kubectl on this machine the test reports that and ends.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Output, Stdio};
use std::time::Duration;

use quorate_localkube::LocalKube;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::server::serve;
use super::world::{thing, things};

struct Kubectl {
    _kube: LocalKube,
    server: String,
    home: TempDir,
}

impl Kubectl {
    async fn with_things() -> Option<Self> {
        if Command::new("kubectl").args(["version", "--client"]).output().await.is_err() {
            eprintln!("not tried: there is no kubectl on this machine");
            return None;
        }
        let (kube, at) = serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await;
        let kubectl = Self { _kube: kube, server: format!("http://{at}"), home: TempDir::new().unwrap() };
        let definition = kubectl.file("crd.json", &things().to_string());
        assert_eq!(
            kubectl.run(&["create", "-f", &definition]).await,
            "customresourcedefinition.apiextensions.k8s.io/things.x.io created\n"
        );
        kubectl.run(&["wait", "--for=condition=Established", "crd/things.x.io", "--timeout=5s"]).await;
        Some(kubectl)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.args(["--server", &self.server]).args(args).kill_on_drop(true);
        command.env("HOME", self.home.path()).env("TMPDIR", self.home.path()).env("KUBECONFIG", "/dev/null");
        command.env("EDITOR", "sed -i s/size:.4/size:\\ 5/");
        command
    }

    async fn output(&self, args: &[&str]) -> Output {
        let ended = tokio::time::timeout(Duration::from_secs(30), self.command(args).output());
        ended.await.expect("kubectl ends").unwrap()
    }

    async fn run(&self, args: &[&str]) -> String {
        let output = self.output(args).await;
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    async fn refused(&self, args: &[&str]) -> String {
        let output = self.output(args).await;
        assert!(!output.status.success(), "{args:?} was not refused");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_makes_changes_watches_and_deletes() {
    let Some(kubectl) = Kubectl::with_things().await else { return };
    let size = async |expected: &str| {
        assert_eq!(kubectl.run(&["get", "thing", "a", "-o", "jsonpath={.spec.size}"]).await, expected);
    };
    let file = kubectl.file("a.json", &thing("a", &json!({"size": 1})).to_string());
    assert_eq!(kubectl.run(&["apply", "-f", &file]).await, "thing.x.io/a created\n");
    assert_eq!(kubectl.run(&["apply", "-f", &file]).await, "thing.x.io/a unchanged\n");
    kubectl.file("a.json", &thing("a", &json!({"size": 2, "mode": "A"})).to_string());
    assert_eq!(
        kubectl.run(&["apply", "-f", &file, "--dry-run=server"]).await,
        "thing.x.io/a configured (server dry run)\n"
    );
    assert_eq!(kubectl.run(&["apply", "-f", &file]).await, "thing.x.io/a configured\n");
    size("2").await;

    kubectl.run(&["patch", "thing", "a", "--type", "merge", "-p", r#"{"spec":{"size":3}}"#]).await;
    let json_patch =
        r#"[{"op":"test","path":"/spec/size","value":3},{"op":"replace","path":"/spec/size","value":4}]"#;
    kubectl.run(&["patch", "thing", "a", "--type", "json", "-p", json_patch]).await;
    size("4").await;
    let edited = kubectl.refused(&["edit", "thing", "a"]).await;
    assert!(edited.contains("things.x.io \"a\" is invalid"), "{edited}");
    kubectl.run(&["patch", "thing", "a", "--type", "merge", "-p", r#"{"spec":{"mode":null}}"#]).await;
    assert_eq!(kubectl.run(&["edit", "thing", "a"]).await, "thing.x.io/a edited\n");
    size("5").await;
    assert_eq!(
        kubectl.run(&["scale", "thing/a", "--replicas=6", "--current-replicas=5"]).await,
        "thing.x.io/a scaled\n"
    );
    size("6").await;

    let status = r#"{"status":{"note":"done"}}"#;
    kubectl.run(&["patch", "thing", "a", "--subresource=status", "--type", "merge", "-p", status]).await;
    let wait = ["wait", "thing/a", "--for=jsonpath={.status.note}=done", "--timeout=5s"];
    assert_eq!(kubectl.run(&wait).await, "thing.x.io/a condition met\n");

    let mut watch = kubectl
        .command(&["get", "thing", "a", "-w", "--output-watch-events"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut expect_event = async |event: &str| {
        let seen = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.starts_with(event) && line.contains(" a ") {
                    return;
                }
            }
            panic!("the watch ended before {event}");
        };
        tokio::time::timeout(Duration::from_secs(30), seen).await.unwrap_or_else(|_| panic!("no {event}"));
    };
    expect_event("ADDED").await;
    kubectl.run(&["label", "thing", "a", "app=x"]).await;
    expect_event("MODIFIED").await;
    assert_eq!(
        kubectl.run(&["delete", "thing", "a", "--cascade=foreground"]).await,
        "thing.x.io \"a\" deleted\n"
    );
    expect_event("DELETED").await;
    watch.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_refusals_as_with_a_real_server() {
    let Some(kubectl) = Kubectl::with_things().await else { return };
    let file = kubectl.file("bad.json", &thing("bad", &json!({"size": 10})).to_string());
    assert_eq!(
        kubectl.refused(&["create", "-f", &file]).await,
        "The Thing \"bad\" is invalid: spec.size: Invalid value: 10: spec.size in body should be less than or equal to \
         9\n"
    );
    let file = kubectl.file("unknown.json", &thing("unknown", &json!({"size": 1, "bogus": 1})).to_string());
    let refusal = kubectl.refused(&["create", "-f", &file]).await;
    assert!(refusal.contains("strict decoding error: unknown field \"spec.bogus\""), "{refusal}");
    let refusal = kubectl.refused(&["apply", "--server-side", "--validate=false", "-f", &file]).await;
    assert!(refusal.contains("use kubectl apply without --server-side"), "{refusal}");
    assert_eq!(
        kubectl.refused(&["get", "thing", "nope"]).await,
        "Error from server (NotFound): things.x.io \"nope\" not found\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_makes_built_in_objects_and_patches_them_strategically() {
    let Some(kubectl) = Kubectl::with_things().await else { return };
    assert_eq!(kubectl.run(&["create", "namespace", "tmp"]).await, "namespace/tmp created\n");
    kubectl.run(&["-n", "tmp", "create", "configmap", "c", "--from-literal=a=b"]).await;
    kubectl.run(&["-n", "tmp", "run", "p", "--image=etcd:v1"]).await;
    let patch = r#"{"spec":{"containers":[{"name":"p","image":"etcd:v2"}]}}"#;
    kubectl.run(&["-n", "tmp", "patch", "pod", "p", "-p", patch]).await;
    let image = ["-n", "tmp", "get", "pod", "p", "-o", "jsonpath={.spec.containers[0].image}"];
    assert_eq!(kubectl.run(&image).await, "etcd:v2");
    assert_eq!(kubectl.run(&["delete", "namespace", "tmp"]).await, "namespace \"tmp\" deleted\n");
    let left = kubectl.run(&["get", "pods,configmaps", "-A", "-o", "name"]).await;
    assert_eq!(left, "");
}
