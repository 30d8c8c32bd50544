//! The operator's processes, and what they need.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::Api;

use super::plane::{Plane, free_port};
use super::process::Process;
use crate::metrics::Counts;
use crate::used::{cpu_seconds, resident_mib};
use crate::wait::until;

const LEASE: &str = "quorate.operator.etcd.io";

/// How long a replica may take to list everything, or to lead.
const PATIENCE: Duration = Duration::from_secs(240);

/// One replica.
pub struct Operator {
    process: Process,
    metrics: String,
    client: Client,
    /// When it was started.
    pub started: Instant,
}

/// What it has used up to one moment.
pub struct Used {
    pub at: Instant,
    pub cpu_seconds: f64,
    pub counts: Counts,
}

impl Used {
    /// Of a replica that has just been started.
    pub fn none() -> Self {
        Self { at: Instant::now(), cpu_seconds: 0.0, counts: Counts::default() }
    }
}

impl Operator {
    /// Starts a replica; `nth` names its log.
    pub fn start(plane: &Plane, nth: usize) -> Result<Self> {
        let program =
            PathBuf::from(std::env::var_os("QUORATE_BIN").context("run this through `cargo xtask bench`")?);
        let metrics = format!("127.0.0.1:{}", free_port()?);
        let args = [
            "operator".to_owned(),
            format!("--kubeconfig={}", plane.kubeconfig().display()),
            "--leader-elect".to_owned(),
            format!("--metrics-bind-address={metrics}"),
            "--health-probe-bind-address=0".to_owned(),
            "--log-format=json".to_owned(),
        ];
        let process = Process::start(&format!("operator-{nth}"), &program, &args, plane.dir())?;
        Ok(Self { process, metrics, client: plane.client(), started: Instant::now() })
    }

    /// Waits until it has listed all objects.
    pub async fn listed(&mut self) -> Result<()> {
        until("the replica has listed its objects", PATIENCE, async || {
            self.process.check()?;
            let has = self.process.log().contains("every watch has listed its objects");
            Ok((!has).then(|| self.process.last_lines()))
        })
        .await
    }

    /// Waits until it leads.
    pub async fn leads(&mut self) -> Result<()> {
        until("the replica leads", PATIENCE, async || {
            self.process.check()?;
            let holder = holder(&self.client).await?;
            Ok((!self.is(&holder)?).then(|| format!("the lease is held by {holder:?}")))
        })
        .await
    }

    /// Whether it is the one that the lease names.
    pub fn is(&self, holder: &str) -> Result<bool> {
        Ok(holder.contains(&format!("_{}_", self.process.pid()?)))
    }

    /// Up to now.
    pub async fn used(&mut self) -> Result<Used> {
        self.process.check()?;
        let counts = Counts::scrape(&self.metrics).await?;
        Ok(Used { at: Instant::now(), cpu_seconds: cpu_seconds(self.process.pid()?)?, counts })
    }

    /// The CPU time that it has used.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.process.pid()?)
    }

    /// The memory that it holds, in MiB.
    pub fn resident(&self) -> Result<f64> {
        resident_mib(self.process.pid()?)
    }

    /// The most that it ever held, in MiB.
    pub fn peak(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
        let kib: f64 = line.split_whitespace().next().context("no figure")?.parse()?;
        Ok(kib / 1024.0)
    }

    /// From now on [`Self::peak`] is what it holds at most from now on.
    pub fn begin_peak(&self) -> Result<()> {
        Ok(fs::write(format!("/proc/{}/clear_refs", self.process.pid()?), "5")?)
    }

    /// Whether the process is there.
    pub fn runs(&mut self) -> bool {
        self.process.check().is_ok()
    }

    /// How many files it has open.
    pub fn open_files(&self) -> Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.process.pid()?))?.count())
    }

    /// Its soft limit of them.
    pub fn file_limit(&self) -> Result<String> {
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.process.pid()?))?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).context("no limit")?;
        Ok(line.split_whitespace().next().unwrap_or_default().to_owned())
    }

    /// SIGTERM.
    pub async fn stop(self) -> Result<()> {
        self.process.stop().await
    }

    /// SIGKILL: the lease is not released.
    pub async fn kill(self) -> Result<()> {
        self.process.kill().await
    }
}

/// Who holds the lease.
pub async fn holder(client: &Client) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let lease = leases.get_opt(LEASE).await?;
    Ok(lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default())
}
