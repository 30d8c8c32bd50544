//! From start to end: connect, watch, take the lease and work; then end in the reverse order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::join_all;
use kube::Api;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use prometheus_client::registry::Registry;
use quorate_api::EtcdCluster;
use quorate_etcd::Transport;
use quorate_manifests::certificate::Verifier;
use quorate_manifests::{AgentDelivery, AllowedImages, Defaults, OperatorPods};
use quorate_planner::fleet::Limit;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::{Bind, Delivery, OperatorArgs};
use crate::controllers::members::KEPT;
use crate::controllers::own_namespace::OwnNamespace;
use crate::controllers::{self, Config};
use crate::runtime::api_clock::ApiClock;
use crate::runtime::calls::counted;
use crate::runtime::clock::Clock;
use crate::runtime::controller::Runtime;
use crate::runtime::crash::{AbortAt, Hook, NoCrash};
use crate::runtime::events::events;
use crate::runtime::files::{self, OpenFiles};
use crate::runtime::fleet::Fleets;
use crate::runtime::lease::{Elector, HasWork, Leadership, LeaseLost};
use crate::runtime::metrics::{Leads, Metrics};
use crate::runtime::serve::{self, Access, Https, ListenError, SelfSigned, SelfSignedError};
use crate::runtime::writers::Writers;

/// How long effects under way may take after a signal. Longer than any call.
const GRACE: Duration = Duration::from_secs(8);

/// How often the API server is asked for its version, how long for, and the delay between: less in all than the kubelet waits for the
/// operator to be healthy. Without the version only speed is lost.
const VERSION_TRIES: u32 = 5;
const VERSION_REPLY: Duration = Duration::from_secs(2);
const VERSION_RETRY: Duration = Duration::from_secs(1);

/// How many reads of single objects may be under way in passes.
const READERS: usize = 32;

/// How an operator runs.
#[derive(Clone)]
pub struct Options {
    /// What specs may leave out.
    pub defaults: Defaults,
    /// The address to serve metrics on.
    pub metrics: Option<SocketAddr>,
    /// Whether metrics are served over HTTPS, and only to who has a token with the right to read them.
    pub metrics_auth: bool,
    /// The address to serve health on.
    pub health: Option<SocketAddr>,
    /// Whether to compete for the lease.
    pub leader_elect: bool,
    /// The namespaces to work in; all if empty.
    pub namespaces: Vec<String>,
    /// How many writes to the Kubernetes API may be under way.
    pub workers: usize,
    /// Called at every crash point.
    pub hook: Arc<dyn Hook>,
    /// The time.
    pub clock: Clock,
    /// What connections to members run over.
    pub transport: Transport,
    /// How many connections to members stay open while nothing is to be done in their clusters.
    pub kept_connections: usize,
    /// How many clusters may take new defaults of the operator at a time.
    pub max_rolling: Limit,
    /// How many backups may run at a time over all clusters; any number if it is 0.
    pub max_backups: usize,
    /// The namespace of the operator's own Pod, if it runs in one of the Kubernetes that it works on. When the operator is asked to end while
    /// this is being deleted, it leaves no finalizer there.
    pub own_namespace: Option<String>,
}

