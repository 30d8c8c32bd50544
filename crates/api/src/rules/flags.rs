//! Which etcd flags a user may give, and which not.

use kube_core::Rule;
use schemars::{Schema, SchemaGenerator, json_schema};

use super::rule;

/// Flags that make up a member's identity or place.
const IDENTITY: &str = "name|data-dir|wal-dir|config-file|initial-.*|advertise-.*|listen-.*|discovery.*|\
                        strict-reconfig-check";

/// Flags that select certificates.
const CERTIFICATES: &str = "cert-file|key-file|ca-file|trusted-ca-file|auto-tls|self-signed-cert-validity|client-.*|\
                            peer-.*|experimental-peer-.*";

/// Flags with which etcd loses data, or is no member of a cluster.
const HARMFUL: &str =
    "force-new-cluster|unsafe-.*|enable-v2.*|experimental-enable-v2.*|proxy|proxy-.*|version|help";

/// The typed fields and their flags.
const TYPED: [(&str, &str); 6] = [
    ("quotaBackendBytes", "quota-backend-bytes"),
    ("autoCompactionMode", "auto-compaction-mode"),
    ("autoCompactionRetention", "auto-compaction-retention"),
    ("snapshotCount", "snapshot-count"),
    ("heartbeatInterval", "heartbeat-interval"),
    ("electionTimeout", "election-timeout"),
];

/// The schema of `etcdOptions`.
pub(crate) fn etcd_options(_: &mut SchemaGenerator) -> Schema {
    let none_of = |flags: &str, message: &str| rule(format!("!self.matches('^--?({flags})(=|$)')"), message);
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "items": {
            "type": "string",
            "maxLength": 1024,
            "x-kubernetes-validations": [
                rule(
                    "self.matches('^--[a-z][a-z0-9-]*(=.*)?$')",
                    "each of etcdOptions must be one etcd flag, written --flag=value or --flag",
                ),
                none_of(IDENTITY, "this flag makes up the identity of a member and is set by the operator: leave it out"),
                none_of(CERTIFICATES, "certificates are set by the operator: leave this flag out and use spec.tls"),
                none_of(HARMFUL, "with this flag etcd loses data or is no member of a cluster: leave it out"),
            ],
        },
        "x-kubernetes-list-type": "atomic",
    })
}

/// A typed field and its flag exclude each other: one rule for each pair, on the spec.
pub(crate) fn given_twice() -> impl Iterator<Item = Rule> {
    TYPED.into_iter().map(|(field, flag)| {
        rule(
            format!(
                "!has(self.etcd) || !has(self.etcd.{field}) || !has(self.etcdOptions) || \
                 !self.etcdOptions.exists(option, option.matches('^--{flag}(=|$)'))"
            ),
            &format!("--{flag} in etcdOptions and etcd.{field} say the same thing twice: keep one"),
        )
        .field_path(".etcdOptions")
    })
}
