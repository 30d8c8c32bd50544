//! The backup of the data that are given up: when it is ordered, to where, and how an order does without.

use quorate_api::backup::ExistingObject;
use quorate_api::restore::EtcdRestoreStatus;
use quorate_api::{EtcdBackup, EtcdCluster, EtcdRestore};
use quorate_model::Instant;
use serde_json::{Value, json};

use super::{NOW, SHA256, cluster, found, kept, ordered_by, read, restore};
use crate::restore::{Decision, NextAct, Seen, backup_refused, decide};

/// An EtcdCluster that waits for nothing but the backup.
fn asking(more: &Value) -> EtcdCluster {
    let mut status = json!({"clusterID": "a1", "waitingOrders": [{
        "orderedBy": ordered_by("u1"), "reason": "RestoreBackupFirst", "message": "first",
    }]});
    for (field, value) in more.as_object().unwrap() {
        status[field] = value.clone();
    }
    cluster(&status)
}

fn lost() -> Value {
    json!({"conditions": [{"type": "QuorumAvailable", "status": "False", "reason": "QuorumLost", "message": "",
        "lastTransitionTime": "2027-01-15T07:50:00Z"}]})
}

fn order(status: &Value, mode: &str) -> EtcdRestore {
    let mut order = serde_json::to_value(restore(status)).unwrap();
    order["spec"]["backupBefore"] = json!(mode);
    serde_json::from_value(order).unwrap()
}

fn decided(restore: &EtcdRestore, of: &EtcdCluster, backups: &[&EtcdBackup], now: Instant) -> Decision {
    let found = found(restore, Some(of));
    decide(Seen { restore, cluster: Some(of), backup: Some(&found), backups, jobs: &[], now })
}

fn ordered(decision: &Decision) -> EtcdBackup {
    let NextAct::Backup(backup) = &decision.then else { panic!("{:?}", decision.then) };
    *backup.clone()
}

/// The reason and the message of the condition Pending.
#[track_caller]
fn pending(status: &EtcdRestoreStatus) -> (String, String) {
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|one| one.type_ == "Pending" && one.status == "True").expect("it is pending");
    (found.reason.clone(), found.message.clone())
}

/// The API server stored what was ordered, and the backup came to this.
fn stored(ordered: &EtcdBackup, status: Value) -> EtcdBackup {
    let mut stored = ordered.clone();
    stored.metadata.creation_timestamp = serde_json::from_value(json!("2027-01-15T08:00:00Z")).unwrap();
    stored.status = serde_json::from_value(status).unwrap();
    stored
}

fn complete(cluster_id: &str, finished: &str) -> Value {
    json!({"phase": "Complete", "attempts": 1, "result": {
        "url": "s3://b/k", "key": "k", "size": "4Ki", "storedBytes": 4096, "storedSha256": SHA256, "snapshotBytes": 4096,
        "snapshotSha256": SHA256, "compressed": true, "encrypted": false, "revision": 9, "etcdVersion": "3.6.16",
        "clusterID": cluster_id, "member": "demo-0", "started": "2027-01-15T07:59:00Z", "finished": finished,
    }})
}

fn failed() -> Value {
    json!({"phase": "Failed", "attempts": 4, "conditions": [{"type": "Failed", "status": "True", "reason": "StoreForbidden",
        "message": "the bucket is not yours", "lastTransitionTime": "2027-01-15T08:00:00Z"}]})
}

const COMMAND: &str = "kubectl patch etcdrestore back -n default --type=merge -p '{\"spec\":{\"backupBefore\":\"Never\"}}' \
                       --dry-run=client -o yaml | kubectl replace --force -f - ";