/// Why the operator ended or did not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The kubeconfig cannot be read or is incomplete.
    #[error("cannot use the kubeconfig")]
    Kubeconfig(#[from] KubeconfigError),
    /// There is neither a kubeconfig nor a service account.
    #[error("cannot find the Kubernetes API: give --kubeconfig, set KUBECONFIG, or run in a Pod")]
    NoConfig(#[from] kube::config::InferConfigError),
    /// The client for the Kubernetes API cannot be built.
    #[error("cannot build a client for the Kubernetes API")]
    Client(#[from] kube::Error),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Metrics cannot be served over HTTPS.
    #[error(transparent)]
    MetricsTls(#[from] SelfSignedError),
    /// SIGTERM and SIGINT cannot be received.
    #[error("cannot receive signals")]
    Signals(#[source] std::io::Error),
    /// Another operator may lead now.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
    /// A watch ended, which it never does by itself.
    #[error("a watch of the Kubernetes API ended")]
    WatchEnded,
}

/// Runs the operator until SIGTERM or SIGINT. The program sets up logging and rustls' provider first.
pub async fn run(args: OperatorArgs) -> Result<(), RunError> {
    let (client, own_namespace) = client(&args).await?;
    files::raise_limit();
    let stop = CancellationToken::new();
    let mut signals = JoinSet::new();
    signals.spawn(on_signal(stop.clone()).map_err(RunError::Signals)?);
    let delivery = tokio::select! {
        delivery = agent_delivery(&client, args.agent_delivery) => Some(delivery),
        () = stop.cancelled() => None,
    };
    let labels = args.own_pod_labels.0.clone();
    let mut options = Options::from(args);
    let own_pods = own_namespace.clone().filter(|_| !labels.is_empty());
    options.defaults.operator_pods = own_pods.map(|namespace| OperatorPods { namespace, labels });
    options.own_namespace = own_namespace;
    // It may be asked to end by now, and then nothing but its end is left to do.
    options.defaults.agent_delivery = delivery.unwrap_or(options.defaults.agent_delivery);
    run_with(client, options, stop).await
}

/// Runs the operator against this client until `shutdown`. Dropping the future is a crash: every task stops at
/// once.
pub async fn run_with(
    client: kube::Client,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let config = Config {
        defaults: options.defaults.clone(),
        transport: options.transport.clone(),
        kept_connections: options.kept_connections,
        max_rolling: options.max_rolling,
        max_backups: options.max_backups,
    };
    let add = |fleets: &mut Fleets, registry: &mut Registry| controllers::add_all(fleets, registry, config);
    run_controllers(client, options, shutdown, add).await
}

/// As [`run_with`], with these controllers. They are given the registry of what only the replica that acts shows.
pub(crate) async fn run_controllers(
    client: kube::Client,
    options: Options,
    shutdown: CancellationToken,
    add: impl FnOnce(&mut Fleets, &mut Registry),
) -> Result<(), RunError> {
    let mut own = Registry::with_prefix("quorate");
    let metrics = Metrics::new(&mut own);
    let api_clock = ApiClock::new(options.clock.clone());
    let client = counted(api_clock.observing(client), &metrics);
    let metrics_listener = listen(options.metrics, "metrics").await?;
    let health_listener = listen(options.health, "health").await?;

    let (mut leadership, elector) = if options.leader_elect {
        let identity = identity(&options.clock);
        let has_work = has_clusters(client.clone(), options.namespaces.clone());
        let (elector, leadership) = Elector::new(
            client.clone(),
            client.default_namespace(),
            identity,
            options.clock.clone(),
            has_work,
        );
        (leadership, Some(elector))
    } else {
        (Leadership::endless(), None)
    };
    // Every task in these sets is aborted when the set is dropped.
    let mut beside = JoinSet::new();
    let (events, publisher) = events(client.clone(), leadership.clone(), metrics.clone());
    beside.spawn(publisher.run());

    let stop = shutdown.child_token();
    let is_worked_in =
        |namespace: &String| options.namespaces.is_empty() || options.namespaces.contains(namespace);
    let own_namespace = options.own_namespace.filter(is_worked_in);
    let own_client = client.clone();
    let started = options.clock.now();
    let runtime = Runtime {
        client,
        leadership: leadership.clone(),
        writers: Writers::new(options.workers),
        readers: Arc::new(Semaphore::new(READERS)),
        hook: options.hook,
        clock: options.clock,
        api_clock,
        metrics,
        events,
        stop: stop.clone(),
    };
    let mut fleets = Fleets::new(runtime, options.namespaces);
    own.register_collector(Box::new(Leads(leadership.clone())));
    own.register_collector(Box::new(OpenFiles));
    let mut acting = Registry::with_prefix("quorate");
    add(&mut fleets, &mut acting);
    let mut watches = fleets.take_watches();
    let served = CancellationToken::new();
    if let Some(listener) = metrics_listener {
        let access = options.metrics_auth.then(|| Access::new(own_client.clone()));
        let shown = serve::metrics(serve::Metrics { own, acting, leadership: leadership.clone(), access });
        if options.metrics_auth {
            let https = Https::new(listener, SelfSigned::new(started)?);
            beside.spawn(serve::serve(https, shown, served.clone()));
        } else {
            beside.spawn(serve::serve(listener, shown, served.clone()));
        }
    }
    if let Some(listener) = health_listener {
        beside.spawn(serve::serve(listener, serve::health(fleets.listed().to_vec()), served.clone()));
    }

    // Its own token: the lease is released only after the last write.
    let resign = CancellationToken::new();
    let mut election = JoinSet::new();
    if let Some(elector) = elector {
        election.spawn(elector.run(resign.clone()));
    }
    let work = async {
        join_all(fleets.listed().iter().map(CancellationToken::cancelled)).await;
        tracing::info!("every watch has listed its objects");
        leadership.begun().await;
        fleets.open();
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        () = work => Ok(()),
        () = shutdown.cancelled() => Ok(()),
        Some(lost) = election.join_next() => lost.unwrap_or(Err(LeaseLost::NotRenewed)).map_err(RunError::from),
        Some(_) = watches.join_next() => Err(RunError::WatchEnded),
    };
    stop.cancel();
    let own =
        own_namespace.filter(|_| shutdown.is_cancelled()).map(|name| OwnNamespace::new(own_client, name));
    let workers_end = async {
        if tokio::time::timeout(GRACE, fleets.ended()).await.is_err() {
            tracing::warn!("not every worker ended in time");
        }
    };
    let is_going = async {
        match &own {
            Some(own) => own.is_going().await,
            None => false,
        }
    };
    let ((), is_going) = tokio::join!(workers_end, is_going);
    if let Some(own) = own.filter(|_| is_going) {
        // The lease is kept: a replica that took it now would put the finalizers back.
        own.let_all_go().await;
    } else {
        resign.cancel();
        while election.join_next().await.is_some() {}
    }
    served.cancel();
    tracing::info!("ended");
    ended
}

impl From<OperatorArgs> for Options {
    fn from(args: OperatorArgs) -> Self {
        let address = |bind| match bind {
            Bind::Off => None,
            Bind::At(address) => Some(address),
        };
        Self {
            defaults: Defaults {
                image_registry: args.image_registry,
                allowed_images: AllowedImages::new(args.allowed_image_registries),
                allowed_proxies: args.allowed_proxies,
                allowed_cluster_issuers: args.allowed_cluster_issuers,
                kamaji_namespaces: args.kamaji_namespaces,
                agent_image: args.agent_image,
                agent_delivery: args.agent_delivery.resolve(None),
                ip_family: args.ip_family.resolve(std::env::var("KUBERNETES_SERVICE_HOST").ok().as_deref()),
                priority_class: Some(args.default_priority_class).filter(|class| !class.is_empty()),
                operator_pods: None,
                verifier: Verifier::default(),
            },
            metrics: address(args.metrics_bind_address),
            metrics_auth: args.metrics_auth,
            health: address(args.health_probe_bind_address),
            leader_elect: args.leader_elect,
            namespaces: args.namespaces,
            workers: args.workers,
            hook: match args.crash_at {
                Some(point) => Arc::new(AbortAt::new(point)),
                None => Arc::new(NoCrash),
            },
            clock: Clock::system(),
            transport: Transport::network(),
            kept_connections: KEPT,
            max_rolling: args.max_clusters_rolling,
            max_backups: args.max_backups_running,
            own_namespace: None,
        }
    }
}

/// How the agent comes into Pods. An API server that does not tell its version in time counts as an old one.
async fn agent_delivery(client: &kube::Client, wanted: Delivery) -> AgentDelivery {
    let mut version = None;
    if wanted == Delivery::Auto {
        for _ in 0..VERSION_TRIES {
            if let Ok(Ok(told)) = tokio::time::timeout(VERSION_REPLY, client.apiserver_version()).await {
                version = Some(told);
                break;
            }
            tracing::warn!("the API server does not tell its version");
            tokio::time::sleep(VERSION_RETRY).await;
        }
    }
    let delivery = wanted.resolve(version.as_ref().map(|told| (&*told.major, &*told.minor)));
    tracing::info!(?delivery, "how the agent comes into Pods");
    delivery
}

async fn listen(
    address: Option<SocketAddr>,
    purpose: &'static str,
) -> Result<Option<TcpListener>, ListenError> {
    match address {
        Some(address) => serve::listen(address, purpose).await.map(Some),
        None => Ok(None),
    }
}

/// The client, and the namespace of the Pod that this runs in, if that is of the same Kubernetes.
async fn client(args: &OperatorArgs) -> Result<(kube::Client, Option<String>), RunError> {
    let mut config = match &args.kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file)?;
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
        }
        None => kube::Config::infer().await?,
    };
    // Only a pass decides whether a write is repeated.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(3));
    let own = kube::Config::incluster().ok().filter(|own| own.cluster_url == config.cluster_url);
    Ok((kube::Client::try_from(config)?, own.map(|own| own.default_namespace)))
}

fn on_signal(stop: CancellationToken) -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("a signal asks the operator to end");
        stop.cancel();
    })
}

/// Asks whether there is any EtcdCluster in these namespaces, or at all. Without their definition there is none.
fn has_clusters(client: kube::Client, namespaces: Vec<String>) -> HasWork {
    Box::new(move || {
        let (client, namespaces) = (client.clone(), namespaces.clone());
        Box::pin(async move {
            let mut apis: Vec<Api<EtcdCluster>> =
                namespaces.iter().map(|namespace| Api::namespaced(client.clone(), namespace)).collect();
            if apis.is_empty() {
                apis.push(Api::all(client));
            }
            for api in apis {
                match api.list_metadata(&ListParams::default().limit(1)).await {
                    Ok(list) if list.items.is_empty() => {}
                    Ok(_) => return Ok(true),
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(false)
        })
    })
}

/// Unique to this operator, now and later.
fn identity(clock: &Clock) -> String {
    static OPERATORS: AtomicU32 = AtomicU32::new(0);
    let nth = OPERATORS.fetch_add(1, Ordering::Relaxed);
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "quorate".to_owned());
    format!("{host}_{}_{}_{nth}", std::process::id(), clock.now().0)
}
