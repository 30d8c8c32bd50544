//! What somebody does to etcd past the operator.

use quorate_model::MemberName;
use quorate_model::record::Stage;

use crate::world::World;

impl World {
    /// `etcdctl member remove`, asked of any member that accepts it.
    pub(super) fn remove_by_hand(&mut self, member: &str) -> bool {
        let record = self.record();
        let recorded = record.members.get(&MemberName::new(member));
        let (Some(id), Some(cluster)) = (recorded.and_then(|member| member.id), record.cluster_id) else {
            return false;
        };
        let of_cluster = self.etcd.processes().filter(|(_, process)| {
            self.etcd.dir_of(process).is_some_and(|dir| dir.cluster == cluster && dir.member != id)
        });
        let others: Vec<String> = of_cluster.map(|(at, _)| at.to_owned()).collect();
        let removed = others.iter().any(|at| self.etcd.remove(at, id, self.now).is_ok());
        // Where the operator has chosen to remove it, too, its data are deleted as after any scale-in.
        let was_leaving = recorded.is_some_and(|member| matches!(member.stage, Stage::Leaving(_)));
        if removed && !was_leaving {
            self.faults.removed_by_hand.insert(id, self.now);
        }
        removed
    }
}
