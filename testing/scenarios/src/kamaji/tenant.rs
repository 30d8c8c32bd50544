//! A tenant without a control plane: it writes its keys all the time, as an API server of it would, with what is in its Secret.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use quorate_etcd::{Deadlines, Endpoint, MemberClient, Read, Tls};
use tokio::sync::watch as signal;
use tokio::task::JoinHandle;

use super::{lock, secret_of};
use crate::{NamespaceClient, is_ready, until};

/// From one write to the next.
const PACE: Duration = Duration::from_millis(50);

/// How long a control plane goes on as it was after its Secret changed: so long Kamaji takes to roll it.
const ROLLS: Duration = Duration::from_secs(3);

/// It writes until it is stopped.
pub struct TenantWrites {
    journal: Arc<Mutex<Kept>>,
    stop: signal::Sender<bool>,
    task: JoinHandle<Result<()>>,
}

/// What came of its writes.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// How many were acknowledged.
    pub acknowledged: u64,
    /// How many were not, and were written again.
    pub repeated: u64,
    /// The longest time without one.
    pub pause: Duration,
    /// How often it was rolled.
    pub rolled: u32,
    /// Why the last one failed that did.
    pub failure: Option<String>,
}

impl TenantWrites {
    /// Begins; returns once a write was acknowledged.
    pub async fn start(world: &NamespaceClient, tenant: &str) -> Result<Self> {
        let (journal, stop) = (Arc::new(Mutex::new(Kept::default())), signal::Sender::new(false));
        let run = run(world.clone(), tenant.to_owned(), journal.clone(), stop.subscribe());
        let writes = Self { journal, stop, task: tokio::spawn(run) };
        writes.go_on(tenant).await?;
        lock(&writes.journal).pause = Duration::ZERO;
        Ok(writes)
    }

    /// Waits until further writes were acknowledged.
    pub async fn go_on(&self, tenant: &str) -> Result<()> {
        let before = self.kept().acknowledged;
        until(&format!("{tenant} writes"), async || {
            let kept = self.kept();
            Ok(if kept.acknowledged > before + 5 { Ok(()) } else { Err(kept.to_string()) })
        })
        .await
    }

    /// What came of the writes until now.
    pub fn kept(&self) -> Kept {
        lock(&self.journal).clone()
    }

    /// Ends.
    ///
    /// # Errors
    /// What was acknowledged last is not there.
    pub async fn stop(self) -> Result<Kept> {
        self.stop.send_replace(true);
        self.task.await??;
        let kept = lock(&self.journal).clone();
        Ok(kept)
    }
}

impl Kept {
    /// A write, so long after the last one that was acknowledged.
    fn note(&mut self, failure: Option<String>, since: Duration) {
        self.pause = self.pause.max(since);
        match failure {
            None => self.acknowledged += 1,
            Some(failure) => (self.repeated, self.failure) = (self.repeated + 1, Some(failure)),
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, repeated, pause, rolled, failure } = self;
        let pause = pause.as_secs_f64();
        write!(
            f,
            "{acknowledged} acknowledged, {repeated} repeated, longest pause {pause:.2} s, rolled {rolled} times"
        )?;
        failure.iter().try_for_each(|failure| write!(f, "; last failure: {failure}"))
    }
}

async fn run(
    world: NamespaceClient,
    tenant: String,
    journal: Arc<Mutex<Kept>>,
    stop: signal::Receiver<bool>,
) -> Result<()> {
    let (key, mut number, mut last) = (format!("/{tenant}/written"), 0_u64, Instant::now());
    let mut control_plane = ControlPlane::start(&world, &tenant).await?;
    let mut changed: Option<Instant> = None;
    let mut looked = Instant::now();
    while !*stop.borrow() {
        if looked.elapsed() > Duration::from_millis(300) {
            looked = Instant::now();
            let is_same = read(&world, &tenant).await.is_ok_and(|tls| tls.cert == control_plane.tls.cert);
            changed = if is_same { None } else { changed.or(Some(Instant::now())) };
        }
        if changed.is_some_and(|changed| changed.elapsed() > ROLLS) {
            control_plane = ControlPlane::start(&world, &tenant).await?;
            changed = None;
            lock(&journal).rolled += 1;
        }
        let written = control_plane.member.put(&key, (number + 1).to_string()).await;
        lock(&journal).note(written.as_ref().err().map(ToString::to_string), last.elapsed());
        if written.is_ok() {
            (number, last) = (number + 1, Instant::now());
        } else {
            // Another member is behind the Service; it dials again with what it has.
            control_plane.dial(&world).await?;
        }
        tokio::time::sleep(PACE).await;
    }
    let value = control_plane.member.get(&key, Read::Linearizable).await?.context("it was written")?.value;
    let value: u64 = String::from_utf8(value)?.parse()?;
    ensure!(value >= number, "{tenant}: {number} was acknowledged, and {value} is there");
    Ok(())
}

/// What an API server has from its start on.
struct ControlPlane {
    tls: Tls,
    member: MemberClient,
    turn: usize,
}

impl ControlPlane {
    async fn start(world: &NamespaceClient, tenant: &str) -> Result<Self> {
        let tls = read(world, tenant).await?;
        let member = MemberClient::new(
            &Endpoint::tls(SocketAddr::new([127, 0, 0, 1].into(), 1), tls.clone()),
            Deadlines::default(),
        )?;
        let mut own = Self { tls, member, turn: 0 };
        own.dial(world).await?;
        Ok(own)
    }

    /// Dials the next member that serves, if one does.
    async fn dial(&mut self, world: &NamespaceClient) -> Result<()> {
        let pods = world.pods_of("demo").await?;
        let ready: Vec<String> = pods
            .iter()
            .filter(|pod| is_ready(pod))
            .filter_map(|pod| pod.status.as_ref()?.pod_ip.clone())
            .collect();
        self.turn += 1;
        if let Some(ip) = ready.get(self.turn % ready.len().max(1)) {
            let endpoint = Endpoint::tls(SocketAddr::new(ip.parse()?, 2379), self.tls.clone());
            self.member = MemberClient::new(&endpoint, Deadlines::default())?;
        }
        Ok(())
    }
}

async fn read(world: &NamespaceClient, tenant: &str) -> Result<Tls> {
    let secrets: Api<Secret> = Api::default_namespaced(world.client.clone());
    let data = secrets.get(&secret_of(tenant)).await?.data.unwrap_or_default();
    let part =
        |key: &str| Ok::<_, anyhow::Error>(data.get(key).with_context(|| format!("no {key}"))?.0.clone());
    let server_name = format!("demo-client.{}.svc", world.client.default_namespace());
    Ok(Tls { server_name, ca: part("ca.crt")?, cert: part("tls.crt")?, key: part("tls.key")? })
}
