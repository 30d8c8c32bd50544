//! Rows of events of both API groups.

use jiff::Timestamp;
use quorate_apistore::fields::{integer, name, text, time};
use serde_json::{Value, json};

use super::age;
use super::columns::{BuiltIn, Column, text as shown, wide};

pub(super) const EVENTS: BuiltIn = BuiltIn {
    columns: &[
        shown("Last Seen"),
        shown("Type"),
        shown("Reason"),
        shown("Object"),
        wide("Subobject"),
        wide("Source"),
        shown("Message"),
        wide("First Seen"),
        Column { name: "Count", kind: "integer", wide: true },
        wide("Name"),
    ],
    cells,
};

fn cells(event: &Value, now: Timestamp) -> Vec<Value> {
    // events.k8s.io has other names for the same fields.
    let either = |ours: &str, theirs: &str| match text(event, ours) {
        "" => text(event, theirs).to_owned(),
        text => text.to_owned(),
    };
    let first = time(event, "/firstTimestamp")
        .or_else(|| time(event, "/deprecatedFirstTimestamp"))
        .or_else(|| time(event, "/eventTime"));
    let last = time(event, "/series/lastObservedTime")
        .or_else(|| time(event, "/lastTimestamp"))
        .or_else(|| time(event, "/deprecatedLastTimestamp"))
        .or(first);
    let count = integer(event, "/series/count")
        .or_else(|| integer(event, "/count"))
        .or_else(|| integer(event, "/deprecatedCount"))
        .filter(|count| *count > 0)
        .unwrap_or(1);
    let kind = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
    let object = match either("/involvedObject/name", "/regarding/name") {
        name if name.is_empty() => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        json!(age::since(last, now)),
        json!(text(event, "/type")),
        json!(text(event, "/reason")),
        json!(object),
        json!(either("/involvedObject/fieldPath", "/regarding/fieldPath")),
        json!(source(event)),
        json!(either("/message", "/note").trim()),
        json!(age::since(first, now)),
        json!(count),
        json!(name(event)),
    ]
}

fn source(event: &Value) -> String {
    let of = |ours: &str, old: &str, new: &str| {
        [ours, old, new]
            .iter()
            .map(|at| text(event, at))
            .find(|text| !text.is_empty())
            .unwrap_or_default()
            .to_owned()
    };
    let component = of("/source/component", "/deprecatedSource/component", "/reportingComponent");
    let component =
        if component.is_empty() { text(event, "/reportingController").to_owned() } else { component };
    let host = of("/source/host", "/deprecatedSource/host", "/reportingInstance");
    if host.is_empty() { component } else { format!("{component}, {host}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_shows_its_last_time_and_its_object() {
        let event = json!({
            "metadata": { "name": "demo-0.1" }, "type": "Normal", "reason": "Scheduled", "message": "placed \n",
            "involvedObject": { "kind": "Pod", "name": "demo-0" }, "count": 4,
            "firstTimestamp": "2024-01-01T00:00:00Z", "lastTimestamp": "2024-01-01T00:00:50Z",
            "source": { "component": "default-scheduler" },
        });
        let row = cells(&event, "2024-01-01T00:01:00Z".parse().unwrap());
        assert_eq!(
            Value::from(row),
            json!([
                "10s",
                "Normal",
                "Scheduled",
                "pod/demo-0",
                "",
                "default-scheduler",
                "placed",
                "60s",
                4,
                "demo-0.1"
            ])
        );
    }
}
