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
use quorate_model::mutants::is_off;
use quorate_model::quorum::{has_quorum, quorum};
use quorate_model::record::{Member, QuarantineCause, Stage};
use quorate_model::snapshot::{Alarm, Budget, BudgetPolicy, FRESH, List, Pod, Unhealthy};
use quorate_model::{
    ClusterId, DeletedObject, Effect, EtcdCall, Instant, KubeEffect, ManagedObject, MemberId, MemberName,
    ObservedObject, PeerUrl, Record, Snapshot, Uid,
};

pub(crate) use certificates::was_reached;
pub(crate) use claims::keeps_data;
pub use claims::would_keep_data;
pub(crate) use differ::may_give_data_up;
pub(crate) use incarnation::left_volumes;
pub use incarnation::may_begin_incarnation;
pub(crate) use issuance::may_take_anew;
pub use quorum_recovery::may_recover;
pub(crate) use quorum_recovery::{has_volume, is_read, is_stopped, loses_its_volume};
pub(crate) use replace::MOVES_IN_PLACE;
pub use replace::may_replace;
pub(crate) use rotation::{has_all_leaves, is_dropped, may_begin_rotation};
pub use rotation::{may_drop_earlier, may_sign_with_new, may_swap};
pub(crate) use serves::may_leave_out;
pub(crate) use versions::{
    data_allow, data_have_gone_back, downgrade_in_force, is_half_done, members_may_join,
    membership_may_change,
};

use crate::view::voters_of;
use crate::{View, facts};

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

impl<'a> Scene<'a> {
    fn view(&self) -> View<'a> {
        View { seen: self.seen, record: self.record, now: self.now }
    }
}

type Judged = Result<(), Unsafe>;

/// Every check ends here, so that a test can turn any one of them off and show what it is for.
fn forbid(why: Unsafe) -> Judged {
    if is_off(why.name()) { Ok(()) } else { Err(why) }
}

fn forbid_if(is_unsafe: bool, why: impl FnOnce() -> Unsafe) -> Judged {
    if is_unsafe { forbid(why()) } else { Ok(()) }
}

fn forbid_unless(is_safe: bool, why: impl FnOnce() -> Unsafe) -> Judged {
    forbid_if(!is_safe, why)
}

/// Whether an effect may be carried out.
pub fn permits(scene: &Scene<'_>, effect: &Effect) -> Judged {
    // R12. A person decided to delete the cluster, so deletion includes the members of both.
    forbid_if(!scene.seen.deleting && is_split(scene.seen, scene.now), || Unsafe::SplitBrain)?;
    match effect {
        Effect::Kube { write, .. } => may_write(scene, write),
        Effect::Etcd { at, call, .. } => may_call(scene, at, call),
    }
}

fn may_write(scene: &Scene<'_>, write: &KubeEffect) -> Judged {
    let view = scene.view();
    match write {
        KubeEffect::AddFinalizer
        | KubeEffect::RemoveFinalizer
        | KubeEffect::Apply(_)
        | KubeEffect::ApplyMetadata { .. }
        | KubeEffect::CreateBackup { .. } => Ok(()),
        KubeEffect::Delete { object, observed } => may_delete(view, *object, observed),
        KubeEffect::CreateAuthority { ca, place, given } => {
            certificates::may_create_authority(view, *ca, *place, given.as_ref())
        }
        KubeEffect::MakeNextAuthority { ca, given, observed } => {
            rotation::may_make_next(view, *ca, given.as_ref(), observed)
        }
        KubeEffect::ArrangeAuthority { ca, observed, signer } => {
            rotation::may_arrange(view, *ca, observed, signer)
        }
        KubeEffect::WriteTrust { leaf, observed, trust, generation } => {
            rotation::may_write_trust(view, *leaf, observed, (trust, *generation))
        }
        KubeEffect::KeepAuthority { ca, observed } => certificates::may_keep_authority(view, *ca, observed),
        KubeEffect::IssueLeaf { leaf, by } => certificates::may_issue(view, *leaf, by),
        KubeEffect::RenewLeaf { leaf, by, observed } => certificates::may_renew(view, *leaf, by, observed),
        KubeEffect::CreateCertificate { leaf, asked } => issuance::may_create(view, *leaf, asked),
        KubeEffect::ChangeCertificate { leaf, asked, observed } => {
            issuance::may_change(view, *leaf, asked, observed)
        }
        KubeEffect::CreateVolume { member } => may_create_volume(view, member),
        KubeEffect::AnnotateVolume { member, volume, .. }
        | KubeEffect::ExpandVolume { member, volume, .. } => may_change_volume(view, member, volume),
        KubeEffect::DeleteVolume { member, volume, resource_version } => {
            volumes::may_delete(view, member, volume, resource_version)
        }
        KubeEffect::QuarantineVolume { member, volume, why: QuarantineCause::Left(_), .. } => {
            volumes::may_quarantine(view, member, volume)
        }
        KubeEffect::QuarantineVolume { member, volume, why: QuarantineCause::Superseded, .. } => {
            incarnation::may_quarantine(view, member, volume)
        }
        KubeEffect::CreatePod { member, boot, .. } => may_create_pod(view, member, *boot),
        KubeEffect::UngatePod { member, pod } => may_ungate(view, member, pod),
        KubeEffect::LabelJoined { member, pod } => may_label_joined(view, member, pod),
        KubeEffect::LabelServes { member, pod } => serves::may_label(view, member, pod),
        KubeEffect::LeadClientsAway { member, pod, .. } => serves::may_lead_away(view, member, pod),
        KubeEffect::EvictPod { member, pod } => may_evict(scene, member, pod),
        KubeEffect::DeletePod { member, pod, resource_version } => {
            may_delete_pod(scene, member, pod, resource_version)
        }
    }
}

