//! The objects around the members: peer Service and certificates before any Pod (B2); client Service and
//! PodDisruptionBudget once the cluster id is recorded (B7); the joined label of every voter's Pod, and the label by which clients are
//! led to it (K2); the identity annotations and the size of every volume.

use quorate_model::record::Stage;
use quorate_model::snapshot::{Pod, Presence, Sick, Volume};
use quorate_model::target::{Medium, Retention};
use quorate_model::{AppliedObject, Effect, KubeEffect, ManagedObject, MemberName, Step, Version, Waiting};

use crate::draft::{DONE, Draft, Flow, ON, Progress};
use crate::{budget, certificates, facts, safety};

/// B2. Members resolve each other by the names of the peer Service, and authenticate each other by the certificates.
///
/// The API server may refuse for good to correct a Service that exists, such as by an admission webhook. The members of a
/// cluster that was bootstrapped behind it find each other by it, so the correction (K1) is best-effort and keeps no lost Pod
/// from being made. A new cluster waits for a Service that matches.
pub(crate) fn names_and_certificates(draft: &mut Draft<'_>) -> Progress {
    let service = match draft.seen.peer_service {
        Presence::Matches => true,
        Presence::Differs if draft.record.is_bootstrapped() => {
            draft.apply(Step::K1, AppliedObject::PeerService);
            true
        }
        Presence::Differs | Presence::Absent => {
            // Also where the name is taken: the API server refuses it, and nothing of the plan after it is done.
            draft.write(Step::B2, KubeEffect::Apply(AppliedObject::PeerService));
            false
        }
    };
    if certificates::provide(draft).is_done() && service {
        return Progress::Done;
    }
    draft.wait(Waiting::Objects);
    Progress::Pending
}

/// B2, where another incarnation was there before: no Pod of that one, which a late call may create again, is behind the client Service once
/// new members start. It selects none of theirs either, until they are labelled joined. Nothing else of it counts here: the API server may refuse
/// a field of the spec for good, and the members of before are stopped.
pub(crate) fn fence_client_service(draft: &mut Draft<'_>) -> Progress {
    let is_foreign = draft.seen.foreign.contains_key(&ManagedObject::ClientService);
    let is_open = draft.seen.client_service_selects_others && !is_foreign;
    if draft.record.incarnation.is_none() || !is_open {
        return Progress::Done;
    }
    draft.apply(Step::B2, AppliedObject::ClientService);
    draft.wait(Waiting::Objects);
    Progress::Pending
}

/// B7, the joined labels, and what keeps volumes in step with the record.
pub(crate) fn services_and_volumes(draft: &mut Draft<'_>) {
    // Create the client Service only after every voter's Pod is labelled joined. Until then the guard cannot tell an emptied
    // volume from a new one, and acknowledged writes could be lost unnoticed.
    let in_memory = draft.record.is_in_memory();
    let may_start_empty = |voter| {
        let pod = draft.pod(voter).filter(|pod| pod.boots_new || !in_memory);
        pod.is_some_and(facts::lacks_joined_label)
    };
    let any_may_start_empty = draft.record.voters().any(may_start_empty);
    // It selects Pods that are labelled joined and serving.
    let is_selected = |pod: &Pod| pod.labelled && pod.serves;
    let any_labelled = draft.record.voters().any(|voter| draft.pod(voter).is_some_and(is_selected));
    // If status is lost later, only the identity annotations prove that the volumes have data.
    let any_without_identity = draft.record.voters().any(|voter| lacks_identity(draft, voter).is_some());
    if draft.seen.client_service != Presence::Matches
        && !any_may_start_empty
        && any_labelled
        && !any_without_identity
    {
        draft.apply(Step::B7, AppliedObject::ClientService);
    }
    budget::apply(draft);
    if !draft.seen.finalizer {
        draft.write(Step::B1, KubeEffect::AddFinalizer);
    }
    delete_stray_volumes(draft);
    delete_quarantined_volumes(draft);
    for member in safety::voters_by_record(&draft.record).cloned().collect::<Vec<_>>() {
        label_joined(draft, &member);
        annotate_volume(draft, &member);
    }
    lead_clients(draft);
    end_connections(draft);
    apply_metadata(draft);
}

