//! The safety rules. Every effect of every protocol passes [`permits`]. This is the one place that refuses one.
//! The rules that it enforces are in the table of ARCHITECTURE.md.
//!
//! The cluster may change between the check and the act. So the rules never make a known bad situation worse, and etcd's own
//! reconfiguration check and Kubernetes' preconditions refuse the rest.

mod adoption;
mod auth;
mod certificates;
mod claims;
mod differ;
mod incarnation;
mod issuance;
#[cfg(feature = "mutants")]
pub mod mutants;
mod quorum_recovery;
mod replace;
mod rotation;
mod serves;
mod space;
mod tenants;
mod versions;
mod volumes;

pub(crate) use adoption::{foreign_pods, may_adopt};
pub(crate) use auth::{all_have_credential, clients_had_time};
pub use space::{may_begin_defragmentation, may_disarm};
pub(crate) use tenants::{may_disable_auth, may_replace_authority};

use std::collections::BTreeSet;

use quorate_model::effect::{Boot, Unsafe};
use quorate_model::incarnation::Admitted;
use quorate_model::quorum::{has_quorum, quorum};
use quorate_model::record::{QuarantineCause, Stage};
use quorate_model::snapshot::{Alarm, Budget, BudgetPolicy, FRESH, List, Pod, Unhealthy};
use quorate_model::{
    ClusterId, DeletedObject, Effect, EtcdCall, Instant, KubeEffect, ManagedObject, MemberId, MemberName,
    ObservedObject, PeerUrl, Record, Snapshot, Uid,
};

pub(crate) use certificates::was_reached;
pub(crate) use claims::keeps_data;
pub use claims::would_keep_data;
pub(crate) use differ::may_give_data_up;
pub use incarnation::may_begin_incarnation;
pub(crate) use issuance::may_take_anew;
pub(crate) use quorum_recovery::{has_volume, loses_its_volume};
pub use quorum_recovery::{is_read, is_stopped, may_recover};
pub(crate) use replace::MOVES_IN_PLACE;
pub use replace::may_replace;
pub(crate) use rotation::has_all_leaves;
pub use rotation::{is_dropped, may_begin_rotation, may_drop_earlier, may_sign_with_new, may_swap};
pub(crate) use serves::may_leave_out;

use crate::facts;

/// What an effect is judged against.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// What was observed.
    pub seen: &'a Snapshot,
    /// The record as status has it before the first effect (R3).
    pub record: &'a Record,
    /// The time.
    pub now: Instant,
    /// The effects of the same plan that are carried out before this one.
    pub before: &'a [Effect],
}

pub(crate) use versions::{
    data_allow, data_have_gone_back, downgrade_in_force, is_half_done, line_of, members_may_join,
    membership_may_change,
};

type Judged = Result<(), Unsafe>;

/// Every check ends here, so that a test can turn any one of them off and show what it is for.
fn forbid(why: Unsafe) -> Judged {
    #[cfg(feature = "mutants")]
    if mutants::is_off(&why) {
        return Ok(());
    }
    Err(why)
}

/// Whether an effect may be carried out.
pub fn permits(scene: &Scene<'_>, effect: &Effect) -> Judged {
    // R12. A person decided to delete the cluster, so deletion includes the members of both.
    if !scene.seen.deleting && is_split(scene.seen, scene.now) {
        forbid(Unsafe::SplitBrain)?;
    }
    match effect {
        Effect::Kube { write, .. } => may_write(scene, write),
        Effect::Etcd { at, call, .. } => may_call(scene, at, call),
    }
}

