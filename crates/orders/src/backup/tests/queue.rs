//! One backup of a cluster at a time, so many over all, and one removal from a store.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use quorate_api::EtcdBackup;
use quorate_api::job::{Answer, Failure, FailureKind};
use quorate_model::Instant;
use serde_json::{Value, json};

use super::{JOB, NOW, at, backup, cluster, failure, holds, job, next, running};
use crate::backup::bound::{Bound, Place};
use crate::backup::decide::{Act, Seen, User, decide, is_of, is_of_attempt};
use crate::backup::ending::{removal_held, removal_refused};
use crate::backup::queue::{blocker, removals, store_of_removal};
use crate::outcome::JobOutcome;

#[test]
fn one_backup_of_a_cluster_runs_at_a_time_and_the_oldest_comes_first() {
    let one = |name: &str, created: i64, status: Value| {
        backup(json!({}), json!({"name": name, "uid": name, "creationTimestamp": at(created)}), status)
    };
    let pending = |name: &str, created| one(name, created, json!({"phase": "Pending"}));
    let first = |own: &EtcdBackup, others: &[EtcdBackup]| {
        blocker(own, others.iter(), NOW).map(|other| other.metadata.name.clone().unwrap())
    };
    let (a, b) = (pending("a", -20), pending("b", -10));
    let all = [a.clone(), b.clone()];
    assert_eq!((first(&a, &all), first(&b, &all)), (None, Some("a".to_owned())));
    let mut urgent = b.clone();
    urgent.spec.without_quorum = true;
    assert_eq!(first(&urgent, &all), None, "those before it may wait for the quorum");
    let runs = one("c", -5, running());
    assert_eq!(first(&urgent, std::slice::from_ref(&runs)), Some("c".to_owned()));
    assert_eq!(first(&a, &[b.clone(), runs]), Some("c".to_owned()), "what runs is not overtaken");
    let rests = one("a", -20, json!({"phase": "Pending", "attempts": 1, "nextAttempt": at(60)}));
    assert_eq!(first(&b, &[rests]), None, "what waits for its next attempt lets others pass");
    for phase in ["Complete", "Failed", "Deleting"] {
        assert_eq!(first(&b, &[one("a", -20, json!({"phase": phase}))]), None);
    }
    let mut other = a;
    other.spec.source.cluster = Some("another".to_owned());
    assert_eq!(first(&b, &[other]), None);
}

#[test]
fn o12_a_removal_whose_secret_is_gone_takes_the_credentials_that_another_backup_there_has() {
    let one = |name: &str, created: i64, secret: &str, prefix: &str| {
        let s3 = json!({"bucket": "b", "prefix": prefix, "credentialsSecret": {"name": secret}});
        let metadata = json!({"name": name, "uid": name, "creationTimestamp": at(created)});
        backup(json!({"destination": {"s3": s3}}), metadata, Value::Null)
    };
    let old = one("old", -90, "s3", "etcd");
    let others = [
        one("a", -60, "s3", "etcd"),
        one("b", -50, "s3-of-may", "etcd"),
        one("c", -40, "s3-of-june", "etcd"),
        one("d", -30, "of-another-place", "other"),
    ];
    let secret = |removals| {
        let store = store_of_removal(&old, others.iter(), removals);
        store.credentials_secret().unwrap().to_owned()
    };
    assert_eq!([1, 2, 3, 4].map(secret), ["s3", "s3-of-june", "s3-of-may", "s3"]);
}

