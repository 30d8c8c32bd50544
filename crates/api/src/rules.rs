//! Rules that need more than one field, and the schemas of values that several fields share.
//!
//! Lengths and counts are bounded everywhere: Kubernetes estimates the cost of a CEL rule from them, and refuses a
//! definition whose rules could become too dear.

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use kube_core::Rule;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

pub(crate) mod backup;
mod flags;
mod security;

pub(crate) use flags::etcd_options;
pub(crate) use security::{security_context, security_context_of_jobs};

/// A rule with its message.
pub(crate) fn rule(cel: impl Into<String>, message: &str) -> Rule {
    Rule::new(cel).message(message)
}

/// A field of others that has no meaning here, whatever is in it. The schema knows it, so that a client without strict validation is
/// told, where the API server would drop an unknown field in silence.
pub(crate) fn refused(message: &str) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-validations": [rule("false", message)],
    })
}

/// On the whole object. The rules on changes apply once the cluster is bootstrapped: until then an edit may cure what
/// prevents that, and a new attempt starts. An edit that comes after the first leader is not carried out, and may be taken back.
pub(crate) fn object() -> Vec<Rule> {
    const NOT_BOOTSTRAPPED: &str = "!has(self.status) || !has(self.status.clusterID)";
    let fixed = |path: &str, unchanged: &str, message: &str| {
        rule(format!("{NOT_BOOTSTRAPPED} || {unchanged}"), message).field_path(path)
    };
    vec![
        rule(
            "size(self.metadata.name) <= 52",
            "metadata.name must be at most 52 characters: members are called NAME-0, NAME-1, ..., and their names \
             must be DNS labels of 63 at most",
        ),
        rule(
            "self.metadata.name.matches('^[a-z][a-z0-9-]*$')",
            "metadata.name must be a DNS label that starts with a letter (a-z, then a-z, 0-9 or '-', no dots), because \
             Services and members carry it",
        ),
        // An attempt to bootstrap is recorded before anything is created, and all later ones begin with the same data. Once it is bootstrapped
        // nothing reads it any more, and a manifest that has it would restore the same snapshot whenever the EtcdCluster is created again. So it
        // can leave the manifest then.
        rule(
            "!has(self.status) || (!has(self.status.bootstrap) && !has(self.status.clusterID)) || \
             (has(self.spec.bootstrap) == has(oldSelf.spec.bootstrap) ? \
             (!has(self.spec.bootstrap) || self.spec.bootstrap == oldSelf.spec.bootstrap || has(self.status.clusterID)) : \
             (has(oldSelf.spec.bootstrap) && has(self.status.clusterID)))",
            "bootstrap is fixed once the cluster begins (status.bootstrap), until status.clusterID is recorded; then it has no effect, and may \
             be changed or removed, and not added. Create an EtcdRestore to replace the data of this cluster, or another EtcdCluster",
        )
        .field_path(".spec.bootstrap"),
        fixed(
            ".spec.storageSpec.medium",
            "self.spec.storageSpec.medium == oldSelf.spec.storageSpec.medium || \
             (has(self.status.target) && self.spec.storageSpec.medium == self.status.target.storage.medium)",
            "storageSpec.medium is fixed once the cluster is bootstrapped: the data of its members are there. \
             Create another cluster and move the data",
        ),
        fixed(
            ".spec.storageSpec.accessModes",
            "self.spec.storageSpec.accessModes == oldSelf.spec.storageSpec.accessModes || \
             (has(self.status.target) && self.spec.storageSpec.accessModes == self.status.target.storage.accessMode)",
            "storageSpec.accessModes is fixed once the cluster is bootstrapped: Kubernetes does not change it on volumes",
        ),
        fixed(
            ".spec.storageSpec.volumeSizeRequest",
            "!isQuantity(string(self.spec.storageSpec.volumeSizeRequest)) || \
             !isQuantity(string(oldSelf.spec.storageSpec.volumeSizeRequest)) || \
             quantity(string(self.spec.storageSpec.volumeSizeRequest)).compareTo(\
             quantity(string(oldSelf.spec.storageSpec.volumeSizeRequest))) >= 0",
            "storageSpec.volumeSizeRequest must not become smaller: volumes can grow and never shrink",
        ),
        fixed(
            ".spec.tls.provider",
            "(self.spec.tls.provider == 'disabled') == (oldSelf.spec.tls.provider == 'disabled') || \
             (has(self.status.target) && self.status.target.tls == (self.spec.tls.provider != 'disabled'))",
            "tls.provider is fixed once the cluster is bootstrapped: peers with TLS and peers without it \
             cannot form a quorum",
        ),
        fixed(
            ".spec.podTemplate",
            &format!("{} == {}", user_of("self"), user_of("oldSelf")),
            "podTemplate.spec.securityContext.runAsUser (10001 if absent) is fixed once the cluster is bootstrapped: the data of \
             its members belong to this user, and no other may read them. fsGroup can change",
        ),
    ]
}

