//! The comparable part of an answer: uids, versions and times legitimately differ, and are replaced by what they mean.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::objects::PREFIXES;

/// An answer, with what legitimately differs replaced.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    /// The body.
    pub body: Value,
}

/// The objects observed on a side: each uid and version has a meaning that is the same on the other side.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    uids: BTreeMap<String, Vec<String>>,
    /// By uid; versions that differ only in field ownership are in one group.
    versions: BTreeMap<String, Vec<Vec<String>>>,
    objects: BTreeMap<String, Value>,
}

impl Memory {
    /// Remembers an object, or the objects of a list.
    pub(super) fn note(&mut self, plural: &str, body: &Value) {
        if let Some(items) = body["items"].as_array() {
            return items.iter().for_each(|item| self.note(plural, item));
        }
        let metadata = &body["metadata"];
        let (Some(name), Some(uid)) = (metadata["name"].as_str(), metadata["uid"].as_str()) else { return };
        let place = format!("{plural}/{name}");
        push_new(self.uids.entry(place.clone()).or_default(), uid);
        let only_owners = self.changes_only_owners(body);
        if let Some(version) = metadata["resourceVersion"].as_str().filter(|_| body["kind"] != "Scale") {
            let known = self.versions.entry(uid.to_owned()).or_default();
            if known_version(known, version).is_none() {
                match known.last_mut().filter(|_| only_owners) {
                    Some(same) => same.push(version.to_owned()),
                    None => known.push(vec![version.to_owned()]),
                }
            }
        }
        if body["kind"] != "Scale" {
            self.objects.insert(uid.to_owned(), body.clone());
        }
    }

    /// The object as last observed.
    pub(super) fn object(&self, place: &str) -> Value {
        self.objects.get(self.uid(place)).cloned().unwrap_or(Value::Null)
    }

    /// The newest uid of an object; an unused uid if there is none.
    pub(super) fn uid(&self, place: &str) -> &str {
        let known = self.uids.get(place).and_then(|uids| uids.last());
        known.map_or("00000000-0000-0000-0000-000000000000", String::as_str)
    }

    /// Whether an object differs from the last observation only in field ownership. A real Kubernetes counts that as a change;
    /// localkube does not store ownership.
    fn changes_only_owners(&self, object: &Value) -> bool {
        let collected = is_going_unplaced(object) && object["status"]["observedGeneration"].is_number();
        let content = |object: &Value| {
            let mut object = object.clone();
            for key in ["kind", "apiVersion"] {
                object.as_object_mut().and_then(|fields| fields.remove(key));
            }
            for key in ["managedFields", "resourceVersion"] {
                object["metadata"].as_object_mut().and_then(|fields| fields.remove(key));
            }
            if collected {
                forget_collected(&mut object);
            }
            object
        };
        let before = object["metadata"]["uid"].as_str().and_then(|uid| self.objects.get(uid));
        before.is_some_and(|before| {
            let owners = |object: &Value| object["metadata"]["managedFields"].clone();
            // For a claim it also counts the first write that changes nothing.
            let is_claim = object["spec"]["accessModes"].is_array();
            (is_claim || owners(before) != owners(object)) && content(before) == content(object)
        })
    }

    /// The newest or the oldest observed version of an object.
    pub(super) fn version(&self, place: &str, newest: bool) -> &str {
        let known = self.versions.get(self.uid(place));
        let version = known.and_then(|versions| if newest { versions.last() } else { versions.first() });
        version.and_then(|same| same.last()).map_or("1", String::as_str)
    }

