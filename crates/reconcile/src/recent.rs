//! What the operator remembers of the last minutes, from pass to pass. The planner has no memory, so each snapshot has it as facts.
//! Losing it repeats an attempt or begins a wait again; it never permits an act.

use std::collections::{BTreeMap, BTreeSet};

use quorate_api::ConditionType;
use quorate_api::conditions;
use quorate_api::status::EtcdClusterStatus;
use quorate_model::names::Uid;
use quorate_model::record::Stage;
use quorate_model::snapshot::{
    AlarmKind, DefragmentAttempt, EndedPods, Etcd, Pod, RAN_WELL_FOR, TransferAttempt, Unhealthy,
};
use quorate_model::{ClockDifference, EtcdCall, Instant, MemberId, MemberName, Snapshot, Span};

use crate::reply::CallError;

/// How long an attempt to move leadership counts. Longer than the longest delay between two attempts, so that the delay does not
/// begin anew while a series of them goes on.
const ATTEMPT_COUNTS_FOR: Span = Span::seconds(3600);

/// Longer than between two looks at a calm cluster (30 s) and their deadlines. What the second of them finds may have begun a moment ago.
const LONGEST_CALM: Span = Span::seconds(40);

/// How much of the time for which a voter was not healthy, by status, counts for an operator that has just started. Less than what gives a
/// learner up (ten minutes): the voter may have been well while no operator looked, so this one must see it for a while, too.
const COUNTS_FROM_BEFORE: Span = Span::seconds(540);

/// What happened of late.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    /// How far the clocks were apart in the last look.
    clock_differed: Option<ClockDifference>,
    /// In the order in which they were made.
    transfers: Vec<TransferAttempt>,
    unhealthy_since: BTreeMap<MemberName, Instant>,
    /// What status said when this operator first saw the cluster was taken over.
    goes_on: bool,
    unsound_since: BTreeMap<MemberName, Instant>,
    unheard_since: BTreeMap<MemberName, Instant>,
    /// When the last list was read, or the last entry of the operator was committed.
    quorum_at: Option<Instant>,
    /// The last pass that had a list, read or still holding.
    listed_at: Option<Instant>,
    no_list_since: Option<Instant>,
    unserved_since: Option<Instant>,
    ended_pods: BTreeMap<MemberName, EndedPods>,
    /// Of the members in `ended_pods` those whose Pods are ready, and since when.
    runs_since: BTreeMap<MemberName, Instant>,
    /// The joining member, the highest index that it has applied, and since when.
    learner: Option<(MemberName, Distance, Instant)>,
    /// The history was compacted since the alarm NOSPACE was raised.
    compacted: bool,
    /// Since when an alarm NOSPACE is observed.
    full_since: Option<Instant>,
    /// In the order in which they were made.
    defragmentations: Vec<DefragmentAttempt>,
}

/// How far a learner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distance {
    /// It follows no leader yet, and has applied entries up to this index: it receives a snapshot or the log.
    Applied(u64),
    /// It follows the leader, and lacks so many entries.
    Behind(u64),
    /// It has what the leader committed.
    InSync,
}

impl Distance {
    fn of(snapshot: &Snapshot, learner: &MemberName, now: Instant) -> Option<Self> {
        let status = snapshot.status_of(learner, now)?;
        Some(match snapshot.health(learner, now) {
            Ok(()) => Self::InSync,
            Err(Unhealthy::Lagging { applied, committed }) => Self::Behind(committed.saturating_sub(applied)),
            Err(_) => Self::Applied(status.applied),
        })
    }

    /// Whether this is closer to the leader. One that falls behind again must come closer than it ever was.
    fn is_progress_from(self, before: Self) -> bool {
        match (before, self) {
            (_, Self::InSync) | (Self::Applied(_), Self::Behind(_)) => true,
            (Self::Applied(before), Self::Applied(applied)) => applied > before,
            (Self::Behind(before), Self::Behind(behind)) => behind < before,
            (Self::Behind(_) | Self::InSync, Self::Applied(_)) | (Self::InSync, Self::Behind(_)) => false,
        }
    }
}