#[test]
fn o16_a_job_without_a_pod_that_has_started_holds_up_others_for_five_minutes_and_they_write_another_object() {
    let fresh =
        backup(json!({}), json!({"name": "a", "uid": "ua", "creationTimestamp": at(-400)}), Value::Null);
    let begun = next(&fresh, &[]);
    let Act::Backup { order: first, .. } = &begun.act else { panic!("{begun:?}") };
    let mut stuck = fresh.clone();
    stuck.status = Some(begun.status.clone());
    let later = |seconds: i64| Instant(NOW.0 + seconds * 1000);
    let cluster = cluster(true, json!({}));
    let job = job("backup-ua-1");
    let waits = JobOutcome::Running(Some("Pod p is not scheduled: a claim is not bound".to_owned()));
    let jobs = [(&job, waits)];
    let seen = |has_started, now| Seen {
        cluster: Some(&cluster),
        jobs: &jobs,
        has_started,
        ..Seen::only(&stuck, now)
    };
    assert!(decide(seen(false, later(290))).status.not_started_since.is_some());
    let b = backup(json!({}), json!({"name": "b", "uid": "ub", "creationTimestamp": at(-10)}), Value::Null);
    let blocks = |one: &EtcdBackup, now| blocker(&b, [one].into_iter(), now).is_some();
    assert!(blocks(&stuck, later(300)));
    assert!(!blocks(&stuck, later(301)));
    let other = next(&b, &[]);
    let Act::Backup { order: second, .. } = &other.act else { panic!("{other:?}") };
    assert_ne!(first.key, second.key);
    // Its Pod has started: it holds up others again, as one of an older operator does, of which nothing is known.
    let mut started = stuck.clone();
    started.status = Some(decide(seen(true, later(400))).status);
    assert!(blocks(&started, later(900)));
    // The next attempt has its own five minutes.
    let lost = [(&job, JobOutcome::Lost("gone".to_owned()))];
    let again = decide(Seen { jobs: &lost, ..seen(false, later(400)) }).status;
    assert_eq!((again.not_started_since, again.next_attempt.is_some()), (None, true));
}

#[test]
fn o16_a_pod_of_an_earlier_attempt_does_not_count_as_that_of_the_next_one() {
    let cluster = cluster(true, json!({}));
    let status =
        json!({"phase": "Pending", "attempts": 1, "jobName": JOB, "started": at(-60), "nextAttempt": at(-1)});
    let second = backup(json!({}), json!({}), status);
    // As it was seen of the first attempt, whose Pod still runs on a node that is gone.
    let begun = decide(Seen { cluster: Some(&cluster), has_started: true, ..Seen::only(&second, NOW) });
    assert_eq!((begun.status.attempts, begun.status.not_started_since.is_some()), (2, true));
    let second = backup(json!({}), json!({}), json!(begun.status));
    let pod = |job: &str| -> Pod {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "j"});
        serde_json::from_value(json!({"metadata": {"ownerReferences": [owner]}})).unwrap()
    };
    let of = |job| (is_of(&pod(job), &second), is_of_attempt(&pod(job), &second));
    assert_eq!(of(JOB), (true, false), "it may still write, and tells nothing of the second");
    assert_eq!(of("backup-u1-2"), (true, true));
    assert_eq!(of("backup-u1-22"), (true, false));
}

#[test]
fn what_an_upgrade_or_a_deletion_waits_for_overtakes_backups_that_wait() {
    let pending = |name: &str, created: i64, uid: Option<&str>| {
        let annotations = json!({"operator.etcd.io/cluster-uid": uid});
        let annotations = if uid.is_some() { annotations } else { Value::Null };
        let metadata =
            json!({"name": name, "uid": name, "creationTimestamp": at(created), "annotations": annotations});
        backup(json!({}), metadata, json!({"phase": "Pending"}))
    };
    let all =
        [pending("a", -20, None), pending("final-c1", -10, Some("c1")), pending("final-x", -30, Some("c1"))];
    let first =
        |own: &EtcdBackup| blocker(own, all.iter(), NOW).map(|other| other.metadata.name.clone().unwrap());
    assert_eq!(first(&all[1]), None);
    assert_eq!(first(&all[0]).as_deref(), Some("final-c1"), "and not both at once");
    assert_eq!(first(&all[2]).as_deref(), Some("final-c1"), "the name alone is nothing");
}

