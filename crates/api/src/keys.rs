//! Names in metadata: labels, annotations, the finalizer.

/// The API group, and the prefix of every key of this operator.
pub const GROUP: &str = "operator.etcd.io";

/// The API version.
pub const VERSION: &str = "v1alpha1";

/// Label: the cluster an object belongs to. Reflectors select on it.
pub const CLUSTER: &str = "operator.etcd.io/cluster";

/// Label: the member an object belongs to.
pub const MEMBER: &str = "operator.etcd.io/member";

/// Label: what runs, always [`NAME_VALUE`].
pub const NAME: &str = "app.kubernetes.io/name";

/// The value of [`NAME`].
pub const NAME_VALUE: &str = "etcd";

/// Label: the cluster, once more, under the name that other tools know.
pub const INSTANCE: &str = "app.kubernetes.io/instance";

/// Label: who manages the object, always [`MANAGED_BY_VALUE`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The value of [`MANAGED_BY`].
pub const MANAGED_BY_VALUE: &str = "quorate";

/// Label: the cluster, as the etcd-io operator writes it.
pub const APP: &str = "app";

/// Annotation: the keys of labels and annotations that the spec gave to the object, so that one that is taken out of the spec is taken off it.
pub const GIVEN: &str = "operator.etcd.io/metadata-of-spec";

/// What tells Argo CD, Flux and Helm not to delete an object: it is on what outlives the EtcdCluster, and has no owner for that.
pub const KEEP: [(&str, &str); 3] = [
    ("argocd.argoproj.io/sync-options", "Prune=false,Delete=false"),
    ("helm.sh/resource-policy", "keep"),
    ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
];

/// Annotation on an EtcdCluster: its data are older than those that it was stopped with, and that is known. The value is the cluster
/// ID and the revision that etcd has: `85ce4f421a7c391d/800`.
pub const ACCEPT_DATA_LOSS: &str = "operator.etcd.io/accept-data-loss";

/// Annotation that confirms the record in status as it is, where it does not have the hash that stands beside it: the hash of that
/// record. It says nothing of any other record.
pub const CONFIRM_RECORD: &str = "operator.etcd.io/confirm-record";

/// Annotation that lets a new EtcdCluster serve the volumes of an earlier one: the ID of that etcd cluster.
pub const ADOPT: &str = "operator.etcd.io/adopt";

/// Annotation, beside [`ADOPT`], of a person who knows that the volumes that a restore or a snapshot created are the original ones, or were
/// copied while no member ran: the same ID, a slash, and the uid of this EtcdCluster. So the word of another day, which a repository still has,
/// says nothing of other copies.
pub const ADOPT_COPIES: &str = "operator.etcd.io/adopt-copies";

/// Label of every object that Velero restored; the value is the name of the Restore.
pub const VELERO_RESTORE: &str = "velero.io/restore-name";

/// Label of objects that Velero leaves out of its backups, with the value [`VELERO_EXCLUDE_VALUE`].
pub const VELERO_EXCLUDE: &str = "velero.io/exclude-from-backup";

/// The value of [`VELERO_EXCLUDE`].
pub const VELERO_EXCLUDE_VALUE: &str = "true";

/// Annotation on the client Service: which field of it comes from `spec.service`, and is removed when it is no longer in it. Of labels and
/// annotations [`GIVEN`] says that.
pub const FROM_SPEC: &str = "operator.etcd.io/from-spec";

/// Annotation on volumes, and on EtcdBackups that the operator takes by itself, and label on DataStores of Kamaji: the uid of the EtcdCluster
/// that they were created for.
pub const CLUSTER_UID: &str = "operator.etcd.io/cluster-uid";

/// Annotation on volumes: the ID of the etcd cluster of their data.
pub const CLUSTER_ID: &str = "operator.etcd.io/cluster-id";

/// Annotation on volumes: the ID of the etcd member of their data.
pub const MEMBER_ID: &str = "operator.etcd.io/member-id";

/// Annotation on volumes: the bootstrap token of their data.
pub const CLUSTER_TOKEN: &str = "operator.etcd.io/cluster-token";

/// Annotation on quarantined volumes: since when they are quarantined (RFC 3339). They are never mounted again.
pub const QUARANTINED_SINCE: &str = "operator.etcd.io/quarantined-since";

/// Annotation on volumes: whether the members of their data use TLS, `true` or `false`.
pub const TLS: &str = "operator.etcd.io/tls";

