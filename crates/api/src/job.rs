//! What the operator orders from `quorate agent` in a Job or in a member's Pod, and what that answers. An order comes in the environment
//! variable [`ORDER`]; the answer is the termination message of the container. Both are JSON.

mod task;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backup::ExistingObject;
use crate::destination::Destination;
use crate::schedule::ListedUpTo;

pub use task::Task;

/// The environment variable with the order.
pub const ORDER: &str = "QUORATE_ORDER";

/// The environment variable with the names of those of `jobTemplate.env` that the operator does not give to the Job. An agent that sees it
/// refuses the order.
pub const REFUSED_ENV: &str = "QUORATE_REFUSED_ENV";

/// The directory with a file for each key of the Secret of credentials of the store.
pub const CREDENTIALS_DIR: &str = "/etc/quorate/store/credentials";

/// The file with the authorities of the store's server.
pub const CA_FILE: &str = "/etc/quorate/store/ca/ca.crt";

/// The directory of the Secret with age identities, for what is encrypted: each key of it holds identities, a line each.
pub const IDENTITIES_DIR: &str = "/etc/quorate/store/identities";

/// Where the claim of a `pvc` destination is mounted.
pub const PVC_DIR: &str = "/var/lib/quorate/store";

/// The Secret of a namespace with the keys that sign the manifests of its backups: each entry is one. It never is in a store.
pub const SIGNING_SECRET: &str = "quorate-backup-keys";

/// The entry that signs. Signatures by any other entry are accepted, too.
pub const SIGNING_KEY: &str = "key";

/// The least bytes of a key (RFC 2104 advises the length of the hash).
pub const SIGNING_KEY_BYTES: usize = 32;

/// Where [`SIGNING_SECRET`] is mounted.
pub const SIGNING_KEYS_DIR: &str = "/etc/quorate/signing-keys";

/// The directory with `tls.crt`, `tls.key` and `ca.crt` for connections to etcd.
pub const ETCD_TLS_DIR: &str = "/etc/quorate/etcd";

/// A directory on a volume of the Job, for a snapshot that is written there first, and for restore tests.
pub const SCRATCH_DIR: &str = "/var/lib/quorate/scratch";

/// `quorate agent backup`: a snapshot of etcd into a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupOrder {
    /// The store.
    pub destination: Destination,
    /// The key of the object, without the destination's prefix. Its manifest has the same key with `.json` after it.
    pub key: String,
    /// The members, best first: the first one that is healthy, follows a leader and can be reached is used.
    pub endpoints: Vec<SourceEndpoint>,
    /// Whether connections have TLS, with the files in [`ETCD_TLS_DIR`].
    pub tls: bool,
    /// Who takes it.
    pub origin: Origin,
    /// When the EtcdBackup was created, by the clock of the API server, RFC 3339. Clocks of nodes may be wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<String>,
    /// The least revision that the snapshot must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_revision: Option<i64>,
    /// A quorum is lost: take what one member has, by a serializable snapshot, and label it so.
    #[serde(default)]
    pub without_quorum: bool,
    /// Compress with zstd.
    pub compress: bool,
    /// Encrypt to these age recipients. Empty: do not encrypt.
    #[serde(default)]
    pub recipients: Vec<String>,
    /// Write the snapshot to [`SCRATCH_DIR`] first, so that a slow store does not hold a read transaction of etcd open.
    #[serde(default)]
    pub spool: bool,
    /// The quota of the members in bytes, as far as the operator knows it: etcd 3.5 does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// How many bytes a second are read from the member at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<u64>,
    /// How many seconds the Job has. Given with a limit, which may not admit the database in that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// A member that a snapshot can be taken from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceEndpoint {
    /// Its name; for etcd that the operator does not run, the URL again.
    pub member: String,
    /// Its client URL.
    pub url: String,
}

/// Whom a backup belongs to. It stands in the manifest, and nothing is overwritten or deleted that has another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The namespace of the EtcdBackup.
    pub namespace: String,
    /// The name of the EtcdBackup.
    pub backup: String,
    /// The uid of the EtcdBackup.
    pub backup_uid: String,
    /// The name of the EtcdCluster, if it was taken of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The uid of the EtcdCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<String>,
    /// The cluster id of etcd that the operator has recorded, in hexadecimal digits. A member of another cluster is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
}

