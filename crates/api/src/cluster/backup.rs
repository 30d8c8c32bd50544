//! What backups of a cluster may do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::destination::{Destination, SecretName};
use crate::rules::backup;

/// What backups of a cluster may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupPolicy {
    /// The places that backups of this cluster may be written to. Absent: all. Empty: none. A backup has all data of the cluster, so
    /// who may create an EtcdBackup and choose its place reads them all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub allowed_stores: Option<Vec<AllowedStore>>,
}

/// A place that backups may be written to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedStore {
    /// The bucket, with a prefix where only that is allowed: s3://bucket/prefix, gs://bucket, azure://account/container, pvc://claim.
    /// A prefix ends where a part of a key ends: s3://bucket/etcd does not allow s3://bucket/etcd-other.
    #[schemars(length(max = 1024), extend("x-kubernetes-validations" = backup::store()))]
    pub url: String,
    /// The URL of the server, as the destination has it. Absent: only that of the cloud itself. A bucket of the same name at another
    /// server is another place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = backup::endpoint()))]
    pub endpoint: Option<String>,
    /// The Secret with the authorities of the server, as the destination has it: who chooses those chooses who is taken for the server.
    /// Absent: the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret: Option<SecretName>,
}

impl BackupPolicy {
    /// Whether a backup may be written to this destination.
    pub fn allows(&self, destination: &Destination) -> bool {
        self.allowed_stores.as_ref().is_none_or(|stores| stores.iter().any(|store| store.has(destination)))
    }
}

impl AllowedStore {
    fn has(&self, destination: &Destination) -> bool {
        let wanted = destination.url("");
        let rest = wanted.strip_prefix(self.url.trim_end_matches('/'));
        let same = |endpoint: &str| endpoint.trim_end_matches('/').to_owned();
        let same_server = self.endpoint.as_deref().map(same) == destination.endpoint().map(same);
        let same_ca = self.ca_secret.as_ref().map(|secret| secret.name.as_str()) == destination.ca_secret();
        destination.is_well_formed()
            && same_server
            && same_ca
            && rest.is_some_and(|rest| rest.starts_with('/'))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_is_allowed_only_at_its_server_and_below_its_prefix() {
        let allowed = |stores: serde_json::Value, destination: serde_json::Value| {
            let policy: BackupPolicy = serde_json::from_value(stores).unwrap();
            policy.allows(&serde_json::from_value(destination).unwrap())
        };
        let s3 = |prefix: &str| json!({"s3": {"bucket": "bkt", "prefix": prefix}});
        let etcd = json!({"allowedStores": [{"url": "s3://bkt/etcd"}]});
        assert!(allowed(json!({}), s3("any")));
        assert!(!allowed(json!({"allowedStores": []}), s3("any")));
        assert!(allowed(etcd.clone(), s3("etcd")));
        assert!(allowed(etcd.clone(), s3("etcd/a")));
        assert!(!allowed(etcd.clone(), s3("etcd-other")));
        assert!(!allowed(etcd.clone(), s3("other")));
        assert!(!allowed(etcd.clone(), json!({"s3": {"bucket": "bkt"}})));
        assert!(!allowed(etcd.clone(), json!({"gcs": {"bucket": "bkt", "prefix": "etcd"}})));
        assert!(!allowed(
            etcd,
            json!({"s3": {"bucket": "bkt", "prefix": "etcd", "endpoint": "https://evil.example"}})
        ));
        let own = json!({"allowedStores": [{"url": "s3://bkt/", "endpoint": "https://s3.example"}]});
        assert!(allowed(own.clone(), json!({"s3": {"bucket": "bkt", "endpoint": "https://s3.example/"}})));
        assert!(!allowed(own.clone(), s3("etcd")));
        assert!(!allowed(own, json!({"s3": {"bucket": "bktb", "endpoint": "https://s3.example"}})));
        // A server that another authority vouches for is another server.
        let at = |ca: &str| json!({"s3": {"bucket": "bkt", "endpoint": "https://s3.example", "caSecret": {"name": ca}}});
        let with = json!({"allowedStores": [
            {"url": "s3://bkt", "endpoint": "https://s3.example", "caSecret": {"name": "s3-ca"}}
        ]});
        assert!(allowed(with.clone(), at("s3-ca")));
        assert!(!allowed(with.clone(), at("mine")));
        assert!(!allowed(with, json!({"s3": {"bucket": "bkt", "endpoint": "https://s3.example"}})));
        let public = json!({"allowedStores": [{"url": "s3://bkt", "endpoint": "https://s3.example"}]});
        assert!(!allowed(public, at("mine")));
        // Names that stand for another place than they seem to, in objects that are older than the rules of the definition.
        let whole = json!({"allowedStores": [{"url": "s3://bkt"}, {"url": "azure://acc/con"}, {"url": "pvc://claim"}]});
        assert!(allowed(whole.clone(), json!({"s3": {"bucket": "bkt", "region": "eu-central-1"}})));
        assert!(allowed(whole.clone(), json!({"azure": {"account": "acc", "container": "con"}})));
        for escape in [
            json!({"s3": {"bucket": "bkt", "region": "x.evil.example/"}}),
            json!({"s3": {"bucket": "bkt/../other"}}),
            json!({"s3": {"bucket": "bkt", "prefix": "../other"}}),
            json!({"azure": {"account": "acc", "container": "con/../other"}}),
            json!({"azure": {"account": "acc/con", "container": "x"}}),
            json!({"pvc": {"claimName": "claim/x"}}),
        ] {
            assert!(!allowed(whole.clone(), escape.clone()), "{escape}");
        }
    }
}
