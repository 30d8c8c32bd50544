//! An EtcdUser: a user of the etcd of an EtcdCluster, with a role of its own, and a Secret with all that an application connects with. The
//! user of etcd has the name of the object, and a part of its uid.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{self, rule};
use crate::status::BindingStatus;

/// The longest name of an EtcdUser: the common name of a certificate carries it, with nine characters more, and has 64 at most (RFC 5280,
/// `ub-common-name`).
pub const MAX_USER_NAME_LENGTH: usize = 55;

/// How long a certificate of a user is valid, when the spec does not say.
pub const DEFAULT_USER_VALIDITY: &str = "90d";

/// The user of etcd that may do everything.
pub const ROOT: &str = "root";

/// What the names of users begin with that operators, agents and members are. No EtcdUser has such a name.
pub const RESERVED_PREFIX: &str = "quorate-";

/// What the names of roles begin with that belong to EtcdUsers.
pub const ROLE_PREFIX: &str = "quorate:";

/// A user of etcd.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operator.etcd.io",
    version = "v1alpha1",
    kind = "EtcdUser",
    doc = "A user of the etcd of an EtcdCluster: what it may read and write, and the Secret NAME-etcd that an application connects with.",
    plural = "etcdusers",
    shortname = "eu",
    namespaced,
    status = "EtcdUserStatus",
    derive = "Default",
    derive = "PartialEq",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{ "name": "Cluster", "type": "string", "jsonPath": ".spec.cluster",
        "description": "The EtcdCluster that it is a user of" }"#,
    printcolumn = r#"{ "name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        "description": "Whether the user is as the spec asks for" }"#,
    printcolumn = r#"{ "name": "Secret", "type": "string", "jsonPath": ".status.secretName",
        "description": "What an application connects with" }"#,
    printcolumn = r#"{ "name": "Status", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message",
        "description": "What matters most now" }"#,
    printcolumn = r#"{ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }"#
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdUserSpec {
    /// The EtcdCluster of this namespace. It cannot be changed.
    #[schemars(length(min = 1, max = 52))]
    pub cluster: String,

    /// What the user may do with which keys. What spec.auth.allowedPrefixes of the EtcdCluster does not have is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub permissions: Vec<UserPermission>,

    /// Roles of etcd that somebody made by hand, and that the user gets beside its own. What they allow is bounded in the same way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 253)), extend("x-kubernetes-validations" = [
        rule("self.all(role, role != 'root')", "roles must not have root, which may do everything: give allKeys instead"),
        rule("self.all(role, !role.startsWith('quorate:'))",
            "roles must not have one that begins with quorate: such a role is that of one EtcdUser"),
    ]))]
    pub roles: Vec<String>,

    /// How the user proves who it is.
    #[serde(default)]
    pub authentication: UserAuthentication,

    /// What becomes of the user and of its role in etcd when the EtcdUser is deleted: Revoke (the default), they are deleted, or Retain. Its
    /// Secret goes in both cases; who has copied it goes on with Retain.
    #[serde(default)]
    pub deletion_policy: UserDeletionPolicy,
}

/// What a user may do with a key, with all keys of a prefix, or with all keys. Exactly one of prefix, key and allKeys is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = permission_rules()))]
pub struct UserPermission {
    /// All keys that begin with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = text_rules("prefix")))]
    pub prefix: Option<String>,

    /// This key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = text_rules("key")))]
    pub key: Option<String>,

    /// All keys there are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_keys: bool,

    /// Read, Write or ReadWrite. To watch is to read, and to delete is to write.
    pub access: UserAccess,
}

/// What is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UserAccess {
    /// To read and to watch.
    #[default]
    Read,
    /// To write and to delete.
    Write,
    /// Both.
    ReadWrite,
}

/// How a user proves who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UserAuthentication {
    /// By a certificate, which the operator makes and renews.
    pub certificate: UserCertificate,

    /// Refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "no_password")]
    pub password: Option<serde_json::Value>,
}

/// The certificate of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UserCertificate {
    /// How long it is valid, such as 90d (the default) or 720h. It is renewed at two thirds of its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 32), extend("x-kubernetes-validations" = [
        rule("self.matches('^([1-9][0-9]{0,3}d([1-9][0-9]{0,4}h)?|[1-9][0-9]{0,4}h)(0m)?(0s)?$')",
            "validityDuration must be days and hours, such as 90d, 720h or 30d12h"),
    ]))]
    pub validity_duration: Option<String>,
}

/// What becomes of a user when its EtcdUser is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UserDeletionPolicy {
    /// The user and its role are deleted.
    #[default]
    Revoke,
    /// They stay as they are.
    Retain,
}

/// How far a user is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdUserStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The name of the user in etcd, once it is as the spec asks for: that of this object, and the first eight digits of its uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,

    /// The Secret that an application connects with, once it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,

    /// The same, for controllers of service bindings (servicebinding.io).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<BindingStatus>,

    /// A hash of the permissions that the role of the user has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions_hash: Option<String>,

    /// Ready and Stalled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl UserAccess {
    /// Whether it allows to read.
    pub fn reads(self) -> bool {
        match self {
            Self::Read | Self::ReadWrite => true,
            Self::Write => false,
        }
    }

    /// Whether it allows to write.
    pub fn writes(self) -> bool {
        match self {
            Self::Write | Self::ReadWrite => true,
            Self::Read => false,
        }
    }
}

fn permission_rules() -> Vec<kube_core::Rule> {
    vec![rule(
        "(has(self.prefix) ? 1 : 0) + (has(self.key) ? 1 : 0) + (has(self.allKeys) && self.allKeys ? 1 : 0) == 1",
        "a permission must have exactly one of prefix, key and allKeys: true, which is the only way to give all keys",
    )]
}

/// etcd takes any byte. A zero byte alone means all keys in a range, and none of these is typed on purpose.
fn text_rules(field: &str) -> Vec<kube_core::Rule> {
    let message =
        format!("{field} must not be empty or have control characters. All keys are given by allKeys: true");
    vec![rule(r"self.matches('^[^\\x00-\\x1f\\x7f]+$')", &message)]
}

fn no_password(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    rules::refused(
        "not supported yet: authentication.password. etcd keeps the tokens of passwords in the memory of each member, so every restart of a \
         member would log its users out. Remove it: a certificate is made",
    )
}

/// On an EtcdUser as a whole.
pub(crate) fn object_rules() -> Vec<kube_core::Rule> {
    vec![
        rule(
            "self.metadata.name != 'root' && !self.metadata.name.startsWith('quorate-')",
            "metadata.name must not be root or begin with quorate-: these are users of the operator and of its agents",
        ),
        rule(
            "size(self.metadata.name) <= 55",
            "metadata.name must be at most 55 characters: the common name of the certificate has it, and a part of the uid",
        ),
        rule(
            "self.spec.cluster == oldSelf.spec.cluster",
            "cluster cannot be changed: create another EtcdUser, or delete this one first",
        )
        .field_path(".spec.cluster"),
    ]
}
