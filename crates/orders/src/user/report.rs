//! What the status of an EtcdUser says.

use std::fmt::Write as _;

use kube_core::ResourceExt as _;
use quorate_api::cluster::TlsProvider;
use quorate_api::status::BindingStatus;
use quorate_api::user::{EtcdUserStatus, UserAccess, UserDeletionPolicy};
use quorate_api::{ConditionType, EtcdCluster, Explanation, Reason, conditions};
use quorate_manifests::user::{NoSigner, Presence, secret_name, user_name};

use super::decide::{Act, AuthState, Decision, Seen, explain, missing_roles, role_name};
use super::gate::Unsafe;
use super::permissions::{Permissions, below};
use crate::ready::{Verdict, sum_up};

/// A hash of what etcd is to have of a user, to compare: what its role allows, and whether it stays.
pub(super) fn hash(permissions: &Permissions, policy: UserDeletionPolicy) -> String {
    let mut text = match policy {
        UserDeletionPolicy::Revoke => String::new(),
        UserDeletionPolicy::Retain => "stays\n".to_owned(),
    };
    for (range, access) in permissions {
        let access = match access {
            UserAccess::Read => 'r',
            UserAccess::Write => 'w',
            UserAccess::ReadWrite => 'b',
        };
        let _ = writeln!(text, "{access} {:?} {:?}", range.key, range.end);
    }
    quorate_manifests::user::hash(&text)
}

/// Whether the members of a cluster take no certificates.
pub(super) fn is_without_tls(cluster: &EtcdCluster) -> bool {
    match cluster.spec.tls.provider {
        TlsProvider::Disabled => true,
        TlsProvider::Auto | TlsProvider::Secrets | TlsProvider::CertManager => false,
    }
}

pub(super) fn no_cluster(seen: &Seen<'_>) -> Explanation {
    let text =
        format!("EtcdCluster {} does not exist. Create it, or delete this EtcdUser", seen.user.spec.cluster);
    explain(Reason::ClusterNotFound, text)
}

pub(super) fn cluster_goes(seen: &Seen<'_>) -> Explanation {
    explain(Reason::ClusterNotFound, format!("EtcdCluster {} is being deleted", seen.user.spec.cluster))
}

pub(super) fn without_tls(seen: &Seen<'_>) -> Explanation {
    let text = format!(
        "EtcdCluster {} has spec.tls.provider: disabled, so nobody proves to it who he is, and this user cannot be told from others. \
         Delete this EtcdUser, or create an EtcdCluster with TLS",
        seen.user.spec.cluster
    );
    explain(Reason::TlsDisabled, text)
}

pub(super) fn not_serving(seen: &Seen<'_>, why: &str) -> Explanation {
    let text = format!(
        "EtcdCluster {} does not answer, so the user is not looked at, nor changed: {why}",
        seen.user.spec.cluster
    );
    explain(Reason::ClusterNotServing, text)
}

pub(super) fn refused(seen: &Seen<'_>, why: &str) -> Explanation {
    let text = format!(
        "the auth of EtcdCluster {} refuses the operator, so the user is not looked at, nor changed: {why}. Give the operator's user the \
         role root, or let spec.auth of the EtcdCluster have auth",
        seen.user.spec.cluster
    );
    explain(Reason::AuthEnabled, text)
}

pub(super) fn foreign_secret(seen: &Seen<'_>) -> Explanation {
    let text = format!(
        "Secret {} exists and is not owned by this EtcdUser, so it is left alone. Delete or rename it",
        secret_name(&seen.user.name_any())
    );
    explain(Reason::ObjectNotOwned, text)
}