#[test]
fn so_many_backups_run_over_all_clusters_and_the_oldest_comes_first() {
    let of = |name: &str, created: i64, status: Value| {
        let spec = json!({"source": {"cluster": name}});
        backup(
            spec,
            json!({"name": name, "namespace": name, "uid": name, "creationTimestamp": at(created)}),
            status,
        )
    };
    let pending = |reason: &str| {
        json!({"phase": "Pending", "conditions": [{"type": "Pending", "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": at(0)}]})
    };
    let held = || pending("BackupLimitReached");
    let runs = |name: &str| of(name, -90, running());
    let mut bound = Bound::new(2);
    let look = |all: &[EtcdBackup]| {
        let mut bound = Bound::new(2);
        bound.look(all.iter(), NOW);
        bound
    };
    let place = |bound: &Bound, own: &EtcdBackup| bound.place(own).map(|place| place.before);
    let (old, new) = (of("old", -30, held()), of("new", -20, held()));
    let line = [runs("r1"), runs("r2"), new.clone(), old.clone()];
    let full = look(&line);
    assert_eq!((place(&full, &old), place(&full, &new)), (Some(0), Some(1)));
    let text = full.place(&new).unwrap().to_string();
    assert!(text.contains("--max-backups-running=2") && text.contains("1 begin before this one"), "{text}");
    // A place is free, and the oldest gets it. One that cannot begin stands in no line.
    let free = look(&[runs("r1"), new.clone(), old.clone(), of("dead", -99, pending("ClusterNotServing"))]);
    assert_eq!((place(&free, &old), place(&free, &new)), (None, Some(1)));
    // What does not start, what rests and what is being deleted count for nothing.
    let mut stuck = runs("r1");
    stuck.status.as_mut().unwrap().not_started_since = serde_json::from_value(json!(at(-301))).unwrap();
    let mut going = runs("r2");
    going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
    let mut rests = of("rests", -50, held());
    rests.status.as_mut().unwrap().next_attempt = serde_json::from_value(json!(at(30))).unwrap();
    let calm = look(&[stuck, going, rests, new.clone()]);
    assert_eq!(place(&calm, &new), None);
    // What is ordered by an upgrade, a deletion or a person without a quorum is not held up, and counts.
    let mut urgent = new.clone();
    urgent.spec.without_quorum = true;
    assert!(!full.holds(&urgent, None) && full.holds(&new, None));
    // Two that see the same free places: what has begun counts before the cache has it, and until then only.
    bound.look([runs("r1")].iter(), NOW);
    let (a, b) = (of("a", -30, Value::Null), of("b", -20, Value::Null));
    assert_eq!((place(&bound, &a), place(&bound, &b)), (None, None));
    bound.begins(&a, 1, NOW);
    assert_eq!(place(&bound, &b), Some(0));
    bound.look([runs("r1"), a.clone()].iter(), NOW);
    assert_eq!(place(&bound, &b), Some(0), "the cache lacks it");
    bound.look([runs("r1"), of("a", -30, json!({"phase": "Complete", "attempts": 1}))].iter(), NOW);
    assert_eq!(place(&bound, &b), None);
    bound.begins(&b, 1, NOW);
    bound.takes_back(&b);
    assert_eq!(place(&bound, &a), None, "its status was not written");
    assert!(
        !bound.is_outdated(NOW)
            && bound.is_outdated(Instant(NOW.0 + 1000))
            && bound.is_outdated(Instant(NOW.0 - 1))
    );
    let mut none = Bound::new(0);
    none.look(line.iter(), NOW);
    assert_eq!(place(&none, &new), None);
    // The words change for steps, and not with every one that ends.
    let says = |before| Place { before, limit: 2 }.to_string();
    assert!(says(0).contains("this one is next"));
    assert_eq!((says(11), says(101)), (says(20), says(200)));
    // It is said in status.
    let fresh = backup(json!({}), json!({}), Value::Null);
    let cluster = cluster(true, json!({}));
    let place = Some(Place { before: 3, limit: 2 });
    let decision = decide(Seen { cluster: Some(&cluster), place, ..Seen::only(&fresh, NOW) });
    assert_eq!((decision.status.attempts, holds(&decision).1.as_str()), (0, "BackupLimitReached"));
}

