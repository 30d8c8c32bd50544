//! TLS. Every field of the etcd-io operator is known: it is honoured, or refused with the reason, and never dropped.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::{self, rule};

/// TLS between members and with clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsSpec {
    /// Where certificates come from. "auto": the operator keeps an authority of clients and one of peers for this
    /// cluster (Secrets NAME-ca, NAME-peer-ca) and issues server, peer and client certificates (Secrets NAME-server-tls, NAME-peer-tls,
    /// NAME-client-tls). "disabled": all traffic is in plain text, and everybody who reaches the cluster can read and write its data. Fixed once the cluster is
    /// bootstrapped.
    #[schemars(with = "String", length(max = 32), extend("x-kubernetes-validations" = [
        rule("self in ['auto', 'disabled']",
            "tls.provider must be auto or disabled; this version of the operator does not support cert-manager"),
    ]))]
    pub provider: TlsProvider,

    /// Settings of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_cfg: Option<TlsProviderConfig>,

    /// How the operator replaces the certificate authorities of the cluster: at two thirds of their life, and on order, by the annotation
    /// operator.etcd.io/rotate-ca.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation: Option<RotationSpec>,

    /// A field that newer versions of the etcd-io operator propose. Refused: `provider` is for peers and clients alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "peer_of_upstream")]
    pub peer: Option<Value>,

    /// A field that newer versions of the etcd-io operator propose. Refused: `provider` is for peers and clients alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "client_of_upstream")]
    pub client: Option<Value>,
}

/// How certificate authorities are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RotationSpec {
    /// How long clients have to trust a new authority before it signs, and then to present what it signed before the earlier one is
    /// forgotten: 168h, 30m. Twice in a rotation of the authority of clients; the annotations operator.etcd.io/clients-trust and
    /// operator.etcd.io/clients-present, each with the fingerprint of the new authority, end it sooner. An API server reads the authorities
    /// that it trusts once, so it has to be restarted in this time. Absent: 168h.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 32), extend("x-kubernetes-validations" = [
        rule("self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",
            "tls.rotation.clientGrace must be a duration such as 168h, 1h30m or 45s"),
    ]))]
    pub client_grace: Option<String>,
}

/// Settings of the provider of certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsProviderConfig {
    /// Settings of provider "auto".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_cfg: Option<AutoTlsConfig>,

    /// Settings of provider "cert-manager" of the etcd-io operator. Refused: this version of the operator issues the
    /// certificates itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "cert_manager_of_upstream")]
    pub cert_manager_cfg: Option<CertManagerConfig>,
}

/// Settings of the certificates that the operator issues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoTlsConfig {
    /// The common name in the subject of the server certificate. Absent: quorate-server. quorate-peer is refused: members know their peers
    /// by it. A change takes effect at the next renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub common_name: Option<String>,

    /// The organizations in the subject of the server certificate. A change takes effect at the next renewal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::organizations")]
    pub organizations: Vec<String>,

    /// Further names of the server certificate, besides those of the members and of both Services. A name that is added makes
    /// the operator renew the certificate at once; one that is removed goes with the next renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alt_names: Option<AltNames>,

    /// How long server, peer and client certificates are valid, in days and hours: 365d, 8760h, 30d12h. They are renewed
    /// at two thirds of that. Up to a tenth is taken off, so that not all end at once. Absent: 365d. A change takes effect at
    /// the next renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 32), extend("x-kubernetes-validations" = [
        rule("self.matches('^([1-9][0-9]{0,3}d([1-9][0-9]{0,4}h)?|[1-9][0-9]{0,4}h)(0m)?(0s)?$')",
            "validityDuration must be days and hours, such as 365d, 8760h or 30d12h"),
    ]))]
    pub validity_duration: Option<String>,

    /// The name of a Secret with an authority of yours (tls.crt, tls.key) that is to sign for servers and clients. It needs the label
    /// operator.etcd.io/cluster=NAME. A copy is kept in NAME-ca. Another authority in it, another name or none begins a rotation. Everything that this
    /// authority signs is let in as a client. Absent: the operator makes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub ca_bundle_secret: Option<String>,
}

/// Further names of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AltNames {
    /// DNS names, such as etcd.example.com or *.etcd.example.com.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::dns_names")]
    pub dns_names: Vec<String>,

    /// IP addresses, such as 192.0.2.1 or 2001:db8::1.
    #[serde(rename = "ipAddresses", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::ip_addresses")]
    pub ip_addresses: Vec<String>,
}

/// Settings of provider "cert-manager" of the etcd-io operator: known, so that they are refused and not dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CertManagerConfig {
    /// Issuer or ClusterIssuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub issuer_kind: Option<String>,

    /// The name of the issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub issuer_name: Option<String>,

    /// The common name of the certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub common_name: Option<String>,

    /// The organizations of the certificates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::organizations")]
    pub organizations: Vec<String>,

    /// Further names of the certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alt_names: Option<AltNames>,

    /// How long the certificates are valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub validity_duration: Option<String>,

    /// The Secret of an authority.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub ca_bundle_secret: Option<String>,
}

/// Where certificates come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsProvider {
    /// From the cluster's own CA, which the operator keeps.
    #[default]
    Auto,
    /// No certificates: plain text.
    Disabled,
}

impl TlsSpec {
    /// The settings of provider "auto", if there are any.
    pub fn auto(&self) -> Option<&AutoTlsConfig> {
        self.provider_cfg.as_ref()?.auto_cfg.as_ref()
    }
}

fn cert_manager_of_upstream(_: &mut SchemaGenerator) -> Schema {
    rules::refused(
        "not supported yet: tls.providerCfg.certManagerCfg; this version of the operator issues the certificates \
         itself. Remove it; autoCfg has the names and the life of certificates",
    )
}

fn peer_of_upstream(_: &mut SchemaGenerator) -> Schema {
    rules::refused(
        "not supported: tls.peer. Remove it: tls.provider (auto if absent) is for peers and clients alike, and \
         tls.providerCfg.autoCfg has commonName, organizations, altNames and validityDuration",
    )
}

fn client_of_upstream(_: &mut SchemaGenerator) -> Schema {
    rules::refused(
        "not supported: tls.client. Remove it: tls.provider (auto if absent) is for peers and clients alike, and \
         tls.providerCfg.autoCfg has commonName, organizations, altNames and validityDuration",
    )
}
