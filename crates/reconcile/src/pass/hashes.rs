//! The comparison of the members' data. It is made only with a reason, and at most every half minute: for a hash a member reads its
//! whole database.

use quorate_model::snapshot::{Hashes, KeysHash};
use quorate_model::{Instant, MemberName, Span};

use super::observe::Observed;
use crate::command::Task;
use crate::memory::Memory;

/// The time between two comparisons. Shorter than a comparison counts.
const COMPARE_AGAIN: Span = Span::seconds(30);

impl Observed {
    /// Whom to ask for a hash, now that the members were asked for their Status; nobody without a reason, or soon after the last time.
    pub(super) fn hash_tasks(&self, memory: &mut Memory, now: Instant) -> Vec<Task> {
        // Until the record has that they differ: a plan that ends early, or a status that is not written, records nothing.
        let differed = memory.hashes.as_ref().is_some_and(Hashes::differ);
        if !differed && !self.snapshot.has_reason_to_compare(now) {
            memory.hashes = None;
            return Vec::new();
        }
        let votes = |member: &&MemberName| {
            self.snapshot.status_of(member, now).is_some_and(|status| !status.is_learner)
        };
        let voters = || self.snapshot.etcd.answers.keys().filter(votes);
        // A cluster that begins with a snapshot waits for nothing else than the hash of a member that has just started.
        let misses_one = |last: &Hashes| {
            self.snapshot.begins_with_a_snapshot(now)
                && voters().any(|voter| !last.replies.contains_key(voter))
        };
        let is_recent = |last: &Hashes| last.at <= now && now - last.at < COMPARE_AGAIN && !misses_one(last);
        if memory.hashes.as_ref().is_some_and(is_recent) {
            return Vec::new();
        }
        let revision = self.snapshot.revision_to_compare(now);
        voters().map(|member| Task::Hash { member: member.clone(), revision }).collect()
    }

    /// Takes a hash.
    pub(super) fn hashed(&mut self, member: &MemberName, hash: Result<KeysHash, String>, now: Instant) {
        let hashes = self.snapshot.etcd.hashes.get_or_insert_default();
        hashes.at = now;
        hashes.replies.insert(member.clone(), hash);
    }
}
