//! Whether a client that connects through the client Service can read and write now.

mod space;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use quorate_api::Reason;
use quorate_model::MemberName;
use quorate_model::snapshot::{Alarm, AlarmKind, BudgetPolicy, LED_AWAY_AFTER, Presence};

use super::{Finding, coming_up, in_words, not_running, split, without_quorum};
use crate::picture::Picture;
use crate::trouble::order_to_replace;
use crate::why_sick;
use quorate_manifests::kind::Kind;
use quorate_manifests::service;

pub(super) fn find(picture: &Picture<'_>) -> Finding {
    if let Some(text) = picture.waits(split) {
        return Finding::no(Reason::SplitBrain, text);
    }
    if let Some(finding) = not_running(picture) {
        return finding;
    }
    if !picture.has_quorum() {
        return without_quorum(picture);
    }
    if let Some(text) = refusing_alarms(picture) {
        return Finding::no(Reason::AlarmActive, text);
    }
    if picture.has_endpoint() {
        return Finding::yes(Reason::Available, message(picture));
    }
    if picture.is_coming_up() {
        return coming_up(picture);
    }
    Finding::no(Reason::NoEndpoint, without_endpoint(picture))
}

/// etcd refuses writes while any alarm is active, also one of a member that was removed.
fn refusing_alarms(picture: &Picture<'_>) -> Option<String> {
    let alarms = picture.seen.alarms(picture.now);
    let named: Vec<String> = alarms.iter().map(|alarm| named(alarm, picture)).collect();
    let any = |kind| alarms.iter().any(|alarm| alarm.kind == kind);
    let cure = if any(AlarmKind::Corrupt) || picture.seen.has_unnamed_alarm(picture.now) {
        corrupt(picture)
    } else if any(AlarmKind::NoSpace) {
        no_space(picture, &alarms)
    } else {
        return None;
    };
    let named = if named.is_empty() { "an alarm without a member".to_owned() } else { named.join(", ") };
    Some(format!("etcd refuses writes: {named} is active. {cure}"))
}

/// What becomes of data that differ. etcd serves reads from before the applier that refuses under the alarm (`applierV3Corrupt`).
fn corrupt(picture: &Picture<'_>) -> String {
    if picture.seen.replacement_policy.enabled {
        "The data of a member may differ from its peers', and reads are served, so that member may answer with wrong data. The operator \
         compares the members, replaces the one whose data differ from those of a majority when spec.recovery.gracePeriod is over, and \
         disarms the alarm when all have the same data; Progressing says what it waits for. To hasten that, lower \
         spec.recovery.gracePeriod"
            .to_owned()
    } else {
        format!(
            "The data of a member may differ from its peers', and reads are served, so that member may answer with wrong data. \
         spec.recovery.enabled is false: compare the members (`etcdctl endpoint hashkv --cluster`), and have the one replaced whose \
         data differ: {}. The alarm is disarmed when all have the same data",
            order_to_replace("MEMBER")
        )
    }
}

/// What becomes of a full database.
fn no_space(picture: &Picture<'_>, alarms: &BTreeSet<Alarm>) -> String {
    let is_gone = |alarm: &Alarm| !picture.seen.is_listed(alarm.member, picture.now);
    let cure = if alarms.iter().all(is_gone) {
        "Reads are served. The operator disarms it as soon as every member is below its quota"
    } else if !picture.seen.maintenance.no_space_remedy {
        "Reads are served. spec.maintenance.noSpaceRemedy is false: raise spec.etcd.quotaBackendBytes, which is rolled out at once, or compact and defragment; then run `etcdctl alarm \
         disarm`"
    } else if let Some(why) = space::not_defragmented(picture) {
        return format!(
            "Reads are served. {why}. Or raise spec.etcd.quotaBackendBytes, which is rolled out at once and takes room from the log. The \
             operator disarms the alarm once every member is below nine tenths of its quota"
        );
    } else {
        "Reads are served. The operator defragments the members that are full and disarms the alarm once every member is below \
         nine tenths of its quota; Progressing says what it waits for. A larger spec.etcd.quotaBackendBytes is rolled out at once"
    };
    cure.to_owned()
}

fn named(alarm: &Alarm, picture: &Picture<'_>) -> String {
    let kind = alarm.kind;
    let mut members = picture.record.members.iter();
    match members.find(|(_, member)| member.id == Some(alarm.member)) {
        Some((name, _)) => format!("alarm {kind} of {name}"),
        None => format!("alarm {kind} of {}, which is no member any more,", alarm.member),
    }
}