impl Recent {
    /// Adds it to a snapshot whose members and member list have been read.
    pub(crate) fn add_to(&mut self, snapshot: &mut Snapshot, now: Instant) {
        // R23: what began before a clock was set began at no known time.
        if std::mem::replace(&mut self.clock_differed, snapshot.clock_differs) != snapshot.clock_differs {
            self.begin_anew();
        }
        self.forget_attempts(snapshot.leader(now), now);
        snapshot.etcd.transfers.clone_from(&self.transfers);
        self.note_quorum(&mut snapshot.etcd, now);
        if snapshot.record.hibernating {
            // Nobody is to serve. When it wakes, its members have time to elect a leader.
            (self.unserved_since, snapshot.etcd.unserved_since) = (None, None);
        }
        let is_full = snapshot.alarms(now).iter().any(|alarm| alarm.kind == AlarmKind::NoSpace);
        let any_answers = snapshot.leader(now).is_some();
        // The next time that it is full, there is new history.
        self.compacted &= is_full || !any_answers;
        snapshot.etcd.compacted = self.compacted;
        self.note_full(is_full, any_answers, now);
        snapshot.etcd.full_since = self.full_since;
        self.defragmentations.retain(|attempt| now - attempt.at <= ATTEMPT_COUNTS_FOR);
        snapshot.etcd.defragmentations.clone_from(&self.defragmentations);
        // Without a leader nobody is unhealthy (R15).
        if snapshot.leader(now).is_some() {
            let unhealthy = snapshot.record.voters().filter(|voter| !snapshot.is_healthy(voter, now));
            keep_since(&mut self.unhealthy_since, &unhealthy.cloned().collect(), now);
            keep_since(&mut self.unsound_since, &snapshot.unsound_though_ready(now), now);
        }
        snapshot.etcd.unsound_since.clone_from(&self.unsound_since);
        snapshot.etcd.unhealthy_since.clone_from(&self.unhealthy_since);
        keep_since(&mut self.unheard_since, &unheard_voters(snapshot, now), now);
        snapshot.etcd.unheard_since.clone_from(&self.unheard_since);
        // In a Pod without etcd the agent ends when it has answered.
        let is_end = |pod: &Pod| pod.finished && !pod.terminating && pod.read_only.is_none();
        let ended = snapshot.pods.iter().filter(|(_, pod)| is_end(pod));
        let run = snapshot.pods.iter().filter(|(_, pod)| pod.ready && !pod.finished);
        self.note_ended_pods(
            ended.map(|(member, pod)| (member, &pod.uid)),
            &run.map(|(member, _)| member.clone()).collect(),
            now,
        );
        snapshot.etcd.ended_pods.clone_from(&self.ended_pods);
        let joining = snapshot.record.joining().map(|(name, _)| name);
        let is_at = joining.and_then(|name| Distance::of(snapshot, name, now));
        self.note_learner(joining, is_at, now);
        snapshot.etcd.learner_progress = self.learner.as_ref().map(|(name, _, at)| (name.clone(), *at));
    }

    /// This operator sees the cluster for the first time. Status says since when members are not healthy, so that one which is restarted again
    /// and again comes to an end of its waits.
    pub(crate) fn go_on_from(&mut self, status: Option<&EtcdClusterStatus>, now: Instant) {
        if std::mem::replace(&mut self.goes_on, true) {
            return;
        }
        // Without a quorum, and where nobody is to run, status has every voter as not healthy, and the time is of that.
        let Some(served_since) = status.and_then(quorum_since) else { return };
        let earliest = now.before(COUNTS_FROM_BEFORE);
        let earliest = earliest.max(served_since);
        for member in status.iter().flat_map(|status| &status.members).filter(|member| !member.healthy) {
            let Some(since) = &member.since else { continue };
            let since = Instant(since.0.as_millisecond()).max(earliest);
            if since <= now {
                self.unhealthy_since.insert(MemberName::new(&*member.name), since);
            }
        }
    }

