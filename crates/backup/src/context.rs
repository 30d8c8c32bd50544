//! What every act needs besides its order.

use std::path::PathBuf;

use quorate_api::job::{self, Failure, FailureKind};
use tokio_util::sync::CancellationToken;

use crate::Result;

/// The directories, the log and the order to stop.
#[derive(Clone, Debug)]
pub struct Context {
    /// The directories.
    pub places: Places,
    /// Ends the act soon: what it has begun in a store is taken back.
    pub stop: CancellationToken,
    /// Takes a line about the progress.
    pub log: fn(&str),
}

/// Where the container has what the act reads and writes.
#[derive(Clone, Debug)]
pub struct Places {
    /// A file for each key of the Secret of credentials of the store.
    pub credentials: PathBuf,
    /// The authorities of the store's server.
    pub ca_file: PathBuf,
    /// Files with age identities.
    pub identities: PathBuf,
    /// Where the claim of a `pvc` destination is mounted.
    pub pvc: PathBuf,
    /// `tls.crt`, `tls.key` and `ca.crt` for connections to etcd.
    pub etcd_tls: PathBuf,
    /// A directory on a volume of the Job.
    pub scratch: PathBuf,
    /// A file for each key of the namespace that signs manifests.
    pub signing_keys: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            credentials: job::CREDENTIALS_DIR.into(),
            ca_file: job::CA_FILE.into(),
            identities: job::IDENTITIES_DIR.into(),
            pvc: job::PVC_DIR.into(),
            etcd_tls: job::ETCD_TLS_DIR.into(),
            scratch: job::SCRATCH_DIR.into(),
            signing_keys: job::SIGNING_KEYS_DIR.into(),
        }
    }
}

impl Context {
    /// Carries out an act until the order to stop.
    pub(crate) async fn unless_stopped<T>(&self, act: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = act => done,
            () = self.stop.cancelled() => Err(stopped()),
        }
    }
}

/// The act was ended by a signal. The next try begins again.
fn stopped() -> Failure {
    Failure::new(FailureKind::StoreUnavailable, "stopped by a signal before it was complete")
}
