//! When the members' data are compared, and who is asked next. A member that makes a hash (HashKV) reads its whole database, and from the
//! first write on that ends meanwhile it applies nothing and answers no read, not even a Status (`hashByRev` holds the read transaction).
//! A deadline of the caller does not end that. So, as etcd's own checks do, one member is asked after another, the leader last, all at
//! one revision that is fixed before; the next one only when the last has answered and answers its Status again. Rounds follow each
//! other with growing delay while nothing changes.

use std::collections::{BTreeMap, BTreeSet};

use quorate_model::mutants::{Rule, is_broken};
use quorate_model::record::Loss;
use quorate_model::snapshot::{COMPARED_WITHIN, Hashes, KeysHash};
use quorate_model::{Instant, MemberId, MemberName, Revision, Snapshot, Span, Uid};

use crate::command::Task;

/// A comparison that a replacement waits for is made at least this long after the first, whatever the grace period.
const SHORTEST_GRACE: Span = Span::seconds(1);

/// The delays between two rounds while nothing changes.
const DELAYS: [Span; 5] =
    [Span::seconds(30), Span::seconds(60), Span::seconds(120), Span::seconds(300), Span::seconds(600)];

/// The least delay, where something has changed, or a replacement waits for the comparison.
const LEAST_DELAY: Span = Span::seconds(10);

/// A member is not asked again before so many times what its hash took: under an alarm CORRUPT, where it refuses writes anyway, or where
/// something has changed.
const LEAST_REST: u64 = 10;

/// The same where clients write.
const REST: u64 = 100;

/// What is assumed of a hash that was not measured: a disk of a network reads so many bytes in a millisecond (200 MiB/s).
const BYTES_PER_MS: u64 = (200 << 20) / 1000;

/// A call that failed after this long may go on at the member.
const WAS_REFUSED_WITHIN: Span = Span::seconds(1);

/// How long it may go on, and nobody else is asked.
const MAY_GO_ON: Span = Span::seconds(600);

/// A pass that has waited this long for hashes asks for no more: it goes on with all else, such as a lost Pod, and the next one follows
/// soon.
const LONGEST_WAIT: Span = Span::seconds(2);

/// The comparisons of one cluster, from pass to pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparing {
    round: Option<Round>,
    /// The last round that ended, as long as there is a reason to compare.
    last: Option<Done>,
    /// When the last round ended, and the longest that a hash took in it, or is assumed to take where clients write. Also without a
    /// reason.
    rested_since: Option<(Instant, Span)>,
    /// How many rounds in a row found everything as the one before.
    unchanged: usize,
    /// The member that was asked last, until it has applied again.
    busy: Option<Busy>,
    /// How long this pass has waited for hashes.
    waited: Span,
}

#[derive(Clone, Debug)]
struct Round {
    /// What it rests on.
    circumstances: Circumstances,
    /// `None`: the latest, which was the same everywhere when it began.
    revision: Option<Revision>,
    pending: BTreeSet<MemberName>,
    asked: BTreeMap<MemberName, Instant>,
    replies: BTreeMap<MemberName, Result<KeysHash, String>>,
    longest: Span,
    estimate: Span,
}

#[derive(Clone, Debug)]
struct Done {
    circumstances: Circumstances,
    hashes: Hashes,
}

#[derive(Clone, Debug)]
struct Busy {
    member: MemberName,
    process: Process,
    since: Instant,
    /// The call failed, and may go on: that the member answers proves nothing, since it does while nobody writes.
    given_up: bool,
}

/// Where a member runs: the Pod, and how often its container was restarted.
type Process = (Uid, u32);

/// What a member that answers, and votes, reports.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Voter {
    process: Process,
    id: MemberId,
    revision: Revision,
    leads: bool,
    /// How long its hash is assumed to take.
    estimate: Span,
}

/// What of a snapshot decides whether there is a round, as far as it does not change all the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Circumstances {
    voters: BTreeMap<MemberName, (Process, MemberId)>,
    /// With the Pod: its container is restarted every few minutes.
    kept_out: BTreeMap<MemberName, Uid>,
    is_alarmed: bool,
    suspected: BTreeSet<MemberName>,
    replaced: Option<MemberName>,
}

