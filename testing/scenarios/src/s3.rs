//! An S3 server for a test: versitygw, which `cargo xtask tools s3` builds. It is stopped at the end of the test, also when the test fails.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::config::Kubeconfig;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server with one bucket, over TLS, with a certificate of an authority of its own. Keys are checked: a wrong one is refused.
pub struct S3Server {
    /// What starts it.
    command: Command,
    process: Child,
    directory: tempfile::TempDir,
    address: SocketAddr,
    ca: String,
}

impl S3Server {
    /// The bucket.
    pub const BUCKET: &str = "backups";
    /// `AWS_ACCESS_KEY_ID`.
    pub const ACCESS_KEY: &str = "quorate-test";
    /// `AWS_SECRET_ACCESS_KEY`.
    pub const SECRET_KEY: &str = "a-secret-of-tests-only";

    /// Starts one for programs of this machine, and for the Pods of a playground.
    pub fn start() -> Result<Self> {
        Self::start_on(Ipv4Addr::LOCALHOST.into())
    }

    /// The same, which keeps its objects below this directory.
    pub fn start_in(directory: &Path) -> Result<Self> {
        Self::start_with(Ipv4Addr::LOCALHOST.into(), directory)
    }

    /// Starts one for the Pods of a Kubernetes of this machine: on the host's address in the network of its nodes, docs/kube.md.
    pub fn start_beside(kubeconfig: &Path) -> Result<Self> {
        let config = Kubeconfig::read_from(kubeconfig)?;
        let server = config.clusters.first().and_then(|cluster| cluster.cluster.as_ref()?.server.clone());
        let server: http::Uri = server.context("the kubeconfig names no server")?.parse()?;
        let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
        let control: IpAddr = host.parse().with_context(|| format!("{host} is not an address of nodes"))?;
        Self::start_on(first_of_network(control))
    }

    /// Starts one on this address of the machine, at a free port, and waits until it answers.
    pub fn start_on(address: IpAddr) -> Result<Self> {
        Self::start_with(address, &std::env::temp_dir())
    }

    fn start_with(address: IpAddr, directory: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("quorate-s3-").tempdir_in(directory)?;
        let [buckets, records] = ["buckets", "records"].map(|name| directory.path().join(name));
        std::fs::create_dir_all(buckets.join(Self::BUCKET))?;
        std::fs::create_dir(&records)?;
        let free = TcpListener::bind((address, 0)).with_context(|| format!("cannot listen on {address}"))?;
        let address = free.local_addr()?;
        drop(free);
        let ca = certify(address.ip(), directory.path())?;
        let log = File::create(directory.path().join("log"))?;
        let mut command = Command::new(crate::tool("versitygw", "s3")?);
        command.args(["--port", &address.to_string(), "--quiet"]);
        command.arg("--cert").arg(directory.path().join("server.crt"));
        command.arg("--key").arg(directory.path().join("server.key")).arg("posix");
        // Not in attributes of files, which some file systems do not have.
        command.arg("--sidecar").arg(records).arg(buckets);
        command.env_clear().env("ROOT_ACCESS_KEY_ID", Self::ACCESS_KEY);
        command.env("ROOT_SECRET_ACCESS_KEY", Self::SECRET_KEY);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = command.spawn().context("cannot run versitygw")?;
        let mut server = Self { command, process, directory, address, ca };
        server.answers()?;
        Ok(server)
    }

    /// Its URL.
    pub fn endpoint(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The certificate of the authority that has signed its own.
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// A Secret of this name for a destination: the keys, and the authority.
    pub fn secret(&self, name: &str) -> Value {
        json!({"metadata": {"name": name}, "stringData": {
            "AWS_ACCESS_KEY_ID": Self::ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": Self::SECRET_KEY, "ca.crt": self.ca,
        }})
    }

    /// The destination with that Secret.
    pub fn destination(&self, secret: &str) -> Value {
        json!({"s3": {
            "bucket": Self::BUCKET, "prefix": "etcd", "endpoint": self.endpoint(),
            "credentialsSecret": {"name": secret}, "caSecret": {"name": secret},
        }})
    }

    /// The directory of the bucket: an object is a file below it.
    pub fn bucket_dir(&self) -> PathBuf {
        self.directory.path().join("buckets").join(Self::BUCKET)
    }

    /// Ends it. Its objects stay.
    pub fn stop(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Starts it again after [`Self::stop`], at the same address, with the same objects.
    pub fn start_again(&mut self) -> Result<()> {
        self.process = self.command.spawn().context("cannot run versitygw")?;
        self.answers()
    }

    fn answers(&mut self) -> Result<()> {
        let start = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let ended = self.process.try_wait()?;
            if ended.is_some() || start.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
                bail!("the S3 server does not answer on {} ({ended:?}):\n{}", self.address, log.trim());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // Its directory is removed after it, so it does not write there any more.
        if let Err(error) = self.process.kill().and_then(|()| self.process.wait()) {
            eprintln!("stopping the S3 server: {error}");
        }
    }
}

/// Writes a certificate for this address and its key, and returns the authority that signed it and nothing else.
fn certify(address: IpAddr, directory: &Path) -> Result<String> {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(DnType::CommonName, "a private authority of tests");
    let (ca_key, key) = (KeyPair::generate()?, KeyPair::generate()?);
    let ca_pem = ca.self_signed(&ca_key)?.pem();
    let mut server = CertificateParams::new([address.to_string()])?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = server.signed_by(&key, &Issuer::new(ca, ca_key))?;
    std::fs::write(directory.join("server.crt"), certificate.pem())?;
    std::fs::write(directory.join("server.key"), key.serialize_pem())?;
    Ok(ca_pem)
}

/// The host, where nodes have the rest of the network.
fn first_of_network(control: IpAddr) -> IpAddr {
    match control {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            Ipv4Addr::new(a, b, c, 1).into()
        }
        IpAddr::V6(address) => Ipv6Addr::from((u128::from(address) >> 16 << 16) | 1).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_the_first_address_of_the_network_of_nodes() {
        for (control, host) in [("10.213.3.2", "10.213.3.1"), ("fd00:d5:3::2", "fd00:d5:3::1")] {
            assert_eq!(first_of_network(control.parse().unwrap()), host.parse::<IpAddr>().unwrap());
        }
    }
}
