//! R24: a client of the client Service is served while a quorum serves. A client is pinned to each endpoint, as a gRPC connection is:
//! what it can do is judged by etcd's state, and where it is sent by the Service's selector and the labels and readiness of the Pods.

use std::collections::BTreeSet;

use quorate_api::keys;
use quorate_apistore::fields::{annotation, condition, deleting, name, text, uid};
use quorate_apistore::selectors::map_selects;
use quorate_manifests::Kind;
use quorate_model::quorum::has_quorum;
use quorate_model::{Effect, EtcdCall, KubeEffect, Plan, Snapshot, Span};

use super::{Property, Truth};
use crate::etcd::Conf;
use crate::world::World;
use crate::world::faults::Unread;

/// How long an endpoint may fail while a quorum serves. The operator gives a member half a minute, and looks every ten seconds at what is
/// not well.
const FAILS_FOR: Span = Span::seconds(45);

/// How long an established connection may be to a member that serves nothing, while a quorum serves: new ones are led away, then it is restarted.
const HELD_FOR: Span = Span::seconds(100);

/// How much longer where a clock was set: the wait is noted by the later clock, and is over by the earlier one.
const BY_BOTH_CLOCKS: Span = Span::seconds(2 * 400);

/// How long clients have to go elsewhere before their member is removed, at least.
const LEAVE_WITHIN: Span = Span::seconds(2);

impl World {
    /// Notes which Pods are endpoints of the client Service, and behind which of them a client is not served though a quorum serves.
    pub(crate) fn see_clients(&mut self) {
        let endpoints = self.endpoints();
        let now = self.now;
        self.oracle.endpoint_until.extend(endpoints.iter().map(|at| (at.clone(), now)));
        let connected = self.connected();
        let misled = self.misled(&connected);
        self.oracle.misled_since.retain(|at, _| misled.contains(at));
        for at in misled {
            self.oracle.misled_since.entry(at).or_insert(now);
        }
    }

    /// Notes what the operator knew of clients' writes when it decided that the cluster sleeps.
    pub(crate) fn note_sleep(&mut self, observed: &Snapshot, plan: &Plan) {
        let begins = plan.record.hibernating && !observed.record.hibernating;
        let Some(cluster) = plan.record.cluster_id.filter(|_| begins && !plan.record.is_in_memory()) else {
            return;
        };
        let Some(group) = self.etcd.group(cluster) else { return };
        let replies = observed.etcd.answers.values().filter_map(|answer| answer.reply.as_ref().ok());
        let revision =
            replies.filter(|reply| reply.cluster_id == cluster).map(|reply| reply.revision.0).max();
        // Where no member answered, nothing is known.
        let Some(revision) = revision else { return };
        let held = i64::try_from(group.writes().count()).unwrap_or(i64::MAX);
        let later = usize::try_from(group.revision() - revision).unwrap_or(0);
        let known = usize::try_from(held).unwrap_or(0).saturating_sub(later);
        let last = group.writes().take(known).max().map(|write| (cluster, write));
        self.oracle.slept_with = self.oracle.slept_with.filter(|(of, _)| *of == cluster).max(last);
    }

    /// Checks that no client is sent to a cluster that woke with less than it was stopped with, unless a person accepts that.
    pub(crate) fn judge_data_that_went_back(&mut self) {
        let Some((cluster, last)) = self.oracle.slept_with else { return };
        let Some(group) = self.etcd.group(cluster) else { return };
        let Some(lost) = group.lost().iter().find(|write| **write <= last).copied() else { return };
        let object = self.object(Kind::Cluster, &self.at.name);
        let accepted = object.as_deref().and_then(|object| annotation(object, keys::ACCEPT_DATA_LOSS));
        if accepted == Some(&format!("{cluster}/{}", group.revision())) {
            self.oracle.slept_with = None;
        } else if self.record().cluster_id == Some(cluster) && !self.endpoints().is_empty() {
            let how = format!(
                "clients are sent to cluster {cluster}, which woke without acknowledged write {lost}"
            );
            self.oracle.add_violation(Property::DataDoNotGoBack, how);
        }
    }

    /// Another operator has begun, which knows only what it observes.
    pub(crate) fn clients_wait_anew(&mut self) {
        self.oracle.misled_since.clear();
    }

    /// Checks, when the operator has nothing left to do, that no endpoint has failed for long.
    pub(crate) fn judge_clients(&mut self) {
        self.see_clients();
        if !self.leads_clients() {
            return;
        }
        let endpoints = self.endpoints();
        let may_restart = self.may_restart_who_misleads();
        let held_for = if self.oracle.clock_was_set { Span(HELD_FOR.0 + BY_BOTH_CLOCKS.0) } else { HELD_FOR };
        let how = self.oracle.misled_since.iter().find_map(|(at, since)| {
            let failed_for = self.now - *since;
            if endpoints.contains(at) && failed_for > FAILS_FOR {
                Some(format!(
                    "clients are sent to Pod {at} for more than {FAILS_FOR}, where no quorum serves them"
                ))
            } else if may_restart && failed_for > held_for {
                Some(format!(
                    "established connections are to Pod {at} for more than {held_for}, where no quorum serves them"
                ))
            } else {
                None
            }
        });
        if let Some(how) = how {
            self.oracle.add_violation(Property::ClientsAreServed, how);
        }
    }