fn may_delete(view: View<'_>, object: DeletedObject, observed: &ObservedObject) -> Judged {
    match object {
        DeletedObject::Budget | DeletedObject::NetworkPolicy => Ok(()),
        DeletedObject::Authority(ca) => certificates::may_delete_authority(view, ca, observed),
        DeletedObject::Certificate(leaf) => issuance::may_delete(view, leaf, observed),
        DeletedObject::Issued(leaf) => issuance::may_delete_issued(view, leaf, observed),
    }
}

fn may_call(scene: &Scene<'_>, at: &MemberName, call: &EtcdCall) -> Judged {
    let view = scene.view();
    match call {
        EtcdCall::AddLearner { member, peer_url } => may_add(scene, member, peer_url, at),
        EtcdCall::Promote { member, id } => may_promote(scene, member, *id, at),
        EtcdCall::RemoveMember { member, id, peer_url } => may_remove_now(scene, member, *id, peer_url, at),
        EtcdCall::MoveLeadership { to, to_id } => may_lead(view, to, *to_id),
        EtcdCall::Downgrade { action, to } => versions::may_ask_for_downgrade(view, *action, *to, at),
        EtcdCall::Disarm { member, kind } => space::may_disarm(view, Alarm { member: *member, kind: *kind }),
        EtcdCall::Compact { revision } => space::may_compact(view, *revision),
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
pub fn may_grow(view: View<'_>) -> Judged {
    let list = fresh_list(view)?;
    none_defragments(view.record)?;
    none_leaves(view, None)?;
    none_learns(view, list)?;
    all_voters_fit(view, Fit::Healthy, None)?;
    members_may_join(view)
}

/// R5, R11, R15: whether a member may be removed: the others stay a quorum, and where data differ, one that agrees.
pub fn may_remove(view: View<'_>, member: &MemberName) -> Judged {
    let list = fresh_list(view)?;
    let listed = view.listed(member).ok_or_else(|| Unsafe::NotThatMember(member.clone()))?;
    if listed.is_learner {
        return Ok(());
    }
    none_defragments(view.record)?;
    none_joins(view)?;
    // A full database does not keep its member, or another one, from storing what the cluster commits.
    if view.is_sound(member) {
        all_voters_fit(view, Fit::ButForSpace, Some(member))?;
        membership_may_change(view)?;
    }
    let of = voters_of(list).count() - 1;
    let left = count_fit_others(view, Fit::ButForSpace, member);
    forbid_unless(has_quorum(left, of), || Unsafe::WouldLoseQuorum { member: member.clone(), left, of })?;
    differ::may_give_data_up(view, member)?;
    progress_is_proven(view)
}

/// R5: no member is leaving, but for one, that etcd's list still has.
fn none_leaves(view: View<'_>, except: Option<&MemberName>) -> Judged {
    let leaves = |name: &&MemberName| Some(*name) != except && view.listed(name).is_some();
    let leaving = view.record.leaving().map(|(name, _)| name).find(leaves);
    leaving.map_or(Ok(()), |leaving| forbid(Unsafe::ChangeOutstanding(leaving.clone())))
}

/// R5: etcd's list has no learner.
fn none_learns(view: View<'_>, list: &List) -> Judged {
    let learner = list.members.iter().find(|listed| listed.is_learner);
    learner.map_or(Ok(()), |learner| forbid(Unsafe::ChangeOutstanding(view.name_of(learner))))
}

/// R5: etcd's list has no member that is joining.
fn none_joins(view: View<'_>) -> Judged {
    let joining = view.record.joining().filter(|(name, _)| view.listed(name).is_some());
    joining.map_or(Ok(()), |(joining, _)| forbid(Unsafe::ChangeOutstanding(joining.clone())))
}

/// R5: nothing that is carried out before this takes another member away.
fn is_only_disruption(scene: &Scene<'_>, member: &MemberName) -> Judged {
    let is_second = scene.before.iter().any(|effect| reduces_redundancy(scene.view(), effect));
    forbid_if(is_second, || Unsafe::SecondDisruption(member.clone()))
}

/// R2, R3: only for a recorded name, and only once.
fn may_create_volume(view: View<'_>, member: &MemberName) -> Judged {
    let recorded = recorded(view, member)?;
    let new = match recorded.stage {
        Stage::Bootstrap => is_bootstrapping(view.record),
        Stage::Joining => true,
        Stage::Voter | Stage::Leaving(_) => false,
    };
    let is_first = new && recorded.volume.is_none() && view.volume(member).is_none();
    forbid_unless(is_first, || Unsafe::NotItsVolume(member.clone()))
}

fn may_change_volume(view: View<'_>, member: &MemberName, volume: &Uid) -> Judged {
    let is_its = recorded(view, member)?.volume.as_ref() == Some(volume);
    forbid_unless(is_its, || Unsafe::NotItsVolume(member.clone()))
}

/// Only the Pod of a voter, of a learner that answers, or of a bootstrap member that has followed a leader. The label is never removed,
/// and with it the guard takes an empty volume for a loss.
fn may_label_joined(view: View<'_>, member: &MemberName, pod: &Uid) -> Judged {
    let has_data = match recorded(view, member)?.stage {
        Stage::Voter => true,
        Stage::Joining => view.status_of(member).is_some(),
        // Once that is recorded, the attempt is never given up.
        Stage::Bootstrap => view.record.had_leader && facts::has_followed_a_leader(view, member),
        Stage::Leaving(_) => false,
    };
    forbid_unless(has_data, || Unsafe::NotRecorded(member.clone()))?;
    its_pod(view, member, pod)
}

/// R1, R2, R3.
fn may_create_pod(view: View<'_>, member: &MemberName, boot: Boot) -> Judged {
    let recorded = recorded(view, member)?;
    forbid_if(view.pod(member).is_some(), || Unsafe::NotSeen(member.clone()))?;
    forbid_if(view.record.hibernating, || Unsafe::NotRecorded(member.clone()))?;
    incarnation::may_start(view, member, boot)?;
    data_allow(view, member)?;
    begins_as_recorded(view, member, boot)?;
    match (boot, recorded.stage) {
        (Boot::Read | Boot::Extract, _) => quorum_recovery::may_hold(view, member, boot)?,
        // R1
        (Boot::New | Boot::Restore, Stage::Bootstrap) if is_bootstrapping(view.record) => {}
        (Boot::New | Boot::Restore, Stage::Bootstrap | Stage::Joining | Stage::Voter | Stage::Leaving(_)) => {
            forbid(Unsafe::NotABootstrapMember(member.clone()))?;
        }
        (Boot::Join, Stage::Joining) => {
            fresh_list(view)?;
            // A voter has data, and does not start without them.
            let is_learner = view.listed(member).is_some_and(|listed| listed.is_learner);
            forbid_unless(is_learner, || Unsafe::NotThatMember(member.clone()))?;
        }
        (Boot::Resume, Stage::Voter | Stage::Leaving(_)) if view.record.cluster_id.is_some() => {}
        // A quorum has been restored. Its own data may be newer than the snapshot.
        (Boot::Resume, Stage::Bootstrap) if is_bootstrapping(view.record) && must_have_data(view.record) => {}
        // Only where it may be a voter by now, or the voter that the quorum lacks.
        (Boot::Resume, Stage::Joining) if recorded.id.is_some() && may_vote(view, member) => {}
        (Boot::Join | Boot::Resume, Stage::Bootstrap | Stage::Joining | Stage::Voter | Stage::Leaving(_)) => {
            forbid(Unsafe::NotRecorded(member.clone()))?;
        }
    }
    its_volume(view, member, recorded.volume.as_ref())
}

/// R1. A create call may arrive long after its check. So the Pod of a bootstrap member is created gated, and this second check
/// is made on the Pod that was observed.
fn may_ungate(view: View<'_>, member: &MemberName, pod: &Uid) -> Judged {
    let recorded = recorded(view, member)?;
    let begins = recorded.stage == Stage::Bootstrap && is_bootstrapping(view.record);
    forbid_unless(begins, || Unsafe::NotABootstrapMember(member.clone()))?;
    incarnation::may_start(view, member, Boot::New)?;
    its_pod(view, member, pod)?;
    let restores = must_have_data(view.record) && view.pod(member).is_some_and(|pod| pod.restores);
    forbid_if(restores, || Unsafe::RestoresAgain(member.clone()))?;
    its_volume(view, member, recorded.volume.as_ref())
}

/// R1, where the cluster begins with a snapshot: no member begins with nothing, and none with the snapshot once members may have
/// acknowledged writes. R22: a volume of this EtcdCluster that gave way to a snapshot shows that one was ordered, also where the record lost
/// that.
fn begins_as_recorded(view: View<'_>, member: &MemberName, boot: Boot) -> Judged {
    let View { seen, record, .. } = view;
    match boot {
        Boot::New if record.restore.is_some() || seen.restore.is_some() || any_gave_way(view) => {
            forbid(Unsafe::MustRestore(member.clone()))
        }
        Boot::Restore if record.restore.is_none() => forbid(Unsafe::NotABootstrapMember(member.clone())),
        Boot::Restore if must_have_data(record) => forbid(Unsafe::RestoresAgain(member.clone())),
        Boot::New | Boot::Restore | Boot::Join | Boot::Resume | Boot::Read | Boot::Extract => Ok(()),
    }
}

/// Whether data of this EtcdCluster made way for those of a snapshot.
fn any_gave_way(view: View<'_>) -> bool {
    view.seen.volumes.values().any(|volume| volume.gave_way && view.is_own(volume))
}

/// Whether the bootstrap members of a restore have had a leader. From then on one of them may have acknowledged writes, and etcd does
/// not notice that it forgot them: restored data look like its own.
pub(crate) fn must_have_data(record: &Record) -> bool {
    record.restore.is_some() && record.had_leader
}

/// Whether bootstrap members may start as new: no cluster id is recorded, and the attempt is not given up.
fn is_bootstrapping(record: &Record) -> bool {
    record.cluster_id.is_none() && record.abandoned.is_none()
}

/// Whether etcd may count the member as a voter: the list does, or there is no list.
fn may_vote(view: View<'_>, member: &MemberName) -> bool {
    view.list().is_none() || view.is_listed_voter(member)
}

/// R16: a Pod that serves is evicted, so that its disruption and that of a drain take turns.
fn may_evict(scene: &Scene<'_>, member: &MemberName, pod: &Uid) -> Judged {
    let view = scene.view();
    its_pod(view, member, pod)?;
    claims::may_end_pod(view, member)?;
    is_only_disruption(scene, member)?;
    may_disturb(view, member)?;
    may_succeed(view, member)
}

/// R27: a Pod is ended for the next one only where the API server admitted that in this pass.
pub(crate) fn may_succeed(view: View<'_>, member: &MemberName) -> Judged {
    let said = view.seen.successors.get(member).and_then(|admission| admission.counts(view.now));
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
    let view = scene.view();
    let seen = view.pod(member).ok_or_else(|| Unsafe::NotSeen(member.clone()))?;
    // R3
    forbid_if(seen.uid != *pod || seen.resource_version != version, || Unsafe::NotSeen(member.clone()))?;
    claims::may_end_pod(view, member)?;
    if is_free_to_delete(view, member, seen) {
        return Ok(());
    }
    is_only_disruption(scene, member)?;
    // R16
    forbid_if(seen.ready && view.is_sound(member), || Unsafe::MustEvict(member.clone()))?;
    if seen.ready {
        budget_is_closed(view, member)?;
    }
    may_disturb(view, member)?;
    // One that is recorded to leave has none.
    if view.stage_of(member) == Some(Stage::Voter) { may_succeed(view, member) } else { Ok(()) }
}

/// Whether the deletion of this Pod takes no voter from a running cluster.
fn is_free_to_delete(view: View<'_>, member: &MemberName, pod: &Pod) -> bool {
    let record = view.record;
    // The trouble of a Pod may be its probe alone, or another container, while etcd serves and the quorum needs it.
    let health = view.seen.health(member, view.now);
    let serves = health.is_ok() || health == Err(Unhealthy::NotReady);
    let is_in_trouble = pod.trouble.is_some() || pod.guard.is_some();
    // In memory a container that ends again and again still has its data, and a Pod that is deleted has not.
    let may_have_data = record.is_in_memory() && pod.has_run && pod.guard.is_none();
    let never_started = !pod.has_run && pod.image_volume.is_some();
    let cannot_run =
        pod.finished || pod.gated || never_started || (!pod.ready && is_in_trouble && !may_have_data);
    let cannot_serve = !serves && cannot_run;
    let is_no_member = matches!(view.stage_of(member), None | Some(Stage::Leaving(_)));
    let is_removed = is_no_member && is_gone_from_list(view, member).is_ok();
    // What holds no etcd takes nothing away.
    let terminates =
        incarnation::may_stop(view, member) || quorum_recovery::may_stop(view) || pod.read_only.is_some();
    terminates
        || view.seen.deleting
        || record.hibernating
        || record.cluster_id.is_none()
        || cannot_serve
        || is_removed
}

/// R11, and at most one unhealthy voter at a time: every other voter is healthy, and with three or more voters the rest still
/// form a quorum.
fn may_disturb(view: View<'_>, member: &MemberName) -> Judged {
    let View { seen, record, .. } = view;
    let list = fresh_list(view)?;
    // Its next Pod has the committed version.
    data_allow(view, member)?;
    if let Some((joining, _)) = record.joining() {
        forbid(Unsafe::ChangeOutstanding(joining.clone()))?;
    }
    none_defragments(record)?;
    // A restart that cures a full database waits for no other member whose database is full.
    let fit = if seen.restart_raises_quota(record, member) { Fit::ButForSpace } else { Fit::Healthy };
    all_voters_fit(view, fit, Some(member))?;
    let (of, left) = (voters_of(list).count(), count_fit_others(view, fit, member));
    // With one or two voters, any restart interrupts service. On a disk the data stay. In memory they would be lost with the
    // Pod, and with them the quorum that has to remove the member.
    let is_enough = (of <= 2 && !record.is_in_memory()) || left >= quorum(of);
    forbid_unless(is_enough, || Unsafe::WouldLoseQuorum { member: member.clone(), left, of })?;
    if record.is_in_memory() {
        // In memory the data go with the Pod.
        may_give_data_up(view, member)?;
        // Who turned replacements off does not lose a member for good by an edit.
        forbid_unless(seen.replacement_policy.enabled, || Unsafe::NotReplaced(member.clone()))?;
    }
    progress_is_proven(view)
}

fn reduces_redundancy(view: View<'_>, effect: &Effect) -> bool {
    let deletes_a_voter = match effect.as_kube() {
        Some(KubeEffect::EvictPod { .. }) => true,
        Some(KubeEffect::DeletePod { member, .. }) => {
            view.pod(member).is_some_and(|pod| !is_free_to_delete(view, member, pod))
        }
        Some(_) | None => false,
    };
    let call = effect.as_etcd();
    deletes_a_voter || matches!(call, Some(EtcdCall::RemoveMember { .. } | EtcdCall::Defragment { .. }))
}

/// R5, R6, R7, R9.
fn may_add(scene: &Scene<'_>, member: &MemberName, peer_url: &PeerUrl, via: &MemberName) -> Judged {
    let view = scene.view();
    let recorded = recorded(view, member)?;
    let list = membership_call(scene, member, via)?;
    may_grow(view)?;
    let joining = recorded.stage == Stage::Joining && recorded.id.is_none();
    let url_free = list.members.iter().all(|listed| listed.peer_url != *peer_url);
    let is_that = joining && url_free && *peer_url == view.seen.peer_url(member);
    forbid_unless(is_that, || Unsafe::NotThatMember(member.clone()))
}

fn may_promote(scene: &Scene<'_>, member: &MemberName, id: MemberId, via: &MemberName) -> Judged {
    let view = scene.view();
    let recorded = recorded(view, member)?;
    let list = membership_call(scene, member, via)?;
    none_defragments(view.record)?;
    all_voters_fit(view, Fit::Healthy, None)?;
    let learner = list.members.iter().any(|listed| listed.id == id && listed.is_learner);
    let is_that = learner && recorded.stage == Stage::Joining;
    forbid_unless(is_that, || Unsafe::NotThatMember(member.clone()))?;
    membership_may_change(view)?;
    progress_is_proven(view)?;
    // etcd takes a learner for ready by what its leader sent it. Once it votes, the quorum may depend on its disk.
    forbid_unless(view.is_healthy(member), || Unsafe::VoterUnhealthy(member.clone()))
}

fn may_remove_now(
    scene: &Scene<'_>,
    member: &MemberName,
    id: MemberId,
    peer_url: &PeerUrl,
    via: &MemberName,
) -> Judged {
    let view = scene.view();
    let recorded = recorded(view, member)?;
    let list = membership_call(scene, member, via)?;
    // R7
    let that = list.members.iter().any(|listed| listed.id == id && listed.peer_url == *peer_url);
    let is_leaving = matches!(recorded.stage, Stage::Leaving(_));
    forbid_unless(that && is_leaving, || Unsafe::NotThatMember(member.clone()))?;
    // R5
    if voters_of(list).any(|listed| listed.id == id) {
        budget_is_closed(view, member)?;
        // Before what costs a proof: the clients of a member take some seconds to leave.
        serves::is_led_away(scene, member)?;
        is_only_disruption(scene, member)?;
    }
    may_remove(view, member)?;
    replace::may_give_up(view, member)
}

fn may_lead(view: View<'_>, to: &MemberName, to_id: MemberId) -> Judged {
    fresh_list(view)?;
    let voter = view.listed(to).is_some_and(|listed| listed.id == to_id && !listed.is_learner);
    forbid_unless(voter, || Unsafe::NotThatMember(to.clone()))?;
    none_defragments(view.record)?;
    forbid_unless(view.is_sound(to), || Unsafe::VoterUnhealthy(to.clone()))?;
    // A member that cannot store its vote does not take over, and meanwhile etcd drops writes.
    progress_is_proven(view)
}

/// R5: one membership call in a plan. R9: it is made at the member that served the list.
fn membership_call<'a>(scene: &Scene<'a>, member: &MemberName, via: &MemberName) -> Result<&'a List, Unsafe> {
    let list = fresh_list(scene.view())?;
    incarnation::may_change(scene.record, member)?;
    let is_second = scene.before.iter().any(Effect::changes_membership);
    forbid_if(is_second, || Unsafe::ChangeOutstanding(member.clone()))?;
    is_called(scene.view(), list)?;
    forbid_if(list.via != *via, || Unsafe::NoFreshList)?;
    Ok(list)
}