fn may_write(scene: &Scene<'_>, write: &KubeEffect) -> Judged {
    match write {
        KubeEffect::AddFinalizer
        | KubeEffect::RemoveFinalizer
        | KubeEffect::Apply(_)
        | KubeEffect::ApplyMetadata { .. }
        | KubeEffect::CreateBackup { .. } => Ok(()),
        KubeEffect::Delete { object, observed } => may_delete(scene, *object, observed),
        KubeEffect::CreateAuthority { ca, place, given } => {
            certificates::may_create_authority(scene, (*ca, *place), given.as_ref())
        }
        KubeEffect::MakeNextAuthority { ca, given, observed } => {
            rotation::may_make_next(scene, *ca, given.as_ref(), observed)
        }
        KubeEffect::ArrangeAuthority { ca, observed, signer } => {
            rotation::may_arrange(scene, *ca, observed, signer)
        }
        KubeEffect::WriteTrust { leaf, observed, trust, generation } => {
            rotation::may_write_trust(scene, *leaf, observed, (trust, *generation))
        }
        KubeEffect::KeepAuthority { ca, observed } => certificates::may_keep_authority(scene, *ca, observed),
        KubeEffect::IssueLeaf { leaf, by } => certificates::may_issue(scene, *leaf, by),
        KubeEffect::RenewLeaf { leaf, by, observed } => certificates::may_renew(scene, *leaf, by, observed),
        KubeEffect::CreateCertificate { leaf, asked } => issuance::may_create(scene, *leaf, asked),
        KubeEffect::ChangeCertificate { leaf, asked, observed } => {
            issuance::may_change(scene, *leaf, asked, observed)
        }
        KubeEffect::CreateVolume { member } => may_create_volume(scene, member),
        KubeEffect::AnnotateVolume { member, volume, .. }
        | KubeEffect::ExpandVolume { member, volume, .. } => may_change_volume(scene, member, volume),
        KubeEffect::DeleteVolume { member, volume, resource_version } => {
            volumes::may_delete(scene, member, volume, resource_version)
        }
        KubeEffect::QuarantineVolume { member, volume, why: QuarantineCause::Left(_), .. } => {
            volumes::may_quarantine(scene, member, volume)
        }
        KubeEffect::QuarantineVolume { member, volume, why: QuarantineCause::Superseded, .. } => {
            incarnation::may_quarantine(scene, member, volume)
        }
        KubeEffect::CreatePod { member, boot, .. } => may_create_pod(scene, member, *boot),
        KubeEffect::UngatePod { member, pod } => may_ungate(scene, member, pod),
        KubeEffect::LabelJoined { member, pod } => may_label_joined(scene, member, pod),
        KubeEffect::LabelServes { member, pod } => serves::may_label(scene, member, pod),
        KubeEffect::LeadClientsAway { member, pod, .. } => serves::may_lead_away(scene, member, pod),
        KubeEffect::EvictPod { member, pod } => may_evict(scene, member, pod),
        KubeEffect::DeletePod { member, pod, resource_version } => {
            may_delete_pod(scene, member, pod, resource_version)
        }
    }
}

fn may_delete(scene: &Scene<'_>, object: DeletedObject, observed: &ObservedObject) -> Judged {
    match object {
        DeletedObject::Budget | DeletedObject::NetworkPolicy => Ok(()),
        DeletedObject::Authority(ca) => certificates::may_delete_authority(scene, ca, observed),
        DeletedObject::Certificate(leaf) => issuance::may_delete(scene, leaf, observed),
        DeletedObject::Issued(leaf) => issuance::may_delete_issued(scene, leaf, observed),
    }
}

fn may_call(scene: &Scene<'_>, at: &MemberName, call: &EtcdCall) -> Judged {
    match call {
        EtcdCall::AddLearner { member, peer_url } => may_add(scene, member, peer_url, at),
        EtcdCall::Promote { member, id } => may_promote(scene, member, *id, at),
        EtcdCall::RemoveMember { member, id, peer_url } => may_remove_now(scene, member, *id, peer_url, at),
        EtcdCall::MoveLeadership { to, to_id } => may_lead(scene, to, *to_id),
        EtcdCall::Downgrade { action, to } => versions::may_ask_for_downgrade(scene, *action, *to, at),
        EtcdCall::Disarm { member, kind } => {
            let alarm = Alarm { member: *member, kind: *kind };
            space::may_disarm(scene.seen, scene.record, scene.now, alarm)
        }
        EtcdCall::Compact { revision } => space::may_compact(scene, *revision),
        EtcdCall::Defragment { member } => space::may_defragment(scene, member),
        EtcdCall::Auth { change } => auth::may_change(scene, *change, at),
        EtcdCall::DeleteUser { user } | EtcdCall::DeleteRole { user } => auth::may_revoke(scene, user, at),
    }
}

/// R12: whether the recent replies of members and the record have more than one cluster id.
pub fn is_split(seen: &Snapshot, now: Instant) -> bool {
    let answers = seen.etcd.answers.keys().filter_map(|member| Some(seen.status_of(member, now)?.cluster_id));
    let listed = seen.list(now).map(|list| list.cluster_id);
    let ids: BTreeSet<ClusterId> = answers.chain(listed).chain(seen.record.cluster_id).collect();
    ids.len() > 1
}

