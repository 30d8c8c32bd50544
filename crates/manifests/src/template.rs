//! The Pod template: everything of the spec that a Pod is built from. Status keeps it as canonical JSON, which only this
//! crate reads; the planner sees the revision alone.

use std::collections::BTreeMap;

use quorate_api::cluster::{OneMemberPerNode, PodSpec, Zones};
use quorate_model::Version;
use quorate_model::target::{PodRevision, PodTemplate};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::flags;

/// The shape of the Pod that this release makes. A change of it is rolled out, also where the agent's image has the same name.
const POD_LAYOUT: u32 = 7;

/// Everything of the spec that a Pod is built from. What is absent or empty is not written, so that a new field changes
/// no revision until it is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Template {
    /// The whole reference of the etcd image.
    pub image: String,
    /// `Always`, `IfNotPresent` or `Never`; `None` leaves it to Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// Names of Secrets with registry credentials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
    /// etcd flags beyond those of a member's identity, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// Labels of the user.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the user.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// `podTemplate.spec`, as the user wrote it.
    #[serde(skip_serializing_if = "is_default")]
    pub spec: PodSpec,
    /// Whether two members may share a node, where `spec` has no anti-affinity.
    #[serde(skip_serializing_if = "is_default")]
    pub one_member_per_node: OneMemberPerNode,
    /// Whether members are spread over zones, where `spec` has no constraints.
    #[serde(skip_serializing_if = "is_default")]
    pub zones: Zones,
    /// Whether the Pod has the operator's credential for etcd's auth, in place of that of clients.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub auth: bool,
}

impl Template {
    /// The form that status keeps.
    pub fn to_status(&self, version: Version, agent_image: &str) -> PodTemplate {
        let content = json!(self);
        let all = json!({
            "agentImage": agent_image,
            "shape": POD_LAYOUT,
            "template": content,
            "version": version.to_string(),
        });
        PodTemplate {
            revision: revision(&all),
            image_has_version: self.image.ends_with(&format!(":v{version}")),
            content: canonical(&content),
            quota: flags::quota(self.flags.iter()),
            compacts: flags::compacts(&self.flags),
        }
    }

    /// The template that status keeps. What cannot be read counts as absent: then the API server refuses the Pod.
    pub fn from_status(sealed: &PodTemplate) -> Self {
        Self::read(&sealed.content)
    }

    /// The template in what status keeps of it.
    pub(crate) fn read(content: &str) -> Self {
        serde_json::from_str(content).unwrap_or_default()
    }
}

/// A template as status keeps it. What it says of the database is read from its flags.
pub(crate) fn read(revision: String, image_has_version: bool, content: String) -> PodTemplate {
    let sealed = PodTemplate {
        revision: PodRevision(revision),
        image_has_version,
        content,
        quota: None,
        compacts: false,
    };
    let flags = Template::from_status(&sealed).flags;
    PodTemplate { quota: flags::quota(flags.iter()), compacts: flags::compacts(&flags), ..sealed }
}

/// Twelve hexadecimal digits of the SHA-256 of the canonical JSON.
fn revision(value: &Value) -> PodRevision {
    let digest = Sha256::digest(canonical(value).as_bytes());
    let number = digest.iter().take(6).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    PodRevision(format!("{number:012x}"))
}

/// JSON with sorted keys, without white space and without nulls.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> =
                fields.iter().filter(|(_, value)| !value.is_null()).collect();
            let fields: Vec<String> = sorted
                .into_iter()
                .map(|(key, value)| format!("{}:{}", json!(key), canonical(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Template {
        Template {
            image: "registry.example/etcd:v3.6.16".to_owned(),
            flags: vec!["--quota-backend-bytes=644245092".to_owned()],
            labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
            ..Template::default()
        }
    }

    /// A revision that changes here rolls every Pod of every cluster when the operator is upgraded.
    #[test]
    fn the_revision_of_a_sample_stays_the_same_from_release_to_release() {
        let sealed = sample().to_status(Version::new(3, 6, 16), "quorate:1");
        let content = r#"{"flags":["--quota-backend-bytes=644245092"],"image":"registry.example/etcd:v3.6.16","labels":{"team":"a"}}"#;
        assert_eq!(sealed.content, content);
        assert_eq!(sealed.revision, PodRevision("abbd7931d6bc".to_owned()));
        assert!(sealed.image_has_version);
    }

    #[test]
    fn absent_fields_and_the_order_of_keys_change_no_revision() {
        let one: Value = serde_json::from_str(r#"{"b":[{"y":1,"x":null}],"a":"t"}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"a":"t","new":null,"b":[{"y":1}]}"#).unwrap();
        assert_eq!(revision(&one), revision(&other));
        assert_ne!(revision(&one), revision(&json!({ "a": "t", "b": [{ "y": 2 }] })));
    }

    #[test]
    fn a_template_is_read_back_as_it_was_written_and_fields_of_a_newer_operator_are_skipped() {
        let mut sealed = sample().to_status(Version::new(3, 6, 16), "quorate:1");
        assert_eq!(Template::from_status(&sealed), sample());
        sealed.content = sealed.content.replacen('{', r#"{"unheardOf":{"a":1},"#, 1);
        assert_eq!(Template::from_status(&sealed), sample());
    }
}