/// Annotation on volumes: the version of etcd that has run, or may have run, on their data.
pub const ETCD_VERSION: &str = "operator.etcd.io/etcd-version";

/// Annotation on an EtcdRestore: the uid of the EtcdCluster whose data it gives up, although they were given up before and taken back. It is
/// bound to that EtcdCluster, so the order of the first time, given again by a repository, never has it.
pub const GIVE_UP_AGAIN: &str = "operator.etcd.io/give-up-again";

/// Annotation on quarantined volumes: why.
pub const QUARANTINE_REASON: &str = "operator.etcd.io/quarantine-reason";

/// Label on quarantined volumes, so that `kubectl get pvc -l operator.etcd.io/quarantined` lists them; the value is [`QUARANTINED_VALUE`].
pub const QUARANTINED: &str = "operator.etcd.io/quarantined";

/// The value of [`QUARANTINED`].
pub const QUARANTINED_VALUE: &str = "true";

/// Annotation on an EtcdCluster that orders to replace a member, by its name and id as in `status.members`: `NAME/ID`. Another one takes its
/// place, on a new volume. No id is used again, so it is spent once the member is gone.
pub const REPLACE_MEMBER: &str = "operator.etcd.io/replace-member";

/// Annotation on Pods: the revision of the Pod template.
pub const REVISION: &str = "operator.etcd.io/revision";

/// Annotation and label on Pods whose member has joined its cluster; the value is [`JOINED_VALUE`]. The guard reads the
/// annotation: from then on an empty volume is a loss. The client Service selects by the label: a Pod of an abandoned
/// bootstrap attempt may still start a cluster of its own, and no client may reach it.
pub const JOINED: &str = "operator.etcd.io/joined";

/// The value of [`JOINED`].
pub const JOINED_VALUE: &str = "true";

/// Label on Pods whose members clients are led to; the value is [`SERVES_VALUE`]. The client Service selects by it, beside [`JOINED`] and
/// the readiness of the Pod. The operator takes it off a member that cannot serve although its Pod is ready, and before it removes one.
pub const SERVES: &str = "operator.etcd.io/serves";

/// The value of [`SERVES`].
pub const SERVES_VALUE: &str = "true";

/// Annotation on Pods: until when they were labelled [`SERVES`], if the operator took the label off (RFC 3339).
pub const SERVED_UNTIL: &str = "operator.etcd.io/served-until";

/// Label on Pods of an incarnation of the cluster that took the place of another one, and in the selectors of its Services; the value is
/// `status.incarnation.number`. A Pod of an earlier incarnation, which a delayed call may create again, has another value or none: no
/// client and no member reaches it by a Service.
pub const INCARNATION: &str = "operator.etcd.io/incarnation";

/// The scheduling gate on the Pods of bootstrap members. The operator removes it when it observes the Pod during the
/// bootstrap. A Pod that a delayed call creates later is never scheduled.
pub const BOOTSTRAP_GATE: &str = "operator.etcd.io/bootstrap";

/// The finalizer on EtcdClusters: Pods are stopped and the retention policy is carried out before the object is deleted.
pub const FINALIZER: &str = "operator.etcd.io/cluster-cleanup";

/// Annotation on an EtcdCluster: the name of the DataStore by which Kamaji keeps control planes of tenants in it.
pub const KAMAJI_DATA_STORE: &str = "operator.etcd.io/kamaji-datastore";

/// The finalizer on EtcdClusters that have a DataStore of Kamaji, or may have one: no member is stopped while tenants use it.
pub const DATA_STORE_FINALIZER: &str = "operator.etcd.io/kamaji-datastore-cleanup";

/// Annotation on an EtcdCluster that is being deleted: when its DataStore was gone (RFC 3339). Until then its tenants wrote, so a final backup
/// counts from then.
pub const DATA_STORE_GONE: &str = "operator.etcd.io/kamaji-datastore-gone-at";

/// Label on objects that are in no namespace: that of their EtcdCluster.
pub const CLUSTER_NAMESPACE: &str = "operator.etcd.io/namespace";

/// Annotation that lets etcd be downgraded to the version in it, which is also the one in the spec.
pub const ALLOW_DOWNGRADE: &str = "operator.etcd.io/allow-downgrade";

/// Annotation that lets etcd's auth be switched off, together with `spec.auth.enabled: false`: the cluster ID, as status has it. Then everybody
/// with a certificate of the cluster may do everything.
pub const DISABLE_AUTH: &str = "operator.etcd.io/disable-auth";

