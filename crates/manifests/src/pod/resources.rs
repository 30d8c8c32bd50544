//! The resources of etcd's container, and the limits that Go's runtime gets from them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use quorate_api::cluster::{PodSpec, Resources};
use quorate_api::quantity;
use quorate_model::Target;
use quorate_model::target::Medium;
use serde_json::{Value, json};

const CPU: &str = "cpu";
const MEMORY: &str = "memory";

/// What is requested where the user asks for nothing: about twice what a member needs at rest (some 20m, and 40 to 55 MiB with the
/// agent). Without any request a Pod is `BestEffort`: it gets the least of a busy processor, so that heartbeats are late, and is
/// the first to be killed where memory is short. More would keep small clusters from being placed at all.
const DEFAULT_REQUESTS: [(&str, &str); 2] = [(CPU, "50m"), (MEMORY, "100Mi")];

/// The same for the agent in a Job, which has some 60 MiB at most, whatever the size of the database.
const JOB_REQUESTS: [(&str, &str); 2] = [(CPU, "50m"), (MEMORY, "64Mi")];

/// Limits of the agent in a Job. A quota on limits admits no Pod without them.
const JOB_LIMITS: [(&str, &str); 2] = [(CPU, "1"), (MEMORY, "256Mi")];

/// How much of the memory limit Go's heap may use, in percent: the rest is for the agent, stacks, and what the heap grows by until it
/// is collected.
const HEAP_PERCENT: u64 = 90;

/// The resources that the user gives, with the default requests where neither a request nor a limit is given. A limit alone is also
/// the request, as Kubernetes defaults it.
pub(super) fn of_etcd(given: Option<&Resources>) -> Resources {
    let mut resources = given.cloned().unwrap_or_default();
    for (name, request) in DEFAULT_REQUESTS {
        if !resources.requests.contains_key(name) && !resources.limits.contains_key(name) {
            resources.requests.insert(name.to_owned(), Quantity(request.to_owned()));
        }
    }
    resources
}

/// The resources of the agent in a Job. A resource of which the user gives a request or a limit is left as it is.
pub(crate) fn of_job(given: Option<&Resources>) -> Resources {
    let mut resources = given.cloned().unwrap_or_default();
    for ((name, request), (_, limit)) in JOB_REQUESTS.into_iter().zip(JOB_LIMITS) {
        if !resources.requests.contains_key(name) && !resources.limits.contains_key(name) {
            resources.requests.insert(name.to_owned(), Quantity(request.to_owned()));
            resources.limits.insert(name.to_owned(), Quantity(limit.to_owned()));
        }
    }
    resources
}

/// The resources of a restore test, in which etcd runs on the data: it needs what a member needs. Where members are admitted without
/// limits, no quota asks for any.
pub(crate) fn of_test(given: Option<&Resources>, members: Option<&PodSpec>) -> Resources {
    let mut resources = given.cloned().unwrap_or_default();
    let members = of_etcd(members.and_then(|members| members.resources.as_ref()));
    for (name, _) in DEFAULT_REQUESTS {
        if resources.requests.contains_key(name) || resources.limits.contains_key(name) {
            continue;
        }
        let copy = |from: &BTreeMap<String, Quantity>, to: &mut BTreeMap<String, Quantity>| {
            to.extend(from.get(name).map(|value| (name.to_owned(), value.clone())));
        };
        copy(&members.requests, &mut resources.requests);
        copy(&members.limits, &mut resources.limits);
    }
    resources
}

/// GOMEMLIMIT, so that garbage is collected before the kernel kills the process; and GOMAXPROCS, so that no more threads run than the
/// limit has processors: with more, the process uses up its share early in each period, and then stands still. Go older than 1.25,
/// with which etcd 3.5 and 3.6 are built, does not read the limits itself.
pub(super) fn of_go(resources: &Resources, target: &Target) -> Vec<Value> {
    match target.storage.medium {
        Medium::Disk => of_go_beside(resources, 0),
        // Files in memory count as the container's memory.
        Medium::Memory => of_go_beside(resources, target.storage.bytes),
    }
}

/// The same, where so many bytes of the memory are taken.
pub(crate) fn of_go_beside(resources: &Resources, taken: u64) -> Vec<Value> {
    let limit = |name| resources.limits.get(name).and_then(quantity::bytes);
    let memory = limit(MEMORY).map(|bytes| bytes.saturating_sub(taken));
    let heap = memory.map(|bytes| bytes / 100 * HEAP_PERCENT).filter(|heap| *heap > 0);
    // Rounded up to whole processors, as `bytes` rounds.
    let processors = limit(CPU).filter(|processors| *processors > 0);
    [("GOMEMLIMIT", heap), ("GOMAXPROCS", processors)]
        .into_iter()
        .filter_map(|(name, value)| Some(json!({ "name": name, "value": value?.to_string() })))
        .collect()
}
