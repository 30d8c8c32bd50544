//! What the agent of a Pod does while a lost quorum is recovered: etcd does not start in it. It reports what the volume has, or makes a
//! snapshot of that on the volume.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use quorate_api::destination::Destination;
use quorate_api::job::{
    Answer, ExtractOrder, Failure, FailureKind, Manifest, ORDER, RecoverOrder, StoredLog,
};
use quorate_apistore::fields::{items, name, text, uid};
use quorate_manifests::Kind;
use quorate_model::incarnation::Order;
use quorate_model::quorum_recovery::RecoverFrom;
use quorate_model::{ClusterId, MemberName};
use serde_json::Value;

use super::World;
use super::kubelet::flags;
use crate::etcd::{Dir, Entry, Group, Snap};
use crate::oracle::Property;

/// A snapshot that an agent has made on the volume of a member.
#[derive(Clone, Debug, Hash)]
pub(super) struct Extracted {
    /// The data directory that it was made of, on the same volume.
    dir: String,
    key: String,
    sha256: String,
    snap: Arc<Snap>,
}

impl World {
    /// The answer of the agent, if the Pod is one of a recovery.
    pub(super) fn recover(&mut self, pod: &Value, dir: &str, seen: bool) -> Option<Result<String, String>> {
        let order = order(pod)?;
        let in_use = self.etcd.processes().any(|(_, process)| process.launch.dir == dir);
        let text = |answer: Answer| serde_json::to_string(&answer).expect("it is plain data");
        let answer = if in_use {
            Err(Failure::new(FailureKind::InUse, "another process has the database open"))
        } else {
            match (self.stored(pod, dir, seen), order) {
                (Answer::NothingStored(why), RecoverOrder::Read) => {
                    return Some(Err(text(Answer::NothingStored(why))));
                }
                (stored, RecoverOrder::Read) => Ok(stored),
                (Answer::Stored(stored), RecoverOrder::Extract(order)) if stored == order.stored => {
                    Ok(Answer::BackedUp(self.extract(pod, dir, &order)))
                }
                (_, RecoverOrder::Extract(_)) => {
                    Err(Failure::new(FailureKind::Unfit, "the data have changed since they were chosen"))
                }
            }
        };
        Some(answer.map(text).map_err(|failure| text(Answer::Failed(failure))))
    }

    fn stored(&mut self, pod: &Value, dir: &str, seen: bool) -> Answer {
        if let Err((verdict, why)) = self.guard(pod, dir, seen) {
            return Answer::NothingStored(format!("{verdict}: {why}"));
        }
        let Some(own) = self.etcd.dir(dir) else {
            return Answer::NothingStored("there is no log".to_owned());
        };
        let index = own.stored.index();
        Answer::Stored(StoredLog {
            cluster_id: own.cluster.to_string(),
            member_id: own.member.to_string(),
            term: own.stored.term,
            last_index: index,
            last_term: own.stored.term,
            committed_index: index,
            consistent_index: index,
            revision: self.kept(own).map_or(1, |snap| snap.revision),
        })
    }

    /// What etcd keeps of a data directory.
    fn kept(&self, own: &Dir) -> Option<Snap> {
        let group: &Group = self.etcd.group(own.cluster)?;
        let entries = group.log().get(..own.stored.len).unwrap_or(group.log());
        let writes = entries.iter().filter_map(|entry| match entry {
            Entry::Write(write) => Some(*write),
            Entry::Conf(_) => None,
        });
        let before = group.began_with();
        let mut all: Vec<u64> = before.map(|snap| snap.writes.clone()).unwrap_or_default();
        let begun = all.len();
        all.extend(writes);
        let added = i64::try_from(all.len() - begun).unwrap_or(i64::MAX);
        let revision = before.map_or(1, |snap| snap.revision) + added;
        Some(Snap {
            writes: all,
            alarms: own.stored.alarms.clone(),
            auth: (own.stored.auth, own.stored.root),
            users: own.stored.users.clone(),
            by_hand: own.stored.by_hand.clone(),
            clients: own.stored.clients,
            revision,
        })
    }

