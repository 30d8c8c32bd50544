//! The first process in a member's container: it checks the volume, runs etcd, answers the kubelet, and stops etcd so that
//! clients do not notice. `docs/protocols/pod.md` describes it.
//!
//! - [`mod@run`]: etcd as a child; signals, exit codes, the order of a stop
//! - [`guard`]: inspects the volume before every start of etcd, and reports a verdict
//! - [`probe`]: answers the kubelet whether this member serves
//! - [`install`]: the init container, which brings this program into the container of etcd
//!
//! It never wipes data, joins a cluster, or changes the membership: only the operator does. It has no access to Kubernetes.

pub mod guard;
pub mod install;
mod log;
pub mod probe;
pub mod run;

use std::process::ExitCode;

use clap::Subcommand;

/// The programs of the agent image.
#[derive(Clone, Debug, Subcommand)]
pub enum AgentCommand {
    /// Init container: copies this program to where the container of etcd finds it.
    Install(install::InstallArgs),
    /// Checks the volume, then runs etcd as a child and answers the kubelet for it.
    Run(Box<run::RunArgs>),
    /// Becomes a program that the kernel kills when the agent dies.
    #[command(hide = true)]
    Exec(run::ExecArgs),
}

/// Runs one of the programs until it ends. `Run` needs the main thread.
pub async fn run(command: AgentCommand) -> ExitCode {
    match command {
        AgentCommand::Install(args) => install::run(&args),
        AgentCommand::Run(args) => run::run(&args).await,
        AgentCommand::Exec(args) => run::exec(&args),
    }
}
