//! TLS. Every field of the etcd-io operator is known: it is honoured, or refused with the reason, and never dropped.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::{self, rule};

/// TLS between members and with clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule("self.provider != 'cert-manager' || (has(self.providerCfg) ? has(self.providerCfg.certManagerCfg) : false)",
        "tls.provider cert-manager needs tls.providerCfg.certManagerCfg"),
    rule("self.provider != 'secrets' || (has(self.providerCfg) ? has(self.providerCfg.secretsCfg) : false)",
        "tls.provider secrets needs tls.providerCfg.secretsCfg"),
    rule("self.provider == 'cert-manager' || (has(self.providerCfg) ? !has(self.providerCfg.certManagerCfg) : true)",
        "tls.providerCfg.certManagerCfg is for tls.provider cert-manager"),
    rule("self.provider == 'secrets' || (has(self.providerCfg) ? !has(self.providerCfg.secretsCfg) : true)",
        "tls.providerCfg.secretsCfg is for tls.provider secrets"),
]))]
pub struct TlsSpec {
    /// Where certificates come from. "auto": the operator keeps an authority of clients and one of peers for this
    /// cluster (Secrets NAME-ca, NAME-peer-ca) and issues server, peer and client certificates (Secrets NAME-server-tls, NAME-peer-tls,
    /// NAME-client-tls). "cert-manager": certificates of servers and clients come from an issuer of cert-manager. "secrets": they come from Secrets of
    /// yours. Copies of them are mounted, and peers have the authority of the operator in any case; a change between these three begins a rotation. "disabled":
    /// all traffic is in plain text, and everybody who reaches the cluster can read and write its data. Whether there are certificates is fixed once
    /// the cluster is bootstrapped.
    #[schemars(with = "String", length(max = 32), extend("x-kubernetes-validations" = [
        rule("self in ['auto', 'cert-manager', 'secrets', 'disabled']",
            "tls.provider must be auto, cert-manager, secrets or disabled"),
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

    /// Settings of provider "cert-manager".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_manager_cfg: Option<CertManagerConfig>,

    /// Settings of provider "secrets".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_cfg: Option<SecretsConfig>,
}

/// The Secrets of provider "secrets". Each has tls.crt, tls.key and ca.crt, and the label operator.etcd.io/cluster=NAME. One authority signs all of
/// them, and everything that it signs is let in as a client. Whoever makes them renews them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule("has(self.serverSecret) ? (has(self.clientSecret) ? self.serverSecret != self.clientSecret : false) : false",
        "secretsCfg needs serverSecret and clientSecret, two Secrets"),
]))]
pub struct SecretsConfig {
    /// The Secret with the certificate of the server: for the names of the members and both Services, for servers and clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub server_secret: Option<String>,

    /// The Secret with the certificate of a client: what the operator and its Jobs present, and what NAME-connection has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub client_secret: Option<String>,

    /// The Secret with a client's certificate of the common name root. Needed with spec.auth alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub operator_secret: Option<String>,
}

/// Settings of the certificates that the operator issues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoTlsConfig {
    /// The common name in the subject of the server certificate. Absent: quorate-server, or none where etcd's auth is
    /// wanted or on, since a common name is a user of it. quorate-peer, root, quorate-client and names that end as those of users of EtcdUsers are refused: a hyphen
    /// and eight hexadecimal digits. A change takes effect at the next renewal.
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

    /// The keys of server, peer and client certificates: ECDSA-P256 or ECDSA-P384. Absent: ECDSA-P256. A change takes effect at the next renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = [
        rule("self in ['ECDSA-P256', 'ECDSA-P384']", "keyAlgorithm must be ECDSA-P256 or ECDSA-P384"),
    ]))]
    pub key_algorithm: Option<String>,

    /// The name of a Secret with an authority of yours (tls.crt, tls.key) that is to sign for servers and clients. It needs the label
    /// operator.etcd.io/cluster=NAME. A copy is kept in NAME-ca. Another one begins a rotation. Everything that it signs is let in as a client. Absent:
    /// the operator makes one.
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

