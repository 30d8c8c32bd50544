//! What is next for an EtcdBackup, in each of its states.

mod existing;
mod queue;
mod running;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use quorate_api::backup::{BackupCondition, BackupPhase};
use quorate_api::job::{Answer, Failure, FailureKind, Manifest};
use quorate_api::status::{LossCause, SuspectedLoss};
use quorate_api::{EtcdBackup, EtcdCluster, EtcdRestore, EtcdUser, Explanation, Reason, conditions};
use quorate_model::Instant;
use serde_json::{Value, json};

use super::decide::{Act, Decision, Seen, User, cut, decide, is_of, state};
use super::learned::learned;
use super::reach;
use crate::outcome::{JobOutcome, outcome};
use crate::time::timestamp;

const NOW: Instant = Instant(1_800_000_000_000);
const JOB: &str = "backup-u1-1";

#[expect(clippy::needless_pass_by_value, reason = "a literal of the test")]
fn backup(spec: Value, metadata: Value, status: Value) -> EtcdBackup {
    let mut object = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": "b", "namespace": "default", "uid": "u1", "finalizers": ["operator.etcd.io/backup-cleanup"]},
        "spec": {"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "bucket"}}},
        "status": status,
    });
    json_merge(&mut object["spec"], spec);
    json_merge(&mut object["metadata"], metadata);
    serde_json::from_value(object).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "a literal of the test")]
fn json_merge(into: &mut Value, from: Value) {
    for (field, value) in from.as_object().unwrap() {
        into[field] = value.clone();
    }
}

fn cluster(quorum: bool, spec: Value) -> EtcdCluster {
    let mut object = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": "demo", "namespace": "default", "uid": "c1"},
        "spec": {"size": 3, "version": "3.6.16"},
        "status": {
            "clusterID": "8e9e05c52164694d",
            "members": [
                {"name": "demo-0", "phase": "Voter", "phaseSince": "2026-10-03T12:00:00.000000Z", "role": "voter", "isLeader": true, "healthy": true},
                {"name": "demo-1", "phase": "Voter", "phaseSince": "2026-10-03T12:00:00.000000Z", "role": "voter", "healthy": false},
                {"name": "demo-2", "phase": "Voter", "phaseSince": "2026-10-03T12:00:00.000000Z", "role": "voter", "healthy": true},
                {"name": "demo-3", "phase": "Joining", "phaseSince": "2026-10-03T12:00:00.000000Z", "role": "learner", "healthy": true},
            ],
            "conditions": [{"type": "QuorumAvailable", "status": if quorum { "True" } else { "False" }, "reason": "X",
                "message": "", "lastTransitionTime": "2026-10-03T12:00:00Z"}],
        },
    });
    json_merge(&mut object["spec"], spec);
    serde_json::from_value(object).unwrap()
}

fn user(name: &str, cluster: &str) -> EtcdUser {
    serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdUser",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"cluster": cluster},
    }))
    .unwrap()
}

fn job(name: &str) -> Job {
    serde_json::from_value(json!({"metadata": {"name": name, "uid": "j1"}})).unwrap()
}

fn next(backup: &EtcdBackup, jobs: &[(&str, JobOutcome)]) -> Decision {
    let cluster = cluster(true, json!({}));
    let made: Vec<Job> = jobs.iter().map(|(name, _)| job(name)).collect();
    let jobs: Vec<_> = made.iter().zip(jobs).map(|(job, (_, outcome))| (job, outcome.clone())).collect();
    decide(Seen { cluster: Some(&cluster), jobs: &jobs, ..Seen::only(backup, NOW) })
}

/// The type, reason and message of the condition that holds.
fn holds(decision: &Decision) -> (String, String, String) {
    let sums_up = |type_: &str| type_ == "Ready" || type_ == "Stalled";
    let holds = decision.status.conditions.iter().filter(|one| one.status == "True" && !sums_up(&one.type_));
    let holds: Vec<_> = holds.collect();
    assert_eq!(holds.len(), 1, "{:?}", decision.status.conditions);
    (holds[0].type_.clone(), holds[0].reason.clone(), holds[0].message.clone())
}

fn running() -> Value {
    json!({"phase": "Running", "attempts": 1, "started": at(-60), "jobName": JOB})
}

/// So many seconds from now.
fn at(seconds: i64) -> String {
    Timestamp::from_millisecond(NOW.0 + seconds * 1000).unwrap().to_string()
}

fn failure(kind: FailureKind) -> JobOutcome {
    JobOutcome::Answered(Answer::Failed(Failure::new(kind, "so it was")))
}

fn answer(uid: &str) -> JobOutcome {
    let origin = quorate_api::job::Origin { backup_uid: uid.to_owned(), ..Default::default() };
    JobOutcome::Answered(Answer::BackedUp(Manifest {
        origin,
        key: "k".to_owned(),
        revision: 7,
        stored_bytes: 2048,
        ..Manifest::default()
    }))
}

