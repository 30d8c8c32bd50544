//! Who trusts whom. A member reads the authorities that it trusts when its etcd starts, and its leaf at every handshake. So if
//! a leaf comes from another authority than a running member trusts, members that started before and after refuse each other.

use quorate_apistore::fields::{deleting, text};
use quorate_manifests::Kind;
use quorate_model::{ClusterRef, Leaf};
use serde_json::Value;

use super::World;
use super::objects::resource;
use crate::etcd::State;
use crate::oracle::Property;

/// The name of the authority's Secret.
fn authority(at: &ClusterRef) -> String {
    format!("{}-ca", at.name)
}

impl World {
    /// Notes what the members that run trust, and checks that every leaf fits to it. The person's backup is taken once.
    pub(crate) fn judge_trust(&mut self) {
        let secret = self.object(Kind::Secret, &authority(&self.at));
        if let Some(secret) = secret.filter(|_| self.trust.backup.is_none()) {
            self.trust.backup = Some(Value::clone(&secret));
        }
        let leaves = Leaf::ALL.map(|leaf| self.object(Kind::Secret, &format!("{}-{leaf}-tls", self.at.name)));
        let of_leaves: Vec<&str> = leaves.iter().flatten().map(|leaf| text(leaf, "/data/ca.crt")).collect();
        let processes = self.etcd.processes().filter(|(_, process)| process.state == State::Running);
        let running: Vec<(String, String)> =
            processes.map(|(at, process)| (at.to_owned(), process.launch.name.clone())).collect();
        self.trust.members.retain(|at, _| running.iter().any(|(running, _)| running == at));
        for (at, member) in running {
            let Some(now) = of_leaves.first() else { return };
            let trusted = self.trust.members.entry(at).or_insert_with(|| (*now).to_owned());
            if of_leaves.iter().any(|leaf| leaf != trusted) {
                let how = format!("a leaf has another authority than {member}, which runs, trusts");
                self.oracle.add_violation(Property::MembersTrustEachOther, how);
                return;
            }
        }
    }

    /// A person restores the Secret of the authority from a backup, as the runbook says.
    pub(super) fn restore_authority(&mut self) -> Option<String> {
        let cluster = self.object(Kind::Cluster, &self.at.name)?;
        if deleting(&cluster) || self.object(Kind::Secret, &authority(&self.at)).is_some() {
            return None;
        }
        let mut backup = self.trust.backup.clone()?;
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            backup["metadata"].as_object_mut().and_then(|metadata| metadata.remove(field));
        }
        let created = self.store.create(&resource(Kind::Secret), &self.at.namespace, backup, false);
        created.ok().map(|_| "a person restores the certificate authority from a backup".to_owned())
    }
}
