//! An API with a custom kind in it.

use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::core::Status;
use kube::{Client, Error};
use quorate_localkube::LocalKube;
use serde_json::{Value, json};

pub struct World {
    pub kube: LocalKube,
    pub client: Client,
}

impl World {
    /// Without controllers, and with a fixed clock.
    pub fn new() -> Self {
        let at = Timestamp::from_second(1_700_000_000).unwrap();
        let kube = LocalKube::new(Arc::new(move || at));
        let client = Client::new(kube.service(), "default");
        Self { kube, client }
    }

    /// With the kind `Thing`.
    pub async fn with_things() -> Self {
        let world = Self::new();
        let definitions = world.api("apiextensions.k8s.io/v1", "CustomResourceDefinition", false);
        definitions.create(&PostParams::default(), &object(&things())).await.unwrap();
        world
    }

    pub fn things(&self) -> Api<DynamicObject> {
        self.api("x.io/v1", "Thing", true)
    }

    pub fn api(&self, version: &str, kind: &str, namespaced: bool) -> Api<DynamicObject> {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if namespaced {
            Api::namespaced_with(self.client.clone(), "default", &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }

    /// Sends a request and returns the reply's body, or the refusal.
    pub async fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, Box<Status>> {
        self.send_as(method, path, "application/json", body).await
    }

    pub async fn send_as(
        &self,
        method: &str,
        path: &str,
        form: &str,
        body: &Value,
    ) -> Result<Value, Box<Status>> {
        let request = http::Request::builder().method(method).uri(path).header("content-type", form);
        refusal_of(self.client.request(request.body(body.to_string().into_bytes()).unwrap()).await)
    }

    pub async fn get(&self, path: &str) -> Result<Value, Box<Status>> {
        self.send("GET", path, &Value::Null).await
    }
}

/// The status of a refusal; any other error fails the test.
pub fn refusal_of<T>(result: Result<T, Error>) -> Result<T, Box<Status>> {
    result.map_err(|error| match error {
        Error::Api(status) => status,
        other => panic!("not an answer of the API: {other}"),
    })
}

pub fn object(value: &Value) -> DynamicObject {
    serde_json::from_value(value.clone()).unwrap()
}

pub fn thing(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

/// The definition of `Thing`, which uses a bit of everything in schemas.
pub fn things() -> Value {
    let rules = json!([
        {"rule": "!has(self.mode) || self.size != 5", "message": "five may have no mode"},
        {"rule": "!has(self.mode) || self.size != 6", "messageExpression": "'no ' + (self.size > 3 ? 'six' : '')"},
        {"rule": "!has(self.mode) || self.size != 7", "message": "seven", "fieldPath": ".mode",
         "reason": "FieldValueForbidden"},
        {"rule": "!has(self.q) || quantity(string(self.q)).isLessThan(quantity('1Gi'))"},
        {"rule": "!has(oldSelf.fixed) || (has(self.fixed) && self.fixed == oldSelf.fixed)",
         "message": "fixed may not change"},
        {"rule": "self.once == oldSelf.orValue(self).once", "optionalOldSelf": true, "message": "once is immutable"},
    ]);
    let entry = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}});
    let name = json!({
        "type": "string", "pattern": "^[a-z]+$", "maxLength": 5, "minLength": 2,
        "x-kubernetes-validations": [{"rule": "self != 'nono'", "message": "must not be no"}],
    });
    let spec = json!({
        "type": "object",
        "required": ["size"],
        "x-kubernetes-validations": rules,
        "properties": {
            "size": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 9},
            "mode": {"type": "string", "enum": ["A", "B"]},
            "name": name,
            "fixed": {"type": "string"},
            "once": {"type": "string", "default": "yes"},
            "q": {"x-kubernetes-int-or-string": true, "pattern": "^[0-9]+(Mi|Gi)?$",
                  "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "flag": {"type": "boolean", "default": true},
            "nested": {"type": "object", "default": {}, "properties": {"a": {"type": "integer", "default": 3}}},
            "list": {"type": "array", "maxItems": 3, "items": entry, "x-kubernetes-list-type": "map",
                     "x-kubernetes-list-map-keys": ["k"]},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "at": {"type": "string", "format": "date-time"},
            "nothing": {"type": "string", "nullable": true},
        },
    });
    let status = json!({
        "type": "object",
        "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}, "note": {"type": "string"}},
    });
    let schema = json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "size(self.metadata.name) <= 20", "message": "name too long"}],
        "properties": {"spec": spec, "status": status},
    });
    let scale = json!({
        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.io"},
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing", "shortNames": ["th"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": scale},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}
