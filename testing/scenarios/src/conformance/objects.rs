//! Bodies of calls: valid objects, invalid objects, and changes.

use serde_json::{Value, json};

use super::Kind;
use super::random::Random;

/// The names of objects: few, so that calls concern the same objects.
pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

/// The prefixes of generated names.
pub(super) const PREFIXES: [&str; 2] = ["made-", "Made-"];

/// Kinds that can own others.
const OWNERS: [Kind; 4] = [Kind::ConfigMap, Kind::Secret, Kind::ServiceAccount, Kind::Lease];

/// An object that is accepted.
pub(super) fn valid(random: &mut Random, kind: Kind, name: &str, owners: &[Kind]) -> Value {
    let mut object = content(random, kind);
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind());
    object["metadata"] = json!({"name": name, "labels": {"tier": random.one_of(&["1", "2"]), "app": "x"}});
    if random.percent(10) {
        object["metadata"]["annotations"] = json!({"note": random.one_of(&["one", "two", ""])});
    }
    if random.percent(20) {
        object["metadata"]["finalizers"] = json!(["example.org/hold"]);
    }
    // The real garbage collector discovers new kinds only every half minute.
    if kind != Kind::EtcdCluster && random.percent(30) {
        object["metadata"]["ownerReferences"] = owner_references(random, owners);
    }
    object
}

/// References to one owner or two, mostly to owners that exist.
pub(super) fn owner_references(random: &mut Random, kinds: &[Kind]) -> Value {
    let kinds: Vec<Kind> = kinds.iter().copied().filter(|kind| OWNERS.contains(kind)).collect();
    let kinds = if kinds.is_empty() { vec![Kind::ConfigMap] } else { kinds };
    let mut references: Vec<Value> = Vec::new();
    for _ in 0..random.one_of(&[1, 1, 1, 2]) {
        let (kind, name) = (random.one_of(&kinds), random.one_of(&NAMES));
        let mut reference = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind(), "name": name,
            "uid": format!("$uid {}/{name}", kind.plural()),
        });
        if random.percent(50) {
            reference["blockOwnerDeletion"] = json!(true);
        }
        if !references.iter().any(|one| one["uid"] == reference["uid"]) {
            references.push(reference);
        }
    }
    json!(references)
}

/// An object that is refused, or that causes a warning.
pub(super) fn invalid(random: &mut Random, kind: Kind, name: &str) -> Value {
    let mut object = valid(random, kind, name, &[]);
    let change = if random.percent(40) { of_metadata(random) } else { of_kind(random, kind) };
    merge(&mut object, &change);
    object
}

/// A change, as a merge patch.
pub(super) fn change(random: &mut Random, kind: Kind) -> Value {
    match random.below(10) {
        0 => json!({"metadata": {"labels": {"tier": random.one_of(&["1", "2"])}}}),
        1 => json!({"metadata": {"labels": {"tier": null}}}),
        2 => json!({"metadata": {"annotations": {"note": random.one_of(&["one", "two"])}}}),
        3 => {
            json!({"metadata": {"finalizers": random.one_of(&[json!(["example.org/hold"]), json!(null), json!([])])}})
        }
        4 => of_metadata(random),
        5 => of_kind(random, kind),
        6..=9 => content(random, kind),
        _ => json!({}),
    }
}

/// A JSON patch.
pub(super) fn operations(random: &mut Random) -> Value {
    let tier = random.one_of(&["1", "2"]);
    random.one_of(&[
        json!([{"op": "replace", "path": "/metadata/labels/tier", "value": tier}]),
        json!([{"op": "test", "path": "/metadata/labels/tier", "value": "1"},
               {"op": "replace", "path": "/metadata/labels/tier", "value": "2"}]),
        json!([{"op": "remove", "path": "/metadata/labels/missing"}]),
        json!([{"op": "add", "path": "/metadata/labels/more", "value": "x"}]),
        json!([{"op": "add", "path": "/metadata/labels/more~1slash", "value": "x"}]),
        json!([{"op": "remove", "path": "/metadata/finalizers"}]),
        json!([{"op": "copy", "from": "/metadata/labels/app", "path": "/metadata/labels/copied"}]),
        json!([{"op": "replace", "path": "/metadata/name", "value": "other"}]),
        json!([]),
        json!({"op": "add"}),
    ])
}

