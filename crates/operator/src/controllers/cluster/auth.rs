//! etcd's auth: how far it is, and its changes.

use std::collections::BTreeSet;

use quorate_etcd::{CallError, MemberClient};
use quorate_manifests::certificate::{CLIENT_USER, ROOT_USER};
use quorate_model::auth::{AuthChange, Root, SeenAuth};
use quorate_model::{ClusterRef, Refusal};

use super::Shared;
use super::observe::{ConnectError, count};

/// The role that may do everything. Its name is etcd's own.
const ROOT_ROLE: &str = "root";

/// The EtcdUsers whose users are not made yet, from the cache of their own controller.
pub(super) fn users_to_come(shared: &Shared, at: &ClusterRef) -> BTreeSet<String> {
    let cached = shared.indexes.clusters.get(&at.into()).objects.remove(&at.name);
    let Some(Ok(cluster)) = cached.as_ref().map(|cached| &cached.0) else { return BTreeSet::new() };
    let users = shared.users.in_namespace(&at.namespace);
    // Of one that does not parse nothing is made.
    let users = users.iter().filter_map(|user| user.0.as_ref().ok());
    quorate_orders::user::to_come(cluster, users, shared.runtime.clock.now())
}

/// Whether auth is on and, while it is off and is to be on, how far the user root is. Once it is on, etcd keeps the user and its role.
pub(super) async fn look(
    shared: &Shared,
    client: Result<MemberClient, ConnectError>,
    namespace: &str,
    is_ours: bool,
) -> Result<SeenAuth, String> {
    let client = client.map_err(|error| error.to_string())?;
    // From before the calls: what they show is at least as new.
    let at = shared.runtime.clock.now();
    let status = count(&shared.metrics, "auth_status", client.auth_status().await);
    let enabled = match status {
        Ok(status) => status.enabled,
        // 3.5 and 3.6 refuse it to who is no user, once auth is on.
        Err(CallError::Refused(why, _)) if why.is_about_caller() => true,
        Err(error) => return Err(error.to_string()),
    };
    if !enabled && !is_ours {
        let others = BTreeSet::new();
        let (root, orphans) = (Root::Missing, BTreeSet::new());
        let (clients_are_root, clients_have_role) = (false, false);
        return Ok(SeenAuth { at, enabled, root, clients_are_root, others, clients_have_role, orphans });
    }
    let root =
        if enabled { Root::Ready } else { root(shared, &client).await.map_err(|error| error.to_string())? };
    let of_clients = match count(&shared.metrics, "user_get", client.user_get(CLIENT_USER).await) {
        Ok(roles) => roles,
        Err(CallError::Refused(why, _)) if why.is_about_caller() => Vec::new(),
        Err(error) => return Err(error.to_string()),
    };
    let others = if enabled {
        BTreeSet::new()
    } else {
        others(shared, &client).await.map_err(|error| error.to_string())?
    };
    let orphans = if enabled && is_ours {
        orphans(shared, &client, namespace).await.map_err(|error| error.to_string())?
    } else {
        BTreeSet::new()
    };
    let clients_are_root = of_clients.iter().any(|role| role == ROOT_ROLE);
    let clients_have_role = !of_clients.is_empty();
    Ok(SeenAuth { at, enabled, root, clients_are_root, others, clients_have_role, orphans })
}

/// The users of EtcdUsers that do not exist, by the cache of their own controller. It has each EtcdUser before that makes its user.
async fn orphans(
    shared: &Shared,
    client: &MemberClient,
    namespace: &str,
) -> Result<BTreeSet<(String, String)>, CallError> {
    let listed = async {
        let users = count(&shared.metrics, "user_list", client.user_list().await)?;
        let roles = count(&shared.metrics, "role_list", client.role_list().await)?;
        Ok((users, roles))
    };
    let (users, roles) = match listed.await {
        Ok(lists) => lists,
        // Root by the record, and not by what etcd has: something else is told of that.
        Err(CallError::Refused(why, _)) if why.is_about_caller() => return Ok(BTreeSet::new()),
        Err(error) => return Err(error),
    };
    let cached = shared.users.in_namespace(namespace);
    // Also of one that does not parse: it exists.
    let uids = cached.iter().filter_map(|user| match &user.0 {
        Ok(user) => user.metadata.uid.as_deref(),
        Err(invalid) => invalid.metadata.uid.as_deref(),
    });
    Ok(quorate_orders::user::orphans((&users, &roles), uids))
}

/// Makes a change. What is so already is no error: a reply may have been lost.
pub(super) async fn change(
    client: &MemberClient,
    change: AuthChange,
) -> (&'static str, Result<(), CallError>) {
    let (method, changed, done) = match change {
        AuthChange::RemoveRootUser => {
            ("user_delete", client.user_delete(ROOT_USER).await, Some(Refusal::UserNotFound))
        }
        // One that exists may be somebody else's, with a password.
        AuthChange::AddRootUser => ("user_add", client.user_add(ROOT_USER).await, None),
        AuthChange::AddRootRole => ("role_add", client.role_add(ROOT_ROLE).await, Some(Refusal::RoleExists)),
        AuthChange::GrantRoot => {
            ("user_grant_role", client.user_grant_role(ROOT_USER, ROOT_ROLE).await, None)
        }
        AuthChange::Enable => ("auth_enable", client.auth_enable().await, None),
        AuthChange::Disable => ("auth_disable", client.auth_disable().await, None),
    };
    let is_done = |error: &CallError| matches!(error, CallError::Refused(why, _) if Some(*why) == done);
    (method, changed.or_else(|error| if is_done(&error) { Ok(()) } else { Err(error) }))
}

/// Who else than root and the cluster's clients has the role root. etcd tells that of one user at a time.
async fn others(shared: &Shared, client: &MemberClient) -> Result<BTreeSet<String>, CallError> {
    let all = count(&shared.metrics, "user_list", client.user_list().await)?;
    let mut found = BTreeSet::new();
    for user in all.into_iter().filter(|user| user != ROOT_USER && user != CLIENT_USER) {
        match count(&shared.metrics, "user_get", client.user_get(&user).await) {
            Ok(roles) if roles.iter().any(|role| role == ROOT_ROLE) => {
                found.insert(user);
            }
            Ok(_) | Err(CallError::Refused(Refusal::UserNotFound, _)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

async fn root(shared: &Shared, client: &MemberClient) -> Result<Root, CallError> {
    match count(&shared.metrics, "user_get", client.user_get(ROOT_USER).await) {
        Ok(roles) if roles.iter().any(|role| role == ROOT_ROLE) => return Ok(Root::Ready),
        Ok(_) => {}
        Err(CallError::Refused(Refusal::UserNotFound, _)) => return Ok(Root::Missing),
        Err(error) => return Err(error),
    }
    match count(&shared.metrics, "role_get", client.role_get(ROOT_ROLE).await) {
        Ok(_) => Ok(Root::NotGranted),
        Err(CallError::Refused(Refusal::RoleNotFound, _)) => Ok(Root::NoRole),
        Err(error) => Err(error),
    }
}
