//! The EtcdBackups that the operator takes by itself: which one matters, what it is, how far it is, and what status says meanwhile.

use crate::world::{BEGIN, World};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use quorate_api::backup::ExistingObject;
use quorate_api::{EtcdBackup, EtcdCluster};
use quorate_manifests::{Kind, backup_before};
use quorate_model::Instant;
use quorate_model::snapshot::{BackupPurpose, BackupState};
use quorate_model::version::Minor;
use serde_json::{Value, json};

/// The cluster ID that the members have.
const PRESENT: &str = "8e9e05c52164694d";

const DELETED: &str = "2026-09-21T00:00:00Z";

fn committed(version: &str) -> Value {
    json!({ "size": 3, "version": version, "tls": false, "pod": {}, "storage": {
        "medium": "", "accessMode": "ReadWriteOnce", "bytes": 1, "whenDeleted": "Retain", "whenScaled": "Delete",
    } })
}

fn cluster(spec: &Value, metadata: &Value, status: &Value) -> EtcdCluster {
    let mut object = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": { "name": "demo", "namespace": "default", "uid": "c1" },
        "spec": { "size": 3, "version": "3.7.3" },
        "status": { "clusterID": PRESENT, "target": committed("3.6.16") },
    });
    for (part, given) in [("spec", spec), ("metadata", metadata), ("status", status)] {
        for (field, value) in given.as_object().unwrap() {
            object[part][field] = value.clone();
        }
    }
    serde_json::from_value(object).unwrap()
}

fn both() -> Value {
    let to = json!({ "destination": { "pvc": { "claimName": "backups" } } });
    let mut timely = to.clone();
    timely["deadline"] = json!("5m");
    json!({ "upgrade": { "backupBefore": to }, "deletion": { "finalBackup": timely } })
}

fn upgrading() -> EtcdCluster {
    cluster(&both(), &json!({}), &json!({}))
}

fn deleted() -> EtcdCluster {
    cluster(&both(), &json!({ "deletionTimestamp": DELETED }), &json!({}))
}

fn backup(name: &str, uid: Option<&str>, status: &Value) -> EtcdBackup {
    let annotations = uid.map(|uid| json!({ "operator.etcd.io/cluster-uid": uid }));
    serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup",
        "metadata": {
            "name": name, "namespace": "default", "annotations": annotations, "creationTimestamp": DELETED,
        },
        "spec": { "source": { "cluster": "demo" }, "destination": { "pvc": { "claimName": "backups" } } },
        "status": status,
    }))
    .unwrap()
}

#[test]
fn a_backup_is_read_while_an_upgrade_or_the_end_of_a_cluster_with_data_waits_for_it() {
    let read = |cluster: &EtcdCluster| backup_before::to_read(cluster);
    assert_eq!(read(&upgrading()).as_deref(), Some("before-3.7-c1"));
    assert_eq!(read(&deleted()).as_deref(), Some("final-c1"));
    let nothing = json!({});
    let patch = json!({ "target": committed("3.7.1") });
    let deleted = json!({ "deletionTimestamp": DELETED });
    let only_upgrade = json!({ "upgrade": both()["upgrade"] });
    for (spec, metadata, status) in [
        (&nothing, &nothing, &nothing),
        (&both(), &nothing, &patch),
        (&both(), &nothing, &json!({ "clusterID": null })),
        (&only_upgrade, &deleted, &nothing),
    ] {
        assert_eq!(read(&cluster(spec, metadata, status)), None, "{spec} {metadata} {status}");
    }
}

#[test]
fn deletion_waits_until_its_deadline_from_the_deletion_on() {
    let seen = backup_before::read(&deleted(), Ok(None), BEGIN).unwrap();
    let at: Timestamp = DELETED.parse().unwrap();
    let until = Instant(at.as_millisecond() + 300_000);
    assert_eq!((seen.before, seen.state), (BackupPurpose::Deletion { until }, BackupState::Missing));
    let seen = backup_before::read(&upgrading(), Ok(None), BEGIN).unwrap();
    assert_eq!(seen.before, BackupPurpose::Upgrade(Minor(3, 7)));
}

