//! The CustomResourceDefinition of EtcdClusters, which a person may replace by one that is older than the operator.

use quorate_apistore::resources::{ObjectKey, ResourceKey};
use quorate_apistore::store::Part;
use serde_json::Value;

use super::World;

/// The schema of status in the definition.
const STATUS: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/status";

impl World {
    /// A person replaces the definition by one that has no schema for these fields of status, each as a path such as `bootstrap/restore`, and
    /// that prunes what it has no schema for. Without a list it is the operator's own, which keeps all that is written.
    pub(super) fn replace_definition(&mut self, lacks: &Value) -> Result<(), String> {
        let own = quorate_api::crd::crds().into_iter().find(|crd| crd.spec.names.kind == "EtcdCluster");
        let mut schema = serde_json::to_value(own).map_err(|error| error.to_string())?;
        for path in lacks.as_array().into_iter().flatten().filter_map(Value::as_str) {
            let (parent, field) = path.rsplit_once('/').map_or(("", path), |(parent, field)| (parent, field));
            let mut properties = format!("{STATUS}/properties");
            for name in parent.split('/').filter(|name| !name.is_empty()) {
                properties = format!("{properties}/{name}/properties");
            }
            let properties = schema.pointer_mut(&properties).and_then(Value::as_object_mut);
            let removed = properties.and_then(|properties| properties.remove(field));
            removed.ok_or_else(|| format!("status has no field {path}"))?;
        }
        let definitions = ResourceKey::new("apiextensions.k8s.io", "customresourcedefinitions");
        let key = ObjectKey::new(definitions, "", "etcdclusters.operator.etcd.io");
        if let Some(status) = schema.pointer_mut(STATUS).filter(|_| lacks.is_array()) {
            prune_unknown_fields(status);
        }
        self.change(&key, Part::Main, |definition| definition["spec"] = schema["spec"].clone())
    }
}

fn prune_unknown_fields(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-preserve-unknown-fields");
            fields.values_mut().for_each(prune_unknown_fields);
        }
        Value::Array(entries) => entries.iter_mut().for_each(prune_unknown_fields),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