    /// The comparable part of a document.
    pub(super) fn mask(&self, body: &Value) -> Value {
        let mut body = body.clone();
        self.mark_owners_only(&mut body);
        self.mask_value("", &mut body);
        // Decoders word an unreadable request differently.
        if body["code"] == 400 || body["code"] == 415 {
            body["message"] = json!("<unreadable>");
        }
        if let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
            // A real Kubernetes runs some checks twice, and in another order.
            causes.sort_by_key(Value::to_string);
            causes.dedup();
            if causes.len() > 1 {
                body["message"] = json!("<all of the causes>");
            } else if causes.iter().any(|cause| cause["field"] == "patch") {
                causes.truncate(1);
                causes[0]["message"] = json!("<unreadable>");
                body["message"] = json!("<unreadable>");
            }
        }
        if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
            items.retain(|item| !is_native(item));
            // Names generated by the server sort differently on both sides.
            items.sort_by_key(|item| item["metadata"]["name"].to_string());
            items.iter_mut().for_each(forget_collected);
        }
        forget_collected(&mut body);
        body
    }

    /// An object that differs only in field ownership keeps its previous version.
    fn mark_owners_only(&self, body: &mut Value) {
        if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
            return items.iter_mut().for_each(|item| self.mark_owners_only(item));
        }
        if body["kind"] == "Scale" {
            body["metadata"].as_object_mut().and_then(|metadata| metadata.remove("resourceVersion"));
        } else if self.changes_only_owners(body) {
            let uid = body["metadata"]["uid"].as_str().unwrap_or_default();
            let last =
                self.versions.get(uid).and_then(|versions| versions.last()).and_then(|same| same.last());
            if let Some(last) = last {
                body["metadata"]["resourceVersion"] = json!(last);
            }
        }
    }

    fn mask_value(&self, key: &str, value: &mut Value) {
        match value {
            Value::Object(fields) => self.mask_fields(key, fields),
            Value::Array(entries) => entries.iter_mut().for_each(|entry| self.mask_value(key, entry)),
            Value::String(text) => *text = self.mask_text(key, text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn mask_fields(&self, key: &str, fields: &mut Map<String, Value>) {
        if key == "metadata" {
            fields.remove("managedFields");
            let version = fields.get("resourceVersion").and_then(Value::as_str).map(str::to_owned);
            let uid = fields.get("uid").and_then(Value::as_str).unwrap_or_default();
            if let Some(version) = version {
                let shown = match self.versions.get(uid) {
                    Some(known) => ordinal(known, &version),
                    None => "<new version>".to_owned(),
                };
                fields.insert("resourceVersion".to_owned(), json!(shown));
            }
        }
        // A null equals an absent field: Go writes some, such as the times of conditions.
        fields.retain(|_, value| !value.is_null());
        for (key, value) in fields.iter_mut() {
            let is_time =
                ["creationTimestamp", "deletionTimestamp", "lastTransitionTime"].contains(&key.as_str());
            if is_time && value.is_string() {
                *value = json!("<time>");
            } else if key == "disruptedPods" {
                value.as_object_mut().into_iter().flatten().for_each(|(_, since)| *since = json!("<time>"));
            } else {
                self.mask_value(key, value);
            }
        }
    }

    fn mask_text(&self, key: &str, text: &str) -> String {
        match key {
            "uid" | "controller-uid" | "batch.kubernetes.io/controller-uid" => self.meaning_of_uid(text),
            "clusterIP" | "clusterIPs" if !["", "None"].contains(&text) => "<address>".to_owned(),
            "message" => self.mask_message(text),
            _ => made_up(text),
        }
    }

    fn meaning_of_uid(&self, uid: &str) -> String {
        let of = |(place, uids): (&String, &Vec<String>)| {
            let at = uids.iter().position(|own| own == uid)?;
            Some(format!("<uid {} of {}>", at + 1, made_up(place)))
        };
        // A uid that was never observed was made up by the caller, or is new.
        self.uids.iter().find_map(of).unwrap_or_else(|| "<new uid>".to_owned())
    }

    /// Masks uids and versions inside a sentence.
    fn mask_message(&self, text: &str) -> String {
        // The lines after the first are a Go diff of the spec.
        let text = text.split_once('\n').map_or(text, |(first, _)| first);
        let text = &without_dump(text);
        let mut masked = String::new();
        for word in
            text.split_inclusive(|character: char| !character.is_ascii_alphanumeric() && character != '-')
        {
            let bare = word.trim_end_matches(|character: char| !character.is_ascii_alphanumeric());
            let is_uid = bare.len() == 36 && bare.matches('-').count() == 4;
            let versions = self.versions.values().find(|known| known_version(known, bare).is_some());
            match versions {
                _ if is_uid => masked.push_str(&self.meaning_of_uid(bare)),
                Some(known) => masked.push_str(&ordinal(known, bare)),
                None => masked.push_str(&made_up(bare)),
            }
            masked.push_str(&word[bare.len()..]);
        }
        masked
    }
}

/// A real Kubernetes shows an object that may not change as Go prints its own type of it.
fn without_dump(text: &str) -> String {
    const END: &str = "field is immutable";
    match (text.split_once("Invalid value: {"), text.ends_with(END)) {
        (Some((before, _)), true) => format!("{before}Invalid value: {END}"),
        (Some(_) | None, _) => text.to_owned(),
    }
}

/// Every twenty seconds the Pod garbage collector of a real Kubernetes fails Pods that are being deleted and were never
/// scheduled.
fn forget_collected(object: &mut Value) {
    if is_going_unplaced(object) {
        object.as_object_mut().and_then(|fields| fields.remove("status"));
    }
}

fn is_going_unplaced(object: &Value) -> bool {
    let goes = object["metadata"]["deletionTimestamp"].is_string();
    goes && object["spec"]["containers"].is_array() && object["spec"]["nodeName"].is_null()
}

/// Objects that a real Kubernetes creates in every namespace.
fn is_native(object: &Value) -> bool {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    ["kube-root-ca.crt", "default"].contains(&name)
}

/// A name with its generated suffix replaced.
fn made_up(name: &str) -> String {
    for prefix in PREFIXES {
        if let Some((before, _)) = name.split_once(prefix).filter(|(_, random)| random.len() == 5) {
            return format!("{before}{prefix}<random>");
        }
    }
    name.to_owned()
}

fn ordinal(known: &[Vec<String>], own: &str) -> String {
    known_version(known, own).map_or("<new version>".to_owned(), |at| format!("<version {}>", at + 1))
}

fn known_version(known: &[Vec<String>], own: &str) -> Option<usize> {
    known.iter().position(|same| same.iter().any(|one| one == own))
}

fn push_new(known: &mut Vec<String>, one: &str) {
    if !known.iter().any(|own| own == one) {
        known.push(one.to_owned());
    }
}
