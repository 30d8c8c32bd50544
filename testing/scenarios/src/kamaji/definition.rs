//! Kamaji's kind DataStore: all its fields, and its rules.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// Its definition.
pub fn definition() -> Result<CustomResourceDefinition> {
    let definition = json!({
        "metadata": { "name": "datastores.kamaji.clastix.io" },
        "spec": {
            "group": "kamaji.clastix.io", "scope": "Cluster",
            "names": { "kind": "DataStore", "plural": "datastores", "singular": "datastore", "listKind": "DataStoreList" },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "additionalPrinterColumns": [
                    { "name": "Driver", "type": "string", "jsonPath": ".spec.driver" },
                    { "name": "Ready", "type": "boolean", "jsonPath": ".status.ready" },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
                "schema": { "openAPIV3Schema": { "type": "object", "required": ["spec"], "properties": {
                    "apiVersion": { "type": "string" }, "kind": { "type": "string" }, "metadata": { "type": "object" },
                    "spec": spec(), "status": status(),
                } } },
                "subresources": { "status": {} },
            }],
        },
    });
    Ok(serde_json::from_value(definition)?)
}

/// Bytes in the object itself, or an entry of a Secret.
fn content() -> Value {
    json!({
        "type": "object",
        "properties": {
            "content": { "type": "string", "format": "byte" },
            "secretReference": {
                "type": "object", "required": ["keyPath"], "x-kubernetes-map-type": "atomic",
                "properties": {
                    "name": { "type": "string" }, "namespace": { "type": "string" },
                    "keyPath": { "type": "string", "minLength": 1 },
                },
            },
        },
    })
}

fn spec() -> Value {
    let pair = |required: &[&str]| {
        json!({
            "type": "object", "required": required,
            "properties": { "certificate": content(), "privateKey": content() },
        })
    };
    json!({
        "type": "object", "required": ["driver", "endpoints"],
        "properties": {
            "driver": {
                "type": "string", "enum": ["etcd", "MySQL", "PostgreSQL", "NATS"],
                "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "Datastore driver is immutable" }],
            },
            "endpoints": { "type": "array", "minItems": 1, "items": { "type": "string" } },
            "basicAuth": {
                "type": "object", "required": ["username", "password"],
                "properties": { "username": content(), "password": content() },
            },
            "tlsConfig": {
                "type": "object", "required": ["certificateAuthority"],
                "properties": {
                    "certificateAuthority": pair(&["certificate"]),
                    "clientCertificate": pair(&["certificate", "privateKey"]),
                },
            },
        },
        "x-kubernetes-validations": [
            rule("has(self.tlsConfig.certificateAuthority.privateKey)", "certificateAuthority privateKey", "tlsConfig.certificateAuthority.privateKey"),
            rule("has(self.tlsConfig.clientCertificate)", "clientCertificate", "tlsConfig.clientCertificate.certificate"),
            rule("has(self.tlsConfig.clientCertificate)", "clientCertificate privateKey", "tlsConfig.clientCertificate.privateKey"),
        ],
    })
}

/// With driver etcd this part has content, or names an entry of a Secret.
fn rule(has: &str, what: &str, path: &str) -> Value {
    let given = format!("(has(self.{path}.content) || has(self.{path}.secretReference))");
    json!({
        "rule": format!("self.driver != 'etcd' || (has(self.tlsConfig) && {has} && {given})"),
        "message": format!("{what} is required when driver is etcd"),
    })
}

fn status() -> Value {
    let text = || json!({ "type": "string" });
    json!({
        "type": "object", "required": ["ready"],
        "properties": {
            "observedGeneration": { "type": "integer", "format": "int64" },
            "ready": { "type": "boolean" },
            "usedBy": { "type": "array", "items": text() },
            "conditions": { "type": "array", "items": {
                "type": "object", "required": ["lastTransitionTime", "message", "reason", "status", "type"],
                "properties": {
                    "lastTransitionTime": { "type": "string", "format": "date-time" },
                    "message": text(), "observedGeneration": { "type": "integer", "format": "int64" },
                    "reason": text(), "status": { "type": "string", "enum": ["True", "False", "Unknown"] }, "type": text(),
                },
            } },
        },
    })
}
