//! When changes that do not come from the spec reach the members.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When changes that do not come from this spec reach the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdatesSpec {
    /// When new defaults of the operator reach the members, such as the image of the agent after an upgrade of the operator. They restart
    /// the members, one after another. Rolling (the default): in turn with other clusters, as many at a time as the operator's
    /// --max-clusters-rolling says. OnNextChange: together with the next change of this spec that restarts the members.
    pub operator_defaults: OperatorDefaults,
}

/// When new defaults of the operator reach the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OperatorDefaults {
    /// In turn with other clusters.
    #[default]
    Rolling,
    /// Together with the next change of the spec.
    OnNextChange,
}
