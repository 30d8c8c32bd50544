//! etcd's auth: how far it is, and its changes.

use std::collections::{BTreeMap, BTreeSet};

use quorate_etcd::{CallError, KeyAccess, MemberClient, Permission};
use quorate_manifests::certificate::{CLIENT_USER, ROOT_USER};
use quorate_model::auth::{AuthChange, CLIENT_ROLE, Clients, Marked, Orphan, Root, SeenAuth};
use quorate_model::{ClusterRef, Refusal};

use super::Shared;
use super::execute;
use super::observe::{ConnectError, count};

/// The role that may do everything. Its name is etcd's own.
const ROOT_ROLE: &str = "root";

/// Both ends of the range of all keys.
const ALL_KEYS: &[u8] = &[0];

/// The EtcdUsers whose users are not made yet, from the cache of their own controller.
pub(super) fn users_to_come(shared: &Shared, at: &ClusterRef) -> BTreeSet<String> {
    let cached = shared.indexes.clusters.get(&at.into()).objects.remove(&at.name);
    let Some(Ok(cluster)) = cached.as_ref().map(|cached| &cached.0) else { return BTreeSet::new() };
    let users = shared.kinds.users.in_namespace(&at.namespace);
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
    let mut seen = SeenAuth::new(at, enabled);
    if !enabled && !is_ours {
        return Ok(seen);
    }
    if !enabled {
        seen.root = root(shared, &client).await.map_err(|error| error.to_string())?;
        seen.others = others(shared, &client).await.map_err(|error| error.to_string())?;
    } else if is_ours {
        seen.orphans = orphans(shared, &client, namespace).await.map_err(|error| error.to_string())?;
    }
    seen.clients = of_clients(shared, &client).await.map_err(|error| error.to_string())?;
    Ok(seen)
}

/// What may be done by who has the certificate that applications share.
async fn of_clients(shared: &Shared, client: &MemberClient) -> Result<Clients, CallError> {
    let roles = match count(&shared.metrics, "user_get", client.user_get(CLIENT_USER).await) {
        Ok(roles) => roles,
        Err(CallError::Refused(why, _)) if why.is_about_caller() => return Ok(Clients::NoUser),
        Err(error) => return Err(error),
    };
    if roles.iter().any(|role| role == ROOT_ROLE) {
        return Ok(Clients::Root);
    }
    match &*roles {
        [] => return Ok(Clients::NoRole),
        [role] if role == CLIENT_ROLE => return Ok(Clients::OfGrace),
        _ => {}
    }
    for role in &roles {
        let permissions = match count(&shared.metrics, "role_get", client.role_get(role).await) {
            Ok(permissions) => permissions,
            Err(CallError::Refused(Refusal::RoleNotFound, _)) => Vec::new(),
            // It is not root yet, or not any more: something else is told of that.
            Err(CallError::Refused(why, _)) if why.is_about_caller() => return Ok(Clients::OfPerson),
            Err(error) => return Err(error),
        };
        if permissions.iter().any(|own| own.key == ALL_KEYS && own.range_end == ALL_KEYS) {
            return Ok(Clients::AllKeys);
        }
    }
    Ok(Clients::OfPerson)
}

/// The users of EtcdUsers that do not exist. Each EtcdUser is there before its role is in etcd. So one that the API server does not have
/// after that is gone; the cache may be behind.
async fn orphans(
    shared: &Shared,
    client: &MemberClient,
    namespace: &str,
) -> Result<BTreeMap<Marked, Orphan>, CallError> {
    let roles = match count(&shared.metrics, "role_list", client.role_list().await) {
        Ok(roles) => roles,
        // Root by the record, and not by what etcd has: something else is told of that.
        Err(CallError::Refused(why, _)) if why.is_about_caller() => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let cached = shared.kinds.users.in_namespace(namespace);
    // Also of one that does not parse: it exists.
    let uids = cached.iter().filter_map(|user| match &user.0 {
        Ok(user) => user.metadata.uid.as_deref(),
        Err(invalid) => invalid.metadata.uid.as_deref(),
    });
    let found = quorate_orders::user::orphans(&roles, uids);
    if found.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (found, is_confirmed) = match execute::uids_of_users(shared, namespace).await {
        Ok(uids) => (quorate_orders::user::orphans(&roles, uids.iter().map(String::as_str)), true),
        Err(error) => {
            tracing::warn!(%error, namespace, "the EtcdUsers cannot be read, so no user of etcd is revoked");
            (found, false)
        }
    };
    let known = |stays: bool| match (stays, is_confirmed) {
        (true, _) => Orphan::Retained,
        (false, true) => Orphan::Confirmed,
        (false, false) => Orphan::Unconfirmed,
    };
    Ok(found.into_iter().map(|(user, stays)| (user, known(stays))).collect())
}

/// L10: deletes a user, or its role. One that is gone is no error: a reply may have been lost.
pub(super) async fn revoke(
    client: &MemberClient,
    user: &Marked,
    is_role: bool,
) -> (&'static str, Result<(), CallError>) {
    let (method, deleted, gone) = if is_role {
        ("role_delete", client.role_delete(&user.role()).await, Refusal::RoleNotFound)
    } else {
        ("user_delete", client.user_delete(&user.user()).await, Refusal::UserNotFound)
    };
    let is_gone = |error: &CallError| matches!(error, CallError::Refused(why, _) if *why == gone);
    (method, deleted.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) }))
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
        AuthChange::AddClientRole => {
            ("role_add", client.role_add(CLIENT_ROLE).await, Some(Refusal::RoleExists))
        }
        AuthChange::GrantClientKeys => {
            let (key, range_end) = (ALL_KEYS.to_vec(), ALL_KEYS.to_vec());
            let all = Permission { key, range_end, access: KeyAccess::ReadWrite };
            ("role_grant_permission", client.role_grant_permission(CLIENT_ROLE, &all).await, None)
        }
        AuthChange::RemoveClientUser => {
            ("user_delete", client.user_delete(CLIENT_USER).await, Some(Refusal::UserNotFound))
        }
        AuthChange::AddClientUser => ("user_add", client.user_add(CLIENT_USER).await, None),
        AuthChange::GrantClient => {
            ("user_grant_role", client.user_grant_role(CLIENT_USER, CLIENT_ROLE).await, None)
        }
        AuthChange::RemoveClientRole => {
            ("role_delete", client.role_delete(CLIENT_ROLE).await, Some(Refusal::RoleNotFound))
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
