//! etcd's auth: what may be switched on and off, by what Pods have and what people ordered.

use quorate_api::keys;
use quorate_apistore::fields::{annotation, name, uid};
use quorate_manifests::Kind;
use quorate_manifests::certificate::Certificate;
use quorate_model::Leaf;
use quorate_model::auth::AuthChange;
use serde_json::Value;

use super::World;
use crate::etcd::State;
use crate::oracle::Property;

impl World {
    /// Judges a change by the objects that there are, and not by what the planner knows of them.
    pub(super) fn judge_auth(&mut self, change: AuthChange) {
        let why = match change {
            AuthChange::RemoveRootUser
            | AuthChange::AddRootUser
            | AuthChange::AddRootRole
            | AuthChange::GrantRoot => None,
            AuthChange::Enable => self.without_credential().or_else(|| self.somebody_elses_root()),
            AuthChange::Disable => self.not_ordered_off(),
        };
        if let Some(how) = why {
            self.oracle.add_violation(Property::AuthByOrder, how);
        }
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