/// The manifest beside an object, written after it: an object without a manifest is not a backup. It is also the answer of a backup that
/// has succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The format of this manifest: 1.
    pub format: u32,
    /// Whom it belongs to.
    pub origin: Origin,
    /// The key of the object, without the destination's prefix.
    pub key: String,
    /// Bytes of the object in the store.
    pub stored_bytes: u64,
    /// SHA-256 of the object in the store, in hexadecimal digits.
    pub stored_sha256: String,
    /// What the store said of the object when it was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<ObjectMark>,
    /// Bytes of the snapshot as etcd sent it, less the 32 of its hash: the size of the database.
    pub snapshot_bytes: u64,
    /// SHA-256 of the database, in hexadecimal digits: the trailer of etcd, which was checked.
    pub snapshot_sha256: String,
    /// Whether the object is compressed with zstd.
    pub compressed: bool,
    /// The age recipients that the object is encrypted to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
    /// The revision that a linearizable read had just before: the snapshot has at least this one.
    pub revision: i64,
    /// The version of the etcd that sent it.
    pub etcd_version: String,
    /// The cluster id, in hexadecimal digits.
    pub cluster_id: String,
    /// The member that sent it.
    pub member: String,
    /// It was taken from one member while no quorum answered: it may lack acknowledged writes, and have some that were not.
    #[serde(default)]
    pub without_quorum: bool,
    /// What the members had at `revision`, for restore tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<Contents>,
    /// Why there are no `contents`. Absent in manifests of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_contents: Option<NoContents>,
    /// Whether auth is enabled in it. Never in a store: who reads a snapshot to its end finds it out. Absent where it cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_enabled: Option<bool>,
    /// When the EtcdBackup was created, by the clock of the API server, RFC 3339. The next two are of the clock of the Job's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<String>,
    /// When it began, RFC 3339.
    pub started: String,
    /// When the object was complete, RFC 3339.
    pub finished: String,
    /// Who vouches for all of the above. Absent where the namespace had no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
}

/// A signature of a manifest by a key of the namespace of its EtcdBackup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signature {
    /// The first 16 hexadecimal digits of the SHA-256 of the key.
    pub key_id: String,
    /// HMAC-SHA256 of the manifest without this signature, in hexadecimal digits.
    pub hmac: String,
}

/// What a store says of an object beside its size. Another object under the same key has another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMark {
    /// The ETag, without quotes. Absent: the store gives none; a claim has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// The version ID of a bucket with versions; of a claim the inode of the file.
    #[serde(rename = "versionID", skip_serializing_if = "Option::is_none")]
    pub version_id: Option<String>,
    /// When the object was modified last, RFC 3339, by the clock of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
}

impl ObjectMark {
    /// Whether this is the mark of the same write. `None`: they have nothing in common that could be compared.
    pub fn is_of_same_write(&self, other: &Self) -> Option<bool> {
        let both = [
            (&self.etag, &other.etag),
            (&self.version_id, &other.version_id),
            (&self.modified, &other.modified),
        ];
        let compared = both.into_iter().filter_map(|(one, other)| Some(one.as_ref()? == other.as_ref()?));
        compared.fold(None, |so_far, same| Some(so_far.unwrap_or(true) && same))
    }
}

/// What etcd has at a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    /// How many keys.
    pub keys: u64,
    /// HashKV: of all keys and their history up to that revision.
    pub hash: u32,
    /// Up to where the history was compacted. Hashes tell only where this is the same.
    pub compact_revision: i64,
    /// The other member that has the same hash. Absent in a cluster of one, or where no other could tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_by: Option<String>,
}

/// Why a manifest has no [`Contents`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoContents {
    /// The database is larger than [`LARGEST_HASHED`].
    TooLarge,
    /// No other member could be compared with: a cluster of one, or one whose followers did not respond.
    NoOtherMember,
    /// The members compacted their history, each up to another revision.
    Compacting,
    /// A member returned no hash, or no number of keys.
    NoHash,
    /// No quorum responded.
    NoQuorum,
    /// A reason of a newer version.
    #[serde(other)]
    Unknown,
}

