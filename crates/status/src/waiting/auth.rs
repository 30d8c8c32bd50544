//! The words of a change of etcd's auth.

use std::collections::BTreeSet;

use quorate_api::{Reason, keys};
use quorate_model::effect::{AuthChanging, AuthWait};
use quorate_model::snapshot::KeptOutByAuth;

use super::{Row, Stops, authority, moves, needs_person, queues, refusal};
use quorate_manifests::certificate::CLIENT_USER;

pub(super) fn row(wait: &AuthWait) -> Row {
    match wait {
        AuthWait::Changing(next) => {
            moves(Reason::ChangingAuth, format!("etcd's auth is being switched: {}", changing(next)))
        }
        AuthWait::ClientsAreRoot => needs_person(
            Reason::ClientsAreRoot,
            format!(
                "in etcd the user {CLIENT_USER} has the role root, and whoever reads the Secrets NAME-client-tls or NAME-connection is that user. \
                 The operator needs that no more: `etcdctl user delete {CLIENT_USER}`, in the Pod of a member. Auth that is off is not \
                 enabled before"
            ),
        )
        .stopping(Stops::Nothing),
        AuthWait::OthersAreRoot(users) => {
            needs_person(Reason::OthersAreRoot, others_are_root(users)).stopping(Stops::Nothing)
        }
        AuthWait::UsersToRevoke => queues(
            Reason::UsersWithoutEtcdUser,
            "users of etcd that nobody may be any more are being deleted there",
        )
        .stopping(Stops::Nothing),
        AuthWait::StaysOn(cluster) => needs_person(
            Reason::AuthStaysOn,
            format!(
                "spec.auth.enabled is not true, and etcd's auth stays on: without it everybody with a certificate of the cluster may read and \
                 write everything. If that is meant, annotate the EtcdCluster with {}={cluster}, taken off before if it is there already; else set \
                 spec.auth.enabled to true",
                keys::DISABLE_AUTH
            ),
        )
        .stopping(Stops::Nothing),
        AuthWait::OffRefused(why) => needs_person(
            Reason::AuthStaysOn,
            format!(
                "spec.auth.enabled is not true, and {} orders etcd's auth off. It stays on: {}",
                keys::DISABLE_AUTH,
                refusal(why)
            ),
        )
        .stopping(Stops::Nothing),
        AuthWait::NotOurs => needs_person(Reason::NotOurs, not_ours(false)).stopping(Stops::Nothing),
        AuthWait::KeptOut(by) => needs_person(Reason::AuthEnabled, kept_out(by)),
    }
}

fn changing(next: &AuthChanging) -> String {
    match next {
        AuthChanging::CredentialFirst => "the members get the operator's credential first".to_owned(),
        AuthChanging::Unsafe(why) => refusal(why),
        AuthChanging::NoRootCertificate(why) => no_root_certificate(&authority::not_signed(why)),
        AuthChanging::UserFirst(user) => format!("EtcdUser {user} gets its user first"),
        AuthChanging::OnAgain => {
            "etcd's auth is off, though the record has it on: it is enabled again".to_owned()
        }
        AuthChanging::MakingRoot => "the user root is being made".to_owned(),
        AuthChanging::Enabling => "etcd's auth is being enabled".to_owned(),
        AuthChanging::Disabling => "etcd's auth is being disabled, as ordered".to_owned(),
        AuthChanging::Asked => "a member is asked how far it is".to_owned(),
        AuthChanging::ClientsAsked => "a member is asked for the user of clients".to_owned(),
    }
}

pub(super) fn no_root_certificate(why: &str) -> String {
    format!(
        "etcd's auth is enabled once there can be a certificate of its user root, which there cannot: {why}"
    )
}

/// How many users one message names.
const NAMED: usize = 8;

/// The commands are for the Pod of a member, where etcdctl needs no more arguments.
fn others_are_root(users: &BTreeSet<String>) -> String {
    let named: Vec<&str> = users.iter().take(NAMED).map(String::as_str).collect();
    let more = if users.len() > NAMED { format!(" and {} more", users.len() - NAMED) } else { String::new() };
    let first = named.first().copied().unwrap_or_default();
    format!(
        "etcd's auth is not enabled, because these users have the role root, and could do everything: {}{more}. The operator made none of them so. \
         For each of them, in the Pod of a member: `etcdctl user revoke-role {first} root`, or `etcdctl user delete {first}`. Whoever is to \
         have the role may get it again once auth is on",
        named.join(", ")
    )
}

/// How auth that a person enabled is handed over to the operator, or ended.
const WITH_TLS: &str = "Hand it over: kubectl patch etcdcluster NAME --type=merge -p '{\"spec\":{\"auth\":{\"enabled\":true}}}'. Then the operator is \
     the user root by a certificate of its own, and users, roles and passwords stay. Or switch it off: `etcdctl --user root auth disable`";

/// Somebody enabled auth; `is_root`: so that the operator may do everything.
pub(crate) fn not_ours(is_root: bool) -> String {
    let so = if is_root {
        "The user of the operator has the role root there, so it goes on. But that is also the user of everybody who reads the Secrets \
         NAME-client-tls or NAME-connection"
    } else {
        "The operator is no user that may do everything: lost Pods are restarted, but each change of membership is refused, each move of \
         leadership, each backup, each defragmentation and each comparison of members"
    };
    format!(
        "etcd's auth is on, and spec.auth does not have it: somebody enabled it, or it came with a snapshot. {so}. {WITH_TLS}"
    )
}

/// Nothing is known of a quorum, so nothing is said of one.
fn kept_out(by: &KeptOutByAuth) -> String {
    let KeptOutByAuth { refuse, ready, voters, tls, why } = by;
    let way_out = if *tls {
        WITH_TLS
    } else {
        "Without TLS the operator cannot be a user, and spec.tls.provider is fixed. Switch auth off: `etcdctl --user root auth disable`. \
         For auth, restore a backup into a new EtcdCluster with TLS"
    };
    format!(
        "etcd's auth is enabled, and it refuses the operator, which is no user: {refuse} of {voters} voters run and answer {why:?}. As far as \
         their Pods say, {ready} of {voters} are ready, and clients that are users are served. Meanwhile lost Pods are restarted, and nothing \
         else is done: no change of membership, no rollout, no replacement. {way_out}"
    )
}
