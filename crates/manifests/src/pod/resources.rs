//! The resources of etcd's container, and the limits that Go's runtime gets from them.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use quorate_api::cluster::Resources;
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

/// GOMEMLIMIT, so that garbage is collected before the kernel kills the process; and GOMAXPROCS, so that no more threads run than the
/// limit has processors: with more, the process uses up its share early in each period, and then stands still. Go older than 1.25,
/// with which etcd 3.5 and 3.6 are built, does not read the limits itself.
pub(super) fn of_go(resources: &Resources, target: &Target) -> Vec<Value> {
    let limit = |name| resources.limits.get(name).and_then(quantity::bytes);
    let memory = limit(MEMORY).map(|bytes| match target.storage.medium {
        Medium::Disk => bytes,
        // Files in memory count as the container's memory.
        Medium::Memory => bytes.saturating_sub(target.storage.bytes),
    });
    let heap = memory.map(|bytes| bytes / 100 * HEAP_PERCENT).filter(|heap| *heap > 0);
    // Rounded up to whole processors, as `bytes` rounds.
    let processors = limit(CPU).filter(|processors| *processors > 0);
    [("GOMEMLIMIT", heap), ("GOMAXPROCS", processors)]
        .into_iter()
        .filter_map(|(name, value)| Some(json!({ "name": name, "value": value?.to_string() })))
        .collect()
}
