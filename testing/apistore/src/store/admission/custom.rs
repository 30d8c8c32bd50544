//! Custom resources: their schema, and the paths of their scale subresource.

use serde_json::{Value, json};

use super::super::Part;
use crate::cause::Cause;
use crate::resources::{ResourceInfo, ScalePaths};
use crate::schema::Schema;

pub(super) fn on_create(info: &ResourceInfo, schema: &Schema, object: &mut Value, causes: &mut Vec<Cause>) {
    if info.has("status")
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    schema.prune(object);
    schema.default(object);
    // Rules see no status. What the definition has as its default is there as soon as somebody reads the object.
    let fields = object.as_object_mut().filter(|_| info.has("status"));
    let unseen = fields.and_then(|fields| fields.remove("status"));
    causes.extend(schema.validate_form(object, None));
    if let Some(paths) = &info.scale {
        check_scale(&paths.spec_replicas, object, causes);
    }
    schema.validate_rules(object, None, causes);
    if let Some(unseen) = unseen {
        object["status"] = unseen;
    }
}

pub(super) fn on_update(
    info: &ResourceInfo,
    schema: &Schema,
    part: Part,
    old: &Value,
    new: &mut Value,
    causes: &mut Vec<Cause>,
) {
    schema.prune(new);
    schema.default(new);
    causes.extend(schema.validate_form(new, Some(old)));
    if let Some(ScalePaths { spec_replicas, status_replicas, .. }) = &info.scale {
        if part == Part::Main {
            check_scale(spec_replicas, new, causes);
        }
        check_scale(status_replicas, new, causes);
    }
    schema.validate_rules(new, Some(old), causes);
}

/// A field of the scale subresource must be a count. The message names the path as the definition writes it.
fn check_scale(pointer: &str, object: &Value, causes: &mut Vec<Cause>) {
    let path = pointer.replace('/', ".");
    let Some(value) = object.pointer(pointer) else { return };
    match value.as_i64() {
        None => {
            let (shown, kind) = match value {
                Value::String(text) => (text.clone(), "string"),
                Value::Number(number) => (number.to_string(), "float64"),
                Value::Bool(flag) => (flag.to_string(), "bool"),
                Value::Null => ("<nil>".to_owned(), "<nil>"),
                Value::Array(_) => (value.to_string(), "[]interface {}"),
                Value::Object(_) => (value.to_string(), "map[string]interface {}"),
            };
            let why = format!("{path} accessor error: {shown} is of the type {kind}, expected int64");
            causes.push(Cause::invalid(path, &json!(0), why));
        }
        Some(count) if count < 0 => {
            causes.push(Cause::invalid(path, value, "should be a non-negative integer"));
        }
        Some(count) if count > i64::from(i32::MAX) => {
            causes.push(Cause::invalid(path, value, format!("should be less than or equal to {}", i32::MAX)));
        }
        Some(_) => {}
    }
}