/// Why nothing can sign, and whether a person must act.
pub(super) fn no_signer(seen: &Seen<'_>, why: &NoSigner) -> (bool, Explanation) {
    let cluster = &seen.user.spec.cluster;
    match why {
        NoSigner::NotYet(why) => {
            let text = format!("EtcdCluster {cluster} cannot sign the certificate yet: {why}");
            (false, explain(Reason::CertificatesMissing, text))
        }
        NoSigner::Lost(why) => {
            let text = format!(
                "the certificate authority of EtcdCluster {cluster} cannot sign the certificate: {why}. See condition TLSReady of the \
                 EtcdCluster"
            );
            (true, explain(Reason::AuthorityLost, text))
        }
        NoSigner::Elsewhere => {
            let text = format!(
                "etcd knows the user, but the key of the authority of EtcdCluster {cluster} is somewhere else (tls.provider), so Secret {} gets \
                 no certificate that members take. Have one issued by the same issuer, with the common name {} (status.username), for the application",
                secret_name(&seen.user.name_any()),
                user_name(seen.user)
            );
            (false, explain(Reason::CertificatesMissing, text))
        }
    }
}

pub(super) fn not_signed(seen: &Seen<'_>, why: Unsafe) -> (bool, Explanation) {
    match why {
        Unsafe::AnotherAuthority
        | Unsafe::RoleNotOurs
        | Unsafe::UserNotOurs
        | Unsafe::Reserved
        | Unsafe::RoleReserved => {
            let text = format!(
                "the authority in Secret {}-ca is not the one that status of the EtcdCluster records, so it signs nothing",
                seen.user.spec.cluster
            );
            (true, explain(Reason::AuthorityLost, text))
        }
    }
}

/// Nothing is known or done: what was made stays as it is.
pub(super) fn unchanged(seen: &Seen<'_>, status: EtcdUserStatus, stalls: bool, why: Explanation) -> Decision {
    let verdict = if stalls { Verdict::Stalled } else { Verdict::UnderWay };
    told(seen, status, verdict, why, Vec::new())
}

/// A person must act.
pub(super) fn stalled(seen: &Seen<'_>, status: EtcdUserStatus, why: Explanation, acts: Vec<Act>) -> Decision {
    told(seen, status, Verdict::Stalled, why, acts)
}

