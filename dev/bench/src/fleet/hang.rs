//! An admission webhook that never answers, for the namespace of one tenant: every write of the operator there hangs until the API server or
//! the operator gives it up. What is measured is how soon the operator acts for all others meanwhile.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::latency::{Kind, Latencies, PACE, Stage};
use crate::wait::until;

/// The webhook configuration.
const NAME: &str = "hangs";

/// How long the API server may take to ask the webhook, and the clusters to be ready when it is gone.
const PATIENCE: Duration = Duration::from_secs(180);

/// Only what the operator writes hangs: the kubelets of the benchmark go on.
const ONLY_THE_OPERATOR: &str = "request.userInfo.username == 'system:serviceaccount:quorate-system:quorate'";

/// What was measured while the webhook hung.
pub struct Figures {
    /// How many clusters are in its namespace.
    pub clusters: usize,
    /// How many connections the API server opened to it.
    pub hung: usize,
    /// The events of all others.
    pub latencies: Latencies,
    /// From its removal until the clusters of its namespace are ready.
    pub recovered: Duration,
}

/// The server. Whoever connects gets no answer.
struct Server {
    port: u16,
    taken: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl Server {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (port, taken) = (listener.local_addr()?.port(), Arc::new(AtomicUsize::new(0)));
        let (count, mut task) = (taken.clone(), JoinSet::new());
        task.spawn(async move {
            let mut open = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                open.push(stream);
            }
        });
        Ok(Self { port, taken, _task: task })
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Lets the writes in one namespace hang for so many seconds, each for as long as `timeout` says.
pub async fn measure(
    stage: &Stage,
    namespace: &str,
    fleet: usize,
    seconds: u64,
    timeout: u8,
) -> Result<Figures> {
    let numbers = 0..fleet;
    let (hanging, others): (Vec<usize>, Vec<usize>) =
        numbers.partition(|number| stage.clusters.key(*number).0 == namespace);
    ensure!(!others.is_empty(), "every cluster is in the namespace {namespace}");
    let server = Server::start().await?;
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(stage.client.clone());
    let webhook = json!({"metadata": {"name": NAME}, "webhooks": [{
        "name": "hangs.quorate.example", "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": timeout,
        "clientConfig": {"url": format!("https://127.0.0.1:{}/", server.port)}, "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "matchConditions": [{"name": "operator", "expression": ONLY_THE_OPERATOR}],
    }]});
    webhooks.create(&PostParams::default(), &serde_json::from_value(webhook)?).await?;
    // Every cluster of the tenant has something to write, and gets more.
    let (tenant, clusters) = (stage.clone(), hanging.clone());
    let mut makes = JoinSet::new();
    makes.spawn(async move {
        for nth in 0.. {
            let kind = if nth < clusters.len() { Kind::Deleted } else { Kind::Edited };
            // One that cannot be made is one less.
            let _ = tenant.make(kind, clusters[nth % clusters.len()], nth).await;
            tokio::time::sleep(PACE).await;
        }
    });
    until("the API server asks the webhook", PATIENCE, async || {
        Ok((server.taken() == 0).then(|| "it was not asked".to_owned()))
    })
    .await?;
    let latencies = stage.events(&others, usize::try_from(seconds * 4)?).await?;
    makes.shutdown().await;
    #[expect(
        clippy::disallowed_methods,
        reason = "the benchmark is the administrator who removes the webhook"
    )]
    webhooks.delete(NAME, &DeleteParams::default()).await?;
    let removed = Instant::now();
    until("the clusters of the tenant are ready", PATIENCE, async || {
        let unready = hanging.iter().filter(|number| !stage.clusters.is_ready(&stage.clusters.key(**number)));
        let unready = unready.count();
        Ok((unready > 0).then(|| format!("{unready} are not; {:?}", stage.clusters.unready())))
    })
    .await?;
    Ok(Figures { clusters: hanging.len(), hung: server.taken(), latencies, recovered: removed.elapsed() })
}
