//! What every controller runs on. Nothing here knows a kind of object.
//!
//! - `controller`: what a kind provides to be run, and what it is given
//! - `lease`: who may act; `watch`: watches that feed an index and wake a worker; `fleet`, `worker`: a worker for each object
//! - `pace`: when the next pass is due; `clock`: the only reader of time; `api_clock`: whether the API server's agrees
//! - `metrics`, `serve`, `events`: figures, health and Kubernetes events; `calls`: requests counted
//! - `files`: the limit of open files
//! - `write`: writes of typed objects, with their preconditions; `writers`: how many are under way, with a share for each namespace
//! - [`crash`]: places to stop at, for tests

pub(crate) mod api_clock;
pub(crate) mod calls;
pub(crate) mod clock;
pub(crate) mod controller;
pub mod crash;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod fleet;
pub(crate) mod lease;
pub(crate) mod metrics;
pub(crate) mod pace;
pub(crate) mod serve;
pub(crate) mod watch;
mod worker;
pub(crate) mod write;
pub(crate) mod writers;