/// What of a snapshot the comparison needs.
#[derive(Clone, Debug, Default)]
struct Look {
    has_reason: bool,
    /// No client is served yet, and nothing else is waited for: all are asked at once.
    begins: bool,
    voters: BTreeMap<MemberName, Voter>,
    /// Of all members with a Pod, whether they answer or not.
    processes: BTreeMap<MemberName, Process>,
    revision: Option<Revision>,
    circumstances: Circumstances,
    /// Since when a voter is suspected whose grace period is over: then a comparison after that is needed.
    due_since: Option<Instant>,
    grace: Span,
}

impl Comparing {
    /// A new pass has waited for no hash yet.
    pub(crate) fn begin_pass(&mut self) {
        self.waited = Span::default();
    }

    /// Whether this pass left the rest of a round to the next one, which is to follow soon.
    pub(crate) fn goes_on(&self) -> bool {
        self.round.is_some() && self.waited > LONGEST_WAIT
    }

    /// Who is asked next; nobody without a reason, or while all rest, or while the one that was asked last has not applied again.
    pub(crate) fn next(&mut self, seen: &Snapshot, now: Instant) -> Vec<Task> {
        self.next_of(&Look::of(seen, now), now)
    }

    /// Takes a hash.
    pub(crate) fn replied(
        &mut self,
        seen: &Snapshot,
        member: &MemberName,
        reply: Result<KeysHash, String>,
        now: Instant,
    ) {
        self.take(process(seen, member), member, reply, now);
    }

    /// Adds the last hashes to a snapshot.
    pub(crate) fn add_to(&self, seen: &mut Snapshot, now: Instant) {
        seen.etcd.hashes = self.last.as_ref().map(|last| {
            let mut hashes = last.hashes.clone();
            // Another process may have other data.
            let is_same = |member: &MemberName| {
                let before = last.circumstances.voters.get(member).map(|(process, _)| process);
                before.is_some() && before == process(seen, member).as_ref()
            };
            hashes.replies.retain(|member, _| is_same(member));
            hashes
        });
        self.add_busy_to(seen, now);
    }

    /// Adds the member to a snapshot that may still make a hash.
    pub(crate) fn add_busy_to(&self, seen: &mut Snapshot, now: Instant) {
        let busy = self.busy.as_ref();
        let is_at_it = |busy: &&Busy| {
            busy.since <= now
                && now - busy.since < MAY_GO_ON
                && process(seen, &busy.member).as_ref() == Some(&busy.process)
        };
        seen.etcd.hashing = busy.filter(is_at_it).map(|busy| busy.member.clone());
    }

    fn next_of(&mut self, look: &Look, now: Instant) -> Vec<Task> {
        // Until the record has that they differ: a plan that ends early, or a status that is not written, records nothing.
        let differed = self.last.as_ref().is_some_and(|last| last.hashes.differ());
        if !differed && !look.has_reason {
            (self.round, self.last, self.unchanged) = (None, None, 0);
            return Vec::new();
        }
        self.give_up_what_has_no_reply(look);
        if self.goes_on() || self.is_busy(look, now) {
            return Vec::new();
        }
        self.busy = None;
        if self.round.is_none() {
            if !self.is_due(look, now) {
                return Vec::new();
            }
            self.round = Some(Round {
                circumstances: look.circumstances.clone(),
                revision: look.revision,
                pending: look.voters.keys().cloned().collect(),
                asked: BTreeMap::new(),
                replies: BTreeMap::new(),
                longest: Span::default(),
                estimate: look.voters.values().map(|voter| voter.estimate).max().unwrap_or_default(),
            });
        }
        let Some(round) = &mut self.round else { return Vec::new() };
        let tasks = round.next(look, now);
        if tasks.is_empty() {
            self.end(now);
        }
        tasks
    }

    /// A pass waits for every reply. One that is not there by the next pass is lost, and its call may go on.
    fn give_up_what_has_no_reply(&mut self, look: &Look) {
        let Some(round) = &mut self.round else { return };
        for (member, asked) in &round.asked {
            if round.replies.contains_key(member) {
                continue;
            }
            round.replies.insert(member.clone(), Err("the reply was lost".to_owned()));
            if let Some(process) = look.processes.get(member).cloned() {
                self.busy = Some(Busy { member: member.clone(), process, since: *asked, given_up: true });
            }
        }
    }

