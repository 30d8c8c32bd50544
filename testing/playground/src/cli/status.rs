//! What the commands report about a playground: readiness, overview, connection commands, stop.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Api, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use nix::sys::signal::Signal;
use quorate_api::keys::CLUSTER;
use quorate_apistore::fields::{condition, integer, items, label, name, namespace, text};
use serde_json::Value;

use super::revisions::{self, Revisions};
use super::{print_line, table};
use crate::builds;
use crate::home::Home;
use crate::process::Launcher;
use crate::programs::Programs;
use crate::s3;

/// How long a playground may take to stop before it is killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Printed at the start.
pub(super) fn introduce(home: &Home, etcd: &str, returning: bool) {
    let what = if returning { "Restored the playground" } else { "Started a new playground" };
    print_line(format_args!("{what} in {} ({etcd})\n", home.dir().display()));
    print_line(format_args!("  export KUBECONFIG={}", home.kubeconfig().display()));
    print_line("  kubectl get etcd,pods,pvc\n");
}

/// `quorate playground status`.
pub(super) async fn show(home: &Home) -> Result<()> {
    let Some(tenant) = home.tenant() else {
        bail!(
            "no playground runs on {}; start one with `quorate playground --dir {0}`",
            home.dir().display()
        );
    };
    let client = client(home).await?;
    let clusters = clusters(&client).await?;
    print_line(format_args!("playground pid {} in {}\n", tenant.process.pid, home.dir().display()));
    print_line(format_args!("  export KUBECONFIG={}\n", home.kubeconfig().display()));
    if let Some(store) = s3::find(&client).await? {
        print_line(store);
    }
    let pods = pods(&client).await?;
    let revisions = revisions::of(&pods).await;
    print_line(format_args!("{}\n", overview(&clusters, &pods, &revisions, home)));
    for cluster in &clusters {
        if let Some(line) = etcdctl(&client, home, cluster).await {
            print_line(format_args!("  {line}\n"));
        }
    }
    print_line("PID\tPROCESS");
    for (name, process) in Launcher::running(home) {
        print_line(format_args!("{}\t{name}", process.pid));
    }
    Ok(())
}

