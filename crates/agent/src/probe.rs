//! The probe: a sidecar that answers the kubelet for a member, and asks nobody but that member. Without a quorum its
//! answers are the same: restarting a healthy member does not bring back its peers.
//!
//! | path | true when |
//! |---|---|
//! | `/readyz` | the member has started, votes, and serves a local read |
//! | `/startedz` | the member has started; learners too |
//! | `/healthz`, `/livez` | not hung: false only if a process that once answered has not for the grace time |
//!
//! `/readyz` and `/startedz` hold a request while the answer is no, for `?wait=` milliseconds, looking again every
//! 50 ms: a kubelet that asks once a second still learns within 50 ms. Then it is 503, with the reason as text.

mod answers;
mod credentials;
mod look;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use credentials::Credentials;
use look::Watch;

/// The probe's flags.
#[derive(Clone, Debug, Args)]
pub struct ProbeArgs {
    /// Where to listen for the kubelet.
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
    /// For how many seconds a member that once answered may be silent before /healthz fails.
    #[arg(long, default_value = "60", value_parser = seconds)]
    pub liveness_grace: Duration,
}

/// `http://IP:PORT` or `https://IP:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointUrl {
    /// Whether it speaks TLS.
    pub tls: bool,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Serves until SIGTERM or SIGINT.
pub async fn run(args: ProbeArgs) -> ExitCode {
    match serve(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("probe: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: ProbeArgs) -> Result<(), String> {
    let credentials = Credentials::new(&args)?;
    let cannot_listen = |error| format!("cannot listen on {}: {error}", args.listen);
    let listener = TcpListener::bind(args.listen).await.map_err(cannot_listen)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    let answers = answers::router(Arc::new(Watch::new(credentials)), args.liveness_grace);
    // No grace for requests under way: they wait for a member that is being stopped, too.
    tokio::select! {
        served = async { axum::serve(listener, answers).await } => served.map_err(|error| error.to_string()),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
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
