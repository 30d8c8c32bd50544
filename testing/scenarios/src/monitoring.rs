//! A real Prometheus and a real Alertmanager beside a world, with what `monitoring/` has for everybody: its scrape configuration and its
//! rules. What Alertmanager sends is received here.
//!
//! Two things differ from what is shipped, so that a test need not wait for minutes: every time that an alert must hold, and every range of an
//! expression, is divided by [`FASTER`]; limits are not. And that of Debian is built without the discovery of Kubernetes: in its place a file
//! has what it would find, under the same labels, so that the shipped relabelling decides what is scraped.

mod config;
mod dashboard;
mod http;
mod pictures;
mod targets;
mod webhook;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::Client;
use nix::unistd::geteuid;
use serde_json::Value;

use crate::until;
pub use pictures::Mark;
use targets::Targets;
pub use webhook::Notice;
use webhook::Webhook;

/// By what the times of the rules are divided.
pub const FASTER: u32 = 30;

/// How often is scraped, and rules are evaluated.
const INTERVAL: Duration = Duration::from_secs(1);

/// The file that stands in for the discovery of Kubernetes.
const TARGETS: &str = "pods.json";

/// The page that the alerts point to.
const PAGE: &str = "docs/alerts.md";

/// Both programs, ended when this is dropped, and what they sent.
pub struct Monitoring {
    directory: tempfile::TempDir,
    programs: Vec<Child>,
    prometheus: SocketAddr,
    webhook: Webhook,
    _targets: Targets,
}

impl Monitoring {
    /// Starts both for this Kubernetes; `None`, and a line that says so, where this machine has no such programs.
    pub async fn start(client: &Client) -> Result<Option<Self>> {
        let programs = ["prometheus", "alertmanager"].map(|name| crate::tool(name, "monitoring"));
        let [prometheus, alertmanager] = match programs {
            [Ok(prometheus), Ok(alertmanager)] => [prometheus, alertmanager],
            [Err(error), _] | [_, Err(error)] => {
                eprintln!("SKIPPED: {error:#}");
                return Ok(None);
            }
        };
        let webhook = Webhook::start().await?;
        let [at_prometheus, at_alertmanager] = [free_address()?, free_address()?];
        let directory = tempfile::Builder::new().prefix("quorate-monitoring-").tempdir()?;
        let targets = Targets::write(client.clone(), directory.path().join(TARGETS)).await?;
        let mut this =
            Self { directory, programs: Vec::new(), prometheus: at_prometheus, webhook, _targets: targets };
        this.write("rules.yml", &config::rules(&shipped("monitoring/rules.yaml")?, FASTER)?)?;
        let scrape = shipped("monitoring/scrape.yaml")?;
        this.write("prometheus.yml", &config::prometheus(&scrape, INTERVAL, TARGETS, at_alertmanager)?)?;
        this.write("alertmanager.yml", &config::alertmanager(&this.webhook.url())?)?;
        let alone = ["--cluster.listen-address=", "--storage.path"];
        this.spawn(with_templates(&alertmanager), at_alertmanager, "alertmanager.yml", &alone)?;
        this.spawn(Command::new(&prometheus), at_prometheus, "prometheus.yml", &["--storage.tsdb.path"])?;
        for (what, address) in [("Alertmanager", at_alertmanager), ("Prometheus", at_prometheus)] {
            until(&format!("{what} is ready"), async || {
                let answer = http::get(address, "/-/ready").await;
                let ended = this.programs.iter_mut().any(|program| !matches!(program.try_wait(), Ok(None)));
                // It does not come back.
                Ok(if ended { Ok(()) } else { answer.map(drop).map_err(|error| format!("{error:#}")) })
            })
            .await?;
            http::get(address, "/-/ready").await.with_context(|| format!("{what} says: {}", this.logs()))?;
        }
        Ok(Some(this))
    }

    /// Waits until a firing alert of this name, with these labels, arrives. What it says has to lead to its section of the page.
    pub async fn fires(&self, alert: &str, labels: &[(&str, &str)]) -> Result<()> {
        let mut found: Option<Notice> = None;
        until(&format!("{alert} fires for {labels:?}"), async || {
            found = self.webhook.lasting().into_iter().find(|notice| notice.is(alert, labels));
            Ok(if found.is_some() { Ok(()) } else { Err(self.told().await) })
        })
        .await?;
        let url = found.context("it fires")?.runbook_url;
        let anchor = url.strip_prefix(PAGE).and_then(|rest| rest.strip_prefix('#')).unwrap_or_default();
        let page = shipped(PAGE)?;
        let mut titles = page.lines().filter_map(|line| line.strip_prefix("## "));
        ensure!(
            titles.any(|title| title.to_lowercase() == anchor),
            "{alert} leads to {url}, which is no section"
        );
        Ok(())
    }

