//! Hashes of members' data that take time. While a member reads its whole database it answers nobody; it votes and stores on. The reply
//! comes when that is done, or never, if the operator does not wait so long: then the member goes on with it.

use quorate_model::Span;
use quorate_model::snapshot::Pod;
use quorate_reconcile::{Command, Pass, Task};

use super::World;
use super::addresses::Answers;
use crate::oracle::Property;

/// How long the operator waits for a hash, as the product's client does.
const DEADLINE: Span = Span::seconds(120);

impl World {
    /// The members that these commands ask for a hash begin with it, all at the same moment, and the time of the first reply comes.
    pub(super) fn make_hashes(&mut self, pass: &Pass, commands: &[Command]) {
        if self.hash_takes == Span(0) {
            return;
        }
        let asked = commands.iter().filter_map(|command| {
            let Task::Hash { member, .. } = &command.task else { return None };
            pass.observed()?.0.pods.get(member)
        });
        let asked: Vec<String> = asked.filter_map(|pod| self.own_process(pod)).collect();
        if asked.is_empty() {
            return;
        }
        let until = self.now + self.hash_takes;
        for at in &asked {
            self.etcd.begin_hash(at, until);
        }
        self.judge_hashes();
        self.client_writes();
        self.advance(self.hash_takes.min(DEADLINE));
        self.settle();
    }

    fn own_process(&self, pod: &Pod) -> Option<String> {
        match self.who_answers(pod) {
            Answers::Own(at) => Some(at),
            Answers::Others => None,
        }
    }

    /// Once clients are served, one member at a time makes a hash, so that a quorum serves where there is one without it.
    fn judge_hashes(&mut self) {
        let hashing: Vec<String> = self.etcd.hashing().map(str::to_owned).collect();
        if hashing.len() > 1 && self.record().voters().next().is_some() {
            let how = format!("{hashing:?} make hashes at the same time, and serve nobody");
            self.oracle.add_violation(Property::ClientsAreServed, how);
        }
    }
}
