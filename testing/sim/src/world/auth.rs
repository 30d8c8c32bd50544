//! etcd's auth: what may be switched on and off, by what Pods have and what people ordered.

use std::collections::BTreeSet;

use quorate_api::{duration, keys};
use quorate_apistore::fields::{annotation, name, uid};
use quorate_manifests::Kind;
use quorate_manifests::certificate::Certificate;
use quorate_model::auth::{
    AuthChange, AuthPolicy, AuthStage, ClientGrace, Clients, Marked, Orphan, SeenAuth,
};
use quorate_model::{Leaf, Span};
use serde_json::Value;

use super::World;
use super::faults::Planted;
use crate::etcd::{Group, State, Stored};
use crate::oracle::Property;

/// The user of the EtcdUser that there may be.
pub(super) fn of_etcd_user() -> Marked {
    Marked::new("billing", "0000beef")
}

impl World {
    /// Judges a change by the objects that there are, and not by what the planner knows of them.
    pub(super) fn judge_auth(&mut self, change: AuthChange) {
        let why = match change {
            AuthChange::RemoveRootUser
            | AuthChange::AddRootUser
            | AuthChange::AddRootRole
            | AuthChange::GrantRoot
            | AuthChange::AddClientRole
            | AuthChange::GrantClientKeys
            | AuthChange::AddClientUser
            | AuthChange::GrantClient => None,
            AuthChange::RemoveClientUser | AuthChange::RemoveClientRole => {
                return self.judge_time_of_clients(true);
            }
            AuthChange::Enable => {
                self.judge_time_of_clients(false);
                self.without_credential().or_else(|| self.somebody_elses_root())
            }
            AuthChange::Disable => self.not_ordered_off(),
        };
        if let Some(how) = why {
            self.oracle.add_violation(Property::AuthByOrder, how);
        }
    }

    /// What the operator sees of auth where a member has this. The API server has the EtcdUsers that there are.
    pub(super) fn seen_of_auth(&self, stored: Stored) -> SeenAuth {
        let users = if stored.auth { stored.users } else { BTreeSet::new() };
        let orphans = users.into_iter().filter(|user| !self.faults.etcd_users.contains(user));
        SeenAuth {
            root: stored.root,
            clients: stored.clients,
            others: stored.other_roots,
            orphans: orphans.map(|user| (user, Orphan::Confirmed)).collect(),
            ..SeenAuth::new(self.operators_time(), stored.auth)
        }
    }

    /// Only who has no EtcdUser is revoked, and only where the spec does not keep such users.
    pub(super) fn judge_revocation(&mut self, user: &Marked) {
        if self.faults.etcd_users.contains(user) {
            let how = format!("user {} is revoked, and its EtcdUser exists", user.user());
            self.oracle.add_violation(Property::OnlyOrphansAreRevoked, how);
        }
        if self.keeps_orphans() {
            let how = format!("user {} is revoked, and the spec keeps such users", user.user());
            self.oracle.add_violation(Property::OnlyOrphansAreRevoked, how);
        }
    }

    fn keeps_orphans(&self) -> bool {
        let cluster = self.object(Kind::Cluster, &self.at.name);
        cluster.is_some_and(|cluster| cluster["spec"]["auth"]["afterRestore"] == "Keep")
    }

    /// A user without an EtcdUser that is let in though nobody wants that, if there is one.
    pub(crate) fn left_orphan(&self) -> Option<String> {
        let record = self.record();
        let tip = self.etcd.group(record.cluster_id?)?.tip();
        if record.auth != Some(AuthStage::On) || self.keeps_orphans() {
            return None;
        }
        let left = tip.users.iter().find(|user| !self.faults.etcd_users.contains(*user))?;
        Some(format!("user {} is let in, and has no EtcdUser", left.user()))
    }

    /// A user comes to be in etcd.
    pub(super) fn plant_user(&mut self, planted: Planted) -> bool {
        let Some(cluster) = self.record().cluster_id else { return false };
        let user = match planted {
            Planted::Orphan => Ok(Marked::new("gone", "0000dead")),
            Planted::OfEtcdUser => Ok(of_etcd_user()),
            Planted::ByHand => Err("person".to_owned()),
        };
        let Some(tip) = self.etcd.group(cluster).map(Group::tip) else { return false };
        let is_there = match &user {
            Ok(user) => tip.users.contains(user),
            Err(user) => tip.by_hand.contains(user),
        };
        if let (Planted::OfEtcdUser, Ok(user)) = (planted, &user) {
            self.faults.etcd_users.insert(user.clone());
        }
        !is_there && self.etcd.plant_user(cluster, user)
    }