#[test]
fn an_attempt_is_recorded_before_its_job_which_gets_the_best_members_first() {
    let none = backup(json!({}), json!({"finalizers": null}), Value::Null);
    assert_eq!(next(&none, &[]).act, Act::AddFinalizer);
    let fresh = backup(json!({"encryption": {"recipients": ["age1x"]}}), json!({}), Value::Null);
    let decision = next(&fresh, &[]);
    assert_eq!((decision.status.attempts, decision.status.job_name.as_deref()), (1, Some(JOB)));
    let Act::Backup { order, tls_secret, seconds } = &decision.act else { panic!("{decision:?}") };
    let members: Vec<&str> = order.endpoints.iter().map(|one| one.url.as_str()).collect();
    assert_eq!(
        members,
        [
            "https://demo-2.demo.default.svc:2379",
            "https://demo-0.demo.default.svc:2379",
            "https://demo-1.demo.default.svc:2379",
        ],
        "healthy followers, the leader, what is not healthy; no learner"
    );
    assert_eq!((tls_secret.as_deref(), *seconds), (Some("demo-client-tls"), 3600));
    assert_eq!(order.key, "default/demo/b-u1.db.zst.age");
    assert_eq!(order.origin.cluster_id.as_deref(), Some("8e9e05c52164694d"));

    // A crash after the record: the same attempt, the same Job.
    let recorded = backup(json!({}), json!({}), json!(decision.status));
    let again = next(&recorded, &[]);
    assert_eq!(again.status, decision.status);
    assert!(matches!(again.act, Act::Backup { .. }));
}

#[test]
fn what_prevents_an_attempt_is_waited_for_or_ends_it() {
    let decided = |cluster: Option<&EtcdCluster>, waits_for, spec| {
        let backup = backup(spec, json!({}), Value::Null);
        let decision = decide(Seen { cluster, waits_for, ..Seen::only(&backup, NOW) });
        assert_eq!(decision.status.attempts, u32::from(matches!(decision.act, Act::Backup { .. })));
        holds(&decision)
    };
    let reason = |holds: (String, String, String)| format!("{} {}", holds.0, holds.1);
    let (well, lost) = (cluster(true, json!({})), cluster(false, json!({})));
    assert_eq!(reason(decided(None, None, json!({}))), "Pending ClusterNotFound");
    assert_eq!(reason(decided(Some(&lost), None, json!({}))), "Pending ClusterNotServing");
    assert_eq!(reason(decided(Some(&lost), None, json!({"withoutQuorum": true}))), "Running BackupRunning");
    let queued = decided(Some(&well), Some("other"), json!({}));
    assert!(queued.2.contains("EtcdBackup other") && queued.1 == "BackupQueued", "{queued:?}");
    let narrow = cluster(true, json!({"backup": {"allowedStores": [{"url": "s3://bucket/etcd"}]}}));
    let refused = decided(Some(&narrow), None, json!({}));
    assert!(
        refused.0 == "Failed" && refused.1 == "DestinationNotAllowed" && refused.2.contains("s3://bucket/"),
        "{refused:?}"
    );
    let server = json!({"destination": {"s3": {
        "bucket": "bucket", "prefix": "etcd", "endpoint": "https://s3.example.com:9000", "credentialsSecret": {"name": "store"},
    }}});
    let refused = decided(Some(&narrow), None, server);
    assert!(
        refused.2.contains("s3://bucket/etcd/ with the endpoint https://s3.example.com:9000: add it"),
        "{refused:?}"
    );
    let external = json!({"source": {"endpoints": {"urls": ["http://e:2379"]}}});
    assert_eq!(reason(decided(None, None, external)), "Running BackupRunning");
}

