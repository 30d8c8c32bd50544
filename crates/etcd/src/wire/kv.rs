//! Messages of the KV service.

use super::ResponseHeader;

/// A key with its value and history.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct KeyValue {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// When it was created.
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    /// When it was changed last.
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    /// How many changes it has seen since it was created.
    #[prost(int64, tag = "4")]
    pub version: i64,
    /// The value.
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
    /// The lease it hangs on; 0 if none.
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

/// The order of a [`RangeRequest`]'s answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum SortOrder {
    /// As stored.
    None = 0,
    /// Smallest first.
    Ascend = 1,
    /// Largest first.
    Descend = 2,
}

/// What a [`RangeRequest`] sorts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum SortTarget {
    /// The key.
    Key = 0,
    /// The version.
    Version = 1,
    /// The create revision.
    Create = 2,
    /// The mod revision.
    Mod = 3,
    /// The value.
    Value = 4,
}

/// Reads one key or a range.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct RangeRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The end, exclusive; empty for one key.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// At most so many; 0 for all.
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// As of this revision; 0 for the present.
    #[prost(int64, tag = "4")]
    pub revision: i64,
    /// In which order.
    #[prost(enumeration = "SortOrder", tag = "5")]
    pub sort_order: i32,
    /// Sorted by what.
    #[prost(enumeration = "SortTarget", tag = "6")]
    pub sort_target: i32,
    /// Whether the responder may answer from what it has, without a quorum.
    #[prost(bool, tag = "7")]
    pub serializable: bool,
    /// Without values.
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
    /// Without keys and values.
    #[prost(bool, tag = "9")]
    pub count_only: bool,
    /// Changed no earlier.
    #[prost(int64, tag = "10")]
    pub min_mod_revision: i64,
    /// Changed no later.
    #[prost(int64, tag = "11")]
    pub max_mod_revision: i64,
    /// Created no earlier.
    #[prost(int64, tag = "12")]
    pub min_create_revision: i64,
    /// Created no later.
    #[prost(int64, tag = "13")]
    pub max_create_revision: i64,
}

/// What was read.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct RangeResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The keys.
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    /// There are more beyond the limit.
    #[prost(bool, tag = "3")]
    pub more: bool,
    /// How many lie in the range.
    #[prost(int64, tag = "4")]
    pub count: i64,
}

/// Writes one key.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct PutRequest {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The value.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    /// The lease to hang it on; 0 for none.
    #[prost(int64, tag = "3")]
    pub lease: i64,
    /// Return what was there.
    #[prost(bool, tag = "4")]
    pub prev_kv: bool,
    /// Keep the value.
    #[prost(bool, tag = "5")]
    pub ignore_value: bool,
    /// Keep the lease.
    #[prost(bool, tag = "6")]
    pub ignore_lease: bool,
}

/// Written.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct PutResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// What was there, if asked for.
    #[prost(message, optional, tag = "2")]
    pub prev_kv: Option<KeyValue>,
}

/// Deletes one key or a range.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct DeleteRangeRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The end, exclusive; empty for one key.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// Return what was there.
    #[prost(bool, tag = "3")]
    pub prev_kv: bool,
}

/// Deleted.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct DeleteRangeResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// How many.
    #[prost(int64, tag = "2")]
    pub deleted: i64,
    /// What was there, if asked for.
    #[prost(message, repeated, tag = "3")]
    pub prev_kvs: Vec<KeyValue>,
}

/// How a [`Compare`] compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum CompareResult {
    /// =
    Equal = 0,
    /// >
    Greater = 1,
    /// <
    Less = 2,
    /// !=
    NotEqual = 3,
}

/// What a [`Compare`] looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum CompareTarget {
    /// The version.
    Version = 0,
    /// The create revision.
    Create = 1,
    /// The mod revision.
    Mod = 2,
    /// The value.
    Value = 3,
    /// The lease.
    Lease = 4,
}

/// A condition of a transaction.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Compare {
    /// How.
    #[prost(enumeration = "CompareResult", tag = "1")]
    pub result: i32,
    /// What.
    #[prost(enumeration = "CompareTarget", tag = "2")]
    pub target: i32,
    /// Of which key.
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    /// With what.
    #[prost(oneof = "compare::TargetUnion", tags = "4, 5, 6, 7, 8")]
    pub target_union: Option<compare::TargetUnion>,
    /// Of which range, its end.
    #[prost(bytes = "vec", tag = "64")]
    pub range_end: Vec<u8>,
}

/// The union inside [`Compare`].
pub mod compare {
    /// What to compare with.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
    pub enum TargetUnion {
        /// A version.
        #[prost(int64, tag = "4")]
        Version(i64),
        /// A create revision.
        #[prost(int64, tag = "5")]
        CreateRevision(i64),
        /// A mod revision.
        #[prost(int64, tag = "6")]
        ModRevision(i64),
        /// A value.
        #[prost(bytes, tag = "7")]
        Value(Vec<u8>),
        /// A lease.
        #[prost(int64, tag = "8")]
        Lease(i64),
    }
}

/// One operation of a transaction.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct RequestOp {
    /// The operation.
    #[prost(oneof = "request_op::Request", tags = "1, 2, 3, 4")]
    pub request: Option<request_op::Request>,
}

/// The union inside [`RequestOp`].
pub mod request_op {
    /// The operation.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
    pub enum Request {
        /// Read.
        #[prost(message, tag = "1")]
        Range(super::RangeRequest),
        /// Write.
        #[prost(message, tag = "2")]
        Put(super::PutRequest),
        /// Delete.
        #[prost(message, tag = "3")]
        DeleteRange(super::DeleteRangeRequest),
        /// A transaction in a transaction.
        #[prost(message, tag = "4")]
        Txn(super::TxnRequest),
    }
}

/// The answer to one operation of a transaction.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ResponseOp {
    /// The answer.
    #[prost(oneof = "response_op::Response", tags = "1, 2, 3, 4")]
    pub response: Option<response_op::Response>,
}

/// The union inside [`ResponseOp`].
pub mod response_op {
    /// The answer.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
    pub enum Response {
        /// Read.
        #[prost(message, tag = "1")]
        Range(super::RangeResponse),
        /// Written.
        #[prost(message, tag = "2")]
        Put(super::PutResponse),
        /// Deleted.
        #[prost(message, tag = "3")]
        DeleteRange(super::DeleteRangeResponse),
        /// A transaction in a transaction.
        #[prost(message, tag = "4")]
        Txn(super::TxnResponse),
    }
}

/// If all conditions hold, these operations, else those; at once.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct TxnRequest {
    /// The conditions.
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    /// If they hold.
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    /// If not.
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

/// What a transaction did.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct TxnResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Whether the conditions held.
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    /// The answers.
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

/// Forgets history up to a revision.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct CompactionRequest {
    /// Up to here.
    #[prost(int64, tag = "1")]
    pub revision: i64,
    /// Answer only when it is done on disk.
    #[prost(bool, tag = "2")]
    pub physical: bool,
}

/// Forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct CompactionResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}