    /// Whoever was served with the certificate that applications share is not refused before the time is over that the spec gives, unless a
    /// person says that all are users.
    fn judge_time_of_clients(&mut self, they_go: bool) {
        let Some(cluster) = self.object(Kind::Cluster, &self.at.name) else { return };
        let record = self.record();
        let Some(group) = record.cluster_id.and_then(|id| self.etcd.group(id)) else { return };
        let id = cluster["status"]["clusterID"].as_str();
        let are_users = id.is_some() && annotation(&cluster, keys::CLIENTS_ARE_USERS) == id;
        let grace = cluster["spec"]["auth"]["clientGrace"].as_str().and_then(duration::seconds);
        let grace = grace.map_or(AuthPolicy::CLIENT_GRACE, Span::seconds);
        // From its first attempt on it had auth, and served nobody without.
        let had_none = record.client_grace == Some(ClientGrace::Over);
        let (is_on, clients) = (group.tip().auth, group.tip().clients);
        let since = if is_on { self.faults.auth_since } else { None };
        let is_over = since.map_or(grace == Span(0), |since| self.now >= since + grace);
        let refuses = if they_go { is_on && !clients.are_refused() } else { clients.are_refused() };
        if !they_go && !is_on {
            self.faults.auth_since.get_or_insert(self.now);
        }
        if refuses && !are_users && !is_over && !had_none {
            let how = "the certificate that applications share is refused before the time of clients is over"
                .to_owned();
            self.oracle.add_violation(Property::ClientsHaveTime, how);
        }
    }

    /// At rest the user of clients is there as long as the record gives them time, and no longer.
    pub(crate) fn clients_not_as_they_should_be(&self) -> Option<String> {
        let record = self.record();
        let tip = self.etcd.group(record.cluster_id?)?.tip();
        let is_on = record.auth == Some(AuthStage::On) && tip.auth;
        let should_be = match record.client_grace? {
            ClientGrace::Since(_) => Clients::OfGrace,
            ClientGrace::Over => Clients::NoUser,
        };
        (is_on && tip.clients != should_be)
            .then(|| format!("clients are {:?}, and should be {should_be:?}", tip.clients))
    }

    /// The Pod of a member that runs without the credential of root, if there is one: its agent is nobody once auth is on.
    fn without_credential(&self) -> Option<String> {
        let own = Certificate::from(Leaf::Operator).secret_name(&self.at);
        let has = |pod: &Value| {
            let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
            volumes.into_iter().any(|volume| volume["secret"]["secretName"] == own.as_str())
        };
        let runs =
            |pod: &Value| self.etcd.process(uid(pod)).is_some_and(|process| process.state == State::Running);
        let pods = self.objects(Kind::Pod);
        let lacks = pods.iter().find(|pod| runs(pod) && !has(pod))?;
        Some(format!("auth is enabled, and Pod {} has no credential", name(lacks)))
    }

    /// Who else would do everything once auth is on, if there is somebody.
    fn somebody_elses_root(&self) -> Option<String> {
        let cluster = self.record().cluster_id?;
        let group = self.etcd.group(cluster)?;
        if group.tip().root_has_password {
            return Some("auth is enabled, and the user root has a password of somebody's".to_owned());
        }
        let other = group.tip().other_roots.first()?;
        Some(format!("auth is enabled, and {other} has the role root"))
    }

    fn not_ordered_off(&self) -> Option<String> {
        let cluster = self.object(Kind::Cluster, &self.at.name)?;
        let id = cluster["status"]["clusterID"].as_str();
        let is_ordered = id.is_some() && annotation(&cluster, keys::DISABLE_AUTH) == id;
        let is_wanted = cluster["spec"]["auth"]["enabled"] == true;
        if !is_ordered || is_wanted {
            return Some("auth is disabled, and nobody has ordered that".to_owned());
        }
        let finalizers = cluster["metadata"]["finalizers"].as_array().into_iter().flatten();
        let has_tenants = finalizers.into_iter().any(|finalizer| finalizer == keys::DATA_STORE_FINALIZER);
        has_tenants.then(|| "auth is disabled, and tenants of a DataStore read each other's data".to_owned())
    }
}