    /// Checks that a member that serves clients is removed only when they are sent elsewhere for a while. What another operator, or a
    /// request that came late, has written to its Pod since it was observed is not this one's doing: etcd knows no preconditions.
    pub(crate) fn judge_removal_of_clients(&mut self, observed: &Snapshot, plan: &Plan, effect: &Effect) {
        let Some(EtcdCall::RemoveMember { member, .. }) = effect.as_etcd() else { return };
        // A rogue planner waits for nobody, and what it shows is about data.
        if self.rogue_planner {
            return;
        }
        self.see_clients();
        let Some(pod) = self.object(Kind::Pod, member.as_str()).filter(|pod| !deleting(pod)) else { return };
        let leads_there = |effect: &Effect| match effect.as_kube() {
            Some(KubeEffect::LabelServes { member: to, .. }) => to == member,
            Some(_) | None => false,
        };
        let is_own_doing = plan.effects.iter().any(leads_there);
        let as_observed = observed
            .pods
            .get(member)
            .is_some_and(|seen| seen.resource_version == text(&pod, "/metadata/resourceVersion"));
        if !as_observed && !is_own_doing {
            return;
        }
        let serves = condition(&pod, "Ready") == "True" && self.etcd.serves_client_at(uid(&pod));
        let until = self.oracle.endpoint_until.get(uid(&pod));
        if serves && until.is_some_and(|until| self.now - *until < LEAVE_WITHIN) {
            let how = format!("{effect}, to which clients were sent a moment ago");
            self.oracle.add_violation(Property::ClientsAreServed, how);
        }
    }

    /// Whether the operator may restart the only member that serves nothing: all others serve, nobody joins, and no data would go with the Pod.
    /// Under an alarm CORRUPT the others take no writes either.
    fn may_restart_who_misleads(&self) -> bool {
        let (record, truth) = (self.record(), Truth::of(self));
        let sick = truth.conf.iter().flat_map(Conf::voters).filter(|voter| !truth.is_healthy(*voter));
        let any_claim_goes = self.objects(Kind::Volume).iter().any(|claim| deleting(claim));
        // Before a Pod ends, the Pods and its claim are read.
        let are_read = self.faults.unread.is_disjoint(&BTreeSet::from([Unread::Pods, Unread::Claims]));
        are_read
            && sick.count() == 1
            && truth.corrupt_alarms.is_empty()
            && record.joining().is_none()
            && !record.is_in_memory()
            && !any_claim_goes
    }

    /// The Pods, by uid, that clients are connected to: a connection outlives its endpoint for as long as the process lives.
    fn connected(&self) -> BTreeSet<String> {
        let runs =
            |pod: &&std::sync::Arc<serde_json::Value>| condition(pod, "Ready") == "True" && !deleting(pod);
        let pods = self.objects(Kind::Pod);
        let running = pods.iter().filter(runs).map(|pod| uid(pod).to_owned());
        running.filter(|at| self.oracle.endpoint_until.contains_key(at)).collect()
    }

    /// The Pods, by uid, that the client Service sends clients to.
    fn endpoints(&self) -> BTreeSet<String> {
        let service = self.object(Kind::Service, &format!("{}-client", self.at.name));
        let Some(service) = service.filter(|service| !deleting(service)) else { return BTreeSet::new() };
        let pods = self.objects(Kind::Pod);
        let is_endpoint = |pod: &serde_json::Value| {
            map_selects(service.pointer("/spec/selector"), pod)
                && condition(pod, "Ready") == "True"
                && !deleting(pod)
        };
        pods.iter().filter(|pod| is_endpoint(pod)).map(|pod| uid(pod).to_owned()).collect()
    }

    /// The endpoints behind which a client is not served, if those that serve are a quorum of the voters.
    fn misled(&self, endpoints: &BTreeSet<String>) -> BTreeSet<String> {
        let record = self.record();
        let Some(group) = record.cluster_id.and_then(|id| self.etcd.group(id)) else {
            return BTreeSet::new();
        };
        let pods = self.objects(Kind::Pod);
        let is_voter = |at: &String| {
            let named = pods.iter().find(|pod| uid(pod) == at).map(|pod| name(pod).to_owned());
            named.is_some_and(|named| record.voters().any(|voter| voter.as_str() == named))
        };
        let serves = |at: &&String| self.etcd.serves_client_at(at);
        let (serving, failing): (BTreeSet<&String>, BTreeSet<&String>) =
            endpoints.iter().filter(|at| is_voter(at)).partition(serves);
        let voters = group.conf().voters().count();
        if has_quorum(serving.len(), voters) {
            failing.into_iter().cloned().collect()
        } else {
            BTreeSet::new()
        }
    }

    /// Whether the operator may change where clients are sent: nothing but restarts is left to it otherwise.
    fn leads_clients(&self) -> bool {
        let record = self.record();
        let cluster = self.object(Kind::Cluster, &self.at.name);
        cluster.is_some_and(|cluster| !deleting(&cluster))
            && !self.is_paused()
            && !record.hibernating
            && record.next_incarnation.is_none()
            && record.quorum_recovery.is_none()
            && !self.faults.status_lost
            && self.faults.foreign.is_empty()
            && self.faults.refused.is_empty()
    }
}
