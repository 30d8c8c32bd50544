//! The resource definition as it is printed, and the objects that pass through its types.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use quorate_api::cluster::{MAX_NAME_LENGTH, MAX_SIZE, Medium, Retention, TlsProvider};
use quorate_api::{ConditionType, EtcdCluster, EtcdClusterStatus, Reason, crd, crds, crds_yaml};
use serde_json::json;

const PRINTED: [&str; 5] = [
    include_str!("../../../config/crd/operator.etcd.io_etcdclusters.yaml"),
    include_str!("../../../config/crd/operator.etcd.io_etcdbackups.yaml"),
    include_str!("../../../config/crd/operator.etcd.io_etcdbackupschedules.yaml"),
    include_str!("../../../config/crd/operator.etcd.io_etcdrestores.yaml"),
    include_str!("../../../config/crd/operator.etcd.io_etcdusers.yaml"),
];
const SAMPLE: &str = include_str!("../../../config/samples/etcdcluster.yaml");
const ETCD_IO_SAMPLE: &str = include_str!("../../../config/samples/etcdcluster-etcd-io.yaml");

fn schema() -> JSONSchemaProps {
    schema_of("EtcdCluster")
}

/// The schema of each kind, with its name.
fn schemas() -> Vec<(String, JSONSchemaProps)> {
    let kinds = crds().into_iter().map(|crd| crd.spec.names.kind);
    kinds.map(|kind| (kind.clone(), schema_of(&kind))).collect()
}

fn schema_of(kind: &str) -> JSONSchemaProps {
    let version = crd(kind).unwrap().spec.versions.remove(0);
    version.schema.unwrap().open_api_v3_schema.unwrap()
}

/// Calls `look` on every schema below `schema`, with its path.
fn walk(schema: &JSONSchemaProps, path: &str, look: &mut dyn FnMut(&str, &JSONSchemaProps)) {
    look(path, schema);
    for (name, property) in schema.properties.iter().flatten() {
        walk(property, &format!("{path}.{name}"), look);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        walk(items, &format!("{path}[]"), look);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        walk(values, &format!("{path}{{}}"), look);
    }
}

/// Calls `look` on every schema of every kind, with its path, which begins with the kind.
fn walk_all(look: &mut dyn FnMut(&str, &JSONSchemaProps)) {
    for (kind, schema) in schemas() {
        walk(&schema, &kind, look);
    }
}

#[test]
fn the_definition_under_config_is_the_one_in_the_code() {
    assert!(
        PRINTED.concat() == crds_yaml(),
        "config/crd is stale; run `cargo xtask crds` and look at the difference"
    );
}

/// Types of Kubernetes in our specs.
const OF_KUBERNETES: [&str; 3] = [".affinity", ".tolerations", ".topologySpreadConstraints"];

/// Others, with bounds, so that rules may read them.
const OF_KUBERNETES_WITH_BOUNDS: [&str; 3] = [".securityContext", ".clientsFrom", ".metricsFrom"];

/// Whether it is below one of these fields.
fn is_below(path: &str, fields: &[&str]) -> bool {
    fields.iter().any(|name| {
        path.split_once(name).is_some_and(|(_, rest)| rest.starts_with('.') || rest.starts_with('['))
    })
}

/// What the operator remembers, without the conditions.
fn is_below_a_field_of_status(path: &str) -> bool {
    let field = path.split_once(".status.").map_or("", |(_, field)| field);
    field.contains(['.', '[', '{']) && !field.starts_with("conditions")
}

#[test]
fn every_field_says_what_it_is_and_what_is_below_a_type_of_kubernetes_says_nothing() {
    let mut fields_of_kubernetes = 0;
    walk_all(&mut |path, field| {
        let inner = path.ends_with("[]") || path.ends_with("{}");
        let is_described = field.description.is_some();
        if is_below(path, &OF_KUBERNETES) || is_below(path, &OF_KUBERNETES_WITH_BOUNDS) {
            fields_of_kubernetes += 1;
            assert!(
                !is_described,
                "{path} has a description of Kubernetes, which makes the definition too large"
            );
        } else if is_below_a_field_of_status(path) {
            assert!(!is_described, "{path} is described, which makes the definition too large");
        } else {
            assert!(inner || !path.contains('.') || is_described, "{path} has no description");
        }
    });
    assert!(fields_of_kubernetes > 300, "only {fields_of_kubernetes} fields are of Kubernetes");
}

