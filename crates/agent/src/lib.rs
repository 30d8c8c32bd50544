//! The programs that run inside a member's Pod: the guard before etcd, the probe beside it.
//!
//! - [`guard`]: inspects the volume before etcd may touch it, and reports a verdict
//! - [`probe`]: answers the kubelet whether this member serves
//!
//! Neither wipes data, joins a cluster, or changes the membership: only the operator does.

pub mod guard;
pub mod probe;

use std::process::ExitCode;

use clap::Subcommand;

/// The programs of the agent image.
#[derive(Clone, Debug, Subcommand)]
pub enum AgentCommand {
    /// Init container: checks that the volume is this member's and has the data it must have, before etcd starts.
    Guard(guard::GuardArgs),
    /// Sidecar: answers /readyz and /healthz for the member.
    Probe(probe::ProbeArgs),
}

/// Runs one of the programs until it ends.
pub async fn run(command: AgentCommand) -> ExitCode {
    match command {
        AgentCommand::Guard(args) => guard::run(&args),
        AgentCommand::Probe(args) => probe::run(args).await,
    }
}
