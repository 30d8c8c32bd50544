//! What is next: a pure function of the EtcdUser, its EtcdCluster, its Secret, and what etcd has.

use std::collections::{BTreeMap, BTreeSet};

use kube_core::ResourceExt as _;
use quorate_api::user::{EtcdUserStatus, UserAccess, UserDeletionPolicy};
use quorate_api::{EtcdCluster, EtcdUser, Explanation, Reason, keys};
use quorate_manifests::data_store::ends;
use quorate_manifests::user::{NoSigner, Presence, Signer, mark, mark_of, user_name};
use quorate_model::auth::{Marked, is_mark};
use quorate_model::{Fingerprint, Instant};

use super::gate::{self, Own};
use super::permissions::{Permissions, Range, desired};
use super::report::{self, hash};

/// What is observed for an EtcdUser.
pub struct Seen<'a> {
    /// The user.
    pub user: &'a EtcdUser,
    /// The EtcdCluster that it names, if it exists.
    pub cluster: Option<&'a EtcdCluster>,
    /// What etcd has.
    pub etcd: &'a Etcd,
    /// Its Secret.
    pub secret: &'a Presence<'a>,
    /// The key in its Secret is that of the certificate beside it.
    pub key_fits: bool,
    /// What signs for clients of the EtcdCluster now.
    pub signer: Result<&'a Signer, &'a NoSigner>,
    /// What EtcdUsers may be given: keys that begin so. `None`: all keys.
    pub allowed: Option<&'a [String]>,
    /// The time.
    pub now: Instant,
}

/// What is known of etcd's auth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Etcd {
    /// It is not needed, or cannot be asked: [`asks_etcd`].
    NotAsked,
    /// No member answered. Why not.
    NoAnswer(String),
    /// It refuses the operator, which has no right there. Its words.
    Refused(String),
    /// It answered.
    Answered(AuthState),
}

/// What etcd has of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthState {
    /// The ID of the etcd cluster, as status has it.
    pub cluster_id: String,
    /// Whether auth is enabled.
    pub enabled: bool,
    /// The roles of the user; `None`: there is none of this name.
    pub roles: Option<Vec<String>>,
    /// The users of earlier EtcdUsers of this name, each with the name of its role.
    pub earlier: Vec<(String, String)>,
    /// What the role of this EtcdUser allows; `None`: it does not exist.
    pub own_role: Option<Permissions>,
    /// Whether there is the role that says that the user stays when its EtcdUser goes.
    pub retained: bool,
    /// What the roles that its spec names allow.
    pub named: BTreeMap<String, Option<Permissions>>,
}

/// What is next.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The status as it is to be. It is written before anything is done.
    pub status: EtcdUserStatus,
    /// What is reported as an event: whether it is a warning, and what.
    pub event: Option<(bool, Explanation)>,
    /// What is done then, in this order.
    pub acts: Vec<Act>,
    /// What it waits for comes by itself.
    pub waits: bool,
}

/// An act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// F1: the EtcdUser gets its finalizer.
    AddFinalizer,
    /// F3: the role is added that says that the user stays when its EtcdUser goes.
    AddRetained,
    /// F3: the role of this EtcdUser is added.
    AddRole,
    /// F4: its role allows this, whatever it allowed of this range before.
    Grant(Range, UserAccess),
    /// F4: its role allows nothing of this range any more.
    Revoke(Range),
    /// F5: the user is added.
    AddUser,
    /// F6: the user gets a role.
    GrantRole(String),
    /// F6: a role is taken from it.
    RevokeRole(String),
    /// F7: its Secret gets a certificate and all else, or what is not as it should be in it.
    WriteSecret,
    /// F7: its Secret is deleted.
    RemoveSecret,
    /// F8: the user is deleted.
    DeleteUser,
    /// F9: its role is deleted.
    DeleteRole,
    /// F9: the role is deleted that says that the user stays.
    DeleteRetained,
    /// F0: the EtcdUser may go.
    RemoveFinalizer,
}

/// The name of the role of an EtcdUser. It has the uid, as the name of the user has.
pub fn role_name(user: &EtcdUser) -> String {
    marked(user).role()
}

/// The name of the role that says that its user stays when the EtcdUser goes.
pub fn retained_role_name(user: &EtcdUser) -> String {
    marked(user).retained_role()
}

fn marked(user: &EtcdUser) -> Marked {
    Marked::new(user.name_any(), mark(user))
}