/// The user of members' processes.
fn user_of(object: &str) -> String {
    let template = format!("{object}.spec.podTemplate");
    format!(
        "(has({template}) && has({template}.spec) && has({template}.spec.securityContext) && \
         has({template}.spec.securityContext.runAsUser) ? {template}.spec.securityContext.runAsUser : 10001)"
    )
}

/// A snapshot is given in one way.
pub(crate) const ONE_SNAPSHOT: &str =
    "[has(self.backupRef), has(self.source), has(self.latest)].filter(given, given).size() == 1";

/// On `bootstrap.restore`.
pub(crate) fn restore() -> Vec<Rule> {
    vec![
        rule(ONE_SNAPSHOT, "bootstrap.restore: exactly one of backupRef, source and latest must be given"),
        rule(
            "!has(self.of)",
            "bootstrap.restore: of is a field of EtcdRestores. A cluster that begins has no data of its own: leave it out",
        ),
    ]
}

/// On `of` of a snapshot.
pub(crate) fn snapshot_of() -> Vec<Rule> {
    vec![
        rule("has(self.cluster) || has(self.clusterID)", "snapshot.of: cluster or clusterID must be given"),
        rule(
            "!has(self.clusterNamespace) || has(self.cluster)",
            "snapshot.of: clusterNamespace needs cluster",
        ),
    ]
}

/// On `latest` of a snapshot.
pub(crate) fn latest() -> Vec<Rule> {
    vec![
        rule(
            "has(self.cluster) != has(self.clusterID)",
            "latest: exactly one of cluster and clusterID must be given",
        ),
        rule(
            "!has(self.clusterNamespace) || has(self.cluster)",
            "latest: clusterNamespace is that of the EtcdCluster that cluster names; leave it out, or give cluster",
        ),
    ]
}

/// On the spec.
pub(crate) fn spec() -> Vec<Rule> {
    let mut rules = vec![
        rule(
            "!has(self.bootstrap) || !has(self.bootstrap.restore) || self.storageSpec.medium != 'Memory'",
            "bootstrap.restore needs volumes: a member in memory would forget what it was restored with and has stored since",
        )
        .field_path(".bootstrap"),
        rule(
            "self.size != 0 || self.storageSpec.medium != 'Memory'",
            "size 0 keeps the volumes of members, and members in memory have none: delete the cluster, or keep at \
             least 1",
        )
        .field_path(".size"),
        rule(
            "!has(self.etcd) || !has(self.etcd.quotaBackendBytes) || \
             !isQuantity(string(self.etcd.quotaBackendBytes)) || \
             !isQuantity(string(self.storageSpec.volumeSizeRequest)) || \
             quantity(string(self.etcd.quotaBackendBytes)).compareTo(\
             quantity(string(self.storageSpec.volumeSizeRequest))) <= 0",
            "etcd.quotaBackendBytes must not be larger than storageSpec.volumeSizeRequest (2Gi if absent): the database \
             would fill the disk before it reaches its quota",
        )
        .field_path(".etcd.quotaBackendBytes"),
        rule(
            "self.placement.oneMemberPerNode != 'Required' || !has(self.podTemplate) || !has(self.podTemplate.spec) || \
             !has(self.podTemplate.spec.affinity) || !has(self.podTemplate.spec.affinity.podAntiAffinity)",
            "placement.oneMemberPerNode Required has no effect beside podTemplate.spec.affinity.podAntiAffinity, which replaces \
             what the operator writes: leave one of them out",
        )
        .field_path(".placement.oneMemberPerNode"),
        rule(
            "!has(self.auth) || !self.auth.enabled || self.tls.provider != 'disabled'",
            "auth.enabled needs TLS: a client is the user that its certificate names. Leave tls.provider out, or auth",
        )
        .field_path(".auth.enabled"),
    ];
    rules.extend(flags::given_twice());
    rules
}