#[test]
fn what_the_bound_knows_of_a_backup_does_not_hold_up_itself_nor_all_others_for_ever() {
    let of = |name: &str, created: i64, status: Value| {
        backup(json!({}), json!({"name": name, "uid": name, "creationTimestamp": at(created)}), status)
    };
    let waiting = |name: &str, created: i64| {
        let condition = json!({"type": "Pending", "status": "True", "reason": "BackupLimitReached", "message": "",
            "lastTransitionTime": at(0)});
        of(name, created, json!({"phase": "Pending", "conditions": [condition]}))
    };
    let later = |seconds: i64| Instant(NOW.0 + seconds * 1000);
    // It began, and its status is lost.
    let (lost, other) = (of("lost", -30, Value::Null), waiting("other", -20));
    let mut bound = Bound::new(1);
    bound.begins(&lost, 1, NOW);
    bound.look([&lost, &other].into_iter(), later(59));
    assert_eq!((bound.place(&lost), bound.place(&other).is_some()), (None, true));
    bound.look([&lost, &other].into_iter(), later(61));
    assert_eq!(bound.place(&other), None, "nothing confirms it");
    // The status of the first in line is always refused: it leaves the line for a while.
    let (first, second) = (waiting("first", -90), waiting("second", -20));
    bound.look([&first, &second].into_iter(), NOW);
    assert_eq!((bound.place(&first), bound.place(&second).map(|place| place.before)), (None, Some(1)));
    bound.begins(&first, 1, NOW);
    bound.is_refused(&first, NOW);
    bound.look([&first, &second].into_iter(), later(1));
    assert_eq!(bound.place(&second), None);
    bound.look([&first, &second].into_iter(), later(61));
    assert!(bound.place(&second).is_some(), "it may succeed now");
    // What the operator ordered has an EtcdCluster that asks for it. The name and the annotation are anybody's.
    let own = json!({"name": "final-c1", "uid": "u", "annotations": {"operator.etcd.io/cluster-uid": "c1"}});
    let own = backup(json!({}), own, Value::Null);
    let asks = json!({"deletion": {"finalBackup": {"destination": {"s3": {"bucket": "bucket"}}}}});
    let mut cluster = cluster(true, asks);
    assert!(bound.holds(&own, None) && bound.holds(&own, Some(&cluster)), "nobody deletes it");
    cluster.metadata.deletion_timestamp = serde_json::from_value(json!(at(-1))).unwrap();
    assert!(!bound.holds(&own, Some(&cluster)));
}

#[test]
fn o12_a_backup_whose_attempts_wrote_nothing_goes_without_a_removal() {
    let answer = |wrote, job_status: Value| {
        let failure = Failure { wrote, ..Failure::new(FailureKind::StoreForbidden, "wrong key") };
        let made: Job =
            serde_json::from_value(json!({"metadata": {"name": JOB, "uid": "j1"}, "status": job_status}))
                .unwrap();
        let jobs = [(&made, JobOutcome::Answered(Answer::Failed(failure)))];
        let own = backup(json!({"deletionPolicy": "Delete"}), json!({}), running());
        let failed = decide(Seen { jobs: &jobs, ..Seen::only(&own, NOW) }).status;
        let going = json!({"deletionTimestamp": at(-1)});
        let deleted = backup(json!({"deletionPolicy": "Delete"}), going, json!(failed));
        decide(Seen::only(&deleted, NOW)).act
    };
    assert_eq!(answer(Some(false), Value::Null), Act::RemoveFinalizer);
    assert_eq!(
        answer(Some(false), json!({"failed": 1, "active": 1})),
        Act::RemoveFinalizer,
        "one Pod, counted late"
    );
    for (wrote, job) in [
        (Some(true), Value::Null),
        (None, Value::Null),
        (Some(false), json!({"failed": 1, "terminating": 1})),
    ] {
        assert_eq!(answer(wrote, job), Act::Remove, "an older agent, and a second Pod, may have written");
    }
    // The status may have been lost since an attempt that wrote: what is not removed is reported.
    let status = json!({"attempts": 1, "attemptsWithoutWrite": 1, "phase": "Failed"});
    let metadata = json!({"deletionTimestamp": at(-1)});
    let going = |policy: &str| backup(json!({"deletionPolicy": policy}), metadata.clone(), status.clone());
    let event = |policy: &str| decide(Seen::only(&going(policy), NOW)).event;
    let (is_warning, what) = event("Delete").expect("it is reported");
    assert!(
        !is_warning && what.reason().as_str() == "ObjectAbandoned" && what.message().contains("may exist")
    );
    assert_eq!(event("Retain"), None, "it was to stay");
    // One that wrote is enough, and one that is under way may write.
    for attempts in [json!({"attempts": 2, "attemptsWithoutWrite": 1}), json!({"attempts": 1})] {
        let going =
            backup(json!({"deletionPolicy": "Delete"}), json!({"deletionTimestamp": at(-1)}), attempts);
        assert_eq!(decide(Seen::only(&going, NOW)).act, Act::Remove);
    }
}

