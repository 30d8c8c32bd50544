//! The probe answers the kubelet for a member. It asks that member only, so its answers do not depend on a
//! quorum: restarting a healthy member does not bring back its peers.
//!
//! | path | 200 when |
//! |---|---|
//! | `/readyz` | the member has started, votes, serves a local read, and its volume takes writes |
//! | `/healthz` | the member does not hang: a process that once answered has answered within the grace time |
//! | `/volume` | the volume takes writes: its free space, as JSON, for the operator |
//! | `/facts` | the request comes from inside the Pod: what the agent knows, as JSON |
//!
//! A refusal by etcd's auth is an answer: the member lives. Not being ready lets a drain take the Pod, so only facts count that
//! mean that this member does not vote or does not store.
//!
//! Trust is no such fact. Where etcd and the probe refuse each other's certificates, a TLS handshake that etcd answers is a sign of
//! life, and a member that voted and served before stays ready. One Secret has the certificates of all members: what is wrong with it
//! would otherwise end all of them at once.
//!
//! `/readyz` holds a request while the member is not ready, and observes the member every 50 ms, so that the kubelet learns of readiness
//! within 50 ms. Then it answers 503 with the reason as text. It holds requests of a member that was never ready for longer: there is no
//! startup probe, whose result would start the readiness probe only a round later. `?wait=` says for how many milliseconds.
//!
//! - `observe`: asks the member; `answers`: the HTTP routes; `facts`: what the agent knows; `credentials`: certificates, read
//!   again when they change

mod answers;
mod credentials;
mod facts;
mod observe;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;

use crate::run::Canary;
use answers::Answers;
pub(crate) use credentials::Credentials;
use observe::Watch;

/// The probe's flags.
#[derive(Clone, Debug, Args)]
pub struct ProbeArgs {
    /// The address to listen on for the kubelet.
    #[arg(long)]
    pub listen: SocketAddr,
    /// The member's client URL, by address: https://10.1.2.3:2379.
    #[arg(long)]
    pub endpoint: EndpointUrl,
    /// The DNS name the member's certificate must be valid for.
    #[arg(long)]
    pub server_name: Option<String>,
    /// The client certificate; read again when it changes, as are the next two.
    #[arg(long)]
    pub cert: Option<PathBuf>,
    /// Its key.
    #[arg(long)]
    pub key: Option<PathBuf>,
    /// The CA that signed the member's certificate.
    #[arg(long)]
    pub cacert: Option<PathBuf>,
    /// How many seconds a member that once answered may be silent before /healthz fails.
    #[arg(long, default_value = "300", value_parser = seconds)]
    pub liveness_grace: Duration,
}

/// `http://IP:PORT` or `https://IP:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointUrl {
    /// Whether it uses TLS.
    pub tls: bool,
    /// The address it listens on.
    pub address: SocketAddr,
}

/// The probe, before it serves.
pub struct Probe {
    listener: TcpListener,
    watch: Arc<Watch>,
    grace: Duration,
    volume: Arc<OnceLock<Volume>>,
    refusal: Refusal,
}

/// Why etcd is not started yet: what the guard said last, while it looks at the volume again and again, or what is waited for.
pub type Refusal = Arc<Mutex<Option<String>>>;

impl Probe {
    /// Takes the port.
    pub async fn bind(args: &ProbeArgs) -> Result<Self, String> {
        let credentials = Credentials::new(args)?;
        let cannot_listen = |error| format!("cannot listen on {}: {error}", args.listen);
        let listener = TcpListener::bind(args.listen).await.map_err(cannot_listen)?;
        let watch = Arc::new(Watch::new(credentials));
        Ok(Self {
            listener,
            watch,
            grace: args.liveness_grace,
            volume: Arc::default(),
            refusal: Refusal::default(),
        })
    }

    /// Takes what the probe needs to know of the volume, also while it answers.
    pub fn volume(&self) -> Arc<OnceLock<Volume>> {
        self.volume.clone()
    }

    /// Takes what `/readyz` says while etcd is not started, also while it answers.
    pub fn refusal(&self) -> Refusal {
        self.refusal.clone()
    }

    /// Answers until the process ends.
    pub async fn serve(self) -> std::io::Result<()> {
        let answers =
            Answers { watch: self.watch, grace: self.grace, volume: self.volume, refusal: self.refusal };
        let router = answers::router(answers).into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(self.listener, router).await
    }
}

/// What the probe needs to know of the volume.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Whether it takes writes.
    pub canary: Canary,
    /// The identity file.
    pub identity: PathBuf,
    /// etcd's data directory.
    pub data_dir: PathBuf,
}

pub(crate) fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.trim_end_matches('s').parse().map(Duration::from_secs)
}

impl std::str::FromStr for EndpointUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tls, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err("must begin with http:// or https://".to_owned()),
        };
        let address = rest.trim_end_matches('/').parse();
        Ok(Self { tls, address: address.map_err(|_| format!("{rest:?} is not an IP address with a port"))? })
    }
}
