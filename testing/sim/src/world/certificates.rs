//! Who trusts whom. A member reads the authorities that it trusts when its etcd starts, and its leaf at every handshake. So if
//! a leaf comes from another authority than a running member trusts, members that started before and after refuse each other.

use k8s_openapi::ByteString;
use quorate_api::keys;
use quorate_apistore::fields::{annotation, deleting, text, uid};
use quorate_apistore::store::{DeleteOptions, Part};
use quorate_manifests::Kind;
use quorate_manifests::certificate::Certificate;
use quorate_manifests::certificate::rotation::Shown;
use quorate_model::snapshot::Pod;
use quorate_model::{Ca, ClusterRef, Leaf};
use serde_json::{Value, json};

use super::World;
use super::objects::{key, resource};
use super::other_operator::is_of_other_operator;
use crate::etcd::State;
use crate::oracle::Property;
use crate::trust::Mounted;

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
                && !self.trust.without_backups
                && !self.trust.backups.contains_key(&name)
                && !is_of_other_operator(&secret)
            {
                self.trust.backups.insert(name, Value::clone(&secret));
            }
        }
        let processes = self.etcd.processes().filter(|(_, process)| process.state == State::Running);
        let running: Vec<(String, String)> =
            processes.map(|(at, process)| (at.to_owned(), process.launch.name.clone())).collect();
        self.trust.members.retain(|at, _| running.iter().any(|(running, _)| running == at));
        let Some(content) = self.secrets_of_leaves() else { return };
        self.trust.change_mounts(content, self.now);
        for (at, _) in &running {
            if !self.trust.members.contains_key(at) {
                let waits_for = self.trust_of_pod(at);
                let trusted = self.trust.mounted_at_start(waits_for, self.now);
                self.trust.members.extend(trusted.map(|trusted| (at.clone(), trusted)));
            }
        }
        let presented: Vec<Mounted> =
            running.iter().filter_map(|(at, _)| self.trust.presented_by(at, self.now)).collect();
        self.judge_late_client(&presented);
        let Some(now) = self.trust.now().cloned() else { return };
        for (at, member) in running {
            let Some(own) = self.trust.members.get(&at).cloned() else { continue };
            // Each other member is a peer with what its kubelet has brought; the operator is a client with what the Secret has.
            let peers = presented.iter().map(|other| (Leaf::Peer, &own.peers_ca, &other.peer));
            let clients = presented.iter().map(|other| (Leaf::Client, &own.server_ca, &other.client));
            let operator = [(Leaf::Client, &own.server_ca, &now.client)];
            let servers = presented.iter().map(|other| (Leaf::Server, &now.client_ca, &other.server));
            let mut all = peers.chain(clients).chain(operator).chain(servers);
            let refused = all.find(|(_, by, cert)| !self.trust.admits(by, cert)).map(|(leaf, ..)| leaf);
            if let Some(leaf) = refused {
                let how = format!(
                    "a {leaf} leaf is not of an authority that is trusted by, or at, {member}, which runs"
                );
                self.oracle.add_violation(Property::MembersTrustEachOther, how);
                return;
            }
            if let Some(own) = self.trust.presented_by(&at, self.now)
                && !self.trust.is_known_to_operators(&own.server)
            {
                let how = format!("{member} presents what neither its agent nor the operator can verify");
                self.oracle.add_violation(Property::MembersTrustEachOther, how);
                return;
            }
        }
    }

    /// Whether each bundle, and each process that runs, has the recorded authority of its port and nothing else, where no rotation is recorded.
    pub(crate) fn trusts_only_what_is_recorded(&self) -> Result<(), String> {
        let record = self.record();
        // What is recorded of a lost status again comes from bundles, and nothing is while the cluster is paused or hibernates.
        let waits = self.cluster().is_some_and(|cluster| cluster.spec.paused || cluster.spec.size == 0);
        if record.rotation.is_some() || (record.authority_of(Ca::Clients).is_none() && waits) {
            return Ok(());
        }
        let judge = |leaf: Leaf, bundle: &str, whose: &str| {
            let of_clients = record.authority_of(Ca::Clients);
            let recorded = record.authority_of(leaf.ca()).or(of_clients);
            let found = crate::trust::fingerprints(bundle);
            if found.iter().eq(recorded) {
                Ok(())
            } else {
                Err(format!("{whose} trusts {found:?}, and status records {recorded:?}"))
            }
        };
        for leaf in record.leaves() {
            let name = Certificate::from(leaf).secret_name(&self.at);
            let Some(secret) = self.object(Kind::Secret, &name) else { continue };
            judge(leaf, text(&secret, "/data/ca.crt"), &name)?;
        }
        let running = self.etcd.processes().filter(|(_, process)| process.state == State::Running);
        for (at, process) in running {
            let Some(own) = self.trust.members.get(at) else { continue };
            judge(Leaf::Server, &own.server_ca, &process.launch.name)?;
            judge(Leaf::Peer, &own.peers_ca, &process.launch.name)?;
        }
        Ok(())
    }

    /// The content of the leaves' Secrets; `None` while one of them is missing.
    fn secrets_of_leaves(&self) -> Option<Mounted> {
        let secret = |leaf: Leaf| self.object(Kind::Secret, &Certificate::from(leaf).secret_name(&self.at));
        let [server, peer, client] = [secret(Leaf::Server)?, secret(Leaf::Peer)?, secret(Leaf::Client)?];
        let entry = |secret: &Value, key: &str| text(secret, &format!("/data/{key}")).to_owned();
        let generation = |secret: &Value| {
            let text = serde_json::from_value::<ByteString>(secret["data"]["trust"].clone());
            text.ok().and_then(|text| String::from_utf8_lossy(&text.0).parse().ok()).unwrap_or(0)
        };
        Some(Mounted {
            server_ca: entry(&server, "ca.crt"),
            peers_ca: entry(&peer, "ca.crt"),
            client_ca: entry(&client, "ca.crt"),
            server: entry(&server, "tls.crt"),
            peer: entry(&peer, "tls.crt"),
            client: entry(&client, "tls.crt"),
            generation: [&server, &peer, &client]
                .map(|secret| generation(secret))
                .into_iter()
                .min()
                .unwrap_or(0),
        })
    }

    /// The generation of trust that the agent in a Pod waits for.
    fn trust_of_pod(&self, at: &str) -> u32 {
        let pods = self.objects(Kind::Pod);
        let pod = pods.iter().find(|pod| uid(pod) == at);
        pod.and_then(|pod| annotation(pod, keys::TRUST)?.parse().ok()).unwrap_or(0)
    }

    /// What a handshake at a port of a Pod's process shows.
    pub(in crate::world) fn shown(&self, pod: &Pod, ca: Ca) -> Result<Shown, String> {
        let at = pod.uid.as_str();
        self.ask(pod)?;
        let trusted = self.trust.members.get(at).ok_or("nothing runs")?;
        let presented = self.trust.presented_by(at, self.now).ok_or("nothing is mounted")?;
        let (bundle, leaf) = match ca {
            Ca::Clients => (&trusted.server_ca, &presented.server),
            Ca::Peers => (&trusted.peers_ca, &presented.peer),
        };
        Ok(crate::trust::shown(leaf, bundle))
    }

    /// A person writes a Secret of the cluster's, or removes it.
    pub(super) fn put_secret(&mut self, name: &str, data: &Value) -> Result<(), String> {
        self.trust.know(data);
        let key = key(Kind::Secret, &self.at, name);
        let there = self.object(Kind::Secret, name).is_some();
        let done = match (there, data.is_null()) {
            (true, true) => self.store.delete(&key, &DeleteOptions::default()).map(drop),
            (false, true) => return Ok(()),
            (true, false) => return self.change(&key, Part::Main, |secret| secret["data"] = data.clone()),
            (false, false) => {
                let labels = json!({ keys::CLUSTER: self.at.name });
                let metadata = json!({ "name": name, "namespace": self.at.namespace, "labels": labels });
                let secret = json!({ "metadata": metadata, "data": data });
                self.store.create(&resource(Kind::Secret), &self.at.namespace, secret, false).map(drop)
            }
        };
        done.map_err(|error| error.message)
    }

    /// The person has no backup of any Secret, and takes none.
    pub fn forget_backups(&mut self) {
        self.trust.without_backups = true;
        self.trust.backups.clear();
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
