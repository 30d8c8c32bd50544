//! The commands of this repository. `cargo xtask` alone lists them.

mod bench;
mod cache;
mod cargo;
mod children;
mod crates;
mod crds;
mod go;
mod history;
mod image;
mod kube;
mod manifests;
mod playground;
mod progress;
mod quorate;
mod repo;
mod sim;
mod test;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

#[derive(Parser)]
#[command(
    bin_name = "cargo xtask",
    about = "The commands of this repository",
    disable_help_subcommand = true
)]
pub(crate) struct Xtask {
    #[command(subcommand)]
    command: Option<Task>,
}

#[derive(Subcommand)]
enum Task {
    /// Set up what is missing and start the playground; arguments go to `quorate playground`. Other minor versions of etcd are
    /// built when a cluster asks for them
    #[command(disable_help_flag = true)]
    Playground {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<String>,
    },
    /// Set up what is missing and run every tier of tests that CI runs, or one
    Test(test::Arguments),
    /// Replay a history of the simulation step by step: the trace that a failure printed, or a file with it
    #[command(disable_help_flag = true)]
    Replay {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<String>,
    },
    /// Judge a history of clients of real etcd once more, and draw it: the file that a failure printed
    History {
        /// The file
        file: PathBuf,
    },
    /// Run random histories of the simulation for hours, with faults of every kind
    Soak {
        /// For how long; 0.5 is half an hour
        #[arg(long, default_value = "1")]
        hours: String,
        /// The first seed; `cargo xtask test --full` runs those below 20000
        #[arg(long, default_value = "20000")]
        from: String,
    },
    /// Build programs of others: etcd, etcdctl and etcdutl 3.5, 3.6 and 3.7 with porcupine and kstatus, those of Kubernetes, an S3 server,
    /// cert-manager's controllers, kube-router, Prometheus with Alertmanager and promtool, or Cargo's helpers
    Tools {
        #[arg(value_enum, default_value = "etcd")]
        set: tools::Set,
        /// One minor version of etcd; without it all of them
        #[arg(value_parser = tools::MINORS)]
        minor: Option<String>,
    },
    /// A real Kubernetes on this machine, three nodes in network namespaces: up, down, status, exec, load
    #[command(disable_help_flag = true)]
    Kube {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<String>,
    },
    /// Write the generated CRDs to config/crd
    Crds,
    /// Write the generated parts of the pages
    Docs,
    /// Build the container image: an OCI archive with one static program
    Image,
    /// Render config/install from the chart and copy the CRDs into it; needs Helm
    Manifests {
        /// Write nothing, and fail if something is out of date or breaks a rule
        #[arg(long)]
        check: bool,
    },
    /// Measure, each figure beside its baseline
    Bench {
        /// `create [--kube] [--runs N] [--tls on|off|both]`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Xtask::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Option<Task>) -> Result<()> {
    match task {
        None => Ok(Xtask::command().print_help()?),
        Some(Task::Playground { args }) => playground::run(&args),
        Some(Task::Test(arguments)) => test::run(arguments),
        Some(Task::Replay { args }) => sim::call("replay", &args),
        Some(Task::History { file }) => history::judge(&file),
        Some(Task::Soak { hours, from }) => {
            sim::call("soak", &["--hours".to_owned(), hours, "--from".to_owned(), from])
        }
        Some(Task::Tools { set, minor }) => tools::run(set, minor.as_deref()),
        Some(Task::Kube { args }) => kube::run(&args),
        Some(Task::Crds) => crds::write(),
        Some(Task::Docs) => test::write_docs(),
        Some(Task::Image) => image::run(),
        Some(Task::Manifests { check: false }) => manifests::write(),
        Some(Task::Manifests { check: true }) => manifests::check(),
        Some(Task::Bench { args }) => bench::run(&args),
    }
}
