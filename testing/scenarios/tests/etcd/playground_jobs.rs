//! Jobs in the playground, and its S3 server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use kube::api::{Api, ListParams, PostParams};
use quorate_scenarios::{Playground, S3Server, World, until};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio_rustls::TlsConnector;

/// A Job whose container has these fields besides its image.
async fn create(world: &Playground, name: &str, container: &Value, more: &Value) -> Result<()> {
    let mut job = json!({
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "agent", "image": "quorate:playground"}],
        }}},
    });
    merge(&mut job["spec"]["template"]["spec"]["containers"][0], container);
    merge(&mut job["spec"], more);
    jobs(world).create(&PostParams::default(), &serde_json::from_value(job)?).await?;
    Ok(())
}

/// Waits until a Job has ended so, and returns the reason.
async fn ends(world: &Playground, name: &str, kind: &str) -> Result<String> {
    let mut reason = String::new();
    until(&format!("Job {name} is {kind}"), async || {
        let status = jobs(world).get(name).await?.status.unwrap_or_default();
        let end = status.conditions.iter().flatten().find(|one| one.type_ == kind && one.status == "True");
        let Some(end) = end else { return Ok(Err(json!(status).to_string())) };
        reason = end.reason.clone().unwrap_or_default();
        Ok(Ok(()))
    })
    .await?;
    Ok(reason)
}

