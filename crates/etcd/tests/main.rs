//! The etcd port.

mod auth;
mod handshake;
mod peers;
mod real_etcd;
mod tls;