    /// A quorum stored an entry.
    pub(crate) fn quorum_served(&mut self, now: Instant) {
        self.quorum_at = Some(now);
    }

    /// Every wait begins again.
    fn begin_anew(&mut self) {
        self.unhealthy_since.clear();
        self.unheard_since.clear();
        (self.quorum_at, self.listed_at, self.no_list_since, self.unserved_since) = (None, None, None, None);
        self.learner = None;
    }

    fn note_quorum(&mut self, etcd: &mut Etcd, now: Instant) {
        if let Some(list) = &etcd.list {
            self.quorum_at = self.quorum_at.filter(|at| *at <= now).max(Some(list.at));
            (self.listed_at, self.no_list_since, self.unserved_since) = (Some(now), None, None);
        } else {
            let began = |at| if now - at <= LONGEST_CALM { now } else { at };
            let since = self.no_list_since.filter(|since| *since <= now);
            self.no_list_since = since.or(self.listed_at.filter(|at| *at <= now).map(began));
        }
        if etcd.list.is_none() {
            self.unserved_since = self.unserved_since.filter(|since| *since <= now).or(Some(now));
        }
        (etcd.quorum_at, etcd.no_list_since) = (self.quorum_at, self.no_list_since);
        etcd.unserved_since = self.unserved_since;
    }

    /// Notes since when a database is full. While nobody answers that goes on, and it is not begun anew where clocks differ: it ends a wait of
    /// the remedy, and permits no more than that.
    fn note_full(&mut self, is_full: bool, any_answers: bool, now: Instant) {
        if is_full {
            self.full_since = Some(self.full_since.map_or(now, |since| since.min(now)));
        } else if any_answers {
            self.full_since = None;
        }
    }

    /// Counts the Pods of each member that ended, until one of them runs well for some minutes.
    fn note_ended_pods<'a>(
        &mut self,
        ended: impl Iterator<Item = (&'a MemberName, &'a Uid)>,
        ready: &BTreeSet<MemberName>,
        now: Instant,
    ) {
        for (member, uid) in ended {
            let times = match self.ended_pods.get_mut(member) {
                Some(before) if before.last == *uid => {
                    // The clock was set back.
                    before.at = before.at.min(now);
                    continue;
                }
                Some(before) => before.times.saturating_add(1),
                None => 1,
            };
            self.ended_pods.insert(member.clone(), EndedPods { last: uid.clone(), times, at: now });
        }
        let run = ready.iter().filter(|member| self.ended_pods.contains_key(*member)).cloned().collect();
        keep_since(&mut self.runs_since, &run, now);
        let since = &self.runs_since;
        self.ended_pods.retain(|member, _| since.get(member).is_none_or(|at| now - *at < RAN_WELL_FOR));
    }

    /// Notes when the joining member last made progress.
    fn note_learner(&mut self, joining: Option<&MemberName>, is_at: Option<Distance>, now: Instant) {
        self.learner.take_if(|(name, _, _)| Some(&*name) != joining);
        let Some((name, is_at)) = joining.zip(is_at) else { return };
        if self.learner.as_ref().is_none_or(|(_, before, _)| is_at.is_progress_from(*before)) {
            self.learner = Some((name.clone(), is_at, now));
        }
    }

    /// Forgets the attempts that do not count any more.
    fn forget_attempts(&mut self, leader: Option<MemberId>, now: Instant) {
        // Another member leads: the series of attempts is over.
        if let Some(leader) = leader {
            self.transfers.retain(|attempt| attempt.from == leader);
        }
        self.transfers.retain(|attempt| now - attempt.at <= ATTEMPT_COUNTS_FOR);
    }

    /// A call to etcd was replied to. Also a reply that was lost counts: the leader may have stopped writes.
    pub(crate) fn called(
        &mut self,
        observed: &Snapshot,
        call: &EtcdCall,
        reply: &Result<(), CallError>,
        now: Instant,
    ) {
        let was_sent = match reply {
            Ok(()) | Err(CallError::Refused(..) | CallError::Unknown(_)) => true,
            Err(
                CallError::NotLeading
                | CallError::Outdated
                | CallError::NoConnection(_)
                | CallError::Unreachable(_),
            ) => false,
        };
        if let EtcdCall::Compact { .. } = call {
            self.compacted |= reply.is_ok();
        }
        if !was_sent {
            return;
        }
        if let (EtcdCall::MoveLeadership { to_id, .. }, Some(from)) = (call, observed.leader(now)) {
            self.transfers.push(TransferAttempt { from, to: *to_id, at: now });
        }
        if let EtcdCall::Defragment { member } = call {
            let answered = matches!(reply, Ok(()) | Err(CallError::Refused(..)));
            self.defragmentations.push(DefragmentAttempt { member: member.clone(), at: now, answered });
        }
    }
}