fn content(random: &mut Random, kind: Kind) -> Value {
    match kind {
        Kind::ConfigMap => random.one_of(&[
            json!({"data": {"k": "1"}}),
            json!({"data": {"k": "2", "l": ""}}),
            json!({"data": {}, "binaryData": {"b": "AAE="}}),
            json!({"data": {"k": "3"}, "immutable": true}),
            json!({}),
        ]),
        Kind::Secret => random.one_of(&[
            json!({"data": {"k": "AAE="}}),
            json!({"stringData": {"k": "text"}}),
            json!({"data": {"k": "AAE="}, "stringData": {"k": "wins", "l": ""}, "type": "Opaque"}),
            json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}),
            json!({"data": {"k": "AAI="}, "immutable": true}),
        ]),
        Kind::ServiceAccount => random.one_of(&[json!({}), json!({"automountServiceAccountToken": false})]),
        Kind::Service => random.one_of(&[
            json!({"spec": {"ports": [{"port": 2379}], "selector": {"app": "x"}}}),
            json!({"spec": {"ports": [{"name": "client", "port": 2379}, {"name": "peer", "port": 2380, "targetPort": "peer"}]}}),
            json!({"spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "selector": {"app": "x"},
                            "ports": [{"port": 2380}]}}),
            json!({"spec": {"clusterIP": "None"}}),
        ]),
        Kind::Claim => {
            let size = random.one_of(&["64Mi", "1Gi"]);
            let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
            if random.percent(30) {
                spec["storageClassName"] = json!(random.one_of(&["standard", "other", ""]));
            }
            json!({ "spec": spec })
        }
        Kind::Pod => pod(random),
        Kind::Lease => random.one_of(&[
            json!({"spec": {"holderIdentity": "one", "leaseDurationSeconds": 15, "leaseTransitions": 0}}),
            json!({"spec": {"holderIdentity": "two", "renewTime": "2024-02-03T04:05:06.789000Z"}}),
            json!({"spec": {}}),
        ]),
        Kind::Budget => {
            let selector = json!({"matchLabels": {"app": "x"}});
            random.one_of(&[
                json!({"spec": {"minAvailable": 1, "selector": selector}}),
                json!({"spec": {"minAvailable": 2, "selector": selector, "unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
                json!({"spec": {"minAvailable": 0, "selector": {"matchLabels": {"tier": "1"}}}}),
            ])
        }
        Kind::Job => job(random),
        Kind::EtcdCluster => {
            let size = random.one_of(&[0, 1, 3, 5]);
            let mut spec = json!({"size": size, "version": random.one_of(&["3.6.1", "v3.5.21"])});
            if random.percent(50) {
                spec["storageSpec"] = json!({"volumeSizeRequest": random.one_of(&["64Mi", "1Gi"])});
            }
            if random.percent(20) {
                spec["paused"] = json!(true);
            }
            json!({ "spec": spec })
        }
    }
}

/// A Job that no controller runs: another one than Kubernetes' own is to.
fn job(random: &mut Random) -> Value {
    let mut template = json!({"spec": {
        "restartPolicy": random.one_of(&["Never", "Never", "OnFailure"]),
        "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": "agent", "image": "quorate:1", "resources": {"limits": {"memory": "64Mi"}},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        }],
    }});
    if random.percent(30) {
        template["metadata"] = json!({"labels": {"app": "x"}});
        template["spec"]["serviceAccountName"] = json!("default");
        template["spec"]["volumes"] =
            json!([{"name": "scratch"}, {"name": "keys", "secret": {"secretName": "a"}}]);
    }
    let mut spec = json!({"managedBy": "example.org/nobody", "template": template});
    if random.percent(30) {
        spec["backoffLimit"] = json!(random.one_of(&[0, 3]));
    }
    if random.percent(30) {
        spec["activeDeadlineSeconds"] = json!(600);
        spec["ttlSecondsAfterFinished"] = json!(60);
    }
    if random.percent(20) {
        spec["parallelism"] = json!(2);
    }
    if random.percent(20) {
        let codes = json!({"operator": random.one_of(&["In", "NotIn"]), "values": [1, 2]});
        let rules = json!([{"action": "FailJob", "onExitCodes": codes},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]);
        spec["podFailurePolicy"] = json!({ "rules": rules });
    }
    if random.percent(20) {
        spec["suspend"] = json!(true);
    }
    json!({ "spec": spec })
}

