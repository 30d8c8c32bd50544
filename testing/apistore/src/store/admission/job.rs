//! Jobs: defaults, the generated selector, checks; almost nothing of their spec may change.

mod failure_policy;

use serde_json::{Value, json};

use super::{entries_mut, names, pod, set_default};
use crate::cause::Cause;
use crate::fields::{entries, flag, integer, name, text, uid};
use crate::selectors::selects;

/// Labels of a Job's Pods with its name; the second one is from before labels had prefixes.
const NAMES: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
/// Labels of a Job's Pods with its uid.
const UIDS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

/// Fields of the spec that an update cannot change, besides the template.
const IMMUTABLE: [&str; 7] = [
    "completions",
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
];

pub(super) fn on_create(job: &mut Value, causes: &mut Vec<Cause>) {
    fill(job);
    if !flag(job, "/spec/manualSelector") {
        select_own_pods(job);
    }
    label_as_the_template(job);
    job["status"] = json!({});
    check(job, causes);
}

pub(super) fn on_update(old: &Value, job: &mut Value, causes: &mut Vec<Cause>) {
    fill(job);
    label_as_the_template(job);
    check(job, causes);
    let spec = |job: &Value, field: &str| job["spec"].get(field).cloned().unwrap_or_default();
    for field in IMMUTABLE.into_iter().chain(["template"]) {
        if spec(old, field) != spec(job, field) {
            let why = "field is immutable";
            causes.push(Cause::invalid(format!("spec.{field}"), &job["spec"][field], why));
        }
    }
}

fn fill(job: &mut Value) {
    let given = |job: &Value, field: &str| job["spec"].get(field).is_some_and(|value| !value.is_null());
    if !given(job, "completions") && !given(job, "parallelism") {
        job["spec"]["completions"] = json!(1);
    }
    let replacement = if given(job, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    let backoff = if given(job, "backoffLimitPerIndex") { i32::MAX } else { 6 };
    for (field, default) in [
        ("parallelism", json!(1)),
        ("backoffLimit", json!(backoff)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("podReplacementPolicy", json!(replacement)),
        ("manualSelector", json!(false)),
    ] {
        set_default(job, &format!("/spec/{field}"), default);
    }
    pod::fill_template(&mut job["spec"]["template"]);
    let rules = job["spec"].get_mut("podFailurePolicy");
    for rule in rules.into_iter().flat_map(|policy| entries_mut(policy, "rules")) {
        for pattern in entries_mut(rule, "onPodConditions") {
            set_default(pattern, "/status", json!("True"));
        }
    }
}

/// Labels the template with name and uid, and selects by the uid.
fn select_own_pods(job: &mut Value) {
    let (name, uid) = (name(job).to_owned(), uid(job).to_owned());
    let labels = NAMES.map(|key| (key, &name)).into_iter().chain(UIDS.map(|key| (key, &uid)));
    for (key, value) in labels {
        let all = &mut job["spec"]["template"]["metadata"]["labels"];
        if all.get(key).is_none() {
            all[key] = json!(value);
        }
    }
    let selected = &mut job["spec"]["selector"]["matchLabels"];
    if selected.get(UIDS[0]).is_none() {
        selected[UIDS[0]] = json!(uid);
    }
}

/// A Job without labels has those of its template.
fn label_as_the_template(job: &mut Value) {
    let labels = job.pointer("/spec/template/metadata/labels").cloned();
    if entries(job, "/metadata/labels").next().is_none()
        && let Some(labels) =
            labels.filter(|labels| labels.as_object().is_some_and(|labels| !labels.is_empty()))
    {
        job["metadata"]["labels"] = labels;
    }
}

fn check(job: &Value, causes: &mut Vec<Cause>) {
    for field in
        ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"]
    {
        if integer(job, &format!("/spec/{field}")).is_some_and(|number| number < 0) {
            let why = "must be greater than or equal to 0";
            causes.push(Cause::invalid(format!("spec.{field}"), &job["spec"][field], why));
        }
    }
    check_selector(job, causes);
    let modes = ["NonIndexed", "Indexed"].map(Value::from);
    if !modes.contains(&job["spec"]["completionMode"]) {
        causes.push(Cause::unsupported("spec.completionMode", &job["spec"]["completionMode"], &modes));
    }
    if job["spec"]["completionMode"] == "Indexed" && integer(job, "/spec/completions").is_none() {
        causes.push(Cause::required_because("spec.completions", "when completion mode is Indexed"));
    }
    check_template(job, causes);
    failure_policy::check(&job["spec"], causes);
}

fn check_selector(job: &Value, causes: &mut Vec<Cause>) {
    let template = &job["spec"]["template"];
    let field = "spec.template.metadata.labels";
    let selector = job["spec"].get("selector").filter(|selector| selector.is_object());
    if !flag(job, "/spec/manualSelector") && selector.is_some() {
        let wanted = UIDS.map(|key| (key, uid(job))).into_iter().chain(NAMES.map(|key| (key, name(job))));
        for (key, value) in wanted {
            let why = format!("must be '{value}'");
            let field = format!("{field}[{key}]");
            match template["metadata"]["labels"].get(key).and_then(Value::as_str) {
                Some(own) if own == value => {}
                Some(_) => causes.push(Cause::invalid_shown(field, &template["metadata"]["labels"], why)),
                None => causes.push(Cause::required_because(field, why)),
            }
        }
        let generated = json!({"metadata": {"labels": {
            (UIDS[0]): uid(job), (UIDS[1]): uid(job), (NAMES[0]): name(job), (NAMES[1]): name(job),
        }}});
        if !selects(job["spec"].get("selector"), &generated) {
            let why = "`selector` not auto-generated";
            causes.push(Cause::invalid_shown("spec.selector", &job["spec"]["selector"], why));
        }
    }
    if selector.is_none() {
        causes.push(Cause::required("spec.selector"));
    }
    if !selects(selector, template) {
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid_shown(field, &template["metadata"]["labels"], why));
    }
}

fn check_template(job: &Value, causes: &mut Vec<Cause>) {
    let template = &job["spec"]["template"];
    for (key, value) in entries(template, "/metadata/labels") {
        let value = value.as_str().unwrap_or_default();
        let of_key = names::qualified(key).into_iter().map(|why| (key.as_str(), why));
        let wrong = of_key.chain(names::label_value(value).into_iter().map(|why| (value, why)));
        let field = "spec.template.labels";
        causes.extend(wrong.map(|(what, why)| Cause::invalid(field, &json!(what), why)));
    }
    let mut of_pod = Vec::new();
    pod::check_template(template, &mut of_pod);
    causes.extend(
        of_pod.into_iter().map(|cause| Cause { field: format!("spec.template.{}", cause.field), ..cause }),
    );
    let field = "spec.template.spec.restartPolicy";
    let policy = &template["spec"]["restartPolicy"];
    match text(template, "/spec/restartPolicy") {
        "" | "Always" => causes.push(Cause::required_because(field, r#"valid values: "OnFailure", "Never""#)),
        "OnFailure" if job["spec"]["podFailurePolicy"].is_object() => {
            let why = r#"only "Never" is supported when podFailurePolicy is specified"#;
            causes.push(Cause::invalid(field, policy, why));
        }
        "Never" | "OnFailure" => {}
        _ => causes.push(Cause::unsupported(field, policy, &["OnFailure", "Never"].map(Value::from))),
    }
}
