//! The condition AuthReady: whether etcd asks each client who it is.

use std::collections::BTreeMap;

use quorate_api::{Reason, keys};
use quorate_model::Waiting;
use quorate_model::auth::{AuthStage, Clients, Marked, Orphan, SeenAuth};
use quorate_model::effect::AuthWait;

use super::conditions::Finding;
use super::picture::Picture;
use super::time;
use super::waiting::{auth_not_ours, explain, text};
use quorate_manifests::certificate::CLIENT_USER;

/// How many users one message names.
const NAMED: usize = 5;

/// Absent where auth is neither on, as far as that is known, nor wanted.
pub(super) fn find(picture: &Picture<'_>) -> Option<Finding> {
    let is_wanted = picture.seen.auth_policy.wanted;
    let stage = picture.record.auth;
    if !is_wanted && stage.is_none() {
        return not_ours(picture);
    }
    let is_on =
        stage == Some(AuthStage::On) && picture.seen.etcd.auth.as_ref().is_none_or(|seen| seen.enabled);
    let told = picture.waits(|waiting| {
        let is_of_auth = matches!(
            waiting,
            Waiting::Auth(AuthWait::Changing(_) | AuthWait::StaysOn(_) | AuthWait::OffRefused(_))
        );
        is_of_auth.then(|| explain(waiting))
    });
    let of_root = picture.waits(|waiting| {
        let is_told_first =
            matches!(waiting, Waiting::Auth(AuthWait::ClientsAreRoot | AuthWait::OthersAreRoot(_)));
        is_told_first.then(|| explain(waiting))
    });
    if let Some(why) = of_root {
        return Some(Finding::because(why));
    }
    Some(match (is_on, told) {
        (_, Some(why)) => Finding { holds: Some(is_on), why },
        (true, None) if !orphans(picture).is_empty() => {
            Finding::yes(Reason::UsersWithoutEtcdUser, without_etcd_user(picture, &orphans(picture)))
        }
        (true, None) if of_clients(picture).is_some() => of_clients(picture)?,
        (true, None) => {
            Finding::yes(Reason::AuthOn, "etcd's auth is on: each client may do what its user may")
        }
        (false, None) => Finding::no(
            Reason::ChangingAuth,
            "etcd's auth is not on yet: everybody with a certificate of the cluster may read and write everything",
        ),
    })
}

/// Whether the certificate that applications share is refused every key: auth is on, and its user has no role.
pub(super) fn refuses_clients(picture: &Picture<'_>) -> bool {
    let has_access = |seen: &SeenAuth| !seen.enabled || !seen.clients.are_refused();
    // Until it was asked, what is recorded counts.
    let goes_on = picture.seen.do_clients_go_on(picture.record, picture.now);
    picture.record.auth == Some(AuthStage::On) && !picture.seen.etcd.auth.as_ref().map_or(goes_on, has_access)
}

/// What is to be said of the certificate that applications share, where it gives all keys.
fn of_clients(picture: &Picture<'_>) -> Option<Finding> {
    let clients = picture.seen.etcd.auth.as_ref().map(|seen| seen.clients)?;
    match (clients, picture.seen.clients_go_on_until(picture.record)) {
        (Clients::OfGrace, Some(until)) => {
            let id = picture.record.cluster_id.map(|id| id.to_string()).unwrap_or_default();
            Some(Finding::yes(
                Reason::ClientsHaveTime,
                format!(
                    "etcd's auth is on. Until {} whoever has the certificate in NAME-client-tls or NAME-connection goes on as the user \
                     {CLIENT_USER}, which may read and write all keys, and is refused every key after that (spec.auth.clientGrace). Give each \
                     application an EtcdUser. Once all are users, {}={id} ends it",
                    time(until).0,
                    keys::CLIENTS_ARE_USERS
                ),
            ))
        }
        (Clients::AllKeys, _) => Some(Finding::yes(
            Reason::ClientsHaveAllKeys,
            format!(
                "etcd's auth is on, and somebody gave the user {CLIENT_USER} a role with all keys: whoever reads the Secrets NAME-client-tls or \
                 NAME-connection is that user. Give each application an EtcdUser, then, in the Pod of a member: `etcdctl user delete {CLIENT_USER}`"
            ),
        )),
        (Clients::OfGrace | Clients::NoUser | Clients::NoRole | Clients::OfPerson | Clients::Root, _) => None,
    }
}