    /// Waits until what fired under this name, with these labels, is over, and Alertmanager said so.
    pub async fn ends(&self, alert: &str, labels: &[(&str, &str)]) -> Result<()> {
        until(&format!("{alert} ends for {labels:?}"), async || {
            let still: Vec<Notice> =
                self.webhook.lasting().into_iter().filter(|notice| notice.is(alert, labels)).collect();
            Ok(if still.is_empty() { Ok(()) } else { Err(format!("{still:?}; {}", self.told().await)) })
        })
        .await
    }

    /// Every notice so far.
    pub fn notices(&self) -> Vec<Notice> {
        self.webhook.notices()
    }

    /// The series of an instant query.
    pub async fn query(&self, expression: &str) -> Result<Vec<Value>> {
        let path = format!("/api/v1/query?query={}", http::encoded(expression));
        let answer: Value = serde_json::from_str(&http::get(self.prometheus, &path).await?)?;
        answer["data"]["result"].as_array().cloned().with_context(|| format!("{expression}: {answer}"))
    }

    /// Waits until Prometheus scrapes this many targets of a job, and all of them answer.
    pub async fn scrapes(&self, job: &str, targets: usize) -> Result<()> {
        until(&format!("{targets} targets of {job} answer"), async || {
            let up = self.query(&format!("up{{job=\"{job}\"}}")).await?;
            let all = up.len() == targets && up.iter().all(|series| series["value"][1] == "1");
            Ok(if all { Ok(()) } else { Err(format!("{up:?}; {}", self.logs())) })
        })
        .await
    }

    /// The panels of the shipped dashboard that have no data, with these values of its variables, and do not say that they may have none.
    pub async fn empty_panels(&self, values: &[(&str, &str)]) -> Result<Vec<String>> {
        let mut empty = Vec::new();
        for dashboard::Query { panel, expression } in
            dashboard::queries(&shipped("monitoring/dashboard.json")?, values)?
        {
            if self.query(&expression).await?.is_empty() {
                empty.push(format!("{panel}: {expression}"));
            }
        }
        Ok(empty)
    }

    /// What waits to fire, and what fires, by Prometheus.
    async fn told(&self) -> String {
        let alerts = self.query("ALERTS").await.unwrap_or_default();
        let labels: Vec<String> = alerts.iter().map(|series| series["metric"].to_string()).collect();
        labels.join("\n")
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        std::fs::write(self.directory.path().join(name), text).with_context(|| format!("cannot write {name}"))
    }

    /// The last of the arguments is that of a directory.
    fn spawn(
        &mut self,
        mut command: Command,
        address: SocketAddr,
        config: &str,
        args: &[&str],
    ) -> Result<()> {
        let at = |name: &str| self.directory.path().join(name);
        let log = File::create(at(&format!("{config}.log")))?;
        command.arg(format!("--web.listen-address={address}")).args(["--log.level=warn", "--config.file"]);
        command.arg(at(config)).args(args).arg(at(&format!("{config}.data")));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.programs.push(command.spawn().with_context(|| format!("cannot run {command:?}"))?);
        Ok(())
    }

    fn logs(&self) -> String {
        let log = |name: &str| std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default();
        ["prometheus.yml.log", "alertmanager.yml.log"].map(log).concat()
    }
}

impl Drop for Monitoring {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("Prometheus and Alertmanager say: {}", self.logs());
        }
        for program in &mut self.programs {
            // Its directory is removed after it, so it does not write there any more.
            if let Err(error) = program.kill().and_then(|()| program.wait()) {
                eprintln!("stopping Prometheus: {error}");
            }
        }
    }
}

/// That of Debian reads the templates of mails where its package has them, which is not installed. So it sees a folder of its own there, with
/// templates that are empty, in a mount namespace as the playground itself needs one.
fn with_templates(alertmanager: &Path) -> Command {
    const SEES: &str = "mount -t tmpfs tmpfs /usr/share && mkdir -p /usr/share/prometheus/alertmanager && \
                        cd /usr/share/prometheus/alertmanager && touch default.tmpl email.tmpl && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.arg("--mount").args((!geteuid().is_root()).then_some("--map-root-user"));
    command.args(["sh", "-c", SEES]).arg(alertmanager);
    command
}

/// A file of this repository.
fn shipped(name: &str) -> Result<String> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))
}

/// An address of this machine, at a port that nobody uses now.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
