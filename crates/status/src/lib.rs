//! What people read about an EtcdCluster: its status, the events that report its changes, and why a write or call failed.
//!
//! Status is a function of the observation, of the plan, and of the status before, from which only times are kept. The
//! same input gives the same status, so that nothing is written when nothing has changed.

mod auth;
mod backups;
mod certificates;
mod conditions;
pub mod data_store;
mod events;
mod members;
mod picture;
mod quarantined;
mod ready;
pub mod trouble;
mod waiting;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use quorate_api::status::{BindingStatus, EtcdClusterStatus, FORMAT_VERSION, Phase, WaitingOrder};
use quorate_api::{ConditionType, EtcdCluster, Explanation, Reason};
use quorate_model::effect::OrderWait;
use quorate_model::snapshot::Presence;
use quorate_model::{Instant, Plan, Record, Snapshot, Version, Waiting};

use conditions::{Finding, set};
use picture::Picture;
use quorate_manifests::{Invalid, labels, names, record, target};

pub use backups::BackupHealth;
pub use data_store::DataStoreHealth;
pub use events::{EventText, events};
use ready::with_trouble;
pub use waiting::{Weight, explain, refusal, weight, why_sick};
use waiting::{order_name, replace_command};

/// The input of a status.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The EtcdCluster with the status before.
    pub cluster: &'a EtcdCluster,
    /// The observation.
    pub snapshot: &'a Snapshot,
    /// Why the spec cannot be carried out, if so.
    pub refused: Option<&'a Invalid>,
    /// The plan.
    pub plan: &'a Plan,
    /// What is known about its backups, if a schedule names it.
    pub backups: Option<&'a BackupHealth>,
    /// What is known about its DataStore of Kamaji, if one is asked for or left.
    pub data_store: Option<&'a DataStoreHealth>,
    /// The time.
    pub now: Instant,
}

/// The status of a cluster.
pub fn status(situation: &Situation<'_>) -> EtcdClusterStatus {
    let Situation { cluster, snapshot, refused, plan, backups, data_store, now } = *situation;
    let before = cluster.status.clone().unwrap_or_default();
    let picture = Picture { backups, data_store, ..Picture::new(&before, snapshot, refused, plan, now) };
    let mut status = before.clone();
    // A record that is in doubt stays as it is, also what this operator cannot read of it.
    if snapshot.record_doubt.is_none() {
        record::into_status(&plan.record, &mut status);
        // Without a target none was ever accepted.
        status.accepted_spec = plan.record.target.as_ref().map(|_| target::to_accept(cluster));
        status.format_version = Some(FORMAT_VERSION);
        status.members.iter_mut().for_each(|member| members::fill(member, &picture));
    }
    status.quarantined_volumes = quarantined::list(snapshot);
    status.waiting_orders = plan.waiting.iter().filter_map(waiting_order).collect();
    status.data_agreed_by = agreed(snapshot, &plan.record, now);
    status.certificates = certificates::status(&status, snapshot);
    // Controllers of service bindings would lead applications to a certificate that is refused.
    let is_served = !auth::refuses_clients(&picture);
    status.binding = (snapshot.connection != Presence::Absent && is_served)
        .then(|| BindingStatus { name: names::connection(&snapshot.cluster) });
    status.observed_generation = cluster.metadata.generation;
    status.phase = Some(picture.phase());
    status.current_replicas = count(snapshot.pods.len());
    status.ready_replicas = count(picture.serving());
    if let Some(list) = snapshot.list(now) {
        status.member_count = count(list.members.len());
    }
    status.leader_id = snapshot.leader(now).map(|id| id.to_string());
    // A member that restarts does not answer. Until it does, it counts with the version that it ran last.
    let recorded =
        status.members.iter().filter_map(|member| member.version.as_deref()?.parse::<Version>().ok());
    if let Some(lowest) = recorded.min() {
        status.current_version = Some(lowest.to_string());
    }
    let selector = labels::selector(&snapshot.cluster);
    let selector: Vec<String> = selector.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    status.selector = Some(selector.join(","));
    set(&mut status.conditions, conditions::all(&picture), cluster.metadata.generation, now);
    status.summary = ready::summary(&status.conditions);
    if snapshot.record_doubt.is_none() {
        status.record_hash = Some(record::witness::hash(&status));
    }
    status
}

/// The status of a cluster whose spec cannot be carried out and whose target was never committed. The rest stays.
pub fn invalid_status(cluster: &EtcdCluster, invalid: &Invalid, now: Instant) -> EtcdClusterStatus {
    let mut status = cluster.status.clone().unwrap_or_default();
    status.observed_generation = cluster.metadata.generation;
    status.phase = Some(Phase::Blocked);
    let refused = || Some(Finding::no(Reason::SpecInvalid, invalid.to_string()));
    let stalled =
        Finding { holds: Some(true), why: Explanation::new(Reason::SpecInvalid, invalid.to_string()) };
    let findings = [
        (ConditionType::Ready, refused()),
        (ConditionType::Stalled, Some(stalled)),
        (ConditionType::Progressing, refused()),
        (ConditionType::UpToDate, refused()),
    ];
    set(&mut status.conditions, findings, cluster.metadata.generation, now);
    status.summary = ready::summary(&status.conditions);
    status
}

fn waiting_order(waiting: &Waiting) -> Option<WaitingOrder> {
    let Waiting::Order(order, OrderWait::NotBegun(_) | OrderWait::BackupFirst | OrderWait::ReadAgain) =
        waiting
    else {
        return None;
    };
    let why = explain(waiting);
    let (reason, message) = (why.reason().to_string(), why.message().to_owned());
    Some(WaitingOrder { ordered_by: record::ordered_by(order), reason, message })
}

/// The voters that are a quorum and were seen to have the same data, where data are known to differ.
fn agreed(snapshot: &Snapshot, record: &Record, now: Instant) -> Vec<String> {
    let compared = record.differ_since.and_then(|_| snapshot.comparison(now));
    compared.into_iter().flat_map(|compared| compared.majority).map(|name| name.as_str().to_owned()).collect()
}

/// To the second, as Kubernetes writes times.
fn time(at: Instant) -> Time {
    Time(Timestamp::from_second(at.0.div_euclid(1000)).unwrap_or(Timestamp::UNIX_EPOCH))
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