/// Settings of provider "cert-manager": the operator keeps Certificates NAME-server and NAME-client, with spec.auth also NAME-operator. Everything
/// that the authority of the issuer signs is let in as a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rule("has(self.issuerName)", "certManagerCfg needs issuerName")]))]
pub struct CertManagerConfig {
    /// Issuer or ClusterIssuer. Absent: Issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [
        rule("self in ['Issuer', 'ClusterIssuer']", "issuerKind must be Issuer or ClusterIssuer"),
    ]))]
    pub issuer_kind: Option<String>,

    /// The name of the issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub issuer_name: Option<String>,

    /// The common name in the subject of the server certificate. Absent: quorate-server, or none where etcd's auth is
    /// wanted or on. quorate-peer, root, quorate-client and names that end as those of users of EtcdUsers are refused: a hyphen and eight hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub common_name: Option<String>,

    /// The organizations in the subject of the server certificate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::organizations")]
    pub organizations: Vec<String>,

    /// Further names of the server certificate, besides those of the members and of both Services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alt_names: Option<AltNames>,

    /// How long the certificates are valid, in days and hours: 365d, 8760h, 30d12h. cert-manager renews them at two thirds of that. Absent:
    /// cert-manager's own default, 90 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 32), extend("x-kubernetes-validations" = [
        rule("self.matches('^([1-9][0-9]{0,3}d([1-9][0-9]{0,4}h)?|[1-9][0-9]{0,4}h)(0m)?(0s)?$')",
            "validityDuration must be days and hours, such as 365d, 8760h or 30d12h"),
    ]))]
    pub validity_duration: Option<String>,

    /// The keys of the certificates: ECDSA-P256, ECDSA-P384, RSA-2048, RSA-3072 or RSA-4096. Absent: ECDSA-P256. A change takes effect at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = [
        rule("self in ['ECDSA-P256', 'ECDSA-P384', 'RSA-2048', 'RSA-3072', 'RSA-4096']",
            "keyAlgorithm must be ECDSA-P256, ECDSA-P384, RSA-2048, RSA-3072 or RSA-4096"),
    ]))]
    pub key_algorithm: Option<String>,

    /// A field of the etcd-io operator. Refused: the issuer names the authority.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [
        rule("false", "not supported: tls.providerCfg.certManagerCfg.caBundleSecret. Remove it: the authority is the one that the issuer \
            names; for one that signs here, provider auto has autoCfg.caBundleSecret"),
    ]))]
    pub ca_bundle_secret: Option<String>,
}

/// Where certificates come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsProvider {
    /// From the cluster's own CA, which the operator keeps.
    #[default]
    Auto,
    /// Those of servers and clients from an issuer of cert-manager.
    CertManager,
    /// Those of servers and clients from Secrets that the spec names.
    Secrets,
    /// No certificates: plain text.
    Disabled,
}

impl TlsSpec {
    /// The settings of provider "auto", if there are any.
    pub fn auto(&self) -> Option<&AutoTlsConfig> {
        self.provider_cfg.as_ref()?.auto_cfg.as_ref()
    }

    /// The settings of provider "cert-manager", if there are any.
    pub fn cert_manager(&self) -> Option<&CertManagerConfig> {
        self.provider_cfg.as_ref()?.cert_manager_cfg.as_ref()
    }

    /// The common name of the server certificate, if the settings of the provider have one.
    pub fn common_name(&self) -> Option<&str> {
        match self.provider {
            TlsProvider::Auto | TlsProvider::Disabled => self.auto()?.common_name.as_deref(),
            TlsProvider::CertManager => self.cert_manager()?.common_name.as_deref(),
            TlsProvider::Secrets => None,
        }
    }

    /// The organizations of the server certificate.
    pub fn organizations(&self) -> &[String] {
        match self.provider {
            TlsProvider::Auto | TlsProvider::Disabled => {
                self.auto().map(|auto| auto.organizations.as_slice())
            }
            TlsProvider::CertManager => self.cert_manager().map(|own| own.organizations.as_slice()),
            TlsProvider::Secrets => None,
        }
        .unwrap_or_default()
    }

    /// The further names of the server certificate.
    pub fn alt_names(&self) -> Option<&AltNames> {
        match self.provider {
            TlsProvider::Auto | TlsProvider::Disabled => self.auto()?.alt_names.as_ref(),
            TlsProvider::CertManager => self.cert_manager()?.alt_names.as_ref(),
            TlsProvider::Secrets => None,
        }
    }

    /// The settings of provider "secrets", if there are any.
    pub fn secrets(&self) -> Option<&SecretsConfig> {
        self.provider_cfg.as_ref()?.secrets_cfg.as_ref()
    }
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
