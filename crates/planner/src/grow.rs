//! Growth by one. G1 record the name; G2 volume; G3 MemberAdd as learner; G4 Pod, `existing`, with the list as its
//! initial cluster; G5 wait until it is started and in sync, label its Pod joined, and write its identity on its volume; G6 promote.
//! Every step depends on what is observed, so after a crash the next pass continues. A learner without progress is rolled back.

use quorate_model::effect::{
    Boot, GivenUp, HeldUp, LEARNER_DEADLINE, LEARNER_SYNC_DEADLINE, PodTrouble, SafePoint, Unsafe,
};
use quorate_model::record::{FailedLearners, Leaving, Stage};
use quorate_model::snapshot::{Pod, Unhealthy};
use quorate_model::{EtcdCall, Instant, KubeEffect, MemberName, PeerUrl, Span, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON};
use crate::{facts, maintain, replace, safety, shrink, upkeep};

/// The bytes of the database that a learner receives in a second, at least. A line between zones may be that thin.
const LEAST_SYNC_RATE: u64 = 1 << 20;

/// Takes the outstanding growth one step on.
pub(crate) fn finish(draft: &mut Draft<'_>) -> Flow {
    let Some((name, member)) = draft.record.joining().map(|(name, member)| (name.clone(), member.clone()))
    else {
        return ON;
    };
    // Only its name exists, or its volume, too: the lost member is removed first (R6).
    let is_begun = draft.listed(&name).is_some() || member.id.is_some();
    if !is_begun && facts::lost_voter(draft.view()).is_some() {
        return ON;
    }
    if let Some(why) = reason_to_roll_back(draft, &name, member.since) {
        draft.wait(Waiting::SafePoint(SafePoint::LearnerGivenUp(name.clone(), why.clone())));
        if let Some(failure) = why.failure(&name)
            && !replace::make_place(draft, &name)
        {
            count_failure(draft, failure);
        }
        draft.enter(Step::G5, &name, Stage::Leaving(Leaving::RolledBack));
        return shrink::finish(draft);
    }
    // What ends that comes first.
    if !is_begun && waits_for_others(draft) {
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
    if let Err(why) = safety::may_grow(draft.view()) {
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
    let judged = safety::may_grow(draft.view());
    matches!(judged, Err(Unsafe::VersionsMixed(_) | Unsafe::VoterUnhealthy(_)))
        && draft.wait_unless_safe(judged)
}

/// A learner takes no redundancy, and no other change of membership begins beside it (R5). So it makes way at once for whatever is more urgent,
/// and is given up when it is not promoted in time.
fn reason_to_roll_back(draft: &Draft<'_>, name: &MemberName, since: Instant) -> Option<GivenUp> {
    if draft.view().is_listed_voter(name) {
        return None;
    }
    if let Some(what) = more_urgent(draft, name) {
        return Some(what);
    }
    // Joining may be what raises the alarm: the next one comes with growing delay.
    if draft.listed(name).is_some() && draft.seen.is_alarmed(draft.now) {
        return Some(GivenUp::DataDiffer);
    }
    let within = deadline(draft, name);
    // A learner that still receives data has time.
    let progress =
        draft.seen.etcd.learner_progress.as_ref().filter(|(learner, at)| learner == name && *at <= draft.now);
    let since = progress.map_or(since, |(_, at)| since.max(*at));
    (draft.view().earliest() - since > within).then(|| {
        let trouble = draft.pod(name).and_then(|pod| {
            let refused = pod.guard.as_ref().map(|(verdict, why)| format!("{verdict}: {why}"));
            refused.or_else(|| pod.trouble.clone())
        });
        GivenUp::NotInSync { within, trouble }
    })
}

/// What comes before a learner, if something does.
fn more_urgent(draft: &Draft<'_>, name: &MemberName) -> Option<GivenUp> {
    let size = draft.record.target.as_ref()?.size;
    let view = draft.view();
    let is_lost = view.lost_its_volume(name) || has_run_on_nothing_known(draft, name);
    if is_lost || view.claim_is_terminating(name) {
        return Some(GivenUp::VolumeGone);
    }
    if draft.record.voters().count() >= size + replace::surplus(draft) {
        return Some(GivenUp::NotWanted);
    }
    // Rollouts wait for it, and it for a rollout.
    let is_listed = draft.listed(name).is_some();
    let admits = if is_listed { safety::membership_may_change } else { safety::members_may_join };
    if let Err(why @ Unsafe::VersionsMixed(_)) = admits(view) {
        return Some(GivenUp::Unsafe(why));
    }
    // The lost member must be removed first (R6).
    if let Some(lost) = facts::lost_voter(view) {
        return Some(GivenUp::LostFirst(lost.clone()));
    }
    if maintain::needs_learner_gone(draft) {
        return Some(GivenUp::DatabaseFull);
    }
    // What would cure that voter does not begin beside a learner.
    let voter = facts::unhealthy_for_long(view, None).filter(|_| is_listed)?;
    Some(GivenUp::VoterUnhealthy(voter.clone()))
}

/// Why a learner is not promoted, and will not be soon, so that an edit need not wait for it.
pub(crate) fn why_held_up(draft: &Draft<'_>, learner: &MemberName) -> Option<HeldUp> {
    if draft.view().is_listed_voter(learner) {
        return None;
    }
    if draft.status_of(learner).is_none_or(|status| status.leader.is_none()) {
        // Where the line is too thin for what is written, etcd sends one snapshot after the other, and each counts as received.
        let since = draft.record.members.get(learner)?.since;
        let limit = LEARNER_DEADLINE.max(copied_within(draft));
        return (draft.view().earliest() - since > limit).then_some(HeldUp::NoCopy(limit));
    }
    let mut voters = draft.record.voters();
    if let Some(voter) = voters.find(|voter| draft.seen.etcd.unhealthy_since.contains_key(*voter)) {
        return Some(HeldUp::Voter(voter.clone()));
    }
    let (_, last) = draft.seen.etcd.learner_progress.as_ref().filter(|(of, _)| of == learner)?;
    (draft.now - *last > LEARNER_DEADLINE).then_some(HeldUp::NoProgress)
}

/// Whether the list has a learner as started, and neither status nor Kubernetes knows a volume of it: a volume is recorded before its Pod is
/// created, so both went back in time. On another volume it would be the same member without what it has stored (R2).
fn has_run_on_nothing_known(draft: &Draft<'_>, name: &MemberName) -> bool {
    let has_run = draft.listed(name).is_some_and(|listed| listed.started);
    let is_recorded = draft.record.members.get(name).is_some_and(|member| member.volume.is_some());
    has_run && !is_recorded && draft.volume(name).is_none() && !draft.record.is_in_memory()
}

/// A learner that failed differs from one that made way: after it the next one is added with growing delay.
fn count_failure(draft: &mut Draft<'_>, reason: String) {
    let now = draft.now;
    draft.write_record(Step::G5, |record| {
        let count = record.failed_learners.as_ref().map_or(0, |failed| failed.count).saturating_add(1);
        record.failed_learners = Some(FailedLearners { count, reason, at: now });
    });
}

/// How long a learner may take without progress: it is in sync, receives data, or comes closer to the leader. One that runs answers nothing
/// before it has a copy of the leader's database.
fn deadline(draft: &Draft<'_>, name: &MemberName) -> Span {
    let runs = |pod: &Pod| pod.ip.is_some() && pod.trouble.is_none() && pod.guard.is_none();
    if !draft.pod(name).is_some_and(runs) {
        return LEARNER_DEADLINE;
    }
    LEARNER_SYNC_DEADLINE.max(copied_within(draft))
}

/// How long the copy of the leader's database takes over the thinnest line that is waited for.
fn copied_within(draft: &Draft<'_>) -> Span {
    let sizes = draft.record.voters().filter_map(|voter| Some(draft.status_of(voter)?.database.size));
    Span::seconds(sizes.max().unwrap_or(0) / LEAST_SYNC_RATE)
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
    let Some(via) = draft.via() else { return };
    let peer_url = draft.seen.peer_url(name);
    draft.call(Step::G3, via, EtcdCall::AddLearner { member: name.clone(), peer_url });
    draft.wait(catches_up(draft, name));
}

/// G4. etcd compares the initial cluster with the list, entry by entry.
fn start(draft: &mut Draft<'_>, name: &MemberName) {
    let Some(list) = draft.seen.list(draft.now) else { return };
    let peers = list.members.iter().map(|listed| (draft.view().name_of(listed), listed.peer_url.clone()));
    let peers: Vec<(MemberName, PeerUrl)> = peers.collect();
    draft.write(Step::G4, KubeEffect::CreatePod { member: name.clone(), boot: Boot::Join, peers });
    draft.wait(Waiting::PodStarting(name.clone()));
}

/// G5 and G6. Level-triggered: etcd decides whether the learner is in sync, and is asked again on every pass.
fn promote(draft: &mut Draft<'_>, name: &MemberName, id: quorate_model::MemberId) {
    if let Some(trouble) = draft.pod(name).and_then(|pod| pod.trouble.clone()) {
        draft.wait(Waiting::PodStuck(name.clone(), PodTrouble::Says(trouble)));
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
        && let Some(via) = draft.via()
    {
        draft.call(Step::G6, via, EtcdCall::Promote { member: name.clone(), id });
    }
}
