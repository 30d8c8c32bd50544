//! What is next for an EtcdUser.
//!
//! - [`decide()`]: what is done in etcd, what becomes of the Secret, what its status says
//! - [`permissions`]: what a role allows, as etcd has it, and what an EtcdCluster admits
//! - [`gate`]: the one place that refuses a change of a user or of a role that is not that of the EtcdUser

mod decide;
pub mod gate;
pub mod permissions;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use kube_core::ResourceExt as _;
use quorate_api::{ConditionType, EtcdUser};

pub use decide::{Act, AuthState, Decision, Etcd, Seen, asks_etcd, decide, earlier, role_name};

/// The EtcdUsers of a cluster whose users are not made yet, and that nothing keeps from it: etcd's auth is enabled after them.
pub fn to_come<'a>(cluster: &str, users: impl Iterator<Item = &'a EtcdUser>) -> BTreeSet<String> {
    let holds = |user: &EtcdUser, type_: ConditionType| {
        let status = user.status.as_ref();
        let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
        conditions.any(|one| one.type_ == type_.as_str() && one.status == "True")
    };
    let comes = |user: &&EtcdUser| {
        user.spec.cluster == cluster
            && user.metadata.deletion_timestamp.is_none()
            && !holds(user, ConditionType::Ready)
            && !holds(user, ConditionType::Stalled)
    };
    users.filter(comes).map(EtcdUser::name_any).collect()
}
