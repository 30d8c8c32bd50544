//! The controllers, a folder for each kind, with the same files in each.
//!
//! - [`cluster`]: EtcdCluster

pub(crate) mod cluster;