/// `quorate playground down`.
pub(super) fn down(home: &Home) -> ExitCode {
    let Some(tenant) = home.tenant() else {
        print_line(format_args!("no playground runs on {}", home.dir().display()));
        return ExitCode::SUCCESS;
    };
    tenant.process.signal(Signal::SIGTERM);
    let start = Instant::now();
    while tenant.process.is_alive() {
        if start.elapsed() > PATIENCE {
            tenant.process.signal(Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    print_line(format_args!("stopped the playground in {}; its data are kept", home.dir().display()));
    ExitCode::SUCCESS
}

/// The readiness of a starting playground.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Startup {
    /// The API does not answer yet.
    Starting,
    /// One line for each build and for each cluster that is not ready.
    Waiting(Vec<String>),
    /// The API answers and, if clusters are expected, every cluster is ready.
    Ready,
}

/// Reads the readiness. With `clusters_expected` the playground must have clusters, and all must be ready.
pub(super) async fn startup(home: &Home, clusters_expected: bool) -> Startup {
    if home.tenant().is_none() {
        return Startup::Starting;
    }
    let Ok(client) = client(home).await else { return Startup::Starting };
    let (Ok(clusters), Ok(pods)) = (clusters(&client).await, pods(&client).await) else {
        return Startup::Starting;
    };
    if !clusters_expected {
        return Startup::Ready;
    }
    if clusters.is_empty() {
        return Startup::Waiting(Vec::new());
    }
    // The local port follows the client Service a moment later.
    let has_port = |cluster: &Value| size(cluster) == 0 || client_port(home, cluster).is_some();
    let waiting_for = |cluster: &Value| {
        if !is_ready(cluster, &pods) {
            return Some(summary(cluster, &pods));
        }
        let no_port = "Waiting for the local port of its client Service";
        (!has_port(cluster)).then(|| format!("{}/{}: {no_port}", namespace(cluster), name(cluster)))
    };
    let waiting: Vec<String> = clusters.iter().filter_map(waiting_for).collect();
    if waiting.is_empty() {
        return Startup::Ready;
    }
    Startup::Waiting(builds_of(&pods).into_iter().chain(waiting).collect())
}

/// Whether all members of a cluster serve. Status alone may date from before the last stop, so the Pods must be ready as
/// well: after a start no Pod is ready before it runs.
fn is_ready(cluster: &Value, pods: &[Value]) -> bool {
    serves_fully(cluster) && ready_pods(cluster, pods) >= size(cluster)
}

fn ready_pods(cluster: &Value, pods: &[Value]) -> i64 {
    let is_member =
        |pod: &&Value| label(pod, CLUSTER) == Some(name(cluster)) && namespace(pod) == namespace(cluster);
    let ready = pods.iter().filter(is_member).filter(|pod| condition(pod, "Ready") == "True");
    i64::try_from(ready.count()).unwrap_or(i64::MAX)
}

/// Clusters and members as text.
pub(super) fn overview(clusters: &[Value], pods: &[Value], revisions: &Revisions, home: &Home) -> String {
    if clusters.is_empty() {
        return "There is no EtcdCluster; create one with kubectl apply.\n".to_owned();
    }
    let mut overview = String::new();
    for cluster in clusters {
        let endpoint =
            client_port(home, cluster).map(|port| format!("  clients 127.0.0.1:{port}")).unwrap_or_default();
        let _ = writeln!(
            overview,
            "{}/{}  {}{endpoint}\n  {}",
            namespace(cluster),
            name(cluster),
            text(cluster, "/status/phase"),
            progress(cluster, pods),
        );
    }
    for build in builds_of(pods) {
        let _ = writeln!(overview, "{build}");
    }
    let _ = write!(overview, "{}", table::members(clusters, revisions));
    overview
}

/// The builds of etcd that containers wait for, and those that failed.
fn builds_of(pods: &[Value]) -> BTreeSet<String> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let containers = pods.iter().flat_map(|pod| lists.into_iter().flat_map(|list| items(pod, list)));
    let reports =
        containers.filter_map(|container| builds::report(text(container, "/state/waiting/message")));
    reports.map(str::to_owned).collect()
}

/// One line about a cluster: `default/demo: 0 of 3 members serve. Waiting for ...`.
fn summary(cluster: &Value, pods: &[Value]) -> String {
    format!("{}/{}: {}", namespace(cluster), name(cluster), progress(cluster, pods))
}

/// `Ready: 3 of 3 members serve`, or how many serve and what the operator reports.
fn progress(cluster: &Value, pods: &[Value]) -> String {
    let reported = integer(cluster, "/status/readyReplicas").unwrap_or(0);
    // Status may date from before the last stop: a member whose Pod is not ready does not serve.
    let (ready, size) = (reported.min(ready_pods(cluster, pods)), size(cluster));
    let degraded = condition(cluster, "Degraded") == "True";
    if is_ready(cluster, pods) && !degraded {
        return format!("Ready: {reported} of {size} members serve");
    }
    if serves_fully(cluster) && !degraded {
        return format!("{ready} of {size} members serve. Waiting until their Pods are ready");
    }
    let explains = ["Progressing", "Degraded"].into_iter().find(|kind| condition(cluster, kind) == "True");
    let kind = explains.unwrap_or("Available");
    let reported = items(cluster, "/status/conditions").iter().find(|one| one["type"] == kind);
    let message = reported.map(|one| text(one, "/message")).unwrap_or_default();
    format!("{ready} of {size} members serve. {message}").trim_end().to_owned()
}

/// Whether status reports that the cluster has its size and is available. A cluster of size 0 has nothing to serve.
fn serves_fully(cluster: &Value) -> bool {
    let ready = integer(cluster, "/status/readyReplicas").unwrap_or(0);
    let progressing = condition(cluster, "Progressing") == "True";
    !progressing
        && ready == size(cluster)
        && (size(cluster) == 0 || condition(cluster, "Available") == "True")
}

fn size(cluster: &Value) -> i64 {
    integer(cluster, "/spec/size").unwrap_or(0)
}

/// A client for the API of the kubeconfig.
pub(super) async fn client(home: &Home) -> Result<kube::Client> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig =
        Kubeconfig::read_from(home.kubeconfig()).context("the playground has no kubeconfig yet")?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(kube::Client::try_from(config)?)
}

async fn clusters(client: &kube::Client) -> Result<Vec<Value>> {
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("operator.etcd.io", "v1alpha1", "EtcdCluster"),
        "etcdclusters",
    );
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let listed = api.list(&kube::api::ListParams::default()).await?;
    Ok(listed.items.iter().filter_map(|cluster| serde_json::to_value(cluster).ok()).collect())
}

async fn pods(client: &kube::Client) -> Result<Vec<Value>> {
    let api: Api<Pod> = Api::all(client.clone());
    let listed = api.list(&kube::api::ListParams::default()).await?;
    Ok(listed.items.iter().filter_map(|pod| serde_json::to_value(pod).ok()).collect())
}

/// The local port of a cluster's client Service, from the ledger.
fn client_port(home: &Home, cluster: &Value) -> Option<u64> {
    let ledger: Value = serde_json::from_slice(&std::fs::read(home.ledger()).ok()?).ok()?;
    ledger["ports"][format!("{}/{}-client", namespace(cluster), name(cluster))].as_u64()
}

/// A command to copy: the status of all members.
pub(super) async fn etcdctl(client: &kube::Client, home: &Home, cluster: &Value) -> Option<String> {
    let (program, flags) = etcdctl_of(client, home, cluster).await?;
    let all = if flags.len() == 1 { "--cluster " } else { "" };
    Some(format!("{program} {} endpoint status {all}-w table", flags.join(" ")))
}

