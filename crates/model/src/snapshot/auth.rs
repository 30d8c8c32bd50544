//! etcd's auth, switched on by a person, refuses an operator that is no user: without a client certificate it has no name.
//!
//! In 3.5.35, 3.6.16 and 3.7.3 Status and the member list need any user (`requireAuthInfo`), for which the common name of a client certificate
//! is enough; membership, moves of leadership and hashes need one with the role root (`IsAdminPermitted`). Earlier releases of each line
//! answer some of these to anybody.

use super::Snapshot;
use crate::auth::{AuthPolicy, AuthStage, ClientGrace, Clients, SeenAuth};
use crate::names::MemberName;
use crate::quorum::has_quorum;
use crate::record::{Record, Stage};
use crate::time::{Instant, Span};

/// What etcd answers with auth enabled to who is no user.
const NEEDS_USER: [&str; 3] =
    ["etcdserver: user name is empty", "etcdserver: permission denied", "etcdserver: invalid auth token"];

/// A cluster whose auth refuses the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptOutByAuth {
    /// The voters that refuse its calls. That is an answer of a living member.
    pub refuse: usize,
    /// The voters whose Pods are ready: the agent's probe takes such a refusal for an answer, too.
    pub ready: usize,
    /// The voters there are.
    pub voters: usize,
    /// Whether the operator has a client certificate.
    pub tls: bool,
    /// In etcd's words.
    pub why: String,
}

/// How often it is looked at, where nothing is to be changed, whether auth is still on, or still off: three entries of etcd's log at most.
/// Only where the member list is read, so an idle cluster has none.
const LOOKED_AT: Span = Span::seconds(600);

/// The same where a person enabled it, whose end is told soon, and where users are to be revoked.
const LOOKED_AT_WHERE_DUE: Span = Span::seconds(60);

impl Snapshot {
    /// Whether it is time to look at etcd's auth, of which the operator knows this: at each pass while it is switched on or off.
    pub fn asks_for_auth(&self, known: Option<&SeenAuth>, now: Instant) -> bool {
        let is_within = |seen: &SeenAuth, span: Span| seen.at <= now && now - seen.at < span;
        if !self.record.has_credential() {
            let span = |seen: &SeenAuth| if seen.enabled { LOOKED_AT_WHERE_DUE } else { LOOKED_AT };
            return self.record.is_bootstrapped() && !known.is_some_and(|seen| is_within(seen, span(seen)));
        }
        let is_due = |seen: &SeenAuth| {
            let has_orphans = !self.auth_policy.keeps_orphans && seen.has_orphans_to_go();
            has_orphans || self.are_clients_due(&self.record, seen, now)
        };
        let span = |seen: &SeenAuth| if is_due(seen) { LOOKED_AT_WHERE_DUE } else { LOOKED_AT };
        let is_known = known.is_some_and(|seen| seen.enabled && is_within(seen, span(seen)));
        let is_to_go = self.is_auth_ordered_off(&self.record) && !self.may_have_data_store;
        let stays_on = self.record.auth == Some(AuthStage::On) && !is_to_go;
        !(stays_on && is_known)
    }

    /// Until when clients with the certificate that applications share go on as before auth was enabled, if they do.
    pub fn clients_go_on_until(&self, record: &Record) -> Option<Instant> {
        let Some(ClientGrace::Since(since)) = record.client_grace else { return None };
        self.gives_clients_time(record).then(|| since + self.auth_policy.client_grace)
    }

    /// Whether they are given any: the spec has some, and no person says that they are users by now.
    pub fn gives_clients_time(&self, record: &Record) -> bool {
        let AuthPolicy { client_grace, clients_are_users, .. } = self.auth_policy;
        let are_users = clients_are_users.is_some() && clients_are_users == record.cluster_id;
        client_grace > Span(0) && !are_users
    }

    /// Whether they do now, by one of both clocks.
    pub fn do_clients_go_on(&self, record: &Record, now: Instant) -> bool {
        self.clients_go_on_until(record).is_some_and(|until| self.present(now).earliest < until)
    }

    /// Whether their user is not as it should be.
    pub fn are_clients_due(&self, record: &Record, seen: &SeenAuth, now: Instant) -> bool {
        if self.do_clients_go_on(record, now) {
            seen.clients.are_refused()
        } else {
            seen.clients == Clients::OfGrace
        }
    }

    /// Whether a person has ordered auth off: by the spec, and by an annotation that is not spent.
    pub fn is_auth_ordered_off(&self, record: &Record) -> bool {
        let AuthPolicy { wanted, disable, .. } = self.auth_policy;
        !wanted && disable.is_some() && disable == record.cluster_id && disable != record.spent_disable_auth
    }

    /// Whether auth was last seen enabled, and neither the spec nor the record has it: a person enabled it, or a snapshot had it.
    pub fn is_auth_not_ours(&self, record: &Record) -> bool {
        let is_ours = self.auth_policy.wanted || record.has_credential();
        !is_ours && self.etcd.auth.as_ref().is_some_and(|seen| seen.enabled)
    }

    /// Whether auth refuses the operator, so that it has no member list. Then it knows nothing of a quorum, and a lost one is not to be told.
    /// Where fewer than a quorum of the voters refuse, the others are what is missing.
    pub fn kept_out_by_auth(&self, record: &Record, now: Instant) -> Option<KeptOutByAuth> {
        if self.list(now).is_some() {
            return None;
        }
        let counts = |stage| matches!(stage, Stage::Voter | Stage::Leaving(_));
        let voters = record.members.iter().filter(|(_, member)| counts(member.stage) && member.id.is_some());
        let voters: Vec<&MemberName> = voters.map(|(name, _)| name).collect();
        let refusals = || voters.iter().filter_map(|voter| self.auth_refusal(voter));
        let by_list = self.etcd.list_failure.as_deref().filter(|why| needs_user(why));
        // Older releases answer Status, and refuse the list alone.
        let answers = voters.iter().filter(|voter| self.status_of(voter, now).is_some()).count();
        let refuse = refusals().count() + by_list.map_or(0, |_| answers);
        let why = refusals().next().or(by_list)?.to_owned();
        let is_ready = |voter: &&&MemberName| {
            self.pods.get(**voter).is_some_and(|pod| pod.ready && !pod.terminating && pod.read_only.is_none())
        };
        let ready = voters.iter().filter(is_ready).count();
        let tls = record.target.as_ref().is_some_and(|target| target.tls);
        has_quorum(refuse, voters.len()).then_some(KeptOutByAuth {
            refuse,
            ready,
            voters: voters.len(),
            tls,
            why,
        })
    }

    /// Whether a member answers that its auth refuses the operator.
    pub fn refuses_by_auth(&self, member: &MemberName) -> bool {
        self.auth_refusal(member).is_some()
    }

    /// What a member answered, if its auth refuses the operator.
    fn auth_refusal(&self, member: &MemberName) -> Option<&str> {
        let reply = self.etcd.answers.get(member)?.reply.as_ref().err()?;
        needs_user(reply).then_some(reply)
    }
}

/// Whether etcd refuses, in these words, who is no user of it.
pub fn needs_user(why: &str) -> bool {
    NEEDS_USER.iter().any(|text| why.contains(text))
}
