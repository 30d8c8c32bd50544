//! The schemas of custom resources: those of the definition, with the fields that every object has.

use quorate_apistore::ResourceInfo;
use serde_json::{Value, json};

use super::kind;

/// `io.etcd.operator.v1alpha1.EtcdCluster`: the group from right to left, the version, the kind.
pub(super) fn name(info: &ResourceInfo) -> String {
    let group: Vec<&str> = info.group.rsplit('.').collect();
    format!("{}.{}.{}", group.join("."), info.version, info.kind)
}

/// The schema of the whole object.
pub(super) fn schema(info: &ResourceInfo, defined: &Value) -> Value {
    let mut schema = defined.clone();
    schema["x-kubernetes-group-version-kind"] = json!([kind(&info.group, &info.version, &info.kind)]);
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let properties = &mut schema["properties"];
    properties["apiVersion"] = json!({
        "description": "APIVersion defines the versioned schema of this representation of an object. Servers should \
            convert recognized schemas to the latest internal value, and may reject unrecognized values.",
        "type": "string",
    });
    properties["kind"] = json!({
        "description": "Kind is a string value representing the REST resource this object represents. Servers may \
            infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase.",
        "type": "string",
    });
    properties["metadata"] = json!({
        "description": "Standard object's metadata.",
        "allOf": [{ "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" }],
    });
    schema
}
