//! EtcdBackups for what a store has already, made again after those that had written it were lost.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::backup::{BackupSource, DeletionPolicy, EtcdBackupSpec, ExistingObject};
use quorate_api::job::{ClusterName, ListOrder};
use quorate_api::schedule::ListedUpTo;
use quorate_api::{Destination, EtcdBackup, EtcdBackupSchedule, keys};
use sha2::{Digest as _, Sha256};

use crate::certificate::parsed::hex;

/// How many backups a page has: with the longest keys they fit into a termination message.
pub const PAGE: usize = 10;

/// The longest part of a name that comes from the name of the EtcdBackup that wrote the object.
const LONGEST: usize = 40;

/// How long such an EtcdBackup looks for its object where the store does not answer. It is made once.
const DEADLINE: &str = "24h";

/// The order to list a page of what the destination of a schedule has of its EtcdCluster, after this object. `None` if it backs up no
/// EtcdCluster.
pub fn order(schedule: &EtcdBackupSchedule, after: Option<&ListedUpTo>) -> Option<ListOrder> {
    let template = &schedule.spec.backup_template.spec;
    let annotations = schedule.metadata.annotations.as_ref();
    Some(ListOrder {
        destination: template.destination.clone(),
        cluster: ClusterName {
            namespace: schedule.metadata.namespace.clone()?,
            name: template.source.cluster.clone()?,
        },
        after: after.cloned(),
        most: PAGE,
        allow_unsigned: annotations
            .is_some_and(|all| all.get(keys::CATALOG_ALLOWS_UNSIGNED).is_some_and(|value| value == "true")),
    })
}

/// The EtcdBackup that stands for an object in the destination of a schedule. It is none of the schedule's: no label and no annotation names
/// that, so neither retention nor anything that counts sees it, and it has no owner.
pub fn backup(schedule: &EtcdBackupSchedule, object: &ExistingObject) -> EtcdBackup {
    let template = &schedule.spec.backup_template;
    let metadata = template.metadata.clone().unwrap_or_default();
    let given = |key: &String| !key.starts_with(keys::GROUP);
    let spec = EtcdBackupSpec {
        source: BackupSource { cluster: template.spec.source.cluster.clone(), endpoints: None },
        existing: Some(object.clone()),
        destination: template.spec.destination.clone(),
        deletion_policy: DeletionPolicy::Retain,
        deadline: DEADLINE.to_owned(),
        job_template: template.spec.job_template.clone(),
        ..EtcdBackupSpec::default()
    };
    let mut annotations: BTreeMap<_, _> =
        metadata.annotations.into_iter().filter(|(key, _)| given(key)).collect();
    annotations.insert(keys::EXISTING_OBJECT.to_owned(), object.key.clone());
    let metadata = ObjectMeta {
        name: Some(name(&template.spec.destination, &object.key)),
        namespace: schedule.metadata.namespace.clone(),
        labels: Some(metadata.labels.into_iter().filter(|(key, _)| given(key)).collect()),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    };
    EtcdBackup { metadata, spec, status: None }
}

/// The name of the EtcdBackup that stands for an object: what the one that wrote it was called, for people, and a hash of where it is. So an
/// object has one at most, however often it is listed.
pub fn name(destination: &Destination, key: &str) -> String {
    let file = key.rsplit('/').next().unwrap_or_default();
    let stem = file.split(".db").next().unwrap_or_default();
    let written_by = stem.len().checked_sub(UID).and_then(|end| stem.get(..end)).unwrap_or(stem);
    let plain = written_by
        .chars()
        .map(|one| if one.is_ascii_alphanumeric() { one.to_ascii_lowercase() } else { '-' });
    let plain: String = plain.take(LONGEST).collect();
    let place = format!("{} {}", destination.endpoint().unwrap_or_default(), destination.url(key));
    let hash = Sha256::digest(place.as_bytes());
    let mut name = format!("existing-{}", plain.trim_matches('-'));
    name.truncate(name.trim_end_matches('-').len());
    name.push('-');
    name.push_str(&hex(&hash[..6]));
    name
}

/// How a key ends after the name of its EtcdBackup: a dash and a uid.
const UID: usize = 37;