/// Those of some users of etcd that are of earlier EtcdUsers of this name, each with the name of its role.
pub fn earlier(user: &EtcdUser, all: &[String]) -> Vec<(String, String)> {
    let (name, own) = (user.name_any(), user_name(user));
    let of_name = |other: &String| {
        let mark = other.strip_prefix(&*name)?.strip_prefix('-')?;
        let is_earlier = is_mark(mark) && *other != own;
        is_earlier.then(|| (other.clone(), Marked::new(&*name, mark).role()))
    };
    all.iter().filter_map(of_name).collect()
}

/// Those of the roles of etcd that are of EtcdUsers with none of these uids, and whether each is to stay. A user is told from one that a person
/// made by its role, which has the same mark and name. One whose user is gone is left of it, and found, too.
pub fn orphans<'a>(roles: &[String], uids: impl Iterator<Item = &'a str>) -> BTreeMap<Marked, bool> {
    let known: BTreeSet<String> = uids.map(mark_of).collect();
    let retained: BTreeSet<Marked> = roles.iter().filter_map(|role| Marked::of_retained_role(role)).collect();
    let all = roles.iter().filter_map(|role| Marked::of_role(role));
    all.filter(|user| !known.contains(user.mark()))
        .map(|user| {
            let stays = retained.contains(&user);
            (user, stays)
        })
        .collect()
}

/// Whether etcd has to be asked to decide: it is there to be asked, and anything depends on it.
pub fn asks_etcd(user: &EtcdUser, cluster: Option<&EtcdCluster>) -> bool {
    let Some(cluster) = cluster else { return false };
    if ends(cluster) || cluster_id(cluster).is_none() {
        return false;
    }
    if user.metadata.deletion_timestamp.is_some() {
        return has_finalizer(user);
    }
    !report::is_without_tls(cluster)
}

/// What is next.
pub fn decide(seen: &Seen<'_>) -> Decision {
    if seen.user.metadata.deletion_timestamp.is_some() { leave(seen) } else { live(seen) }
}

fn live(seen: &Seen<'_>) -> Decision {
    let mut status = seen.user.status.clone().unwrap_or_default();
    let (name, own_role) = (user_name(seen.user), role_name(seen.user));
    let state = match reached(seen) {
        Ok(state) => state,
        Err((stalls, why)) => return report::unchanged(seen, status, stalls, why),
    };
    let own = Own { user: &name, role: &own_role };
    let (wanted, refused) = within(seen, state);
    let mut acts = Vec::new();
    if !has_finalizer(seen.user) {
        acts.push(Act::AddFinalizer);
    }
    acts.extend(retained_act(seen, state));
    acts.extend(role_acts(state, &wanted));
    acts.extend(user_acts(state, seen, &own_role));
    let in_etcd = acts.iter().all(|act| *act == Act::AddFinalizer);
    acts.retain(|act| gate::permits(own, state, act).is_ok());
    if in_etcd {
        status.username = Some(name.clone());
    }
    // While anything is put right, nobody relies on it: etcd's auth is enabled after it.
    status.permissions_hash = in_etcd.then(|| hash(&wanted, seen.user.spec.deletion_policy));
    // A certificate is made once there is a user that it is of.
    let secret = if in_etcd { secret_acts(seen, own, state) } else { Ok(Vec::new()) };
    report::of_live(seen, status, state, (in_etcd, acts), secret, &refused)
}

/// What etcd has, or why it is not known, and whether a person must act.
fn reached<'a>(seen: &Seen<'a>) -> Result<&'a AuthState, (bool, Explanation)> {
    let Some(cluster) = seen.cluster else { return Err((false, report::no_cluster(seen))) };
    if ends(cluster) {
        return Err((false, report::cluster_goes(seen)));
    }
    if report::is_without_tls(cluster) {
        return Err((true, report::without_tls(seen)));
    }
    let Some(id) = cluster_id(cluster) else {
        return Err((false, report::not_serving(seen, "it has no cluster ID yet")));
    };
    match seen.etcd {
        Etcd::Answered(state) if state.cluster_id == id => Ok(state),
        Etcd::Answered(_) => {
            Err((false, report::not_serving(seen, "its members answer with another cluster ID")))
        }
        Etcd::NotAsked => Err((false, report::not_serving(seen, "it was not asked yet"))),
        Etcd::NoAnswer(why) => Err((false, report::not_serving(seen, why))),
        Etcd::Refused(why) => Err((true, report::refused(seen, why))),
    }
}

