//! Reasons to do nothing, or nothing but restarts.

use std::collections::BTreeSet;

use quorate_model::effect::{AuthWait, Foreign, NoList};
use quorate_model::snapshot::Sick;
use quorate_model::{Ca, ManagedObject, MemberName, Waiting};

use crate::draft::{DONE, Draft, Flow, ON};
use crate::{budget, certificates, connection, restart, safety, upkeep};

/// R12: members of two clusters behind one name, or another member than the name says. Nothing is touched.
pub(crate) fn on_split_brain(draft: &mut Draft<'_>) -> Flow {
    if safety::is_split(draft.seen, draft.now) {
        let ids = draft.seen.etcd.answers.keys();
        let ids = ids.filter_map(|name| Some((name.clone(), draft.status_of(name)?.cluster_id))).collect();
        draft.wait(Waiting::SplitBrain(ids));
        return DONE;
    }
    if let Some((member, answers, recorded)) = safety::wrong_member(draft.seen, draft.now) {
        draft.wait(Waiting::WrongMember { member, answers, recorded });
        return DONE;
    }
    ON
}

/// R22: the record is not known to be whole.
pub(crate) fn on_record_doubt(draft: &mut Draft<'_>) -> Flow {
    let Some(doubt) = draft.seen.record_doubt.clone() else { return ON };
    draft.wait(Waiting::RecordDoubt(doubt));
    if !safety::is_split(draft.seen, draft.now) && safety::wrong_member(draft.seen, draft.now).is_none() {
        keep_running(draft);
    }
    DONE
}

/// `spec.paused`.
pub(crate) fn when_paused(draft: &mut Draft<'_>) -> Flow {
    if !draft.seen.paused {
        return ON;
    }
    draft.wait(Waiting::Paused);
    keep_running(draft);
    DONE
}

/// What may be done whatever the record says and whatever else is forbidden. Lost Pods, and Pods that ended, are created again on the volumes
/// of their members. Clients are led to members that serve. Certificates that are due are renewed, and the connection Secret and the
/// budget are kept up. Nothing in status can contradict that, and a cluster without it loses its members one by one.
fn keep_running(draft: &mut Draft<'_>) {
    let record = &draft.record;
    let members_run = record.target.as_ref().is_some_and(|target| target.size > 0) && !record.hibernating;
    // An incarnation that makes way for another one stays as far stopped as it is.
    let stays = record.next_incarnation.is_none();
    if record.is_bootstrapped() && members_run && stays {
        restart::finished_pods(draft);
        restart::missing_pods(draft);
        upkeep::lead_clients(draft);
        keep_certificates(draft);
        connection::keep_up(draft);
        budget::keep_up(draft);
    }
}

/// The part of it that is done also while every member is stopped for another incarnation. That may wait for a node for weeks, and the members that
/// start again, or the one of which a snapshot is taken, need certificates that are valid.
pub(crate) fn keep_certificates(draft: &mut Draft<'_>) {
    if draft.record.is_bootstrapped() {
        certificates::renew(draft);
    }
}

/// R23: the clocks differ. It is reported; safety refuses what would be judged by the clock.
pub(crate) fn on_clock(draft: &mut Draft<'_>) {
    if let Some(differs) = draft.seen.clock_differs {
        draft.wait(Waiting::ClockDiffers(differs));
    }
}

/// Objects that this EtcdCluster does not own have its names. A running cluster is still maintained; a new one is not
/// bootstrapped, unless it is the connection Secret alone, which no member needs.
pub(crate) fn on_foreign_objects(draft: &mut Draft<'_>) -> Flow {
    let authorities: Vec<Foreign> = authorities_of_others(draft).collect();
    if draft.seen.foreign.is_empty() && authorities.is_empty() {
        return ON;
    }
    let is_needed = |object: &ManagedObject| *object != ManagedObject::Connection;
    let any_needed = draft.seen.foreign.keys().any(is_needed) || !authorities.is_empty();
    let objects = draft.seen.foreign.values().cloned().map(Foreign::Object).chain(authorities).collect();
    draft.wait(Waiting::ForeignObjects(objects));
    if draft.record.is_bootstrapped() || !any_needed { ON } else { DONE }
}

/// R19: the Secrets of authorities that somebody put there, with what makes one this cluster's own.
fn authorities_of_others(draft: &Draft<'_>) -> impl Iterator<Item = Foreign> {
    let seen = draft.seen;
    let names = seen.certificates.iter().flat_map(|own| &own.authority_names);
    let of_others: Vec<Ca> = seen.authorities_of_others(&draft.record).collect();
    let names = names.filter(move |(ca, _)| of_others.contains(ca));
    names.map(|(_, name)| Foreign::Authority { secret: name.clone(), uid: seen.uid.clone() })
}

/// R11: without quorum, Pods were restarted on their own volumes; nothing else is done.
pub(crate) fn without_quorum(draft: &mut Draft<'_>) -> Flow {
    let kept_out = draft.seen.kept_out_by_auth(&draft.record, draft.now);
    for (member, why) in unhealthy(draft) {
        if kept_out.is_some() && draft.seen.refuses_by_auth(&member) {
            continue;
        }
        draft.wait(Waiting::Sick(member, why));
    }
    if draft.via().is_some() {
        return ON;
    }
    if let Some(member) = draft.seen.etcd.hashing.clone().filter(|_| draft.seen.had_quorum(draft.now)) {
        draft.wait(Waiting::Comparing(member));
        return DONE;
    }
    if let Some(kept_out) = kept_out {
        draft.wait(Waiting::Auth(AuthWait::KeptOut(kept_out)));
        return DONE;
    }
    let voters: BTreeSet<&MemberName> = safety::voters_by_record(&draft.record).collect();
    let healthy = voters.iter().filter(|voter| draft.status_of(voter).is_some()).count();
    let why = draft.seen.etcd.list_failure.clone().map(NoList::Says);
    let voters = voters.len();
    draft.wait(Waiting::Quorum { healthy, voters, why });
    DONE
}

/// Members with a Pod that count for quorum and are not healthy, and why. Of a database that is full, `maintain` says what is done.
/// A Pod that is not ready yet after its defragmentation will be.
fn unhealthy(draft: &Draft<'_>) -> Vec<(MemberName, Sick)> {
    safety::voters_by_record(&draft.record)
        .filter(|member| draft.via().is_none() || draft.listed(member).is_some())
        .filter(|member| draft.pod(member).is_some_and(|pod| !pod.terminating && !pod.finished))
        .filter(|member| !draft.view().is_sound(member))
        .filter(|member| !draft.seen.is_getting_ready_after_defragmentation(member, draft.now))
        .filter_map(|member| Some((member.clone(), draft.seen.why_unhealthy(member, draft.now)?)))
        .collect()
}