#[test]
fn o09_data_that_differ_from_a_majority_are_not_backed_up_and_none_while_no_quorum_is_seen_to_agree() {
    let decided = |cluster: &EtcdCluster, spec| {
        let backup = backup(spec, json!({}), Value::Null);
        decide(Seen { cluster: Some(cluster), ..Seen::only(&backup, NOW) })
    };
    let since: MicroTime = serde_json::from_value(json!("2026-10-03T12:00:00.000000Z")).unwrap();
    let mut cluster = cluster(true, json!({}));
    cluster.status.as_mut().unwrap().data_differ_since = Some(since.clone());
    let (state, reason, _) = holds(&decided(&cluster, json!({})));
    assert_eq!((&*state, &*reason), ("Pending", "DataInconsistent"));
    assert_eq!(holds(&decided(&cluster, json!({"withoutQuorum": true}))).0, "Running", "a person ordered it");

    // A quorum is seen to agree: of two of its members, although the third cannot be compared.
    let endpoints = |decision: &Decision| {
        let Act::Backup { order, .. } = &decision.act else { panic!("{decision:?}") };
        order.endpoints.iter().map(|one| one.member.clone()).collect::<Vec<_>>()
    };
    let status = cluster.status.as_mut().unwrap();
    status.data_agreed_by = vec!["demo-0".to_owned(), "demo-1".to_owned()];
    assert_eq!(endpoints(&decided(&cluster, json!({}))), ["demo-0", "demo-1"]);
    let saved = endpoints(&decided(&cluster, json!({"withoutQuorum": true})));
    assert_eq!(saved.len(), 3, "a person may save what the third one has: {saved:?}");

    let status = cluster.status.as_mut().unwrap();
    status.data_agreed_by.clear();
    (status.members[1].healthy, status.members[1].reason) = (false, Some("CrashLoopBackOff".to_owned()));
    let (_, _, message) = holds(&decided(&cluster, json!({})));
    assert!(
        message.contains("demo-1: CrashLoopBackOff") && message.contains("withoutQuorum: true"),
        "{message}"
    );

    let wrong = &mut cluster.status.as_mut().unwrap().members[2];
    assert!(wrong.healthy, "it is the first otherwise");
    wrong.suspected = Some(SuspectedLoss { cause: LossCause::Inconsistent, since, rechecked_pod_uid: None });
    let decision = decided(&cluster, json!({}));
    let Act::Backup { order, .. } = &decision.act else { panic!("{decision:?}") };
    let members: Vec<&str> = order.endpoints.iter().map(|one| one.member.as_str()).collect();
    assert_eq!(members, ["demo-0", "demo-1"]);
}

#[test]
fn a_cluster_bounds_its_backups_also_where_they_name_its_members_as_endpoints() {
    let of = |urls: &[&str], secret: &str| {
        let endpoints = json!({"urls": urls, "tlsSecret": {"name": secret}});
        backup(json!({"source": {"endpoints": endpoints}}), json!({}), Value::Null)
    };
    let given = json!({"provider": "auto", "providerCfg": {"autoCfg": {"caBundleSecret": "given"}}});
    let narrow = json!({"backup": {"allowedStores": [{"url": "s3://bucket/etcd"}]}, "tls": given});
    let narrow = cluster(true, narrow);
    let mut elsewhere = user("elsewhere", "demo");
    elsewhere.metadata.namespace = Some("other".to_owned());
    let users = [user("billing", "demo"), user("shop", "shop"), elsewhere];
    let outside = "https://etcd.example.com:2379";
    let table = [
        (outside, "own", false),
        ("https://demo-0.demo.other.svc:2379", "own", false),
        ("https://demo.example.com:2379", "own", false),
        (outside, "demo-client-tls", true),
        (outside, "demo-server-tls", true),
        (outside, "demo-peer-tls", true),
        (outside, "demo-operator-tls", true),
        (outside, "demo-root-client-tls", true),
        (outside, "demo-client-issued", true),
        (outside, "demo-connection", true),
        (outside, "billing-etcd", true),
        (outside, "billing", false),
        (outside, "shop-etcd", false),
        (outside, "elsewhere-etcd", false),
        (outside, "given", true),
        ("https://demo-0.demo.default.svc:2379", "own", true),
        ("https://demo-0.demo.default.svc.cluster.local:2379", "own", true),
        ("https://demo-0.demo:2379", "own", true),
        ("https://DEMO-client.default:2379", "own", true),
    ];
    for (url, secret, desired) in table {
        let backup = of(&[outside, url], secret);
        let refusing = reach::refusing(&backup, [&narrow], &users);
        assert_eq!(refusing.is_some(), desired, "{url} {secret}");
        assert!(reach::refusing(&backup, [&cluster(true, json!({}))], &users).is_none(), "it bounds nothing");
        let seen = Seen { refusing, ..Seen::only(&backup, NOW) };
        let reason = holds(&decide(seen)).1;
        assert_eq!(reason, if desired { "DestinationNotAllowed" } else { "BackupRunning" }, "{url} {secret}");
    }
}