/// A backup that was complete so many hours ago.
fn complete(hours: i64, cluster_id: &str) -> Value {
    complete_since(hours * 60, cluster_id)
}

/// A backup that was complete so many minutes ago.
fn complete_since(minutes: i64, cluster_id: &str) -> Value {
    let finished = Timestamp::from_millisecond(BEGIN.0 - minutes * 60_000).unwrap().to_string();
    json!({ "phase": "Complete", "result": {
        "url": "pvc://backups/k", "key": "k", "revision": 7, "size": "1Ki", "storedSha256": "0", "clusterID": cluster_id,
        "started": finished, "finished": finished,
    } })
}

fn state(cluster: &EtcdCluster, uid: Option<&str>, status: &Value) -> BackupState {
    let name = backup_before::to_read(cluster).unwrap();
    backup_before::read(cluster, Ok(Some(&backup(&name, uid, status))), BEGIN).unwrap().state
}

/// What the state says to people.
fn why(state: BackupState) -> String {
    match state {
        BackupState::Failed(why) | BackupState::Pending { what: why, .. } | BackupState::Unknown(why) => why,
        BackupState::Complete | BackupState::Missing => panic!("{state:?}"),
    }
}

#[test]
fn a_backup_of_data_that_were_replaced_since_does_not_count_and_another_one_can_be_taken() {
    let of_another = complete(1, "a1");
    let upgrade = state(&upgrading(), Some("c1"), &of_another);
    assert!(matches!(upgrade, BackupState::Failed(_)), "{upgrade:?}");
    let text = why(upgrade);
    assert!(text.contains(PRESENT) && text.contains("Delete EtcdBackup before-3.7-c1"), "{text}");
    // The cluster ends without it, and so its volumes are kept.
    let end = state(&deleted(), Some("c1"), &of_another);
    assert!(matches!(end, BackupState::Failed(_)), "{end:?}");
    let mut lost = deleted();
    lost.status.as_mut().unwrap().cluster_id = None;
    let unknown = state(&lost, Some("c1"), &complete(1, PRESENT));
    assert!(matches!(unknown, BackupState::Unknown(_)), "{unknown:?}");
}

#[test]
fn a_backup_counts_when_it_is_complete_of_this_cluster_and_of_before_this_upgrade() {
    let at = |hours: i64| complete(hours, PRESENT);
    let failed = json!({ "phase": "Failed", "conditions": [{
        "type": "Failed", "status": "True", "reason": "StoreForbidden", "message": "not yours",
        "lastTransitionTime": "2026-09-21T00:00:00Z",
    }] });
    assert_eq!(state(&upgrading(), Some("c1"), &at(23)), BackupState::Complete);
    assert!(why(state(&upgrading(), Some("c1"), &at(25))).contains("more than a day old"));
    assert_eq!(state(&deleted(), Some("c1"), &at(0)), BackupState::Complete);
    for uid in [None, Some("c0")] {
        assert!(why(state(&upgrading(), uid, &at(1))).contains("was not created for this EtcdCluster"));
    }
    let text = why(state(&upgrading(), Some("c1"), &failed));
    assert!(
        text.contains("has failed (StoreForbidden: not yours). Delete EtcdBackup before-3.7-c1"),
        "{text}"
    );
    let pending = state(&upgrading(), Some("c1"), &Value::Null);
    assert!(matches!(pending, BackupState::Pending { runs: false, .. }), "{pending:?}");
    let unread = backup_before::read(&deleted(), Err("timeout"), BEGIN).unwrap().state;
    assert!(matches!(&unread, BackupState::Unknown(why) if why.contains("timeout")), "{unread:?}");
}

