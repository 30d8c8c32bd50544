//! Which member is asked for the member list.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use quorate_model::MemberName;
use quorate_model::snapshot::{Answer, StatusReply};

/// The leader, else a voter that follows one. Without a leader a linearizable list would only wait for its deadline, and so it
/// would at a former leader that is cut off or whose disk hangs: that one still reports itself, but most voters follow another.
pub fn member_to_ask(answers: &BTreeMap<MemberName, Answer>) -> Result<&MemberName, String> {
    let replies =
        || answers.iter().filter_map(|(member, answer)| Some((member, answer.reply.as_ref().ok()?)));
    // One that takes itself for a learner refuses the list, also where it leads: its data lack its promotion.
    let leads = |status: &StatusReply| status.leader == Some(status.member_id) && !status.is_learner;
    let follows = |status: &StatusReply| status.leader.is_some() && !status.is_learner;
    let followers = |status: &StatusReply| {
        replies().filter(|(_, other)| !other.is_learner && other.leader == status.leader).count()
    };
    let with_most = |(_, status): &(_, &StatusReply)| Reverse(followers(status));
    let leader = replies().filter(|(_, status)| leads(status)).min_by_key(with_most);
    let follower = || replies().filter(|(_, status)| follows(status)).min_by_key(with_most);
    match (leader.or_else(follower), answers.len(), replies().count()) {
        (Some((member, _)), ..) => Ok(member),
        (None, 0, _) => Err("no member has an address yet".to_owned()),
        (None, _, 0) => Err("no member answers".to_owned()),
        (None, ..) => Err("no voter that answers has a leader".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use quorate_model::snapshot::Database;
    use quorate_model::{ClusterId, Instant, MemberId, Revision, Version};

    use super::*;

    fn answer(id: u64, leader: Option<u64>, is_learner: bool) -> Answer {
        let status = StatusReply {
            cluster_id: ClusterId(1),
            member_id: MemberId(id),
            leader: leader.map(MemberId),
            is_learner,
            committed: 1,
            applied: 1,
            revision: Revision(1),
            version: Version::new(3, 6, 1),
            alarms: Vec::new(),
            errors: Vec::new(),
            database: Database::default(),
            storage_version: None,
            downgrade: None,
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

    #[test]
    fn s01_a_former_leader_that_still_reports_itself_is_not_asked_for_the_list() {
        let (former, leader, follower) =
            (answer(1, Some(1), false), answer(2, Some(2), false), answer(3, Some(2), false));
        assert_eq!(asked(&[former.clone(), leader, follower.clone()]).as_deref(), Ok("demo-1"));
        let silent = Answer { at: Instant(0), reply: Err("unreachable".to_owned()) };
        let other = answer(4, Some(2), false);
        assert_eq!(asked(&[answer(5, Some(1), false), silent, follower, other]).as_deref(), Ok("demo-2"));
    }
}