#[test]
fn the_answer_of_a_job_decides() {
    let retried = "Pending RetryPending";
    let table = [
        (JobOutcome::Running(None), "Running BackupRunning"),
        (JobOutcome::Running(Some("Pod p is not scheduled".to_owned())), "Running BackupRunning"),
        (answer("u1"), "Complete BackupComplete"),
        (answer("u2"), "Failed ObjectNotOwned"),
        (failure(FailureKind::NoSource), retried),
        (failure(FailureKind::SnapshotFailed), retried),
        (failure(FailureKind::TooSlow), retried),
        (failure(FailureKind::StoreUnavailable), retried),
        (failure(FailureKind::NoSpace), retried),
        (JobOutcome::Lost("its Pod is gone".to_owned()), retried),
        (failure(FailureKind::OrderRefused), "Failed OrderRefused"),
        (failure(FailureKind::StoreForbidden), "Failed StoreForbidden"),
        (failure(FailureKind::NotInStore), "Failed NotInStore"),
        (failure(FailureKind::Mismatch), "Failed ChecksumMismatch"),
        (failure(FailureKind::CannotDecrypt), "Failed CannotDecrypt"),
        (failure(FailureKind::LimitTooLow), "Failed RateLimitTooLow"),
        (failure(FailureKind::NotOurs), "Failed ObjectNotOwned"),
        (failure(FailureKind::Unfit), "Failed SnapshotIncompatible"),
        (JobOutcome::Answered(Answer::Removed), "Failed JobFailed"),
    ];
    for (outcome, desired) in table {
        let backup = backup(json!({}), json!({}), running());
        let decision = next(&backup, &[(JOB, outcome.clone())]);
        let (type_, reason, message) = holds(&decision);
        assert_eq!(format!("{type_} {reason}"), desired, "{outcome:?}: {message}");
        assert_eq!(decision.status.result.is_some(), desired.starts_with("Complete"));
        assert_eq!(decision.status.next_attempt.is_some(), desired == retried);
    }
    let complete = next(&backup(json!({}), json!({}), running()), &[(JOB, answer("u1"))]);
    let result = complete.status.result.unwrap();
    assert_eq!((result.url.as_str(), result.size.as_str(), result.revision), ("s3://bucket/k", "2Ki", 7));
}

#[test]
fn o08_an_attempt_that_was_too_slow_makes_the_next_one_write_to_a_volume_first() {
    let slow = Failure { database_bytes: Some(10 << 30), ..Failure::new(FailureKind::TooSlow, "slow") };
    let decision =
        next(&backup(json!({}), json!({}), running()), &[(JOB, JobOutcome::Answered(Answer::Failed(slow)))]);
    assert_eq!(decision.status.scratch_bytes, Some(12 << 30));
    assert!(decision.status.too_slow_since.is_some());
    let mut again = running();
    again["scratchBytes"] = json!(12_u64 << 30);
    again["nextAttempt"] = json!(at(-1));
    for (status, spools) in [(again, true), (json!({}), false)] {
        let decision = next(&backup(json!({}), json!({}), status), &[]);
        let Act::Backup { order, .. } = decision.act else { panic!("{decision:?}") };
        assert_eq!(order.spool, spools);
    }
    let broken =
        next(&backup(json!({}), json!({}), running()), &[(JOB, failure(FailureKind::SnapshotFailed))]);
    assert_eq!(broken.status.scratch_bytes, None, "another try may be fast enough");
}

#[test]
fn o08_a_later_backup_begins_with_the_volume_that_an_earlier_one_needed() {
    let day = 24 * 3600;
    let earlier = |bucket: &str, since: i64| {
        let result = json!({ "snapshotBytes": 20_u64 << 30 });
        let status = json!({ "phase": "Complete", "scratchBytes": 12_u64 << 30, "tooSlowSince": at(since), "result": result });
        let spec = json!({ "destination": { "s3": { "bucket": bucket } } });
        backup(spec, json!({ "name": "a", "uid": "u0" }), status)
    };
    let own = backup(json!({}), json!({}), json!({}));
    let learned = |other: &EtcdBackup| learned(&own, [other, &own].into_iter(), NOW);
    let found = learned(&earlier("bucket", -6 * day)).unwrap();
    assert_eq!(found.bytes, 24 << 30, "the database has grown");
    assert_eq!(learned(&earlier("another", -day)), None);
    assert_eq!(learned(&earlier("bucket", -8 * day)), None, "once a week it is tried without");

    // Recorded before the Job, whose volume and order go by the status.
    let recorded = decide(Seen {
        learned: Some(found),
        cluster: Some(&cluster(true, json!({}))),
        ..Seen::only(&own, NOW)
    });
    assert_eq!((recorded.status.scratch_bytes, recorded.status.attempts), (Some(24 << 30), 0));
    assert_eq!(
        recorded.status.too_slow_since.as_ref().map(|time| time.0.as_millisecond()),
        Some(found.since.0)
    );
    let begun = EtcdBackup { status: Some(recorded.status), ..own.clone() };
    let begun = decide(Seen {
        learned: Some(found),
        cluster: Some(&cluster(true, json!({}))),
        ..Seen::only(&begun, NOW)
    });
    let Act::Backup { order, .. } = begun.act else { panic!("{begun:?}") };
    assert!(order.spool && begun.status.attempts == 1);
}

