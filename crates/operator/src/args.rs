//! The command line of `quorate operator`. Each flag may also be given by environment.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use quorate_manifests::{AgentDelivery, ImagePrefix, IpFamily};
use quorate_planner::fleet::Limit;

use crate::runtime::crash::CrashPoint;

/// Flags of `quorate operator`.
#[derive(Args, Clone, Debug)]
pub struct OperatorArgs {
    /// The kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the service account of the Pod.
    #[arg(long, env = "QUORATE_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The etcd image repository of clusters whose spec has no imageRegistry.
    #[arg(long, env = "QUORATE_IMAGE_REGISTRY", value_name = "REPOSITORY",
        default_value = quorate_api::cluster::DEFAULT_IMAGE_REGISTRY)]
    pub image_registry: String,

    /// The registries and repositories of the images that EtcdClusters may name (spec.image, spec.imageRegistry), comma-separated, such as
    /// registry.example.org/etcd, with all that is below them. --image-registry need not be among them. Default: any image.
    #[arg(long, env = "QUORATE_ALLOWED_IMAGE_REGISTRIES", value_name = "REGISTRY", value_delimiter = ',')]
    pub allowed_image_registries: Vec<ImagePrefix>,

    /// The proxies that Jobs of backups may be given by jobTemplate.env (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY), comma-separated, each as it stands
    /// there, such as `http://proxy.example.org:3128`. Default: none.
    #[arg(long, env = "QUORATE_ALLOWED_PROXIES", value_name = "URL", value_delimiter = ',')]
    pub allowed_proxies: Vec<String>,

    /// The ClusterIssuers of cert-manager that EtcdClusters may name, comma-separated; * is any. They sign for every namespace, so each is
    /// given to all who may write EtcdClusters. Default: none. Issuers of its own namespace an EtcdCluster may always name.
    #[arg(long, env = "QUORATE_ALLOWED_CLUSTER_ISSUERS", value_name = "NAME", value_delimiter = ',')]
    pub allowed_cluster_issuers: Vec<String>,

    /// The namespaces whose EtcdClusters may become DataStores of Kamaji, comma-separated; * is any. A DataStore is in no namespace, so each
    /// is given to all who may write EtcdClusters there. Default: none. One that exists stays.
    #[arg(long, env = "QUORATE_KAMAJI_NAMESPACES", value_name = "NAMESPACE", value_delimiter = ',',
        value_parser = namespace_or_any)]
    pub kamaji_namespaces: Vec<String>,

    /// The image of the agent in member Pods.
    #[arg(long, env = "QUORATE_AGENT_IMAGE", value_name = "IMAGE",
        default_value = quorate_manifests::DEFAULT_AGENT_IMAGE)]
    pub agent_image: String,

    /// How the agent's program comes into member Pods. `auto`: by an image volume where the API server is 1.36 or newer, and by an
    /// init container elsewhere and in clusters where an image volume failed.
    #[arg(long, env = "QUORATE_AGENT_DELIVERY", value_name = "WAY", value_enum, default_value_t)]
    pub agent_delivery: Delivery,

    /// The family of the addresses of Pods, of the first one where they have two. `auto`: that of the API server's Service, and IPv4
    /// outside of Kubernetes.
    #[arg(long, env = "QUORATE_IP_FAMILY", value_name = "FAMILY", value_enum, default_value_t)]
    pub ip_family: Family,

    /// The address to serve metrics on, such as `:8080` or `127.0.0.1:8080`. `0` turns it off.
    #[arg(long, env = "QUORATE_METRICS_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8080")]
    pub metrics_bind_address: Bind,

    /// Serve metrics over HTTPS, and only to who sends a bearer token that the API server accepts and whose user may get the non-resource URL
    /// /metrics. The operator needs the right to create TokenReviews and SubjectAccessReviews. The certificate is made at the start.
    #[arg(long, env = "QUORATE_METRICS_AUTH")]
    pub metrics_auth: bool,

    /// The address to serve /healthz and /readyz on, such as `:8081` or `127.0.0.1:8081`. `0` turns it off.
    #[arg(long, env = "QUORATE_HEALTH_PROBE_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8081")]
    pub health_probe_bind_address: Bind,

    /// The PriorityClass of member Pods whose podTemplate names none. It must exist: the API server refuses Pods of an unknown class. Empty: none.
    #[arg(long, env = "QUORATE_DEFAULT_PRIORITY_CLASS", value_name = "CLASS", value_parser = priority_class, default_value = "")]
    pub default_priority_class: String,

    /// Elect a leader, so that only one of several operators acts.
    #[arg(long, env = "QUORATE_LEADER_ELECT")]
    pub leader_elect: bool,

    /// The namespaces to work in, comma-separated. Default: all.
    #[arg(long, env = "QUORATE_NAMESPACES", value_name = "NAMESPACE", value_delimiter = ',',
        value_parser = namespace)]
    pub namespaces: Vec<String>,

    /// How many writes to the Kubernetes API may be under way at a time. Calls to etcd do not count.
    #[arg(long, env = "QUORATE_WORKERS", value_name = "N", default_value_t = 32,
        value_parser = workers)]
    pub workers: usize,

    /// How many clusters may take new defaults of this operator at a time, such as another image of the agent: a number, a percentage
    /// of all clusters, or both. Of clusters with fewer than three members, which a restart interrupts, only the number counts: one, where
    /// it is a percentage. Changes of their own specs do not count.
    #[arg(long, env = "QUORATE_MAX_CLUSTERS_ROLLING", value_name = "LIMIT", default_value = "1+5%")]
    pub max_clusters_rolling: Limit,

    /// How many backups may run at a time over all clusters, the oldest first. What an upgrade, the deletion of a cluster or a lost quorum
    /// waits for is not held up. 0: any number.
    #[arg(long, env = "QUORATE_MAX_BACKUPS_RUNNING", value_name = "N", default_value_t = 0)]
    pub max_backups_running: usize,

    /// Labels of the operator's own Pods, comma-separated, by which the NetworkPolicies of clusters let it in. Empty: it runs in the
    /// network of its node, where no label finds it.
    #[arg(long, env = "QUORATE_OWN_POD_LABELS", value_name = "KEY=VALUE", value_parser = labels,
        default_value = "app.kubernetes.io/component=operator")]
    pub own_pod_labels: Labels,

    /// The format of the logs.
    #[arg(long, env = "QUORATE_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,

    /// For tests: abort at this point, such as `before:B4#1`.
    #[arg(long, env = "QUORATE_CRASH_AT", value_name = "POINT", hide = true)]
    pub crash_at: Option<CrashPoint>,
}