    fn take(
        &mut self,
        process: Option<Process>,
        member: &MemberName,
        reply: Result<KeysHash, String>,
        now: Instant,
    ) {
        let Some(round) = &mut self.round else { return };
        let Some(asked) = round.asked.get(member) else { return };
        let took = now - *asked;
        round.longest = round.longest.max(took);
        self.waited = Span(self.waited.0.saturating_add(took.0));
        let given_up = reply.is_err() && took >= WAS_REFUSED_WITHIN;
        if let Some(process) = process.filter(|_| reply.is_ok() || given_up) {
            self.busy = Some(Busy { member: member.clone(), process, since: now, given_up });
        }
        round.replies.insert(member.clone(), reply);
        if round.is_over() {
            self.end(now);
        }
    }

    fn end(&mut self, now: Instant) {
        let Some(Round { circumstances, replies, longest, estimate, .. }) = self.round.take() else { return };
        let took = if circumstances.is_alarmed { longest } else { longest.max(estimate) };
        let members = u64::try_from(replies.len()).unwrap_or(u64::MAX);
        let hashes = Hashes { at: now, until: now, replies };
        let as_before = self.last.as_ref().is_some_and(|last| {
            last.circumstances == circumstances && last.hashes.differ() == hashes.differ()
        });
        self.unchanged = if as_before { self.unchanged + 1 } else { 0 };
        self.rested_since = Some((now, took));
        let rest = self.rest(took, circumstances.is_alarmed);
        // The next round takes its time, too.
        let until = now + rest + COMPARED_WITHIN + times(members.saturating_mul(2), longest);
        let hashes = Hashes { until, ..hashes };
        self.last = Some(Done { circumstances, hashes });
    }

    /// Whether the member that was asked last may still be at it.
    fn is_busy(&self, look: &Look, now: Instant) -> bool {
        let Some(busy) = self.busy.as_ref().filter(|busy| busy.since <= now && now - busy.since < MAY_GO_ON)
        else {
            return false;
        };
        let is_there = look.processes.get(&busy.member) == Some(&busy.process);
        is_there && (busy.given_up || !look.voters.contains_key(&busy.member))
    }

    fn is_due(&self, look: &Look, now: Instant) -> bool {
        let Some((ended, took)) = self.rested_since.filter(|(ended, _)| *ended <= now) else { return true };
        let rested = now - ended;
        let least = LEAST_DELAY.max(times(LEAST_REST, took));
        let Some(last) = &self.last else { return rested >= least };
        let misses_one =
            look.begins && look.voters.keys().any(|voter| !last.hashes.replies.contains_key(voter));
        // The comparison that a replacement waits for.
        let is_awaited = look.due_since.is_some_and(|since| last.hashes.at - since < look.grace);
        let has_changed = last.circumstances != look.circumstances;
        if misses_one || ((is_awaited || has_changed) && rested >= least) {
            return true;
        }
        rested >= self.rest(took, look.circumstances.is_alarmed)
    }

    /// How long all rest while nothing changes.
    fn rest(&self, longest: Span, is_alarmed: bool) -> Span {
        let delay = DELAYS[self.unchanged.min(DELAYS.len() - 1)];
        delay.max(times(if is_alarmed { LEAST_REST } else { REST }, longest))
    }
}

impl Round {
    /// The next member; all that are left, before any client is served. One that cannot be asked has no hash.
    fn next(&mut self, look: &Look, now: Instant) -> Vec<Task> {
        let pending = std::mem::take(&mut self.pending);
        let (here, gone): (BTreeSet<_>, BTreeSet<_>) =
            pending.into_iter().partition(|member| look.voters.contains_key(member));
        for member in gone {
            self.replies.insert(member, Err("it does not answer".to_owned()));
        }
        self.pending = here;
        let mut tasks = Vec::new();
        let is_behind = |voter: &Voter, revision: Option<Revision>| {
            revision.is_some_and(|revision| voter.revision < revision)
        };
        loop {
            // Whoever is behind has time to catch up, and the leader comes last.
            let place = |member: &&MemberName| {
                look.voters.get(*member).map(|voter| (is_behind(voter, self.revision), voter.leads))
            };
            let Some(member) = self.pending.iter().min_by_key(place).cloned() else { break };
            self.pending.remove(&member);
            let Some(voter) = look.voters.get(&member) else { continue };
            if is_behind(voter, self.revision) {
                let why = "it has not reached the revision at which the others are compared";
                self.replies.insert(member, Err(why.to_owned()));
                continue;
            }
            self.asked.insert(member.clone(), now);
            tasks.push(Task::Hash { revision: self.revision_for(voter), member });
            if !look.begins && !is_broken(Rule::PInTurn) {
                break;
            }
        }
        tasks
    }

