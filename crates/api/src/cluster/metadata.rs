//! Labels and annotations that the user gives to the objects that the operator creates.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Labels and annotations for objects that the operator creates, besides its own. Those that exist get them by a patch, and lose a key
/// that is taken out here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtraMetadata {
    /// Labels, besides those of the operator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations, besides those of the operator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::annotations_of_objects")]
    pub annotations: BTreeMap<String, String>,
}
