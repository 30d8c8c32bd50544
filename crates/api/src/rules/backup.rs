//! Rules of the kinds that back up, and of the places they write to.

use kube_core::Rule;
use schemars::{Schema, SchemaGenerator, json_schema};

use super::rule;

/// On a duration.
pub(crate) const DURATION: &str =
    "self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''";

/// On a schedule. The operator reads it to the end; this catches what is certainly none.
pub(crate) const CRON: &str =
    "self.matches('^(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|[^ @]+( +[^ ]+){4})$')";

/// What is wrong with such a schedule.
pub(crate) const CRON_MESSAGE: &str = "must be five fields of cron such as \"30 2 * * *\" (minute, hour, day of the month, month, day of \
    the week), or one of @hourly, @daily, @weekly, @monthly and @yearly";

/// On an EtcdBackup as a whole.
pub(crate) fn backup_object() -> Vec<Rule> {
    vec![
        rule(
            "size(self.metadata.name) <= 63",
            "metadata.name must be at most 63 characters: labels carry it",
        ),
        rule(
            "self.spec == oldSelf.spec",
            "the spec of an EtcdBackup is immutable: create another EtcdBackup",
        )
        .field_path(".spec"),
        rule(
            "!has(self.spec.existing) || has(self.spec.source.cluster)",
            "existing needs source.cluster: the EtcdCluster that the object of the key is of by its manifest, or that the newest backup is for",
        )
        .field_path(".spec.source"),
        rule(
            "!has(self.spec.existing) || !has(self.spec.deletionPolicy) || self.spec.deletionPolicy == 'Retain'",
            "deletionPolicy must be Retain with existing: another EtcdBackup has written the object, and this one never removes it",
        )
        .field_path(".spec.deletionPolicy"),
        rule(
            "!has(self.spec.existing) || !(has(self.spec.encryption) || has(self.spec.rateLimit) || \
             (has(self.spec.withoutQuorum) && self.spec.withoutQuorum))",
            "encryption, rateLimit and withoutQuorum are about a backup that is taken: with existing none is",
        )
        .field_path(".spec.existing"),
    ]
}

/// On the spec of the template of a schedule, at each change. One that has it already, from before this rule, keeps it: else Kubernetes before
/// 1.30 would refuse every write of its status. The operator leaves it out.
pub(crate) const QUORUM_STAYS: &str = "!has(self.withoutQuorum) || !self.withoutQuorum || (has(oldSelf.withoutQuorum) && oldSelf.withoutQuorum)";

/// Why a schedule has none.
pub(crate) const QUORUM_MESSAGE: &str = "a schedule takes no backup without the quorum: such a one may lack acknowledged writes, and would push \
    out sound ones; create an EtcdBackup by hand";

/// On the spec of the template of a schedule.
pub(crate) const TAKEN: &str = "!has(self.existing)";

/// Why a schedule has none.
pub(crate) const TAKEN_MESSAGE: &str = "a schedule takes backups: existing is for an EtcdBackup of its own, which stands for an object that is there already";

/// On an EtcdBackupSchedule as a whole. What is created has no status, so the second rule is of that only.
pub(crate) fn schedule_object() -> Vec<Rule> {
    vec![
        rule(
            "size(self.metadata.name) <= 50",
            "metadata.name must be at most 50 characters: its backups are called NAME-123456789012, and labels carry their names",
        ),
        rule(
            "has(self.status) || !has(self.spec.backupTemplate.spec.withoutQuorum) || !self.spec.backupTemplate.spec.withoutQuorum",
            QUORUM_MESSAGE,
        )
        .field_path(".spec.backupTemplate.spec"),
        rule(
            "!has(self.spec.verify) || has(self.spec.verify.identitiesSecret) || !has(self.spec.backupTemplate.spec.encryption)",
            "verify.identitiesSecret must name a Secret with an identity of age: without it no restore test can decrypt the backups",
        )
        .field_path(".spec.verify"),
    ]
}

/// On `source`.
pub(crate) fn source() -> Vec<Rule> {
    vec![rule(
        "has(self.cluster) != has(self.endpoints)",
        "source must have exactly one of cluster (an EtcdCluster of this namespace) and endpoints (another etcd)",
    )]
}

/// On a destination.
pub(crate) fn destination() -> Vec<Rule> {
    vec![rule(
        "(has(self.s3) ? 1 : 0) + (has(self.gcs) ? 1 : 0) + (has(self.azure) ? 1 : 0) + (has(self.pvc) ? 1 : 0) == 1",
        "destination must have exactly one of s3, gcs, azure and pvc",
    )]
}

/// On a container of Azure: whoever runs another server gets what is sent there.
pub(crate) fn azure() -> Vec<Rule> {
    vec![rule(
        "!has(self.endpoint) || has(self.credentialsSecret)",
        "azure with an endpoint needs credentialsSecret: without one the token of the Job's own identity would go to that server",
    )]
}

/// On a prefix within a destination. It is compared with the stores that a cluster allows, so it must not be able to leave its place.
pub(crate) fn prefix() -> Vec<Rule> {
    vec![rule(
        "self.matches('^[^/]+(/[^/]+)*$') && !self.matches('(^|/)[.][.]?(/|$)')",
        "prefix must not begin or end with a slash, and must not contain an empty part, '.' or '..'",
    )]
}

