//! The member list of a calm cluster. It changes by an entry of etcd's log and in no other way, so it holds as long as nothing is
//! committed, and a look at a calm cluster is one Status of each member. Losing it costs one call.

use std::collections::BTreeMap;

use quorate_model::snapshot::{Answer, List, Listed};
use quorate_model::{Instant, MemberName, Span};

/// How long a list is believed to hold without being read again. It holds longer by all that is known of etcd.
const READ_AGAIN: Span = Span::seconds(600);

/// The last list that was read, and what was committed then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calm(Option<Known>);

#[derive(Clone, Debug)]
struct Known {
    list: List,
    /// What a member knew to be committed before the list was read, and the entries of the operator since.
    index: u64,
}

/// What the members of a cluster answered.
type Answers = BTreeMap<MemberName, Answer>;

impl Calm {
    /// The list was read, or was not. `committed`: what the members knew before.
    pub(crate) fn read(&mut self, list: Option<&List>, committed: Option<u64>) {
        self.0 = list.zip(committed).map(|(list, index)| Known { list: list.clone(), index });
    }

    /// An entry of the operator was committed.
    pub(crate) fn entry_is_committed(&mut self) {
        if let Some(known) = &mut self.0 {
            known.index += 1;
        }
    }

    /// The list, if it still holds: every member of it answers, nobody else does, and nothing was committed since it was read.
    pub(crate) fn list_that_holds(
        &self,
        answers: &Answers,
        committed: Option<u64>,
        now: Instant,
    ) -> Option<&List> {
        let Known { list, index } = self.0.as_ref()?;
        let is_recent = list.at <= now && now - list.at < READ_AGAIN;
        let answer_as_listed = |listed: &Listed| {
            let mut replies = answers.values().filter_map(|answer| answer.reply.as_ref().ok());
            replies.any(|status| status.member_id == listed.id && status.cluster_id == list.cluster_id)
        };
        let all_answer = answers.len() == list.members.len() && list.members.iter().all(answer_as_listed);
        (is_recent && all_answer && committed == Some(*index)).then_some(list)
    }
}

#[cfg(test)]
mod tests {
    use quorate_model::snapshot::{Database, StatusReply};
    use quorate_model::{ClusterId, MemberId, PeerUrl, Revision, Version};

    use super::*;

    const NOW: Instant = Instant(1_000_000);

    fn answers(ids: &[u64]) -> Answers {
        let answer = |id: &u64| {
            let status = StatusReply {
                cluster_id: ClusterId(1),
                member_id: MemberId(*id),
                leader: Some(MemberId(1)),
                is_learner: false,
                committed: 7,
                applied: 7,
                revision: Revision(1),
                version: Version::new(3, 6, 1),
                alarms: Vec::new(),
                errors: Vec::new(),
                database: Database::default(),
                storage_version: None,
                downgrade: None,
            };
            (MemberName::new(format!("demo-{id}")), Answer { at: NOW, reply: Ok(status) })
        };
        ids.iter().map(answer).collect()
    }

    fn known() -> Calm {
        let listed = |id: u64| Listed {
            id: MemberId(id),
            name: format!("demo-{id}"),
            peer_url: PeerUrl::new(format!("http://demo-{id}:2380")),
            is_learner: false,
            started: true,
        };
        let members = (1..=3).map(listed).collect();
        let list = List { at: NOW, cluster_id: ClusterId(1), via: MemberName::new("demo-1"), members };
        let mut calm = Calm::default();
        calm.read(Some(&list), Some(7));
        calm
    }

    #[test]
    fn a_list_holds_until_anything_is_committed_that_the_operator_did_not_propose() {
        let mut calm = known();
        let holds = |calm: &Calm, committed, after| {
            calm.list_that_holds(&answers(&[1, 2, 3]), committed, NOW + Span::seconds(after)).is_some()
        };
        assert!(holds(&calm, Some(7), 30));
        assert!(!holds(&calm, Some(8), 30), "a change of membership is an entry");
        assert!(!holds(&calm, None, 30), "no leader");
        calm.entry_is_committed();
        assert!(!holds(&calm, Some(7), 30), "another log");
        assert!(holds(&calm, Some(8), 30));
        assert!(!holds(&calm, Some(9), 30));
        assert!(!holds(&calm, Some(8), 600), "after a while it is read in any case");
        let before = Instant(NOW.0 - 1);
        assert!(
            calm.list_that_holds(&answers(&[1, 2, 3]), Some(8), before).is_none(),
            "the clock was set back"
        );
        calm.read(None, Some(8));
        assert!(!holds(&calm, Some(8), 30), "the last read failed");
    }

    #[test]
    fn a_list_does_not_hold_where_a_member_is_silent_or_another_one_answers() {
        let holds = |answers: &Answers| known().list_that_holds(answers, Some(7), NOW).is_some();
        assert!(holds(&answers(&[1, 2, 3])));
        assert!(!holds(&answers(&[1, 2])));
        assert!(!holds(&answers(&[1, 2, 3, 4])));
        assert!(!holds(&answers(&[1, 2, 4])));
        let mut silent = answers(&[1, 2, 3]);
        for answer in silent.values_mut().skip(2) {
            answer.reply = Err("no answer within 2s".to_owned());
        }
        assert!(!holds(&silent));
    }
}