/// What its role is to allow, and what the EtcdCluster does not admit.
fn within(seen: &Seen<'_>, state: &AuthState) -> (Permissions, Vec<String>) {
    let mut wanted = desired(&seen.user.spec.permissions);
    let Some(allowed) = seen.allowed else { return (wanted, Vec::new()) };
    let mut refused: Vec<String> = Vec::new();
    wanted.retain(|range, _| {
        let is_within = range.is_within(allowed);
        if !is_within {
            refused.push(range.describe());
        }
        is_within
    });
    for (role, permissions) in &state.named {
        if !is_admitted(permissions.as_ref(), seen.allowed) {
            refused.push(format!("role {role}"));
        }
    }
    (wanted, refused)
}

/// Whether all that a role allows is within what may be given.
fn is_admitted(permissions: Option<&Permissions>, allowed: Option<&[String]>) -> bool {
    let Some(allowed) = allowed else { return true };
    permissions.iter().flat_map(|permissions| permissions.keys()).all(|range| range.is_within(allowed))
}

/// The hash of what the spec asks for, where nothing of it is refused.
pub(super) fn asked(user: &EtcdUser) -> String {
    hash(&desired(&user.spec.permissions), user.spec.deletion_policy)
}

/// F3, F9. What the policy is, etcd's own data say, so that it holds also where the EtcdUser is deleted while its EtcdCluster is away, and where
/// a snapshot comes back. It is said before there is anything that it is about.
fn retained_act(seen: &Seen<'_>, state: &AuthState) -> Option<Act> {
    match (seen.user.spec.deletion_policy, state.retained) {
        (UserDeletionPolicy::Retain, false) => Some(Act::AddRetained),
        (UserDeletionPolicy::Revoke, true) => Some(Act::DeleteRetained),
        (UserDeletionPolicy::Retain, true) | (UserDeletionPolicy::Revoke, false) => None,
    }
}

/// F3, F4.
fn role_acts(state: &AuthState, wanted: &Permissions) -> Vec<Act> {
    let mut acts = Vec::new();
    if state.own_role.is_none() {
        acts.push(Act::AddRole);
    }
    let has = state.own_role.clone().unwrap_or_default();
    // What is taken away goes first.
    acts.extend(has.keys().filter(|range| !wanted.contains_key(*range)).cloned().map(Act::Revoke));
    let lacking = wanted.iter().filter(|(range, access)| has.get(*range) != Some(*access));
    for (range, access) in lacking {
        // etcd may add the new one beside that of before, which goes on to count.
        if has.contains_key(range) {
            acts.push(Act::Revoke(range.clone()));
        }
        acts.push(Act::Grant(range.clone(), *access));
    }
    acts
}

/// F5, F6.
fn user_acts(state: &AuthState, seen: &Seen<'_>, own_role: &str) -> Vec<Act> {
    let mut acts = Vec::new();
    if state.roles.is_none() {
        acts.push(Act::AddUser);
    }
    let has = state.roles.clone().unwrap_or_default();
    let admitted = |role: &String| {
        let found = state.named.get(role).and_then(Option::as_ref);
        found.is_some() && is_admitted(found, seen.allowed)
    };
    let named = seen.user.spec.roles.iter().filter(|role| admitted(role)).cloned();
    let mut wanted: Vec<String> = std::iter::once(own_role.to_owned()).chain(named).collect();
    wanted.dedup();
    acts.extend(has.iter().filter(|role| !wanted.contains(role)).cloned().map(Act::RevokeRole));
    acts.extend(wanted.into_iter().filter(|role| !has.contains(role)).map(Act::GrantRole));
    acts
}

