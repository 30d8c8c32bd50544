//! Whoever reads logs, events, statuses and Jobs learns nothing that is in a Secret, at any level of logging, and also where Secrets are
//! broken or refused.

use std::collections::BTreeSet;
use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::world::jobs::{able, kubelet};
use crate::world::{RequestOutcome, World, three_members, until, until_pods};
use anyhow::{Result, ensure};
use http::Method;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use quorate_api::EtcdBackup;
use quorate_apistore::resources::ResourceKey;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Entries of Secrets that are no secrets: certificates, and where the cluster is.
const PUBLIC: [&str; 8] = ["ca.crt", "tls.crt", "type", "provider", "host", "port", "uri", "endpoints"];

/// Kinds in which the operator writes, and Secrets are not.
const READ_BY_OTHERS: [(&str, &str); 9] = [
    ("operator.etcd.io", "etcdclusters"),
    ("operator.etcd.io", "etcdbackups"),
    ("operator.etcd.io", "etcdbackupschedules"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("", "pods"),
    ("", "persistentvolumeclaims"),
    ("", "services"),
    ("batch", "jobs"),
];

/// Hears every span and event of one thread, of this program and of its libraries, at every level. It is the one of the whole process: what
/// other threads ask first decides whether a place in the code speaks at all.
struct Listener {
    heard: Arc<Mutex<String>>,
    thread: ThreadId,
    spans: AtomicU64,
}

struct Words<'a>(&'a mut String);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = write!(self.0, " {field}={value}");
    }
}

impl Listener {
    fn hear(&self, say: impl FnOnce(&mut Words<'_>)) {
        if thread::current().id() != self.thread {
            return;
        }
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        say(&mut Words(&mut heard));
        heard.push('\n');
    }
}

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.hear(|words| span.record(words));
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.hear(|words| values.record(words));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.hear(|words| event.record(words));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// What nobody may find: the values of Secrets, as they are, in base64, and the lines of keys one by one.
#[derive(Default)]
struct Hidden(BTreeSet<(String, String)>);

impl Hidden {
    /// All that there is now.
    async fn add(&mut self, world: &World) -> Result<()> {
        for secret in world.api::<Secret>().list(&ListParams::default()).await? {
            let name = secret.metadata.name.clone().unwrap_or_default();
            for (entry, value) in secret.data.unwrap_or_default() {
                if !PUBLIC.contains(&entry.as_str()) {
                    self.add_value(&format!("{name}/{entry}"), &value);
                }
            }
        }
        Ok(())
    }

    fn add_value(&mut self, what: &str, value: &ByteString) {
        let raw = String::from_utf8_lossy(&value.0).into_owned();
        let encoded = json!(value).as_str().unwrap_or_default().to_owned();
        let lines =
            raw.lines().filter(|line| line.len() >= 16 && !line.starts_with("-----")).map(str::to_owned);
        for value in lines.chain([encoded, raw.clone()]).filter(|value| value.len() >= 8) {
            self.0.insert((what.to_owned(), value));
        }
    }