/// K1: labels and annotations of the spec. Nothing waits for them: a policy may refuse them for good.
pub(crate) fn apply_metadata(draft: &mut Draft<'_>) {
    for (object, observed) in &draft.seen.metadata_differs {
        // Another write of this plan changes the object, and this one would be refused after it.
        if !draft.changes(object) {
            let (object, observed) = (object.clone(), observed.clone());
            draft.write(Step::K1, KubeEffect::ApplyMetadata { object, observed });
        }
    }
}

/// K2, before S3 and P3: clients of a member that is about to be removed go elsewhere (R24). The time is on the Pod, so a crash of the
/// operator neither shortens nor repeats the wait.
pub(crate) fn lead_clients_away(draft: &mut Draft<'_>, member: &MemberName) {
    let Some(pod) = draft.pod(member) else { return };
    // Without the annotation, or with one of the future, because the clock was set back, the wait begins now.
    let now = draft.latest();
    let is_noted = !pod.serves && pod.served_until.is_some_and(|until| until <= now);
    if !is_noted {
        let (member, pod, at) = (member.clone(), pod.uid.clone(), now);
        draft.write(Step::K2, KubeEffect::LeadClientsAway { member, pod, at });
    }
    draft.wait(Waiting::ClientsLeaving(member.clone()));
}

/// K2: clients are led to every voter that is sound, and away from one that has not been for a while although its Pod is ready, if a
/// quorum of others serves them (R24). A Pod that is not ready gets no clients, and keeps the label for when it is.
pub(crate) fn lead_clients(draft: &mut Draft<'_>) {
    if draft.record.stopped_at.is_some() {
        // Z3: nobody knows yet whether these are the data that clients had.
        return;
    }
    for voter in draft.record.voters().cloned().collect::<Vec<_>>() {
        let joined = |pod: &&Pod| pod.is_labelled_joined() && !pod.terminating;
        let Some(pod) = draft.pod(&voter).filter(joined) else { continue };
        if !pod.serves && draft.view().is_sound(&voter) {
            let (member, pod) = (voter, pod.uid.clone());
            draft.write(Step::K2, KubeEffect::LabelServes { member, pod });
        } else if pod.serves && draft.seen.misleads_clients(&voter, draft.now) {
            let (member, pod, at) = (voter, pod.uid.clone(), draft.latest());
            let away = Effect::kube(Step::K2, KubeEffect::LeadClientsAway { member, pod, at });
            // Where it may not, nothing waits for it: what keeps the member from serving is reported.
            if draft.judge(&away).is_ok() {
                draft.propose(away);
            }
        }
    }
}

/// K4: a client keeps an established connection to a member that serves nothing, for as long as etcd answers its keepalives. Its Pod is restarted,
/// where the others serve as a quorum. The next Pod is ready only once etcd has met a leader, so this happens once. In memory the data would go
/// with the Pod.
fn end_connections(draft: &mut Draft<'_>) {
    let is_busy = draft.record.defragmenting.is_some() || draft.seen.etcd.hashing.is_some();
    if draft.record.is_in_memory() || is_busy {
        return;
    }
    let holds = |voter: &&MemberName| {
        draft.seen.holds_connections(voter, draft.now) && safety::may_leave_out(draft.view(), voter).is_ok()
    };
    let held = draft.record.voters().find(holds).cloned();
    if let Some(voter) = held {
        let _ = draft.restart_pod(Step::K4, &voter);
    }
}

/// Needs no quorum: where every disk is full, there is none until the volumes are larger.
pub(crate) fn expand_volumes(draft: &mut Draft<'_>) {
    for member in safety::voters_by_record(&draft.record).cloned().collect::<Vec<_>>() {
        expand_volume(draft, &member);
    }
}

