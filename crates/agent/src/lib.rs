//! The first process in a member's container: it checks the volume, runs etcd, answers the kubelet, and stops etcd so that
//! clients do not notice. `docs/protocols/pod.md` describes it.
//!
//! - [`mod@run`]: etcd as a child; signals, exit codes, the order of a stop
//! - [`guard`]: inspects the volume before every start of etcd, and reports a verdict
//! - [`probe`]: answers the kubelet whether this member serves
//! - [`job`]: Jobs of backups: take one, remove one, read one, look for some, find the newest, list some, inspect one, test one
//! - [`restore`]: a member's data from a backup, before etcd starts
//! - [`fetch`]: the init container of a Pod that restores, which alone reaches the store
//! - [`recover`]: the Pod of a member whose cluster has lost its quorum, while it is recovered: etcd does not start
//! - [`install`]: the init container, which brings this program into the container of etcd
//!
//! It never wipes data, joins a cluster, or changes the membership: only the operator does. It has no access to Kubernetes.

pub mod fetch;
pub mod guard;
pub mod install;
pub mod job;
mod log;
pub mod probe;
pub mod recover;
pub mod restore;
pub mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use quorate_api::job::VerifyOrder;
use quorate_backup::Context;

/// The programs of the agent image.
#[derive(Clone, Debug, Subcommand)]
pub enum AgentCommand {
    /// Init container: copies this program to where the container of etcd finds it.
    Install(install::InstallArgs),
    /// Init container of a Pod that restores: fetches the snapshot onto the member's volume, as the order in the environment says.
    Fetch(Box<fetch::FetchArgs>),
    /// Checks the volume, then runs etcd as a child and answers the kubelet for it.
    Run(Box<run::RunArgs>),
    /// While a lost quorum is recovered: reports what the member has stored, or makes a snapshot of a copy of it. It does not start the member.
    Recover(Box<run::RunArgs>),
    /// Takes a backup of etcd into a store, as the order in the environment says.
    Backup(job::JobArgs),
    /// Removes a backup from its store.
    RemoveBackup(job::JobArgs),
    /// Reads a backup to its end and compares its hashes. Nothing of it is kept.
    ReadBackup(job::JobArgs),
    /// Init container of a restore test: fetches the backup into a scratch directory.
    FetchBackup(job::JobArgs),
    /// Looks whether backups are in their store, by their manifests and sizes.
    LookForBackups(job::JobArgs),
    /// Finds the newest whole backup of a cluster, by the manifests in a store.
    FindBackup(job::JobArgs),
    /// Looks whether one object is in a store as an EtcdBackup describes it, by its manifest and size.
    InspectBackup(job::JobArgs),
    /// Lists a page of the backups of a cluster, by the manifests in a store.
    ListBackups(job::JobArgs),
    /// Restores what was fetched into a scratch directory, starts etcd on it, and compares.
    VerifyBackup(job::JobArgs),
    /// Prints what a member has stored, from its log and its database, as JSON. It locks and writes nothing.
    Facts(FactsArgs),
    /// Becomes a program that the kernel kills when the agent dies.
    #[command(hide = true)]
    Exec(run::ExecArgs),
}

/// The flags of `facts`.
#[derive(Clone, Debug, Args)]
pub struct FactsArgs {
    /// etcd's --data-dir.
    #[arg(long, default_value = "/var/lib/etcd/data")]
    pub data_dir: PathBuf,
}

/// Runs one of the programs until it ends. `Run` needs the main thread.
pub async fn run(command: AgentCommand) -> ExitCode {
    match command {
        AgentCommand::Install(args) => install::run(&args),
        AgentCommand::Fetch(args) => fetch::run(&args).await,
        AgentCommand::Run(args) => run::run(&args).await,
        AgentCommand::Recover(args) => recover::run(&args).await,
        AgentCommand::Backup(args) => job::run(&args, quorate_backup::back_up).await,
        AgentCommand::RemoveBackup(args) => job::run(&args, quorate_backup::remove).await,
        AgentCommand::ReadBackup(args) => job::run(&args, quorate_backup::read).await,
        AgentCommand::FetchBackup(args) => job::fetch(&args).await,
        AgentCommand::LookForBackups(args) => job::run(&args, quorate_backup::look).await,
        AgentCommand::FindBackup(args) => job::run(&args, quorate_backup::find).await,
        AgentCommand::InspectBackup(args) => job::run(&args, quorate_backup::inspect).await,
        AgentCommand::ListBackups(args) => job::run(&args, quorate_backup::list).await,
        AgentCommand::VerifyBackup(args) => {
            let verify = async |order: &VerifyOrder, context: &Context| {
                quorate_backup::verify(order, &args.bin_dir, context).await
            };
            job::run(&args, verify).await
        }
        AgentCommand::Facts(args) => facts(&args),
        AgentCommand::Exec(args) => run::exec(&args),
    }
}

fn facts(args: &FactsArgs) -> ExitCode {
    match guard::stored(&args.data_dir) {
        Ok(stored) => {
            println!("{}", serde_json::to_string(&stored).expect("plain strings and numbers"));
            ExitCode::SUCCESS
        }
        Err(why) => {
            log::error(&format!("{}: {why}", args.data_dir.display()));
            ExitCode::FAILURE
        }
    }
}
