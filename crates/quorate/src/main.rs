//! `quorate`: the operator, the programs in its Pods, and the playground, in one binary.

mod arguments;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use quorate_agent::AgentCommand;
use quorate_operator::{LogFormat, OperatorArgs};
use tracing_subscriber::EnvFilter;

/// Runs etcd clusters on Kubernetes.
#[derive(Parser)]
#[command(name = "quorate", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the operator.
    Operator(Box<OperatorArgs>),
    /// What runs beside etcd in a member's Pod.
    #[command(subcommand)]
    Agent(Box<AgentCommand>),
    /// Try it on this machine, without Kubernetes.
    #[cfg(feature = "playground")]
    Playground(Box<quorate_playground::cli::PlaygroundArgs>),
    /// Print the custom resource definitions.
    Crds,
}

fn main() -> ExitCode {
    // Before anything else: in the playground a container's process starts as this program.
    #[cfg(feature = "playground")]
    if std::env::args_os().nth(1).is_some_and(|first| first == quorate_playground::shim::SUBCOMMAND) {
        return quorate_playground::shim::main(std::env::args_os().skip(2));
    }
    match run(arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error with its causes. Some errors repeat their cause in their own message; it is printed once.
fn with_causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        known if known.contains(&cause) => text,
        _ => format!("{text}: {cause}"),
    })
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Operator(args) => {
            log(args.log_format, "info");
            use_ring();
            block_on(async { quorate_operator::run(*args).await.map_err(anyhow::Error::from) })?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Agent(command) => {
            log(LogFormat::Text, "info");
            use_ring();
            block_on(async { Ok(Box::pin(quorate_agent::run(*command)).await) })
        }
        // Enters its namespaces before any thread exists, so it makes its own runtime.
        #[cfg(feature = "playground")]
        Command::Playground(args) => {
            // Its output is for people. Warnings of a client whose API does not answer yet would only disturb it.
            log(LogFormat::Text, "warn,kube_client=off");
            use_ring();
            quorate_playground::cli::main(&args)
        }
        Command::Crds => {
            print!("{}", quorate_api::crds_yaml());
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Names the one TLS provider: rustls panics where it can not tell which to use.
fn use_ring() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

fn log(format: LogFormat, default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().init(),
    }
}