#[test]
fn o05_what_is_given_up_is_backed_up_to_where_the_snapshot_is_once_nothing_else_holds_the_order_up() {
    let of = asking(&json!({}));
    let asked = decided(&restore(&read()), &of, &[], NOW);
    let object = ordered(&asked);
    assert_eq!(object.metadata.name.as_deref(), Some("before-restore-u1"));
    assert_eq!(object.spec.source.cluster.as_deref(), Some("demo"));
    assert_eq!(json!(object.spec.destination), json!({"s3": {"bucket": "b"}}));
    assert_eq!((object.spec.deadline.as_str(), object.spec.without_quorum), ("1800s", false));
    assert!(object.metadata.owner_references.is_none(), "it stays when the order is deleted");
    assert_eq!(
        asked.status.backup_before.as_ref().map(|taken| taken.number),
        Some(1),
        "recorded before it is created"
    );
    let (reason, text) = pending(&asked.status);
    assert_eq!(reason, "RestoreBackupFirst");
    assert!(text.contains(COMMAND), "{text}");
    // Nothing is ordered while its EtcdCluster does not ask for it, and for an order that wants none.
    let silent = decided(&restore(&read()), &cluster(&json!({"clusterID": "a1"})), &[], NOW);
    assert_eq!((silent.then, silent.status.backup_before), (NextAct::Wait, None));
    // It is created once more if that was lost, and has the same name.
    let order = restore(&kept(&asked.status));
    assert_eq!(ordered(&decided(&order, &of, &[], NOW)).metadata.name, object.metadata.name);
    let pending_backup = stored(&object, json!({"phase": "Pending", "attempts": 0}));
    assert_eq!(decided(&order, &of, &[&pending_backup], NOW).then, NextAct::Wait);
    let whole = stored(&object, complete("a1", "2027-01-15T08:00:00Z"));
    let done = decided(&order, &of, &[&whole], NOW).status;
    let taken = done.backup_before.clone().unwrap();
    assert_eq!(taken.complete.unwrap().0.to_string(), "2027-01-15T08:00:00Z");
    assert_eq!(decided(&restore(&kept(&done)), &of, &[&whole], NOW).then, NextAct::Wait);
    // After 30 minutes what was written since would be missing: another one is taken.
    let later = Instant(NOW.0 + 30 * 60_000);
    let again = decided(&restore(&kept(&done)), &of, &[&whole], later);
    assert_eq!(ordered(&again).metadata.name.as_deref(), Some("before-restore-u1-2"));
}

#[test]
fn o05_a_backup_that_was_not_ordered_like_this_or_is_of_other_data_does_not_count() {
    let of = asking(&json!({}));
    let asked = decided(&restore(&read()), &of, &[], NOW);
    let order = restore(&kept(&asked.status));
    let whole = || stored(&ordered(&asked), complete("a1", "2027-01-15T08:00:00Z"));
    let is_taken = |backup: &EtcdBackup| {
        let status = decided(&order, &of, &[backup], NOW).status;
        status.backup_before.unwrap().complete.is_some()
    };
    assert!(is_taken(&whole()));
    let mut earlier = whole();
    earlier.metadata.creation_timestamp = serde_json::from_value(json!("2027-01-15T07:00:00Z")).unwrap();
    let mut elsewhere = whole();
    elsewhere.spec.destination = serde_json::from_value(json!({"s3": {"bucket": "other"}})).unwrap();
    let mut of_another = whole();
    of_another.metadata.annotations = None;
    let mut of_one = whole();
    of_one.spec.without_quorum = true;
    // It stands for what a bucket has, with a manifest that whoever writes there may write.
    let mut of_before = whole();
    of_before.spec.existing =
        Some(ExistingObject { key: "k".to_owned(), sha256: SHA256.to_owned(), ..ExistingObject::default() });
    let of_new = stored(&ordered(&asked), complete("b2", "2027-01-15T08:00:00Z"));
    // Nothing says how old its data are.
    let mut undated = whole();
    undated.status.as_mut().and_then(|status| status.result.as_mut()).expect("it is complete").finished =
        None;
    for bad in [earlier, elsewhere, of_another, of_one, of_before, of_new, undated] {
        assert!(!is_taken(&bad), "{bad:?}");
        let (reason, text) = pending(&decided(&order, &of, &[&bad], NOW).status);
        assert_eq!(reason, "RestoreBackupFailed");
        assert!(text.contains("delete EtcdBackup before-restore-u1") && text.contains(COMMAND), "{text}");
    }
}