#[test]
fn o04_a_final_backup_counts_for_minutes_because_clients_write_until_the_members_stop() {
    let at = |minutes: i64| state(&deleted(), Some("c1"), &complete_since(minutes, PRESENT));
    assert_eq!(at(30), BackupState::Complete);
    let text = why(at(31));
    assert!(text.contains("began more than 30 minutes ago") && text.contains("would be missing"), "{text}");
    // What is written while the snapshot is sent is not in it, either.
    let mut slow = complete_since(31, PRESENT);
    slow["result"]["finished"] = complete_since(0, PRESENT)["result"]["finished"].clone();
    assert!(why(state(&deleted(), Some("c1"), &slow)).contains("began more than 30 minutes ago"));
    // The clock of the Job's node is a year ahead: what counts is when the operator saw that it was complete.
    let seen = Timestamp::from_millisecond(BEGIN.0 - 31 * 60_000).unwrap().to_string();
    let mut ahead = complete_since(-365 * 24 * 60, PRESENT);
    ahead["conditions"] = json!([{
        "type": "Complete", "status": "True", "reason": "BackupComplete", "message": "", "lastTransitionTime": seen,
    }]);
    assert!(why(state(&deleted(), Some("c1"), &ahead)).contains("30 minutes"));
}

#[test]
fn o04_only_the_backup_that_the_operator_orders_counts() {
    let read = |cluster: &EtcdCluster, edit: &dyn Fn(&mut EtcdBackup)| {
        let name = backup_before::to_read(cluster).unwrap();
        let mut backup = backup(&name, Some("c1"), &complete(0, PRESENT));
        edit(&mut backup);
        backup_before::read(cluster, Ok(Some(&backup)), BEGIN).unwrap().state
    };
    assert_eq!(read(&deleted(), &|_| {}), BackupState::Complete);
    assert_eq!(read(&upgrading(), &|_| {}), BackupState::Complete);
    // What another person created beforehand, or elsewhere.
    let early = read(&deleted(), &|backup| {
        let deleted: Timestamp = DELETED.parse().unwrap();
        backup.metadata.creation_timestamp = Some(Time(deleted - SignedDuration::from_secs(61)));
    });
    assert!(why(early).contains("before the EtcdCluster was deleted"));
    let elsewhere = |backup: &mut EtcdBackup| {
        backup.spec.destination = serde_json::from_value(json!({ "pvc": { "claimName": "mine" } })).unwrap();
    };
    let readable = |backup: &mut EtcdBackup| {
        backup.spec.encryption = serde_json::from_value(json!({ "recipients": ["age1other"] })).unwrap();
    };
    let of_one_member = |backup: &mut EtcdBackup| backup.spec.without_quorum = true;
    // What a bucket has, with a manifest that whoever writes there may write.
    let of_before = |backup: &mut EtcdBackup| {
        backup.spec.existing =
            Some(ExistingObject { key: "k".to_owned(), sha256: "0".to_owned(), ..ExistingObject::default() });
    };
    let edits: [&dyn Fn(&mut EtcdBackup); 4] = [&elsewhere, &readable, &of_one_member, &of_before];
    for edit in edits {
        assert!(why(read(&deleted(), edit)).contains("is not what spec.deletion.finalBackup asks for"));
        let text = why(read(&upgrading(), edit));
        assert!(text.contains("is not what spec.upgrade.backupBefore asks for"), "{text}");
        assert!(text.contains("Delete EtcdBackup before-3.7-c1"), "{text}");
    }
}

#[test]
fn a_cluster_that_waits_for_its_final_backup_is_reported_as_available() {
    let mut world = World::running(3);
    let deleted = Timestamp::from_millisecond(world.now.0).unwrap().to_string();
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["deletionTimestamp"] = json!(deleted);
        cluster["spec"]["deletion"] = both()["deletion"].clone();
    });
    world.pass();
    assert_eq!(world.condition("Progressing").1, "FinalBackupRunning");
    assert_eq!(world.condition("Available").0, "True");
    assert_eq!(world.condition("QuorumAvailable").0, "True", "the backup looks for it");
    world.now = world.now + quorate_model::Span::seconds(300);
    world.pass();
    let (_, reason, message) = world.condition("Progressing");
    assert_eq!(reason, "FinalBackupMissing");
    assert!(message.contains("could not") || message.contains("within its deadline"), "{message}");
    assert!(
        world
            .events
            .iter()
            .any(|event| event.warning && event.what.reason().as_str() == "FinalBackupMissing")
    );
}