#[test]
fn o08_the_limit_of_a_backup_is_in_its_order_with_the_time_that_is_left() {
    for (spec, limit, left) in [
        (json!({ "rateLimit": "20Mi", "deadline": "10m" }), Some(20 << 20), Some(600)),
        (json!({ "deadline": "10m" }), None, None),
    ] {
        let decision = next(&backup(spec, json!({}), json!({})), &[]);
        let Act::Backup { order, seconds, .. } = decision.act else { panic!("{decision:?}") };
        assert_eq!((order.rate_limit, order.seconds, seconds), (limit, left, 600));
    }
}

#[test]
fn o10_a_backup_whose_pod_was_never_admitted_says_so_when_its_time_is_over() {
    let refused = "no Pod of Job j is admitted: exceeded quota: small".to_owned();
    let late = backup(json!({ "deadline": "1s" }), json!({}), running());
    let (type_, reason, message) = holds(&next(&late, &[(JOB, JobOutcome::Running(Some(refused)))]));
    assert_eq!((&*type_, &*reason), ("Failed", "DeadlineExceeded"));
    assert!(message.contains("exceeded quota: small"), "{message}");
}

#[test]
fn attempts_end_with_retries_and_with_the_deadline() {
    let lost = || [(JOB, failure(FailureKind::StoreUnavailable))];
    let once = backup(json!({"retries": 0}), json!({}), running());
    assert_eq!(holds(&next(&once, &lost())).1, "StoreUnavailable");
    let short = backup(json!({"deadline": "80s"}), json!({}), running());
    assert_eq!(holds(&next(&short, &lost())).0, "Failed", "the next attempt would begin after the deadline");
    let late = backup(json!({"deadline": "60s"}), json!({}), running());
    let decision = next(&late, &[(JOB, JobOutcome::Running(None))]);
    assert_eq!(holds(&decision).1, "DeadlineExceeded");
    assert_eq!(holds(&next(&late, &[])).1, "DeadlineExceeded", "also when its Job is gone");

    let mut rests = running();
    rests["phase"] = json!("Pending");
    rests["nextAttempt"] = json!(at(30));
    let resting = backup(json!({}), json!({}), rests.clone());
    assert_eq!(
        next(&resting, &lost()).act,
        Act::DeleteJob(JOB.to_owned()),
        "the Job of the failed attempt goes first"
    );
    assert_eq!(next(&resting, &[]).act, Act::Wait(Some(Instant(NOW.0 + 30_000))));
    rests["nextAttempt"] = json!(at(0));
    let due = next(&backup(json!({}), json!({}), rests), &[]);
    assert_eq!(due.status.job_name.as_deref(), Some("backup-u1-2"));
    assert_eq!(
        due.status.started.unwrap().0.as_millisecond(),
        NOW.0 - 60_000,
        "the deadline counts from the first attempt"
    );
}

#[test]
fn the_job_of_an_attempt_that_the_view_lacks_is_not_deleted_with_its_answer() {
    let unseen = backup(json!({}), json!({}), Value::Null);
    let mut seen = job(JOB);
    let mut created_ago = |seconds: i64| {
        seen.metadata.creation_timestamp = serde_json::from_value(json!(at(-seconds))).unwrap();
        decide(Seen { jobs: &[(&seen, answer("u1"))], ..Seen::only(&unseen, NOW) }).act
    };
    assert_eq!(created_ago(10), Act::Wait(Some(Instant(NOW.0 + 50_000))), "an old view");
    assert_eq!(created_ago(60), Act::DeleteJob(JOB.to_owned()), "a status that was lost");
    assert_eq!(created_ago(-10), Act::DeleteJob(JOB.to_owned()), "by clocks that differ nothing waits");
}

#[test]
fn what_has_ended_keeps_its_finalizer_only_for_an_object_that_goes_with_it() {
    let ended = json!({"phase": "Complete", "attempts": 1, "jobName": JOB});
    let kept = backup(json!({}), json!({}), ended.clone());
    assert_eq!(next(&kept, &[(JOB, answer("u1"))]).act, Act::DeleteJob(JOB.to_owned()));
    assert_eq!(next(&kept, &[]).act, Act::RemoveFinalizer);
    let goes = backup(json!({"deletionPolicy": "Delete"}), json!({}), ended);
    assert_eq!(next(&goes, &[]).act, Act::Rest);
}

