//! A Kubernetes for a laptop without Kubernetes: `localkube` over HTTPS, nodes that run the containers of Pods as
//! processes, and the operator beside them. Never offered for production.

pub mod cli;
mod clock;
pub mod home;
mod http;
pub mod isolate;
pub mod ledger;
mod log_source;
pub mod names;
pub mod node;
pub mod process;
pub mod programs;
mod proxy;
mod saved;
mod server;
pub mod shim;
mod supervisor;