#[test]
fn a_removal_that_the_gate_refuses_at_the_act_lets_the_next_one_go_first() {
    let going = |name: &str, status: Value| {
        let metadata =
            json!({"name": name, "uid": name, "deletionTimestamp": at(-700), "creationTimestamp": at(-900)});
        let mut backup = backup(json!({"deletionPolicy": "Delete"}), metadata, status);
        backup.status.as_mut().unwrap().attempts = 1;
        backup
    };
    let (mut held, other) =
        (going("a", json!({"phase": "Complete"})), going("b", json!({"phase": "Deleting"})));
    let recorded = decide(Seen::only(&held, NOW));
    assert_eq!((&recorded.act, recorded.status.removals), (&Act::Remove, 1));
    held.status = Some(recorded.status.clone());
    let waits = |held: &EtcdBackup| removals(&other, [held].into_iter(), NOW).waits_for;
    assert_eq!(waits(&held).as_deref(), Some("a"));
    // An EtcdRestore that names it was created between the two.
    held.status = Some(removal_held(recorded.status));
    assert_eq!(waits(&held), None);
    let user = User::Restore("back".to_owned());
    let waiting = decide(Seen { used_by: Some(&user), ..Seen::only(&held, NOW) });
    assert!(holds(&waiting).2.contains("EtcdRestore back"));
    assert_eq!(decide(Seen::only(&held, NOW)).act, Act::Remove, "once that is over");
}

#[test]
fn o12_a_store_that_refuses_gets_one_removal_at_a_time_with_a_delay_that_grows_to_hours() {
    let going = |name: &str, status: Value| {
        let mut status = status;
        status["phase"] = json!("Deleting");
        status["attempts"] = json!(1);
        let metadata =
            json!({"name": name, "uid": name, "deletionTimestamp": at(-30), "creationTimestamp": at(-90)});
        backup(json!({"deletionPolicy": "Delete"}), metadata, status)
    };
    let all: Vec<_> = (0..5).map(|number| going(&format!("b{number}"), json!({}))).collect();
    let waits = |own: &EtcdBackup, all: &[EtcdBackup]| removals(own, all.iter(), NOW).waits_for;
    assert_eq!(waits(&all[0], &all), None);
    for later in &all[1..] {
        assert_eq!(waits(later, &all).as_deref(), Some("b0"));
        let seen = Seen { waits_for: Some("b0"), ..Seen::only(later, NOW) };
        let decision = decide(seen);
        assert_eq!((&decision.act, decision.status.removals), (&Act::Wait(None), 0));
        assert!(holds(&decision).2.contains("EtcdBackup b0"), "{:?}", holds(&decision));
    }
    // It was refused: the others wait as long as it does, and then the next one is tried, not the first again.
    let mut refused = all.clone();
    refused[0] = going("b0", json!({"removals": 3, "nextAttempt": at(60)}));
    assert_eq!(waits(&refused[1], &refused).as_deref(), Some("b0"));
    refused[0] = going("b0", json!({"removals": 3, "nextAttempt": at(-1)}));
    assert_eq!(waits(&refused[1], &refused), None);
    assert_eq!(waits(&refused[0], &refused).as_deref(), Some("b1"));
    assert_eq!(removals(&refused[1], refused.iter(), NOW).failed, 3);
    // One whose Job is under way is waited for.
    refused[0] = going("b0", json!({"removals": 4}));
    assert_eq!(waits(&refused[1], &refused).as_deref(), Some("b0"));
    // One that cannot begin holds up nobody without end.
    let mut held = all.clone();
    held[0].metadata.deletion_timestamp = Some(serde_json::from_value(json!(at(-601))).unwrap());
    assert_eq!(waits(&held[1], &held), None);
    // The delay counts what was refused for others as well.
    let own = going("b1", json!({"removals": 1}));
    let made = job("remove-backup-b1-1");
    let jobs = [(&made, failure(FailureKind::StoreForbidden))];
    let delay =
        |failed_removals| match decide(Seen { jobs: &jobs, failed_removals, ..Seen::only(&own, NOW) }).act {
            Act::Wait(Some(until)) => (until.0 - NOW.0) / 1000,
            other => panic!("{other:?}"),
        };
    assert_eq!((delay(0), delay(4), delay(400)), (30, 480, 14_400));
}