/// R7: a member that answers with another id than the one that is recorded for its name.
pub fn wrong_member(seen: &Snapshot, now: Instant) -> Option<(MemberName, MemberId, MemberId)> {
    seen.record.members.iter().find_map(|(name, member)| {
        let (answers, recorded) = (seen.status_of(name, now)?.member_id, member.id?);
        (answers != recorded).then(|| (name.clone(), answers, recorded))
    })
}

/// Members that count for quorum by the record.
pub fn voters_by_record(record: &Record) -> impl Iterator<Item = &MemberName> {
    let voters = record.members.iter().filter(|(_, member)| member.counts_for_quorum());
    voters.filter(|(_, member)| member.stage != Stage::Bootstrap).map(|(name, _)| name)
}

/// R5, R6, R9, R11: whether a member may be added.
pub fn may_grow(seen: &Snapshot, record: &Record, now: Instant) -> Judged {
    let list = fresh_list(seen, now)?;
    none_defragments(record)?;
    let listed_leaving =
        record.leaving().map(|(name, _)| name).find(|name| seen.listed(record, name, now).is_some());
    if let Some(leaving) = listed_leaving {
        forbid(Unsafe::ChangeOutstanding(leaving.clone()))?;
    }
    if let Some(learner) = list.members.iter().find(|listed| listed.is_learner) {
        let name = seen.member_of(record, learner).unwrap_or_else(|| MemberName::new(&*learner.name));
        forbid(Unsafe::ChangeOutstanding(name))?;
    }
    all_voters_healthy(seen, record, now, None)?;
    members_may_join(seen, record, now)
}

/// R5, R11, R15: whether a member may be removed: the others stay a quorum, and where data differ, one that agrees.
pub fn may_remove(seen: &Snapshot, record: &Record, now: Instant, member: &MemberName) -> Judged {
    let list = fresh_list(seen, now)?;
    let listed = seen.listed(record, member, now).ok_or_else(|| Unsafe::NotThatMember(member.clone()))?;
    if listed.is_learner {
        return Ok(());
    }
    none_defragments(record)?;
    if let Some((joining, _)) = record.joining().filter(|(name, _)| seen.listed(record, name, now).is_some())
    {
        forbid(Unsafe::ChangeOutstanding(joining.clone()))?;
    }
    // A full database does not keep its member, or another one, from storing what the cluster commits.
    if seen.is_sound(member, now) {
        all_voters_fit(Fit::ButForSpace, seen, record, now, Some(member))?;
        membership_may_change(seen, record, now)?;
    }
    let of = list.members.iter().filter(|listed| !listed.is_learner).count() - 1;
    let left = fit_voters(Fit::ButForSpace, seen, record, now).filter(|fit| fit != member).count();
    if !has_quorum(left, of) {
        forbid(Unsafe::WouldLoseQuorum { member: member.clone(), left, of })?;
    }
    differ::may_give_data_up(seen, record, now, member)?;
    progress_is_proven(seen, now)
}

/// R2, R3: only for a recorded name, and only once.
fn may_create_volume(scene: &Scene<'_>, member: &MemberName) -> Judged {
    let recorded = recorded(scene, member)?;
    let new = match recorded.stage {
        Stage::Bootstrap => is_bootstrapping(scene),
        Stage::Joining => true,
        Stage::Voter | Stage::Leaving(_) => false,
    };
    if new && recorded.volume.is_none() && !scene.seen.volumes.contains_key(member) {
        Ok(())
    } else {
        forbid(Unsafe::NotItsVolume(member.clone()))
    }
}

fn may_change_volume(scene: &Scene<'_>, member: &MemberName, volume: &Uid) -> Judged {
    let recorded = recorded(scene, member)?;
    if recorded.volume.as_ref() == Some(volume) {
        Ok(())
    } else {
        forbid(Unsafe::NotItsVolume(member.clone()))
    }
}

/// Only the Pod of a voter, of a learner that answers, or of a bootstrap member that has followed a leader. The label is never removed,
/// and with it the guard takes an empty volume for a loss.
fn may_label_joined(scene: &Scene<'_>, member: &MemberName, pod: &Uid) -> Judged {
    let has_data = match recorded(scene, member)?.stage {
        Stage::Voter => true,
        Stage::Joining => scene.seen.status_of(member, scene.now).is_some(),
        // Once that is recorded, the attempt is never given up.
        Stage::Bootstrap => {
            scene.record.had_leader
                && facts::has_followed_a_leader(scene.seen, scene.record, scene.now, member)
        }
        Stage::Leaving(_) => false,
    };
    if !has_data {
        forbid(Unsafe::NotRecorded(member.clone()))?;
    }
    its_pod(scene, member, pod)
}