#[test]
fn o05_an_order_whose_backup_fails_waits_with_the_way_out_or_goes_on_where_it_may() {
    let of = asking(&json!({}));
    let of_mode = |mode: &str| {
        let asked = decided(&order(&read(), mode), &of, &[], NOW);
        (order(&kept(&asked.status), mode), ordered(&asked))
    };
    let (required, object) = of_mode("Required");
    let waits = decided(&required, &of, &[&stored(&object, failed())], NOW);
    let (reason, text) = pending(&waits.status);
    assert_eq!((waits.then, reason.as_str()), (NextAct::Wait, "RestoreBackupFailed"));
    assert!(text.contains("StoreForbidden: the bucket is not yours") && text.contains(COMMAND), "{text}");
    assert!(waits.event.unwrap().0, "a warning");
    let (possible, object) = of_mode("IfPossible");
    let goes_on = decided(&possible, &of, &[&stored(&object, failed())], NOW).status;
    assert!(goes_on.backup_before.clone().unwrap().missing.unwrap().contains("the bucket is not yours"));
    assert!(pending(&goes_on).1.contains("begins without a backup"), "{goes_on:?}");
    // It takes too long.
    let slow = stored(&object, json!({"phase": "Running", "attempts": 1}));
    let late = Instant(NOW.0 + 30 * 60_000);
    let missing =
        |order: &EtcdRestore, now| decided(order, &of, &[&slow], now).status.backup_before.unwrap().missing;
    assert_eq!(missing(&possible, Instant(late.0 - 1)), None);
    assert!(missing(&possible, late).is_some_and(|why| why.contains("within 30 minutes")));
    assert_eq!(missing(&required, late), None);
    // The API server refuses it.
    let mut refused = required.status.clone().unwrap();
    backup_refused(&required, &mut refused, "exceeded quota");
    let told = decided(&order(&kept(&refused), "Required"), &of, &[], NOW);
    assert!(pending(&told.status).1.contains("exceeded quota"), "{:?}", told.status);
    assert!(matches!(told.then, NextAct::Backup(_)), "it is tried again");
    let mut refused = possible.status.clone().unwrap();
    backup_refused(&possible, &mut refused, "exceeded quota");
    assert!(refused.backup_before.unwrap().missing.is_some());
}

#[test]
fn o05_a_cluster_without_a_quorum_is_backed_up_from_one_member() {
    let asked = decided(&restore(&read()), &asking(&lost()), &[], NOW);
    assert!(ordered(&asked).spec.without_quorum);
    assert!(asked.status.backup_before.unwrap().without_quorum);
    // The quorum is lost while the backup waits for it: another one is ordered, which does not.
    let asked = decided(&restore(&read()), &asking(&json!({})), &[], NOW);
    let order = restore(&kept(&asked.status));
    let waits = stored(&ordered(&asked), json!({"phase": "Pending", "attempts": 0}));
    let runs = stored(&ordered(&asked), json!({"phase": "Running", "attempts": 1}));
    assert_eq!(decided(&order, &asking(&lost()), &[&runs], NOW).then, NextAct::Wait);
    for stuck in [waits, stored(&ordered(&asked), failed())] {
        let second = decided(&order, &asking(&lost()), &[&stuck], NOW);
        let object = ordered(&second);
        assert!(object.spec.without_quorum);
        assert_eq!(object.metadata.name.as_deref(), Some("before-restore-u1-2"));
        // There is no third one.
        let order = restore(&kept(&second.status));
        let failed = stored(&object, failed());
        assert_eq!(decided(&order, &asking(&lost()), &[&stuck, &failed], NOW).then, NextAct::Wait);
    }
}