/// Annotation that says that all clients are users of etcd by now: the cluster ID, as status has it. The certificate that applications share is
/// refused from then on.
pub const CLIENTS_ARE_USERS: &str = "operator.etcd.io/clients-are-users";

/// Annotation that orders to recover a lost quorum from the data of one member: its name, or [`RECOVER_AUTO`] for the one that has most.
/// What the others have beyond that is lost.
pub const RECOVER_QUORUM_FROM: &str = "operator.etcd.io/recover-quorum-from";

/// The value of [`RECOVER_QUORUM_FROM`] that leaves the choice to the operator.
pub const RECOVER_AUTO: &str = "auto";

/// Annotation that orders to replace a certificate authority: `clients` or `peers`, and after a slash any word that was not used before.
pub const ROTATE_CA: &str = "operator.etcd.io/rotate-ca";

/// Annotation that says that all clients trust the authority of this fingerprint (16 digits or more): a rotation waits no longer for them.
pub const CLIENTS_TRUST: &str = "operator.etcd.io/clients-trust";

/// Annotation that says that all clients present certificates of the authority of this fingerprint (16 digits or more).
pub const CLIENTS_PRESENT: &str = "operator.etcd.io/clients-present";

/// Annotation on Pods: the generation of trust that its agent waits for before etcd starts; absent: 0.
pub const TRUST: &str = "operator.etcd.io/trust";

/// Label on Jobs and their Pods: the EtcdBackup that they are of. Reflectors select on it.
pub const BACKUP: &str = "operator.etcd.io/backup";

/// Label on EtcdBackups, and on the Jobs and Pods of restore tests: the EtcdBackupSchedule that they are of.
pub const SCHEDULE: &str = "operator.etcd.io/backup-schedule";

/// Annotation on EtcdBackups: the uid of the EtcdBackupSchedule that created them. Only those are deleted by its retention.
pub const SCHEDULE_UID: &str = "operator.etcd.io/backup-schedule-uid";

/// Annotation on EtcdBackups: the time of the schedule that they were created for (RFC 3339).
pub const SCHEDULED_AT: &str = "operator.etcd.io/scheduled-at";

/// Annotation on an EtcdBackupSchedule that orders a backup now; the value is a word that was not used before. The EtcdBackup has it as well.
pub const BACKUP_NOW: &str = "operator.etcd.io/backup-now";

/// Annotation on an EtcdBackupSchedule that orders EtcdBackups for what its destination has of its EtcdCluster, after their objects in
/// Kubernetes were lost; the value is a word that was not used before.
pub const CATALOG: &str = "operator.etcd.io/catalog";

/// Annotation beside [`CATALOG`]: with the value `true`, also backups whose manifests no key of the namespace has signed.
pub const CATALOG_ALLOWS_UNSIGNED: &str = "operator.etcd.io/catalog-allow-unsigned";

/// Annotation on EtcdBackups that the operator creates with `spec.existing`: the key of the object, or `latest`. One that has it and not that field lost it to
/// an older definition, and must not be taken for an order.
pub const EXISTING_OBJECT: &str = "operator.etcd.io/existing-object";

/// Label on Jobs and their Pods that read the snapshot of an EtcdRestore: its name.
pub const RESTORE: &str = "operator.etcd.io/etcd-restore";

/// With the value `true`, an annotation of a ServiceAccount whose identity Jobs of backups may use, and a label of a claim that they may write.
pub const FOR_BACKUPS: &str = "operator.etcd.io/for-backups";

/// The finalizer on EtcdBackups: the Job is stopped and the deletion policy is carried out before the object is deleted.
pub const BACKUP_FINALIZER: &str = "operator.etcd.io/backup-cleanup";

/// The finalizer on EtcdBackups that a restore uses: retention does not delete them.
pub const RESTORE_FINALIZER: &str = "operator.etcd.io/used-by-restore";

/// Annotation that lets an EtcdBackup go although its object cannot be removed from the store; the value is [`ABANDON_OBJECT_VALUE`].
pub const ABANDON_OBJECT: &str = "operator.etcd.io/abandon-object";

/// The value of [`ABANDON_OBJECT`].
pub const ABANDON_OBJECT_VALUE: &str = "true";

/// Label on the Secret of an EtcdUser: its name. Reflectors select on it.
pub const USER: &str = "operator.etcd.io/user";

/// The finalizer on EtcdUsers: the deletion policy is carried out before the object is deleted.
pub const USER_FINALIZER: &str = "operator.etcd.io/user-cleanup";