/// R11: the members of this cluster, which is at work, may be called upon.
fn is_called(view: View<'_>, list: &List) -> Judged {
    let View { seen, record, .. } = view;
    let is_other = record.cluster_id != Some(list.cluster_id);
    forbid_if(record.hibernating || seen.deleting || is_other, || Unsafe::NoQuorum)
}

/// Whether what was observed then still counts (R9, R18).
pub(crate) fn is_fresh(at: Instant, now: Instant) -> bool {
    at <= now && now - at <= FRESH
}

/// R9, R11: a fresh linearizable list proves that there was a quorum just now.
fn fresh_list(view: View<'_>) -> Result<&List, Unsafe> {
    if let Some(list) = view.seen.list_just_read(view.now) {
        return Ok(list);
    }
    forbid(Unsafe::NoFreshList)?;
    view.seen.etcd.list.as_ref().ok_or(Unsafe::NoFreshList)
}

/// R9: a fresh list, which this member served.
fn list_of<'a>(view: View<'a>, via: &MemberName) -> Result<&'a List, Unsafe> {
    let list = fresh_list(view)?;
    forbid_if(list.via != *via, || Unsafe::NoFreshList)?;
    Ok(list)
}

/// R16: no Pod of the cluster is evicted while a member is removed or deleted. An eviction is admitted by the number of ready
/// Pods, which does not know that a ready member does not store, or that it is about to leave.
pub(crate) fn budget_is_closed(view: View<'_>, member: &MemberName) -> Judged {
    let View { seen, record, .. } = view;
    let is_foreign = seen.foreign.contains_key(&ManagedObject::DisruptionBudget);
    let is_ours = seen.budget_policy != BudgetPolicy::None && !is_foreign;
    let voters = record.members.values().filter(|member| member.counts_for_quorum()).count();
    let selects_others = |budget: &Budget| budget.excludes.as_ref().is_none_or(|excluded| excluded == member);
    let is_closed =
        seen.budget.as_ref().is_some_and(|budget| budget.is_closed(voters) && selects_others(budget));
    forbid_unless(is_closed || !is_ours, || Unsafe::BudgetOpen(member.clone()))
}

