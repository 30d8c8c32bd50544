//! The etcd port.

mod peers;
mod real_etcd;
mod tls;
