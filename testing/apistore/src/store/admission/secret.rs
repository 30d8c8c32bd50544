//! Secrets, and the checks that they share with ConfigMaps: the format of keys, and immutability.

use base64::Engine as _;
use serde_json::{Value, json};

use super::{names, set_default};
use crate::cause::Cause;
use crate::fields::{entries, flag};

pub(super) fn on_create(secret: &mut Value, causes: &mut Vec<Cause>) {
    fold_string_data(secret);
    set_default(secret, "/type", json!("Opaque"));
    check(secret, causes);
}

pub(super) fn on_update(old: &Value, secret: &mut Value, causes: &mut Vec<Cause>) {
    fold_string_data(secret);
    set_default(secret, "/type", old["type"].clone());
    if secret["type"] != old["type"] {
        causes.push(Cause::invalid("type", &secret["type"], "field is immutable"));
    }
    check_immutable(old, secret, causes);
    check(secret, causes);
}

pub(super) fn check_immutable(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    if !flag(old, "/immutable") {
        return;
    }
    let why = "field is immutable when `immutable` is set";
    if !flag(new, "/immutable") {
        causes.push(Cause::forbidden("immutable", why));
    }
    for field in ["data", "binaryData"] {
        if old.get(field) != new.get(field) {
            causes.push(Cause::forbidden(field, why));
        }
    }
}

/// Checks the format of keys, and that text and binary data share none. Drops empty maps.
pub(super) fn check_keys(object: &mut Value, causes: &mut Vec<Cause>) {
    for field in ["data", "binaryData"] {
        if entries(object, &format!("/{field}")).next().is_none() {
            object.as_object_mut().and_then(|fields| fields.remove(field));
        }
        for (key, _) in entries(object, &format!("/{field}")) {
            let path = format!("{field}[{key}]");
            causes.extend(names::config_key(key).map(|why| Cause::invalid(&path, &json!(key), why)));
            if field == "data" && object["binaryData"].get(key).is_some() {
                causes.push(Cause::invalid(&path, &json!(key), "duplicate of key present in binaryData"));
            }
        }
    }
}

fn check(secret: &mut Value, causes: &mut Vec<Cause>) {
    check_keys(secret, causes);
    let wanted: &[&str] = match secret["type"].as_str() {
        Some("kubernetes.io/tls") => &["tls.crt", "tls.key"],
        Some("kubernetes.io/dockerconfigjson") => &[".dockerconfigjson"],
        Some(_) | None => &[],
    };
    for key in wanted.iter().filter(|key| secret["data"].get(**key).is_none()) {
        causes.push(Cause::required(format!("data[{key}]")));
    }
}

/// `stringData` is write-only.
fn fold_string_data(secret: &mut Value) {
    let Some(texts) = secret.as_object_mut().and_then(|fields| fields.remove("stringData")) else { return };
    for (key, value) in texts.as_object().into_iter().flatten() {
        let encoded = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
        secret["data"][key] = json!(encoded);
    }
}