/// On `service`.
pub(crate) fn service() -> Vec<Rule> {
    let is_same = "has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass) && \
                   (!has(self.loadBalancerClass) || self.loadBalancerClass == oldSelf.loadBalancerClass)";
    vec![
        rule(
            "!has(self.loadBalancerClass) || self.type == 'LoadBalancer'",
            "service.loadBalancerClass is for type LoadBalancer only: leave it out, or set that type",
        )
        .field_path(".loadBalancerClass"),
        rule(
            format!("self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || ({is_same})"),
            "service.loadBalancerClass is fixed while the type is LoadBalancer: set type ClusterIP first, then LoadBalancer with the \
             other class",
        )
        .field_path(".loadBalancerClass"),
    ]
}

/// On `storageSpec`.
pub(crate) fn storage() -> Vec<Rule> {
    vec![
        rule(
            "!isQuantity(string(self.volumeSizeRequest)) || \
             quantity(string(self.volumeSizeRequest)).compareTo(quantity('1Mi')) >= 0",
            "storageSpec.volumeSizeRequest must be at least 1Mi",
        )
        .field_path(".volumeSizeRequest"),
        rule(
            "!has(self.volumeSizeLimit) || !isQuantity(string(self.volumeSizeLimit)) || \
             !isQuantity(string(self.volumeSizeRequest)) || \
             quantity(string(self.volumeSizeLimit)).compareTo(quantity('0')) == 0 || \
             quantity(string(self.volumeSizeLimit)).compareTo(quantity(string(self.volumeSizeRequest))) >= 0",
            "storageSpec.volumeSizeLimit must not be smaller than storageSpec.volumeSizeRequest",
        )
        .field_path(".volumeSizeLimit"),
        rule(
            "self.medium != 'Memory' || !has(self.storageClassName)",
            "storageSpec.storageClassName has no meaning with medium Memory: leave one of them out",
        )
        .field_path(".storageClassName"),
        rule(
            "self.medium != 'Memory' || !has(self.volumeSizeLimit)",
            "storageSpec.volumeSizeLimit has no meaning with medium Memory: volumeSizeRequest is the limit there",
        )
        .field_path(".volumeSizeLimit"),
    ]
}

/// On `etcd`.
pub(crate) fn etcd() -> Vec<Rule> {
    vec![
        rule(
            "!has(self.quotaBackendBytes) || !isQuantity(string(self.quotaBackendBytes)) || \
             quantity(string(self.quotaBackendBytes)).compareTo(quantity('1Mi')) >= 0",
            "etcd.quotaBackendBytes must be at least 1Mi; without a limit a database fills its disk",
        )
        .field_path(".quotaBackendBytes"),
        rule(
            "(has(self.electionTimeout) ? self.electionTimeout : 1000) >= \
             5 * (has(self.heartbeatInterval) ? self.heartbeatInterval : 100)",
            "etcd.electionTimeout (1000 if absent) must be at least five times etcd.heartbeatInterval (100 if absent): \
             etcd does not start otherwise",
        ),
        rule(
            "!has(self.autoCompactionMode) || has(self.autoCompactionRetention)",
            "etcd.autoCompactionMode has no effect without etcd.autoCompactionRetention: say how much to keep",
        )
        .field_path(".autoCompactionMode"),
        rule(
            "!has(self.autoCompactionRetention) || \
             !(has(self.autoCompactionMode) && self.autoCompactionMode == 'revision') || \
             self.autoCompactionRetention.matches('^[0-9]{1,18}$')",
            "etcd.autoCompactionRetention must be a number of revisions such as 1000 in mode revision",
        )
        .field_path(".autoCompactionRetention"),
        rule(
            "!has(self.autoCompactionRetention) || \
             (has(self.autoCompactionMode) && self.autoCompactionMode == 'revision') || \
             self.autoCompactionRetention.matches('^([0-9]{1,6}|([0-9]{1,9}(ms|s|m|h))+)$')",
            "etcd.autoCompactionRetention must be a time such as 30m or 8h, or a number of hours, in mode periodic",
        )
        .field_path(".autoCompactionRetention"),
    ]
}