#[test]
fn o05_a_snapshot_that_is_encrypted_leads_to_no_backup_that_is_not() {
    let encrypted = |mode: &str| {
        let mut order = serde_json::to_value(order(&read(), mode)).unwrap();
        order["spec"]["snapshot"]["identitiesSecret"] = json!({"name": "age"});
        serde_json::from_value::<EtcdRestore>(order).unwrap()
    };
    let of = asking(&json!({}));
    let waits = decided(&encrypted("Required"), &of, &[], NOW);
    let (reason, text) = pending(&waits.status);
    assert_eq!((waits.then, reason.as_str()), (NextAct::Wait, "RestoreBackupFailed"));
    assert!(
        text.contains("EtcdBackup of your own, with spec.encryption") && text.contains(COMMAND),
        "{text}"
    );
    let goes_on = decided(&encrypted("IfPossible"), &of, &[], NOW);
    assert!(goes_on.then == NextAct::Wait && goes_on.status.backup_before.unwrap().missing.is_some());
    // An EtcdBackup tells to whom it is encrypted, with whose credentials, and by what Pods.
    let named: EtcdBackup = serde_json::from_value(json!({
        "metadata": {"name": "nightly", "namespace": "default", "uid": "n"},
        "spec": {"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "b", "credentialsSecret": {"name": "c"}}},
            "encryption": {"recipients": ["age1x"]}, "jobTemplate": {"serviceAccountName": "backups"}},
        "status": {"phase": "Complete", "attempts": 1, "result": complete("a1", "2027-01-15T07:00:00Z")["result"]},
    }))
    .unwrap();
    let mut by_name = serde_json::to_value(encrypted("Required")).unwrap();
    by_name["spec"]["snapshot"] =
        json!({"backupRef": {"name": "nightly"}, "identitiesSecret": {"name": "age"}});
    let by_name: EtcdRestore = serde_json::from_value(by_name).unwrap();
    let seen = Seen {
        restore: &by_name,
        cluster: Some(&of),
        backup: Some(&named),
        backups: &[&named],
        jobs: &[],
        now: NOW,
    };
    let spec = ordered(&decide(seen)).spec;
    assert_eq!(spec.encryption, named.spec.encryption);
    assert_eq!(spec.destination, named.spec.destination);
    assert_eq!(spec.job_template.unwrap().service_account_name.as_deref(), Some("backups"));
    // One that stands for an object of before does not: the object says only that it is encrypted.
    let mut of_before = named.clone();
    of_before.spec.encryption = None;
    of_before.spec.existing =
        Some(ExistingObject { key: "k".to_owned(), sha256: SHA256.to_owned(), ..ExistingObject::default() });
    let decided = |restore: &EtcdRestore, of_before: &EtcdBackup| {
        decide(Seen { restore, backup: Some(of_before), backups: &[of_before], ..seen })
    };
    let (_, text) = pending(&decided(&by_name, &of_before).status);
    assert!(text.contains("EtcdBackup nightly, which stands for an object"), "{text}");
    let mut without = by_name.clone();
    without.spec.snapshot.identities_secret = None;
    let of_result = |encrypted: bool| {
        let mut one = of_before.clone();
        one.status.as_mut().unwrap().result.as_mut().unwrap().encrypted = encrypted;
        one
    };
    assert_eq!(decided(&without, &of_result(true)).then, NextAct::Wait);
    assert_eq!(ordered(&decided(&without, &of_result(false))).spec.encryption, None);
}

#[test]
fn o05_with_latest_the_backup_that_was_found_tells_to_whom_and_by_what_pods() {
    let found: EtcdBackup = serde_json::from_value(json!({
        "metadata": {"name": "nightly", "namespace": "default", "uid": "n"},
        "spec": {"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "b"}}, "rateLimit": "1Mi",
            "encryption": {"recipients": ["age1x"]}, "jobTemplate": {"serviceAccountName": "backups"}},
        "status": {"phase": "Complete", "attempts": 1, "result": complete("a1", "2027-01-15T07:00:00Z")["result"]},
    }))
    .unwrap();
    let of_latest = |mode: &str| {
        let mut order = serde_json::to_value(order(&read(), mode)).unwrap();
        order["spec"]["snapshot"] = json!({"identitiesSecret": {"name": "age"},
            "latest": {"destination": {"s3": {"bucket": "b"}}, "cluster": "demo"}});
        serde_json::from_value::<EtcdRestore>(order).unwrap()
    };
    let of = asking(&json!({}));
    let spec = ordered(&decided(&of_latest("Required"), &of, &[&found], NOW)).spec;
    assert_eq!(
        (spec.encryption, spec.destination),
        (found.spec.encryption.clone(), found.spec.destination.clone())
    );
    assert_eq!(spec.job_template.unwrap().service_account_name.as_deref(), Some("backups"));
    assert_eq!(spec.rate_limit, None, "the restore waits for it");
    let mut elsewhere = found.clone();
    elsewhere.spec.destination = serde_json::from_value(json!({"s3": {"bucket": "other"}})).unwrap();
    let mut plain = found.clone();
    plain.spec.encryption = None;
    let mut another = found.clone();
    another.status.as_mut().unwrap().result.as_mut().unwrap().stored_sha256 = "6".repeat(64);
    for backups in [&[][..], &[&elsewhere], &[&plain], &[&another]] {
        let waits = decided(&of_latest("Required"), &of, backups, NOW);
        assert_eq!(waits.then, NextAct::Wait);
        assert!(pending(&waits.status).1.contains("with spec.backupBefore: Never"), "{:?}", waits.status);
        let goes_on = decided(&of_latest("IfPossible"), &of, backups, NOW).status;
        assert!(goes_on.backup_before.unwrap().missing.is_some());
    }
}

