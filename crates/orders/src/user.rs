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

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_core::ResourceExt as _;
use quorate_api::{ConditionType, EtcdCluster, EtcdUser, conditions};
use quorate_model::{Instant, Span};

pub use decide::{
    Act, AuthState, Decision, Etcd, Seen, asks_etcd, decide, earlier, orphans, retained_role_name, role_name,
};

/// How long etcd's auth waits for a user that does not come: to be refused is the lesser harm than keys that are open to every certificate.
const COMES_WITHIN: Span = Span::seconds(600);

/// The EtcdUsers of a cluster whose users are not made yet, and that nothing keeps from it: etcd's auth is enabled after them. What else is
/// missing of an EtcdUser, such as its certificate, is not waited for: it may never come.
pub fn to_come<'a>(
    cluster: &EtcdCluster,
    users: impl Iterator<Item = &'a EtcdUser>,
    now: Instant,
) -> BTreeSet<String> {
    let comes = |user: &&EtcdUser| {
        user.spec.cluster == cluster.name_any()
            && user.metadata.deletion_timestamp.is_none()
            && !is_made(user)
            && !conditions::is_true(conditions_of(user), ConditionType::Stalled.as_str())
            && awaited_since(cluster, user).is_none_or(|since| now < since + COMES_WITHIN)
    };
    users.filter(comes).map(EtcdUser::name_any).collect()
}

/// Whether its user is in etcd, with the role that its spec asks for, as far as its status tells.
fn is_made(user: &EtcdUser) -> bool {
    let Some(status) = &user.status else { return false };
    let asked = decide::asked(user);
    status.observed_generation == user.metadata.generation
        && status.username.as_ref() == Some(&quorate_manifests::user::user_name(user))
        && status.permissions_hash.as_ref() == Some(&asked)
}

/// Since when its user could have been made: the EtcdUser and its EtcdCluster exist, and it is no longer as it was asked for.
fn awaited_since(cluster: &EtcdCluster, user: &EtcdUser) -> Option<Instant> {
    let created = [&user.metadata, &cluster.metadata].map(|meta| meta.creation_timestamp.as_ref());
    let changed = conditions::find(conditions_of(user), ConditionType::Ready.as_str())
        .map(|ready| &ready.last_transition_time);
    let times = created.into_iter().flatten().chain(changed);
    times.map(|time| Instant(time.0.as_millisecond())).max()
}

fn conditions_of(user: &EtcdUser) -> impl Iterator<Item = &Condition> {
    user.status.iter().flat_map(|status| &status.conditions)
}