/// On a bucket. It becomes a part of host names and of paths, and is compared with the stores that a cluster allows.
pub(crate) fn bucket() -> Vec<Rule> {
    vec![rule(
        "self.matches('^[a-zA-Z0-9][a-zA-Z0-9._-]{1,253}$') && !self.contains('..')",
        "bucket must be the name of a bucket: letters, digits, '.', '_' and '-', at least two, a letter or digit first, no '..'",
    )]
}

/// On a region, which becomes a part of the host name of AWS.
pub(crate) fn region() -> Vec<Rule> {
    vec![rule("self.matches('^[a-z0-9-]+$')", "region must be the name of a region, such as eu-central-1")]
}

/// On a storage account of Azure, which becomes a part of host names.
pub(crate) fn account() -> Vec<Rule> {
    vec![rule(
        "self.matches('^[a-z0-9]{3,24}$')",
        "account must be the name of a storage account: 3 to 24 lower-case letters and digits",
    )]
}

/// On a container of Azure.
pub(crate) fn container() -> Vec<Rule> {
    vec![rule(
        "self.matches('^[a-z0-9$-]+$')",
        "container must be the name of a container: lower-case letters, digits and '-', or one such as $root",
    )]
}

/// On the URL of a server.
pub(crate) fn endpoint() -> Vec<Rule> {
    vec![rule(
        r"self.matches('^https?://[A-Za-z0-9._~:/\\[\\]-]+$')",
        "endpoint must be a URL such as https://s3.example.com:9000, without a user, a query or a fragment",
    )]
}

/// On the URL of a store.
pub(crate) fn store() -> Vec<Rule> {
    vec![rule(
        "self.matches('^(s3|gs|pvc)://[^/]+(/.*)?$') || self.matches('^azure://[^/]+/[^/]+(/.*)?$')",
        "must be s3://bucket, gs://bucket, azure://account/container or pvc://claim, with a prefix after a slash where only that is \
         allowed",
    )]
}

/// Environment variables of Jobs. Those that tell the agent, the client of a store or etcd what to do, and where credentials go, are
/// fields of specs: a variable would go around their rules.
pub(crate) fn environment(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {
                    "description": "Its name.",
                    "type": "string",
                    "maxLength": 128,
                    "x-kubernetes-validations": [
                        rule("self.matches('^[A-Za-z_][A-Za-z0-9_]*$')", "must be the name of an environment variable"),
                        rule(
                            "!self.matches('^((QUORATE|AWS|AZURE|GOOGLE|MSI|IDENTITY|ETCD|ETCDCTL|SSL_CERT)_.*|SERVICE_ACCOUNT|GOMEMLIMIT|GOMAXPROCS)$')",
                            "must not be a variable of the operator, of the client of a store or of etcd, nor say whom it trusts: fields of the spec do",
                        ),
                    ],
                },
                "value": { "description": "Its value.", "type": "string", "maxLength": 4096 },
            },
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    })
}

/// Client URLs of etcd.
pub(crate) fn urls(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 16,
        "items": {
            "type": "string",
            "maxLength": 512,
            "x-kubernetes-validations": [rule(
                r"self.matches('^https?://[A-Za-z0-9._:\\[\\]-]+$')",
                "must be a client URL of etcd such as https://etcd-0.example.com:2379",
            )],
        },
        "x-kubernetes-validations": [rule("size(self) > 0", "endpoints.urls must have at least one URL")],
    })
}

/// Recipients of age.
pub(crate) fn recipients(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "items": {
            "type": "string",
            "maxLength": 128,
            "x-kubernetes-validations": [rule(
                "self.matches('^age1[a-z0-9]+$')",
                "must be a recipient of age, which begins with age1; an identity (AGE-SECRET-KEY-1...) is a secret and belongs in no spec",
            )],
        },
        "x-kubernetes-validations": [rule(
            "size(self) > 0",
            "encryption.recipients must have at least one recipient; leave encryption out for none",
        )],
    })
}

/// Bytes a second. A small one is a mistake: `20m` is a fiftieth of a byte.
pub(crate) fn rate(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": 32,
        "x-kubernetes-validations": [rule(
            "isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('64Ki')) >= 0",
            "must be bytes a second, such as 20Mi, and not less than 64Ki",
        )],
    })
}

/// How many backups a rule of retention keeps.
pub(crate) fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "integer",
        "format": "int32",
        "x-kubernetes-validations": [rule(
            "self >= 1 && self <= 1000",
            "must be between 1 and 1000; leave the rule out if it is to keep none",
        )],
    })
}

/// On the object that an EtcdBackup stands for.
pub(crate) fn existing() -> Vec<Rule> {
    vec![
        rule("has(self.key) != has(self.latest)", "existing: exactly one of key and latest must be given"),
        rule("has(self.key) == has(self.sha256)", "existing: key and sha256 must be given together"),
        rule(
            "!has(self.versionID) || has(self.key)",
            "existing: versionID is a version of the object of key; leave it out",
        ),
        rule("!has(self.before) || has(self.latest)", "existing: before is about latest; leave it out"),
        rule(
            "!has(self.withoutManifest) || !self.withoutManifest || has(self.key)",
            "existing: latest goes by manifests, so withoutManifest must be left out",
        ),
    ]
}
