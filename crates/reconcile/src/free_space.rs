//! When the agents are asked for the free space of their volumes, and what they replied last. Losing it delays what status reports: nothing
//! is done by it.
//!
//! A member is asked only if its volume could be nearly used up since its last reply, so a look at a cluster where nothing is written costs
//! no request. How much may have been written is bounded by the entries of etcd's log.

use std::collections::BTreeMap;

use quorate_model::snapshot::{NearlyUsedUp, VolumeSpace};
use quorate_model::{Backoff, Instant, MemberName, Snapshot, Span};

use crate::command::Task;

/// What an entry may take: 1.5 MiB (etcd's `--max-request-bytes`) in the log, and as much in the database.
const ENTRY: u64 = 3 << 20;

/// When a member is asked again, whatever was committed: others may write to the same disk.
const ASK_AGAIN: Span = Span::seconds(300);

/// Between two requests to a member. Looks of a calm cluster are 30 s apart, others come within 10 s. Where many small entries are written,
/// replies show that their bound says little: then it doubles with each.
const PAUSES: Backoff = Backoff { first: Span::seconds(20), longest: ASK_AGAIN };
const PAUSE_IF_NEARLY_USED_UP: Span = Span::seconds(8);

/// After a failure: the agent is older than the operator, or a policy of the network admits no request.
const PAUSE_AFTER_FAILURE: Span = Span::seconds(300);
const PAUSE_AFTER_FIRST_FAILURE: Span = Span::seconds(30);

/// How long the last reply counts. A member that cannot be asked for longer is not reported any more.
const BELIEVED_FOR: Span = Span::seconds(900);

/// As long as less than this part of what the volume could spare was used between two replies, the pause doubles.
const LITTLE: u64 = 8;

/// By member.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeSpace(BTreeMap<MemberName, Known>);

#[derive(Clone, Debug, Default)]
struct Known {
    /// Whether etcd answered in the last look.
    answers: bool,
    /// What the member knew to be committed then.
    committed: u64,
    asked_at: Option<Instant>,
    /// How many requests failed since the last reply.
    failures: u32,
    /// The last replies in a row by which little was used, though much may have been.
    calm: u32,
    last: Option<Last>,
}

/// The last reply.
#[derive(Clone, Copy, Debug)]
struct Last {
    at: Instant,
    space: VolumeSpace,
    /// What was committed in the look before.
    committed: u64,
    nearly_used_up: Option<NearlyUsedUp>,
}

impl FreeSpace {
    /// The members to ask now, of those that are asked for their Status. One that never answered is not: its agent may not serve yet.
    pub(crate) fn to_ask<'a>(
        &self,
        members: impl Iterator<Item = &'a MemberName>,
        now: Instant,
    ) -> Vec<Task> {
        let is_due = |member: &&MemberName| self.0.get(*member).is_some_and(|known| known.is_due(now));
        members.filter(is_due).map(|member| Task::FreeSpace { member: member.clone() }).collect()
    }

    /// A member's agent replied, or did not.
    #[expect(clippy::needless_pass_by_value, reason = "a reply is handed over")]
    pub(crate) fn replied(&mut self, member: &MemberName, reply: Result<VolumeSpace, String>, now: Instant) {
        let Some(known) = self.0.get_mut(member) else { return };
        known.asked_at = Some(now);
        let Ok(space) = reply else {
            known.failures += 1;
            return;
        };
        let is_calm = known
            .last
            .is_some_and(|last| last.may_be_outdated(known.committed) && last.little_is_used(space));
        known.calm = if is_calm { known.calm.saturating_add(1) } else { 0 };
        let before = known.last.and_then(|last| last.nearly_used_up);
        let nearly_used_up = NearlyUsedUp::after(before, space);
        known.failures = 0;
        known.last = Some(Last { at: now, space, committed: known.committed, nearly_used_up });
    }

    /// Adds what is known to a snapshot, whose members have been asked for their Status.
    pub(crate) fn add_to(&mut self, snapshot: &mut Snapshot, now: Instant) {
        for known in self.0.values_mut() {
            known.answers = false;
            known.last = known.last.filter(|last| last.at <= now && now - last.at < BELIEVED_FOR);
        }
        for (member, answer) in &snapshot.etcd.answers {
            if let Ok(status) = &answer.reply {
                let known = self.0.entry(member.clone()).or_default();
                (known.answers, known.committed) = (true, status.committed);
            }
        }
        self.0.retain(|_, known| known.answers || known.last.is_some());
        let low =
            |(member, known): (&MemberName, &Known)| Some((member.clone(), known.last?.nearly_used_up?));
        snapshot.etcd.nearly_used_up = self.0.iter().filter_map(low).collect();
    }
}

impl Known {
    fn is_due(&self, now: Instant) -> bool {
        let since = self.asked_at.filter(|at| *at <= now).map(|at| now - at);
        let Some(since) = since.filter(|_| self.answers) else { return self.answers };
        match (self.failures, &self.last) {
            (0, Some(last)) if last.nearly_used_up.is_some() => since >= PAUSE_IF_NEARLY_USED_UP,
            (0, Some(last)) => {
                since >= ASK_AGAIN || since >= self.pause() && last.may_be_outdated(self.committed)
            }
            (1, Some(_)) => since >= PAUSE_AFTER_FIRST_FAILURE,
            (_, Some(_) | None) => since >= PAUSE_AFTER_FAILURE,
        }
    }
}

