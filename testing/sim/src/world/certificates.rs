//! Who trusts whom. A member reads the authorities that it trusts when its etcd starts, and its leaf at every handshake. So if
//! a leaf comes from another authority than a running member trusts, members that started before and after refuse each other.

use quorate_apistore::fields::{deleting, text};
use quorate_manifests::Kind;
use quorate_manifests::certificate::Certificate;
use quorate_model::{Ca, ClusterRef, Leaf};
use serde_json::Value;

use super::World;
use super::objects::resource;
use crate::etcd::State;
use crate::oracle::Property;
use crate::trust::Trusted;

/// The names of the authorities' Secrets.
pub(crate) fn authorities(at: &ClusterRef) -> [String; 2] {
    Ca::ALL.map(|ca| Certificate::from(ca).secret_name(at))
}

impl World {
    /// Notes what the members that run trust, and checks that they admit every leaf that others present. The person's backups are taken
    /// once.
    pub(crate) fn judge_trust(&mut self) {
        for name in authorities(&self.at) {
            if let Some(secret) = self.object(Kind::Secret, &name)
                && !self.trust.backups.contains_key(&name)
            {
                self.trust.backups.insert(name, Value::clone(&secret));
            }
        }
        let processes = self.etcd.processes().filter(|(_, process)| process.state == State::Running);
        let running: Vec<(String, String)> =
            processes.map(|(at, process)| (at.to_owned(), process.launch.name.clone())).collect();
        self.trust.members.retain(|at, _| running.iter().any(|(running, _)| running == at));
        let Some(now) = self.mounted() else { return };
        for (at, member) in running {
            let trusted = self.trust.members.entry(at).or_insert_with(|| now.trusted.clone()).clone();
            let presented = [
                (Leaf::Peer, &trusted.by_peers),
                (Leaf::Client, &trusted.by_servers),
                (Leaf::Server, &now.by_clients),
            ];
            for (leaf, by) in presented {
                let refused = now.leaf(leaf).is_some_and(|cert| !self.trust.admits(by, cert));
                if refused {
                    let how = format!(
                        "the {leaf} leaf is not of an authority that is trusted by, or at, {member}, which runs"
                    );
                    self.oracle.add_violation(Property::MembersTrustEachOther, how);
                    return;
                }
            }
        }
    }

    /// What Pods that start now find in their Secrets; `None` while one of them is missing.
    fn mounted(&self) -> Option<Mounted> {
        let secret = |leaf: Leaf| self.object(Kind::Secret, &Certificate::from(leaf).secret_name(&self.at));
        let entry = |leaf: Leaf, key: &str| {
            secret(leaf).map(|secret| text(&secret, &format!("/data/{key}")).to_owned())
        };
        let leaves = Leaf::ALL.map(|leaf| (leaf, entry(leaf, "tls.crt")));
        Some(Mounted {
            trusted: Trusted {
                by_servers: entry(Leaf::Server, "ca.crt")?,
                by_peers: entry(Leaf::Peer, "ca.crt")?,
            },
            by_clients: entry(Leaf::Client, "ca.crt")?,
            leaves: leaves.into_iter().filter_map(|(leaf, cert)| Some((leaf, cert?))).collect(),
        })
    }

    /// A person restores the Secret of an authority from a backup, as the runbook says.
    pub(super) fn restore_authority(&mut self) -> Option<String> {
        let cluster = self.object(Kind::Cluster, &self.at.name)?;
        if deleting(&cluster) {
            return None;
        }
        let is_missing = |name: &String| self.object(Kind::Secret, name).is_none();
        let name = authorities(&self.at)
            .into_iter()
            .filter(is_missing)
            .find(|name| self.trust.backups.contains_key(name))?;
        let mut backup = self.trust.backups.get(&name)?.clone();
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            backup["metadata"].as_object_mut().and_then(|metadata| metadata.remove(field));
        }
        let created = self.store.create(&resource(Kind::Secret), &self.at.namespace, backup, false);
        created.ok().map(|_| format!("a person restores Secret {name} from a backup"))
    }
}

/// The content of the leaves' Secrets.
struct Mounted {
    trusted: Trusted,
    /// The authorities by which clients know members.
    by_clients: String,
    leaves: Vec<(Leaf, String)>,
}

impl Mounted {
    fn leaf(&self, leaf: Leaf) -> Option<&str> {
        self.leaves.iter().find(|(own, _)| *own == leaf).map(|(_, cert)| cert.as_str())
    }
}