/// R15: in this pass, after the list was read, every member that counts as healthy has stored an entry. Asked last, because a
/// proof costs two raft entries.
fn progress_is_proven(view: View<'_>) -> Judged {
    let (list, etcd) = (fresh_list(view)?, &view.seen.etcd);
    let is_proven = etcd.proof.is_some_and(|proof| proof.at >= list.at);
    forbid_unless(is_proven, || Unsafe::NotProven(etcd.proof_failure.clone()))
}

/// R10: a linearizable list has neither its id nor its peer URL.
fn is_gone_from_list(view: View<'_>, member: &MemberName) -> Judged {
    let list = fresh_list(view)?;
    let annotated = || view.volume(member).and_then(|volume| volume.member_id);
    let id = view.recorded(member).and_then(|member| member.id).or_else(annotated);
    let url = view.seen.peer_url(member);
    let listed = list.members.iter().any(|listed| Some(listed.id) == id || listed.peer_url == url);
    forbid_if(listed, || Unsafe::StillListed(member.clone()))
}

/// How well members must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// R15.
    Healthy,
    /// R15, but for a database that is full.
    ButForSpace,
}

fn is_fit(view: View<'_>, fit: Fit, member: &MemberName) -> bool {
    match fit {
        Fit::Healthy => view.is_healthy(member),
        Fit::ButForSpace => view.is_sound(member),
    }
}

