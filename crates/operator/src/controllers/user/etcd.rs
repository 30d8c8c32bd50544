//! What is asked of etcd's auth for one EtcdUser, and changed there: at one member, each call once.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use quorate_api::user::UserAccess;
use quorate_api::{EtcdCluster, EtcdUser, keys};
use quorate_etcd::{CallError, KeyAccess, MemberClient, Permission, Refusal, Transport};
use quorate_manifests::record::from_status;
use quorate_manifests::user::user_name;
use quorate_model::{ClusterRef, ClusterUid, MemberName, Step, Uid};
use quorate_orders::user::permissions::{Permissions, Range};
use quorate_orders::user::{Act, AuthState, Etcd, earlier, retained_role_name, role_name};

use crate::controllers::members::{KeptConnections, MemberClients, operator_tls};

/// Asks one member after the other, until one answers that follows a leader. Also returns the client for it.
pub(super) async fn ask(
    transport: &Transport,
    (user, cluster): (&EtcdUser, &EtcdCluster),
    (pods, secrets): (&[&Pod], &[&Secret]),
) -> (Etcd, Option<MemberClient>) {
    let at = ClusterRef::new(cluster.namespace().unwrap_or_default(), cluster.name_any());
    let uid = ClusterUid::new(cluster.metadata.uid.clone().unwrap_or_default());
    // A look is rare, so no connection is kept for the next one.
    let mut clients = MemberClients::over(transport.clone(), KeptConnections::new(0));
    let has_credential = cluster.status.as_ref().is_some_and(|status| from_status(status).has_credential());
    clients.use_tls(operator_tls(secrets, (&at, &uid), has_credential));
    let mut failed = "none of its members has an address".to_owned();
    for pod in serving(pods, user) {
        let name = pod.name_any();
        let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default();
        let pod = Uid::new(pod.metadata.uid.clone().unwrap_or_default());
        let client = match clients.at_address(&at, &MemberName::new(&name), &pod, &ip) {
            Ok(client) => client,
            Err(error) => {
                failed = format!("{name}: {error}");
                continue;
            }
        };
        match state(&client, user).await {
            Ok(Some(state)) => return (Etcd::Answered(state), Some(client)),
            Ok(None) => failed = format!("{name} follows no leader"),
            Err(CallError::Refused(refusal, why)) if refusal.is_about_caller() => {
                return (Etcd::Refused(format!("{name}: {why}")), None);
            }
            Err(error) => failed = format!("{name}: {error}"),
        }
    }
    (Etcd::NoAnswer(failed), None)
}

/// Pods with an address whose members clients are led to, in another order for each user.
fn serving<'a>(pods: &[&'a Pod], user: &EtcdUser) -> Vec<&'a Pod> {
    let is_labelled = |pod: &&&Pod| {
        let labels = pod.metadata.labels.as_ref();
        [keys::JOINED, keys::SERVES].iter().all(|key| labels.is_some_and(|labels| labels.contains_key(*key)))
    };
    let has_address = |pod: &&&Pod| pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some());
    let going = |pod: &&&Pod| pod.metadata.deletion_timestamp.is_some();
    let usable = pods.iter().filter(|pod| has_address(pod) && !going(pod) && is_labelled(pod));
    let mut usable: Vec<&Pod> = usable.copied().collect();
    usable.sort_by_key(|pod| pod.metadata.name.clone());
    let turn = user.name_any().bytes().map(usize::from).sum::<usize>();
    if !usable.is_empty() {
        let by = turn % usable.len();
        usable.rotate_left(by);
    }
    usable
}