    fn found_in(&self, text: &str) -> Vec<&str> {
        // A text in a debug print or in JSON has its line ends escaped.
        let unescaped = text.replace("\\n", "\n");
        let is_in = |value: &String| text.contains(value.as_str()) || unescaped.contains(value.as_str());
        self.0.iter().filter(|(_, value)| is_in(value)).map(|(what, _)| what.as_str()).collect()
    }
}

/// A word of which nobody has a reason to speak.
fn word(of: &str) -> ByteString {
    ByteString(format!("hush-{of}-0d5a4c1be9f2").into_bytes())
}

async fn create(world: &World, name: &str, entries: &[&str]) -> Result<()> {
    let data = entries.iter().map(|entry| ((*entry).to_owned(), word(entry))).collect();
    let mut secret = Secret { data: Some(data), ..Secret::default() };
    secret.metadata.name = Some(name.to_owned());
    world.api::<Secret>().create(&PostParams::default(), &secret).await?;
    Ok(())
}

async fn break_entry(world: &World, name: &str, entry: &str, value: &ByteString) -> Result<()> {
    let patch = Patch::Merge(json!({ "data": { entry: value } }));
    world.api::<Secret>().patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Everything that others read in the API.
fn read_by_others(world: &World) -> String {
    let all = READ_BY_OTHERS.iter().flat_map(|(group, kind)| {
        let objects = world.kube.store().objects(&ResourceKey::new(*group, *kind));
        objects.into_iter().map(|object| object.to_string()).collect::<Vec<_>>()
    });
    all.collect::<Vec<_>>().join("\n")
}

#[tokio::test(start_paused = true)]
async fn no_log_line_no_event_no_status_and_no_job_has_a_value_of_a_secret() -> Result<()> {
    let heard = Arc::<Mutex<String>>::default();
    let listener =
        Listener { heard: heard.clone(), thread: thread::current().id(), spans: AtomicU64::default() };
    tracing::subscriber::set_global_default(listener)?;
    let world = World::new().await?;
    let _kubelet = kubelet(&world, able());
    let mut hidden = Hidden::default();
    create(&world, "store", &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]).await?;
    create(&world, "of-another-application", &["password"]).await?;

    // The API server refuses Secrets for a while, and says so with what was sent in hand.
    let refuses = Arc::new(AtomicBool::new(true));
    let closed = refuses.clone();
    let client = world.client_through(move |sent| {
        let is_secret = sent.kind() == "secrets" && sent.method != Method::GET;
        if is_secret && closed.load(Ordering::SeqCst) {
            RequestOutcome::Refused(422, "Invalid")
        } else {
            RequestOutcome::Open
        }
    });
    let _operator = world.operator_over(client, |_| {});
    world.create_cluster(three_members()).await?;
    tokio::time::sleep(Duration::from_mins(1)).await;
    refuses.store(false, Ordering::SeqCst);
    until_pods(&world, &["demo-0", "demo-1", "demo-2"]).await?;
    hidden.add(&world).await?;

    let backup: EtcdBackup = serde_json::from_value(json!({
        "metadata": { "name": "one" },
        "spec": {
            "source": { "endpoints": { "urls": ["https://etcd:2379"], "tlsSecret": { "name": "demo-client-tls" } } },
            "destination": { "s3": { "bucket": "bkt", "credentialsSecret": { "name": "store" } } },
        },
    }))?;
    world.api::<EtcdBackup>().create(&PostParams::default(), &backup).await?;
    until("the backup has ended", async || {
        let status = world.api::<EtcdBackup>().get("one").await?.status.unwrap_or_default();
        let has_ended = status
            .conditions
            .iter()
            .any(|one| ["Complete", "Failed"].contains(&one.type_.as_str()) && one.status == "True");
        Ok(if has_ended { Ok(()) } else { Err(format!("{:?}", status.conditions)) })
    })
    .await?;

    // Keys that are none: what reads them fails with the text in hand.
    for name in ["demo-client-tls", "demo-server-tls", "demo-ca", "demo-peer-ca"] {
        break_entry(&world, name, "tls.key", &word(name)).await?;
        hidden.add(&world).await?;
        tokio::time::sleep(Duration::from_mins(2)).await;
    }
    break_entry(&world, "demo-peer-tls", "tls.crt", &word("crt")).await?;
    hidden.add_value("demo-peer-tls/tls.crt", &word("crt"));
    tokio::time::sleep(Duration::from_mins(2)).await;
    hidden.add(&world).await?;

    let heard = heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let written = read_by_others(&world);
    ensure!(hidden.0.len() > 20, "only {} values", hidden.0.len());
    ensure!(
        heard.contains("demo-peer-tls") && heard.len() > 2000,
        "nothing was heard, of {} bytes",
        heard.len()
    );
    ensure!(
        written.contains("\"credentialsSecret\"") && written.contains("involvedObject"),
        "nothing was written"
    );
    ensure!(hidden.found_in(&heard).is_empty(), "in the log: {:?}", hidden.found_in(&heard));
    ensure!(hidden.found_in(&written).is_empty(), "in the API: {:?}", hidden.found_in(&written));
    // It finds what there is to be found.
    let leak = json!({ "message": String::from_utf8_lossy(&word("password").0) });
    ensure!(
        hidden.found_in(&leak.to_string()) == ["of-another-application/password"],
        "{:?}",
        hidden.found_in(&leak.to_string())
    );
    let secrets = world.kube.store().objects(&ResourceKey::new("", "secrets"));
    let secrets: Vec<String> = secrets.iter().map(ToString::to_string).collect();
    ensure!(hidden.found_in(&secrets.join("\n")).len() > 5);
    Ok(())
}
