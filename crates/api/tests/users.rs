//! Bad EtcdUsers are refused with a message that says what to do, and the sample passes.

use quorate_api::user::{MAX_USER_NAME_LENGTH, RESERVED_PREFIX, ROLE_PREFIX, ROOT};
use quorate_api::{EtcdUser, crd, crds_yaml};
use serde_json::{Value, json};

use crate::validation::judge;

fn schema() -> Value {
    let version = crd("EtcdUser").unwrap().spec.versions.remove(0);
    serde_json::to_value(version.schema.unwrap().open_api_v3_schema.unwrap()).unwrap()
}

fn user(name: &str, patch: &Value) -> Value {
    let mut spec =
        json!({"cluster": "demo", "permissions": [{"prefix": "/billing/", "access": "ReadWrite"}]});
    for (field, value) in patch.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdUser", "metadata": {"name": name}, "spec": spec})
}

fn permission(permission: &Value) -> Value {
    json!({"permissions": [permission]})
}

#[test]
fn a_bad_user_is_refused_and_says_why() {
    let one_of = "a permission must have exactly one of prefix, key and allKeys: true";
    let cases = [
        ("root", json!({}), "metadata.name must not be root or begin with quorate-"),
        ("quorate-client", json!({}), "metadata.name must not be root or begin with quorate-"),
        (&*"a".repeat(56), json!({}), "metadata.name must be at most 55 characters"),
        ("billing", permission(&json!({"access": "Read"})), one_of),
        ("billing", permission(&json!({"allKeys": false, "access": "Read"})), one_of),
        ("billing", permission(&json!({"prefix": "/a", "key": "/b", "access": "Read"})), one_of),
        ("billing", permission(&json!({"prefix": "/a", "allKeys": true, "access": "Read"})), one_of),
        ("billing", permission(&json!({"prefix": "", "access": "Read"})), "prefix must not be empty"),
        ("billing", permission(&json!({"key": "", "access": "Read"})), "key must not be empty"),
        (
            "billing",
            permission(&json!({"prefix": "\u{0}", "access": "Read"})),
            "prefix must not be empty or have control",
        ),
        (
            "billing",
            permission(&json!({"key": "/a\n", "access": "Read"})),
            "key must not be empty or have control",
        ),
        ("billing", permission(&json!({"prefix": "/a"})), "access: Required value"),
        ("billing", permission(&json!({"prefix": "/a", "access": "Delete"})), "Unsupported value"),
        ("billing", json!({"roles": ["reader", "root"]}), "roles must not have root"),
        (
            "billing",
            json!({"roles": ["quorate:01234567:other"]}),
            "roles must not have one that begins with quorate:",
        ),
        (
            "billing",
            json!({"authentication": {"password": {"secret": "own"}}}),
            "not supported yet: authentication.password",
        ),
        (
            "billing",
            json!({"authentication": {"certificate": {"validityDuration": "5m"}}}),
            "validityDuration must be",
        ),
        ("billing", json!({"deletionPolicy": "Keep"}), "Unsupported value"),
    ];
    for (name, patch, expected) in cases {
        let refused = judge::refusals(&schema(), None, &user(name, &patch));
        assert_eq!(refused.len(), 1, "{name} {patch}: {refused:?}");
        assert!(refused[0].contains(expected), "{name} {patch}: {refused:?}");
    }
}

#[test]
fn a_good_user_passes_and_moves_to_no_other_cluster() {
    let good = [
        json!({}),
        json!({"permissions": []}),
        permission(&json!({"allKeys": true, "access": "Read"})),
        json!({"roles": ["reader"], "deletionPolicy": "Retain"}),
        json!({"authentication": {"certificate": {"validityDuration": "30d12h"}}}),
        permission(&json!({"key": "/schlüssel", "access": "Write"})),
    ];
    let before = user("billing", &json!({}));
    for patch in good {
        let user = user("billing", &patch);
        assert_eq!(judge::refusals(&schema(), None, &user), Vec::<String>::new(), "{patch}");
        assert_eq!(judge::refusals(&schema(), Some(&before), &user), Vec::<String>::new(), "{patch}");
    }
    let moved = judge::refusals(&schema(), Some(&before), &user("billing", &json!({"cluster": "other"})));
    assert!(moved.len() == 1 && moved[0].contains("cluster cannot be changed"), "{moved:?}");
}

#[test]
fn the_sample_is_accepted_and_its_status_survives_the_types() {
    let mut sample: Value =
        serde_yaml_ng::from_str(include_str!("../../../config/samples/etcduser.yaml")).unwrap();
    sample["status"] = json!({
        "observedGeneration": 2, "username": "billing", "secretName": "billing-etcd", "binding": {"name": "billing-etcd"},
        "permissionsHash": "0123456789abcdef",
        "conditions": [{"type": "Ready", "status": "True", "reason": "UserReady", "message": "x",
            "lastTransitionTime": "2026-10-03T12:01:00Z"}],
    });
    assert_eq!(judge::refusals(&schema(), None, &sample), Vec::<String>::new());
    let read: EtcdUser = serde_json::from_value(sample.clone()).unwrap();
    assert_eq!(json!(read)["status"], sample["status"]);
    assert_eq!(json!(read)["spec"]["permissions"], sample["spec"]["permissions"]);
}

#[test]
fn the_sample_of_a_tenant_is_accepted() {
    let text = include_str!("../../../config/samples/hosting-shared.yaml").split("---").nth(1).unwrap();
    let sample: Value = serde_yaml_ng::from_str(text).unwrap();
    assert_eq!(judge::refusals(&schema(), None, &sample), Vec::<String>::new());
}

#[test]
fn the_constants_say_what_the_rules_say() {
    let printed = crds_yaml();
    assert!(printed.contains(&format!("size(self.metadata.name) <= {MAX_USER_NAME_LENGTH}\n")));
    assert!(printed.contains(&format!(
        "self.metadata.name != '{ROOT}' && !self.metadata.name.startsWith('{RESERVED_PREFIX}')"
    )));
    assert!(printed.contains(&format!("!role.startsWith('{ROLE_PREFIX}')")));
}
