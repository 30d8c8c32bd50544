//! Jobs that run the agent once: a backup, the removal of an object, the reading of one, a restore test.
//!
//! - `draft`: a Job in the making and its Pod. What differs between tasks is data of it, or of the [task](quorate_api::job::Task)
//! - `template`: where it runs and as whom; `scratch`: its volume; [`verify()`]: the two containers of a restore test
//!
//! Their Pods meet the restricted Pod Security standard. They have no token of a service account, unless the store takes its identity
//! from there. Kubernetes never retries them: the operator does, and it deletes them when it has read the answer.

mod draft;
mod scratch;
pub(crate) mod template;
mod terms;
mod verify;

use k8s_openapi::api::batch::v1::Job;
use quorate_api::backup::JobTemplate;
use quorate_api::cluster::DEFAULT_IMAGE_REGISTRY;
use quorate_api::job::{
    BackupOrder, ETCD_TLS_DIR, ListOrder, LookOrder, ReadOrder, RemoveOrder, SCRATCH_DIR,
};
use quorate_api::{EtcdBackup, EtcdBackupSchedule, EtcdCluster, EtcdRestore};

use crate::backup::ExistingOrder;
use crate::defaults::Defaults;
use draft::{Draft, secret_volume};
pub(crate) use template::template_of_cluster;
pub use terms::{CONTAINER, FETCHES, Terms};
pub use verify::verify;

/// The Job of an attempt of a backup.
pub fn backup(
    backup: &EtcdBackup,
    order: &BackupOrder,
    tls_secret: Option<&str>,
    attempt: u32,
    terms: Terms<'_>,
) -> Job {
    let mut draft = Draft::of_backup(backup, terms);
    // The labels may be those of members, before a restore.
    draft.is_never_ready = !draft.template.labels.is_empty();
    if let Some(secret) = tls_secret {
        draft.mount("etcd-tls", secret_volume(secret), ETCD_TLS_DIR);
    }
    if order.spool {
        let bytes = backup.status.as_ref().and_then(|status| status.scratch_bytes);
        draft.mount("scratch", scratch::volume(&draft.template, terms.cluster, bytes), SCRATCH_DIR);
    }
    draft.made(order, attempt)
}

/// The Job of a removal.
pub fn remove(backup: &EtcdBackup, order: &RemoveOrder, removal: u32, terms: Terms<'_>) -> Job {
    Draft::of_backup(backup, terms).made(order, removal)
}

/// The Job of a try to see the object of an EtcdBackup that stands for an existing one.
pub fn inspect(backup: &EtcdBackup, order: &ExistingOrder, attempt: u32, terms: Terms<'_>) -> Job {
    let mut draft = Draft::of_backup(backup, terms);
    if backup.is_for_restore() {
        // It reads what the members of a restore read next, and as they do.
        draft.is_no_member();
    }
    match order {
        ExistingOrder::Inspect(order) => draft.made(order, attempt),
        ExistingOrder::Find(order) => draft.made(order, attempt),
    }
}

/// The Job of a try to list what the store of a schedule has.
pub fn list(schedule: &EtcdBackupSchedule, order: &ListOrder, attempt: u32, terms: Terms<'_>) -> Job {
    let template = schedule.spec.backup_template.spec.job_template.as_deref().cloned();
    Draft::of_schedule(schedule, template, terms).made(order, attempt)
}

/// The Job of a look for the objects of backups of a schedule. `template` is that of a backup.
pub fn look(
    schedule: &EtcdBackupSchedule,
    order: &LookOrder,
    template: Option<JobTemplate>,
    name: &str,
    terms: Terms<'_>,
) -> Job {
    Draft::of_schedule(schedule, template, terms).named(order, name)
}

/// The Job of a try to read the snapshot of an EtcdRestore. It runs where and as the members of its EtcdCluster do, which read it next.
pub fn read(restore: &EtcdRestore, order: &ReadOrder, attempt: u32, terms: Terms<'_>) -> Job {
    let mut draft = Draft::of_restore(restore, terms);
    draft.is_no_member();
    draft.knows_identities(restore.spec.snapshot.identities_secret.as_ref());
    draft.made(order, attempt)
}

/// The image of the etcd that a backup is of: that of its cluster where the versions are the same. One that objects may not name, which the
/// cluster is refused for, is not taken from there.
pub fn etcd_image(cluster: Option<&EtcdCluster>, version: &str, defaults: &Defaults) -> String {
    let version = version.trim_start_matches('v');
    let spec = cluster.map(|cluster| &cluster.spec);
    let same = spec.filter(|spec| spec.version.trim_start_matches('v') == version);
    let admits = |image: &String| defaults.allowed_images.admits(image);
    if let Some(image) = same.and_then(|spec| spec.image.clone()).filter(admits) {
        return image;
    }
    let named =
        spec.and_then(|spec| spec.image_registry.as_ref()).map(|registry| format!("{registry}:v{version}"));
    if let Some(image) = named.filter(admits) {
        return image;
    }
    let default =
        if defaults.image_registry.is_empty() { DEFAULT_IMAGE_REGISTRY } else { &defaults.image_registry };
    format!("{default}:v{version}")
}
