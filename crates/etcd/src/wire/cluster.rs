//! Messages of the Cluster service.

use super::ResponseHeader;

/// A member as it stands in the member list.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Member {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its `--name`; empty until it has started for the first time.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Where its peers reach it.
    #[prost(string, repeated, tag = "3")]
    pub peer_urls: Vec<String>,
    /// Where its clients reach it; empty until it has started for the first time.
    #[prost(string, repeated, tag = "4")]
    pub client_urls: Vec<String>,
    /// It replicates but does not vote.
    #[prost(bool, tag = "5")]
    pub is_learner: bool,
}

/// Asks for a new member.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct MemberAddRequest {
    /// Where its peers will reach it.
    #[prost(string, repeated, tag = "1")]
    pub peer_urls: Vec<String>,
    /// Whether to add it as a learner.
    #[prost(bool, tag = "2")]
    pub is_learner: bool,
}

/// The new member and the list with it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct MemberAddResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The new member.
    #[prost(message, optional, tag = "2")]
    pub member: Option<Member>,
    /// All members after the change.
    #[prost(message, repeated, tag = "3")]
    pub members: Vec<Member>,
}

/// Asks to remove a member.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct MemberRemoveRequest {
    /// Which.
    #[prost(uint64, tag = "1")]
    pub id: u64,
}

/// The list after the removal.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct MemberRemoveResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// All members after the change.
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}

/// Asks to change a member's peer URLs.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct MemberUpdateRequest {
    /// Which.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The new URLs.
    #[prost(string, repeated, tag = "2")]
    pub peer_urls: Vec<String>,
}

/// The list after the update.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct MemberUpdateResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// All members after the change.
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}

/// Asks for the member list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct MemberListRequest {
    /// Whether a quorum must confirm it. Without, the responder tells what it happens to know.
    #[prost(bool, tag = "1")]
    pub linearizable: bool,
}

/// The member list.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct MemberListResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// All members.
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}

/// Asks to make a learner a voter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct MemberPromoteRequest {
    /// Which.
    #[prost(uint64, tag = "1")]
    pub id: u64,
}

/// The list after the promotion.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct MemberPromoteResponse {
    /// Who answered.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// All members after the change.
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}
