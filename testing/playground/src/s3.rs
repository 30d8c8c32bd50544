//! An S3 server beside the playground: versitygw, over TLS, on an address that Pods and this machine reach. Its buckets are directories in
//! the playground's directory, and its keys and its authority are in a Secret, so that they are the same after the next start.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::home::{Home, write_atomically};
use crate::ledger::Ledger;
use crate::process::{Launcher, Process};
use crate::programs;
use crate::shim::ShimSpec;
use crate::supervisor;

/// The name of its process in `run/`, and of its program.
const NAME: &str = "versitygw";
/// The bucket that is made.
const BUCKET: &str = "backups";
/// The Secret with its keys and its authority, in the namespace `default`.
const SECRET: &str = "s3-credentials";
/// The annotation of the Secret with the URL of the server.
const ENDPOINT: &str = "playground.operator.etcd.io/s3-endpoint";
/// Its certificate, and the key of that, in its directory.
const CERTIFICATE: &str = "server.crt";
const KEY: &str = "server.key";
/// Its port.
const PORT: u16 = 9000;
/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that can be started.
pub(crate) struct Server {
    /// versitygw.
    pub program: PathBuf,
    /// The playground's directory.
    pub home: Home,
    /// Starts processes.
    pub launcher: Launcher,
}

/// A store as a user needs it: the destination to write into an EtcdBackup.
pub(crate) struct Store {
    endpoint: String,
}

/// The keys of the server.
#[derive(Clone)]
struct Keys {
    id: String,
    secret: String,
}

/// versitygw: in the directory with etcd, or where etcd is looked for.
pub(crate) fn program(directory: Option<&Path>) -> Result<PathBuf> {
    let found = programs::directories(directory).into_iter().map(|directory| directory.join(NAME));
    let found = found.into_iter().find(|path| path.is_file());
    let found = found
        .with_context(|| format!("no {NAME} found, which --s3 needs: `cargo xtask tools s3` builds it"))?;
    Ok(fs::canonicalize(found)?)
}

/// The store of a running playground, if it was ever started with one.
pub(crate) async fn find(client: &Client) -> Result<Option<Store>> {
    let secret = secrets(client).get_opt(SECRET).await?;
    let endpoint = secret.and_then(|secret| secret.annotations().get(ENDPOINT).cloned());
    Ok(endpoint.map(|endpoint| Store { endpoint }))
}

