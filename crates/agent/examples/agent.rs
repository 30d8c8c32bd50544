//! The agent by itself, without the rest of `quorate`: for its own tests.

use std::process::ExitCode;

use clap::Parser;
use quorate_agent::AgentCommand;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: AgentCommand,
}

#[tokio::main]
async fn main() -> ExitCode {
    Box::pin(quorate_agent::run(Arguments::parse().command)).await
}
