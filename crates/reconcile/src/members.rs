//! Which member is asked for the member list.

use std::collections::BTreeMap;

use quorate_model::MemberName;
use quorate_model::snapshot::{Answer, StatusReply};

/// The leader, else a voter that follows one. Without a leader a linearizable list would only wait for its deadline.
pub fn member_to_ask(answers: &BTreeMap<MemberName, Answer>) -> Result<&MemberName, String> {
    let replies =
        || answers.iter().filter_map(|(member, answer)| Some((member, answer.reply.as_ref().ok()?)));
    let leads = |status: &StatusReply| status.leader == Some(status.member_id);
    let follows = |status: &StatusReply| status.leader.is_some() && !status.is_learner;
    let leader = replies().find(|(_, status)| leads(status));
    match (leader.or_else(|| replies().find(|(_, status)| follows(status))), answers.len(), replies().count())
    {
        (Some((member, _)), ..) => Ok(member),
        (None, 0, _) => Err("no member has an address yet".to_owned()),
        (None, _, 0) => Err("no member answers".to_owned()),
        (None, ..) => Err("no voter that answers has a leader".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use quorate_model::{ClusterId, Instant, MemberId, Revision, Version};

    use super::*;

    fn answer(id: u64, leader: Option<u64>, is_learner: bool) -> Answer {
        let status = StatusReply {
            cluster_id: ClusterId(1),
            member_id: MemberId(id),
            leader: leader.map(MemberId),
            is_learner,
            applied: 1,
            revision: Revision(1),
            version: Version::new(3, 6, 1),
            errors: Vec::new(),
        };
        Answer { at: Instant(0), reply: Ok(status) }
    }

    fn asked(answers: &[Answer]) -> Result<String, String> {
        let named = answers
            .iter()
            .enumerate()
            .map(|(n, answer)| (MemberName::new(format!("demo-{n}")), answer.clone()));
        member_to_ask(&named.collect()).map(ToString::to_string)
    }

    #[test]
    fn h15_the_list_is_asked_of_the_leader_else_of_a_voter_that_follows_one() {
        let silent = Answer { at: Instant(0), reply: Err("unreachable".to_owned()) };
        let (learner, follower, leader) =
            (answer(1, Some(3), true), answer(2, Some(3), false), answer(3, Some(3), false));
        assert_eq!(asked(&[learner.clone(), follower.clone(), leader]).as_deref(), Ok("demo-2"));
        assert_eq!(asked(&[silent.clone(), learner.clone(), follower]).as_deref(), Ok("demo-2"));
        assert!(asked(&[learner, answer(2, None, false)]).unwrap_err().contains("has a leader"));
        assert!(asked(&[silent]).unwrap_err().contains("no member answers"));
    }
}