/// On `podTemplate.spec.resources`.
pub(crate) fn resources() -> Vec<Rule> {
    let (request, limit) = ("string(self.requests[name])", "string(self.limits[name])");
    vec![rule(
        format!(
            "!has(self.requests) || !has(self.limits) || ['cpu', 'memory'].all(name, !(name in self.requests) || \
             !(name in self.limits) || !isQuantity({request}) || !isQuantity({limit}) || \
             quantity({request}).compareTo(quantity({limit})) <= 0)"
        ),
        "resources: the request of cpu and that of memory must not be larger than the limit",
    )]
}

/// A quantity, as text or as a number.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": 32,
        "x-kubernetes-validations": [rule(
            "isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('0')) >= 0",
            "must be a quantity such as 512Mi, 8Gi or 0.5, and not negative",
        )],
    })
}

/// Quantities by name.
pub(crate) fn quantities(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 6,
        "additionalProperties": quantity(generator),
    })
}

/// Labels of Pods.
pub(crate) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {
            "type": "string",
            "maxLength": 63,
            "x-kubernetes-validations": [rule(
                "self.matches('^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$')",
                "must be a label value: letters, digits, '-', '_' and '.', with a letter or digit at both ends",
            )],
        },
        "x-kubernetes-validations": [ours(), rule(
            "self.all(key, !(key in ['app', 'app.kubernetes.io/name', 'app.kubernetes.io/instance', \
             'app.kubernetes.io/managed-by']))",
            "the labels app, app.kubernetes.io/name, app.kubernetes.io/instance and app.kubernetes.io/managed-by are \
             set by the operator: choose other keys",
        )],
    })
}

/// Labels of nodes.
pub(crate) fn node_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 63 },
    })
}

/// The schema that Kubernetes has for a type, without its descriptions: they are three quarters of it, a definition has it several
/// times, and `kubectl explain pod.spec` prints them. The field itself keeps ours. It has no bounds, so a rule may ask whether a field
/// below it is there, and no more.
pub(crate) fn of_kubernetes<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = T::json_schema(generator).to_value();
    describe_no_more(&mut schema);
    schema.try_into().expect("a schema without descriptions is a schema")
}

fn describe_no_more(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    fields.remove("description");
    for inner in ["items", "additionalProperties"] {
        fields.get_mut(inner).into_iter().for_each(describe_no_more);
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(describe_no_more);
    }
}

/// The same, with bounds on lists, maps and texts, for rules that read them.
pub(crate) fn bounded<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = of_kubernetes::<T>(generator).to_value();
    bound(&mut schema);
    schema.try_into().expect("a schema with bounds is a schema")
}

fn bound(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    if fields.get("type") == Some(&json!("array")) {
        fields.insert("maxItems".to_owned(), json!(32));
    }
    if fields.get("type") == Some(&json!("string")) {
        fields.insert("maxLength".to_owned(), json!(1024));
    }
    if let Some(values) = fields.get_mut("additionalProperties") {
        bound(values);
        fields.insert("maxProperties".to_owned(), json!(64));
    }
    if let Some(items) = fields.get_mut("items") {
        bound(items);
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(bound);
    }
}