/// The largest database, in bytes, of which a backup has hashes made: a member reads it within some seconds, and serves nothing meanwhile.
pub const LARGEST_HASHED: u64 = 2 << 30;

/// `quorate agent remove-backup`: deletes an object and its manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoveOrder {
    /// The store.
    pub destination: Destination,
    /// The key of the object.
    pub key: String,
    /// The uid of the EtcdBackup that it must belong to. An object without a manifest belongs to whoever has its key.
    pub backup_uid: String,
}

/// `quorate agent verify-backup`: a restore test. It downloads, verifies, restores into [`SCRATCH_DIR`], starts etcd on that, and compares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifyOrder {
    /// What to restore.
    pub source: Source,
    /// The bytes that its volume needs. Absent where the size of the database is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch_bytes: Option<u64>,
}

/// `quorate agent read-backup`: reads an object to its end, unpacks it, and compares its hashes. Nothing of it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadOrder {
    /// What to read.
    pub source: Source,
}

/// `quorate agent look-for-backups`: whether objects are in the store, as they were written. Only those that the order names are downloaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LookOrder {
    /// The store.
    pub destination: Destination,
    /// The objects.
    pub objects: Vec<StoredObject>,
}

/// An object as its EtcdBackup has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredObject {
    /// The name of the EtcdBackup.
    pub backup: String,
    /// The key of the object, without the destination's prefix.
    pub key: String,
    /// Bytes of the object.
    pub bytes: u64,
    /// Its SHA-256, as the manifest beside it must have it.
    pub sha256: String,
    /// What the store said of it when it was written, or when it was last read to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<ObjectMark>,
    /// Read it to its end, and compare the SHA-256.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read: bool,
}

/// What a look into a store found, by the names of EtcdBackups. What is in no list is there, with the mark of its write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Looked {
    /// The object or its manifest is not there.
    pub gone: Vec<String>,
    /// Another object or manifest is in its place.
    pub changed: Vec<String>,
    /// The object has another mark than that of its write. Whether it has the same bytes was not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rewritten: Vec<String>,
    /// The size is right, and there is no mark to compare.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sized: Vec<String>,
    /// The object was read to its end, and has its SHA-256.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<ReadObject>,
}

/// An object that was read to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadObject {
    /// The name of the EtcdBackup.
    pub backup: String,
    /// What the store said of the object right before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<ObjectMark>,
}

/// `quorate agent find-backup`: finds the newest whole backup of a cluster, by the manifests in a store. Nothing is downloaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FindOrder {
    /// The store.
    pub destination: Destination,
    /// Backups of the EtcdCluster of this namespace and name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// Backups of this cluster ID, in hexadecimal digits. It or `cluster` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// Backups that were finished before this time, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Also one whose manifest no key of the namespace has signed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_unsigned: bool,
}

/// An EtcdCluster by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The newest whole backup of a cluster that a store has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FoundBackup {
    /// Its manifest, without all recipients but one.
    pub manifest: Manifest,
    /// How old it was when it was found, for people.
    pub age: String,
    /// What was seen in the store, for people: how many objects, and how many of them are backups of the cluster.
    pub seen: String,
    /// What was left out although it would have come first, and manifests that cannot be read: each with the reason. No more than five.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

/// `quorate agent inspect-backup`: whether an object is in the store, and what its manifest says. Nothing is downloaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InspectOrder {
    /// The store.
    pub destination: Destination,
    /// The key of the object, without the destination's prefix.
    pub key: String,
    /// The SHA-256 that its manifest must have for it, in hexadecimal digits.
    pub sha256: String,
    /// The version of the object, in a bucket with versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_id: Option<String>,
    /// The name of the EtcdCluster that it must be of. Absent: an object that no manifest describes will do, of whichever cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Also one whose manifest no key of the namespace has signed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_unsigned: bool,
}