/// Which Service lacks an endpoint, why, and what a person can do.
fn without_endpoint(picture: &Picture<'_>) -> String {
    let at = &picture.seen.cluster;
    let service = Kind::Service.called(&at.namespace, &service::client_name(at));
    if picture.seen.client_service == Presence::Absent {
        return format!(
            "{service} does not exist, or is not owned by this EtcdCluster. The operator creates it as soon as every \
             voter's Pod is labelled joined, its volume is annotated, and the name is free; Progressing names what it waits for"
        );
    }
    let each = picture.record.voters().map(|voter| format!("{voter}: {}", why_no_endpoint(picture, voter)));
    let each: Vec<String> = each.collect();
    format!(
        "{service} has no endpoint behind which a quorum serves, so clients that connect through it are refused. {}. See \
         why: kubectl describe pods -n {} -l {}={}",
        each.join(". "),
        at.namespace,
        quorate_api::keys::CLUSTER,
        at.name
    )
}

/// The nearest cause.
fn why_no_endpoint(picture: &Picture<'_>, member: &MemberName) -> String {
    let Some(pod) = picture.seen.pods.get(member) else { return "it has no Pod".to_owned() };
    let cause = match &pod.trouble {
        _ if pod.terminating => "its Pod is stopping",
        Some(trouble) => trouble,
        None if !pod.ready => "its Pod is not ready",
        None if pod.served_until.is_some() && !pod.serves => {
            return format!(
                "clients are led away from it: {}",
                picture
                    .seen
                    .why_unhealthy(member, picture.now)
                    .map_or_else(|| "it is about to be removed".to_owned(), |why| why_sick(&why))
            );
        }
        None if !picture.seen.endpoints.contains(member) => {
            "the selector of the Service does not select its Pod"
        }
        None => {
            return picture
                .seen
                .why_unhealthy(member, picture.now)
                .map_or_else(|| "it is a learner".to_owned(), |why| why_sick(&why));
        }
    };
    cause.to_owned()
}

fn message(picture: &Picture<'_>) -> String {
    let voters: Vec<&MemberName> = picture.record.voters().collect();
    let healthy = voters.len() - picture.sick.len();
    let mut message = format!("{healthy} of {} voters are healthy", voters.len());
    let size = picture.target().size;
    if size > 0 && size.is_multiple_of(2) {
        let _ = write!(message, ". {size} members survive as many losses as {}: use an odd size", size - 1);
    }
    message.push_str(&endpoints_message(picture));
    message.push_str(&space::warnings(picture));
    message.push_str(drain_message(picture, voters.len()));
    let mut nodes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for voter in voters {
        if let Some(node) = picture.seen.pods.get(voter).and_then(|pod| pod.node.as_deref()) {
            nodes.entry(node).or_default().push(voter.as_str());
        }
    }
    for (node, members) in nodes.iter().filter(|(_, members)| members.len() > 1) {
        let _ = write!(message, ". {} node {node}", in_words(members, "is on", "share"));
    }
    let quarantined = picture.seen.volumes.iter().filter(|(_, volume)| volume.quarantine.is_some());
    let quarantined: Vec<&str> = quarantined.map(|(name, _)| name.as_str()).collect();
    if !quarantined.is_empty() {
        let volumes = in_words(&quarantined, "is", "are");
        let _ = write!(message, ". Of earlier members, the volume of {volumes} quarantined");
    }
    message
}

/// The members that a client may be sent to, or is not sent to, and that do not serve (R24).
fn endpoints_message(picture: &Picture<'_>) -> String {
    let (seen, now) = (picture.seen, picture.now);
    let service = Kind::Service.called(&seen.cluster.namespace, &service::client_name(&seen.cluster));
    let why = |member: &MemberName| {
        seen.why_unhealthy(member, now).map_or_else(|| "it is well again".to_owned(), |why| why_sick(&why))
    };
    let mut message = String::new();
    for member in seen.failing_endpoints(now) {
        let _ = write!(
            message,
            ". {member} is an endpoint of {service} and does not serve ({}): clients that it sends there fail until they connect again",
            why(member)
        );
        if seen.paused {
            message.push_str(". Because spec.paused is true, the operator does not take it out");
        } else {
            let _ = write!(
                message,
                ". The operator takes it out when that has lasted for {LED_AWAY_AFTER}, if a quorum of other members is behind the Service"
            );
        }
    }
    for member in seen.led_away() {
        let _ = write!(
            message,
            ". {service} sends no clients to {member} until it serves again: {}",
            why(member)
        );
    }
    message
}

/// With fewer than three voters every eviction takes the quorum.
fn drain_message(picture: &Picture<'_>, voters: usize) -> &'static str {
    match picture.seen.budget_policy {
        BudgetPolicy::OneAtATime | BudgetPolicy::Quorum | BudgetPolicy::None if voters > 2 => "",
        BudgetPolicy::OneAtATime => {
            ". A drain of a node is an outage until the Pod runs again: one eviction at a time is admitted. Three members \
             survive it"
        }
        BudgetPolicy::Quorum => {
            ". A drain of a node waits: spec.disruption.podDisruptionBudget is Quorum, which admits no eviction with fewer \
             than three members"
        }
        BudgetPolicy::None => {
            ". A drain of a node is an outage until the Pod runs again: there is no PodDisruptionBudget. Three members \
             survive it, one at a time"
        }
    }
}