/// What this member says, each of it confirmed by a quorum. `None`: it follows no leader.
async fn state(client: &MemberClient, user: &EtcdUser) -> Result<Option<AuthState>, CallError> {
    let status = client.status().await?;
    if status.leader.is_none() || status.is_learner {
        return Ok(None);
    }
    let enabled = client.auth_status().await?.enabled;
    let own = user_name(user);
    // By the list: that no user of a name is found may also be said of the operator itself.
    let all = client.user_list().await?;
    let earlier = earlier(user, &all);
    let roles = if all.contains(&own) {
        match client.user_get(&own).await {
            Ok(roles) => Some(roles),
            Err(CallError::Refused(Refusal::UserNotFound, _)) => None,
            Err(error) => return Err(error),
        }
    } else {
        None
    };
    let mut named = BTreeMap::new();
    for role in &user.spec.roles {
        named.insert(role.clone(), role_of(client, role).await?);
    }
    let own_role = role_of(client, &role_name(user)).await?;
    let retained = role_of(client, &retained_role_name(user)).await?.is_some();
    let cluster_id = status.cluster_id.to_string();
    Ok(Some(AuthState { cluster_id, enabled, roles, earlier, own_role, retained, named }))
}

async fn role_of(client: &MemberClient, role: &str) -> Result<Option<Permissions>, CallError> {
    match client.role_get(role).await {
        Ok(permissions) => Ok(Some(union(permissions.into_iter().map(of_etcd)))),
        Err(CallError::Refused(Refusal::RoleNotFound, _)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// etcd may keep several permissions for one range, and unites them when it judges a call (`RoleGrantPermission`, `getMergedPerms`).
fn union(all: impl Iterator<Item = (Range, UserAccess)>) -> Permissions {
    let mut united = Permissions::new();
    for (range, access) in all {
        let access = match united.get(&range) {
            Some(other) if *other != access => UserAccess::ReadWrite,
            Some(_) | None => access,
        };
        united.insert(range, access);
    }
    united
}

/// The step of an act, if it is one in etcd.
pub(super) fn step(act: &Act) -> Option<Step> {
    match act {
        Act::AddRetained | Act::AddRole => Some(Step::F3),
        Act::Grant(..) | Act::Revoke(_) => Some(Step::F4),
        Act::AddUser => Some(Step::F5),
        Act::GrantRole(_) | Act::RevokeRole(_) => Some(Step::F6),
        Act::DeleteUser => Some(Step::F8),
        Act::DeleteRole | Act::DeleteRetained => Some(Step::F9),
        Act::AddFinalizer | Act::RemoveFinalizer | Act::WriteSecret | Act::RemoveSecret => None,
    }
}

/// Carries out an act that [`step`] has a step of.
pub(super) async fn carry_out(client: &MemberClient, user: &EtcdUser, act: &Act) -> Result<(), CallError> {
    let (name, role, retained) = (user_name(user), role_name(user), retained_role_name(user));
    match act {
        Act::AddRetained => client.role_add(&retained).await,
        Act::AddRole => client.role_add(&role).await,
        Act::Grant(range, access) => client.role_grant_permission(&role, &to_etcd(range, *access)).await,
        Act::Revoke(range) => client.role_revoke_permission(&role, &range.key, &range.end).await,
        Act::AddUser => client.user_add(&name).await,
        Act::GrantRole(role) => client.user_grant_role(&name, role).await,
        Act::RevokeRole(role) => client.user_revoke_role(&name, role).await,
        Act::DeleteUser => client.user_delete(&name).await,
        Act::DeleteRole => client.role_delete(&role).await,
        Act::DeleteRetained => client.role_delete(&retained).await,
        Act::AddFinalizer | Act::RemoveFinalizer | Act::WriteSecret | Act::RemoveSecret => Ok(()),
    }
}

fn of_etcd(permission: Permission) -> (Range, UserAccess) {
    let Permission { key, range_end, access } = permission;
    let access = match access {
        KeyAccess::Read => UserAccess::Read,
        KeyAccess::Write => UserAccess::Write,
        KeyAccess::ReadWrite => UserAccess::ReadWrite,
    };
    (Range { key, end: range_end }, access)
}

fn to_etcd(range: &Range, access: UserAccess) -> Permission {
    let access = match access {
        UserAccess::Read => KeyAccess::Read,
        UserAccess::Write => KeyAccess::Write,
        UserAccess::ReadWrite => KeyAccess::ReadWrite,
    };
    Permission { key: range.key.clone(), range_end: range.end.clone(), access }
}