/// The exit code and the termination message of a Job's last Pod.
async fn end_of_pod(world: &Playground, job: &str) -> Result<(i32, String)> {
    let pods = world
        .pods()
        .list(&ListParams::default().labels(&format!("batch.kubernetes.io/job-name={job}")))
        .await?;
    let ended = |pod: &Pod| {
        let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
        let terminated = status.state.as_ref()?.terminated.as_ref()?;
        Some((terminated.exit_code, terminated.message.clone().unwrap_or_default()))
    };
    pods.iter().filter_map(ended).last().context("no Pod of the Job has ended")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_to_its_end_and_reports_its_termination_message() -> Result<()> {
    let world = Playground::start().await?;
    create(&world, "good", &json!({"args": ["--version"]}), &json!({})).await?;
    ensure!(ends(&world, "good", "Complete").await? == "CompletionsReached");
    ensure!(end_of_pod(&world, "good").await?.0 == 0);

    let args =
        json!({"args": ["agent", "no-such-command"], "terminationMessagePolicy": "FallbackToLogsOnError"});
    create(&world, "bad", &args, &json!({})).await?;
    ensure!(ends(&world, "bad", "Failed").await? == "BackoffLimitExceeded");
    let (code, message) = end_of_pod(&world, "bad").await?;
    ensure!(code == 2 && message.contains("no-such-command"), "{code}: {message}");
    ensure!(jobs(&world).get("bad").await?.status.unwrap_or_default().failed == Some(1));

    // The files that the order of a Job is in: a Secret, a claim, and room to work in.
    secret(&world, "keys", &[("id", "a"), ("key", "b")]).await?;
    claim(&world, "store").await?;
    let volumes = json!([
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "more", "secret": {"secretName": "missing", "optional": true}},
        {"name": "store", "persistentVolumeClaim": {"claimName": "store"}},
        {"name": "scratch", "emptyDir": {"sizeLimit": "64Mi"}},
    ]);
    let mounts: Vec<Value> = ["keys", "more", "store", "scratch"]
        .iter()
        .map(|name| json!({"name": name, "mountPath": format!("/mnt/{name}")}))
        .collect();
    let from = json!([
        {"name": "ID", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "id"}}},
        {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "none", "optional": true}}},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]);
    // etcd writes its data to the claim: it proves that the volume is there and may be written to.
    let container = json!({
        "image": format!("etcd:v{}", quorate_scenarios::version()), "env": from, "volumeMounts": mounts,
        "command": ["/usr/local/bin/etcd"],
        "args": ["--name=$(ID)", "--data-dir=/mnt/store/data", "--listen-peer-urls=http://127.0.77.1:23800",
            "--listen-client-urls=http://127.0.77.1:23790", "--advertise-client-urls=http://127.0.77.1:23790",
            "--initial-advertise-peer-urls=http://127.0.77.1:23800", "--initial-cluster=a=http://127.0.77.1:23800"],
    });
    let limited = json!({"activeDeadlineSeconds": 4, "template": {"spec": {"volumes": volumes}}});
    create(&world, "late", &container, &limited).await?;
    ensure!(ends(&world, "late", "Failed").await? == "DeadlineExceeded");
    let store = world.volume_dir("store").await?;
    ensure!(store.join("data/member").is_dir(), "etcd did not write to the claim");
    until("the Pod of the Job that was late is gone", async || {
        let left = world.pods().list(&ListParams::default().labels("job-name=late")).await?.items.len();
        Ok(if left == 0 { Ok(()) } else { Err(format!("{left} left")) })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_runs_too_long_fails_and_stays() -> Result<()> {
    let world = Playground::start().await?;
    // A directory of its own: what another version of etcd has left in a common one ends this one at once.
    let pod = json!({
        "metadata": {"name": "late"},
        "spec": {
            "restartPolicy": "Never", "activeDeadlineSeconds": 1,
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [{"name": "etcd", "image": format!("etcd:v{}", quorate_scenarios::version()),
                "volumeMounts": [{"name": "data", "mountPath": "/mnt/late"}], "args": [
                "--data-dir=/mnt/late/data", "--listen-client-urls=http://127.0.77.2:23790", "--listen-peer-urls=http://127.0.77.2:23800",
                "--advertise-client-urls=http://127.0.77.2:23790",
                "--initial-advertise-peer-urls=http://127.0.77.2:23800", "--initial-cluster=default=http://127.0.77.2:23800",
            ]}],
        },
    });
    world.pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    until("the Pod has failed, and its container has stopped", async || {
        let status = world.pods().get("late").await?.status.unwrap_or_default();
        let container = status.container_statuses.iter().flatten().next().and_then(|one| one.state.as_ref());
        let stopped = container.is_some_and(|state| state.terminated.is_some());
        let failed =
            status.phase.as_deref() == Some("Failed") && status.reason.as_deref() == Some("DeadlineExceeded");
        Ok(if failed && stopped { Ok(()) } else { Err(json!(status).to_string()) })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_of_a_playground_keeps_its_keys_and_its_bucket() -> Result<()> {
    let mut world = Playground::start_with_args(&["--s3"]).await?;
    let secrets = || Api::<Secret>::default_namespaced(world.client.clone());
    let secret = secrets().get("s3-credentials").await?;
    let keys: BTreeMap<_, _> = secret.data.context("it has keys")?;
    ensure!(keys.keys().eq(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "ca.crt"]), "{keys:?}");
    let ca = String::from_utf8(keys["ca.crt"].0.clone())?;
    let endpoint =
        secret.metadata.annotations.context("it has the URL")?["playground.operator.etcd.io/s3-endpoint"]
            .clone();
    let shown = world.printed_status()?;
    ensure!(shown.contains(&endpoint) && shown.contains("caSecret: {name: s3-credentials}"), "{shown}");
    ensure!(refuses_strangers(&endpoint, &ca).await?, "a request without keys is not refused");
    let bucket = world.path().join("s3/buckets/backups");
    std::fs::write(bucket.join("kept"), "x")?;
    world.restart().await?;
    let again = Api::<Secret>::default_namespaced(world.client.clone()).get("s3-credentials").await?;
    ensure!(again.data == Some(keys) && bucket.join("kept").exists());
    ensure!(refuses_strangers(&endpoint, &ca).await?, "it is at the same address");
    world.down()?;
    ensure!(refuses_strangers(&endpoint, &ca).await.is_err(), "it ends with the playground");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_of_a_test_answers_and_ends_with_it() -> Result<()> {
    let server = S3Server::start()?;
    let (endpoint, ca) = (server.endpoint(), server.ca().to_owned());
    ensure!(server.bucket_dir().is_dir() && refuses_strangers(&endpoint, &ca).await?);
    drop(server);
    ensure!(refuses_strangers(&endpoint, &ca).await.is_err(), "it still answers");
    Ok(())
}

/// Whether a list of the bucket is refused without keys. An error: nothing answers with a certificate of this authority.
async fn refuses_strangers(endpoint: &str, ca: &str) -> Result<bool> {
    use http_body_util::Empty;
    use hyper_util::rt::TokioIo;
    let address = endpoint.strip_prefix("https://").context("it speaks TLS")?;
    let ip = address.parse::<std::net::SocketAddr>()?.ip();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address).await?;
    let stream = TlsConnector::from(Arc::new(config)).connect(ServerName::from(ip), stream).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driven = tokio::spawn(connection);
    let request = http::Request::get("/backups?list-type=2").header("host", address);
    let request = request.body(Empty::<&[u8]>::new())?;
    let answer = tokio::time::timeout(Duration::from_secs(20), sender.send_request(request)).await??;
    driven.abort();
    Ok(answer.status() == http::StatusCode::FORBIDDEN)
}

async fn secret(world: &Playground, name: &str, values: &[(&str, &str)]) -> Result<()> {
    let data: BTreeMap<&str, &str> = values.iter().copied().collect();
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": name}, "stringData": data}))?;
    Api::default_namespaced(world.client.clone()).create(&PostParams::default(), &secret).await?;
    Ok(())
}

async fn claim(world: &Playground, name: &str) -> Result<()> {
    let claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}},
    }))?;
    world.volumes().create(&PostParams::default(), &claim).await?;
    Ok(())
}

fn jobs(world: &Playground) -> Api<Job> {
    Api::default_namespaced(world.client.clone())
}

fn merge(into: &mut Value, more: &Value) {
    match (into.as_object_mut(), more.as_object()) {
        (Some(into), Some(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        _ => *into = more.clone(),
    }
}