fn orphans(picture: &Picture<'_>) -> BTreeMap<Marked, Orphan> {
    picture.seen.etcd.auth.as_ref().map(|seen| seen.orphans.clone()).unwrap_or_default()
}

/// The commands are for the Pod of a member, where etcdctl needs no more arguments.
fn without_etcd_user(picture: &Picture<'_>, orphans: &BTreeMap<Marked, Orphan>) -> String {
    let keeps = picture.seen.auth_policy.keeps_orphans;
    let of = |wanted: Orphan| {
        let all: Vec<&Marked> =
            orphans.iter().filter(|(_, orphan)| **orphan == wanted).map(|(user, _)| user).collect();
        all
    };
    let named = |all: &[&Marked], text: fn(&Marked) -> String| {
        let shown: Vec<String> = all.iter().take(NAMED).map(|user| text(user)).collect();
        let more = all.len().saturating_sub(NAMED);
        let more = if more > 0 { format!("; and {more} more (`etcdctl user list`)") } else { String::new() };
        (!all.is_empty()).then(|| format!("{}{more}", shown.join("; ")))
    };
    let retained = |user: &Marked| format!("`etcdctl role delete {}`", user.retained_role());
    let kept = |user: &Marked| {
        format!("`etcdctl user delete {}` and `etcdctl role delete {}`", user.user(), user.role())
    };
    let served = "whoever kept a certificate of theirs is served";
    let mut parts = vec![
        "etcd's auth is on: each client may do what its user may. Users of etcd have no EtcdUser any more: they came with a snapshot or with the \
         volumes of an earlier EtcdCluster, or are to stay"
            .to_owned(),
    ];
    if keeps {
        let all: Vec<&Marked> = orphans.keys().collect();
        parts.extend(named(&all, kept).map(|commands| {
            format!(
                "Nothing deletes them (spec.auth.afterRestore: Keep), and {served}. Where nobody connects as they, in the Pod of a member: {commands}"
            )
        }));
        return parts.join(". ");
    }
    let unconfirmed = named(&of(Orphan::Unconfirmed), Marked::user);
    let revoked = named(&of(Orphan::Confirmed), Marked::user);
    let stay = named(&of(Orphan::Retained), retained);
    parts.extend(revoked.map(|users| format!("These are deleted, one after another: {users}")));
    parts.extend(unconfirmed.map(|users| {
        format!("These are deleted once the API server lists the EtcdUsers, which it does not now: {users}")
    }));
    parts.extend(stay.map(|commands| {
        format!(
            "Those whose EtcdUsers had deletionPolicy: Retain stay, and {served}. Where nobody connects as one, in the Pod of a member, and it is deleted, \
             too: {commands}"
        )
    }));
    parts.join(". ")
}

/// Somebody enabled auth. Where it refuses the operator altogether, as without TLS, nothing else is known of it.
fn not_ours(picture: &Picture<'_>) -> Option<Finding> {
    if let Some(kept_out) = picture.seen.kept_out_by_auth(picture.record, picture.now) {
        return Some(Finding::no(Reason::NotOurs, text(&Waiting::Auth(AuthWait::KeptOut(kept_out)))));
    }
    let is_root = picture.seen.etcd.auth.as_ref().is_some_and(|seen| seen.clients == Clients::Root);
    let is_so = picture.seen.is_auth_not_ours(picture.record);
    is_so.then(|| Finding::no(Reason::NotOurs, auth_not_ours(is_root)))
}
