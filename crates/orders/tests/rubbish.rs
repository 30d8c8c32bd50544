//! What others write: the answer of a Job is the termination message of a container, and a status may be anybody's. Whatever of them can be read is
//! decided on without a panic, in pass after pass, and no pass takes for ever.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use quorate_api::job::{
    Answer, BackupOrder, InspectOrder, ListOrder, Manifest, ReadOrder, RemoveOrder, Task as _,
};
use quorate_api::{EtcdBackup, EtcdBackupSchedule, EtcdCluster, EtcdRestore, EtcdUser};
use quorate_manifests::job::CONTAINER;
use quorate_manifests::user::{NoSigner, Presence};
use quorate_model::Instant;
use quorate_orders::{JobOutcome, backup, outcome, restore, schedule, user};
use quorate_rubbish::{ANSWERS, Chance, MANIFESTS, ORDERS, each_round, values};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NOW: Instant = Instant(1_800_000_000_000);
/// That of every object of the corpus.
const UID: &str = "u1";
/// Passes of a round: what the first one records is what the next one reads.
const PASSES: i64 = 4;

fn read<T: DeserializeOwned>(object: &Value) -> Option<T> {
    serde_json::from_value(object.clone()).ok()
}

/// The Jobs that an object may wait for, all ended with one answer.
fn jobs(object: &Value, message: &str, now: Instant) -> Vec<(Job, JobOutcome)> {
    let by_attempt = [
        BackupOrder::job_name::<u32>,
        RemoveOrder::job_name,
        ReadOrder::job_name,
        InspectOrder::job_name,
        ListOrder::job_name,
    ];
    let mut names: Vec<String> =
        by_attempt.iter().flat_map(|name| (1..=3).map(|attempt| name(UID, attempt))).collect();
    let recorded = |what: &str| object["status"][what]["jobName"].as_str().map(str::to_owned);
    names.extend(["test", "look"].into_iter().filter_map(recorded));
    let ended = |name: String| {
        let job: Job = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]},
        }))
        .unwrap();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name}]},
            "status": {"containerStatuses": [{
                "name": CONTAINER, "image": "a", "imageID": "a", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": 1, "message": message}},
            }]},
        }))
        .unwrap();
        let outcome = outcome(&job, [&pod].into_iter(), now);
        (job, outcome)
    };
    names.into_iter().map(ended).collect()
}

fn cluster() -> EtcdCluster {
    let member = |name: &str| json!({"name": name, "phase": "Voter", "phaseSince": "2026-10-03T12:00:00.000000Z", "role": "voter", "healthy": true});
    serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": "demo", "namespace": "default", "uid": "c1"},
        "spec": {"size": 3, "version": "3.6.16", "auth": {"enabled": true}},
        "status": {
            "clusterID": "a1", "members": [member("demo-0"), member("demo-1"), member("demo-2")],
            "conditions": [{"type": "QuorumAvailable", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-10-03T12:00:00Z"}],
        },
    }))
    .unwrap()
}

