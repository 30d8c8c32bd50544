//! One probe of a container: a request, a connection, or a command inside it.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use nix::sys::signal::Signal;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http;
use crate::process::Launcher;
use crate::shim::{ShimSpec, View};

/// Success, or the failure in the words of the kubelet.
pub type Answer = Result<(), String>;

/// The action of a probe.
#[derive(Clone, Debug)]
pub enum Act {
    /// An HTTP GET.
    Http {
        /// The address.
        address: SocketAddr,
        /// Path and query.
        path: String,
        /// Additional headers.
        headers: Vec<(String, String)>,
    },
    /// A TCP connection.
    Tcp(SocketAddr),
    /// A command in the container.
    Exec(InContainer, Vec<String>),
    /// An action that the playground does not support.
    Unsupported(&'static str),
}

/// How to run a command in a container.
#[derive(Clone, Debug)]
pub struct InContainer {
    /// The name of the process.
    pub name: String,
    /// Starts the process.
    pub launcher: Launcher,
    /// The container's process.
    pub pid: i32,
    /// The container's environment.
    pub env: Vec<(String, String)>,
}

impl Act {
    /// The action of a container's probe.
    pub fn of(probe: &Probe, container: &Container, ip: Ipv4Addr, inside: &InContainer) -> Self {
        let address = |host: Option<&String>, port: &IntOrString| {
            let host = host.and_then(|host| host.parse().ok()).unwrap_or(ip);
            SocketAddr::from((host, number(port, container)))
        };
        if let Some(get) = &probe.http_get {
            if get.scheme.as_deref() == Some("HTTPS") {
                return Self::Unsupported("the playground does not support HTTPS probes");
            }
            let headers = get.http_headers.iter().flatten().map(|one| (one.name.clone(), one.value.clone()));
            return Self::Http {
                address: address(get.host.as_ref(), &get.port),
                path: get.path.clone().unwrap_or_else(|| "/".to_owned()),
                headers: headers.collect(),
            };
        }
        if let Some(socket) = &probe.tcp_socket {
            return Self::Tcp(address(socket.host.as_ref(), &socket.port));
        }
        match &probe.exec {
            Some(exec) => Self::Exec(inside.clone(), exec.command.clone().unwrap_or_default()),
            None => Self::Unsupported("the playground does not support this kind of probe"),
        }
    }

    /// Executes the probe once.
    pub async fn ask(&self, within: Duration) -> Answer {
        match self {
            Self::Http { address, path, headers } => {
                let url = format!("Get \"http://{address}{path}\"");
                match timeout(within, get(*address, path, headers)).await {
                    Ok(Ok(code)) if (200..400).contains(&code) => Ok(()),
                    Ok(Ok(code)) => Err(format!("HTTP probe failed with statuscode: {code}")),
                    Ok(Err(why)) => Err(format!("{url}: {why}")),
                    Err(_) => Err(format!(
                        "{url}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
                    )),
                }
            }
            Self::Tcp(address) => match timeout(within, connect(*address)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(why)) => Err(why),
                Err(_) => Err(format!("dial tcp {address}: i/o timeout")),
            },
            Self::Exec(inside, command) => inside.run(command, within).await,
            Self::Unsupported(why) => Err((*why).to_owned()),
        }
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    TcpStream::connect(address).await.map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
            _ => error.to_string(),
        };
        format!("dial tcp {address}: {why}")
    })
}

async fn get(address: SocketAddr, path: &str, headers: &[(String, String)]) -> Result<u16, String> {
    let stream = connect(address).await?;
    let own = [("user-agent", "kube-probe/1.33"), ("accept", "*/*")];
    let theirs = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let answer = http::get(stream, &address.to_string(), path, own.into_iter().chain(theirs)).await;
    answer.map(|(code, _)| code)
}

fn number(port: &IntOrString, container: &Container) -> u16 {
    let port = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            ports.find(|port| port.name.as_ref() == Some(name)).map_or(0, |port| port.container_port)
        }
    };
    u16::try_from(port).unwrap_or(0)
}

impl InContainer {
    async fn run(&self, command: &[String], within: Duration) -> Answer {
        let spec = ShimSpec {
            view: View::Of(self.pid),
            command: command.to_vec(),
            env: self.env.clone(),
            work_dir: "/".into(),
            ..ShimSpec::default()
        };
        let output: OwnedFd =
            std::fs::File::options().write(true).open("/dev/null").map_err(|error| error.to_string())?.into();
        let mut process = self.launcher.spawn(&self.name, spec, output).map_err(|error| error.to_string())?;
        match timeout(within, process.wait()).await {
            Ok(exit) if exit.code == 0 => Ok(()),
            Ok(exit) => Err(exit.not_started.unwrap_or_else(|| format!("command exited with {}", exit.code))),
            Err(_) => {
                process.signal_all(Signal::SIGKILL);
                process.wait().await;
                Err(format!(
                    "command timed out: {:?} timed out after {}s",
                    command.join(" "),
                    within.as_secs()
                ))
            }
        }
    }
}
