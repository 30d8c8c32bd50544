//! The condition AuthReady: whether etcd asks each client who it is.

use quorate_api::Reason;
use quorate_model::Waiting;
use quorate_model::auth::AuthStage;

use super::conditions::Finding;
use super::picture::Picture;
use super::waiting::explain;

/// Absent where auth is neither on nor wanted.
pub(super) fn find(picture: &Picture<'_>) -> Option<Finding> {
    let is_wanted = picture.seen.auth_policy.wanted;
    let stage = picture.record.auth;
    if !is_wanted && stage.is_none() {
        return None;
    }
    let is_on = stage == Some(AuthStage::On) && picture.seen.etcd.auth.is_none_or(|seen| seen.enabled);
    let told = picture.waits(|waiting| {
        matches!(waiting, Waiting::AuthChanging(_) | Waiting::AuthStaysOn(_)).then(|| explain(waiting))
    });
    if let Some(why) =
        picture.waits(|waiting| (*waiting == Waiting::ClientsAreRoot).then(|| explain(waiting)))
    {
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
