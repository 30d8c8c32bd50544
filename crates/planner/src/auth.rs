//! etcd's auth, switched on by the spec and off by order.
//!
//! L1 record that it is being switched on; L2 the operator's credential, a certificate of the user root (I2); L3 every member's Pod gets it
//! (U5); L4 the user root, L5 the role root, L6 the one gets the other; L7 every EtcdUser has its user, and nobody else is root; L8 record
//! that it is on, make root anew (L4, L6), then enable it; L9 disable it, as ordered, then record that it is off; L10 users of EtcdUsers
//! that do not exist are deleted; L11 the certificate that applications share is that of a user for a time.
//!
//! Auth that is on without spec or record is a person's: it is told.
//!
//! What is recorded at L8 is level-triggered: auth that is off though the record has it on, after a restore or by a person's hand, is switched
//! on again.

use quorate_model::auth::{AuthChange, AuthStage, ClientGrace, Clients, Marked, Root, SeenAuth};
use quorate_model::effect::{AuthChanging, AuthWait};
use quorate_model::{EtcdCall, Step, Waiting};

use crate::draft::Draft;
use crate::safety;

/// One step further, if it is safe. Nothing waits for it.
pub(crate) fn advance(draft: &mut Draft<'_>) {
    note_order(draft);
    let is_wanted = draft.seen.auth_policy.wanted;
    let is_target = draft.record.target.as_ref().is_some_and(|target| target.auth);
    match draft.record.auth {
        None if is_target && is_wanted => {
            draft.write_record(Step::L1, |record| record.auth = Some(AuthStage::Preparing));
            draft.wait(changing(AuthChanging::CredentialFirst));
        }
        None if is_target => record_what_is(draft),
        None => tell_of_others(draft),
        Some(AuthStage::Preparing) if is_wanted => switch_on(draft),
        Some(AuthStage::Preparing) => record_what_is(draft),
        Some(AuthStage::On) if is_wanted => keep_on(draft),
        Some(AuthStage::On) => switch_off(draft),
    }
}

/// Auth that a person enabled. It is told, and left alone: where it refuses the operator, some acts fail.
fn tell_of_others(draft: &mut Draft<'_>) {
    let is_root = draft.seen.etcd.auth.as_ref().is_some_and(|seen| seen.clients == Clients::Root);
    if draft.seen.is_auth_not_ours(&draft.record) && !is_root {
        draft.wait(Waiting::Auth(AuthWait::NotOurs));
    }
}

/// An order beside a spec that wants auth is spent: it does not wait for the day on which the spec says something else. Taken off, it can be
/// given again.
fn note_order(draft: &mut Draft<'_>) {
    let policy = draft.seen.auth_policy;
    let spent = match policy.disable {
        None => None,
        Some(order) if policy.wanted => Some(order),
        Some(_) => return,
    };
    if draft.record.spent_disable_auth != spent {
        draft.write_record(Step::L9, |record| record.spent_disable_auth = spent);
    }
}

/// The spec does not want it and did before L8, or status was lost and Pods have the credential: what is on stays on. Else it is forgotten;
/// the user root stays, which without auth is nothing.
fn record_what_is(draft: &mut Draft<'_>) {
    let Some(seen) = look(draft) else { return };
    let stage = seen.enabled.then_some(AuthStage::On);
    let step = if seen.enabled { Step::L8 } else { Step::L9 };
    draft.write_record(step, |record| record.auth = stage);
}

/// L3 to L8.
fn switch_on(draft: &mut Draft<'_>) {
    let Some(seen) = look(draft) else { return };
    tell_of_clients(draft, &seen);
    if seen.enabled {
        // A person enabled it, or it came with a snapshot. The operator is root by its certificate.
        draft.write_record(Step::L8, |record| record.auth = Some(AuthStage::On));
        return;
    }
    if let Err(why) = safety::all_have_credential(draft.seen) {
        draft.wait(changing(AuthChanging::Unsafe(why)));
        return;
    }
    if !make_root(draft, seen.root) || seen.clients == Clients::Root {
        return;
    }
    if !seen.others.is_empty() {
        draft.wait(Waiting::Auth(AuthWait::OthersAreRoot(seen.others)));
        return;
    }
    // L7. Later they are no users, and refused.
    if let Some(user) = draft.seen.users_to_come.first() {
        draft.wait(changing(AuthChanging::UserFirst(user.clone())));
        return;
    }
    enable(draft, &seen);
}

fn keep_on(draft: &mut Draft<'_>) {
    let Some(seen) = draft.seen.etcd.auth.clone() else { return };
    tell_of_clients(draft, &seen);
    if seen.enabled {
        revoke(draft, &seen);
        keep_clients(draft, &seen);
        return;
    }
    draft.wait(changing(AuthChanging::OnAgain));
    if look(draft).is_some() && make_root(draft, seen.root) {
        enable(draft, &seen);
    }
}

/// L10. One user at a time, then it is looked again. The user goes first: a role that is left is found by its name.
fn revoke(draft: &mut Draft<'_>, seen: &SeenAuth) {
    if draft.seen.auth_policy.keeps_orphans || !seen.has_orphans_to_go() {
        return;
    }
    draft.wait(Waiting::Auth(AuthWait::UsersToRevoke));
    // Who comes back under another uid gets the new user first.
    let comes = |user: &Marked| draft.seen.users_to_come.contains(user.name());
    let user = seen.to_revoke().find(|user| !comes(user)).cloned();
    let (Some(user), Some(via)) = (user, draft.via()) else { return };
    if safety::is_fresh(seen.at, draft.now) {
        draft.call(Step::L10, via, EtcdCall::DeleteUser { user: user.clone() });
        draft.call(Step::L10, via, EtcdCall::DeleteRole { user });
    }
}

