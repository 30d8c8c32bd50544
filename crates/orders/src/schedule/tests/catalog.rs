//! EtcdBackups for what the store has.

use quorate_api::backup::ExistingObject;
use quorate_api::job::ListedBackups;
use quorate_api::schedule::{Catalog, ListedUpTo};
use quorate_manifests::backup::key;

use super::*;

const NOW: &str = "2026-11-01T00:45:00Z";

fn ordered(word: &str, spec: Value, status: Value) -> EtcdBackupSchedule {
    let mut schedule = schedule(spec, status);
    schedule.metadata.annotations = Some([("operator.etcd.io/catalog".to_owned(), word.to_owned())].into());
    schedule.metadata.generation = Some(1);
    schedule
}

fn object(number: u32) -> ExistingObject {
    let key = format!("default/demo/b-{number:03}.db.zst");
    ExistingObject { key, sha256: "5".repeat(64), ..ExistingObject::default() }
}

fn page(numbers: std::ops::Range<u32>, of_cluster: u64, more: bool) -> ListedBackups {
    let next = more.then(|| ListedUpTo { finished: "2026-10-01T00:00:00Z".to_owned(), key: "k".to_owned() });
    ListedBackups { backups: numbers.map(object).collect(), next, of_cluster, ..ListedBackups::default() }
}

/// What is next while the Job of this try has come to this.
fn seen_with(
    schedule: &EtcdBackupSchedule,
    others: &[EtcdBackup],
    job: Option<(u32, JobOutcome)>,
    now: &str,
) -> Decision {
    let others: Vec<&EtcdBackup> = others.iter().collect();
    let job = job.map(|(attempt, outcome)| {
        let name = format!("list-backups-0000-00ab-{attempt}");
        (serde_json::from_value(json!({"metadata": {"name": name}})).unwrap(), outcome)
    });
    let jobs: Vec<_> = job.iter().map(|(job, outcome)| (job, outcome.clone())).collect();
    decide(Seen { schedule, backups: &[], others: &others, jobs: &jobs, clock: None, now: at(now) })
}

fn listed(
    schedule: &EtcdBackupSchedule,
    others: &[EtcdBackup],
    attempt: u32,
    page: ListedBackups,
) -> Decision {
    seen_with(schedule, others, Some((attempt, JobOutcome::Answered(Answer::Listed(page)))), NOW)
}

fn catalog(decision: &Decision) -> Catalog {
    decision.status.catalog.clone().unwrap()
}

fn is_list(decision: &Decision, number: u32) -> bool {
    matches!(&decision.then, NextAct::List { attempt, .. } if *attempt == number)
}

fn names(decision: &Decision) -> Vec<String> {
    decision.records.iter().map(|one| one.metadata.name.clone().unwrap()).collect()
}

#[test]
fn o02_a_word_lists_the_store_page_by_page_and_is_spent_once() {
    let recorded = |decision: &Decision| ordered("after-loss", json!({}), json!(decision.status));
    let first = next(&ordered("after-loss", json!({}), Value::Null), &[], NOW);
    assert!(is_list(&first, 1) && first.records.is_empty(), "{:?}", first.then);
    // A crash before the Job: the same one.
    let again = next(&recorded(&first), &[], NOW);
    assert_eq!((&again.then, &again.status), (&first.then, &first.status));
    let answered = listed(&recorded(&first), &[], 1, page(0..10, 12, true));
    assert_eq!((names(&answered).len(), catalog(&answered).created, catalog(&answered).found), (10, 10, 12));
    assert_eq!(answered.then, NextAct::DeleteJob("list-backups-0000-00ab-1".to_owned()));
    // A crash after the EtcdBackups and before the status: the same ones, and one that exists is left.
    let repeated = listed(&recorded(&first), &answered.records[..4], 1, page(0..10, 12, true));
    assert_eq!(names(&repeated), names(&answered)[4..]);
    assert_eq!(catalog(&repeated).recorded, 10);
    // A crash after the status: the Job of the page before goes, and then the next page is listed after the last object.
    let left = seen_with(&recorded(&answered), &[], Some((1, JobOutcome::Running(None))), NOW);
    assert_eq!((left.then, left.records.len()), (answered.then.clone(), 0));
    let second = next(&recorded(&answered), &[], NOW);
    let NextAct::List { attempt: 2, order } = &second.then else { panic!("{:?}", second.then) };
    assert_eq!(order.after.as_ref().map(|after| after.key.as_str()), Some("k"));
    let ended = listed(&recorded(&second), &[], 2, page(10..12, 12, false));
    let end = catalog(&ended);
    assert_eq!((end.created, end.recorded, end.finished.is_some()), (12, 12, true));
    assert!(end.message.contains("12 backups; there is an EtcdBackup for 12 of them"), "{}", end.message);
    assert_eq!(ended.events[0].1.reason().as_str(), "CatalogEnded");
    // Git gives the annotation again, also after another word.
    let quiet = |status: Value, word: &str| next(&ordered(word, json!({}), status), &[], NOW);
    let rests = quiet(json!(ended.status), "after-loss");
    assert!(matches!(rests.then, NextAct::Wait(_)) && rests.records.is_empty(), "{:?}", rests.then);
    let other = quiet(json!(ended.status), "again");
    assert!(is_list(&other, 3), "no Job has the name of one before: {:?}", other.then);
    assert_eq!(catalog(&quiet(json!(other.status), "after-loss")).word, "again");
    assert_eq!(next(&ordered(&"w".repeat(64), json!({}), Value::Null), &[], NOW).status.catalog, None);
}

