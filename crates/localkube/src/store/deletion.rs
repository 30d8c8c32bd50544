//! Deletion: preconditions, grace, finalizers.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::metadata::seconds;
use crate::errors::ApiError;
use crate::fields::{deleting, integer, items, name, text, uid};
use crate::resources::ResourceInfo;

/// How to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Precondition: this object and no namesake.
    pub uid: Option<String>,
    /// Precondition: as it was seen.
    pub resource_version: Option<String>,
    /// Seconds a Pod has to stop; its own unless given.
    pub grace_period: Option<i64>,
    /// What becomes of dependents.
    pub propagation: Propagation,
    /// Only say what would happen.
    pub dry_run: bool,
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// The garbage collector takes them afterwards.
    #[default]
    Background,
    /// They go first.
    Foreground,
    /// They stay.
    Orphan,
}

/// What a deletion did.
#[derive(Clone, Debug, PartialEq)]
pub enum Deleted {
    /// The object is gone; as it was last.
    Gone(Value),
    /// It is marked, and goes once it has stopped and its finalizers are done.
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
        return Err(ApiError::conflict_on(&kind, info, name(old), why));
    }
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        );
        return Err(ApiError::conflict_on(&kind, info, name(old), why));
    }
    Ok(())
}

/// Marks an object for deletion. Only a Pod that was placed has something to stop.
pub(super) fn mark(info: &ResourceInfo, object: &mut Value, options: &DeleteOptions, now: Timestamp) {
    let own = integer(object, "/spec/terminationGracePeriodSeconds").unwrap_or(30);
    let finished = ["Failed", "Succeeded"].contains(&text(object, "/status/phase"));
    let placed = info.plural == "pods" && !text(object, "/spec/nodeName").is_empty() && !finished;
    let grace = if placed { options.grace_period.unwrap_or(own).max(0) } else { 0 };
    let pending = integer(object, "/metadata/deletionGracePeriodSeconds");
    let first = !deleting(object);
    if first || pending.is_some_and(|pending| grace < pending) {
        let at = seconds(now) + SignedDuration::from_secs(grace);
        object["metadata"]["deletionTimestamp"] = json!(at);
        object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    }
    if let Some(generation) = integer(object, "/metadata/generation").filter(|_| first) {
        object["metadata"]["generation"] = json!(generation + 1);
    }
    if info.is_definition() {
        add_finalizer(object, "customresourcecleanup.apiextensions.k8s.io");
    }
    match options.propagation {
        Propagation::Background => {}
        Propagation::Foreground => add_finalizer(object, "foregroundDeletion"),
        Propagation::Orphan => add_finalizer(object, "orphan"),
    }
}

/// Marked, stopped, and no finalizer left.
pub(super) fn is_done(info: &ResourceInfo, object: &Value) -> bool {
    let finalizers = items(object, "/metadata/finalizers");
    let of_namespace = info.plural == "namespaces" && !items(object, "/spec/finalizers").is_empty();
    let grace = integer(object, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
    deleting(object) && finalizers.is_empty() && !of_namespace && grace == 0
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    let mut finalizers = items(object, "/metadata/finalizers").to_vec();
    if !finalizers.contains(&json!(finalizer)) {
        finalizers.push(json!(finalizer));
        object["metadata"]["finalizers"] = json!(finalizers);
    }
}