/// L11. Who has the certificate that applications share goes on until the time is over that the spec gives.
fn keep_clients(draft: &mut Draft<'_>, seen: &SeenAuth) {
    // Somebody enabled auth, or status was lost.
    if draft.record.client_grace.is_none() {
        let now = draft.latest();
        let goes_on = seen.clients == Clients::OfGrace;
        let grace = if goes_on { ClientGrace::Since(now) } else { ClientGrace::Over };
        draft.write_record(Step::L11, |record| record.client_grace = Some(grace));
    }
    let is_due = draft.seen.are_clients_due(&draft.record, seen, draft.now);
    let is_fresh = safety::is_fresh(seen.at, draft.now);
    if safety::clients_had_time(draft.view()).is_err() {
        if is_due && is_fresh {
            make_clients(draft, seen.clients);
        } else if is_due {
            draft.wait(changing(AuthChanging::ClientsAsked));
        }
    } else if seen.clients == Clients::OfGrace {
        draft.wait(Waiting::Auth(AuthWait::UsersToRevoke));
        if is_fresh {
            change(draft, Step::L11, AuthChange::RemoveClientUser);
            change(draft, Step::L11, AuthChange::RemoveClientRole);
        }
    } else {
        draft.write_record(Step::L11, |record| record.client_grace = Some(ClientGrace::Over));
    }
}

/// What is there of it stays: a password that somebody gave it while auth was off goes with it once the time is over.
fn make_clients(draft: &mut Draft<'_>, clients: Clients) {
    let user = (clients == Clients::NoUser).then_some(AuthChange::AddClientUser);
    let role = [AuthChange::AddClientRole, AuthChange::GrantClientKeys];
    for next in role.into_iter().chain(user).chain([AuthChange::GrantClient]) {
        change(draft, Step::L11, next);
    }
}

/// Applications share one certificate. Before there was auth by the spec, people made its user root, so that the operator was one.
fn tell_of_clients(draft: &mut Draft<'_>, seen: &SeenAuth) {
    if seen.clients == Clients::Root {
        draft.wait(Waiting::Auth(AuthWait::ClientsAreRoot));
    }
}

/// L9. The record comes last: until then the operator has the credential with which auth can be disabled.
fn switch_off(draft: &mut Draft<'_>) {
    let Some(cluster) = draft.record.cluster_id else { return };
    if !draft.seen.is_auth_ordered_off(&draft.record) {
        draft.wait(Waiting::Auth(AuthWait::StaysOn(cluster)));
        keep_on(draft);
        return;
    }
    if let Err(why) = safety::may_disable_auth(draft.seen) {
        draft.wait(Waiting::Auth(AuthWait::OffRefused(why)));
        keep_on(draft);
        return;
    }
    match look(draft) {
        None => {}
        Some(SeenAuth { enabled: false, .. }) => draft.write_record(Step::L9, |record| {
            (record.auth, record.client_grace, record.spent_disable_auth) = (None, None, Some(cluster));
        }),
        Some(SeenAuth { enabled: true, .. }) => {
            change(draft, Step::L9, AuthChange::Disable);
            draft.wait(changing(AuthChanging::Disabling));
        }
    }
}

/// L4 to L6, one after the other: the first that fails ends the pass. Whether all are seen to be done.
fn make_root(draft: &mut Draft<'_>, root: Root) -> bool {
    let all = [
        (Root::Missing, Step::L4, AuthChange::AddRootUser),
        (Root::NoRole, Step::L5, AuthChange::AddRootRole),
        (Root::NotGranted, Step::L6, AuthChange::GrantRoot),
    ];
    let missing = all.into_iter().find(|(before, ..)| *before == root);
    if let Some((_, step, next)) = missing {
        draft.wait(changing(AuthChanging::MakingRoot));
        change(draft, step, next);
    }
    missing.is_none()
}

/// L8. The record comes first: whoever restarts in between finds auth on, or enables it. The user root is made anew right before: it may have
/// a password of somebody who was let in while auth was off, and nobody can see that. A call that fails, or whose reply is lost, ends the
/// pass, and the next one begins with what it sees.
fn enable(draft: &mut Draft<'_>, seen: &SeenAuth) {
    let gives_time = seen.clients.are_nobodys() && draft.seen.gives_clients_time(&draft.record);
    let begins = if gives_time { ClientGrace::Since(draft.latest()) } else { ClientGrace::Over };
    draft.write_record(Step::L8, |record| {
        record.auth = Some(AuthStage::On);
        record.client_grace.get_or_insert(begins);
    });
    if seen.clients.are_refused() && draft.seen.do_clients_go_on(&draft.record, draft.now) {
        make_clients(draft, seen.clients);
    }
    change(draft, Step::L4, AuthChange::RemoveRootUser);
    change(draft, Step::L4, AuthChange::AddRootUser);
    change(draft, Step::L6, AuthChange::GrantRoot);
    change(draft, Step::L8, AuthChange::Enable);
    draft.wait(changing(AuthChanging::Enabling));
}

fn change(draft: &mut Draft<'_>, step: Step, change: AuthChange) {
    if let Some(via) = draft.via() {
        draft.call(step, via, EtcdCall::Auth { change });
    }
}

/// What was seen of auth in this pass.
fn look(draft: &mut Draft<'_>) -> Option<SeenAuth> {
    let seen = draft.seen.etcd.auth.clone().filter(|seen| safety::is_fresh(seen.at, draft.now));
    if seen.is_none() {
        draft.wait(changing(AuthChanging::Asked));
    }
    seen
}

fn changing(next: AuthChanging) -> Waiting {
    Waiting::Auth(AuthWait::Changing(next))
}