#[test]
fn o02_what_is_made_for_an_object_is_none_of_the_schedules_and_removes_nothing() {
    let spec = json!({"backupTemplate": {
        "metadata": {"labels": {"team": "a", "operator.etcd.io/backup-schedule": "nightly"}},
        "spec": {
            "source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "bucket"}}, "deletionPolicy": "Delete",
            "encryption": {"recipients": ["age1x"]}, "rateLimit": "20Mi", "jobTemplate": {"serviceAccountName": "sa"},
        },
    }});
    let of = ordered("w", spec, Value::Null);
    let begun = next(&of, &[], NOW);
    let of = EtcdBackupSchedule { status: Some(begun.status), ..of };
    let made = listed(&of, &[], 1, page(0..1, 1, false)).records.remove(0);
    assert!(!is_of(&made, &of));
    assert_eq!(json!(made.metadata.labels), json!({"team": "a"}));
    let only = json!({"operator.etcd.io/existing-object": "default/demo/b-000.db.zst"});
    assert_eq!((json!(made.metadata.annotations), &made.metadata.owner_references), (only, &None));
    let spec = json!(made.spec);
    let given = json!({"key": "default/demo/b-000.db.zst", "sha256": "5".repeat(64)});
    assert_eq!((&spec["existing"], &spec["deletionPolicy"]), (&given, &json!("Retain")));
    assert_eq!((&spec["encryption"], &spec["rateLimit"]), (&Value::Null, &Value::Null));
    assert_eq!(
        (&spec["deadline"], &spec["jobTemplate"]["serviceAccountName"]),
        (&json!("24h"), &json!("sa"))
    );
    // Whatever somebody calls one, and gives it for annotations, it is not of the schedule.
    let mut posing = child("2026-11-01T00:40:00Z", "Complete");
    assert!(is_of(&posing, &of));
    posing.spec.existing = Some(object(0));
    assert!(!is_of(&posing, &of));
}

#[test]
fn o02_an_object_whose_etcdbackup_is_there_gets_no_second_one() {
    let of = ordered("w", json!({}), Value::Null);
    let of = EtcdBackupSchedule { status: Some(next(&of, &[], NOW).status), ..of };
    let wrote = child("2026-11-01T00:40:00Z", "Complete");
    let mut elsewhere = wrote.clone();
    elsewhere.spec.destination.s3.as_mut().unwrap().bucket = "another".to_owned();
    let its = ListedBackups {
        backups: vec![ExistingObject {
            key: key(&wrote),
            sha256: "5".repeat(64),
            ..ExistingObject::default()
        }],
        of_cluster: 1,
        ..ListedBackups::default()
    };
    assert_eq!(listed(&of, &[wrote], 1, its.clone()).records.len(), 0);
    assert_eq!(listed(&of, &[elsewhere], 1, its).records.len(), 1);
}

#[test]
fn o02_a_list_that_failed_is_repeated_more_and_more_seldom_and_says_why() {
    let of = |decision: &Decision| ordered("w", json!({}), json!(decision.status));
    let begun = next(&ordered("w", json!({}), Value::Null), &[], NOW);
    let failure =
        || JobOutcome::Answered(Answer::Failed(Failure::new(FailureKind::StoreForbidden, "no such key")));
    let failed = seen_with(&of(&begun), &[], Some((1, failure())), NOW);
    assert_eq!(failed.then, NextAct::DeleteJob("list-backups-0000-00ab-1".to_owned()));
    let (reason, message) = (catalog(&failed).reason, catalog(&failed).message);
    assert_eq!(reason.as_deref(), Some("StoreForbidden"));
    assert_eq!(message, "the last try failed: no such key. It is tried again after 60 s");
    let NextAct::Wait(Some(wake)) = next(&of(&failed), &[], NOW).then else { panic!() };
    assert_eq!(wake, at("2026-11-01T00:46:00Z"));
    let second = next(&of(&failed), &[], "2026-11-01T00:46:00Z");
    assert!(is_list(&second, 2), "{:?}", second.then);
    let again = seen_with(&of(&second), &[], Some((2, failure())), "2026-11-01T00:46:10Z");
    assert!(catalog(&again).message.ends_with("after 120 s"), "{}", catalog(&again).message);
    // By a clock that was ahead: not for as long as it was.
    let mut ahead = again.status.clone();
    ahead.catalog.as_mut().unwrap().failed = serde_json::from_value(json!("2036-11-01T00:00:00Z")).unwrap();
    assert!(is_list(&next(&ordered("w", json!({}), json!(ahead)), &[], NOW), 3));
    // What the API server refuses is a try that failed: its page is listed again.
    let mut refused = second.status.clone();
    super::super::catalog::catalog_refused(&mut refused, "EtcdBackup x", "exceeded quota", at(NOW));
    let why = refused.catalog.clone().unwrap();
    assert!(why.failed.is_some() && why.message.contains("EtcdBackup x: exceeded quota"), "{why:?}");
}