/// Since when a quorum answers, by status, if one does.
fn quorum_since(status: &EtcdClusterStatus) -> Option<Instant> {
    let condition = conditions::find_true(&status.conditions, ConditionType::QuorumAvailable.as_str())?;
    Some(Instant(condition.last_transition_time.0.as_millisecond()))
}

/// The joining members that the list has as voters and that do not answer.
fn unheard_voters(snapshot: &Snapshot, now: Instant) -> BTreeSet<MemberName> {
    let record = &snapshot.record;
    let is_voter =
        |name: &MemberName| snapshot.listed(record, name, now).is_some_and(|listed| !listed.is_learner);
    let joining = record.members.iter().filter(|(_, member)| member.stage == Stage::Joining);
    joining
        .map(|(name, _)| name)
        .filter(|name| is_voter(name) && snapshot.status_of(name, now).is_none_or(|status| status.is_learner))
        .cloned()
        .collect()
}

/// Notes since when members are in a state. A clock that was set back begins anew.
fn keep_since(since: &mut BTreeMap<MemberName, Instant>, are: &BTreeSet<MemberName>, now: Instant) {
    since.retain(|member, _| are.contains(member));
    for member in are {
        let at = since.entry(member.clone()).or_insert(now);
        *at = (*at).min(now);
    }
}

#[cfg(test)]
mod tests {
    use quorate_model::ClusterId;
    use quorate_model::snapshot::List;

    use super::*;

    #[test]
    fn s11_an_attempt_counts_until_another_member_leads_or_an_hour_is_over() {
        let attempt = TransferAttempt { from: MemberId(1), to: MemberId(2), at: Instant(1000) };
        let remembered = |leader: Option<u64>, now: Instant| {
            let mut recent = Recent { transfers: vec![attempt], ..Recent::default() };
            recent.forget_attempts(leader.map(MemberId), now);
            recent.transfers.len()
        };
        assert_eq!(remembered(Some(1), Instant(2000)), 1);
        assert_eq!(remembered(None, Instant(2000)), 1, "an election may end with the same leader");
        assert_eq!(remembered(Some(2), Instant(2000)), 0);
        assert_eq!(remembered(Some(1), attempt.at + ATTEMPT_COUNTS_FOR + Span(1)), 0);
        assert_eq!(remembered(Some(1), Instant(0)), 1, "the clock was set back");
    }

    #[test]
    fn the_time_without_a_list_begins_with_the_first_pass_that_has_none_unless_the_look_before_was_long_ago()
    {
        let member = MemberName::new("demo-0");
        let list = List { at: Instant(0), cluster_id: ClusterId(1), via: member, members: Vec::new() };
        let since = |passes: &[(bool, i64)]| {
            let mut recent = Recent::default();
            let mut etcd = Etcd::default();
            for (has_list, seconds) in passes {
                etcd.list = has_list.then(|| list.clone());
                recent.note_quorum(&mut etcd, Instant(seconds * 1000));
            }
            etcd.no_list_since.map(|at| at.0 / 1000)
        };
        assert_eq!(since(&[(false, 10)]), None, "there never was one");
        assert_eq!(since(&[(true, 10)]), None);
        assert_eq!(since(&[(true, 10), (false, 40), (false, 50)]), Some(40), "after a calm look");
        assert_eq!(since(&[(true, 10), (false, 70), (false, 80)]), Some(10), "nobody looked for a minute");
        assert_eq!(since(&[(true, 10), (false, 40), (true, 41), (false, 51)]), Some(51));
        assert_eq!(since(&[(true, 10), (false, 40), (false, 20)]), Some(20), "the clock was set back");
    }