/// Membership and Pods change only after every voter's Pod is labelled joined. Before that, a voter whose volume is emptied
/// starts as new, and may have forgotten a change that it voted for.
pub(crate) fn require_all_voters_joined(draft: &mut Draft<'_>) -> Flow {
    let unlabelled = |voter: &&MemberName| draft.pod(voter).is_some_and(facts::lacks_joined_label);
    let mut voters = draft.record.voters().filter(unlabelled);
    // A lost voter has no data left to protect. `label_joined` reports why another one is not labelled yet.
    if voters.any(|voter| !draft.view().is_lost(voter)) { DONE } else { ON }
}

/// A create call whose reply was lost may arrive after the member was given up. Such a volume never had data: a volume that
/// was used has identity annotations. It stays while etcd's list may still have the member.
fn delete_stray_volumes(draft: &mut Draft<'_>) {
    let is_unused = |volume: &Volume| {
        let has_no_identity = volume.cluster_id.is_none() && volume.member_id.is_none();
        has_no_identity && volume.quarantine.is_none() && draft.view().is_own(volume)
    };
    for stray in volumes_without_member(draft, is_unused) {
        if draft.listed(&stray).is_none() {
            let _ = draft.delete_volume(Step::S5, &stray);
        }
    }
}

/// R17: quarantined volumes whose time is over, unless the policy retains the volumes of members that are removed.
pub(crate) fn delete_quarantined_volumes(draft: &mut Draft<'_>) {
    if draft.seen.target().storage.when_scaled == Retention::Retain {
        return;
    }
    let is_over = |volume: &Volume| {
        let quarantine = volume.quarantine.as_ref();
        quarantine.is_some_and(|quarantine| quarantine.is_over(draft.seen.keep_volumes, draft.now))
    };
    for name in volumes_without_member(draft, is_over) {
        let _ = draft.delete_volume(Step::K1, &name);
    }
}

/// The names of such volumes that belong to no recorded member, and of which no Pod is there.
fn volumes_without_member(draft: &Draft<'_>, is_such: impl Fn(&Volume) -> bool) -> Vec<MemberName> {
    let is_unknown = |name| draft.view().recorded(name).is_none() && draft.pod(name).is_none();
    let volumes = draft.seen.volumes.iter().filter(|(name, volume)| is_unknown(name) && is_such(volume));
    volumes.map(|(name, _)| name.clone()).collect()
}

fn label_joined(draft: &mut Draft<'_>, member: &MemberName) {
    let is_voter = draft.view().stage_of(member) == Some(Stage::Voter);
    let Some(pod) = draft.pod(member).filter(|pod| is_voter && facts::lacks_joined_label(pod)) else {
        return;
    };
    if draft.record.is_in_memory() {
        if draft.view().is_lost(member) {
            return;
        }
        if let Some(silent) = must_answer_first(draft, member, pod) {
            draft.wait(Waiting::Sick(silent, Sick::MustAnswer));
            return;
        }
    }
    draft.label_joined(member);
}

/// The voter that must answer before a Pod with data in memory is labelled joined. On a disk, data outlive their Pod. In
/// memory, this Pod may not be the one in which its member voted: a late call created it, or it was created again before the
/// cluster was first observed. Then another bootstrap member that does not answer may have data that this one lost.
fn must_answer_first(draft: &Draft<'_>, member: &MemberName, pod: &Pod) -> Option<MemberName> {
    let is_silent = |voter: &MemberName| {
        let id = draft.view().recorded(voter).and_then(|member| member.id);
        draft.status_of(voter).is_none_or(|status| Some(status.member_id) != id)
    };
    let may_have_data =
        |voter: &MemberName| draft.pod(voter).is_some_and(|pod| pod.has_run) && !draft.view().is_lost(voter);
    let any_voter = || draft.record.voters().find(|voter| may_have_data(voter) && is_silent(voter)).cloned();
    if pod.boots_new { any_voter() } else { is_silent(member).then(|| member.clone()) }
}

fn annotate_volume(draft: &mut Draft<'_>, member: &MemberName) {
    // The next Pod of the member may have been planned before, with another version.
    if draft.annotates(member) {
        return;
    }
    let annotate = lacks_identity(draft, member).or_else(|| lacks_version(draft, member));
    if let Some(annotate) = annotate {
        draft.write(Step::K1, annotate);
    }
}

