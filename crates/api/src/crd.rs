//! The resource definitions as Kubernetes gets them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    ValidationRule,
};
use kube_core::CustomResourceExt;
use serde_json::json;

use crate::backup::EtcdBackup;
use crate::cluster::EtcdCluster;
use crate::conditions::ConditionType;
use crate::reason::Reason;
use crate::restore::{self, EtcdRestore};
use crate::rules::{self, backup};
use crate::schedule::EtcdBackupSchedule;
use crate::user::{self, EtcdUser};

/// Every resource definition of the group. Take them from here, not from `EtcdCluster::crd()`, which lacks the rules on
/// the whole object.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        definition(EtcdCluster::crd(), rules::object()),
        definition(EtcdBackup::crd(), backup::backup_object()),
        definition(EtcdBackupSchedule::crd(), backup::schedule_object()),
        definition(EtcdRestore::crd(), restore::object_rules()),
        definition(EtcdUser::crd(), user::object_rules()),
    ]
}

/// The resource definition of this kind, such as `EtcdCluster`.
pub fn crd(kind: &str) -> Option<CustomResourceDefinition> {
    crds().into_iter().find(|crd| crd.spec.names.kind == kind)
}

/// The resource definitions as one YAML stream: what `quorate crds` prints and the content of `config/crd`.
pub fn crds_yaml() -> String {
    let mut stream = String::new();
    for crd in crds() {
        stream.push_str("---\n");
        stream.push_str(&serde_yaml_ng::to_string(&crd).expect("its keys are text, so it is YAML"));
    }
    stream
}

fn definition(mut crd: CustomResourceDefinition, object: Vec<kube_core::Rule>) -> CustomResourceDefinition {
    let object: Vec<_> = object.into_iter().map(validation).collect();
    for version in &mut crd.spec.versions {
        let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut())
        else {
            continue;
        };
        tidy(schema);
        let properties = schema.properties.get_or_insert_default();
        if let Some(status) = properties.get_mut("status") {
            open_to_other_releases(status);
            status.properties.iter_mut().flat_map(|fields| fields.iter_mut()).for_each(|(name, field)| {
                if name != "conditions" {
                    each_subschema(field, leave_undescribed);
                }
            });
            status.default = Some(JSON(unseen()));
        }
        schema.x_kubernetes_validations = Some(object.clone());
    }
    crd
}

/// The status of an object that no operator has seen. The API server fills it in whenever it reads such an object. Without it, a tool that
/// finds no condition takes the object for current.
fn unseen() -> serde_json::Value {
    json!({ "conditions": [{
        "type": ConditionType::Ready.as_str(),
        "status": "Unknown",
        "reason": Reason::Pending.as_str(),
        "message": "no operator has looked at it yet. If that lasts, see whether the operator runs",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    }] })
}

/// Takes out what the generator writes and Kubernetes does not need: titles, formats it does not know, the zero below
/// unsigned numbers (bounds are rules with a message), and `nullable`, without which it drops a null instead of storing
/// it.
fn tidy(schema: &mut JSONSchemaProps) {
    schema.title = None;
    schema.minimum = None;
    schema.nullable = None;
    schema.format = match schema.format.as_deref() {
        Some("uint8" | "uint16" | "int32") => Some("int32".to_owned()),
        Some("uint32" | "uint64" | "int64") => Some("int64".to_owned()),
        Some("date-time") => Some("date-time".to_owned()),
        Some(_) | None => None,
    };
    each_subschema(schema, tidy);
}

/// A status keeps what was written, by whichever release: nothing in it is defaulted, no field that a newer release wrote is pruned,
/// and no value that this release does not know makes the API server refuse a write. Rules and bounds are for specs. What every release
/// writes stays required: without it, a release cannot read the object, and no rule could ask for it.
fn open_to_other_releases(schema: &mut JSONSchemaProps) {
    schema.default = None;
    schema.enum_ = None;
    schema.pattern = None;
    schema.format = None;
    schema.min_length = None;
    schema.max_length = None;
    schema.max_items = None;
    schema.max_properties = None;
    schema.x_kubernetes_validations = None;
    if schema.properties.is_some()
        || schema.type_.as_deref() == Some("object") && schema.additional_properties.is_none()
    {
        schema.x_kubernetes_preserve_unknown_fields = Some(true);
    }
    each_subschema(schema, open_to_other_releases);
}

/// Below its fields, status is what the operator remembers, and described in the code. Descriptions of it make the definition too large.
fn leave_undescribed(schema: &mut JSONSchemaProps) {
    schema.description = None;
    each_subschema(schema, leave_undescribed);
}

fn each_subschema(schema: &mut JSONSchemaProps, act: fn(&mut JSONSchemaProps)) {
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(act);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        act(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        act(values);
    }
}

fn validation(rule: kube_core::Rule) -> ValidationRule {
    let rule = serde_json::to_value(rule).expect("a rule is plain text");
    serde_json::from_value(rule).expect("kube's rule has the fields of Kubernetes' rule")
}
