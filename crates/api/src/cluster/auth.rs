//! Who may read and write which keys: etcd's auth.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{self, rule};

/// etcd's auth. Every client is the user that the common name of its certificate names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthSpec {
    /// Whether etcd asks each client who it is, and what it may do. Then only users have access: root, whose certificate the operator keeps
    /// for itself (Secret NAME-operator-tls), and those that EtcdUsers or people make. The certificate in NAME-client-tls and NAME-connection
    /// is that of no user after clientGrace, so applications need an EtcdUser each. Needs TLS. False alone does not switch it off once it is on, as that
    /// opens the data to everybody with a certificate: that takes the annotation operator.etcd.io/disable-auth with the cluster ID, too.
    pub enabled: bool,

    /// The prefixes of keys within which EtcdUsers may be given permissions. Absent: any. An empty list: none. One that ends with a
    /// punctuation character, such as /tenant1/ or app:, admits all keys that begin so. Any other is meant as a directory: /tenant1 admits
    /// that key and what begins with /tenant1/, and not /tenant10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::key_prefixes")]
    pub allowed_prefixes: Option<Vec<String>>,

    /// How long, once auth is enabled, the certificate in NAME-client-tls and NAME-connection goes on as before, so that applications that
    /// connect with it can get an EtcdUser each: 168h, 30m; 0s: not at all. For this time it is that of the user quorate-client, which may read
    /// and write all keys, unless somebody made a user of this name. The annotation operator.etcd.io/clients-are-users with the cluster ID ends
    /// it sooner. A new EtcdCluster that begins with auth and without data has none. Absent: 168h.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 32), extend("x-kubernetes-validations" = [
        rule("self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",
            "auth.clientGrace must be a duration such as 168h, 1h30m or 0s"),
    ]))]
    pub client_grace: Option<String>,

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
