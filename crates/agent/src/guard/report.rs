//! The verdict as JSON, for the termination message.

use quorate_model::GuardVerdict;
use quorate_model::guard::VolumeIdentity;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::data::Data;

/// What the guard reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// In one word.
    #[serde(serialize_with = "verdict_name", deserialize_with = "verdict_named")]
    pub verdict: GuardVerdict,
    /// In a sentence.
    pub message: String,
    /// What it is based on.
    #[serde(default)]
    pub facts: Facts,
}

/// What was found on the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Facts {
    /// The member that the identity file names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Whether there are data.
    pub data: bool,
    /// The cluster the data belong to, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// The member the data belong to, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_id: Option<String>,
    /// The cluster version of the data, such as `3.7`, where etcd is older.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_version: Option<String>,
    /// The size of the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub db_bytes: Option<u64>,
    /// The free space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}

impl Report {
    /// On one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain strings and numbers")
    }
}

impl Facts {
    pub(super) fn note(&mut self, identity: Option<&VolumeIdentity>, data: &Data) {
        self.identity = identity.map(ToString::to_string);
        self.data = !data.is_absent();
        self.cluster_id = data.origin().map(|origin| origin.cluster_id.to_string());
        self.member_id = data.origin().map(|origin| origin.member_id.to_string());
        self.db_bytes = data.db_bytes();
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape serde asks for")]
fn verdict_name<S: Serializer>(verdict: &GuardVerdict, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(verdict.as_str())
}

fn verdict_named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<GuardVerdict, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}
