//! etcd's gRPC interface: messages and stubs, client and server side, generated from `proto/etcd.proto`.
//!
//! The types are etcd's: plain integers and strings. Everything outside this crate uses
//! [`MemberClient`](crate::MemberClient) instead; the server side exists so that tests can play etcd.
#![allow(missing_docs, clippy::all, clippy::pedantic)] // generated

tonic::include_proto!("etcdserverpb");
