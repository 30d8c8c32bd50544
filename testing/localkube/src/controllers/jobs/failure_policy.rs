//! `podFailurePolicy`: the first rule that matches a failed Pod decides.

use quorate_apistore::fields::{items, name, namespace, text};
use serde_json::Value;

/// Whether a failed Pod counts towards the backoff limit.
pub(super) fn counts(job: &Value, pod: &Value) -> bool {
    matching(job, pod).is_none_or(|(_, rule, _)| rule["action"] != "Ignore")
}

/// Why a failed Pod fails the whole Job, if a rule says so.
pub(super) fn fails_job(job: &Value, pod: &Value) -> Option<String> {
    let (index, rule, what) = matching(job, pod)?;
    (rule["action"] == "FailJob").then(|| format!("{what} matching FailJob rule at index {index}"))
}

/// The rule that matches, and what it matches.
fn matching<'a>(job: &'a Value, pod: &Value) -> Option<(usize, &'a Value, String)> {
    let place = || format!("{}/{}", namespace(pod), name(pod));
    items(job, "/spec/podFailurePolicy/rules").iter().enumerate().find_map(|(index, rule)| {
        let what = if rule["onExitCodes"].is_object() {
            let (container, code) = exit(&rule["onExitCodes"], pod)?;
            format!("Container {container} for pod {} failed with exit code {code}", place())
        } else {
            format!("Pod {} has condition {}", place(), condition(rule, pod)?)
        };
        Some((index, rule, what))
    })
}

/// The first container whose exit code is meant.
fn exit<'a>(rule: &Value, pod: &'a Value) -> Option<(&'a str, i64)> {
    let statuses = ["/status/containerStatuses", "/status/initContainerStatuses"];
    let statuses = statuses.into_iter().flat_map(|list| items(pod, list));
    let is_meant =
        |code: i64| (rule["operator"] == "In") == items(rule, "/values").iter().any(|one| *one == code);
    let container = rule["containerName"].as_str();
    statuses
        .filter(|status| container.is_none_or(|container| status["name"] == container))
        .filter_map(|status| {
            Some((text(status, "/name"), status.pointer("/state/terminated/exitCode")?.as_i64()?))
        })
        .find(|(_, code)| *code != 0 && is_meant(*code))
}

fn condition<'a>(rule: &Value, pod: &'a Value) -> Option<&'a str> {
    let patterns = items(rule, "/onPodConditions");
    let is_meant = |condition: &&Value| {
        patterns.iter().any(|one| one["type"] == condition["type"] && one["status"] == condition["status"])
    };
    items(pod, "/status/conditions").iter().find(is_meant).map(|condition| text(condition, "/type"))
}
