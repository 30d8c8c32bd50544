//! The operator: for each EtcdCluster, over and over, observe -> validate -> plan -> execute -> report.
//!
//! - [`run()`], [`run_with`]: from start to end; [`OperatorArgs`], [`Options`]
//! - `fleet`: one worker for each cluster; `cluster`: the worker, its pace and its pass
//! - `watch`, `written`, `observe`: Kubernetes as a pass sees it; `look`: etcd as it sees it
//! - `execute`: carries effects out, with preconditions, at most once
//! - `report`: status, events, figures; `metrics`, `serve`: how they are shown
//! - `lease`: who may act; `tls`: certificates; [`crash`]: places to die at, for tests; [`Clock`]: the only reader of time
//!
//! It decides nothing about clusters: that is the planner's, and the planner's alone.

mod args;
mod calls;
mod clock;
mod cluster;
pub mod crash;
mod execute;
mod fleet;
mod lease;
mod look;
mod metrics;
mod observe;
mod report;
mod run;
mod serve;
mod tls;
mod watch;
mod written;

pub use args::{Bind, LogFormat, OperatorArgs};
pub use clock::Clock;
pub use run::{Options, RunError, run, run_with};
