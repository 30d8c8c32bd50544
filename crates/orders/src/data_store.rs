//! What is next for the DataStore of Kamaji: a pure function of the EtcdCluster, of the DataStores that Kubernetes has, and of the Secret with the
//! credential.
//!
//! A finalizer comes before the DataStore and goes after it. So an EtcdCluster that is deleted is known to have one, or none, without asking: the
//! [one gate](quorate_manifests::data_store::ends) of its deletion.

mod decide;
mod rewrites;
#[cfg(test)]
mod tests;

use quorate_api::{ConditionType, EtcdCluster, conditions};
use quorate_status::DataStoreHealth;

pub use decide::{Act, Decision, Seen, Stores, decide};
pub use rewrites::{Contest, Rewrites};

/// What status has of it: what holds until it is looked at again. A start of the operator is no news.
pub fn earlier(cluster: &EtcdCluster) -> Option<DataStoreHealth> {
    let type_ = ConditionType::DataStoreReady.as_str();
    let found = conditions::find(&cluster.status.as_ref()?.conditions, type_)?;
    // One of a newer operator is found again, or not.
    let why = conditions::explanation(found)?;
    Some(DataStoreHealth { ready: conditions::holds(found), why })
}