/// Sources of connections, in the shape that a NetworkPolicy has them.
pub(crate) fn network_peers(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = bounded::<Vec<NetworkPolicyPeer>>(generator).to_value();
    schema["items"]["x-kubernetes-validations"] = json!([rule(
        "has(self.ipBlock) != (has(self.podSelector) || has(self.namespaceSelector))",
        "each source is podSelector, namespaceSelector or both of them, or ipBlock alone",
    )]);
    schema.try_into().expect("a schema with rules is a schema")
}

/// `auth.allowedPrefixes`: beginnings of keys.
pub(crate) fn key_prefixes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "items": {
            "type": "string",
            "maxLength": 512,
            "x-kubernetes-validations": [rule(
                "self != ''",
                "a prefix must not be empty, as every key begins so: leave auth.allowedPrefixes out to allow any",
            )],
        },
    })
}

/// A field of a spec as status records it. Its fields are described, and checked, where they are written.
pub(crate) fn recorded(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}

/// Annotations of Pods.
pub(crate) fn annotations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 16384 },
        "x-kubernetes-validations": [ours()],
    })
}

/// Annotations of any object: those that the operator and Kubernetes set on some of them are theirs.
pub(crate) fn annotations_of_objects(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = annotations(generator).to_value();
    schema["x-kubernetes-validations"] = json!([
        ours(),
        rule(
            "self.all(key, !(key in ['argocd.argoproj.io/sync-options', 'kustomize.toolkit.fluxcd.io/prune', \
             'helm.sh/resource-policy']))",
            "the annotations argocd.argoproj.io/sync-options, kustomize.toolkit.fluxcd.io/prune and helm.sh/resource-policy are set by \
             the operator on what outlives the EtcdCluster, so that no tool prunes it: choose other keys",
        ),
        rule(
            "self.all(key, !key.startsWith('pv.kubernetes.io/') && !key.startsWith('volume.kubernetes.io/') && \
             !key.startsWith('volume.beta.kubernetes.io/'))",
            "keys that start with pv.kubernetes.io/, volume.kubernetes.io/ or volume.beta.kubernetes.io/ are set by Kubernetes: choose \
             other keys",
        ),
    ]);
    schema.try_into().expect("a schema with rules is a schema")
}

/// Names of Secrets, in the shape that Pods have them.
pub(crate) fn secret_names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {
                    "description": "The name of the Secret.",
                    "type": "string",
                    "maxLength": 253,
                    "x-kubernetes-validations": [rule(
                        "self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')",
                        "must be the name of a Secret",
                    )],
                },
            },
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    })
}

/// The organizations in the subject of a certificate.
pub(crate) fn organizations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 8, "items": { "type": "string", "minLength": 1, "maxLength": 64 } })
}

/// DNS names of a certificate.
pub(crate) fn dns_names(_: &mut SchemaGenerator) -> Schema {
    const LABEL: &str = "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?";
    let cel = format!("self.matches('^([*][.])?{LABEL}([.]{LABEL})*$')");
    let rule = rule(cel, "must be a DNS name, such as etcd.example.com or *.etcd.example.com");
    names_of_certificate(253, &rule)
}

/// IP addresses of a certificate.
pub(crate) fn ip_addresses(_: &mut SchemaGenerator) -> Schema {
    let cel = "self.matches('^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])([.]|$)){4}$') || \
               self.matches('^[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:]*$')";
    names_of_certificate(45, &rule(cel, "must be an IP address, such as 192.0.2.1 or 2001:db8::1"))
}

fn names_of_certificate(longest: u32, rule: &Rule) -> Schema {
    let item = json!({ "type": "string", "maxLength": longest, "x-kubernetes-validations": [rule] });
    json_schema!({ "type": "array", "maxItems": 32, "items": item })
}

/// Keys under our prefix are the operator's.
fn ours() -> Rule {
    rule(
        "self.all(key, !key.startsWith('operator.etcd.io/'))",
        "keys that start with operator.etcd.io/ are set by the operator: choose another prefix",
    )
}
