//! The EtcdBackup that a cluster is to begin with: one read, and only until the bootstrap has recorded it, so no watch is kept for it.

use kube::Api;
use quorate_api::backup::EtcdBackup;
use tokio::time::timeout;

use crate::controllers::cluster::Shared;
use crate::runtime::lease::WRITE_DEADLINE;

/// The EtcdBackup; `None` if it does not exist.
pub(super) async fn read(
    shared: &Shared,
    namespace: &str,
    name: &str,
) -> Result<Option<Box<EtcdBackup>>, String> {
    let backups: Api<EtcdBackup> = Api::namespaced(shared.runtime.client.clone(), namespace);
    let read = timeout(WRITE_DEADLINE, backups.get_opt(name)).await;
    let backup = read.map_err(|_| format!("no answer within {WRITE_DEADLINE:?}"))?;
    backup.map(|backup| backup.map(Box::new)).map_err(|error| error.to_string())
}
