//! How members are spread over nodes and zones, where `podTemplate` does not say it itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How members are spread over nodes and zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementSpec {
    /// Whether two members may share a node. Preferred (the default): they do only where no other node fits; the message of
    /// condition Available names them. Required: never; a member for which no node of its own fits is not placed. The operator
    /// writes it as Pod anti-affinity, unless podTemplate.spec.affinity has a podAntiAffinity of its own.
    pub one_member_per_node: OneMemberPerNode,
    /// Whether members are spread over zones. Preferred (the default): as evenly as nodes allow. Ignored: zones do not count.
    /// The operator writes it as a topology spread constraint, unless podTemplate.spec.topologySpreadConstraints is given.
    pub zones: Zones,
}

/// Whether two members may share a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OneMemberPerNode {
    /// Only where no other node fits.
    #[default]
    Preferred,
    /// Never.
    Required,
}

/// Whether members are spread over zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Zones {
    /// As evenly as nodes allow.
    #[default]
    Preferred,
    /// Zones do not count.
    Ignored,
}
