//! The agent with real files, sockets and etcd.

mod guard;
mod probe;
mod run;