/// The status after a pass; `None` if the object cannot be read.
fn pass(
    object: &Value,
    others: &[EtcdBackup],
    cluster: &EtcdCluster,
    jobs: &[(Job, JobOutcome)],
    now: Instant,
) -> Option<Value> {
    let jobs: Vec<(&Job, JobOutcome)> = jobs.iter().map(|(job, outcome)| (job, outcome.clone())).collect();
    let others: Vec<&EtcdBackup> = others.iter().collect();
    match object["kind"].as_str()? {
        "EtcdBackup" => {
            let backup: EtcdBackup = read(object)?;
            let seen =
                backup::Seen { cluster: Some(cluster), jobs: &jobs, ..backup::Seen::only(&backup, now) };
            Some(json!(backup::decide(seen).status))
        }
        "EtcdBackupSchedule" => {
            let schedule: EtcdBackupSchedule = read(object)?;
            let seen = schedule::Seen {
                schedule: &schedule,
                backups: &others,
                others: &others,
                jobs: &jobs,
                clock: None,
                now,
            };
            Some(json!(schedule::decide(seen).status))
        }
        "EtcdRestore" => {
            let restore: EtcdRestore = read(object)?;
            let backup = others.first().copied();
            let seen = restore::Seen {
                restore: &restore,
                cluster: Some(cluster),
                backup,
                backups: &others,
                jobs: &jobs,
                now,
            };
            Some(json!(restore::decide(seen).status))
        }
        "EtcdUser" => {
            let one: EtcdUser = read(object)?;
            let etcd = user::Etcd::Answered(user::AuthState {
                cluster_id: "a1".to_owned(),
                enabled: true,
                ..Default::default()
            });
            let signer = NoSigner::NotYet("not in this test".to_owned());
            let seen = user::Seen {
                user: &one,
                cluster: Some(cluster),
                etcd: &etcd,
                secret: &Presence::Absent,
                key_fits: true,
                signer: Err(&signer),
                allowed: None,
                now,
            };
            Some(json!(user::decide(&seen).status))
        }
        other => panic!("{other}"),
    }
}

/// An EtcdBackup of the corpus with a damaged status, where that can be read.
fn other(chance: &mut Chance, orders: &[Value]) -> Option<EtcdBackup> {
    let mut object = chance.one_of(orders).clone();
    chance.damage_value(&mut object["status"], 2);
    object["metadata"]["annotations"] = json!({"operator.etcd.io/backup-schedule-uid": UID, "operator.etcd.io/scheduled-at": "2027-01-15T07:00:00Z"});
    (object["kind"] == "EtcdBackup").then(|| read(&object)).flatten()
}

#[test]
fn no_answer_of_a_job_and_no_status_makes_a_decision_panic_or_hang() {
    let (orders, answers, cluster) = (values(ORDERS), values(ANSWERS), cluster());
    let decided = std::cell::Cell::new(0_u64);
    let rounds = std::cell::Cell::new(0_u64);
    each_round(1000, 60, |chance| {
        rounds.set(rounds.get() + 1);
        let mut object = chance.one_of(&orders).clone();
        chance.damage_value(&mut object["status"], 3);
        let others: Vec<EtcdBackup> = (0..chance.below(4)).filter_map(|_| other(chance, &orders)).collect();
        for number in 0..PASSES {
            let mut answer = chance.one_of(&answers).clone();
            chance.damage_value(&mut answer, 2);
            let message = chance.text(&answer);
            let now = Instant(NOW.0 + number * 3_600_000);
            let Some(status) = pass(&object, &others, &cluster, &jobs(&object, &message, now), now) else {
                return;
            };
            object["status"] = status;
            decided.set(decided.get() + 1);
        }
    });
    assert!(decided.get() > rounds.get(), "only {} passes in {} rounds", decided.get(), rounds.get());
}

#[test]
fn the_corpus_is_read_as_what_it_is() {
    assert_eq!(values(ANSWERS).iter().filter(|answer| read::<Answer>(answer).is_none()).count(), 0);
    assert_eq!(values(MANIFESTS).iter().filter(|manifest| read::<Manifest>(manifest).is_none()).count(), 0);
    for object in values(ORDERS) {
        let status = pass(&object, &[], &cluster(), &[], NOW);
        let status = status.unwrap_or_else(|| panic!("{object}"));
        let dropped = object["status"].as_object().into_iter().flatten().find(|(field, _)| {
            let object: Value = match object["kind"].as_str() {
                Some("EtcdBackup") => json!(read::<EtcdBackup>(&object)),
                Some("EtcdBackupSchedule") => json!(read::<EtcdBackupSchedule>(&object)),
                Some("EtcdRestore") => json!(read::<EtcdRestore>(&object)),
                _ => json!(read::<EtcdUser>(&object)),
            };
            object["status"][field].is_null()
        });
        assert_eq!(dropped, None, "a field that status does not have: {status}");
    }
}