/// R1, R2, R3.
fn may_create_pod(scene: &Scene<'_>, member: &MemberName, boot: Boot) -> Judged {
    let recorded = recorded(scene, member)?;
    if scene.seen.pods.contains_key(member) {
        forbid(Unsafe::NotSeen(member.clone()))?;
    }
    if scene.record.hibernating {
        forbid(Unsafe::NotRecorded(member.clone()))?;
    }
    incarnation::may_start(scene, member, boot)?;
    data_allow(scene.seen, scene.record, scene.now, member)?;
    begins_as_recorded(scene, member, boot)?;
    match (boot, recorded.stage) {
        (Boot::Read | Boot::Extract, _) => quorum_recovery::may_hold(scene, member, boot)?,
        // R1
        (Boot::New | Boot::Restore, Stage::Bootstrap) if is_bootstrapping(scene) => {}
        (Boot::New | Boot::Restore, Stage::Bootstrap | Stage::Joining | Stage::Voter | Stage::Leaving(_)) => {
            forbid(Unsafe::NotABootstrapMember(member.clone()))?;
        }
        (Boot::Join, Stage::Joining) => {
            fresh_list(scene.seen, scene.now)?;
            // A voter has data, and does not start without them.
            let listed = scene.seen.listed(scene.record, member, scene.now);
            if !listed.is_some_and(|listed| listed.is_learner) {
                forbid(Unsafe::NotThatMember(member.clone()))?;
            }
        }
        (Boot::Resume, Stage::Voter | Stage::Leaving(_)) if scene.record.cluster_id.is_some() => {}
        // A quorum has been restored. Its own data may be newer than the snapshot.
        (Boot::Resume, Stage::Bootstrap) if is_bootstrapping(scene) && must_have_data(scene.record) => {}
        // Only where it may be a voter by now, or the voter that the quorum lacks.
        (Boot::Resume, Stage::Joining) if recorded.id.is_some() && may_vote(scene, member) => {}
        (Boot::Join | Boot::Resume, Stage::Bootstrap | Stage::Joining | Stage::Voter | Stage::Leaving(_)) => {
            forbid(Unsafe::NotRecorded(member.clone()))?;
        }
    }
    its_volume(scene, member, recorded.volume.as_ref())
}

/// R1. A create call may arrive long after its check. So the Pod of a bootstrap member is created gated, and this second check
/// is made on the Pod that was observed.
fn may_ungate(scene: &Scene<'_>, member: &MemberName, pod: &Uid) -> Judged {
    let recorded = recorded(scene, member)?;
    if recorded.stage != Stage::Bootstrap || !is_bootstrapping(scene) {
        forbid(Unsafe::NotABootstrapMember(member.clone()))?;
    }
    incarnation::may_start(scene, member, Boot::New)?;
    its_pod(scene, member, pod)?;
    if must_have_data(scene.record) && scene.seen.pods.get(member).is_some_and(|pod| pod.restores) {
        forbid(Unsafe::RestoresAgain(member.clone()))?;
    }
    its_volume(scene, member, recorded.volume.as_ref())
}

/// R1, where the cluster begins with a snapshot: no member begins with nothing, and none with the snapshot once members may have
/// acknowledged writes. R22: a volume of this EtcdCluster that gave way to a snapshot shows that one was ordered, also where the record lost
/// that.
fn begins_as_recorded(scene: &Scene<'_>, member: &MemberName, boot: Boot) -> Judged {
    match boot {
        Boot::New
            if scene.record.restore.is_some() || scene.seen.restore.is_some() || any_gave_way(scene.seen) =>
        {
            forbid(Unsafe::MustRestore(member.clone()))
        }
        Boot::Restore if scene.record.restore.is_none() => {
            forbid(Unsafe::NotABootstrapMember(member.clone()))
        }
        Boot::Restore if must_have_data(scene.record) => forbid(Unsafe::RestoresAgain(member.clone())),
        Boot::New | Boot::Restore | Boot::Join | Boot::Resume | Boot::Read | Boot::Extract => Ok(()),
    }
}

