//! A Kubernetes for a laptop without Kubernetes: `localkube` over HTTPS, nodes that run containers as processes, and
//! the operator. Not for production.

mod builds;
pub mod cli;
mod clock;
mod hang;
mod home;
mod http;
mod isolate;
mod ledger;
mod log_source;
mod names;
mod node;
mod process;
mod programs;
mod proxy;
mod s3;
mod saved;
mod server;
pub mod shim;
mod supervisor;