/// K1, before a learner is promoted: the identity of its data on its volume. Done where it is there, or the data are in memory.
pub(crate) fn name_volume(draft: &mut Draft<'_>, member: &MemberName) -> Progress {
    let Some(annotate) = lacks_identity(draft, member) else { return Progress::Done };
    draft.write(Step::K1, annotate);
    Progress::Pending
}

/// K1, before the Pod of a member is created on its data with a newer minor version than its volume says: if status is lost later, only the
/// annotation tells which binaries may start on it (R20). A volume without an identity is never adopted.
pub(crate) fn note_version(draft: &mut Draft<'_>, member: &MemberName) {
    let Some(target) = draft.record.target.as_ref().filter(|target| target.pod.image_has_version) else {
        return;
    };
    let version = target.version;
    let is_newer = |volume: &Volume| {
        volume.cluster_id.is_some() && volume.version.is_none_or(|noted| noted.line() < version.line())
    };
    if draft.volume(member).is_some_and(is_newer)
        && let Some(annotate) = identity(draft, member, Some(version))
    {
        draft.write(Step::K1, annotate);
    }
}

/// What writes the identity of the member's data, and the labels, on its volume, unless they are there.
fn lacks_identity(draft: &Draft<'_>, member: &MemberName) -> Option<KubeEffect> {
    let (volume, recorded) = (draft.volume(member)?, draft.record.members.get(member)?);
    let is_annotated = volume.cluster_id == draft.record.cluster_id
        && volume.member_id == recorded.id
        && draft.view().is_own(volume)
        && volume.tls == draft.record.target.as_ref().map(|target| target.tls)
        && volume.labelled;
    if is_annotated { None } else { identity(draft, member, version_of_data(draft, member)) }
}

/// What writes the version of the member's data on its volume, unless it is there.
fn lacks_version(draft: &Draft<'_>, member: &MemberName) -> Option<KubeEffect> {
    let version = version_of_data(draft, member)?;
    if draft.volume(member)?.version == Some(version) { None } else { identity(draft, member, Some(version)) }
}

/// The version that has run on the member's data, or was about to. It becomes a lower one only once the member runs the committed one:
/// until then, the next Pod may be on its way.
fn version_of_data(draft: &Draft<'_>, member: &MemberName) -> Option<Version> {
    let noted = draft.volume(member).and_then(|volume| volume.version);
    let recorded = draft.record.members.get(member).and_then(|member| member.version);
    let reported = draft.status_of(member).map(|status| status.version);
    let target = draft.record.target.as_ref();
    let runs_target = |runs: &Version| {
        target.is_some_and(|target| !target.pod.image_has_version || target.version.line() == runs.line())
    };
    reported.filter(runs_target).or_else(|| reported.or(recorded).max(noted))
}

fn identity(draft: &Draft<'_>, member: &MemberName, version: Option<Version>) -> Option<KubeEffect> {
    let (volume, cluster_id) = (draft.volume(member)?, draft.record.cluster_id?);
    let recorded = draft.record.members.get(member)?;
    let member_id = recorded.id?;
    let is_its_own = recorded.volume.as_ref() == Some(&volume.uid) && !volume.terminating;
    let (member, volume) = (member.clone(), volume.uid.clone());
    is_its_own.then_some(KubeEffect::AnnotateVolume { member, volume, cluster_id, member_id, version })
}

fn expand_volume(draft: &mut Draft<'_>, member: &MemberName) {
    let Some(storage) = draft.record.target.as_ref().map(|target| &target.storage) else { return };
    let (bytes, medium) = (storage.bytes, storage.medium);
    if let Some(volume) = draft.volume(member)
        && medium == Medium::Disk
        && volume.bytes < bytes
        && !volume.terminating
    {
        let (member, volume) = (member.clone(), volume.uid.clone());
        draft.write(Step::K1, KubeEffect::ExpandVolume { member, volume, bytes });
    }
}
