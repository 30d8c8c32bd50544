//! What a test needs: etcd, a store, directories.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use age::secrecy::ExposeSecret;
use quorate_api::destination::{Destination, Pvc};
use quorate_api::job::{
    BackupOrder, Manifest, Origin, RemoveOrder, Source, SourceEndpoint, Verified, VerifyOrder,
};
use quorate_backup::{Context, Places, fetch_for_test};
use quorate_etcd::testkit::{Cluster, Setup, etcd};
use quorate_model::Minor;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::s3::Server;

pub const KEY: &str = "demo/nightly-1.db";

pub struct Bed {
    pub cluster: Cluster,
    pub context: Context,
    dir: TempDir,
    minor: Minor,
}

impl Bed {
    pub async fn new(minor: Minor, size: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let places = Places {
            credentials: at("credentials"),
            ca_file: dir.path().join("ca.crt"),
            identities: at("identities"),
            pvc: at("pvc"),
            etcd_tls: at("etcd"),
            scratch: at("scratch"),
            signing_keys: at("signing-keys"),
        };
        let context = Context { places, stop: CancellationToken::new(), log: |line| eprintln!("{line}") };
        let programs = at("programs");
        for program in ["etcd", "etcdutl"] {
            let built = etcd(minor).with_file_name(format!("{program}-{minor}"));
            symlink(built.canonicalize().unwrap(), programs.join(program)).unwrap();
        }
        let cluster = Cluster::start(Setup::new(minor, size)).await;
        Self { cluster, context, dir, minor }
    }

    /// The directory with `etcd` and `etcdutl`.
    pub fn programs(&self) -> PathBuf {
        self.dir.path().join("programs")
    }

    /// Uses the credentials of this server.
    pub fn with(mut self, server: &Server) -> Self {
        self.context.places.credentials.clone_from(&server.credentials);
        self
    }

    pub fn order(&self, destination: &Destination) -> BackupOrder {
        let endpoints = self.cluster.members.iter();
        let endpoint = |member: &quorate_etcd::testkit::Member| SourceEndpoint {
            member: member.name.clone(),
            url: member.client_url(),
        };
        BackupOrder {
            destination: destination.clone(),
            key: KEY.to_owned(),
            endpoints: endpoints.map(endpoint).collect(),
            tls: false,
            origin: Origin {
                namespace: "default".to_owned(),
                backup: "nightly-1".to_owned(),
                backup_uid: "uid-1".to_owned(),
                ..Origin::default()
            },
            ordered: None,
            min_revision: None,
            without_quorum: false,
            compress: false,
            recipients: Vec::new(),
            spool: false,
            quota_bytes: None,
            rate_limit: None,
            seconds: None,
        }
    }

    /// Writes keys of 64 KiB that do not compress.
    pub async fn fill(&self, keys: u64) {
        let client = self.cluster.members[0].client();
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for n in 0..keys {
            let mut value = Vec::with_capacity(1 << 16);
            while value.len() < 1 << 16 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                value.extend(seed.to_be_bytes());
            }
            client.put(&format!("key-{n}"), value).await.unwrap();
        }
    }

    /// A new age identity in a directory; returns its recipient.
    pub fn identity(dir: &Path) -> String {
        let identity = age::x25519::Identity::generate();
        std::fs::create_dir_all(dir).unwrap();
        std::fs::write(dir.join("key.txt"), identity.to_string().expose_secret()).unwrap();
        identity.to_public().to_string()
    }

    pub fn minor(&self) -> Minor {
        self.minor
    }
}

pub fn in_pvc() -> Destination {
    let pvc = Pvc { claim_name: "backups".to_owned(), prefix: Some("prod".to_owned()) };
    Destination { pvc: Some(pvc), ..Destination::default() }
}

pub fn source(destination: &Destination, manifest: &Manifest) -> Source {
    let sha256 = Some(manifest.stored_sha256.clone());
    Source { destination: destination.clone(), key: manifest.key.clone(), sha256, version_id: None }
}

pub fn verify_order(destination: &Destination, manifest: &Manifest) -> VerifyOrder {
    VerifyOrder { source: source(destination, manifest), ..VerifyOrder::default() }
}

/// A restore test: both containers of its Job, one after the other.
pub async fn verify(
    order: &VerifyOrder,
    programs: &Path,
    context: &Context,
) -> quorate_backup::Result<Verified> {
    fetch_for_test(order, context).await?;
    quorate_backup::verify(order, programs, context).await
}

pub fn remove_order(order: &BackupOrder) -> RemoveOrder {
    RemoveOrder {
        destination: order.destination.clone(),
        key: order.key.clone(),
        backup_uid: order.origin.backup_uid.clone(),
    }
}