/// Whether data of this EtcdCluster made way for those of a snapshot.
fn any_gave_way(seen: &Snapshot) -> bool {
    seen.volumes.values().any(|volume| volume.gave_way && volume.cluster_uid.as_ref() == Some(&seen.uid))
}

/// Whether the bootstrap members of a restore have had a leader. From then on one of them may have acknowledged writes, and etcd does
/// not notice that it forgot them: restored data look like its own.
pub(crate) fn must_have_data(record: &Record) -> bool {
    record.restore.is_some() && record.had_leader
}

/// Whether bootstrap members may start as new: no cluster id is recorded, and the attempt is not given up.
fn is_bootstrapping(scene: &Scene<'_>) -> bool {
    scene.record.cluster_id.is_none() && scene.record.abandoned.is_none()
}

/// Whether etcd may count the member as a voter: the list does, or there is no list.
fn may_vote(scene: &Scene<'_>, member: &MemberName) -> bool {
    let listed = scene.seen.listed(scene.record, member, scene.now);
    scene.seen.list(scene.now).is_none() || listed.is_some_and(|listed| !listed.is_learner)
}

/// R16: a Pod that serves is evicted, so that its disruption and that of a drain take turns.
fn may_evict(scene: &Scene<'_>, member: &MemberName, pod: &Uid) -> Judged {
    its_pod(scene, member, pod)?;
    claims::may_end_pod(scene, member)?;
    // R5
    if scene.before.iter().any(|effect| reduces_redundancy(scene, effect)) {
        forbid(Unsafe::SecondDisruption(member.clone()))?;
    }
    may_disturb(scene, member)?;
    may_succeed(scene.seen, member, scene.now)
}

/// R27: a Pod is ended for the next one only where the API server admitted that in this pass.
pub(crate) fn may_succeed(seen: &Snapshot, member: &MemberName, now: Instant) -> Judged {
    let said = seen.successors.get(member).and_then(|admission| admission.counts(now));
    match said {
        Some(Admitted::Yes) => Ok(()),
        Some(Admitted::No(why) | Admitted::Unknown(why)) => {
            forbid(Unsafe::NotAdmitted(member.clone(), Some(why.clone())))
        }
        None => forbid(Unsafe::NotAdmitted(member.clone(), None)),
    }
}

/// A Pod that cannot serve may always be deleted. Another one is deleted only where the other voters form a quorum and none of
/// their Pods can be evicted meanwhile.
fn may_delete_pod(scene: &Scene<'_>, member: &MemberName, pod: &Uid, version: &str) -> Judged {
    let Some(seen) = scene.seen.pods.get(member) else { return Err(Unsafe::NotSeen(member.clone())) };
    // R3
    if seen.uid != *pod || seen.resource_version != version {
        forbid(Unsafe::NotSeen(member.clone()))?;
    }
    claims::may_end_pod(scene, member)?;
    if is_free_to_delete(scene, member, seen) {
        return Ok(());
    }
    // R5
    if scene.before.iter().any(|effect| reduces_redundancy(scene, effect)) {
        forbid(Unsafe::SecondDisruption(member.clone()))?;
    }
    // R16
    if seen.ready && scene.seen.is_sound(member, scene.now) {
        forbid(Unsafe::MustEvict(member.clone()))?;
    }
    if seen.ready {
        budget_is_closed(scene.seen, scene.record, member)?;
    }
    may_disturb(scene, member)?;
    // One that is recorded to leave has none.
    let stays = scene.record.members.get(member).is_some_and(|member| member.stage == Stage::Voter);
    if stays { may_succeed(scene.seen, member, scene.now) } else { Ok(()) }
}

/// Whether the deletion of this Pod takes no voter from a running cluster.
fn is_free_to_delete(scene: &Scene<'_>, member: &MemberName, pod: &Pod) -> bool {
    let record = scene.record;
    // The trouble of a Pod may be its probe alone, or another container, while etcd serves and the quorum needs it.
    let health = scene.seen.health(member, scene.now);
    let serves = health.is_ok() || health == Err(Unhealthy::NotReady);
    let is_in_trouble = pod.trouble.is_some() || pod.guard.is_some();
    // In memory a container that ends again and again still has its data, and a Pod that is deleted has not.
    let may_have_data = record.is_in_memory() && pod.has_run && pod.guard.is_none();
    let never_started = !pod.has_run && pod.image_volume.is_some();
    let cannot_run =
        pod.finished || pod.gated || never_started || (!pod.ready && is_in_trouble && !may_have_data);
    let cannot_serve = !serves && cannot_run;
    let is_no_member =
        record.members.get(member).is_none_or(|recorded| matches!(recorded.stage, Stage::Leaving(_)));
    let is_removed = is_no_member && is_gone_from_list(scene, member).is_ok();
    // What holds no etcd takes nothing away.
    let terminates =
        incarnation::may_stop(scene, member) || quorum_recovery::may_stop(scene) || pod.read_only.is_some();
    terminates
        || scene.seen.deleting
        || record.hibernating
        || record.cluster_id.is_none()
        || cannot_serve
        || is_removed
}

