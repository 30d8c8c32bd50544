//! Rows of Jobs.

use jiff::Timestamp;
use quorate_apistore::fields::{at, condition, deleting, entries, integer, items, name, text, time};
use serde_json::{Value, json};

use super::age;
use super::columns::{BuiltIn, or_none, text as shown, wide};

pub(super) const JOBS: BuiltIn = BuiltIn {
    columns: &[
        shown("Name"),
        shown("Status"),
        shown("Completions"),
        shown("Duration"),
        shown("Age"),
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: job,
};

fn job(job: &Value, now: Timestamp) -> Vec<Value> {
    let of_containers = |pointer: &str| {
        let containers = items(job, "/spec/template/spec/containers");
        containers.iter().map(|container| text(container, pointer)).collect::<Vec<_>>().join(",")
    };
    vec![
        json!(name(job)),
        json!(status(job)),
        json!(completions(job)),
        json!(duration(job, now)),
        json!(age::since(time(job, "/metadata/creationTimestamp"), now)),
        json!(of_containers("/name")),
        json!(of_containers("/image")),
        json!(selector(job)),
    ]
}

fn status(job: &Value) -> &'static str {
    let is = |kind: &str| condition(job, kind) == "True";
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if deleting(job) => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let succeeded = integer(job, "/status/succeeded").unwrap_or(0);
    let parallelism = integer(job, "/spec/parallelism").unwrap_or(0);
    match integer(job, "/spec/completions") {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn duration(job: &Value, now: Timestamp) -> String {
    let start = time(job, "/status/startTime");
    let end = time(job, "/status/completionTime").unwrap_or(now);
    start.map_or_else(String::new, |start| age::human(end.as_second() - start.as_second()))
}

fn selector(job: &Value) -> String {
    let Some(selector) = at(job, "/spec/selector") else { return or_none("").to_owned() };
    let labels = entries(selector, "/matchLabels");
    let labels: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    or_none(&labels.join(",")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_shows_how_far_it_is_and_how_long_it_took() {
        let mut one = json!({
            "metadata": { "name": "backup", "creationTimestamp": "2024-01-01T00:00:00Z" },
            "spec": {
                "completions": 1,
                "selector": { "matchLabels": { "a": "b" } },
                "template": { "spec": { "containers": [{ "name": "agent", "image": "quorate:1" }] } },
            },
            "status": { "startTime": "2024-01-01T00:00:01Z" },
        });
        let now = "2024-01-01T00:00:11Z".parse().unwrap();
        assert_eq!(
            Value::from(job(&one, now)),
            json!(["backup", "Running", "0/1", "10s", "11s", "agent", "quorate:1", "a=b"])
        );
        one["status"] = json!({
            "startTime": "2024-01-01T00:00:01Z", "completionTime": "2024-01-01T00:00:06Z", "succeeded": 1,
            "conditions": [{ "type": "SuccessCriteriaMet", "status": "True" }, { "type": "Complete", "status": "True" }],
        });
        assert_eq!(Value::from(&job(&one, now)[1..4]), json!(["Complete", "1/1", "5s"]));
        one["status"] = json!({ "conditions": [{ "type": "FailureTarget", "status": "True" }] });
        assert_eq!(Value::from(&job(&one, now)[1..4]), json!(["FailureTarget", "0/1", ""]));
    }
}