/// The most bytes of a definition. `kubectl apply` without `--server-side`, and tools that do as it does, keep the whole object in an
/// annotation of it, and Kubernetes admits 262,144 bytes of annotations. The rest is room for releases to come.
const MOST_BYTES: usize = 160_000;

#[test]
fn a_definition_is_small_enough_for_an_apply_that_keeps_it_in_an_annotation() {
    for crd in crds() {
        let kept = serde_json::to_string(&crd).unwrap();
        // kubectl writes each of these characters as six, such as \u0026.
        let bytes = kept.len() + 5 * kept.matches(['&', '<', '>']).count();
        assert!(bytes <= MOST_BYTES, "{}: {bytes} bytes", crd.spec.names.kind);
    }
}

/// The API server estimates what a rule costs by the bounds of what it reads. Nothing below these fields is read by a rule.
#[test]
fn no_rule_reads_what_has_no_bounds() {
    let mut rules = Vec::new();
    walk_all(&mut |path, field| {
        let own = field.x_kubernetes_validations.iter().flatten();
        assert!(own.clone().count() == 0 || !is_below(path, &OF_KUBERNETES), "{path} has rules");
        rules.extend(own.map(|rule| rule.rule.clone()));
    });
    let asks_only =
        ["has(self.podTemplate.spec.affinity)", "has(self.podTemplate.spec.affinity.podAntiAffinity)"];
    for rule in rules {
        let rest = asks_only.iter().fold(rule.clone(), |rule, asked| rule.replace(asked, ""));
        assert!(OF_KUBERNETES.iter().all(|field| !rest.contains(field)), "{rule}");
    }
}

#[test]
fn everything_in_the_spec_is_bounded_so_that_rules_stay_cheap() {
    walk_all(&mut |path, field| {
        let is_unbounded =
            is_below(path, &OF_KUBERNETES) || OF_KUBERNETES.iter().any(|name| path.ends_with(name));
        if !path.contains(".spec.") || is_unbounded {
            return;
        }
        let kind = field.type_.as_deref();
        if kind == Some("array") {
            assert!(field.max_items.is_some(), "{path} has no maxItems");
        }
        if field.additional_properties.is_some() {
            assert!(field.max_properties.is_some(), "{path} has no maxProperties");
        }
        if kind == Some("string") || field.x_kubernetes_int_or_string == Some(true) {
            assert!(field.max_length.is_some() || field.enum_.is_some(), "{path} has no maxLength");
        }
    });
}

#[test]
fn every_rule_has_a_message_of_one_line() {
    walk_all(&mut |path, field| {
        for rule in field.x_kubernetes_validations.iter().flatten() {
            let message = rule.message.as_deref().unwrap_or_default();
            assert!(
                !message.is_empty() && !message.contains('\n') && !message.contains("  "),
                "{path}: {message:?}"
            );
        }
    });
}

#[test]
fn nothing_in_status_is_required_or_defaulted_but_the_status_of_an_object_that_nobody_has_seen() {
    assert_eq!(serde_json::from_value::<EtcdClusterStatus>(json!({})).unwrap(), EtcdClusterStatus::default());
    for (kind, schema) in schemas() {
        let status = &schema.properties.unwrap()["status"];
        assert_eq!(status.required, None, "{kind}");
        walk(status, &kind, &mut |path, field| assert_eq!(field.default.is_some(), path == kind, "{path}"));
        let unseen = &status.default.as_ref().unwrap().0["conditions"];
        assert_eq!(unseen.as_array().unwrap().len(), 1, "{kind}");
        assert_eq!(
            (&unseen[0]["type"], &unseen[0]["status"]),
            (&json!("Ready"), &json!("Unknown")),
            "{kind}"
        );
    }
}

#[test]
fn what_every_release_writes_below_the_fields_of_status_is_required_so_that_what_is_stored_can_be_read() {
    let status = schema().properties.unwrap().remove("status").unwrap().properties.unwrap();
    let required = |field: &JSONSchemaProps| field.required.clone().unwrap_or_default();
    assert!(required(&status["target"]).contains(&"size".to_owned()), "{:?}", status["target"].required);
    let Some(JSONSchemaPropsOrArray::Schema(condition)) = &status["conditions"].items else {
        panic!("a list has items")
    };
    for field in ["type", "status", "reason"] {
        assert!(required(condition).contains(&field.to_owned()), "{:?}", condition.required);
    }
}