#[test]
fn n10_of_a_backup_that_has_ended_what_is_read_stays_and_no_status_is_written_for_the_rest() {
    let why = Explanation::new(Reason::BackupComplete, "it is in the store");
    let new = backup(json!({"deletionPolicy": "Delete"}), json!({}), json!({"attempts": 1, "jobName": JOB}));
    let seen = Seen::only(&new, NOW);
    let of = |phase, holds| state(seen, new.status.clone().unwrap(), phase, holds, &why);
    let types = |backup: &EtcdBackup| -> Vec<String> {
        backup.status.iter().flat_map(|status| &status.conditions).map(|one| one.type_.clone()).collect()
    };
    for (phase, holds) in
        [(BackupPhase::Complete, BackupCondition::Complete), (BackupPhase::Failed, BackupCondition::Failed)]
    {
        let mut ended = EtcdBackup { status: Some(of(phase, holds)), ..new.clone() };
        let conditions = &mut ended.status.as_mut().unwrap().conditions;
        conditions::set(conditions, BackupCondition::InStore.as_str(), false, &why, None, timestamp(NOW));
        cut(&mut ended);
        assert_eq!(types(&ended), [holds.as_str(), "InStore"]);
        let decision = next(&ended, &[]);
        assert_eq!((decision.act, Some(decision.status)), (Act::Rest, ended.status.clone()));
    }
    let mut runs =
        EtcdBackup { status: Some(of(BackupPhase::Running, BackupCondition::Running)), ..new.clone() };
    let whole = runs.clone();
    cut(&mut runs);
    assert_eq!(runs, whole);
    // What follows it needs all of them.
    let mut going = whole;
    going.status = Some(of(BackupPhase::Complete, BackupCondition::Complete));
    going.metadata.deletion_timestamp = serde_json::from_value(json!(at(0))).unwrap();
    let whole = going.clone();
    cut(&mut going);
    assert_eq!(going, whole);
}

#[test]
fn a_deletion_stops_the_job_then_removes_the_object_and_has_a_way_out() {
    let going = |policy: &str, status: Value, annotations: Value| {
        let metadata = json!({"deletionTimestamp": at(0), "annotations": annotations});
        backup(json!({"deletionPolicy": policy}), metadata, status)
    };
    let retained = going("Retain", running(), json!({}));
    assert_eq!(next(&retained, &[(JOB, JobOutcome::Running(None))]).act, Act::DeleteJob(JOB.to_owned()));
    assert_eq!(next(&retained, &[]).act, Act::RemoveFinalizer);
    assert_eq!(
        next(&going("Delete", json!({}), json!({})), &[]).act,
        Act::RemoveFinalizer,
        "nothing was begun"
    );

    let deleted = going("Delete", running(), json!({}));
    let seen = Seen { running_pods: 1, ..Seen::only(&deleted, NOW) };
    assert_eq!(decide(seen).act, Act::Wait(None), "its Pod could still write the object");
    for (user, named) in [
        (User::Cluster("restored".to_owned()), "EtcdCluster restored"),
        (User::Restore("back".to_owned()), "waits for EtcdRestore back"),
    ] {
        let used = decide(Seen { used_by: Some(&user), running_pods: 0, ..seen });
        assert_eq!((&used.act, used.status.removals), (&Act::Wait(None), 0), "{user:?} still needs it");
        assert!(holds(&used).2.contains(named), "{:?}", holds(&used));
    }
    let first = next(&deleted, &[]);
    assert_eq!((first.status.removals, &first.act), (1, &Act::Remove));
    let removing = json!(first.status);
    let name = "remove-backup-u1-1";
    let now = |outcome| next(&going("Delete", removing.clone(), json!({})), &[(name, outcome)]);
    assert_eq!(now(JobOutcome::Answered(Answer::Removed)).act, Act::RemoveFinalizer);
    assert_eq!(now(failure(FailureKind::NotInStore)).act, Act::RemoveFinalizer);
    let left = now(failure(FailureKind::NotOurs));
    assert_eq!(left.act, Act::RemoveFinalizer);
    assert_eq!(left.event.unwrap().1.reason().as_str(), "ObjectAbandoned", "it is not left in silence");
    assert_eq!(now(JobOutcome::Running(None)).act, Act::Wait(None));
    let stuck = now(failure(FailureKind::StoreForbidden));
    let (type_, reason, message) = holds(&stuck);
    assert_eq!((type_.as_str(), reason.as_str()), ("Failed", "StoreForbidden"));
    assert!(message.contains("operator.etcd.io/abandon-object=true"), "{message}");
    let abandon = json!({"operator.etcd.io/abandon-object": "true"});
    let out = next(&going("Delete", json!(stuck.status), abandon), &[]);
    assert_eq!(out.act, Act::RemoveFinalizer);
    assert!(out.event.unwrap().1.message().contains("s3://bucket/default/demo/b-u1.db.zst"));
}

#[test]
fn an_order_to_restore_needs_its_backup_until_it_is_over_or_withdrawn() {
    let needed = |metadata: Value, status: Value| {
        let order: EtcdRestore = serde_json::from_value(json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdRestore", "metadata": metadata,
            "spec": {"clusterName": "demo", "clusterID": "a1", "snapshot": {"backupRef": {"name": "b"}}},
            "status": status,
        }))
        .unwrap();
        order.needs().and_then(|needed| needed.backup).map(std::borrow::Cow::into_owned)
    };
    for phase in [None, Some("Pending"), Some("Running"), Some("OfANewerOperator")] {
        assert_eq!(needed(json!({}), json!({"phase": phase})).as_deref(), Some("b"), "{phase:?}");
        assert_eq!(needed(json!({"deletionTimestamp": at(0)}), json!({"phase": phase})), None, "{phase:?}");
    }
    for phase in ["Complete", "Failed"] {
        assert_eq!(needed(json!({}), json!({"phase": phase})), None, "{phase}");
    }
}

