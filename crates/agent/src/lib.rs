//! The programs that run inside a member's Pod: the guard before etcd, the probe beside it.
//!
//! - [`guard`]: looks at the volume before etcd may touch it, and says what it found
//! - [`probe`]: answers the kubelet whether this member serves
//!
//! Neither ever wipes data, joins a cluster, or changes the membership: that is the operator's business alone.

pub mod guard;
pub mod probe;

use std::process::ExitCode;

use clap::Subcommand;

/// What the agent image can do.
#[derive(Clone, Debug, Subcommand)]
pub enum AgentCommand {
    /// Init container: checks that the volume is this member's and holds what it must, before etcd starts.
    Guard(guard::GuardArgs),
    /// Sidecar: answers /readyz, /startedz, /healthz and /livez for the member.
    Probe(probe::ProbeArgs),
}

/// Runs one of the programs to its end.
pub async fn run(command: AgentCommand) -> ExitCode {
    match command {
        AgentCommand::Guard(args) => guard::run(&args),
        AgentCommand::Probe(args) => probe::run(args).await,
    }
}
