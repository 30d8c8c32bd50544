//! The proof of progress of a pass (R15): before a disruptive effect, and now and then. While it runs, the Pods are read from
//! the API, because a deletion in this second may not have reached the caches.
//!
//! On a calm cluster it takes its time: one look makes the first entry, the next one, which sees who has applied it, the second.

use quorate_manifests::Kind;
use quorate_model::{Instant, Snapshot};

use super::Stage;
use super::observe::{Observed, Observing};
use crate::command::{Proved, Task};
use crate::memory::Memory;
use crate::objects::Object;
use crate::reply::WriteError;

impl Observed {
    /// What is to be asked for a proof.
    pub(super) fn proof_tasks(&self) -> Vec<Task> {
        let Some(list) = &self.snapshot.etcd.list else { return Vec::new() };
        // A member that does not answer is not waited for.
        let answers = self.snapshot.etcd.answers.iter().filter(|(_, answer)| answer.reply.is_ok());
        let members = answers.map(|(member, _)| member.clone()).collect();
        let prove = Task::ProveProgress { at: list.via.clone(), members };
        let read = |name: &String| Task::Read { kind: Kind::Pod, name: name.clone() };
        std::iter::once(prove).chain(self.view.pods.keys().map(read)).collect()
    }

    /// Takes what the members had applied.
    pub(super) fn proved(&mut self, memory: &mut Memory, proved: Result<Proved, String>) {
        let etcd = &mut self.snapshot.etcd;
        match proved {
            Ok(Proved { proof, answers }) => {
                memory.progress.proved(proof);
                etcd.answers.extend(answers);
                etcd.proved_at = Some(proof.at);
                etcd.proof = Some(proof);
            }
            Err(why) => etcd.proof_failure = Some(why),
        }
    }

    /// Takes whether an entry was committed.
    pub(super) fn made_entry(&mut self, memory: &mut Memory, now: Instant) {
        memory.progress.entry_is_committed(now);
        memory.calm.entry_is_committed();
        memory.recent.quorum_served(now);
        self.snapshot.etcd.quorum_at = Some(now);
    }

    /// Takes a Pod as it is now.
    pub(super) fn read_pod(
        &mut self,
        memory: &mut Memory,
        name: &str,
        read: Result<Option<Object>, WriteError>,
        now: Instant,
    ) {
        match read {
            Ok(Some(object)) => {
                memory.exists(&object, now);
                self.view.insert(object);
            }
            Ok(None) => {
                memory.missing(Kind::Pod, name, now);
                self.view.pods.remove(name);
            }
            Err(error) => self.unread = Some(format!("Pod {name} was not read: {error}")),
        }
    }
}

impl Observing {
    /// The snapshot once more, with the Pods and claims as they are now.
    pub(super) fn observe_again(
        &self,
        mut observed: Observed,
        memory: &mut Memory,
        now: Instant,
    ) -> Result<Observed, Box<Stage>> {
        let unread = observed.unread.take();
        let etcd = std::mem::take(&mut observed.snapshot.etcd);
        let sites = std::mem::take(&mut observed.snapshot.sites);
        // What the backups say was read once in this pass.
        let (restore, orders) =
            (observed.snapshot.restore.take(), std::mem::take(&mut observed.snapshot.orders));
        let backup_before = observed.snapshot.backup_before.take();
        // The EtcdCluster has the accepted spec by now, of which nothing is refused.
        let Observed { view, cluster, claims, refused, .. } = observed;
        let mut again = self.observe(view, cluster, memory, now)?;
        again.snapshot.claims_not_read.extend(claims.failed.clone());
        again.refused = again.refused.or(refused);
        again.claims = claims;
        again.snapshot.etcd = etcd;
        again.snapshot.sites = sites;
        (again.snapshot.restore, again.snapshot.orders) = (restore, orders);
        again.snapshot.backup_before = backup_before;
        if let Some(why) = unread {
            again.snapshot.etcd.proof = None;
            again.snapshot.etcd.proof_failure = Some(why);
        }
        Ok(again)
    }
}

/// Whether a snapshot with this plan is followed by a proof: at most one in a pass, and only where a quorum answers.
pub(super) fn is_wanted(snapshot: &Snapshot, needs_proof: bool) -> bool {
    needs_proof && snapshot.etcd.list.is_some()
}
