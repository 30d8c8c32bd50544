//! Saves all objects in a file, so that the next playground in the same directory continues with them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_apistore::fields::{condition, name, namespace, set_condition};
use quorate_apistore::store::Part;
use quorate_apistore::{ObjectKey, ResourceKey};
use quorate_localkube::LocalKube;
use serde_json::Value;

use crate::clock::now;
use crate::home::{Home, write_atomically};

/// How long after a change the file is written: early enough for a crash, rarely enough for a busy cluster.
const SOON: Duration = Duration::from_millis(250);

/// The saved state cannot be restored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SavedError {
    /// The file cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// The reason.
        source: std::io::Error,
    },
    /// Its content is not a saved state.
    #[error("{file} is damaged ({why}); start with --fresh, which deletes the clusters of this directory")]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
}

/// Restores the saved state; returns whether there was one.
pub(crate) fn restore(kube: &LocalKube, home: &Home) -> Result<bool, SavedError> {
    let file = home.state().display().to_string();
    let content = match std::fs::read(home.state()) {
        Ok(content) => content,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(SavedError::Read { file, source }),
    };
    let damaged = |why: String| SavedError::Damaged { file: file.clone(), why };
    let state: Value = serde_json::from_slice(&content).map_err(|error| damaged(error.to_string()))?;
    kube.restore(&state).map_err(|error| damaged(error.to_string()))?;
    none_is_ready(kube);
    Ok(true)
}

/// Sets all Pods to not ready. Their processes are gone, and the saved readiness must not pass for the present one
/// until the nodes report again.
fn none_is_ready(kube: &LocalKube) {
    let pods = ResourceKey::new("", "pods");
    for pod in kube.store().list(&pods, None).0 {
        let key =
            ObjectKey { resource: pods.clone(), namespace: namespace(&pod).into(), name: name(&pod).into() };
        // It fails only if the Pod does not exist any more.
        let _ = kube.store().modify(&key, Part::Status, false, |pod| {
            let mut pod = pod.clone();
            for kind in ["Ready", "ContainersReady"] {
                if condition(&pod, kind) == "True" {
                    set_condition(&mut pod, kind, "False", "ContainersNotReady", "the node restarted", now());
                }
            }
            for container in pod
                .pointer_mut("/status/containerStatuses")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                container["ready"] = false.into();
            }
            Ok(pod)
        });
    }
}

/// Writes the file: one write at a time, on a thread on which nothing else waits. A disk that syncs slowly must not delay the API
/// and the probes.
#[derive(Clone)]
pub(crate) struct Saver {
    kube: LocalKube,
    home: Home,
    turn: Arc<Mutex<()>>,
}

impl Saver {
    /// Of this playground.
    pub(crate) fn new(kube: LocalKube, home: Home) -> Self {
        Self { kube, home, turn: Arc::default() }
    }

    /// Saves after changes while this future is polled.
    pub(crate) async fn keep(self) {
        let mut changed = self.kube.store().subscribe();
        while changed.changed().await.is_ok() {
            tokio::time::sleep(SOON).await;
            changed.mark_unchanged();
            self.save().await;
        }
    }

    /// Saves now. A failure is logged; the next change tries again.
    pub(crate) async fn save(&self) {
        let saver = self.clone();
        // It ends in a panic only if the write panics.
        let _ = tokio::task::spawn_blocking(move || saver.write()).await;
    }

    /// The state is read when it is this write's turn, so the last write is the newest.
    fn write(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let file = self.home.state();
        if let Err(error) = write_atomically(&file, self.kube.snapshot().to_string().as_bytes()) {
            tracing::warn!(file = %file.display(), %error, "cannot save the state");
        }
    }
}
