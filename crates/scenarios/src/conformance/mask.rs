//! What of an answer is comparable: uids, versions and times differ by right, and are replaced by what they mean.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// An answer, with what differs by right replaced.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    /// What came.
    pub body: Value,
}

/// What a side was seen to have: each uid and version has a meaning that is the same on the other side.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    uids: BTreeMap<String, Vec<String>>,
    versions: BTreeMap<String, Vec<String>>,
    objects: BTreeMap<String, Value>,
}

impl Memory {
    /// Remembers an object, or those of a list.
    pub(super) fn note(&mut self, plural: &str, body: &Value) {
        if let Some(items) = body["items"].as_array() {
            return items.iter().for_each(|item| self.note(plural, item));
        }
        let metadata = &body["metadata"];
        let (Some(name), Some(uid)) = (metadata["name"].as_str(), metadata["uid"].as_str()) else { return };
        let place = format!("{plural}/{name}");
        push_new(self.uids.entry(place.clone()).or_default(), uid);
        if let Some(version) = metadata["resourceVersion"].as_str() {
            push_new(self.versions.entry(uid.to_owned()).or_default(), version);
        }
        if body["kind"] != "Scale" {
            self.objects.insert(place, body.clone());
        }
    }

    /// An object as it was last seen.
    pub(super) fn object(&self, place: &str) -> Value {
        self.objects.get(place).cloned().unwrap_or(Value::Null)
    }

    /// The newest uid of an object; one of nobody if there is none.
    pub(super) fn uid(&self, place: &str) -> &str {
        let known = self.uids.get(place).and_then(|uids| uids.last());
        known.map_or("00000000-0000-0000-0000-000000000000", String::as_str)
    }

    /// The version of an object: the newest one seen, or the oldest.
    pub(super) fn version(&self, place: &str, newest: bool) -> &str {
        let known = self.versions.get(self.uid(place));
        let version = known.and_then(|versions| if newest { versions.last() } else { versions.first() });
        version.map_or("1", String::as_str)
    }

    /// The comparable part of a document.
    pub(super) fn mask(&self, body: &Value) -> Value {
        let mut body = body.clone();
        self.mask_value("", &mut body);
        if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
            items.retain(|item| !is_native(item));
            // Names that the server made up are not in the same order on both sides.
            items.sort_by_key(|item| item["metadata"]["name"].to_string());
        }
        body
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
                    Some(known) => ordinal("version", known, &version),
                    None => "<new version>".to_owned(),
                };
                fields.insert("resourceVersion".to_owned(), json!(shown));
            }
            let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
            let (prefix, name) = (text("generateName").to_owned(), text("name"));
            if !prefix.is_empty() && name.len() == prefix.len() + 5 && name.starts_with(&prefix) {
                fields.insert("name".to_owned(), json!(format!("{prefix}<random>")));
            }
        }
        for (key, value) in fields.iter_mut() {
            let is_time = ["creationTimestamp", "deletionTimestamp", "lastTransitionTime"].contains(&key.as_str());
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
            "uid" => self.meaning_of_uid(text),
            "clusterIP" | "clusterIPs" if !["", "None"].contains(&text) => "<address>".to_owned(),
            "message" => self.mask_message(text),
            _ => text.to_owned(),
        }
    }

    fn meaning_of_uid(&self, uid: &str) -> String {
        let of = |(place, uids): (&String, &Vec<String>)| {
            let at = uids.iter().position(|own| own == uid)?;
            Some(format!("<uid {} of {place}>", at + 1))
        };
        // A uid that was never given out is what the caller made up, or a new one.
        self.uids.iter().find_map(of).unwrap_or_else(|| "<new uid>".to_owned())
    }

    /// In sentences uids and versions stand among other words.
    fn mask_message(&self, text: &str) -> String {
        let mut masked = String::new();
        for word in text.split_inclusive(|character: char| !character.is_ascii_alphanumeric() && character != '-') {
            let bare = word.trim_end_matches(|character: char| !character.is_ascii_alphanumeric());
            let is_uid = bare.len() == 36 && bare.matches('-').count() == 4;
            let versions = self.versions.values().find(|known| known.iter().any(|own| own == bare));
            match versions {
                _ if is_uid => masked.push_str(&self.meaning_of_uid(bare)),
                Some(known) => masked.push_str(&ordinal("version", known, bare)),
                None => masked.push_str(bare),
            }
            masked.push_str(&word[bare.len()..]);
        }
        masked
    }
}

/// What every namespace of a real Kubernetes is born with.
fn is_native(object: &Value) -> bool {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    ["kube-root-ca.crt", "default"].contains(&name)
}

fn ordinal(what: &str, known: &[String], own: &str) -> String {
    match known.iter().position(|one| one == own) {
        Some(at) => format!("<{what} {}>", at + 1),
        None => format!("<new {what}>"),
    }
}

fn push_new(known: &mut Vec<String>, one: &str) {
    if !known.iter().any(|own| own == one) {
        known.push(one.to_owned());
    }
}