    /// Where all had the same revision, each makes its hash anew, as long as nothing was written since.
    fn revision_for(&self, voter: &Voter) -> Option<Revision> {
        let first = self.replies.values().find_map(|reply| Some(reply.as_ref().ok()?.revision));
        self.revision.or(first.filter(|first| *first != voter.revision))
    }

    fn is_over(&self) -> bool {
        self.pending.is_empty() && self.asked.keys().all(|member| self.replies.contains_key(member))
    }
}

impl Look {
    fn of(seen: &Snapshot, now: Instant) -> Self {
        let statuses = seen.etcd.answers.keys().filter_map(|name| Some((name, seen.status_of(name, now)?)));
        let voters: BTreeMap<MemberName, Voter> = statuses
            .filter(|(_, status)| !status.is_learner)
            .filter_map(|(name, status)| {
                let voter = Voter {
                    process: process(seen, name)?,
                    id: status.member_id,
                    revision: status.revision,
                    leads: status.leader == Some(status.member_id),
                    estimate: Span(status.database.size / BYTES_PER_MS),
                };
                Some((name.clone(), voter))
            })
            .collect();
        let pod = |name: &MemberName| Some((name.clone(), seen.pods.get(name)?.uid.clone()));
        let record = &seen.record;
        let wrong = record.suspected.iter().filter(|(_, suspected)| suspected.loss == Loss::Inconsistent);
        let circumstances = Circumstances {
            voters: voters
                .iter()
                .map(|(name, voter)| (name.clone(), (voter.process.clone(), voter.id)))
                .collect(),
            kept_out: seen.kept_out(now).filter_map(pod).collect(),
            is_alarmed: seen.is_alarmed(now),
            suspected: wrong.clone().map(|(name, _)| name.clone()).collect(),
            replaced: record.replacement.as_ref().map(|order| order.member.clone()),
        };
        let mut over = wrong.filter(|(_, suspected)| seen.is_grace_over(suspected, now));
        Self {
            has_reason: seen.has_reason_to_compare(now),
            begins: seen.begins_with_a_snapshot(now),
            revision: seen.revision_to_compare(now),
            due_since: over.next().map(|(_, suspected)| suspected.since),
            grace: seen.replacement_policy.grace.max(SHORTEST_GRACE),
            processes: seen
                .pods
                .keys()
                .filter_map(|name| Some((name.clone(), process(seen, name)?)))
                .collect(),
            voters,
            circumstances,
        }
    }
}

fn process(seen: &Snapshot, member: &MemberName) -> Option<Process> {
    seen.pods.get(member).map(|pod| (pod.uid.clone(), pod.restarts))
}