#[test]
fn o05_without_an_etcdbackup_it_reaches_the_store_as_the_reading_did() {
    let mut of = serde_json::to_value(asking(&json!({}))).unwrap();
    of["spec"]["podTemplate"] = json!({"spec": {"serviceAccountName": "etcd", "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "etcd", "operator": "Exists"}]}});
    let of: EtcdCluster = serde_json::from_value(of).unwrap();
    let template = ordered(&decided(&restore(&read()), &of, &[], NOW)).spec.job_template.unwrap();
    assert_eq!(template.service_account_name.as_deref(), Some("etcd"));
    assert!(template.node_selector.is_some() && template.tolerations.is_some());
}

#[test]
fn o05_a_slow_backup_counts_from_when_it_was_seen_to_be_complete_and_for_as_long_as_a_reading_takes() {
    let hours = |hours: &str| {
        let mut order = serde_json::to_value(restore(&read())).unwrap();
        order["spec"]["startingDeadline"] = json!(hours);
        serde_json::from_value::<EtcdRestore>(order).unwrap()
    };
    let of = asking(&json!({}));
    for (deadline, limit, counts) in
        [("1h", "1800s", 30), ("10m", "300s", 30), ("3h", "5400s", 90), ("24h", "43200s", 120)]
    {
        let mut order = hours(deadline);
        let asked = decided(&order, &of, &[], NOW);
        assert_eq!(ordered(&asked).spec.deadline, limit);
        order.status = Some(asked.status.clone());
        // The clock of the Job's node is behind.
        let mut status = complete("a1", "2027-01-15T01:00:00Z");
        status["conditions"] = json!([{"type": "Complete", "status": "True", "reason": "BackupComplete", "message": "",
            "lastTransitionTime": "2027-01-15T08:00:00Z"}]);
        let whole = stored(&ordered(&asked), status);
        order.status = Some(decided(&order, &of, &[&whole], NOW).status);
        let last = Instant(NOW.0 + counts * 60_000 - 1);
        let of_last = decided(&order, &of, &[&whole], last).status.backup_before.unwrap();
        assert_eq!(of_last.number, 1, "{deadline}");
        let over = decided(&order, &of, &[&whole], Instant(last.0 + 1)).status.backup_before;
        assert!(over.is_none_or(|taken| taken.number == 2), "{deadline}");
    }
}

/// The command that restores without gives the order again, with another uid.
#[test]
fn o05_an_order_that_does_without_waits_for_no_backup_of_an_earlier_order() {
    let of = cluster(&json!({"clusterID": "a1"}));
    let asked = decided(&restore(&read()), &asking(&json!({})), &[], NOW);
    let mut runs = stored(&ordered(&asked), json!({"phase": "Running", "attempts": 1}));
    for name in ["before-restore-u0", "before-restore-u0-2"] {
        runs.metadata.name = Some(name.to_owned());
        assert!(decided(&order(&read(), "Never"), &of, &[&runs], NOW).status.snapshot.is_some());
        let waits = decided(&order(&read(), "Required"), &of, &[&runs], NOW).status;
        assert!(waits.snapshot.is_none() && pending(&waits).1.contains(name), "{waits:?}");
    }
    runs.metadata.name = Some("nightly".to_owned());
    assert!(decided(&order(&read(), "Never"), &of, &[&runs], NOW).status.snapshot.is_none(), "a person's");
}

/// It overtakes what waits, is not held up by the bound over all clusters, and holds up no order as an older backup would.
#[test]
fn o05_the_backup_before_a_restore_deadlocks_with_no_queue() {
    use crate::backup::{Bound, blocker};
    let of = asking(&json!({}));
    let asked = decided(&restore(&read()), &of, &[], NOW);
    let own = stored(&ordered(&asked), json!({"phase": "Pending", "attempts": 0}));
    let mut older = own.clone();
    older.metadata.name = Some("nightly".to_owned());
    older.metadata.uid = Some("o".to_owned());
    older.metadata.annotations = None;
    older.metadata.creation_timestamp = serde_json::from_value(json!("2027-01-15T07:00:00Z")).unwrap();
    assert_eq!(blocker(&own, [&older].into_iter(), NOW), None, "it is its turn");
    assert!(blocker(&older, [&own].into_iter(), NOW).is_some());
    let bound = Bound::new(1);
    assert!(!bound.holds(&own, Some(&of)) && bound.holds(&older, Some(&of)));
    assert!(
        bound.holds(&own, Some(&cluster(&json!({"clusterID": "a1"})))),
        "nobody asks for it: its name is no proof"
    );
    // It has the second of the order, and is not over.
    let order = restore(&kept(&asked.status));
    assert!(
        decided(&order, &of, &[&own], NOW).status.snapshot.is_some(),
        "it is not waited for as an older one"
    );
}
