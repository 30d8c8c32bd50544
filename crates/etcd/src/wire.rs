//! etcd's gRPC interface as data: messages written by hand with etcd's field numbers, and the stubs generated from the
//! method table in `build.rs`, client and server side. Only what this project uses; unknown fields are skipped on
//! reading, so newer servers do no harm.
//!
//! The types speak etcd's language (plain integers and strings). Everything outside this crate uses
//! [`MemberClient`](crate::MemberClient) instead; the server side exists so that tests can play etcd.

mod cluster;
mod kv;
mod maintenance;

pub use cluster::*;
pub use kv::*;
pub use maintenance::*;
pub use stubs::{
    cluster_client, cluster_server, k_v_client as kv_client, k_v_server as kv_server, maintenance_client,
    maintenance_server,
};

#[allow(missing_docs, clippy::all, clippy::pedantic)] // generated
mod stubs {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.Cluster.rs"));
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.Maintenance.rs"));
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.KV.rs"));
}

/// Comes with every reply: who answered, and how far the store is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct ResponseHeader {
    /// The responder's cluster.
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    /// The responder.
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    /// The store's revision; not set by the Cluster service.
    #[prost(int64, tag = "3")]
    pub revision: i64,
    /// The raft term.
    #[prost(uint64, tag = "4")]
    pub raft_term: u64,
}
