//! Reads the command line. A value that clap refuses may come from the environment; the message then names the variable.

use std::ffi::OsString;
use std::{env, iter};

use clap::error::{ContextKind, ContextValue, Error};
use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _};

use crate::Cli;

/// The command line of this process. Prints what is wrong with it, and exits.
pub fn parse() -> Cli {
    let arguments: Vec<OsString> = env::args_os().collect();
    let parsed = Cli::command().try_get_matches_from(&arguments).and_then(|matches| {
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut Cli::command()))
    });
    parsed.unwrap_or_else(|error| {
        let variable = variable(&error, &arguments);
        let _ = error.print();
        if let Some(variable) = variable {
            eprintln!("The value comes from the environment variable {variable}.");
        }
        std::process::exit(error.exit_code())
    })
}

/// The environment variable that the refused value comes from.
fn variable(error: &Error, arguments: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(refused)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = refused.split_whitespace().next()?;
    let given = |argument: &OsString| {
        let argument = argument.to_string_lossy();
        argument == flag || argument.starts_with(&format!("{flag}="))
    };
    if arguments.iter().any(given) {
        return None;
    }
    let is_it = |arg: &&Arg| arg.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long));
    let command = Cli::command();
    let variable = commands(&command).flat_map(Command::get_arguments).find(is_it)?.get_env()?;
    env::var_os(variable).map(|_| variable.to_string_lossy().into_owned())
}

/// The command and everything below it.
fn commands(command: &Command) -> Box<dyn Iterator<Item = &Command> + '_> {
    Box::new(iter::once(command).chain(command.get_subcommands().flat_map(commands)))
}