/// R11, and at most one unhealthy voter at a time: every other voter is healthy, and with three or more voters the rest still
/// form a quorum.
fn may_disturb(scene: &Scene<'_>, member: &MemberName) -> Judged {
    let list = fresh_list(scene.seen, scene.now)?;
    // Its next Pod has the committed version.
    data_allow(scene.seen, scene.record, scene.now, member)?;
    if let Some((joining, _)) = scene.record.joining() {
        forbid(Unsafe::ChangeOutstanding(joining.clone()))?;
    }
    none_defragments(scene.record)?;
    // A restart that cures a full database waits for no other member whose database is full.
    let fit =
        if scene.seen.restart_raises_quota(scene.record, member) { Fit::ButForSpace } else { Fit::Healthy };
    all_voters_fit(fit, scene.seen, scene.record, scene.now, Some(member))?;
    let of = list.members.iter().filter(|listed| !listed.is_learner).count();
    let left = fit_voters(fit, scene.seen, scene.record, scene.now).filter(|fit| fit != member).count();
    // With one or two voters, any restart interrupts service. On a disk the data stay. In memory they would be lost with the
    // Pod, and with them the quorum that has to remove the member.
    if !((of <= 2 && !scene.record.is_in_memory()) || left >= quorum(of)) {
        forbid(Unsafe::WouldLoseQuorum { member: member.clone(), left, of })?;
    }
    // In memory the data go with the Pod.
    if scene.record.is_in_memory() {
        may_give_data_up(scene.seen, scene.record, scene.now, member)?;
    }
    // Who turned replacements off does not lose a member for good by an edit.
    if scene.record.is_in_memory() && !scene.seen.replacement_policy.enabled {
        forbid(Unsafe::NotReplaced(member.clone()))?;
    }
    progress_is_proven(scene.seen, scene.now)
}

fn reduces_redundancy(scene: &Scene<'_>, effect: &Effect) -> bool {
    let deletes_a_voter = match effect.as_kube() {
        Some(KubeEffect::EvictPod { .. }) => true,
        Some(KubeEffect::DeletePod { member, .. }) => {
            scene.seen.pods.get(member).is_some_and(|pod| !is_free_to_delete(scene, member, pod))
        }
        Some(_) | None => false,
    };
    let call = effect.as_etcd();
    deletes_a_voter || matches!(call, Some(EtcdCall::RemoveMember { .. } | EtcdCall::Defragment { .. }))
}

/// R5, R6, R7, R9.
fn may_add(scene: &Scene<'_>, member: &MemberName, peer_url: &PeerUrl, via: &MemberName) -> Judged {
    let recorded = recorded(scene, member)?;
    let list = membership_call(scene, member, via)?;
    may_grow(scene.seen, scene.record, scene.now)?;
    let joining = recorded.stage == Stage::Joining && recorded.id.is_none();
    let url_free = list.members.iter().all(|listed| listed.peer_url != *peer_url);
    if joining && url_free && *peer_url == scene.seen.peer_url(member) {
        Ok(())
    } else {
        forbid(Unsafe::NotThatMember(member.clone()))
    }
}

fn may_promote(scene: &Scene<'_>, member: &MemberName, id: MemberId, via: &MemberName) -> Judged {
    let recorded = recorded(scene, member)?;
    let list = membership_call(scene, member, via)?;
    none_defragments(scene.record)?;
    all_voters_healthy(scene.seen, scene.record, scene.now, None)?;
    let learner = list.members.iter().any(|listed| listed.id == id && listed.is_learner);
    if !learner || recorded.stage != Stage::Joining {
        forbid(Unsafe::NotThatMember(member.clone()))?;
    }
    membership_may_change(scene.seen, scene.record, scene.now)?;
    progress_is_proven(scene.seen, scene.now)?;
    // etcd takes a learner for ready by what its leader sent it. Once it votes, the quorum may depend on its disk.
    if scene.seen.is_healthy(member, scene.now) {
        Ok(())
    } else {
        forbid(Unsafe::VoterUnhealthy(member.clone()))
    }
}

