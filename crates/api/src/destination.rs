//! Where backups are kept: exactly one of `s3`, `gcs`, `azure`, `pvc`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::backup;

/// A place for backups. Exactly one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = backup::destination()))]
pub struct Destination {
    /// A bucket of S3, or of a server that speaks its protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3>,
    /// A bucket of Google Cloud Storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcs: Option<Gcs>,
    /// A container of Azure Blob Storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure: Option<Azure>,
    /// A PersistentVolumeClaim in the namespace of the backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc: Option<Pvc>,
}

/// A bucket of S3.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct S3 {
    /// The bucket. It must exist.
    #[schemars(length(min = 1, max = 255), extend("x-kubernetes-validations" = backup::bucket()))]
    pub bucket: String,
    /// What the keys of all objects begin with, without a slash at either end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = backup::prefix()))]
    pub prefix: Option<String>,
    /// The URL of the server, if it is not that of AWS: `https://s3.example.com:9000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = backup::endpoint()))]
    pub endpoint: Option<String>,
    /// The region, `us-east-1` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = backup::region()))]
    pub region: Option<String>,
    /// Whether the bucket is part of the path (true) or of the host name (false). Absent: true with an `endpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_style: Option<bool>,
    /// A Secret with the keys `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, where there is one, `AWS_SESSION_TOKEN`. Absent: the
    /// identity of the Job's service account or node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret: Option<SecretName>,
    /// A Secret whose key `ca.crt` has the authorities of the server's certificate. Absent: those of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret: Option<SecretName>,
    /// The checksum that goes with each write, which a bucket with object lock asks for: Sha256 (if absent), or None for a server that
    /// refuses the header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<ChecksumHeader>,
}

/// The checksum that goes with each write to S3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ChecksumHeader {
    /// SHA-256, in x-amz-checksum-sha256.
    #[default]
    Sha256,
    /// None.
    None,
}

/// A bucket of Google Cloud Storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gcs {
    /// The bucket. It must exist.
    #[schemars(length(min = 1, max = 255), extend("x-kubernetes-validations" = backup::bucket()))]
    pub bucket: String,
    /// What the keys of all objects begin with, without a slash at either end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = backup::prefix()))]
    pub prefix: Option<String>,
    /// A Secret whose key `service-account.json` has the key of a service account. Absent: the identity of the Job's service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret: Option<SecretName>,
}

/// A container of Azure Blob Storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = backup::azure()))]
pub struct Azure {
    /// The storage account.
    #[schemars(length(min = 1, max = 64), extend("x-kubernetes-validations" = backup::account()))]
    pub account: String,
    /// The container. It must exist.
    #[schemars(length(min = 1, max = 255), extend("x-kubernetes-validations" = backup::container()))]
    pub container: String,
    /// What the names of all blobs begin with, without a slash at either end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = backup::prefix()))]
    pub prefix: Option<String>,
    /// The URL of the account, if it is not that of Azure's public cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = backup::endpoint()))]
    pub endpoint: Option<String>,
    /// A Secret with the key `AZURE_STORAGE_ACCOUNT_KEY` or `AZURE_STORAGE_SAS_KEY`. Absent: the identity of the Job's service account
    /// or node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret: Option<SecretName>,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pvc {
    /// The claim, in the namespace of the backup. It must exist.
    #[schemars(length(min = 1, max = 253))]
    pub claim_name: String,
    /// The directory in it, without a slash at either end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = backup::prefix()))]
    pub prefix: Option<String>,
}

/// A Secret in the namespace of the object that names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretName {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

impl Destination {
    /// What the keys of all objects begin with; empty if nothing does.
    pub fn prefix(&self) -> &str {
        let Self { s3, gcs, azure, pvc } = self;
        let prefix = [
            s3.as_ref().and_then(|s3| s3.prefix.as_deref()),
            gcs.as_ref().and_then(|gcs| gcs.prefix.as_deref()),
            azure.as_ref().and_then(|azure| azure.prefix.as_deref()),
            pvc.as_ref().and_then(|pvc| pvc.prefix.as_deref()),
        ];
        prefix.into_iter().flatten().next().unwrap_or_default()
    }

    /// Whether objects with the same keys are the same objects, whoever asks with which credentials: the kind, the server, the bucket or the
    /// claim, and the prefix.
    pub fn is_same_place(&self, other: &Self) -> bool {
        let server = |of: &Self| of.endpoint().map(|endpoint| endpoint.trim_end_matches('/').to_owned());
        let place = |of: &Self| of.url("").trim_end_matches('/').to_owned();
        place(self) == place(other) && server(self) == server(other)
    }