/// Labels by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels(pub BTreeMap<String, String>);

/// How the agent's program comes into Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Delivery {
    /// By an image volume where that works.
    #[default]
    Auto,
    /// By an image volume.
    ImageVolume,
    /// By an init container.
    InitContainer,
}

/// The first minor version of Kubernetes in which image volumes are generally available.
const IMAGE_VOLUMES_SINCE: (u32, u32) = (1, 36);

impl Delivery {
    /// The way, where this is the version of the API server, such as `("1", "36+")`; `None` if it is not known.
    pub(crate) fn resolve(self, server: Option<(&str, &str)>) -> AgentDelivery {
        let number =
            |text: &str| text.trim_end_matches(|end: char| !end.is_ascii_digit()).parse::<u32>().ok();
        match self {
            Self::ImageVolume => AgentDelivery::ImageVolume,
            Self::InitContainer => AgentDelivery::InitContainer,
            Self::Auto => {
                let server = server.and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
                if server.is_some_and(|server| server >= IMAGE_VOLUMES_SINCE) {
                    AgentDelivery::ImageVolumeFirst
                } else {
                    AgentDelivery::InitContainer
                }
            }
        }
    }
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Family {
    /// That of the API server's Service.
    #[default]
    Auto,
    /// IPv4.
    #[value(name = "IPv4")]
    V4,
    /// IPv6.
    #[value(name = "IPv6")]
    V6,
}

impl Family {
    /// The family, where Kubernetes gives its containers this address of the API server's Service.
    pub(crate) fn resolve(self, service: Option<&str>) -> IpFamily {
        match self {
            Self::V4 => IpFamily::V4,
            Self::V6 => IpFamily::V6,
            Self::Auto => match service.and_then(|address| address.parse().ok()) {
                Some(IpAddr::V6(_)) => IpFamily::V6,
                Some(IpAddr::V4(_)) | None => IpFamily::V4,
            },
        }
    }
}

/// The format of the logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// An address to serve on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind {
    /// Do not serve.
    Off,
    /// Serve on this address.
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
        let expected = "expected an address such as :8080 or 127.0.0.1:8080, or 0 to turn it off";
        address.map(Self::At).ok_or_else(|| expected.to_owned())
    }
}