fn may_remove_now(
    scene: &Scene<'_>,
    member: &MemberName,
    id: MemberId,
    peer_url: &PeerUrl,
    via: &MemberName,
) -> Judged {
    let recorded = recorded(scene, member)?;
    let list = membership_call(scene, member, via)?;
    // R7
    let that = list.members.iter().any(|listed| listed.id == id && listed.peer_url == *peer_url);
    if !that || !matches!(recorded.stage, Stage::Leaving(_)) {
        forbid(Unsafe::NotThatMember(member.clone()))?;
    }
    // R5
    let voter = list.members.iter().any(|listed| listed.id == id && !listed.is_learner);
    if voter {
        budget_is_closed(scene.seen, scene.record, member)?;
        // Before what costs a proof: the clients of a member take some seconds to leave.
        serves::is_led_away(scene, member)?;
    }
    if voter && scene.before.iter().any(|effect| reduces_redundancy(scene, effect)) {
        forbid(Unsafe::SecondDisruption(member.clone()))?;
    }
    may_remove(scene.seen, scene.record, scene.now, member)?;
    replace::may_give_up(scene, member)
}

fn may_lead(scene: &Scene<'_>, to: &MemberName, to_id: MemberId) -> Judged {
    fresh_list(scene.seen, scene.now)?;
    let voter = scene
        .seen
        .listed(scene.record, to, scene.now)
        .is_some_and(|listed| listed.id == to_id && !listed.is_learner);
    if !voter {
        forbid(Unsafe::NotThatMember(to.clone()))?;
    }
    none_defragments(scene.record)?;
    if !scene.seen.is_sound(to, scene.now) {
        forbid(Unsafe::VoterUnhealthy(to.clone()))?;
    }
    // A member that cannot store its vote does not take over, and meanwhile etcd drops writes.
    progress_is_proven(scene.seen, scene.now)
}

/// R5: one membership call in a plan. R9: it is made at the member that served the list.
fn membership_call<'a>(scene: &Scene<'a>, member: &MemberName, via: &MemberName) -> Result<&'a List, Unsafe> {
    let list = fresh_list(scene.seen, scene.now)?;
    incarnation::may_change(scene.record, member)?;
    if scene.before.iter().any(Effect::changes_membership) {
        forbid(Unsafe::ChangeOutstanding(member.clone()))?;
    }
    if scene.record.hibernating || scene.seen.deleting || scene.record.cluster_id != Some(list.cluster_id) {
        forbid(Unsafe::NoQuorum)?;
    }
    if list.via != *via {
        forbid(Unsafe::NoFreshList)?;
    }
    Ok(list)
}

/// R9, R11: a fresh linearizable list proves that there was a quorum just now.
/// Whether what was observed then still counts (R9, R18).
pub(crate) fn is_fresh(at: Instant, now: Instant) -> bool {
    at <= now && now - at <= FRESH
}

fn fresh_list(seen: &Snapshot, now: Instant) -> Result<&List, Unsafe> {
    if let Some(list) = seen.list_just_read(now) {
        return Ok(list);
    }
    forbid(Unsafe::NoFreshList)?;
    seen.etcd.list.as_ref().ok_or(Unsafe::NoFreshList)
}

/// R16: no Pod of the cluster is evicted while a member is removed or deleted. An eviction is admitted by the number of ready
/// Pods, which does not know that a ready member does not store, or that it is about to leave.
pub(crate) fn budget_is_closed(seen: &Snapshot, record: &Record, member: &MemberName) -> Judged {
    let is_foreign = seen.foreign.contains_key(&ManagedObject::DisruptionBudget);
    let is_ours = seen.budget_policy != BudgetPolicy::None && !is_foreign;
    let voters = record.members.values().filter(|member| member.counts_for_quorum()).count();
    let selects_others = |budget: &Budget| budget.excludes.as_ref().is_none_or(|excluded| excluded == member);
    let is_closed =
        seen.budget.as_ref().is_some_and(|budget| budget.is_closed(voters) && selects_others(budget));
    if is_closed || !is_ours { Ok(()) } else { forbid(Unsafe::BudgetOpen(member.clone())) }
}

