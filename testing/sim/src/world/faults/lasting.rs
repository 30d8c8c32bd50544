//! Faults that last until all else is at rest, and the traces of those that do not end.

use std::collections::BTreeSet;

use quorate_model::ClusterId;

use crate::world::World;

/// The faults that last, and what faults have destroyed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LastingFaults {
    /// Members whose Pods do not start.
    pub slow: BTreeSet<String>,
    /// Members on nodes that are out of reach.
    pub on_lost_node: BTreeSet<String>,
    /// Members whose data were destroyed by a fault.
    pub data_destroyed: BTreeSet<String>,
    /// Clusters whose data a fault put on a volume.
    pub foreign: BTreeSet<ClusterId>,
    /// The status was lost: a person has to restore what nothing but status recorded.
    pub status_lost: bool,
    /// Members that report an alarm.
    pub(super) alarmed: BTreeSet<String>,
}

impl LastingFaults {
    /// A description of each of them.
    pub fn words(&self) -> Vec<String> {
        let Self { slow, on_lost_node, data_destroyed, foreign, status_lost, alarmed } = self;
        let mut words = Vec::new();
        words.extend(slow.iter().map(|member| format!("Pod {member} does not start")));
        words.extend(on_lost_node.iter().map(|member| format!("the node of {member} is out of reach")));
        words.extend(alarmed.iter().map(|member| format!("{member} reports an alarm")));
        words.extend(data_destroyed.iter().map(|member| format!("the data of {member} were destroyed")));
        words.extend(foreign.iter().map(|cluster| format!("cluster {cluster} is not this EtcdCluster's")));
        words.extend(status_lost.then(|| "the status was lost".to_owned()));
        words
    }
}

impl World {
    /// Ends one fault that lasts, and describes it; `None` if none is left.
    pub(in crate::world) fn end_a_lasting_fault(&mut self) -> Option<String> {
        if let Some(member) = self.faults.slow.pop_first() {
            return Some(format!("Pod {member} is no longer slow to start"));
        }
        if let Some(member) = self.faults.on_lost_node.pop_first() {
            let now = self.now;
            if let Some(process) = self.process_of(&member).and_then(|at| self.etcd.process_mut(&at)) {
                (process.cut, process.since) = (false, now);
            }
            return Some(format!("the node of {member} is back"));
        }
        if let Some(member) = self.faults.alarmed.pop_first() {
            if let Some(process) = self.process_of(&member).and_then(|at| self.etcd.process_mut(&at)) {
                process.alarms.clear();
            }
            return Some(format!("the alarm of {member} is cleared"));
        }
        let process = self.etcd.processes_mut().find(|process| process.cut || process.lags)?;
        (process.cut, process.lags, process.since) = (false, false, self.now);
        let member = &process.launch.name;
        Some(format!("{member} and its peers reach each other again"))
    }
}
