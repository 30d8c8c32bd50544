//! Disruption budgets and leases.

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::fields::integer;

pub(super) fn check_budget(budget: &Value, causes: &mut Vec<Cause>) {
    let spec = &budget["spec"];
    let [least, most] =
        ["minAvailable", "maxUnavailable"].map(|key| spec.get(key).filter(|value| !value.is_null()));
    if least.is_some() && most.is_some() {
        causes.push(Cause::invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"));
    }
    for (key, value) in [("minAvailable", least), ("maxUnavailable", most)] {
        if let Some(value) = value
            && value.as_i64().is_some_and(|count| count < 0)
        {
            causes.push(Cause::invalid(format!("spec.{key}"), value, "must be greater than or equal to 0"));
        }
        if let Some(Value::String(text)) = value
            && !is_percent(text)
        {
            let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                       regex used for validation is '[0-9]+%')";
            causes.push(Cause::invalid(format!("spec.{key}"), &json!(text), why));
        }
    }
}

fn is_percent(text: &str) -> bool {
    let digits = text.strip_suffix('%').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn check_lease(lease: &Value, causes: &mut Vec<Cause>) {
    let field = "spec.leaseDurationSeconds";
    if integer(lease, "/spec/leaseDurationSeconds").is_some_and(|seconds| seconds <= 0) {
        causes.push(Cause::invalid(field, &lease["spec"]["leaseDurationSeconds"], "must be greater than 0"));
    }
    if integer(lease, "/spec/leaseTransitions").is_some_and(|count| count < 0) {
        let field = "spec.leaseTransitions";
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid(field, &lease["spec"]["leaseTransitions"], why));
    }
}