#[test]
fn a_job_is_read_by_its_pod_and_else_by_its_conditions() {
    let pod = |message: &str| {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j1"}]},
            "status": {"containerStatuses": [{"name": "agent", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": 1, "message": message}}}]},
        }))
        .unwrap()
    };
    let failed: Job = serde_json::from_value(json!({
        "metadata": {"name": "j", "uid": "j1"},
        "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]},
    }))
    .unwrap();
    let text = serde_json::to_string(&Answer::Removed).unwrap();
    assert_eq!(outcome(&job("j"), [pod(&text)].iter(), NOW), JobOutcome::Answered(Answer::Removed));
    assert_eq!(
        outcome(&job("j"), [pod("panicked")].iter(), NOW),
        JobOutcome::Running(None),
        "the Job has not ended yet"
    );
    let JobOutcome::Lost(lost) = outcome(&failed, [pod("panicked")].iter(), NOW) else { panic!() };
    assert!(lost.contains("panicked") && lost.contains("BackoffLimitExceeded"), "{lost}");
    let JobOutcome::Lost(lost) = outcome(&failed, [].iter(), NOW) else { panic!() };
    assert!(lost.contains("its Pod is gone"), "{lost}");
    let ended = |seconds: i64| {
        let mut ended = failed.clone();
        let condition = &mut ended.status.as_mut().unwrap().conditions.as_mut().unwrap()[0];
        condition.last_transition_time = Some(serde_json::from_value(json!(at(seconds))).unwrap());
        ended
    };
    let silent: k8s_openapi::api::core::v1::Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j1"}]},
    }))
    .unwrap();
    for pods in [vec![], vec![silent]] {
        assert_eq!(outcome(&ended(-10), pods.iter(), NOW), JobOutcome::Running(None), "its Pod follows");
        let late = outcome(&ended(-61), pods.iter(), NOW);
        assert!(matches!(late, JobOutcome::Lost(_)), "{late:?}");
    }
    let panicked = outcome(&ended(-10), [pod("panicked")].iter(), NOW);
    assert!(matches!(panicked, JobOutcome::Lost(_)), "{panicked:?}");
    let mut young = job("j");
    let created = |seconds: i64| serde_json::from_value(json!(at(seconds))).unwrap();
    young.metadata.creation_timestamp = Some(created(-20));
    assert_eq!(outcome(&young, [].iter(), NOW), JobOutcome::Running(None), "its Pod follows");
    young.metadata.creation_timestamp = Some(created(-40));
    let JobOutcome::Running(Some(missing)) = outcome(&young, [].iter(), NOW) else { panic!() };
    assert_eq!(missing, "no Pod of Job j exists yet: kubectl describe job j");
    let mut other = job("j");
    other.metadata.uid = Some("j2".to_owned());
    assert_eq!(
        outcome(&other, [pod(&text)].iter(), NOW),
        JobOutcome::Running(None),
        "the Pod of another Job"
    );
}

#[test]
fn o07_the_volume_of_a_member_is_no_destination() {
    let to = |claim: &str| {
        let destination = json!({"s3": null, "pvc": {"claimName": claim}});
        backup(json!({"destination": destination}), json!({}), Value::Null)
    };
    let mut other = cluster(true, json!({}));
    other.metadata.namespace = Some("other".to_owned());
    let own = cluster(true, json!({}));
    assert!(reach::owner_of_claim(&to("demo-0"), [&other]).is_none());
    assert!(reach::owner_of_claim(&to("backups"), [&own]).is_none());
    let backup = to("demo-17");
    let owner_of_claim = reach::owner_of_claim(&backup, [&other, &own]);
    let decision = decide(Seen { cluster: Some(&own), owner_of_claim, ..Seen::only(&backup, NOW) });
    let (type_, reason, message) = holds(&decision);
    assert_eq!((&*type_, &*reason), ("Failed", "DestinationNotAllowed"));
    assert!(message.contains("a member of EtcdCluster demo: choose another claim"), "{message}");
    assert!(!matches!(decision.act, Act::Backup { .. }));
}