/// The user is there, or is being made.
pub(super) fn of_live(
    seen: &Seen<'_>,
    mut status: EtcdUserStatus,
    state: &AuthState,
    (in_etcd, mut acts): (bool, Vec<Act>),
    secret: Result<Vec<Act>, (bool, Explanation)>,
    refused: &[String],
) -> Decision {
    let name = secret_name(&seen.user.name_any());
    let exists = matches!(seen.secret, Presence::Own(own) if !own.is_going);
    status.secret_name = exists.then(|| name.clone());
    status.binding = exists.then(|| BindingStatus { name: name.clone() });
    let missing = missing_roles(seen, state);
    let (secret, trouble) = match secret {
        Ok(acts) => (acts, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    acts.extend(secret);
    if !refused.is_empty() {
        return stalled(seen, status, not_allowed(seen, refused), acts);
    }
    if !missing.is_empty() {
        let text = format!(
            "etcd has no role {}, which spec.roles names. Make it (etcdctl role add), or remove it from spec.roles. The rest of the user \
             is as the spec asks for",
            missing.join(", ")
        );
        return stalled(seen, status, explain(Reason::RoleNotFound, text), acts);
    }
    if let Some((stalls, why)) = trouble {
        let verdict = if stalls { Verdict::Stalled } else { Verdict::UnderWay };
        return told(seen, status, verdict, why, acts);
    }
    if !in_etcd || !acts.is_empty() || !exists {
        let what = match (in_etcd, exists) {
            (false, _) => {
                format!("user {} and its role are made, or put right, in etcd", user_name(seen.user))
            }
            (true, _) => format!("Secret {name} is written"),
        };
        return told(seen, status, Verdict::UnderWay, explain(Reason::UserPending, what), acts);
    }
    let text = format!(
        "user {} is in etcd as the spec asks for; an application connects with Secret {name}{}",
        user_name(seen.user),
        earlier(state)
    );
    if state.enabled {
        return told(seen, status, Verdict::Ready, explain(Reason::UserReady, text), acts);
    }
    let text = format!(
        "{text}. But auth of EtcdCluster {} is disabled: this user, and whoever else has a certificate of the cluster, may read and write \
         every key. Set spec.auth.enabled to true",
        seen.user.spec.cluster
    );
    told(seen, status, Verdict::Ready, explain(Reason::AuthDisabled, text), acts)
}

/// What earlier EtcdUsers of this name left in etcd. It is for people to say whether anybody needs that.
pub(super) fn earlier(state: &AuthState) -> String {
    if state.earlier.is_empty() {
        return String::new();
    }
    let own =
        |(user, role): &(String, String)| format!("etcdctl user delete {user}; etcdctl role delete {role}");
    // A message has an end. Once these are gone, it names the next.
    let commands: Vec<String> = state.earlier.iter().take(4).map(own).collect();
    format!(
        ". Earlier EtcdUsers of this name left users in etcd, which go on. If nobody needs them: {}",
        commands.join("; ")
    )
}

fn not_allowed(seen: &Seen<'_>, refused: &[String]) -> Explanation {
    let allowed = seen.allowed.unwrap_or_default();
    let describe = |bound: &String| match below(bound) {
        None => bound.clone(),
        Some(below) => format!("{bound} (that key, and prefix {below})"),
    };
    let allowed: Vec<String> = allowed.iter().map(describe).collect();
    let allowed = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
    let text = format!(
        "spec.auth.allowedPrefixes of EtcdCluster {} has {allowed}, and this EtcdUser asks for {}: that is not given, and was taken away \
         where it was. Remove it from the EtcdUser, or have somebody who may edit the EtcdCluster allow it",
        seen.user.spec.cluster,
        refused.join(", ")
    );
    explain(Reason::PermissionNotAllowed, text)
}

/// The EtcdUser is being deleted, and its user with it.
pub(super) fn going(seen: &Seen<'_>, status: EtcdUserStatus, acts: Vec<Act>) -> Decision {
    let text = format!("user {} and role {} are deleted in etcd", user_name(seen.user), role_name(seen.user));
    told(seen, status, Verdict::UnderWay, explain(Reason::Deleting, text), acts)
}

/// The EtcdUser is being deleted, and its user cannot be.
pub(super) fn not_gone(seen: &Seen<'_>, status: EtcdUserStatus, why: &str) -> Decision {
    let text = format!(
        "user {} cannot be {} in EtcdCluster {}: {why}. It is tried again. To let the EtcdUser go without that: kubectl patch etcduser {} \
         --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'. The EtcdCluster revokes the user once it answers and its auth is on",
        user_name(seen.user),
        match seen.user.spec.deletion_policy {
            UserDeletionPolicy::Revoke => "deleted",
            UserDeletionPolicy::Retain => "marked as one that stays",
        },
        seen.user.spec.cluster,
        seen.user.name_any()
    );
    told(seen, status, Verdict::UnderWay, explain(Reason::ClusterNotServing, text), Vec::new())
}

fn told(
    seen: &Seen<'_>,
    mut status: EtcdUserStatus,
    verdict: Verdict,
    why: Explanation,
    acts: Vec<Act>,
) -> Decision {
    let generation = seen.user.metadata.generation;
    let before = conditions::find(&status.conditions, ConditionType::Ready.as_str());
    let is_news = before.is_none_or(|before| before.reason != why.reason().as_str());
    status.observed_generation = generation;
    sum_up(&mut status.conditions, verdict, &why, generation, seen.now);
    let (warning, waits) = match verdict {
        Verdict::Ready => (false, false),
        Verdict::UnderWay => (!matches!(why.reason(), Reason::UserPending | Reason::Deleting), true),
        Verdict::Stalled => (true, false),
    };
    Decision { status, event: is_news.then_some((warning, why)), acts, waits }
}
