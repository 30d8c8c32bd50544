//! The etcd port.

mod handshake;
mod peers;
mod real_etcd;
mod tls;
