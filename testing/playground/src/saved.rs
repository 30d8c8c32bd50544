//! Keeps all objects in a file, so that the next playground on the same directory begins where this one ended.

use std::time::Duration;

use quorate_apistore::fields::{condition, name, namespace, set_condition};
use quorate_apistore::store::Part;
use quorate_apistore::{ObjectKey, ResourceKey};
use quorate_localkube::LocalKube;
use serde_json::Value;

use crate::clock::now;
use crate::home::{Home, write_atomically};

/// How soon after a change it is written: soon enough for a crash, seldom enough for a busy cluster.
const SOON: Duration = Duration::from_millis(250);

/// The saved state can not be taken up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SavedError {
    /// The file is not readable.
    #[error("cannot read {file}: {source}")]
    Read {
        /// Which file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// Its content is not ours.
    #[error(
        "{file} is damaged ({why}); start anew with --fresh, which deletes the clusters of this directory"
    )]
    Damaged {
        /// Which file.
        file: String,
        /// How.
        why: String,
    },
}

/// Puts the saved state back, if there is one; whether there was.
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

/// The processes of before are gone, so no Pod is Ready until it runs again. A node that comes back says so itself, a
/// moment later; until then, nobody may take the old word for the present.
fn none_is_ready(kube: &LocalKube) {
    let pods = ResourceKey::new("", "pods");
    for pod in kube.store().list(&pods, None).0 {
        let key =
            ObjectKey { resource: pods.clone(), namespace: namespace(&pod).into(), name: name(&pod).into() };
        // Its only failure is that there is no such Pod any more.
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

/// Saves after changes, for as long as it is polled.
pub(crate) async fn keep(kube: LocalKube, home: Home) {
    let mut changed = kube.store().subscribe();
    while changed.changed().await.is_ok() {
        tokio::time::sleep(SOON).await;
        changed.mark_unchanged();
        save(&kube, &home);
    }
}

/// Saves now. A failure is told, and tried again at the next change.
pub(crate) fn save(kube: &LocalKube, home: &Home) {
    if let Err(error) = write_atomically(&home.state(), kube.snapshot().to_string().as_bytes()) {
        tracing::warn!(file = %home.state().display(), %error, "the state was not saved");
    }
}
