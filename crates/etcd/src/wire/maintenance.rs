//! Messages of the Maintenance service.

use super::ResponseHeader;

/// What etcd raises an alarm about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum AlarmType {
    /// No alarm; in a request: any alarm.
    None = 0,
    /// The database has reached its quota; writes are refused.
    NoSpace = 1,
    /// The member's data differ from its peers'.
    Corrupt = 2,
}

/// What an [`AlarmRequest`] shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum AlarmAction {
    /// List.
    Get = 0,
    /// Raise.
    Activate = 1,
    /// Clear.
    Deactivate = 2,
}

/// Lists, raises or clears alarms. Goes through raft, listing too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct AlarmRequest {
    /// What to do.
    #[prost(enumeration = "AlarmAction", tag = "1")]
    pub action: i32,
    /// Whose alarm; 0 for everybody's.
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    /// Which alarm.
    #[prost(enumeration = "AlarmType", tag = "3")]
    pub alarm: i32,
}

/// One alarm of one member.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct AlarmMember {
    /// Whose.
    #[prost(uint64, tag = "1")]
    pub member_id: u64,
    /// Which.
    #[prost(enumeration = "AlarmType", tag = "2")]
    pub alarm: i32,
}

/// The alarms asked for, or those changed.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct AlarmResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The alarms.
    #[prost(message, repeated, tag = "2")]
    pub alarms: Vec<AlarmMember>,
}

/// Asks a member about itself; answered without a quorum, and by learners too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct StatusRequest {}

/// A member about itself.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct StatusResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The version of the program.
    #[prost(string, tag = "2")]
    pub version: String,
    /// The size of the database file in bytes.
    #[prost(int64, tag = "3")]
    pub db_size: i64,
    /// The leader it knows; 0 if none.
    #[prost(uint64, tag = "4")]
    pub leader: u64,
    /// Its committed index.
    #[prost(uint64, tag = "5")]
    pub raft_index: u64,
    /// Its term.
    #[prost(uint64, tag = "6")]
    pub raft_term: u64,
    /// Its applied index.
    #[prost(uint64, tag = "7")]
    pub raft_applied_index: u64,
    /// "no leader" and alarms, as text.
    #[prost(string, repeated, tag = "8")]
    pub errors: Vec<String>,
    /// The part of the database file in use, in bytes.
    #[prost(int64, tag = "9")]
    pub db_size_in_use: i64,
    /// It holds itself for a learner.
    #[prost(bool, tag = "10")]
    pub is_learner: bool,
    /// The version of its storage, since 3.6.
    #[prost(string, tag = "11")]
    pub storage_version: String,
    /// The quota of its database in bytes, since 3.6.
    #[prost(int64, tag = "12")]
    pub db_size_quota: i64,
}

/// Asks a member to defragment its database; it answers nothing else meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct DefragmentRequest {}

/// Done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct DefragmentResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// Asks for the hash of the whole database file's content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct HashRequest {}

/// The hash of the whole database.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct HashResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The hash.
    #[prost(uint32, tag = "2")]
    pub hash: u32,
}

/// Asks for the hash of all keys up to a revision.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct HashKvRequest {
    /// Up to here; 0 for the present revision.
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

/// The hash of the keys. Comparable between members at one revision and one compaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct HashKvResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The hash.
    #[prost(uint32, tag = "2")]
    pub hash: u32,
    /// Compacted up to here.
    #[prost(int64, tag = "3")]
    pub compact_revision: i64,
    /// The revision hashed, since 3.6.
    #[prost(int64, tag = "4")]
    pub hash_revision: i64,
}

/// Asks for a copy of the database.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct SnapshotRequest {}

/// A piece of the copy. The last 32 bytes of the whole are the SHA-256 of what precedes them.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct SnapshotResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// How much is still to come.
    #[prost(uint64, tag = "2")]
    pub remaining_bytes: u64,
    /// The piece.
    #[prost(bytes = "vec", tag = "3")]
    pub blob: Vec<u8>,
    /// The version of the server, since 3.6.
    #[prost(string, tag = "4")]
    pub version: String,
}

/// Asks the leader to hand over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct MoveLeaderRequest {
    /// To whom.
    #[prost(uint64, tag = "1")]
    pub target_id: u64,
}

/// Handed over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct MoveLeaderResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}