/// The API server refuses the definition otherwise.
#[test]
fn the_keys_of_lists_are_required() {
    walk_all(&mut |path, field| {
        for key in field.x_kubernetes_list_map_keys.iter().flatten() {
            let Some(JSONSchemaPropsOrArray::Schema(items)) = &field.items else {
                panic!("{path} has no items")
            };
            let is_required = items.required.iter().flatten().any(|required| required == key);
            let has_default = items.properties.as_ref().is_some_and(|all| all[key].default.is_some());
            assert!(is_required || has_default, "{path}[].{key} is a key and may be absent");
        }
    });
}

#[test]
fn status_keeps_the_fields_and_values_of_other_releases() {
    walk_all(&mut |path, schema| {
        if !path.contains(".status") {
            return;
        }
        let keeps = schema.x_kubernetes_preserve_unknown_fields == Some(true);
        assert!(schema.properties.is_none() || keeps, "the API server prunes unknown fields of {path}");
        assert!(schema.enum_.is_none(), "the API server refuses unknown values of {path}");
    });
}

#[test]
fn what_a_spec_leaves_out_is_what_the_definition_defaults() {
    let cluster: EtcdCluster = serde_json::from_value(json!({
        "metadata": { "name": "demo" },
        "spec": { "size": 3, "version": "3.6.16" },
    }))
    .unwrap();
    let storage = &cluster.spec.storage_spec;
    assert_eq!(storage.medium, Medium::Disk);
    assert_eq!(storage.volume_size_request.0, "2Gi");
    assert_eq!(storage.retention.when_deleted, Retention::Retain);
    assert_eq!(storage.retention.when_scaled, Retention::Delete);
    assert_eq!(cluster.spec.tls.provider, TlsProvider::Auto);

    let fields = schema().properties.unwrap().remove("spec").unwrap().properties.unwrap();
    let defaulted = |field: &str| serde_json::to_value(fields[field].default.as_ref().unwrap()).unwrap();
    assert_eq!(defaulted("storageSpec"), serde_json::to_value(storage).unwrap());
    assert_eq!(defaulted("tls"), serde_json::to_value(&cluster.spec.tls).unwrap());
}

#[test]
fn the_samples_read_into_the_types_and_lose_nothing() {
    for sample in [SAMPLE, ETCD_IO_SAMPLE] {
        let written: serde_json::Value = serde_yaml_ng::from_str(sample).unwrap();
        let cluster: EtcdCluster = serde_json::from_value(written.clone()).unwrap();
        let read = serde_json::to_value(&cluster).unwrap();
        for (field, value) in written["spec"].as_object().unwrap() {
            let mut merged = read["spec"][field].clone();
            merge(&mut merged, value);
            assert_eq!(merged, read["spec"][field], "{field}");
        }
    }
}

fn merge(into: &mut serde_json::Value, from: &serde_json::Value) {
    match (into, from) {
        (serde_json::Value::Object(into), serde_json::Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(serde_json::Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[test]
fn the_constants_say_what_the_rules_say() {
    let printed = crds_yaml();
    assert!(printed.contains(&format!("rule: self <= {MAX_SIZE}\n")));
    assert!(printed.contains(&format!("rule: size(self.metadata.name) <= {MAX_NAME_LENGTH}\n")));
    let longest = format!("{}-{}", "a".repeat(MAX_NAME_LENGTH), u32::MAX);
    assert_eq!(longest.len(), 63, "a member's name is a DNS label");
}

#[test]
fn condition_types_and_reasons_are_words_that_kubernetes_takes_and_are_unique() {
    let words: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    let types: Vec<&str> = ConditionType::ALL.iter().map(|kind| kind.as_str()).collect();
    for list in [&words, &types] {
        assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), list.len());
        for word in list {
            assert!(word.starts_with(|c: char| c.is_ascii_uppercase()), "{word}");
            assert!(word.chars().all(|c| c.is_ascii_alphanumeric()), "{word}");
        }
    }
}