    fn extract(&mut self, pod: &Value, dir: &str, order: &ExtractOrder) -> Manifest {
        let own = self.etcd.dir(dir).expect("it was read").clone();
        let snap = self.kept(&own).expect("its cluster existed");
        let sha256 = hash_of(&snap);
        let manifest = Manifest {
            format: 1,
            origin: order.origin.clone(),
            key: order.key.clone(),
            stored_bytes: 20_480,
            stored_sha256: sha256.clone(),
            snapshot_bytes: 20_480,
            snapshot_sha256: sha256.clone(),
            revision: snap.revision,
            etcd_version: own
                .stored
                .cluster_version
                .map_or_else(|| "3.6.16".to_owned(), |minor| format!("{minor}.16")),
            cluster_id: own.cluster.to_string(),
            member: name(pod).to_owned(),
            without_quorum: true,
            ..Manifest::default()
        };
        self.extracted.retain(|known| known.dir != dir || known.key != order.key);
        self.extracted.push(Extracted {
            dir: dir.to_owned(),
            key: order.key.clone(),
            sha256,
            snap: Arc::new(snap),
        });
        manifest
    }

    /// The snapshot of an object on the claim of a member, if it is there.
    pub(super) fn extracted(
        &self,
        destination: &Destination,
        key: &str,
        sha256: Option<&str>,
    ) -> Option<Arc<Snap>> {
        let claim = &destination.pvc.as_ref()?.claim_name;
        let volume = self.object(Kind::Volume, claim)?;
        // A volume that was emptied has lost it.
        self.etcd.dir(uid(&volume))?;
        let found = self.extracted.iter().find(|known| known.dir == uid(&volume) && known.key == key)?;
        (sha256 == Some(&*found.sha256)).then(|| found.snap.clone())
    }

    /// Whether this is a snapshot of a recovery, and its cluster was the one before.
    pub(crate) fn is_extracted(&self, snap: &Snap) -> bool {
        self.extracted.iter().any(|known| known.snap.writes == snap.writes)
    }

    /// How many writes the best member of a cluster has that could have been chosen: its volume exists and opens.
    pub(crate) fn most_writes_left(&self, cluster: ClusterId) -> usize {
        let volumes = self.objects(Kind::Volume);
        let usable = volumes.iter().filter(|volume| !self.faults.gone.contains(name(volume)));
        let dirs = usable.filter_map(|volume| self.etcd.dir(uid(volume)));
        let ours = dirs.filter(|dir| dir.cluster == cluster && !dir.corrupt);
        ours.filter_map(|dir| Some(self.kept(dir)?.writes.len())).max().unwrap_or(0)
    }

    /// Checks that a new incarnation begins with all that the members before it have left, unless a person chose one of them.
    pub(super) fn judge_recovery(&mut self, snap: &Snap) {
        let record = self.record();
        let Some(present) = &record.incarnation else { return };
        let is_auto = present.order == Order::Recovery { from: RecoverFrom::Auto };
        let left = self.most_writes_left(present.replaced);
        if is_auto && snap.writes.len() < left {
            let how =
                format!("the quorum is recovered with {} writes, and a member has {left}", snap.writes.len());
            self.oracle.add_violation(Property::AcknowledgedWritesStay, how);
        }
    }

    /// A person orders to recover the quorum.
    pub(super) fn recovery_is_ordered(&mut self) {
        if let Some(id) = self.record().cluster_id {
            self.oracle.may_be_replaced(id);
        }
    }
}

/// The order of the Pod, if it is one of a recovery.
pub(super) fn order(pod: &Value) -> Option<RecoverOrder> {
    let etcd = items(pod, "/spec/containers").iter().find(|container| container["name"] == "etcd")?;
    let is_held = items(etcd, "/command").last().is_some_and(|command| command == "recover");
    let env = items(etcd, "/env").iter().find(|env| env["name"] == ORDER).filter(|_| is_held)?;
    debug_assert_eq!(
        flags(Some(etcd)).get("--member").map(MemberName::new),
        Some(MemberName::new(name(pod)))
    );
    serde_json::from_str(text(env, "/value")).ok()
}

/// 64 digits that depend on the content.
fn hash_of(snap: &Snap) -> String {
    let mut hasher = DefaultHasher::new();
    snap.hash(&mut hasher);
    format!("{:064x}", hasher.finish())
}