fn going_since(name: &str, seconds: i64, mut status: Value) -> EtcdBackup {
    status["phase"] = json!("Deleting");
    status["attempts"] = json!(1);
    let metadata =
        json!({"name": name, "uid": name, "deletionTimestamp": at(-seconds), "creationTimestamp": at(-9000)});
    backup(json!({"deletionPolicy": "Delete"}), metadata, status)
}

#[test]
fn o12_a_removal_whose_job_is_refused_rests_and_holds_up_no_other() {
    let first = going_since("b0", 30, json!({"removals": 1}));
    let refused =
        removal_refused(Seen::only(&first, NOW), first.status.clone().unwrap(), "the Job is refused: no");
    let (_, reason, message) = holds(&refused);
    assert_eq!(
        (reason.as_str(), refused.status.removals),
        ("WriteRefused", 0),
        "who needs it is asked again"
    );
    assert!(message.contains("tried again at") && message.contains("abandon"), "{message}");
    let rests = going_since("b0", 30, json!(refused.status));
    let other = going_since("b1", 30, json!({}));
    let all = [rests.clone(), other.clone()];
    assert_eq!(removals(&other, all.iter(), NOW).waits_for, None);
    assert_eq!(next(&rests, &[]).act, Act::Wait(Some(Instant(NOW.0 + 600_000))));
    let due = going_since("b0", 30, json!({"nextAttempt": at(-1)}));
    assert_eq!((next(&due, &[]).act, next(&due, &[]).status.removals), (Act::Remove, 1));
    // The message names what is under way, and not who is merely older.
    let under_way = going_since("b9", 30, json!({"removals": 2}));
    let all = [going_since("b0", 30, json!({})), under_way, other.clone()];
    assert_eq!(removals(&other, all.iter(), NOW).waits_for.as_deref(), Some("b9"));
}

#[test]
fn o12_where_every_backup_goes_no_removal_waits_for_hours() {
    let hours = going_since("b0", 9000, json!({"removals": 9, "nextAttempt": at(14_000)}));
    let other = going_since("b1", 30, json!({}));
    let all = [hours.clone(), other.clone()];
    let queue = removals(&other, all.iter(), NOW);
    assert_eq!((queue.waits_for, queue.all_go), (None, true), "the namespace may be going");
    assert_eq!(decide(Seen { all_go: true, ..Seen::only(&hours, NOW) }).act, Act::Remove);
    let made = job("remove-backup-b0-9");
    let jobs = [(&made, failure(FailureKind::StoreForbidden))];
    let again = going_since("b0", 9000, json!({"removals": 9}));
    let decision = decide(Seen { jobs: &jobs, all_go: true, ..Seen::only(&again, NOW) });
    assert_eq!(decision.act, Act::Wait(Some(Instant(NOW.0 + 600_000))));
    let stays = backup(json!({}), json!({"name": "b2", "uid": "b2"}), json!({}));
    let all = [hours, other.clone(), stays];
    assert_eq!(removals(&other, all.iter(), NOW).waits_for.as_deref(), Some("b0"));
}
