//! The command line of `quorate operator`. Each flag may also be given by environment.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::runtime::crash::CrashPoint;

/// Flags of `quorate operator`.
#[derive(Args, Clone, Debug)]
pub struct OperatorArgs {
    /// The kubeconfig; without it $KUBECONFIG, ~/.kube/config or the service account.
    #[arg(long, env = "QUORATE_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The etcd image repository for clusters that name none.
    #[arg(long, env = "QUORATE_IMAGE_REGISTRY", value_name = "REPOSITORY",
        default_value = quorate_api::cluster::DEFAULT_IMAGE_REGISTRY)]
    pub image_registry: String,

    /// The image of guard and probe in member Pods.
    #[arg(long, env = "QUORATE_AGENT_IMAGE", value_name = "IMAGE",
        default_value = quorate_manifests::DEFAULT_AGENT_IMAGE)]
    pub agent_image: String,

    /// Where metrics are served: `:8080`, `127.0.0.1:8080`, or `0` for nowhere.
    #[arg(long, env = "QUORATE_METRICS_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8080")]
    pub metrics_bind_address: Bind,

    /// Where /healthz and /readyz are served: `:8081`, `127.0.0.1:8081`, or `0` for nowhere.
    #[arg(long, env = "QUORATE_HEALTH_PROBE_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8081")]
    pub health_probe_bind_address: Bind,

    /// Let several operators run, of which one acts.
    #[arg(long, env = "QUORATE_LEADER_ELECT")]
    pub leader_elect: bool,

    /// The namespaces to work in, comma-separated; without it, all.
    #[arg(long, env = "QUORATE_NAMESPACES", value_name = "NAMESPACE", value_delimiter = ',')]
    pub namespaces: Vec<String>,

    /// How many writes to the Kubernetes API may be under way at a time. Waiting for etcd is not bounded.
    #[arg(long, env = "QUORATE_WORKERS", value_name = "N", default_value_t = 32,
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub workers: usize,

    /// How logs are written.
    #[arg(long, env = "QUORATE_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,

    /// For tests: abort at this point, such as `before:B4#1`.
    #[arg(long, env = "QUORATE_CRASH_AT", value_name = "POINT", hide = true)]
    pub crash_at: Option<CrashPoint>,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind {
    /// Nowhere.
    Off,
    /// There.
    At(SocketAddr),
}

impl std::str::FromStr for Bind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self::Off);
        }
        let address = match text.strip_prefix(':') {
            Some(port) => port.parse().ok().map(|port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))),
            None => text.parse().ok(),
        };
        address.map(Self::At).ok_or_else(|| format!("{text:?} is not an address such as :8080, or 0"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: OperatorArgs,
    }

    #[test]
    fn addresses_are_written_as_upstream_writes_them() {
        let args = [
            "operator",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=127.0.0.1:9",
            "--namespaces=a,b",
        ];
        let args = Program::parse_from(args).args;
        assert_eq!(args.metrics_bind_address, Bind::Off);
        assert_eq!(args.health_probe_bind_address, Bind::At("127.0.0.1:9".parse().unwrap()));
        assert_eq!(args.namespaces, ["a", "b"]);
        let defaults = Program::parse_from(["operator"]).args;
        assert_eq!(defaults.metrics_bind_address, Bind::At("[::]:8080".parse().unwrap()));
        assert!(Program::try_parse_from(["operator", "--workers=0"]).is_err());
    }
}
