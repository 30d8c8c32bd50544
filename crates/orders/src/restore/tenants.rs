//! What the tenants of a DataStore lose. The data of all of them go back together, and nothing in an EtcdRestore tells a person that others live in
//! the cluster.

use quorate_api::restore::RestorePhase;
use quorate_api::{ConditionType, EtcdCluster, Explanation, conditions, keys};

/// The explanation, with the tenants of the EtcdCluster where it has a DataStore of Kamaji.
pub(super) fn told(cluster: Option<&EtcdCluster>, phase: RestorePhase, why: Explanation) -> Explanation {
    match phase {
        RestorePhase::Failed => return why,
        RestorePhase::Pending | RestorePhase::Running | RestorePhase::Complete => {}
    }
    let Some(says) = cluster.and_then(says) else { return why };
    let text = format!(
        "{}. Control planes of Kamaji live in this EtcdCluster, and the data of all of them go back: what they wrote since is gone, and one that was \
         created since begins empty. DataStoreReady says: {says}",
        why.message().trim_end_matches('.')
    );
    Explanation::new(why.reason(), text)
}

/// What is known of its DataStore.
fn says(cluster: &EtcdCluster) -> Option<&str> {
    cluster.metadata.annotations.as_ref()?.get(keys::KAMAJI_DATA_STORE)?;
    let ready = ConditionType::DataStoreReady.as_str();
    let found = conditions::find(&cluster.status.as_ref()?.conditions, ready)?;
    Some(found.message.as_str())
}
