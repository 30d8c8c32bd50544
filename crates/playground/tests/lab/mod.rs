//! A playground for a test: real etcd processes, the real operator in a process of its own, a Kubernetes API over HTTPS.
//! Everything a test does it does through that API, through etcd, or through `quorate playground fault`, as a person
//! would. What is started is stopped again, also when the test fails.
#![allow(dead_code, missing_docs, reason = "each test file uses its part of it")]

pub mod writer;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use quorate_api::EtcdCluster;
use quorate_etcd::{Deadlines, Endpoint, MemberClient, Tls};
use serde_json::{Value, json};

/// Long enough for two slow cores with other tests beside; a test that needs all of it has failed.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// A playground, stopped when it is dropped.
pub struct Lab {
    dir: tempfile::TempDir,
    eyes: Eyes,
}

/// What can be seen and done of a playground through its API and its etcds.
#[derive(Clone)]
pub struct Eyes {
    pub client: Client,
}

impl Lab {
    /// An empty playground.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// An empty playground whose operator's first start has these environment variables.
    pub async fn start_with(operator_env: &[(&str, &str)]) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("quorate-lab-").tempdir()?;
        let env = operator_env.iter().map(|(key, value)| format!("{key}={value}"));
        let args: Vec<String> = env.flat_map(|pair| ["--operator-env".to_owned(), pair]).collect();
        let mut start = vec!["--detach", "--empty", "--crash-back-off", "1s"];
        start.extend(args.iter().map(String::as_str));
        run(dir.path(), &start).context("starting the playground")?;
        let client = client(&dir.path().join("kubeconfig")).await?;
        Ok(Self { dir, eyes: Eyes { client } })
    }

    /// Stops the playground and starts it again on the same directory.
    pub async fn restart(&mut self) -> Result<()> {
        self.down()?;
        run(self.path(), &["--detach", "--empty", "--crash-back-off", "1s"])?;
        self.eyes.client = client(&self.path().join("kubeconfig")).await?;
        Ok(())
    }

    pub fn down(&self) -> Result<()> {
        run(self.path(), &["down"]).map(drop)
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// `quorate playground fault ...`
    pub fn fault(&self, args: &[&str]) -> Result<String> {
        let mut all = vec!["fault"];
        all.extend(args);
        run(self.path(), &all)
    }
}

impl Deref for Lab {
    type Target = Eyes;

    fn deref(&self) -> &Eyes {
        &self.eyes
    }
}