/// A Pod that is never scheduled and never runs: no scheduler has that name, and no kubelet the name of the node.
fn pod(random: &mut Random) -> Value {
    let mut spec = json!({
        "schedulerName": "nobody",
        // A real API server adds a volume with the token; localkube has no tokens.
        "automountServiceAccountToken": false,
        "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": "etcd", "image": random.one_of(&["etcd:v3.6.1", "etcd:v3.6.2"]),
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        }],
    });
    if random.percent(30) {
        spec["nodeName"] = json!("$namespace");
    }
    if random.percent(30) {
        spec["terminationGracePeriodSeconds"] = json!(5);
    }
    if random.percent(30) {
        spec["containers"][0]["resources"] = random.one_of(&[
            json!({"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}}),
            json!({"limits": {"cpu": "1", "memory": "64Mi"}}),
        ]);
        spec["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": 9980, "path": "/readyz"}});
        spec["containers"][0]["ports"] = json!([{"containerPort": 2379, "name": "client"}]);
    }
    if random.percent(30) {
        spec["volumes"] = json!([{"name": "scratch"}, {"name": "tls", "secret": {"secretName": "a"}}]);
        spec["containers"][0]["volumeMounts"] = json!([{"name": "scratch", "mountPath": "/scratch"}]);
    }
    json!({ "spec": spec })
}

fn of_metadata(random: &mut Random) -> Value {
    let metadata = random.one_of(&[
        json!({"name": "Not A Name"}),
        json!({"name": "x".repeat(254)}),
        json!({"labels": {"tier": "not a value"}}),
        json!({"labels": {"a/b/c": "x"}}),
        json!({"labels": {"-": "x"}}),
        json!({"labels": {"tier": 1}}),
        json!({"annotations": {"not a key": "x"}}),
        json!({"finalizers": ["not qualified"]}),
        json!({"finalizers": ["unqualified"]}),
        json!({"resourceVersion": "1"}),
        json!({"namespace": "elsewhere"}),
        json!({"uid": "11111111-1111-1111-1111-111111111111"}),
        json!({"unknown": "x"}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}]}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "", "uid": "x"}]}),
        json!({"deletionTimestamp": "2024-02-03T04:05:06Z"}),
        json!({"generation": 7}),
    ]);
    json!({ "metadata": metadata })
}