impl Server {
    /// Starts it, keeps it running until `stop` is cancelled, and returns when it answers.
    pub async fn start(
        self,
        client: &Client,
        ledger: &Ledger,
        supervised: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Result<Store> {
        let address = SocketAddr::from((ledger.store_address(), PORT));
        let endpoint = format!("https://{address}");
        let ca = self.certify(address).context("cannot create the certificate of the S3 server")?;
        let keys = keys(client, &endpoint, &ca).await.context("cannot create the Secret of the S3 server")?;
        for directory in [self.buckets().join(BUCKET), self.records()] {
            fs::create_dir_all(&directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
        }
        let log = self.home.logs().join("s3.log");
        let stop = stop.clone();
        let is_free = async {
            // The one of an earlier start may be about to end: it would answer in place of this one.
            while TcpStream::connect(address).await.is_ok() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(PATIENCE, is_free).await.is_err() {
            bail!("something else answers on {address}, the address of the S3 server: stop it");
        }
        supervised.spawn(async move {
            supervisor::keep(NAME, || self.spawn(address, &keys), stop).await;
        });
        let answers = async {
            while TcpStream::connect(address).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(PATIENCE, answers).await.is_err() {
            let log = fs::read_to_string(&log).unwrap_or_default();
            bail!("the S3 server does not answer on {address} after {PATIENCE:?}:\n{}", log.trim());
        }
        Ok(Store { endpoint })
    }

    fn spawn(&self, address: SocketAddr, keys: &Keys) -> std::io::Result<Process> {
        let log = File::options().create(true).append(true).open(self.home.logs().join("s3.log"))?;
        let shown = |path: PathBuf| path.display().to_string();
        let command = [
            shown(self.program.clone()),
            "--port".to_owned(),
            address.to_string(),
            "--quiet".to_owned(),
            "--cert".to_owned(),
            shown(self.home.s3().join(CERTIFICATE)),
            "--key".to_owned(),
            shown(self.home.s3().join(KEY)),
            "posix".to_owned(),
            // Not in attributes of files, which some file systems do not have.
            "--sidecar".to_owned(),
            shown(self.records()),
            shown(self.buckets()),
        ];
        let env = [
            ("ROOT_ACCESS_KEY_ID", keys.id.clone()),
            ("ROOT_SECRET_ACCESS_KEY", keys.secret.clone()),
            ("HOME", shown(self.home.s3())),
        ];
        let spec = ShimSpec {
            command: command.to_vec(),
            env: env.map(|(key, value)| (key.to_owned(), value)).to_vec(),
            work_dir: self.home.s3(),
            ..ShimSpec::default()
        };
        self.launcher.spawn(NAME, spec, log.into())
    }

    /// Writes a certificate for this address, and returns its authority, which stays the same.
    fn certify(&self, address: SocketAddr) -> Result<String> {
        let file = |name: &str| self.home.s3().join(name);
        fs::create_dir_all(self.home.s3())?;
        let [ca_file, ca_key_file] = ["ca.crt", "ca.key"].map(file);
        if !ca_file.exists() || !ca_key_file.exists() {
            let mut ca = CertificateParams::default();
            ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            ca.distinguished_name.push(DnType::CommonName, "S3 of the playground");
            let key = KeyPair::generate()?;
            write_atomically(&ca_key_file, key.serialize_pem().as_bytes())?;
            write_atomically(&ca_file, ca.self_signed(&key)?.pem().as_bytes())?;
        }
        let ca = fs::read_to_string(&ca_file)?;
        let issuer = Issuer::from_ca_cert_pem(&ca, KeyPair::from_pem(&fs::read_to_string(&ca_key_file)?)?)?;
        let mut server = CertificateParams::new([address.ip().to_string()])?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &issuer)?;
        write_atomically(&file(KEY), key.serialize_pem().as_bytes())?;
        write_atomically(&file(CERTIFICATE), certificate.pem().as_bytes())?;
        Ok(ca)
    }

    fn buckets(&self) -> PathBuf {
        self.home.s3().join("buckets")
    }

    fn records(&self) -> PathBuf {
        self.home.s3().join("records")
    }
}

impl fmt::Display for Store {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint } = self;
        writeln!(out, "  S3 at {endpoint}, bucket {BUCKET}. In an EtcdBackup of the namespace default:\n")?;
        writeln!(out, "  destination:")?;
        writeln!(out, "    s3:")?;
        writeln!(out, "      bucket: {BUCKET}")?;
        writeln!(out, "      endpoint: {endpoint}")?;
        writeln!(out, "      credentialsSecret: {{name: {SECRET}}}")?;
        writeln!(out, "      caSecret: {{name: {SECRET}}}")
    }
}

/// The keys in the Secret. Without it, new ones. It gets this authority in any case.
async fn keys(client: &Client, endpoint: &str, ca: &str) -> Result<Keys> {
    let secrets = secrets(client);
    if let Some(secret) = secrets.get_opt(SECRET).await? {
        let value = |key: &str| {
            let bytes = secret.data.as_ref().and_then(|data| data.get(key));
            let bytes = bytes.with_context(|| format!("Secret default/{SECRET} has no {key}"))?;
            Ok::<_, anyhow::Error>(String::from_utf8(bytes.0.clone())?)
        };
        let keys = Keys { id: value("AWS_ACCESS_KEY_ID")?, secret: value("AWS_SECRET_ACCESS_KEY")? };
        let patch = json!({"metadata": {"annotations": {ENDPOINT: endpoint}}, "data": {"ca.crt": STANDARD.encode(ca)}});
        secrets.patch(SECRET, &PatchParams::default(), &Patch::Merge(patch)).await?;
        return Ok(keys);
    }
    let keys = Keys { id: format!("playground{}", random()?), secret: random()? + &random()? };
    let secret = json!({
        "metadata": {"name": SECRET, "annotations": {ENDPOINT: endpoint}},
        "stringData": {"AWS_ACCESS_KEY_ID": keys.id, "AWS_SECRET_ACCESS_KEY": keys.secret, "ca.crt": ca},
    });
    secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    Ok(keys)
}

fn secrets(client: &Client) -> Api<Secret> {
    Api::namespaced(client.clone(), "default")
}

/// Sixteen random digits.
fn random() -> Result<String> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
