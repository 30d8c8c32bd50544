//! Growth by one. G1 record the name; G2 volume; G3 MemberAdd as learner; G4 Pod, `existing`, with the list as its
//! initial cluster; G5 wait until it is started and in sync, label its Pod joined, and write its identity on its volume; G6 promote.
//! Every step depends on what is observed, so after a crash the next pass continues. A learner without progress is rolled back.

use quorate_model::effect::{Boot, LEARNER_DEADLINE, LEARNER_SYNC_DEADLINE, Unsafe};
use quorate_model::record::{FailedLearners, Leaving, Stage};
use quorate_model::snapshot::{Pod, Unhealthy};
use quorate_model::{Effect, EtcdCall, Instant, KubeEffect, MemberName, PeerUrl, Span, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON};
use crate::{facts, maintain, replace, safety, upkeep};

/// How long a learner in sync waits for a voter that is not healthy. It is the only outstanding change (R5), so nothing else
/// begins meanwhile, also not what would cure the voter. A node that restarts is back within this time.
pub(crate) const UNHEALTHY_VOTER_DEADLINE: Span = Span::seconds(600);

/// Takes the outstanding growth one step on.
pub(crate) fn finish(draft: &mut Draft<'_>) -> Flow {
    let Some((name, member)) = draft.record.joining().map(|(name, member)| (name.clone(), member.clone()))
    else {
        return ON;
    };
    // Only its name exists, or its volume, too: the lost member is removed first (R6).
    if draft.listed(&name).is_none() && member.id.is_none() && facts::lost_voter(draft).is_some() {
        return ON;
    }
    if let Some(why) = reason_to_roll_back(draft, &name, member.since) {
        draft.wait(why.as_waiting(&name));
        if let RollBack::Failed(reason) = why
            && !replace::make_place(draft, &name)
        {
            count_failure(draft, reason);
        }
        draft.enter(Step::G5, &name, Stage::Leaving(Leaving::RolledBack));
        return crate::shrink::finish(draft);
    }
    // What ends that comes first.
    if draft.listed(&name).is_none() && member.id.is_none() && waits_for_others(draft) {
        return ON;
    }
    if !draft.record.is_in_memory() && !draft.create_volume(Step::G2, &name).is_done() && member.id.is_some()
    {
        return DONE;
    }
    match draft.listed(&name) {
        None => add(draft, &name),
        Some(listed) if listed.is_learner && draft.pod(&name).is_none() => start(draft, &name),
        Some(listed) if listed.is_learner => promote(draft, &name, listed.id),
        Some(_) => draft.wait(catches_up(draft, &name)),
    }
    DONE
}

/// G1, then as far as it goes at once.
pub(crate) fn begin(draft: &mut Draft<'_>) -> Flow {
    // A name is recorded only when etcd will accept the member: names are never reused.
    if let Err(why) = safety::may_grow(draft.seen, &draft.record, draft.now) {
        // The rollout may be what cures that voter, or gives all the same version: it takes it first.
        let flow =
            if matches!(why, Unsafe::VoterUnhealthy(_) | Unsafe::VersionsMixed(_)) { ON } else { DONE };
        draft.wait(Waiting::Unsafe(why));
        return flow;
    }
    if let Some(failed) = draft.record.failed_learners.clone().filter(|failed| failed.must_wait(draft.now)) {
        draft.wait(Waiting::LearnersFailed { count: failed.count, reason: failed.reason });
        return ON;
    }
    draft.record_name(Step::G1, Stage::Joining);
    finish(draft)
}

/// Whether no member may be added because versions are mixed (R20), or a voter is not healthy (R6).
fn waits_for_others(draft: &mut Draft<'_>) -> bool {
    match safety::may_grow(draft.seen, &draft.record, draft.now) {
        Err(why @ (Unsafe::VersionsMixed(_) | Unsafe::VoterUnhealthy(_))) => {
            draft.wait(Waiting::Unsafe(why));
            true
        }
        Ok(()) | Err(_) => false,
    }
}

/// Why a learner is rolled back.
enum RollBack {
    /// Its volume is gone, or goes with its Pod.
    VolumeLost,
    /// It is not needed, or makes way for something else.
    MakesWay(String),
    /// It did not get in sync within its deadline, and why.
    Failed(String),
}

impl RollBack {
    fn as_waiting(&self, name: &MemberName) -> Waiting {
        match self {
            Self::VolumeLost => Waiting::VolumeLost(name.clone()),
            Self::MakesWay(why) | Self::Failed(why) => Waiting::SafePoint(why.clone()),
        }
    }
}

