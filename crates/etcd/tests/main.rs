//! The etcd port.

mod real_etcd;
mod tls;