#[test]
fn o02_an_edit_begins_the_list_anew_and_what_cannot_be_listed_says_so() {
    let begun = next(&ordered("w", json!({}), Value::Null), &[], NOW);
    let answered = listed(&ordered("w", json!({}), json!(begun.status)), &[], 1, page(0..10, 30, true));
    let mut edited = ordered("w", json!({}), json!(answered.status));
    edited.metadata.generation = Some(2);
    edited.spec.backup_template.spec.destination.s3.as_mut().unwrap().bucket = "moved".to_owned();
    let anew = next(&edited, &[], NOW);
    let NextAct::List { attempt: 3, order } = &anew.then else { panic!("{:?}", anew.then) };
    assert_eq!((order.after.as_ref(), catalog(&anew).recorded), (None, 0));
    // The same object in another place is another one.
    let there = |of: &EtcdBackupSchedule, decision: &Decision, attempt| {
        let of = EtcdBackupSchedule { status: Some(decision.status.clone()), ..of.clone() };
        names(&listed(&of, &[], attempt, page(0..1, 1, false)))
    };
    let (here, moved) = (names(&answered).remove(0), there(&edited, &anew, 3).remove(0));
    assert!(here.starts_with("existing-b-000-") && here != moved, "{here} {moved}");
    let outside = json!({"backupTemplate": {"spec": {
        "source": {"endpoints": {"urls": ["http://e:2379"]}}, "destination": {"s3": {"bucket": "bucket"}},
    }}});
    let refused = next(&ordered("w", outside, Value::Null), &[], NOW);
    assert!(catalog(&refused).finished.is_some() && catalog(&refused).message.contains("no EtcdCluster"));
    let empty = listed(&ordered("w", json!({}), json!(begun.status)), &[], 1, ListedBackups::default());
    assert!(
        catalog(&empty).message.contains("has no backup of this EtcdCluster"),
        "{}",
        catalog(&empty).message
    );
    assert!(empty.events[0].0, "it is a warning");
}

#[test]
fn o02_a_word_creates_no_more_than_so_many_and_only_what_has_the_layout() {
    let mut status = next(&ordered("w", json!({}), Value::Null), &[], NOW).status;
    let mut made = 0;
    let end = loop {
        let attempt = status.catalog.as_ref().unwrap().attempt;
        let from = (attempt - 1) * 10;
        let answered =
            listed(&ordered("w", json!({}), json!(status)), &[], attempt, page(from..from + 10, 5000, true));
        made += answered.records.len();
        status = answered.status.clone();
        if catalog(&answered).finished.is_some() {
            break catalog(&answered);
        }
    };
    assert_eq!(made, 200);
    assert!(end.message.contains("No more than 200 are created"), "{}", end.message);
    let begun = next(&ordered("w", json!({}), Value::Null), &[], NOW).status;
    let mut odd = page(0..12, 12, false);
    odd.backups[0].key = "else/demo/b.db".to_owned();
    odd.backups[1].sha256 = "5".to_owned();
    let answered = listed(&ordered("w", json!({}), json!(begun)), &[], 1, odd);
    assert_eq!(answered.records.len(), 10, "of an image that is not of this operator");
}

#[test]
fn o02_a_suspended_schedule_and_a_clock_that_differs_hold_up_no_list_and_a_backup_that_runs_does() {
    let of = ordered("w", json!({"suspend": true}), Value::Null);
    let clock = Some(ClockDifference::Ahead(Span::seconds(3600)));
    let differs = decide(Seen { schedule: &of, backups: &[], others: &[], jobs: &[], clock, now: at(NOW) });
    assert!(is_list(&differs, 1), "{:?}", differs.then);
    let runs = child("2026-11-01T00:40:00Z", "Running");
    assert!(!is_list(&next(&ordered("w", json!({}), Value::Null), &[runs], NOW), 1));
}