fn all_voters_fit(view: View<'_>, fit: Fit, except: Option<&MemberName>) -> Judged {
    for listed in voters_of(fresh_list(view)?) {
        let name = view.name_of(listed);
        if Some(&name) != except && !is_fit(view, fit, &name) {
            forbid(Unsafe::VoterUnhealthy(name))?;
        }
    }
    Ok(())
}

fn fit_voters(view: View<'_>, fit: Fit) -> impl Iterator<Item = MemberName> {
    let voters = view.listed_voters().filter_map(move |listed| view.member_of(listed));
    voters.filter(move |name| is_fit(view, fit, name))
}

/// How many voters are fit without this one.
fn count_fit_others(view: View<'_>, fit: Fit, member: &MemberName) -> usize {
    fit_voters(view, fit).filter(|fit| fit != member).count()
}

/// R5, R15: while a member is being defragmented it applies nothing and answers no read, and it is excused. Nothing else takes a
/// member away meanwhile.
fn none_defragments(record: &Record) -> Judged {
    let ordered = record.defragmenting.as_ref();
    ordered.map_or(Ok(()), |ordered| forbid(Unsafe::Defragmenting(ordered.member.clone())))
}

fn recorded<'a>(view: View<'a>, member: &MemberName) -> Result<&'a Member, Unsafe> {
    view.recorded(member).ok_or_else(|| Unsafe::NotRecorded(member.clone()))
}

/// R3: the Pod with this uid was observed, and is not being deleted.
fn its_pod(view: View<'_>, member: &MemberName, pod: &Uid) -> Judged {
    let is_its = view.pod(member).is_some_and(|seen| seen.uid == *pod && !seen.terminating);
    forbid_unless(is_its, || Unsafe::NotSeen(member.clone()))
}

/// R2: the observed volume is the recorded one, or the data are in memory.
fn its_volume(view: View<'_>, member: &MemberName, recorded: Option<&Uid>) -> Judged {
    let is_its = view.volume(member).is_some_and(|volume| {
        // R17: a quarantined volume is never mounted again.
        volume.quarantine.is_none() && recorded == Some(&volume.uid) && !volume.terminating
    });
    forbid_unless(is_its || view.record.is_in_memory(), || Unsafe::NotItsVolume(member.clone()))
}
