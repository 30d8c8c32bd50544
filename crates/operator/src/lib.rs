//! The operator. Each pass over an EtcdCluster: observe -> validate -> plan -> report -> execute.
//!
//! - [`run()`], [`run_with`]: from start to end; [`OperatorArgs`], [`Options`]
//! - [`runtime`]: what every controller runs on: lease, watches, workers, metrics
//! - `controllers`: a folder for each kind
//!
//! It decides nothing about clusters: only the planner does.

mod args;
mod controllers;
mod run;
pub mod runtime;

pub use args::{Bind, LogFormat, OperatorArgs};
pub use run::{Options, RunError, run, run_with};
pub use runtime::clock::Clock;
pub use runtime::crash;