/// `quorate agent list-backups`: what a store has of one EtcdCluster, a page at a time, the newest first. Nothing is downloaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListOrder {
    /// The store.
    pub destination: Destination,
    /// The EtcdCluster of this namespace and name.
    pub cluster: ClusterName,
    /// The last object of the page before. Absent: the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ListedUpTo>,
    /// How many backups the page has at most.
    pub most: usize,
    /// Also those whose manifests no key of the namespace has signed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_unsigned: bool,
}

/// A page of what a store has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListedBackups {
    /// The backups of the page, the newest first.
    pub backups: Vec<ExistingObject>,
    /// The last object that the page is about; absent: no object is older.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<ListedUpTo>,
    /// How many objects were seen.
    pub objects: u64,
    /// How many backups of the cluster there are by their manifests, on all pages.
    pub of_cluster: u64,
    /// How many objects with the name of a manifest were left out: not readable, not of the cluster, of the future, or their object is not whole.
    pub skipped: u64,
    /// Why, of some of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An object that is restored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// The store.
    pub destination: Destination,
    /// The key of the object.
    pub key: String,
    /// The SHA-256 that the object in the store must have, in hexadecimal digits. Absent: that of its manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Its version, in a bucket with versions. One that the store does not know counts as absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_id: Option<String>,
}

/// `quorate agent run` in a member's Pod whose bootstrap is a restore (in [`ORDER`]): done before etcd starts, unless the volume has been
/// restored from this very object by this attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreOrder {
    /// What to restore.
    pub source: Source,
    /// etcd's flags of the restore: `--name`.
    pub name: String,
    /// `--initial-cluster`.
    pub initial_cluster: String,
    /// `--initial-cluster-token`.
    pub token: String,
    /// `--initial-advertise-peer-urls`.
    pub peer_url: String,
    /// By how much revisions are raised, so that clients of the old cluster notice; 0: not at all.
    pub bump_revision: u64,
    /// To what they are raised at least, if at all.
    #[serde(default)]
    pub least_revision: i64,
    /// The quota of the members, in bytes: a larger snapshot is refused.
    pub quota_bytes: u64,
    /// A snapshot that was ordered before this time is refused, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
}

impl RestoreOrder {
    /// By how much the revisions of a snapshot are raised whose own one is given.
    pub fn raise(&self, revision: i64) -> u64 {
        let to_least = u64::try_from(self.least_revision.saturating_sub(revision)).unwrap_or(0);
        if self.bump_revision == 0 { 0 } else { self.bump_revision.max(to_least) }
    }
}

/// `quorate agent recover` in a member's Pod while a lost quorum is recovered (in [`ORDER`]). The member's etcd is not started, and its data
/// are not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecoverOrder {
    /// Report what the member has stored.
    Read,
    /// Start etcd on a copy of the data, as a cluster of this one member, and take a snapshot of it.
    Extract(Box<ExtractOrder>),
}

/// The snapshot of a copy of the member's data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtractOrder {
    /// The store: a directory of the member's own volume.
    pub destination: Destination,
    /// The key of the object.
    pub key: String,
    /// Who takes it.
    pub origin: Origin,
    /// What the member reported when it was chosen. Other data are refused.
    pub stored: StoredLog,
}

/// The path on the port of the probe at which an agent replies with a [`VolumeSpace`].
pub const VOLUME_PATH: &str = "/volume";

/// What the volume of a member has, as its agent last saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSpace {
    /// The free bytes.
    pub free_bytes: u64,
    /// All bytes of its file system.
    pub volume_bytes: u64,
}

/// What a member has stored, by its log and its database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredLog {
    /// The cluster whose log it is, in hexadecimal digits.
    pub cluster_id: String,
    /// The member that wrote the log, in hexadecimal digits.
    pub member_id: String,
    /// raft's term.
    pub term: u64,
    /// The index of the last entry, which need not be committed.
    pub last_index: u64,
    /// The term of that entry.
    pub last_term: u64,
    /// What is committed for certain: the hard state's commit index or the database's consistent index, the greater one. etcd keeps the
    /// entries up to this one when it makes a new cluster of the member, and no later one.
    pub committed_index: u64,
    /// The last entry that the database contains.
    pub consistent_index: u64,
    /// The revision of the database.
    pub revision: i64,
}