/// etcdctl, and its flags with the cluster's local port and its client certificate in files.
pub(super) async fn etcdctl_of(
    client: &kube::Client,
    home: &Home,
    cluster: &Value,
) -> Option<(String, Vec<String>)> {
    let (space, name) = (namespace(cluster), name(cluster));
    let port = client_port(home, cluster)?;
    let program = Programs::find(None).ok().and_then(|programs| {
        let version = text(cluster, "/status/currentVersion").to_owned();
        programs.get(&version).and_then(|programs| programs.etcdctl.clone())
    });
    let program = program.map_or_else(|| "etcdctl".to_owned(), |path| path.display().to_string());
    let secrets: Api<Secret> = Api::namespaced(client.clone(), space);
    let Some(secret) = secrets.get_opt(&format!("{name}-client-tls")).await.ok()? else {
        return Some((program, vec![format!("--endpoints=http://127.0.0.1:{port}")]));
    };
    let dir = home.clients().join(space).join(name);
    std::fs::create_dir_all(&dir).ok()?;
    for (key, content) in secret.data.unwrap_or_default() {
        crate::home::write_atomically(&dir.join(key), &content.0).ok()?;
    }
    let file = |flag: &str, name: &str| format!("--{flag}={}/{name}", dir.display());
    let endpoint = format!("--endpoints=https://127.0.0.1:{port}");
    Some((program, vec![endpoint, file("cacert", "ca.crt"), file("cert", "tls.crt"), file("key", "tls.key")]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(ready: i64, conditions: &[(&str, &str, &str)]) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status, message)| json!({ "type": kind, "status": status, "message": message }))
            .collect();
        json!({
            "metadata": { "namespace": "default", "name": "demo" }, "spec": { "size": 3 },
            "status": { "readyReplicas": ready, "conditions": conditions },
        })
    }

    fn pods(ready: usize) -> Vec<Value> {
        let pod = |n: usize| {
            json!({
                "metadata": {
                    "namespace": "default", "name": format!("demo-{n}"), "labels": { CLUSTER: "demo" },
                },
                "status": { "conditions": [
                    { "type": "Ready", "status": if n < ready { "True" } else { "False" } },
                ] },
            })
        };
        (0..3).map(pod).collect()
    }

    #[test]
    fn a_cluster_of_its_size_that_is_available_is_ready() {
        let done = [("Available", "True", ""), ("Progressing", "False", "The cluster matches its spec")];
        assert_eq!(summary(&cluster(3, &done), &pods(3)), "default/demo: Ready: 3 of 3 members serve");
        let starting = cluster(0, &done[..1]);
        assert_eq!(progress(&starting, &pods(3)), "0 of 3 members serve.", "available alone is not ready");
    }

    #[test]
    fn a_cluster_that_is_not_ready_shows_what_explains_it() {
        let growing = [("Available", "True", "fine"), ("Progressing", "True", "Adding member demo-2")];
        assert_eq!(progress(&cluster(2, &growing), &pods(2)), "2 of 3 members serve. Adding member demo-2");
        let cut_off = [("Available", "True", "fine"), ("Degraded", "True", "demo-2: follows no leader")];
        assert_eq!(
            progress(&cluster(3, &cut_off), &pods(3)),
            "3 of 3 members serve. demo-2: follows no leader"
        );
        let sick = [("Available", "True", "fine"), ("Degraded", "True", "demo-2: unreachable")];
        assert_eq!(progress(&cluster(2, &sick), &pods(2)), "2 of 3 members serve. demo-2: unreachable");
    }

    #[test]
    fn a_build_is_listed_once_for_all_pods_that_wait_for_it() {
        let waits = |message: &str| {
            let waiting = json!({ "reason": "ContainerCreating", "message": message });
            json!({ "status": { "containerStatuses": [{ "state": { "waiting": waiting } }] } })
        };
        let builds = "building etcd 3.6.16 from source";
        let failed = "Back-off pulling image \"x\": ErrImagePull: etcd 3.5.9 cannot be built (exit code 1)\nno network";
        let pods = [waits(builds), waits(builds), waits(failed), waits("unrelated")];
        let listed: Vec<String> = builds_of(&pods).into_iter().collect();
        assert_eq!(listed, [builds, "etcd 3.5.9 cannot be built (exit code 1)"]);
        assert_eq!(listed.iter().filter(|line| builds::runs(line)).count(), 1);
    }

    #[test]
    fn a_status_of_the_time_before_the_stop_does_not_pass_for_the_present_one() {
        let done = cluster(3, &[("Available", "True", "")]);
        assert!(!is_ready(&done, &pods(2)));
        let waits = "2 of 3 members serve. Waiting until their Pods are ready";
        assert_eq!(progress(&done, &pods(2)), waits);
        assert!(is_ready(&done, &pods(3)));
    }
}
