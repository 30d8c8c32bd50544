//! Deletion: preconditions, grace period, finalizers.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::metadata::seconds;
use crate::errors::ApiError;
use crate::fields::{deleting, integer, items, name, text, time, uid};
use crate::resources::ResourceInfo;

/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Precondition: the uid.
    pub uid: Option<String>,
    /// Precondition: the resourceVersion.
    pub resource_version: Option<String>,
    /// Seconds a Pod gets to stop; `terminationGracePeriodSeconds` if absent.
    pub grace_period: Option<i64>,
    /// What happens to dependents.
    pub propagation: Propagation,
    /// Only checks.
    pub dry_run: bool,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// As an earlier deletion requested, else `Background`; for a Job, `Orphan`.
    #[default]
    Unspecified,
    /// The garbage collector deletes them afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They are kept.
    Orphan,
}

/// The result of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum Deleted {
    /// The object is removed; its last state.
    Gone(Value),
    /// The object has a deletionTimestamp. It is removed once it has stopped and has no finalizers.
    Marked(Value),
}

pub(super) fn check_preconditions(
    info: &ResourceInfo,
    old: &Value,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let kind = info.qualified_kind();
    let (own, version) = (uid(old), text(old, "/metadata/resourceVersion"));
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != own) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({own}). The object might have \
             been deleted and then recreated"
        );
        return Err(ApiError::conflict_on(&kind, &info.kind, info, name(old), why));
    }
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        );
        return Err(ApiError::conflict_on(&kind, &info.kind, info, name(old), why));
    }
    Ok(())
}

/// Sets deletionTimestamp, grace period and the finalizers of the propagation. Only a Pod with a node has something to
/// stop. A second deletion of such a Pod can only shorten its grace period; anything else in it is ignored while it stops.
pub(super) fn mark(info: &ResourceInfo, object: &mut Value, options: &DeleteOptions, now: Timestamp) {
    let is_pod = info.plural == "pods";
    // The real server reads a negative period as one second.
    let read = |seconds: i64| if seconds < 0 { 1 } else { seconds };
    let wanted = options.grace_period.map(read);
    let pending = integer(object, "/metadata/deletionGracePeriodSeconds");
    match pending.filter(|_| deleting(object)) {
        Some(pending) if is_pod && pending > 0 => {
            let Some(shorter) = wanted.filter(|wanted| *wanted < pending) else { return };
            let at = time(object, "/metadata/deletionTimestamp").unwrap_or(now);
            stop_by(object, later(at, shorter - pending), shorter);
        }
        Some(_) => {}
        None => {
            let own = integer(object, "/spec/terminationGracePeriodSeconds").map_or(30, read);
            let finished = ["Failed", "Succeeded"].contains(&text(object, "/status/phase"));
            let runs = is_pod && !text(object, "/spec/nodeName").is_empty() && !finished;
            let grace = if runs { wanted.unwrap_or(own) } else { 0 };
            stop_by(object, later(seconds(now), grace), grace);
            if let Some(generation) = integer(object, "/metadata/generation") {
                object["metadata"]["generation"] = json!(generation + 1);
            }
        }
    }
    if info.is_definition() {
        add_finalizer(object, "customresourcecleanup.apiextensions.k8s.io");
    }
    let undecided = !items(object, "/metadata/finalizers")
        .iter()
        .any(|finalizer| *finalizer == "foregroundDeletion" || *finalizer == "orphan");
    match options.propagation {
        // A deletion of a Job that says nothing keeps its Pods, since `batch/v1` has always done so.
        Propagation::Unspecified if info.plural == "jobs" && undecided => propagate(object, &["orphan"]),
        Propagation::Unspecified => {}
        Propagation::Background => propagate(object, &[]),
        Propagation::Foreground => propagate(object, &["foregroundDeletion"]),
        Propagation::Orphan => propagate(object, &["orphan"]),
    }
}

/// Whether a deleted object can be removed: it has stopped and has no finalizers.
pub(super) fn is_done(info: &ResourceInfo, object: &Value) -> bool {
    let finalizers = items(object, "/metadata/finalizers");
    let of_namespace = info.plural == "namespaces" && !items(object, "/spec/finalizers").is_empty();
    let grace = integer(object, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
    deleting(object) && finalizers.is_empty() && !of_namespace && grace == 0
}

/// A number of seconds later, at most the last time that can be written.
fn later(at: Timestamp, seconds: i64) -> Timestamp {
    at.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

fn stop_by(object: &mut Value, at: Timestamp, grace: i64) {
    object["metadata"]["deletionTimestamp"] = json!(at);
    object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
}

/// The latest deletion decides: its propagation replaces an earlier one.
fn propagate(object: &mut Value, wanted: &[&str]) {
    let known = items(object, "/metadata/finalizers");
    let (present, others): (Vec<Value>, Vec<Value>) = known
        .iter()
        .cloned()
        .partition(|finalizer| *finalizer == "foregroundDeletion" || *finalizer == "orphan");
    let wanted: Vec<Value> = wanted.iter().map(|finalizer| json!(finalizer)).collect();
    if present == wanted {
        return;
    }
    let all = [others, wanted].concat();
    if !all.is_empty() {
        object["metadata"]["finalizers"] = json!(all);
    } else if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("finalizers");
    }
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    let mut finalizers = items(object, "/metadata/finalizers").to_vec();
    if !finalizers.contains(&json!(finalizer)) {
        finalizers.push(json!(finalizer));
        object["metadata"]["finalizers"] = json!(finalizers);
    }
}