fn reason_to_roll_back(draft: &Draft<'_>, name: &MemberName, since: Instant) -> Option<RollBack> {
    let target = draft.record.target.as_ref()?;
    if draft.is_listed_voter(name) {
        return None;
    }
    if facts::lost_its_volume(draft, name) || draft.seen.claim_is_terminating(&draft.record, name) {
        return Some(RollBack::VolumeLost);
    }
    if draft.record.voters().count() >= target.size + replace::surplus(draft) {
        return Some(RollBack::MakesWay(format!("{name} is no longer desired")));
    }
    // Rollouts wait for it, and it for a rollout.
    let is_listed = draft.listed(name).is_some();
    let admits = if is_listed { safety::membership_may_change } else { safety::members_may_join };
    if let Err(why @ Unsafe::VersionsMixed(_)) = admits(draft.seen, &draft.record, draft.now) {
        return Some(RollBack::MakesWay(format!("{name} makes way: {why}")));
    }
    // The lost member must be removed first (R6), and one change is outstanding at a time (R5): neither would proceed.
    if let Some(lost) = facts::lost_voter(draft) {
        let why = format!("{name} makes way: {lost} has no usable data, and it is replaced first");
        return Some(RollBack::MakesWay(why));
    }
    if maintain::needs_learner_gone(draft) {
        let why = format!("{name} makes way: a database is full, and it is given room again first");
        return Some(RollBack::MakesWay(why));
    }
    if is_listed && draft.seen.is_alarmed(draft.now) {
        let why = format!(
            "{name} makes way: data of members differ (alarm CORRUPT), and those of a learner are not compared"
        );
        // Joining may be what raises the alarm: the next one comes with growing delay.
        return Some(RollBack::Failed(why));
    }
    if let Some(voter) = facts::holds_up_promotion(draft, name) {
        let since = draft.seen.etcd.unhealthy_since.get(&voter)?;
        return (draft.now - *since > UNHEALTHY_VOTER_DEADLINE).then(|| {
            RollBack::MakesWay(format!(
                "{name} makes way: it is not promoted while {voter} is not healthy, and that is so for more than \
                 {UNHEALTHY_VOTER_DEADLINE}"
            ))
        });
    }
    let deadline = deadline(draft, name);
    // A learner that still receives data has time.
    let progress =
        draft.seen.etcd.learner_progress.as_ref().filter(|(learner, at)| learner == name && *at <= draft.now);
    let since = progress.map_or(since, |(_, at)| since.max(*at));
    (draft.earliest() - since > deadline).then(|| {
        let trouble = draft.pod(name).and_then(|pod| {
            let refused = pod.guard.as_ref().map(|(verdict, why)| format!("{verdict}: {why}"));
            refused.or_else(|| pod.trouble.clone())
        });
        let why = trouble.map_or_else(String::new, |trouble| format!(" ({trouble})"));
        RollBack::Failed(format!("{name} did not get in sync within {deadline}{why}"))
    })
}

/// A learner that failed differs from one that made way: after it the next one is added with growing delay.
fn count_failure(draft: &mut Draft<'_>, reason: String) {
    let now = draft.now;
    draft.write_record(Step::G5, |record| {
        let count = record.failed_learners.as_ref().map_or(0, |failed| failed.count).saturating_add(1);
        record.failed_learners = Some(FailedLearners { count, reason, at: now });
    });
}

/// How long a learner may take without progress: it is in sync, receives data, or comes closer to the leader.
fn deadline(draft: &Draft<'_>, name: &MemberName) -> Span {
    let runs = |pod: &Pod| pod.ip.is_some() && pod.trouble.is_none() && pod.guard.is_none();
    if draft.pod(name).is_some_and(runs) { LEARNER_SYNC_DEADLINE } else { LEARNER_DEADLINE }
}

/// What a learner waits for, with how far it is behind to the power of ten: a message that changes with each entry would be written all the time.
fn catches_up(draft: &Draft<'_>, name: &MemberName) -> Waiting {
    let behind = match draft.seen.health(name, draft.now) {
        Err(Unhealthy::Lagging { applied, committed }) => committed.saturating_sub(applied).checked_ilog10(),
        Ok(()) | Err(_) => None,
    };
    Waiting::InSync { member: name.clone(), behind: behind.map(|zeros| 10_u64.pow(zeros)) }
}

/// G3.
fn add(draft: &mut Draft<'_>, name: &MemberName) {
    let Some(via) = draft.via().cloned() else { return };
    let peer_url = draft.seen.peer_url(name);
    draft.propose(Effect::etcd(Step::G3, via, EtcdCall::AddLearner { member: name.clone(), peer_url }));
    draft.wait(catches_up(draft, name));
}

/// G4. etcd compares the initial cluster with the list, entry by entry.
fn start(draft: &mut Draft<'_>, name: &MemberName) {
    let Some(list) = draft.seen.list(draft.now) else { return };
    let peers: Vec<(MemberName, PeerUrl)> = list
        .members
        .iter()
        .map(|listed| {
            let own = draft.member_of(listed);
            (own.unwrap_or_else(|| MemberName::new(&*listed.name)), listed.peer_url.clone())
        })
        .collect();
    let create = KubeEffect::CreatePod { member: name.clone(), boot: Boot::Join, peers };
    draft.propose(Effect::kube(Step::G4, create));
    draft.wait(Waiting::PodStarting(name.clone()));
}

/// G5 and G6. Level-triggered: etcd decides whether the learner is in sync, and is asked again on every pass.
fn promote(draft: &mut Draft<'_>, name: &MemberName, id: quorate_model::MemberId) {
    if let Some(trouble) = draft.pod(name).and_then(|pod| pod.trouble.clone()) {
        draft.wait(Waiting::PodStuck(name.clone(), trouble));
    }
    draft.wait(catches_up(draft, name));
    let started =
        draft.status_of(name).is_some_and(|status| status.leader.is_some() && status.member_id == id);
    let Some(pod) = draft.pod(name).filter(|_| started) else { return };
    // A voter must not start without its data, and after the promotion a crash may prevent the label.
    if !pod.is_labelled_joined() {
        draft.label_joined(name);
    }
    // Nor may it be forgotten: of two members the other one has no quorum, so only the volume says that this one is a voter, if status is
    // lost. Of more members the others have one without it, and their list has it; volumes that nobody may change do not hold it up there.
    let is_named = upkeep::name_volume(draft, name).is_done();
    let may_wait_for_its_name = draft.record.voters().count() > 1;
    if (is_named || may_wait_for_its_name)
        && pod.is_labelled_joined()
        && let Some(via) = draft.via().cloned()
    {
        draft.propose(Effect::etcd(Step::G6, via, EtcdCall::Promote { member: name.clone(), id }));
    }
}