    /// The Secret with its credentials, if it names one.
    pub fn credentials_secret(&self) -> Option<&str> {
        let Self { s3, gcs, azure, pvc: _ } = self;
        let secret = [
            s3.as_ref().and_then(|s3| s3.credentials_secret.as_ref()),
            gcs.as_ref().and_then(|gcs| gcs.credentials_secret.as_ref()),
            azure.as_ref().and_then(|azure| azure.credentials_secret.as_ref()),
        ];
        secret.into_iter().flatten().next().map(|secret| secret.name.as_str())
    }

    /// The Secret with the authorities of the server, if it names one.
    pub fn ca_secret(&self) -> Option<&str> {
        self.s3.as_ref()?.ca_secret.as_ref().map(|secret| secret.name.as_str())
    }

    /// The URL of the server, if it is not that of the cloud itself.
    pub fn endpoint(&self) -> Option<&str> {
        let Self { s3, gcs: _, azure, pvc: _ } = self;
        let s3 = s3.as_ref().and_then(|s3| s3.endpoint.as_deref());
        s3.or_else(|| azure.as_ref()?.endpoint.as_deref())
    }

    /// Whether its names have the form that the definition asks for. An object that is older than those rules may have others, with which
    /// a name could stand for another place than it seems to: `region: evil.example/` is a host name.
    pub fn is_well_formed(&self) -> bool {
        let Self { s3, gcs, azure, pvc } = self;
        let all = |text: &str, admitted: fn(char) -> bool| !text.is_empty() && text.chars().all(admitted);
        let lower = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit();
        let bucket = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_alphanumeric())
                && (2..=254).contains(&name.len())
                && all(name, |one| one.is_ascii_alphanumeric() || "._-".contains(one))
                && !name.contains("..")
        };
        let region =
            |name: &str| all(name, |one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-');
        let prefix = self.prefix();
        let s3 = s3.as_ref().is_none_or(|s3| bucket(&s3.bucket) && s3.region.as_deref().is_none_or(region));
        let gcs = gcs.as_ref().is_none_or(|gcs| bucket(&gcs.bucket));
        let azure = azure.as_ref().is_none_or(|azure| {
            (3..=24).contains(&azure.account.len())
                && azure.account.chars().all(lower)
                && all(&azure.container, |one| {
                    one.is_ascii_lowercase() || one.is_ascii_digit() || "$-".contains(one)
                })
        });
        let pvc = pvc.as_ref().is_none_or(|pvc| !pvc.claim_name.contains('/'));
        let prefix = prefix.is_empty() || prefix.split('/').all(|part| !["", ".", ".."].contains(&part));
        s3 && gcs && azure && pvc && prefix
    }

    /// The object `key` in this place as a URL, for people: `s3://bucket/prefix/key`.
    pub fn url(&self, key: &str) -> String {
        let Self { s3, gcs, azure, pvc } = self;
        let place = s3.as_ref().map(|s3| format!("s3://{}", s3.bucket));
        let place = place.or_else(|| gcs.as_ref().map(|gcs| format!("gs://{}", gcs.bucket)));
        let place = place
            .or_else(|| azure.as_ref().map(|azure| format!("azure://{}/{}", azure.account, azure.container)));
        let place = place.or_else(|| pvc.as_ref().map(|pvc| format!("pvc://{}", pvc.claim_name)));
        let place = place.unwrap_or_default();
        match self.prefix() {
            "" => format!("{place}/{key}"),
            prefix => format!("{place}/{prefix}/{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_is_a_kind_a_server_a_bucket_and_a_prefix_whoever_asks_for_it() {
        let same = |one: serde_json::Value, other: serde_json::Value| {
            let of = |value| serde_json::from_value::<Destination>(value).unwrap();
            of(one).is_same_place(&of(other))
        };
        let s3 = |given: serde_json::Value| {
            let mut s3 = json!({"bucket": "b", "prefix": "etcd", "endpoint": "https://s3.example"});
            for (field, value) in given.as_object().unwrap() {
                s3[field] = value.clone();
            }
            json!({ "s3": s3 })
        };
        for other in [
            json!({"credentialsSecret": {"name": "of-june"}, "caSecret": {"name": "ca"}}),
            json!({"endpoint": "https://s3.example/", "region": "eu-1", "pathStyle": true, "checksum": "None"}),
        ] {
            assert!(same(s3(json!({})), s3(other.clone())), "{other}");
        }
        for other in
            [json!({"bucket": "c"}), json!({"prefix": "other"}), json!({"endpoint": "https://other.example"})]
        {
            assert!(!same(s3(json!({})), s3(other.clone())), "{other}");
        }
        assert!(!same(s3(json!({})), json!({"gcs": {"bucket": "b", "prefix": "etcd"}})));
    }
}
