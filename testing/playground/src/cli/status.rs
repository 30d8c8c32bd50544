//! What is told of a playground: how it stands, how to talk to it, how it was stopped.

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
use super::{say, table};
use crate::home::Home;
use crate::process::Launcher;
use crate::programs::Programs;

/// How long a playground may take to stop before it is killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is printed at the start.
pub(super) fn introduce(home: &Home, programs: &Programs, returning: bool) {
    let what = if returning { "the playground is back" } else { "a new playground" };
    say(format_args!("{what} in {} (etcd {})\n", home.dir().display(), programs.versions().join(", ")));
    say(format_args!("  export KUBECONFIG={}", home.kubeconfig().display()));
    say("  kubectl get etcd,pods,pvc\n");
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
    say(format_args!("playground pid {} in {}\n", tenant.process.pid, home.dir().display()));
    say(format_args!("  export KUBECONFIG={}\n", home.kubeconfig().display()));
    let revisions = revisions::of(&pods(&client).await?).await;
    say(format_args!("{}\n", told(&clusters, &revisions, home)));
    for cluster in &clusters {
        if let Some(line) = etcdctl(&client, home, cluster).await {
            say(format_args!("  {line}\n"));
        }
    }
    say("PID\tPROCESS");
    for (name, process) in Launcher::running(home) {
        say(format_args!("{}\t{name}", process.pid));
    }
    Ok(())
}

/// `quorate playground down`.
pub(super) fn down(home: &Home) -> ExitCode {
    let Some(tenant) = home.tenant() else {
        say(format_args!("no playground runs on {}", home.dir().display()));
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
    say(format_args!("stopped the playground in {}; its data stay", home.dir().display()));
    ExitCode::SUCCESS
}

/// Whether the API answers and, if asked for, every cluster is available.
pub(super) async fn is_up(home: &Home, with_clusters: bool) -> bool {
    if home.tenant().is_none() {
        return false;
    }
    let Ok(client) = client(home).await else { return false };
    let (Ok(clusters), Ok(pods)) = (clusters(&client).await, pods(&client).await) else { return false };
    // What status says may still be of the time before the last stop; Pods are not Ready before they run.
    let available = |cluster: &Value| {
        let wanted = integer(cluster, "/spec/size").and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        let is_member =
            |pod: &&Value| label(pod, CLUSTER) == Some(name(cluster)) && namespace(pod) == namespace(cluster);
        let ready = pods.iter().filter(is_member).filter(|pod| condition(pod, "Ready") == "True").count();
        wanted == 0 || (condition(cluster, "Available") == "True" && ready >= wanted)
    };
    !with_clusters || (!clusters.is_empty() && clusters.iter().all(available))
}

/// Clusters and members, for people.
pub(super) fn told(clusters: &[Value], revisions: &Revisions, home: &Home) -> String {
    let mut text_out = String::new();
    for cluster in clusters {
        let conditions = items(cluster, "/status/conditions");
        let message = |kind: &str| {
            let found = conditions.iter().find(|one| one["type"] == kind);
            found.map(|one| text(one, "/message").to_owned()).unwrap_or_default()
        };
        let endpoint =
            client_port(home, cluster).map(|port| format!("  clients 127.0.0.1:{port}")).unwrap_or_default();
        let _ = writeln!(
            text_out,
            "{}/{}  {}  {} of {} ready{endpoint}\n  {}",
            namespace(cluster),
            name(cluster),
            text(cluster, "/status/phase"),
            integer(cluster, "/status/readyReplicas").unwrap_or(0),
            integer(cluster, "/spec/size").unwrap_or(0),
            message("Progressing"),
        );
    }
    if clusters.is_empty() {
        let _ = writeln!(text_out, "no EtcdCluster yet; kubectl apply one");
        return text_out;
    }
    let _ = write!(text_out, "{}", table::members(clusters, revisions));
    text_out
}

/// A client of the API that the kubeconfig names.
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

/// The port on this machine of a cluster's client Service, as the ledger has it.
fn client_port(home: &Home, cluster: &Value) -> Option<u64> {
    let ledger: Value = serde_json::from_slice(&std::fs::read(home.ledger()).ok()?).ok()?;
    ledger["ports"][format!("{}/{}-client", namespace(cluster), name(cluster))].as_u64()
}

/// A line that can be pasted: etcdctl against the cluster's port on this machine, with its client certificate in files.
pub(super) async fn etcdctl(client: &kube::Client, home: &Home, cluster: &Value) -> Option<String> {
    let (space, name) = (namespace(cluster), name(cluster));
    let port = client_port(home, cluster)?;
    let program = Programs::find(None).ok().and_then(|programs| {
        let version = text(cluster, "/status/currentVersion").to_owned();
        programs.get(&version).and_then(|programs| programs.etcdctl.clone())
    });
    let program = program.map_or_else(|| "etcdctl".to_owned(), |path| path.display().to_string());
    let secrets: Api<Secret> = Api::namespaced(client.clone(), space);
    let Some(secret) = secrets.get_opt(&format!("{name}-client-tls")).await.ok()? else {
        return Some(format!(
            "{program} --endpoints=http://127.0.0.1:{port} endpoint status --cluster -w table"
        ));
    };
    let dir = home.clients().join(space).join(name);
    std::fs::create_dir_all(&dir).ok()?;
    for (key, content) in secret.data.unwrap_or_default() {
        crate::home::write_atomically(&dir.join(key), &content.0).ok()?;
    }
    let dir = dir.display();
    Some(format!(
        "{program} --endpoints=https://127.0.0.1:{port} --cacert={dir}/ca.crt --cert={dir}/tls.crt --key={dir}/tls.key \
         endpoint status -w table"
    ))
}