/// F7, or why the Secret cannot be as it should.
fn secret_acts(seen: &Seen<'_>, own: Own<'_>, state: &AuthState) -> Result<Vec<Act>, (bool, Explanation)> {
    let present = match seen.secret {
        Presence::Foreign => return Err((true, report::foreign_secret(seen))),
        Presence::Absent => None,
        Presence::Own(present) if present.is_going => return Ok(Vec::new()),
        Presence::Own(present) if present.must_be_made_again => return Ok(vec![Act::RemoveSecret]),
        Presence::Own(present) => Some(present),
    };
    let is_usable = present.is_some_and(|present| {
        seen.key_fits && present.leaf.content.as_ref().is_ok_and(|leaf| !leaf.validity.has_ended(seen.now))
    });
    let recorded = seen.cluster.and_then(recorded_authority);
    let signed_by = present.and_then(|present| present.leaf.content.as_ref().ok()?.signed_by.as_ref());
    let is_of_recorded = signed_by.is_some() && signed_by == recorded.as_ref();
    let signer = match seen.signer {
        Ok(signer) => signer,
        // Nothing here renews it, and members forget what signed it.
        Err(why @ NoSigner::Elsewhere) if !is_of_recorded => return Err(report::no_signer(seen, why)),
        // What is there goes on, and is judged when there is something to judge it by.
        Err(_) if is_usable => return Ok(Vec::new()),
        Err(why) => return Err(report::no_signer(seen, why)),
    };
    let is_due =
        present.is_none_or(|present| !seen.key_fits || present.leaf.is_due(&signer.authority, seen.now));
    if !is_due {
        let matches = present.is_some_and(|present| present.matches);
        return Ok(if matches { Vec::new() } else { vec![Act::WriteSecret] });
    }
    match gate::may_sign(own, state, (recorded.as_ref(), &signer.authority.fingerprint)) {
        Ok(()) => Ok(vec![Act::WriteSecret]),
        Err(_) if is_usable => Ok(Vec::new()),
        Err(why) => Err(report::not_signed(seen, why)),
    }
}

fn recorded_authority(cluster: &EtcdCluster) -> Option<Fingerprint> {
    let certificates = cluster.status.as_ref()?.certificates.as_ref()?;
    certificates.authority.clone().map(Fingerprint::new)
}

/// The EtcdUser is being deleted.
fn leave(seen: &Seen<'_>) -> Decision {
    let status = seen.user.status.clone().unwrap_or_default();
    let done = |status, acts| Decision { status, event: None, acts, waits: false };
    if !has_finalizer(seen.user) {
        // What others hold it for is their affair.
        return done(status, Vec::new());
    }
    if seen.cluster.is_none_or(ends) {
        return done(status, vec![Act::RemoveFinalizer]);
    }
    let stays = seen.user.spec.deletion_policy == UserDeletionPolicy::Retain;
    if stays && status.permissions_hash == Some(asked(seen.user)) {
        // etcd has it already.
        return done(status, vec![Act::RemoveFinalizer]);
    }
    let id = seen.cluster.and_then(cluster_id);
    let state = match seen.etcd {
        Etcd::Answered(state) if Some(&state.cluster_id) == id.as_ref() => state,
        Etcd::Answered(_) | Etcd::NotAsked => {
            return report::not_gone(seen, status, "its members do not answer with its cluster ID");
        }
        Etcd::NoAnswer(why) | Etcd::Refused(why) => return report::not_gone(seen, status, why),
    };
    let (name, role) = (user_name(seen.user), role_name(seen.user));
    let own = Own { user: &name, role: &role };
    let mut acts = Vec::new();
    match seen.user.spec.deletion_policy {
        UserDeletionPolicy::Revoke => {
            let all = [
                (state.roles.is_some(), Act::DeleteUser),
                (state.own_role.is_some(), Act::DeleteRole),
                (state.retained, Act::DeleteRetained),
            ];
            acts.extend(all.into_iter().filter(|(is_there, _)| *is_there).map(|(_, act)| act));
        }
        // The policy may have changed just before.
        UserDeletionPolicy::Retain => {
            let has_any = state.roles.is_some() || state.own_role.is_some();
            acts.extend((has_any && !state.retained).then_some(Act::AddRetained));
        }
    }
    acts.retain(|act| gate::permits(own, state, act).is_ok());
    if acts.is_empty() {
        acts.push(Act::RemoveFinalizer);
        return done(status, acts);
    }
    report::going(seen, status, acts)
}

fn has_finalizer(user: &EtcdUser) -> bool {
    user.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == keys::USER_FINALIZER)
}

/// The ID that status of the EtcdCluster records.
pub(super) fn cluster_id(cluster: &EtcdCluster) -> Option<String> {
    cluster.status.as_ref()?.cluster_id.clone()
}

/// For a role of the spec that etcd does not have.
pub(super) fn missing_roles(seen: &Seen<'_>, state: &AuthState) -> Vec<String> {
    let is_missing = |role: &&String| state.named.get(*role).is_none_or(Option::is_none);
    seen.user.spec.roles.iter().filter(is_missing).cloned().collect()
}

/// Explains with a reason.
pub(super) fn explain(reason: Reason, text: impl Into<String>) -> Explanation {
    Explanation::new(reason, text)
}