    #[test]
    fn l02_l03_the_time_since_when_a_member_is_in_a_state_begins_with_the_first_pass_that_observes_it() {
        let demo = MemberName::new("demo-1");
        let (are, none) = (BTreeSet::from([demo.clone()]), BTreeSet::new());
        let mut since = BTreeMap::new();
        keep_since(&mut since, &are, Instant(5000));
        keep_since(&mut since, &are, Instant(9000));
        assert_eq!(since[&demo], Instant(5000));
        keep_since(&mut since, &are, Instant(1000));
        assert_eq!(since[&demo], Instant(1000), "the clock was set back");
        keep_since(&mut since, &none, Instant(2000));
        assert!(since.is_empty());
    }

    #[test]
    fn m11_pods_that_ended_count_once_each_until_one_of_them_runs_well_for_some_minutes() {
        let demo = MemberName::new("demo-1");
        let mut recent = Recent::default();
        let mut see = |uid: &str, finished: bool, seconds: i64| {
            let uid = Uid::new(uid);
            let ended = finished.then_some((&demo, &uid));
            let ready = (!finished).then(|| demo.clone()).into_iter().collect();
            recent.note_ended_pods(ended.into_iter(), &ready, Instant(seconds * 1000));
            recent.ended_pods.get(&demo).map(|ended| (ended.times, ended.at.0 / 1000))
        };
        assert_eq!(see("a", false, 0), None);
        assert_eq!(see("a", true, 1), Some((1, 1)));
        assert_eq!(see("a", true, 2), Some((1, 1)), "it was seen before");
        assert_eq!(see("b", true, 3), Some((2, 3)));
        assert_eq!(see("c", false, 4), Some((2, 3)), "it runs, and may end as well");
        assert_eq!(see("c", true, 60), Some((3, 60)));
        assert_eq!(see("c", true, 50), Some((3, 50)), "the clock was set back");
        assert_eq!(see("d", false, 100), Some((3, 50)));
        assert_eq!(see("d", false, 281), None, "it has run well");
        assert_eq!(see("d", true, 300), Some((1, 300)));
    }

