//! Checks of metadata: names, labels, annotations, owners, finalizers.

use serde_json::{Value, json};

use super::names;
use crate::cause::Cause;
use crate::fields::{deleting, entries, items, name, text};
use crate::resources::ResourceInfo;

/// The limit for all annotations of an object, in bytes.
const ANNOTATIONS: usize = 256 * 1024;

/// Checks the metadata of a new object.
pub(super) fn check(info: &ResourceInfo, object: &Value, causes: &mut Vec<Cause>) {
    let name = name(object);
    let label_only = ["services", "namespaces"].contains(&info.plural.as_str());
    let wrong = if label_only { names::label(name) } else { names::subdomain(name) };
    let prefix = text(object, "/metadata/generateName");
    if !prefix.is_empty() {
        // A prefix may end in `-`, because more characters follow.
        let like_a_name = format!("{}a", prefix.trim_end_matches('-'));
        let of_prefix = if label_only { names::label(&like_a_name) } else { names::subdomain(&like_a_name) };
        let cause = |why| Cause::invalid("metadata.generateName", &json!(prefix), why);
        causes.extend(of_prefix.into_iter().map(cause));
    }
    causes.extend(wrong.into_iter().map(|why| Cause::invalid("metadata.name", &json!(name), why)));
    if info.is_definition() {
        let wanted = format!("{}.{}", text(object, "/spec/names/plural"), text(object, "/spec/group"));
        if name != wanted {
            let why = r#"must be spec.names.plural+"."+spec.group"#;
            causes.push(Cause::invalid("metadata.name", &json!(name), why));
        }
    }
    check_maps(object, causes);
    check_owners(object, causes);
    check_finalizers(info, object, causes);
}

/// Checks the changes of metadata. What was invalid before the change is accepted.
pub(super) fn check_change(info: &ResourceInfo, old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let mut now = Vec::new();
    check(info, new, &mut now);
    let mut before = Vec::new();
    check(info, old, &mut before);
    causes.extend(now.into_iter().filter(|cause| !before.contains(cause)));
    let known = items(old, "/metadata/finalizers");
    let added: Vec<String> = items(new, "/metadata/finalizers")
        .iter()
        .filter(|finalizer| !known.contains(finalizer))
        .map(Value::to_string)
        .collect();
    if deleting(old) && !added.is_empty() {
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        causes.push(Cause::forbidden("metadata.finalizers", why));
    }
}

fn check_maps(object: &Value, causes: &mut Vec<Cause>) {
    for (key, value) in entries(object, "/metadata/labels") {
        let value = value.as_str().unwrap_or_default();
        let of_key = names::qualified(key).into_iter().map(|why| (key.as_str(), why));
        let wrong = of_key.chain(names::label_value(value).into_iter().map(|why| (value, why)));
        causes.extend(wrong.map(|(what, why)| Cause::invalid("metadata.labels", &json!(what), why)));
    }
    let mut size = 0;
    for (key, value) in entries(object, "/metadata/annotations") {
        size += key.len() + value.as_str().map_or(0, str::len);
        let wrong = names::qualified(&key.to_lowercase());
        causes.extend(wrong.into_iter().map(|why| Cause::invalid("metadata.annotations", &json!(key), why)));
    }
    if size > ANNOTATIONS {
        causes.push(Cause::too_long("metadata.annotations", ANNOTATIONS as u64));
    }
}

fn check_owners(object: &Value, causes: &mut Vec<Cause>) {
    let field = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for owner in items(object, "/metadata/ownerReferences") {
        for (key, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(owner, &format!("/{key}")).is_empty() {
                causes.push(Cause::invalid(format!("{field}.{key}"), &json!(""), why));
            }
        }
        if owner["controller"] == true {
            let own = format!("{}/{}", text(owner, "/kind"), text(owner, "/name"));
            if let Some(first) = &controller {
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
                     {own}"
                );
                causes.push(Cause::invalid(field, &object["metadata"]["ownerReferences"], why));
            }
            controller.get_or_insert(own);
        }
    }
}

fn check_finalizers(info: &ResourceInfo, object: &Value, causes: &mut Vec<Cause>) {
    const STANDARD: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];
    for (index, finalizer) in items(object, "/metadata/finalizers").iter().enumerate() {
        let text = finalizer.as_str().unwrap_or_default();
        let field = format!("metadata.finalizers[{index}]");
        let wrong = names::qualified(text);
        causes.extend(wrong.into_iter().map(|why| Cause::invalid("metadata.finalizers", finalizer, why)));
        // Only the core group and that of Jobs require finalizers to be qualified.
        if ["", "batch"].contains(&info.group.as_str()) && !text.contains('/') && !STANDARD.contains(&text) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(&field, finalizer, why));
        }
    }
}