impl Eyes {
    pub fn clusters(&self) -> Api<EtcdCluster> {
        Api::default_namespaced(self.client.clone())
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    pub fn volumes(&self) -> Api<PersistentVolumeClaim> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates an EtcdCluster from its spec.
    pub async fn create(&self, name: &str, spec: Value) -> Result<EtcdCluster> {
        let object = json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
            "metadata": {"name": name}, "spec": spec,
        });
        let cluster = serde_json::from_value(object)?;
        Ok(self.clusters().create(&PostParams::default(), &cluster).await?)
    }

    /// A merge patch, as `kubectl patch --type merge` sends it.
    pub async fn patch(&self, name: &str, patch: Value) -> Result<EtcdCluster> {
        Ok(self.clusters().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// `kubectl scale`, through the scale subresource.
    pub async fn scale(&self, name: &str, size: usize) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": size}}));
        self.clusters().patch_scale(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Deletes an EtcdCluster and waits until it and its Pods are gone.
    #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.clusters().delete(name, &DeleteParams::default()).await?;
        until(&format!("{name} is gone"), async || {
            let object = self.clusters().get_opt(name).await?.is_none();
            let pods = self.pods_of(name).await?.is_empty();
            Ok(if object && pods { Ok(()) } else { Err(format!("object gone {object}, Pods gone {pods}")) })
        })
        .await
    }

    /// `kubectl delete pod`.
    #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
    pub async fn delete_pod(&self, pod: &str) -> Result<()> {
        self.pods().delete(pod, &DeleteParams::default()).await?;
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
    pub async fn delete_volume(&self, volume: &str) -> Result<()> {
        self.volumes().delete(volume, &DeleteParams::default()).await?;
        Ok(())
    }

    pub async fn pods_of(&self, cluster: &str) -> Result<Vec<Pod>> {
        let of = ListParams::default().labels(&format!("operator.etcd.io/cluster={cluster}"));
        Ok(self.pods().list(&of).await?.items)
    }

    pub async fn volumes_of(&self, cluster: &str) -> Result<Vec<PersistentVolumeClaim>> {
        let of = ListParams::default().labels(&format!("operator.etcd.io/cluster={cluster}"));
        Ok(self.volumes().list(&of).await?.items)
    }

    pub async fn status(&self, name: &str) -> Result<Value> {
        let cluster = self.clusters().get(name).await?;
        Ok(serde_json::to_value(cluster.status)?)
    }

    pub async fn cluster_id(&self, name: &str) -> Result<String> {
        let status = self.status(name).await?;
        status["clusterID"].as_str().map(str::to_owned).ok_or_else(|| anyhow!("{name} has no cluster id"))
    }

    /// Member ids by name, as status has them.
    pub async fn member_ids(&self, name: &str) -> Result<BTreeMap<String, String>> {
        let status = self.status(name).await?;
        let members = status["members"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(members.iter().map(|member| (text(&member["name"]), text(&member["id"]))).collect())
    }

    /// Waits until the cluster has exactly so many ready voters, says so, and nothing more is being done.
    pub async fn settled(&self, name: &str, size: usize) -> Result<()> {
        until(&format!("{name} settles at {size}"), async || {
            let cluster = self.clusters().get(name).await?;
            let ready = self.pods_of(name).await?.iter().filter(|pod| is_ready(pod)).count();
            let pods = self.pods_of(name).await?.len();
            let status = serde_json::to_value(&cluster.status)?;
            let seen = status["observedGeneration"].as_i64() == cluster.metadata.generation;
            let still =
                condition(&status, "Progressing") == "False" && condition(&status, "Degraded") == "False";
            let available = condition(&status, "Available") == if size > 0 { "True" } else { "False" };
            Ok(if seen && still && available && ready == size && pods == size {
                Ok(())
            } else {
                Err(format!("{ready} of {pods} Pods ready; {}", told(&status)))
            })
        })
        .await
    }

    /// Waits until what was just broken has been noticed or has healed already, then until it settles.
    pub async fn settled_again(&self, name: &str, size: usize) -> Result<()> {
        let broken = async {
            until("it is noticed", async || {
                let ready = self.pods_of(name).await?.iter().filter(|pod| is_ready(pod)).count();
                Ok(if ready < size { Ok(()) } else { Err(String::new()) })
            })
            .await
        };
        // A restart can be over before anybody looks.
        let _ = tokio::time::timeout(Duration::from_secs(3), broken).await;
        self.settled(name, size).await
    }

    /// Waits until a condition has a status, and gives its message.
    pub async fn condition(&self, name: &str, kind: &str, wanted: &str) -> Result<String> {
        let mut message = String::new();
        until(&format!("{kind} of {name} is {wanted}"), async || {
            let status = self.status(name).await?;
            if condition(&status, kind) == wanted {
                message = message_of(&status, kind);
                return Ok(Ok(()));
            }
            Ok(Err(told(&status)))
        })
        .await?;
        Ok(message)
    }

    /// Waits until any condition or member of status, or any event of the cluster, says this.
    pub async fn says(&self, name: &str, text: &str) -> Result<()> {
        until(&format!("{name} says {text:?}"), async || {
            let status = self.status(name).await?;
            let events = self.events(name).await?;
            let said = status.to_string().contains(text) || events.contains(text);
            Ok(if said { Ok(()) } else { Err(format!("{}\n{events}", told(&status))) })
        })
        .await
    }

    pub async fn events(&self, name: &str) -> Result<String> {
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        let of = ListParams::default().fields(&format!("involvedObject.name={name}"));
        let mut text = String::new();
        for event in events.list(&of).await?.items {
            let (reason, message) = (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
            let _ = writeln!(text, "{reason}: {message}");
        }
        Ok(text)
    }

    /// One client a ready member, by Pod IP.
    pub async fn members(&self, cluster: &str) -> Result<Vec<(String, MemberClient)>> {
        let tls = self.tls(cluster).await?;
        let mut members = Vec::new();
        for pod in self.pods_of(cluster).await?.iter().filter(|pod| is_ready(pod)) {
            let ip =
                pod.status.as_ref().and_then(|status| status.pod_ip.clone()).context("ready without IP")?;
            let address: SocketAddr = format!("{ip}:2379").parse()?;
            let endpoint = match &tls {
                Some(tls) => {
                    let server_name = format!("{}.{cluster}.default.svc", pod.name_any());
                    Endpoint::tls(address, Tls { server_name, ..tls.clone() })
                }
                None => Endpoint::plain(address),
            };
            members.push((pod.name_any(), MemberClient::new(&endpoint, Deadlines::default())?));
        }
        ensure!(!members.is_empty(), "{cluster} has no ready member");
        Ok(members)
    }

    /// Every ready member reports this one cluster id.
    pub async fn one_cluster_id(&self, cluster: &str) -> Result<String> {
        let latched = self.cluster_id(cluster).await?;
        for (name, member) in self.members(cluster).await? {
            let id = member.status().await?.cluster_id.to_string();
            ensure!(id == latched, "{name} is in cluster {id}, latched is {latched}");
        }
        Ok(latched)
    }

    async fn tls(&self, cluster: &str) -> Result<Option<Tls>> {
        let secrets: Api<Secret> = Api::default_namespaced(self.client.clone());
        let Some(secret) = secrets.get_opt(&format!("{cluster}-client-tls")).await? else { return Ok(None) };
        let data = secret.data.unwrap_or_default();
        let part =
            |key: &str| data.get(key).map(|bytes| bytes.0.clone()).with_context(|| format!("no {key}"));
        let server_name = String::new();
        Ok(Some(Tls { server_name, ca: part("ca.crt")?, cert: part("tls.crt")?, key: part("tls.key")? }))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.path().join("logs/operator.log")).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(60).collect();
            for line in tail.into_iter().rev() {
                eprintln!("operator: {line}");
            }
        }
        if let Err(error) = self.down() {
            eprintln!("stopping the playground: {error:#}");
        }
    }
}

/// A spec of the sample's kind, small and quick.
pub fn spec(size: usize) -> Value {
    json!({"size": size, "version": version(), "storageSpec": {"volumeSizeRequest": "64Mi"}})
}

/// The etcd version under test: `QUORATE_TEST_ETCD_VERSION`, or the middle one of the three pinned.
pub fn version() -> String {
    std::env::var("QUORATE_TEST_ETCD_VERSION").unwrap_or_else(|_| "3.6.16".to_owned())
}

pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// Polls until it holds, and fails with what was last seen.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> Result<Result<(), String>>) -> Result<()> {
    let start = Instant::now();
    loop {
        let last = match holds().await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(seen)) => seen,
            Err(error) => format!("{error:#}"),
        };
        if start.elapsed() > DEADLINE {
            bail!("not within {DEADLINE:?}: {what}; last seen: {last}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a str {
    find(status, kind).and_then(|condition| condition["status"].as_str()).unwrap_or_default()
}

fn message_of(status: &Value, kind: &str) -> String {
    find(status, kind).and_then(|condition| condition["message"].as_str()).unwrap_or_default().to_owned()
}

fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn told(status: &Value) -> String {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let line =
        |one: &Value| format!("{}={} {}: {}", one["type"], one["status"], one["reason"], one["message"]);
    format!("phase {}; {}", status["phase"], conditions.iter().map(line).collect::<Vec<_>>().join("; "))
}

async fn client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Runs `quorate playground ... --dir DIR`, which must fail; what it printed.
pub fn refused(dir: &Path, args: &[&str]) -> Result<String> {
    match run(dir, args) {
        Ok(printed) => bail!("quorate playground {} was to fail: {printed}", args.join(" ")),
        Err(error) => Ok(error.to_string()),
    }
}

/// Runs `quorate playground ... --dir DIR`, and fails with all it printed.
fn run(dir: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new(program()?);
    command.arg("playground").args(args).arg("--dir").arg(dir);
    if let Ok(etcd) = std::env::var("QUORATE_ETCD_BIN_DIR")
        && args.first() == Some(&"--detach")
        && !args.contains(&"--etcd-bin-dir")
    {
        command.arg("--etcd-bin-dir").arg(etcd);
    }
    let Output { status, stdout, stderr } = command.output()?;
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    ensure!(status.success(), "quorate playground {}: {status}\n{stdout}{stderr}", args.join(" "));
    Ok(stdout.into_owned())
}

fn program() -> Result<PathBuf> {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/quorate");
    let program = std::env::var_os("QUORATE_BIN").map_or_else(built, PathBuf::from);
    ensure!(program.exists(), "{} does not exist: run this through cargo xtask test", program.display());
    Ok(program)
}