/// R15: in this pass, after the list was read, every member that counts as healthy has stored an entry. Asked last, because a
/// proof costs two raft entries.
fn progress_is_proven(seen: &Snapshot, now: Instant) -> Judged {
    let list = fresh_list(seen, now)?;
    if seen.etcd.proof.is_some_and(|proof| proof.at >= list.at) {
        Ok(())
    } else {
        forbid(Unsafe::NotProven(seen.etcd.proof_failure.clone()))
    }
}

/// R10: a linearizable list has neither its id nor its peer URL.
fn is_gone_from_list(scene: &Scene<'_>, member: &MemberName) -> Judged {
    let list = fresh_list(scene.seen, scene.now)?;
    let annotated = || scene.seen.volumes.get(member).and_then(|volume| volume.member_id);
    let id = scene.record.members.get(member).and_then(|member| member.id).or_else(annotated);
    let url = scene.seen.peer_url(member);
    let listed = list.members.iter().any(|listed| Some(listed.id) == id || listed.peer_url == url);
    if listed { forbid(Unsafe::StillListed(member.clone())) } else { Ok(()) }
}

/// How well members must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// R15.
    Healthy,
    /// R15, but for a database that is full.
    ButForSpace,
}

fn is_fit(fit: Fit, seen: &Snapshot, member: &MemberName, now: Instant) -> bool {
    match fit {
        Fit::Healthy => seen.is_healthy(member, now),
        Fit::ButForSpace => seen.is_sound(member, now),
    }
}

fn all_voters_healthy(seen: &Snapshot, record: &Record, now: Instant, except: Option<&MemberName>) -> Judged {
    all_voters_fit(Fit::Healthy, seen, record, now, except)
}

fn all_voters_fit(
    fit: Fit,
    seen: &Snapshot,
    record: &Record,
    now: Instant,
    except: Option<&MemberName>,
) -> Judged {
    let list = fresh_list(seen, now)?;
    for listed in list.members.iter().filter(|listed| !listed.is_learner) {
        let name = seen.member_of(record, listed).unwrap_or_else(|| MemberName::new(&*listed.name));
        if Some(&name) != except && !is_fit(fit, seen, &name, now) {
            forbid(Unsafe::VoterUnhealthy(name))?;
        }
    }
    Ok(())
}

fn fit_voters<'a>(
    fit: Fit,
    seen: &'a Snapshot,
    record: &'a Record,
    now: Instant,
) -> impl Iterator<Item = MemberName> + 'a {
    let listed = seen.list(now).into_iter().flat_map(|list| &list.members);
    listed
        .filter(|listed| !listed.is_learner)
        .filter_map(move |listed| seen.member_of(record, listed))
        .filter(move |name| is_fit(fit, seen, name, now))
}

/// R5, R15: while a member is being defragmented it applies nothing and answers no read, and it is excused. Nothing else takes a
/// member away meanwhile.
fn none_defragments(record: &Record) -> Judged {
    match &record.defragmenting {
        Some(ordered) => forbid(Unsafe::Defragmenting(ordered.member.clone())),
        None => Ok(()),
    }
}

fn recorded<'a>(scene: &Scene<'a>, member: &MemberName) -> Result<&'a quorate_model::record::Member, Unsafe> {
    scene.record.members.get(member).ok_or_else(|| Unsafe::NotRecorded(member.clone()))
}

/// R3: the Pod with this uid was observed, and is not being deleted.
fn its_pod(scene: &Scene<'_>, member: &MemberName, pod: &Uid) -> Judged {
    match scene.seen.pods.get(member) {
        Some(seen) if seen.uid == *pod && !seen.terminating => Ok(()),
        Some(_) | None => forbid(Unsafe::NotSeen(member.clone())),
    }
}

/// R2: the observed volume is the recorded one, or the data are in memory.
fn its_volume(scene: &Scene<'_>, member: &MemberName, recorded: Option<&Uid>) -> Judged {
    if scene.record.is_in_memory() {
        return Ok(());
    }
    match scene.seen.volumes.get(member) {
        // R17: a quarantined volume is never mounted again.
        Some(volume) if volume.quarantine.is_some() => forbid(Unsafe::NotItsVolume(member.clone())),
        Some(volume) if recorded == Some(&volume.uid) && !volume.terminating => Ok(()),
        Some(_) | None => forbid(Unsafe::NotItsVolume(member.clone())),
    }
}