fn of_kind(random: &mut Random, kind: Kind) -> Value {
    let wrong = match kind {
        Kind::ConfigMap => vec![
            json!({"data": {"not a key": "x"}}),
            json!({"data": {"k": 1}}),
            json!({"data": {"k": "x"}, "binaryData": {"k": "AAE="}}),
            json!({"binaryData": {"k": "not base64"}}),
        ],
        Kind::Secret => vec![
            json!({"data": {"not/a/key": "AAE="}}),
            json!({"data": {"k": "not base64"}}),
            json!({"type": "kubernetes.io/tls"}),
            json!({"type": "other"}),
        ],
        Kind::ServiceAccount => vec![json!({"secrets": "x"}), json!({"automountServiceAccountToken": "x"})],
        Kind::Service => vec![
            json!({"spec": {"ports": [], "clusterIP": null}}),
            json!({"spec": {"ports": [{"port": 0}]}}),
            json!({"spec": {"ports": [{"port": 1}, {"port": 2}]}}),
            json!({"spec": {"ports": [{"name": "x", "port": 1}, {"name": "x", "port": 2}]}}),
            json!({"spec": {"type": "Other"}}),
        ],
        Kind::Claim => vec![
            json!({"spec": {"accessModes": []}}),
            json!({"spec": {"accessModes": ["Other"]}}),
            json!({"spec": {"resources": {"requests": {"storage": "0"}}}}),
            json!({"spec": {"resources": {"requests": {"storage": "x"}}}}),
            json!({"spec": {"resources": null}}),
        ],
        Kind::Pod => vec![
            json!({"spec": {"containers": []}}),
            json!({"spec": {"containers": [{"name": "etcd"}]}}),
            json!({"spec": {"containers": [{"name": "c", "image": "c"}, {"name": "c", "image": "c"}]}}),
            json!({"spec": {"restartPolicy": "Sometimes"}}),
            json!({"spec": {"hostname": "a.b"}}),
            json!({"spec": {"priorityClassName": "x"}}),
            json!({"spec": {"containers": "x"}}),
        ],
        Kind::Lease => vec![
            json!({"spec": {"leaseDurationSeconds": 0}}),
            json!({"spec": {"leaseTransitions": -1}}),
            json!({"spec": {"renewTime": "yesterday"}}),
        ],
        Kind::Budget => vec![
            json!({"spec": {"minAvailable": 1, "maxUnavailable": 1}}),
            json!({"spec": {"minAvailable": -1}}),
            json!({"spec": {"minAvailable": "x"}}),
        ],
        Kind::Job => vec![
            json!({"spec": {"backoffLimit": -1}}),
            json!({"spec": {"completions": -1, "activeDeadlineSeconds": -1}}),
            json!({"spec": {"completionMode": "Other"}}),
            json!({"spec": {"completions": 7}}),
            json!({"spec": {"completionMode": "Indexed", "completions": null}}),
            json!({"spec": {"podReplacementPolicy": "Other"}}),
            json!({"spec": {"selector": {"matchLabels": {"app": "y"}}}}),
            json!({"spec": {"manualSelector": true, "selector": null}}),
            json!({"spec": {"template": {"metadata": {"labels": {"job-name": "other"}}}}}),
            json!({"spec": {"template": {"metadata": {"labels": {"app": "not a value"}}}}}),
            json!({"spec": {"template": {"spec": {"restartPolicy": "Always"}}}}),
            json!({"spec": {"template": {"spec": {"restartPolicy": "Sometimes"}}}}),
            json!({"spec": {"template": {"spec": {"containers": []}}}}),
            json!({"spec": {"template": {"spec": {"containers": "x"}}}}),
            json!({"spec": {"podFailurePolicy": {"rules": [{"action": "Ignore"}]}}}),
            json!({"spec": {"podFailurePolicy": {"rules": [
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0, 0], "containerName": "x"}},
                {"action": "Other", "onExitCodes": {"operator": "Other", "values": [2, 1]}},
            ]}}}),
        ],
        Kind::EtcdCluster => vec![
            json!({"spec": {"size": -1}}),
            json!({"spec": {"size": "three"}}),
            json!({"spec": {"size": null}}),
            json!({"spec": {"version": "latest"}}),
            json!({"spec": {"etcdOptions": ["--name=x"]}}),
            json!({"spec": {"unknown": 1}}),
            json!({"spec": {"tls": {"provider": "other"}}}),
            json!({"spec": {"storageSpec": {"volumeSizeRequest": "x"}}}),
        ],
    };
    let mut common = vec![json!({"apiVersion": "v7"}), json!({"unknown": {"x": 1}})];
    // For a custom resource a real Kubernetes also reports its CEL rules for an object without defaults.
    if kind != Kind::EtcdCluster {
        common.push(json!({"kind": "Other"}));
    }
    random.one_of(&[wrong.clone(), wrong, common].concat())
}

/// Applies a merge patch.
fn merge(object: &mut Value, change: &Value) {
    let Some(fields) = change.as_object() else { return change.clone_into(object) };
    for (key, value) in fields {
        if value.is_null() {
            object.as_object_mut().and_then(|fields| fields.remove(key));
        } else {
            merge(&mut object[key], value);
        }
    }
}
