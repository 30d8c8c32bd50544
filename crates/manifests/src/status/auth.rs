//! The condition AuthReady: whether etcd asks each client who it is.

use quorate_api::Reason;
use quorate_model::Waiting;
use quorate_model::auth::AuthStage;

use super::conditions::Finding;
use super::picture::Picture;
use super::waiting::{auth_not_ours, explain, text};

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
            Waiting::AuthChanging(_) | Waiting::AuthStaysOn(_) | Waiting::AuthOffRefused(_)
        );
        is_of_auth.then(|| explain(waiting))
    });
    let of_root = picture.waits(|waiting| {
        let is_told_first = matches!(waiting, Waiting::ClientsAreRoot | Waiting::OthersAreRoot(_));
        is_told_first.then(|| explain(waiting))
    });
    if let Some(why) = of_root {
        return Some(Finding::because(why));
    }
    Some(match (is_on, told) {
        (_, Some(why)) => Finding { holds: Some(is_on), why },
        (true, None) => {
            Finding::yes(Reason::AuthOn, "etcd's auth is on: each client may do what its user may")
        }
        (false, None) => Finding::no(
            Reason::ChangingAuth,
            "etcd's auth is not on yet: everybody with a certificate of the cluster may read and write everything",
        ),
    })
}

/// Somebody enabled auth. Where it refuses the operator altogether, as without TLS, nothing else is known of it.
fn not_ours(picture: &Picture<'_>) -> Option<Finding> {
    if let Some(kept_out) = picture.seen.kept_out_by_auth(picture.record, picture.now) {
        return Some(Finding::no(Reason::NotOurs, text(&Waiting::AuthEnabled(kept_out))));
    }
    let is_root = picture.seen.etcd.auth.as_ref().is_some_and(|seen| seen.clients_are_root);
    let is_so = picture.seen.is_auth_not_ours(picture.record);
    is_so.then(|| Finding::no(Reason::NotOurs, auth_not_ours(is_root)))
}
