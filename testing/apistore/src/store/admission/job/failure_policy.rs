//! Checks of `podFailurePolicy` and `podReplacementPolicy`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::names;
use crate::cause::Cause;
use crate::fields::{items, text};

/// The most rules of a policy.
const RULES: usize = 20;

/// Checks the policies of a Job's spec.
pub(super) fn check(spec: &Value, causes: &mut Vec<Cause>) {
    let has_policy = spec["podFailurePolicy"].is_object();
    let kinds: &[&str] = if has_policy { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    let kinds: Vec<Value> = kinds.iter().map(|kind| json!(kind)).collect();
    if !kinds.contains(&spec["podReplacementPolicy"]) {
        causes.push(Cause::unsupported("spec.podReplacementPolicy", &spec["podReplacementPolicy"], &kinds));
    }
    let rules = items(spec, "/podFailurePolicy/rules");
    let field = "spec.podFailurePolicy.rules";
    if rules.len() > RULES {
        let message = format!("Too many: {}: must have at most {RULES} items", rules.len());
        causes.push(Cause { field: field.to_owned(), reason: "FieldValueTooMany", message });
    }
    let containers: BTreeSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| items(spec, &format!("/template/spec/{list}")))
        .map(|container| text(container, "/name"))
        .collect();
    for (index, rule) in rules.iter().enumerate() {
        check_rule(spec, rule, &format!("{field}[{index}]"), &containers, causes);
    }
}

fn check_rule(spec: &Value, rule: &Value, path: &str, containers: &BTreeSet<&str>, causes: &mut Vec<Cause>) {
    let field = format!("{path}.action");
    match text(rule, "/action") {
        "" => {
            let why = r#"valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#;
            causes.push(Cause::required_because(field, why));
        }
        "FailIndex" if spec["backoffLimitPerIndex"].is_null() => {
            let why = "requires the backoffLimitPerIndex to be set";
            causes.push(Cause::invalid(field, &rule["action"], why));
        }
        "Count" | "FailIndex" | "FailJob" | "Ignore" => {}
        _ => {
            let known = ["Count", "FailIndex", "FailJob", "Ignore"].map(Value::from);
            causes.push(Cause::unsupported(field, &rule["action"], &known));
        }
    }
    let (codes, conditions) = (&rule["onExitCodes"], items(rule, "/onPodConditions"));
    if codes.is_object() {
        check_codes(codes, &format!("{path}.onExitCodes"), containers, causes);
    }
    for (index, pattern) in conditions.iter().enumerate() {
        let pattern_path = format!("{path}.onPodConditions[{index}]");
        let wrong = names::qualified(text(pattern, "/type"));
        let field = format!("{pattern_path}.type");
        causes.extend(wrong.into_iter().map(|why| Cause::invalid(&field, &pattern["type"], why)));
        let known = ["False", "True", "Unknown"].map(Value::from);
        if !known.contains(&pattern["status"]) {
            causes.push(Cause::unsupported(format!("{pattern_path}.status"), &pattern["status"], &known));
        }
    }
    let why = match (codes.is_object(), !conditions.is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        (true, false) | (false, true) => return,
    };
    causes.push(Cause::invalid(path, &json!({}), why));
}

fn check_codes(codes: &Value, path: &str, containers: &BTreeSet<&str>, causes: &mut Vec<Cause>) {
    let field = format!("{path}.operator");
    match text(codes, "/operator") {
        "" => causes.push(Cause::required_because(field, r#"valid values: ["In" "NotIn"]"#)),
        "In" | "NotIn" => {}
        _ => {
            let known = ["In", "NotIn"].map(Value::from);
            causes.push(Cause::unsupported(field, &codes["operator"], &known));
        }
    }
    let container = &codes["containerName"];
    if container.as_str().is_some_and(|name| !containers.contains(name)) {
        let why = "must be one of the container or initContainer names in the pod template";
        causes.push(Cause::invalid(format!("{path}.containerName"), container, why));
    }
    let (values, field) = (items(codes, "/values"), format!("{path}.values"));
    if values.is_empty() {
        causes.push(Cause::invalid_shown(&field, &codes["values"], "at least one value is required"));
    }
    let numbers: Vec<i64> = values.iter().filter_map(Value::as_i64).collect();
    for (index, number) in numbers.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if *number == 0 && codes["operator"] == "In" {
            causes.push(Cause::invalid(&field, &json!(0), "must not be 0 for the In operator"));
        }
        if numbers[..index].contains(number) {
            causes.push(Cause::duplicate(field, &json!(number)));
        }
    }
    if !numbers.is_sorted() {
        causes.push(Cause::invalid_shown(field, &codes["values"], "must be ordered"));
    }
}
