//! `Ready` and `Stalled` in each state, and the statuses that other programs judge (`quorate-manifests` has those of an EtcdCluster).

use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::serde::Serialize;
use quorate_api::backup::{BackupPhase, EtcdBackupStatus};
use quorate_api::{EtcdCluster, EtcdUser, conditions, crd, keys};
use quorate_manifests::user::{NoSigner, Own, Presence};
use quorate_model::ObservedObject;
use quorate_model::certificate::Validity;
use quorate_model::snapshot::{LeafCertificate, LeafSecret};
use serde_json::{Value, json};

use super::*;
use crate::backup::{self, state};
use crate::{restore, schedule, user};

const NOW: Instant = Instant(1_800_000_000_000);
const SHA256: &str = "5555555555555555555555555555555555555555555555555555555555555555";

/// What tools see of an object, with a name for the situation.
type Case = (&'static str, Value, [&'static str; 3]);

#[expect(clippy::needless_pass_by_value, reason = "a literal of the test")]
fn object(kind: &str, spec: Value, status: Value) -> Value {
    json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": kind,
        "metadata": {"name": "one", "namespace": "default", "uid": "u1", "generation": 1, "creationTimestamp": "2027-01-15T08:00:00Z"},
        "spec": spec,
        "status": status,
    })
}

fn with(mut object: Value, status: &impl Serialize) -> Value {
    object["status"] = json!(status);
    object
}

/// As the API server fills it in.
fn unseen(kind: &str) -> Value {
    let schema = crd(kind).unwrap().spec.versions.remove(0).schema.unwrap().open_api_v3_schema.unwrap();
    schema.properties.unwrap()["status"].default.clone().unwrap().0
}

fn backups() -> Vec<Case> {
    let destination = json!({"s3": {"bucket": "b"}});
    let new = object(
        "EtcdBackup",
        json!({"source": {"cluster": "demo"}, "destination": destination}),
        unseen("EtcdBackup"),
    );
    let of = |phase, holds, reason, text: &str| -> EtcdBackupStatus {
        let backup: EtcdBackup = serde_json::from_value(new.clone()).unwrap();
        let status = backup.status.clone().unwrap_or_default();
        state(backup::Seen::only(&backup, NOW), status, phase, holds, &Explanation::new(reason, text))
    };
    let complete = of(
        BackupPhase::Complete,
        BackupCondition::Complete,
        Reason::BackupComplete,
        "s3://b/demo/one is in the store, and was read back",
    );
    // As a look writes it.
    let mut gone = complete.clone();
    let lost = Explanation::new(Reason::GoneFromStore, "s3://b/demo/one is not there any more");
    conditions::set(&mut gone.conditions, "InStore", false, &lost, Some(1), timestamp(NOW));
    let found: EtcdBackup = serde_json::from_value(with(new.clone(), &gone)).unwrap();
    super::backup(&found, &mut gone, NOW);
    let mut deleted = with(
        new.clone(),
        &of(
            BackupPhase::Deleting,
            BackupCondition::Failed,
            Reason::StoreForbidden,
            "its object cannot be removed: the store refuses the credentials",
        ),
    );
    deleted["metadata"]["deletionTimestamp"] = json!("2027-01-15T09:00:00Z");
    vec![
        ("etcdbackup-unseen", new.clone(), ["Unknown", "Pending", ""]),
        (
            "etcdbackup-pending",
            with(
                new.clone(),
                &of(
                    BackupPhase::Pending,
                    BackupCondition::Pending,
                    Reason::BackupQueued,
                    "EtcdBackup other comes first",
                ),
            ),
            ["False", "BackupQueued", "False"],
        ),
        (
            "etcdbackup-running",
            with(
                new.clone(),
                &of(
                    BackupPhase::Running,
                    BackupCondition::Running,
                    Reason::BackupRunning,
                    "Job backup-u1-1 takes it, attempt 1",
                ),
            ),
            ["False", "BackupRunning", "False"],
        ),
        ("etcdbackup-complete", with(new.clone(), &complete), ["True", "BackupComplete", "False"]),
        (
            "etcdbackup-failed",
            with(
                new.clone(),
                &of(
                    BackupPhase::Failed,
                    BackupCondition::Failed,
                    Reason::StoreForbidden,
                    "the store refuses the credentials",
                ),
            ),
            ["False", "StoreForbidden", "True"],
        ),
        ("etcdbackup-gone-from-store", with(new, &gone), ["False", "GoneFromStore", "True"]),
        ("etcdbackup-not-removed", deleted, ["False", "StoreForbidden", "True"]),
    ]
}

