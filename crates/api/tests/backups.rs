//! Bad EtcdBackups and EtcdBackupSchedules are refused with a message that says what to do, good ones pass: `backups.yaml`, case by case.

use quorate_api::backup::{BackupCondition, MAX_BACKUP_NAME_LENGTH};
use quorate_api::schedule::{MAX_SCHEDULE_NAME_LENGTH, ScheduleCondition};
use quorate_api::{EtcdBackup, EtcdBackupSchedule, crd, crds_yaml};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::validation::judge;

/// A case of `backups.yaml`, which says what is what.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "case")]
    title: String,
    #[serde(default = "backup")]
    kind: String,
    #[serde(default = "demo")]
    name: String,
    #[serde(default)]
    spec: Value,
    before: Option<Value>,
    /// Before and after.
    status: Option<Value>,
    #[serde(default)]
    refused: Vec<String>,
}

fn backup() -> String {
    "EtcdBackup".to_owned()
}

fn demo() -> String {
    "demo".to_owned()
}

fn schema(kind: &str) -> Value {
    let version = crd(kind).unwrap().spec.versions.remove(0);
    serde_json::to_value(version.schema.unwrap().open_api_v3_schema.unwrap()).unwrap()
}

fn object(case: &Case, patch: &Value) -> Value {
    let backup = json!({"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "bucket"}}});
    let mut spec = match case.kind.as_str() {
        "EtcdBackup" => backup,
        _ => json!({"schedule": "0 2 * * *", "backupTemplate": {"spec": backup}}),
    };
    for (field, value) in patch.as_object().into_iter().flatten() {
        if value.is_null() {
            spec.as_object_mut().unwrap().remove(field);
        } else {
            spec[field] = value.clone();
        }
    }
    let metadata = json!({"name": case.name});
    let mut object = json!({"apiVersion": "operator.etcd.io/v1alpha1", "kind": case.kind, "metadata": metadata, "spec": spec});
    if let Some(status) = &case.status {
        object["status"] = status.clone();
    }
    object
}

#[test]
fn every_bad_input_gets_its_message_and_every_good_one_passes() {
    let cases: Vec<Case> = serde_yaml_ng::from_str(include_str!("backups.yaml")).unwrap();
    let mut failures = Vec::new();
    for case in &cases {
        let before = case.before.as_ref().map(|before| object(case, before));
        let refusals = judge::refusals(&schema(&case.kind), before.as_ref(), &object(case, &case.spec));
        let mut unexpected = refusals.clone();
        for desired in &case.refused {
            match unexpected.iter().position(|refusal| refusal.contains(desired.as_str())) {
                Some(found) => drop(unexpected.remove(found)),
                None => {
                    failures.push(format!("{}: not refused with {desired:?} but {refusals:?}", case.title));
                }
            }
        }
        if !unexpected.is_empty() {
            failures.push(format!("{}: refused with {unexpected:?}", case.title));
        }
    }
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn the_samples_are_accepted_and_lose_nothing() {
    let page = include_str!("../../../docs/backup.md");
    for document in include_str!("../../../config/samples/etcdbackup.yaml").split("---\n") {
        if document.contains("kind: EtcdBackupSchedule") {
            assert!(page.contains(document.trim()), "docs/backup.md shows another EtcdBackupSchedule");
        }
        let written: Value = serde_yaml_ng::from_str(document).unwrap();
        let Some(kind) = written["kind"].as_str() else { continue };
        assert_eq!(judge::refusals(&schema(kind), None, &written), Vec::<String>::new());
        let read = match kind {
            "EtcdBackup" => json!(serde_json::from_value::<EtcdBackup>(written.clone()).unwrap()),
            _ => json!(serde_json::from_value::<EtcdBackupSchedule>(written.clone()).unwrap()),
        };
        let mut merged = read["spec"].clone();
        merge(&mut merged, &written["spec"]);
        assert_eq!(merged, read["spec"]);
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[test]
fn the_status_of_each_kind_survives_the_definition_and_the_types() {
    let status = json!({
        "phase": "Complete", "attempts": 2, "jobName": "backup-u-2", "started": "2026-10-03T12:00:00Z",
        "result": {
            "url": "s3://bucket/k", "key": "k", "size": "1.5Mi", "storedBytes": u64::MAX >> 1, "storedSha256": "a",
            "snapshotBytes": 4096, "snapshotSha256": "b", "compressed": true, "encrypted": false, "revision": i64::MAX,
            "etcdVersion": "3.6.16", "clusterID": "8e9e05c52164694d", "member": "demo-0",
            "started": "2026-10-03T12:00:00Z", "finished": "2026-10-03T12:01:00Z",
        },
        "conditions": [{"type": "Complete", "status": "True", "reason": "BackupComplete", "message": "x",
            "lastTransitionTime": "2026-10-03T12:01:00Z"}],
    });
    let case: Case = serde_json::from_value(json!({"case": "x"})).unwrap();
    let mut written = object(&case, &json!({}));
    written["status"] = status;
    assert_eq!(judge::refusals(&schema("EtcdBackup"), None, &written), Vec::<String>::new());
    let read: EtcdBackup = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(json!(read)["status"], written["status"]);

    let status = json!({
        "observedGeneration": 3, "lastScheduled": "2026-10-03T12:00:00Z", "lastSuccess": "2026-10-03T12:01:00Z",
        "next": "2026-10-04T12:00:00Z", "consecutiveFailures": 0, "active": ["a"], "lastTest": "2026-10-03T13:00:00Z",
        "test": {"backup": "a", "backupUid": "u", "jobName": "j"},
        "lastVerified": {"backup": "a", "time": "2026-10-03T13:01:00Z", "revision": 5, "keys": 4},
        "failedTests": [{"clusterID": "8e9e05c52164694d", "backup": "b", "scheduled": "2026-10-03T12:00:00Z",
            "time": "2026-10-03T13:01:00Z", "reason": "Mismatch"}],
    });
    let case: Case = serde_json::from_value(json!({"case": "x", "kind": "EtcdBackupSchedule"})).unwrap();
    let mut written = object(&case, &json!({}));
    written["status"] = status;
    assert_eq!(judge::refusals(&schema("EtcdBackupSchedule"), None, &written), Vec::<String>::new());
    let read: EtcdBackupSchedule = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(json!(read)["status"], written["status"]);
}

#[test]
fn the_constants_say_what_the_rules_say() {
    let printed = crds_yaml();
    for length in [MAX_BACKUP_NAME_LENGTH, MAX_SCHEDULE_NAME_LENGTH] {
        assert!(printed.contains(&format!("rule: size(self.metadata.name) <= {length}\n")));
    }
    assert_eq!(MAX_SCHEDULE_NAME_LENGTH + "-ab1212345678".len(), MAX_BACKUP_NAME_LENGTH);
    assert!(BackupCondition::ALL.iter().all(|one| one.as_str().starts_with(char::is_uppercase)));
    assert!(ScheduleCondition::ALL.iter().all(|one| one.as_str().starts_with(char::is_uppercase)));
}