fn labels(text: &str) -> Result<Labels, String> {
    let is_word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    let pair = |text: &str| {
        let (key, value) = text.split_once('=').unwrap_or_default();
        let is_pair = !key.is_empty() && is_word(key) && is_word(value) && !value.contains('/');
        let error = format!("{text:?} is no label such as app.kubernetes.io/component=operator");
        if is_pair { Ok((key.to_owned(), value.to_owned())) } else { Err(error) }
    };
    let pairs = text.split(',').filter(|pair| !pair.is_empty()).map(pair);
    pairs.collect::<Result<_, _>>().map(Labels)
}

fn workers(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=1024).contains(number));
    number.ok_or_else(|| "expected a number from 1 to 1024".to_owned())
}

/// Kubernetes refuses other names, Pod by Pod.
fn priority_class(text: &str) -> Result<String, String> {
    let is_part = |part: &str| {
        let ends = [part.bytes().next(), part.bytes().last()];
        let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        part.bytes().all(|byte| is_alphanumeric(byte) || byte == b'-')
            && ends.into_iter().all(|end| end.is_some_and(is_alphanumeric))
    };
    let expected =
        "expected the name of a PriorityClass: lower-case letters, digits, '-' and '.'; or nothing";
    let is_name = text.is_empty() || (text.len() <= 253 && text.split('.').all(is_part));
    if is_name { Ok(text.to_owned()) } else { Err(expected.to_owned()) }
}

fn namespace_or_any(text: &str) -> Result<String, String> {
    if text == "*" { Ok(text.to_owned()) } else { namespace(text) }
}

fn namespace(text: &str) -> Result<String, String> {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().last()];
    let is_name = text.len() <= 63
        && text.bytes().all(|byte| is_alphanumeric(byte) || byte == b'-')
        && ends.into_iter().all(|end| end.is_some_and(is_alphanumeric));
    let expected = "expected names of namespaces: lower-case letters, digits and '-', separated by commas";
    if is_name { Ok(text.to_owned()) } else { Err(expected.to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn l05_the_family_of_pods_is_that_of_the_api_servers_service() {
        assert_eq!(Family::Auto.resolve(Some("fd00::1")), IpFamily::V6);
        for v4 in [Some("10.96.0.1"), Some("kubernetes.default"), None] {
            assert_eq!(Family::Auto.resolve(v4), IpFamily::V4);
        }
        assert_eq!(Family::V4.resolve(Some("fd00::1")), IpFamily::V4);
        assert_eq!(Family::V6.resolve(None), IpFamily::V6);
    }

    #[test]
    fn image_volumes_are_used_where_the_api_server_is_new_enough_and_nothing_else_is_asked_for() {
        for new in [("1", "36"), ("1", "36+"), ("1", "40"), ("2", "0")] {
            assert_eq!(Delivery::Auto.resolve(Some(new)), AgentDelivery::ImageVolumeFirst, "{new:?}");
        }
        for old in [Some(("1", "35")), Some(("1", "")), Some(("", "36")), None] {
            assert_eq!(Delivery::Auto.resolve(old), AgentDelivery::InitContainer, "{old:?}");
        }
        assert_eq!(Delivery::ImageVolume.resolve(None), AgentDelivery::ImageVolume);
        assert_eq!(Delivery::InitContainer.resolve(Some(("1", "36"))), AgentDelivery::InitContainer);
    }

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: OperatorArgs,
    }

    #[test]
    fn addresses_are_read_as_upstream_reads_them() {
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
        assert_eq!(defaults.default_priority_class, "");
        let label = ("app.kubernetes.io/component".to_owned(), "operator".to_owned());
        assert_eq!(defaults.own_pod_labels.0, [label].into());
        assert!(Program::parse_from(["operator", "--own-pod-labels="]).args.own_pod_labels.0.is_empty());
        assert!(defaults.allowed_image_registries.is_empty());
        assert!(defaults.allowed_cluster_issuers.is_empty());
        assert!(defaults.kamaji_namespaces.is_empty());
        let args = Program::parse_from(["operator", "--kamaji-namespaces=a,*"]).args;
        assert_eq!(args.kamaji_namespaces, ["a", "*"]);
        for bad in [
            "--default-priority-class=High!",
            "--workers=0",
            "--own-pod-labels=a",
            "--own-pod-labels==b",
            "--own-pod-labels=a=b c",
            // An empty list would admit every image.
            "--allowed-image-registries=",
            "--allowed-image-registries=a.example.org,",
            "--allowed-image-registries=*.example.org",
            "--namespaces=",
            "--namespaces=Team_A",
            "--namespaces=a,-b",
            "--namespaces=*",
            "--kamaji-namespaces=",
            "--kamaji-namespaces=tenants-*",
        ] {
            assert!(Program::try_parse_from(["operator", bad]).is_err(), "{bad}");
        }
    }
}