fn schedules() -> Vec<Case> {
    let case = |name, change: Value, before: Value, expected| {
        let mut spec = json!({
            "schedule": "0 0 * * *",
            "backupTemplate": {"spec": {"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "b"}}}},
        });
        for (field, value) in change.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let new = object("EtcdBackupSchedule", spec, before);
        let parsed: EtcdBackupSchedule = serde_json::from_value(new.clone()).unwrap();
        let seen =
            schedule::Seen { schedule: &parsed, backups: &[], others: &[], jobs: &[], clock: None, now: NOW };
        (name, with(new, &schedule::decide(seen).status), expected)
    };
    let unseen = object(
        "EtcdBackupSchedule",
        case("", json!({}), Value::Null, [""; 3]).1["spec"].clone(),
        unseen("EtcdBackupSchedule"),
    );
    vec![
        ("etcdbackupschedule-unseen", unseen, ["Unknown", "Pending", ""]),
        case("etcdbackupschedule-new", json!({}), Value::Null, ["True", "NoBackupYet", "False"]),
        case(
            "etcdbackupschedule-healthy",
            json!({}),
            json!({"lastSuccess": "2027-01-15T00:01:00Z"}),
            ["True", "BackupsHealthy", "False"],
        ),
        case(
            "etcdbackupschedule-suspended",
            json!({"suspend": true}),
            Value::Null,
            ["True", "Suspended", "False"],
        ),
        case(
            "etcdbackupschedule-failing",
            json!({}),
            json!({"consecutiveFailures": 2, "lastFailure": "2027-01-15T00:00:00Z"}),
            ["False", "BackupFailing", "False"],
        ),
        case(
            "etcdbackupschedule-unreadable",
            json!({"schedule": "0 0 30 2 *"}),
            Value::Null,
            ["False", "ScheduleInvalid", "True"],
        ),
    ]
}

fn restores() -> Vec<Case> {
    let spec = json!({"clusterName": "demo", "clusterID": "a1", "snapshot": {"bumpRevision": 1000, "source": {
        "destination": {"s3": {"bucket": "b"}}, "key": "k", "sha256": SHA256,
    }}});
    let by = json!({"etcdRestore": {"name": "one", "uid": "u1"}});
    let snapshot = json!({
        "source": {"destination": {"s3": {"bucket": "b"}}, "key": "k", "sha256": SHA256}, "bumpRevision": 1000, "revision": 7,
    });
    let case = |name, cluster: Value, expected| {
        let new = object("EtcdRestore", spec.clone(), unseen("EtcdRestore"));
        let parsed: EtcdRestore = serde_json::from_value(new.clone()).unwrap();
        let mut cluster = object("EtcdCluster", json!({"size": 3, "version": "3.6.16"}), cluster);
        cluster["metadata"]["creationTimestamp"] = json!("2027-01-01T08:00:00Z");
        let cluster: EtcdCluster = serde_json::from_value(cluster).unwrap();
        let status = restore::decide(restore::Seen {
            restore: &parsed,
            cluster: Some(&cluster),
            backup: None,
            backups: &[],
            jobs: &[],
            now: NOW,
        });
        (name, with(new, &status.status), expected)
    };
    let present = json!({"number": 1, "firstOrdinal": 3, "orderedBy": by, "replacedClusterID": "a1"});
    let available = json!([{"type": "Available", "status": "True", "reason": "Available", "message": "",
        "lastTransitionTime": "2027-01-15T00:00:00Z"}]);
    vec![
        (
            "etcdrestore-unseen",
            object("EtcdRestore", spec.clone(), unseen("EtcdRestore")),
            ["Unknown", "Pending", ""],
        ),
        case("etcdrestore-pending", json!({"clusterID": "a1"}), ["False", "OrderPending", "False"]),
        case(
            "etcdrestore-running",
            json!({"clusterID": "a1", "replacing": {
                "orderedBy": by, "clusterID": "a1", "restore": snapshot, "since": "2027-01-15T00:00:00.000000Z",
            }}),
            ["False", "RestoringInPlace", "False"],
        ),
        case(
            "etcdrestore-complete",
            json!({"clusterID": "b2", "incarnation": present, "bootstrap": {"attempt": 2, "restore": snapshot}, "conditions": available}),
            ["True", "RestoredInPlace", "False"],
        ),
        case("etcdrestore-failed", json!({"clusterID": "b2"}), ["False", "ClusterIDMismatch", "True"]),
    ]
}

fn cases() -> Vec<Case> {
    backups().into_iter().chain(schedules()).chain(restores()).chain(users()).collect()
}

fn users() -> Vec<Case> {
    let new = object(
        "EtcdUser",
        json!({"cluster": "demo", "permissions": [{"prefix": "/a/", "access": "Read"}]}),
        unseen("EtcdUser"),
    );
    let cluster: EtcdCluster = serde_json::from_value(object(
        "EtcdCluster",
        json!({"size": 3, "version": "3.6.16"}),
        json!({"clusterID": "8e9e05c52164694d"}),
    ))
    .unwrap();
    let parsed: EtcdUser = serde_json::from_value(new.clone()).unwrap();
    let role = user::role_name(&parsed);
    let state = |enabled, roles: Option<&[&str]>| {
        let own_role = user::permissions::desired(&parsed.spec.permissions);
        user::Etcd::Answered(user::AuthState {
            cluster_id: "8e9e05c52164694d".to_owned(),
            enabled,
            roles: roles.map(|roles| roles.iter().map(|role| (*role).to_owned()).collect()),
            own_role: Some(own_role),
            ..user::AuthState::default()
        })
    };
    let secret = Secret::default();
    let within = |etcd: &user::Etcd, exists: bool, allowed: Option<&[String]>| {
        let mut held = parsed.clone();
        held.metadata.finalizers = Some(vec![keys::USER_FINALIZER.to_owned()]);
        let validity = Validity { not_before: Instant(0), not_after: Instant(NOW.0 + 1) };
        let leaf = LeafCertificate {
            fingerprint: quorate_model::Fingerprint::new("leaf"),
            validity,
            signed_by: None,
            trusted: Vec::new(),
            lacks: Vec::new(),
            trust: 0,
            misnamed: None,
        };
        let leaf = Box::new(LeafSecret { observed: ObservedObject::new("s", "1"), content: Ok(leaf) });
        let own = Own { secret: &secret, leaf, matches: true, must_be_made_again: false, is_going: false };
        let decision = user::decide(&user::Seen {
            user: &held,
            cluster: Some(&cluster),
            etcd,
            secret: &if exists { Presence::Own(own) } else { Presence::Absent },
            key_fits: true,
            signer: Err(&NoSigner::NotYet("its client certificate does not exist".to_owned())),
            allowed,
            now: NOW,
        });
        with(new.clone(), &decision.status)
    };
    let of = |etcd: &user::Etcd, exists: bool| within(etcd, exists, None);
    let not_allowed = within(&state(true, Some(&[&role])), true, Some(&[]));
    let no_answer = user::Etcd::NoAnswer("demo-0: connection refused".to_owned());
    vec![
        ("etcduser-unseen", new.clone(), ["Unknown", "Pending", ""]),
        ("etcduser-ready", of(&state(true, Some(&[&role])), true), ["True", "UserReady", "False"]),
        (
            "etcduser-auth-disabled",
            of(&state(false, Some(&[&role])), true),
            ["True", "AuthDisabled", "False"],
        ),
        ("etcduser-being-made", of(&state(true, None), false), ["False", "UserPending", "False"]),
        ("etcduser-no-quorum", of(&no_answer, true), ["False", "ClusterNotServing", "False"]),
        ("etcduser-not-allowed", not_allowed, ["False", "PermissionNotAllowed", "True"]),
    ]
}

#[test]
fn ready_and_stalled_sum_up_each_state() {
    let mut wrong = Vec::new();
    for (name, object, expected) in cases() {
        let conditions = object["status"]["conditions"].as_array().unwrap();
        let find = |type_: &str| conditions.iter().find(|one| one["type"] == type_).unwrap_or(&Value::Null);
        let (ready, stalled) = (find("Ready"), find("Stalled"));
        let found =
            [&ready["status"], &ready["reason"], &stalled["status"]].map(|one| one.as_str().unwrap_or(""));
        if found != expected {
            wrong.push(format!("{name}: {ready} {stalled}"));
        }
        if !name.ends_with("-unseen") {
            assert_eq!(object["status"]["observedGeneration"], 1, "{name}");
            assert!(conditions.iter().all(|one| one["observedGeneration"] == 1), "{name}: {conditions:?}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_restore_that_ended_under_an_older_operator_gets_both_conditions_once() {
    for (name, object, expected) in cases() {
        let mut old = object.clone();
        old["status"].as_object_mut().unwrap().remove("observedGeneration");
        old["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .retain(|one| one["type"] != "Ready" && one["type"] != "Stalled");
        let status = |object: &Value| {
            let restore: EtcdRestore = serde_json::from_value(object.clone()).unwrap();
            let seen = restore::Seen {
                restore: &restore,
                cluster: None,
                backup: None,
                backups: &[],
                jobs: &[],
                now: NOW,
            };
            json!(restore::decide(seen).status)
        };
        let ended = matches!(old["status"]["phase"].as_str(), Some("Complete" | "Failed"));
        if !ended || !name.starts_with("etcdrestore-") {
            continue;
        }
        let once = status(&old);
        let ready = once["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Ready").unwrap();
        assert_eq!(
            (&ready["status"], &ready["reason"]),
            (&json!(expected[0]), &json!(expected[1])),
            "{name}"
        );
        assert_eq!(status(&with(old, &once)), once, "{name}: nothing is written twice");
    }
}

/// The other part of them comes from `quorate-manifests`.
#[test]
fn n10_a_release_with_other_words_writes_no_status_of_what_is_ready() {
    let why = Explanation::new(Reason::BackupComplete, "done");
    let mut conditions = Vec::new();
    sum_up(&mut conditions, Verdict::Ready, &why, Some(1), NOW);
    let stalled = conditions.iter_mut().find(|one| one.type_ == "Stalled").unwrap();
    stalled.message = "the words of the release before".to_owned();
    let before = conditions.clone();
    sum_up(&mut conditions, Verdict::Ready, &why, Some(1), NOW);
    assert_eq!(conditions, before);
    sum_up(&mut conditions, Verdict::Ready, &why, Some(2), NOW);
    assert!(conditions.iter().all(|one| one.observed_generation == Some(2)));
    sum_up(&mut conditions, Verdict::Stalled, &why, Some(2), NOW);
    sum_up(&mut conditions, Verdict::Ready, &why, Some(2), NOW);
    let stalled = conditions.iter().find(|one| one.type_ == "Stalled").unwrap();
    assert_eq!(stalled.status, "False", "it is not stalled any more");
}

#[test]
fn the_statuses_that_other_programs_judge_are_those_of_this_operator() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/scenarios/statuses");
    for (name, mut object, _) in cases() {
        for field in ["uid", "creationTimestamp"] {
            object["metadata"].as_object_mut().unwrap().remove(field);
        }
        let shown = ["observedGeneration", "phase", "conditions"];
        object["status"].as_object_mut().unwrap().retain(|field, _| shown.contains(&field.as_str()));
        let text = format!("{}\n", serde_json::to_string_pretty(&object).unwrap());
        let file = folder.join(format!("{name}.json"));
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            fs::write(&file, &text).unwrap();
        }
        let file = fs::read_to_string(&file).unwrap_or_default();
        assert!(file == text, "{name}: run it with INSTA_UPDATE=always and read the difference. Now: {text}");
    }
}