fn times(count: u64, span: Span) -> Span {
    Span(count.saturating_mul(span.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: usize) -> MemberName {
        MemberName::new(format!("demo-{n}"))
    }

    /// A cluster under an alarm CORRUPT in which all have the same revision; the first member leads.
    fn look(size: usize) -> Look {
        let process = |n: usize| (Uid::new(format!("pod of demo-{n}")), 0);
        let voter = |n: usize| Voter {
            process: process(n),
            id: MemberId(n as u64),
            revision: Revision(7),
            leads: n == 0,
            estimate: Span::default(),
        };
        let voters: BTreeMap<_, _> = (0..size).map(|n| (name(n), voter(n))).collect();
        Look {
            has_reason: true,
            processes: (0..size).map(|n| (name(n), process(n))).collect(),
            circumstances: Circumstances {
                voters: (0..size).map(|n| (name(n), (process(n), MemberId(n as u64)))).collect(),
                is_alarmed: true,
                ..Circumstances::default()
            },
            voters,
            ..Look::default()
        }
    }

    fn made(look: &Look, member: &MemberName, revision: Option<Revision>) -> KeysHash {
        let voter = &look.voters[member];
        let revision = revision.unwrap_or(voter.revision);
        KeysHash { member_id: voter.id, hash: 1, revision, compacted: Revision(0), latest: voter.revision }
    }

    struct Driver {
        comparing: Comparing,
        now: Instant,
    }

    impl Driver {
        fn new() -> Self {
            Self { comparing: Comparing::default(), now: Instant(1_000_000) }
        }

        /// Whom the next pass asks first, and at which revision.
        fn asks(&mut self, look: &Look) -> Vec<(MemberName, Option<Revision>)> {
            self.comparing.begin_pass();
            self.asks_on(look)
        }

        fn asks_on(&mut self, look: &Look) -> Vec<(MemberName, Option<Revision>)> {
            let tasks = self.comparing.next_of(look, self.now);
            let asked = |task| match task {
                Task::Hash { member, revision } => (member, revision),
                other => panic!("{other:?}"),
            };
            tasks.into_iter().map(asked).collect()
        }

        fn replies(
            &mut self,
            look: &Look,
            member: &MemberName,
            reply: Result<KeysHash, String>,
            after: Span,
        ) {
            self.now = self.now + after;
            self.comparing.take(look.processes.get(member).cloned(), member, reply, self.now);
        }

        /// A whole round. Returns who was asked, in that order.
        fn round(&mut self, look: &Look, each: Span) -> Vec<String> {
            let mut order = Vec::new();
            loop {
                let asked = self.asks(look);
                let [(member, revision)] = &asked[..] else { return order };
                order.push(member.to_string());
                self.replies(look, member, Ok(made(look, member, *revision)), each);
            }
        }

        /// How many seconds pass until somebody is asked again, if that is within a day.
        fn rests(&mut self, look: &Look) -> Option<u64> {
            let from = self.now;
            (0..86_400).find(|seconds| {
                self.now = from + Span::seconds(*seconds);
                let mut comparing = self.comparing.clone();
                comparing.begin_pass();
                !comparing.next_of(look, self.now).is_empty()
            })
        }
    }

    #[test]
    fn m04_one_member_is_asked_after_another_the_leader_last_and_the_next_only_when_the_last_answers_again() {
        let (mut driver, all) = (Driver::new(), look(3));
        let asked = driver.asks(&all);
        assert_eq!(asked, [(name(1), None)], "one, and no leader");
        let mut without = all.clone();
        without.voters.remove(&name(1));
        driver.replies(&all, &name(1), Ok(made(&all, &name(1), None)), Span(500));
        assert_eq!(driver.asks_on(&without), [], "it has not applied again");
        assert_eq!(driver.asks_on(&all), [(name(2), None)]);
        driver.replies(&all, &name(2), Ok(made(&all, &name(2), None)), Span(500));
        assert_eq!(driver.asks_on(&all), [(name(0), None)]);
        assert!(driver.comparing.last.is_none(), "half a round says nothing");
        driver.replies(&all, &name(0), Ok(made(&all, &name(0), None)), Span(500));
        let hashes = driver.comparing.last.as_ref().map(|last| last.hashes.replies.len());
        assert_eq!((hashes, driver.asks_on(&all)), (Some(3), vec![]));
    }

    #[test]
    fn m04_the_hashes_of_a_round_are_made_at_one_revision_while_clients_write() {
        let (mut driver, mut all) = (Driver::new(), look(3));
        all.revision = Some(Revision(7));
        let mut revisions = Vec::new();
        for _ in 0..3 {
            let asked = driver.asks(&all);
            revisions.extend(asked.iter().map(|(_, revision)| *revision));
            let (member, revision) = &asked[0];
            driver.replies(&all, member, Ok(made(&all, member, *revision)), Span(0));
            all.voters.values_mut().for_each(|voter| voter.revision.0 += 10);
            all.revision = Some(Revision(17));
        }
        assert_eq!(revisions, [Some(Revision(7)); 3]);
        // All had the same, and a client wrote after the first hash.
        let (mut driver, mut all) = (Driver::new(), look(2));
        assert_eq!(driver.asks(&all), [(name(1), None)]);
        driver.replies(&all, &name(1), Ok(made(&all, &name(1), None)), Span(0));
        all.voters.values_mut().for_each(|voter| voter.revision.0 += 10);
        assert_eq!(driver.asks(&all), [(name(0), Some(Revision(7)))]);
        // One that is behind comes last, and has no hash if it does not catch up.
        let (mut driver, mut all) = (Driver::new(), look(3));
        all.revision = Some(Revision(7));
        all.voters.get_mut(&name(1)).unwrap().revision = Revision(3);
        assert_eq!(driver.round(&all, Span(0)), ["demo-2", "demo-0"]);
        assert!(driver.comparing.last.unwrap().hashes.replies[&name(1)].is_err());
    }

    #[test]
    fn m04_a_call_that_was_given_up_may_go_on_at_its_member_so_nobody_is_asked_for_ten_minutes() {
        let (mut driver, all) = (Driver::new(), look(3));
        driver.asks(&all);
        driver.replies(&all, &name(1), Err("no answer within 2m".to_owned()), Span::seconds(120));
        assert_eq!(driver.clone_rests(&all), Some(600), "it answers Status while nobody writes");
        // Another process has nothing to finish.
        let mut restarted = all.clone();
        restarted.processes.insert(name(1), (Uid::new("another Pod"), 0));
        assert_eq!(driver.clone_rests(&restarted), Some(0));
        // A pass ended without the reply.
        let (mut driver, all) = (Driver::new(), look(3));
        driver.asks(&all);
        assert_eq!(driver.clone_rests(&all), Some(600));
        // A refusal holds nobody up.
        let (mut driver, all) = (Driver::new(), look(3));
        driver.asks(&all);
        driver.replies(&all, &name(1), Err("permission denied".to_owned()), Span(5));
        assert_eq!(driver.asks_on(&all), [(name(2), None)]);
    }

    impl Driver {
        fn clone_rests(&self, look: &Look) -> Option<u64> {
            Self { comparing: self.comparing.clone(), now: self.now }.rests(look)
        }
    }

    #[test]
    fn m04_rounds_follow_with_growing_delay_while_nothing_changes() {
        let (mut driver, mut all) = (Driver::new(), look(3));
        let mut rested = Vec::new();
        for _ in 0..7 {
            assert_eq!(driver.round(&all, Span(100)).len(), 3);
            rested.push(driver.rests(&all).unwrap());
        }
        assert_eq!(rested, [30, 60, 120, 300, 600, 600, 600]);
        driver.round(&all, Span(100));
        // Another one answers, a member is suspected, the grace period is over: that is worth a round.
        all.circumstances.suspected.insert(name(1));
        assert_eq!(driver.rests(&all), Some(10));
        driver.round(&all, Span(100));
        assert_eq!(driver.rests(&all), Some(30));
        driver.round(&all, Span(100));
        assert_eq!(driver.clone_rests(&all), Some(60));
        (all.due_since, all.grace) = (Some(driver.now), Span::seconds(20));
        assert_eq!(driver.clone_rests(&all), Some(10));
        // Without a reason nobody is asked.
        all.has_reason = false;
        assert_eq!(driver.clone_rests(&all), None);
        assert!(driver.asks(&all).is_empty() && driver.comparing.last.is_none());
    }

    #[test]
    fn m04_a_member_whose_hash_takes_long_is_asked_seldom_and_more_seldom_where_clients_write() {
        let rests = |is_alarmed, estimate, each| {
            let (mut driver, mut all) = (Driver::new(), look(3));
            all.circumstances.is_alarmed = is_alarmed;
            all.voters.values_mut().for_each(|voter| voter.estimate = estimate);
            driver.round(&all, each);
            let counts = driver.comparing.last.as_ref().unwrap().hashes.until;
            let rested = driver.clone_rests(&all).unwrap();
            assert!(
                counts >= driver.now + Span::seconds(rested),
                "the last hashes count until the next ones"
            );
            rested
        };
        let (none, long) = (Span::default(), Span::seconds(40));
        assert_eq!(rests(true, none, long), 400);
        assert_eq!(rests(false, none, long), 4000);
        assert_eq!(rests(false, long, none), 4000, "by the size of the database");
        assert_eq!(rests(true, long, none), 30, "it was measured, and nobody writes");
        assert_eq!(rests(false, Span(200), none), 30);
    }

    #[test]
    fn m04_a_pass_that_has_waited_long_leaves_the_rest_to_the_next_one() {
        let (mut driver, all) = (Driver::new(), look(3));
        driver.asks(&all);
        driver.replies(&all, &name(1), Ok(made(&all, &name(1), None)), Span::seconds(40));
        assert_eq!((driver.asks_on(&all), driver.comparing.goes_on()), (vec![], true));
        assert_eq!(driver.asks(&all), [(name(2), None)]);
        assert!(!driver.comparing.goes_on());
    }

    #[test]
    fn before_a_restored_cluster_serves_all_are_asked_at_once_and_one_that_comes_late_at_once() {
        let (mut driver, mut all) = (Driver::new(), look(3));
        all.begins = true;
        let late = all.voters.remove(&name(2)).unwrap();
        let asked = driver.asks(&all);
        assert_eq!(asked.len(), 2);
        for (member, revision) in asked {
            driver.replies(&all, &member, Ok(made(&all, &member, revision)), Span(0));
        }
        assert_eq!(driver.asks(&all), []);
        all.voters.insert(name(2), late);
        assert_eq!(driver.asks(&all).len(), 3);
    }
}