impl Known {
    fn pause(&self) -> Span {
        PAUSES.after(self.calm.saturating_add(1))
    }
}

impl Last {
    fn little_is_used(&self, space: VolumeSpace) -> bool {
        self.space.free.saturating_sub(space.free).saturating_mul(LITTLE) < self.space.spare()
    }

    /// Whether as much may have been written since as the volume can spare. An index that is lower is that of another log.
    fn may_be_outdated(&self, committed: u64) -> bool {
        let entries = committed.checked_sub(self.committed);
        entries.is_none_or(|entries| entries.saturating_mul(ENTRY) >= self.space.spare())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn member() -> MemberName {
        MemberName::new("demo-0")
    }

    fn at(seconds: u64) -> Instant {
        Instant(1_000_000) + Span::seconds(seconds)
    }

    fn space(free: u64) -> VolumeSpace {
        VolumeSpace { free: free * MIB, all: 1946 * MIB }
    }

    fn known() -> FreeSpace {
        FreeSpace(BTreeMap::from([(member(), Known { answers: true, committed: 100, ..Known::default() })]))
    }

    fn is_asked(known: &FreeSpace, seconds: u64) -> bool {
        !known.to_ask(std::iter::once(&member()), at(seconds)).is_empty()
    }

    fn commits(known: &mut FreeSpace, index: u64) {
        known.0.get_mut(&member()).unwrap().committed = index;
    }

    #[test]
    fn m02_an_agent_is_asked_once_its_volume_may_be_nearly_used_up_and_not_before() {
        let mut known = known();
        assert!(is_asked(&known, 0), "nothing is known");
        known.replied(&member(), Ok(space(1000)), at(0));
        commits(&mut known, 100 + 247);
        assert!(!is_asked(&known, 299), "247 entries take 741 MiB at most, and 744 MiB can be spared");
        commits(&mut known, 100 + 248);
        assert!(is_asked(&known, 30));
        assert!(!is_asked(&known, 19), "not with every look of a cluster where something is under way");
        commits(&mut known, 99);
        assert!(is_asked(&known, 30), "another log");
    }

    #[test]
    fn m02_an_agent_of_a_busy_cluster_is_asked_less_often_while_its_replies_show_that_little_is_used() {
        let mut known = known();
        let (mut now, mut asked) = (0, 0);
        known.replied(&member(), Ok(space(1000)), at(now));
        // 20 small entries a second, for an hour.
        while now < 3600 {
            now += 10;
            commits(&mut known, 100 + now * 20);
            if is_asked(&known, now) {
                asked += 1;
                known.replied(&member(), Ok(space(1000 - now / 100)), at(now));
            }
        }
        assert_eq!(asked, 15, "after 20, 40, 80, 160 and then 300 s");
        commits(&mut known, 100 + now * 30);
        known.replied(&member(), Ok(space(800)), at(now));
        commits(&mut known, 100 + now * 40);
        assert!(!is_asked(&known, now + 19) && is_asked(&known, now + 20), "much was used: as at first");
    }

    #[test]
    fn m02_an_agent_is_asked_every_five_minutes_since_others_may_write_to_the_same_disk() {
        let mut known = known();
        known.replied(&member(), Ok(space(1000)), at(0));
        assert!(!is_asked(&known, 299) && is_asked(&known, 300));
        assert!(
            is_asked(&known, 0) || known.to_ask(std::iter::once(&member()), Instant(0)).len() == 1,
            "the clock was set back"
        );
    }

    #[test]
    fn m02_an_agent_whose_volume_is_nearly_used_up_is_asked_in_every_look() {
        let mut known = known();
        known.replied(&member(), Ok(space(200)), at(0));
        assert!(!is_asked(&known, 7) && is_asked(&known, 10));
    }

    #[test]
    fn m02_an_agent_that_is_older_or_cannot_be_reached_is_asked_rarely() {
        let mut known = known();
        known.replied(&member(), Err("404".to_owned()), at(0));
        assert!(!is_asked(&known, 299) && is_asked(&known, 300));
        known.replied(&member(), Ok(space(200)), at(300));
        known.replied(&member(), Err("no reply within 1s".to_owned()), at(310));
        assert!(!is_asked(&known, 339) && is_asked(&known, 340), "it did reply before");
        known.replied(&member(), Err("no reply within 1s".to_owned()), at(340));
        assert!(!is_asked(&known, 639) && is_asked(&known, 640));
    }

    #[test]
    fn m02_an_agent_whose_etcd_does_not_answer_is_not_asked() {
        let mut known = known();
        known.0.get_mut(&member()).unwrap().answers = false;
        assert!(!is_asked(&known, 0));
        assert!(!is_asked(&FreeSpace::default(), 0), "it never did: the agent may not serve yet");
    }
}