/// What a restore test found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    /// The manifest of what was restored.
    pub manifest: Manifest,
    /// The revision that etcd had after its start.
    pub revision: i64,
    /// How many keys.
    pub keys: u64,
    /// HashKV at that revision.
    pub hash: u32,
    /// What was compared with the manifest, and is the same. Empty where an older agent did the test.
    #[serde(default)]
    pub compared: Vec<Compared>,
}

/// What a restore test compares with the manifest of the backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Compared {
    /// The revision is that of the backup or a later one.
    Revision,
    /// The number of keys at the revision of the backup.
    Keys,
    /// HashKV at that revision: all keys, values and their history.
    Hash,
}

/// The answer of a Job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// A backup is in the store, whole and verified.
    BackedUp(Manifest),
    /// The object is gone.
    Removed,
    /// The object was read to its end, and is what was stored. Without a manifest in the store, only hashes and sizes are known.
    Read(Manifest),
    /// The restore test has passed.
    Verified(Verified),
    /// Which objects are in the store.
    Looked(Looked),
    /// The newest backup of a cluster.
    Found(FoundBackup),
    /// The object is in the store, and its manifest is this.
    Inspected(Manifest),
    /// A page of what a store has of a cluster.
    Listed(ListedBackups),
    /// What the member has stored. Its etcd does not run.
    Stored(StoredLog),
    /// The member has nothing that a cluster could be recovered from, and why. Its etcd does not run.
    NothingStored(String),
    /// It failed.
    Failed(Failure),
}

/// Why a Job failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// What happened and what to do, in one sentence or two.
    pub message: String,
    /// The bytes of the database, of [`FailureKind::TooSlow`]: the next attempt needs a volume for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_bytes: Option<u64>,
    /// Whether this Pod of a backup may have written to the store. Absent: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrote: Option<bool>,
}

/// Kinds of failures. They are reasons of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The order cannot be read or contradicts itself: trying again is in vain.
    OrderRefused,
    /// No member can give a snapshot now.
    NoSource,
    /// The stream from etcd ended early, or its hash is wrong.
    SnapshotFailed,
    /// The snapshot was taken too slowly for etcd. The next attempt writes it to a volume of the Job first.
    TooSlow,
    /// The store does not answer, or refuses for the moment.
    StoreUnavailable,
    /// The store refuses the credentials, or there are none: trying again is in vain until they change.
    StoreForbidden,
    /// The bucket, the container or the object does not exist.
    NotInStore,
    /// The store has no whole backup of what was looked for.
    NoBackup,
    /// Backups of several clusters go by the name, and which one is meant cannot be told.
    Ambiguous,
    /// The object is not what its manifest or the order says: damaged, tampered with, or of another backup.
    Mismatch,
    /// It is encrypted, and no identity fits.
    CannotDecrypt,
    /// The limit of the order is too low for the database: for its size, or for what is written meanwhile.
    LimitTooLow,
    /// Something else has that key.
    NotOurs,
    /// Not enough room.
    NoSpace,
    /// The version, the size or the content do not go with what it is restored into.
    Unfit,
    /// It is older than what may be restored.
    Stale,
    /// Another process has the data open.
    InUse,
}

impl Failure {
    /// A failure with its message.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), database_bytes: None, wrote: None }
    }
}

impl FailureKind {
    /// Whether another try, without a change by a person, can succeed.
    pub fn may_pass(self) -> bool {
        match self {
            Self::NoSource
            | Self::SnapshotFailed
            | Self::TooSlow
            | Self::StoreUnavailable
            | Self::NoSpace
            | Self::InUse => true,
            Self::OrderRefused
            | Self::StoreForbidden
            | Self::NotInStore
            | Self::NoBackup
            | Self::Ambiguous
            | Self::Mismatch
            | Self::CannotDecrypt
            | Self::LimitTooLow
            | Self::NotOurs
            | Self::Unfit
            | Self::Stale => false,
        }
    }
}