#[test]
fn o07_a_restore_test_that_could_not_fetch_its_backup_answers_by_the_container_that_fetches() {
    let answer = Answer::Failed(Failure::new(FailureKind::StoreForbidden, "no"));
    let pod = |fetch: Value, test: Value| {
        serde_json::from_value::<k8s_openapi::api::core::v1::Pod>(json!({
            "metadata": {"name": "p", "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j1"}]},
            "status": {
                "initContainerStatuses": [{"name": "fetch", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": fetch}],
                "containerStatuses": [{"name": "agent", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": test}],
            },
        }))
        .unwrap()
    };
    let of = |fetch: Value, test: Value| outcome(&job("j"), [pod(fetch, test)].iter(), NOW);
    let waiting = json!({"waiting": {"reason": "PodInitializing"}});
    let failed = json!({"terminated": {"exitCode": 2, "message": serde_json::to_string(&answer).unwrap()}});
    assert_eq!(of(failed, waiting.clone()), JobOutcome::Answered(answer));
    assert_eq!(of(json!({"running": {}}), waiting.clone()), JobOutcome::Running(None));
    let pulling = json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}});
    let JobOutcome::Running(Some(stuck)) = of(pulling.clone(), waiting) else { panic!() };
    assert!(stuck.contains("ErrImagePull not found"), "{stuck}");
    let fetched = json!({"terminated": {"exitCode": 0}});
    let tested =
        json!({"terminated": {"exitCode": 0, "message": serde_json::to_string(&Answer::Removed).unwrap()}});
    assert_eq!(of(fetched.clone(), tested), JobOutcome::Answered(Answer::Removed));
    let JobOutcome::Running(Some(stuck)) = of(fetched, pulling) else { panic!() };
    assert!(stuck.contains("ErrImagePull"), "{stuck}");
}

#[test]
fn only_pods_of_its_own_jobs_hold_up_the_removal() {
    let of = |owners: Value| {
        let pod =
            serde_json::from_value(json!({"metadata": {"name": "p", "ownerReferences": owners}})).unwrap();
        is_of(&pod, &backup(json!({}), json!({}), Value::Null))
    };
    let owner =
        |kind: &str, name: &str| json!([{"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": "j1"}]);
    assert!(of(owner("Job", JOB)));
    assert!(of(owner("Job", "remove-backup-u1-2")));
    assert!(!of(owner("Job", "backup-u2-1")));
    assert!(!of(owner("ReplicaSet", JOB)));
    assert!(!of(Value::Null), "it only has the label");
}

#[test]
fn a_backup_that_the_operator_ordered_for_one_cluster_is_not_taken_of_a_later_one() {
    let ordered = |uid: &str| {
        let metadata = json!({"annotations": {"operator.etcd.io/cluster-uid": uid}});
        next(&backup(json!({}), metadata, Value::Null), &[])
    };
    assert!(matches!(ordered("c1").act, Act::Backup { .. }));
    let (type_, reason, _) = holds(&ordered("c0"));
    assert_eq!((type_.as_str(), reason.as_str()), ("Failed", "ClusterNotFound"));
}

#[test]
fn o05_a_backup_belongs_to_the_cluster_id_of_its_first_look_and_is_never_completed_from_another() {
    let fresh = backup(json!({}), json!({"finalizers": null}), Value::Null);
    let first = next(&fresh, &[]);
    assert_eq!(
        (&first.act, first.status.cluster_id.as_deref()),
        (&Act::AddFinalizer, Some("8e9e05c52164694d"))
    );
    // A restore in place, or another EtcdCluster of that name.
    let mut other = cluster(true, json!({}));
    other.status.as_mut().unwrap().cluster_id = Some("b2".to_owned());
    let mut retried = running();
    retried["clusterID"] = json!("8e9e05c52164694d");
    retried["phase"] = json!("Pending");
    retried["nextAttempt"] = json!(at(-1));
    for status in [json!({"phase": "Pending", "clusterID": "8e9e05c52164694d"}), retried] {
        let waits = backup(json!({}), json!({}), status);
        let decision = decide(Seen { cluster: Some(&other), ..Seen::only(&waits, NOW) });
        let (type_, reason, message) = holds(&decision);
        assert_eq!((type_.as_str(), reason.as_str()), ("Failed", "ClusterIDMismatch"));
        assert!(message.contains("8e9e05c52164694d") && message.contains("b2"), "{message}");
        assert_eq!(decision.status.result, None);
    }
    // The Job was under way when the members made way, and found the new ones.
    let mut under_way = running();
    under_way["clusterID"] = json!("8e9e05c52164694d");
    let under_way = backup(json!({}), json!({}), under_way);
    let JobOutcome::Answered(Answer::BackedUp(manifest)) = answer("u1") else { unreachable!() };
    let of = |id: &str| Manifest { cluster_id: id.to_owned(), ..manifest.clone() };
    let ends =
        |id: &str| holds(&next(&under_way, &[(JOB, JobOutcome::Answered(Answer::BackedUp(of(id))))])).1;
    assert_eq!(ends("b2"), "ClusterIDMismatch");
    assert_eq!(ends("8e9e05c52164694d"), "BackupComplete");
}
