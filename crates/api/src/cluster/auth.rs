//! Who may read and write which keys: etcd's auth.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// etcd's auth. Every client is the user that the common name of its certificate names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthSpec {
    /// Whether etcd asks each client who it is, and what it may do. Then only users have access: root, whose certificate the operator keeps
    /// for itself (Secret NAME-operator-tls), and those that EtcdUsers or people make. The certificate in NAME-client-tls and NAME-connection
    /// is that of no user, so applications need an EtcdUser before. Needs TLS. False alone does not switch it off once it is on, as that
    /// opens the data to everybody with a certificate: that takes the annotation operator.etcd.io/disable-auth with the cluster ID, too.
    pub enabled: bool,

    /// The prefixes of keys within which EtcdUsers may be given permissions. Absent: any. An empty list: none. One that ends with a
    /// punctuation character, such as /tenant1/ or app:, admits all keys that begin so. Any other is meant as a directory: /tenant1 admits
    /// that key and what begins with /tenant1/, and not /tenant10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::key_prefixes")]
    pub allowed_prefixes: Option<Vec<String>>,

    /// What becomes of users in etcd that EtcdUsers made which do not exist any more: a restored snapshot has them, or volumes that are
    /// adopted. Revoke (the default): they are deleted, with their roles, as far as their EtcdUsers did not have deletionPolicy Retain. Keep:
    /// the condition AuthReady names them. Users that people made are never touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AfterRestore")]
    pub after_restore: Option<AfterRestore>,
}

/// What becomes of users in etcd whose EtcdUsers do not exist any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AfterRestore {
    /// They are deleted, with their roles.
    #[default]
    Revoke,
    /// They are named.
    Keep,
}