    #[test]
    fn m25_a_voter_that_is_not_healthy_goes_on_being_so_for_an_operator_that_starts_again() {
        const PHASE_SINCE: &str = "2026-10-03T12:00:00.000000Z";
        let time = |text: &str| -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
            serde_json::from_value(serde_json::json!(text)).unwrap()
        };
        let now = Instant(time("2026-10-03T12:10:00Z").0.as_millisecond());
        let quorum = |status: &str, since: &str| {
            serde_json::json!({
                "type": "QuorumAvailable", "status": status, "lastTransitionTime": since, "reason": "x", "message": "",
            })
        };
        let begun = |since: &str, quorum_since: &str| {
            let members = serde_json::json!([
                {"name": "demo-0", "phase": "Voter", "phaseSince": PHASE_SINCE, "healthy": true, "since": since},
                {"name": "demo-1", "phase": "Voter", "phaseSince": PHASE_SINCE, "healthy": false, "since": since},
            ]);
            let status =
                serde_json::json!({"members": members, "conditions": [quorum("True", quorum_since)]});
            let status: EtcdClusterStatus = serde_json::from_value(status).unwrap();
            let mut recent = Recent::default();
            recent.go_on_from(Some(&status), now);
            recent
        };
        let demo = MemberName::new("demo-1");
        let a_minute_ago = "2026-10-03T12:09:00Z";
        let since = begun(a_minute_ago, PHASE_SINCE).unhealthy_since;
        assert_eq!(since, BTreeMap::from([(demo.clone(), Instant(now.0 - 60_000))]));
        let long = begun("2026-10-02T12:10:00Z", "2026-10-02T12:00:00Z");
        assert_eq!(
            long.unhealthy_since[&demo],
            Instant(now.0 - 540_000),
            "this operator sees it for a minute, too"
        );
        assert!(
            begun("2026-10-03T12:11:00Z", PHASE_SINCE).unhealthy_since.is_empty(),
            "the clock was set back"
        );
        // It is counted from when there was a quorum again, and without one not at all.
        let half = begun(a_minute_ago, "2026-10-03T12:09:30Z").unhealthy_since;
        assert_eq!(half, BTreeMap::from([(demo.clone(), Instant(now.0 - 30_000))]));
        for conditions in [serde_json::json!([]), serde_json::json!([quorum("False", PHASE_SINCE)])] {
            let members = serde_json::json!([
                {"name": "demo-1", "phase": "Voter", "phaseSince": PHASE_SINCE, "healthy": false, "since": a_minute_ago},
            ]);
            let status = serde_json::json!({"members": members, "conditions": conditions});
            let mut recent = Recent::default();
            recent.go_on_from(Some(&serde_json::from_value(status).unwrap()), now);
            assert!(recent.unhealthy_since.is_empty(), "{conditions}");
        }
        let mut later = Recent::default();
        later.go_on_from(None, now);
        let status = serde_json::json!({"conditions": [quorum("True", PHASE_SINCE)], "members": [
            {"name": "demo-1", "phase": "Voter", "phaseSince": PHASE_SINCE, "healthy": false, "since": a_minute_ago},
        ]});
        later.go_on_from(Some(&serde_json::from_value(status).unwrap()), now);
        assert!(later.unhealthy_since.is_empty(), "only what it finds at first");
    }

    #[test]
    fn o08_the_time_since_when_a_database_is_full_goes_on_without_answers_and_ends_with_the_alarm() {
        let mut recent = Recent::default();
        let mut see = |is_full: bool, any_answers: bool, seconds: i64| {
            recent.note_full(is_full, any_answers, Instant(seconds * 1000));
            recent.full_since.map(|since| since.0 / 1000)
        };
        assert_eq!(see(false, true, 10), None);
        assert_eq!(see(true, true, 20), Some(20));
        assert_eq!(see(false, false, 30), Some(20), "nobody answers");
        assert_eq!(see(true, true, 40), Some(20));
        assert_eq!(see(true, true, 5), Some(5), "the clock was set back");
        assert_eq!(see(false, true, 50), None);
        assert_eq!(see(true, true, 60), Some(60), "it is full once more");
    }

    #[test]
    fn l10_a_learner_makes_progress_when_its_applied_index_grows_and_l08_when_it_comes_closer() {
        let (first, second) = (MemberName::new("demo-3"), MemberName::new("demo-4"));
        let mut recent = Recent::default();
        let mut progress = |name: &MemberName, is_at, now| {
            recent.note_learner(Some(name), is_at, Instant(now));
            recent.learner.clone().map(|(_, _, at)| at.0)
        };
        let applied = |index| Some(Distance::Applied(index));
        let behind = |entries| Some(Distance::Behind(entries));
        assert_eq!(progress(&first, None, 1), None, "it does not answer");
        assert_eq!(progress(&first, applied(10), 2), Some(2));
        assert_eq!(progress(&first, applied(10), 3), Some(2));
        assert_eq!(progress(&first, applied(11), 4), Some(4));
        assert_eq!(progress(&first, None, 5), Some(4));
        assert_eq!(progress(&first, behind(900), 6), Some(6), "it follows the leader");
        assert_eq!(progress(&first, behind(900), 7), Some(6), "it stores as much as is written");
        assert_eq!(progress(&first, behind(800), 8), Some(8));
        assert_eq!(progress(&first, behind(5000), 9), Some(8));
        assert_eq!(progress(&first, applied(20), 10), Some(8), "it has lost the leader for a moment");
        assert_eq!(progress(&first, Some(Distance::InSync), 11), Some(11));
        assert_eq!(progress(&second, None, 12), None, "another learner");
    }
}
