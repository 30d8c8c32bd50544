//! The commands in the README: they exist and have these flags.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use clap::CommandFactory;

use super::markdown;
use crate::{Xtask, cargo, children, repo};

const FILE: &str = "README.md";

/// A line for each command that does not exist.
pub fn check() -> Result<Vec<String>> {
    let lines = markdown::code(&repo::read(Path::new(FILE))?);
    let commands: Vec<(usize, Vec<String>)> = lines
        .iter()
        .flat_map(|(number, line)| commands_in(line).into_iter().map(move |words| (*number, words)))
        .collect();
    ensure!(!commands.is_empty(), "{FILE} has no command of this repository");
    cargo::program("quorate", "quorate")?;
    let mut faults = Vec::new();
    for (number, words) in commands {
        if let Some(fault) = fault(&words) {
            faults.push(format!("{FILE}:{number}: {}: {fault}", words.join(" ")));
        }
    }
    Ok(faults)
}

/// The commands of this repository in a line of a code block, split into words: `cargo xtask ...` and `quorate ...`.
fn commands_in(line: &str) -> Vec<Vec<String>> {
    let line = line.trim().trim_start_matches("$ ");
    let line = line.split(" #").next().unwrap_or_default();
    let parts = line.split(['|', ';', '&']).map(|part| part.split_whitespace().map(str::to_owned).collect());
    parts.filter(|words: &Vec<String>| program(words).is_some()).collect()
}

/// The program, and the number of words of its name.
fn program(words: &[String]) -> Option<(&'static str, usize)> {
    match words {
        [cargo, xtask, ..] if cargo == "cargo" && xtask == "xtask" => Some(("xtask", 2)),
        [quorate, ..] if quorate.rsplit('/').next() == Some("quorate") => Some(("quorate", 1)),
        _ => None,
    }
}

fn fault(words: &[String]) -> Option<String> {
    let (program, count) = program(words)?;
    let args = &words[count..];
    if program == "quorate" {
        return fault_of_quorate(args);
    }
    match args {
        // The program that gets the further arguments checks them.
        [command, rest @ ..] if command == "playground" => {
            let args: Vec<String> =
                ["playground".to_owned()].into_iter().chain(rest.iter().cloned()).collect();
            fault_of_quorate(&args)
        }
        _ => {
            let all = ["cargo xtask".to_owned()].into_iter().chain(args.iter().cloned());
            let error = Xtask::command().try_get_matches_from(all).err()?;
            Some(error.to_string().lines().next().unwrap_or_default().to_owned())
        }
    }
}

/// Asks the program itself for help on that command.
fn fault_of_quorate(args: &[String]) -> Option<String> {
    let path = args.iter().take_while(|word| !word.starts_with('-'));
    let help = cargo::program("quorate", "quorate")
        .and_then(|quorate| children::output(Command::new(quorate).args(path).arg("--help")));
    let help = match help {
        Ok(help) => help,
        Err(error) => return Some(format!("{error:#}")),
    };
    let flags = args.iter().filter_map(|word| word.split('=').next()).filter(|word| word.starts_with("--"));
    let unknown: Vec<&str> = flags.filter(|flag| !knows(&help, flag)).collect();
    (!unknown.is_empty()).then(|| format!("no flag {}", unknown.join(", ")))
}

fn knows(help: &str, flag: &str) -> bool {
    help.split(|letter: char| letter.is_whitespace() || matches!(letter, ',' | '=' | '[' | ']' | '<'))
        .any(|word| word == flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn our_commands_are_found_among_others() {
        assert_eq!(commands_in("$ cargo xtask test  # all of it"), [words("cargo xtask test")]);
        assert_eq!(commands_in("./quorate crds | kubectl apply -f -"), [words("./quorate crds")]);
        assert!(commands_in("kubectl get etcd").is_empty());
    }

    #[test]
    fn a_command_that_does_not_exist_is_a_fault() {
        assert_eq!(fault(&words("cargo xtask test unit")), None);
        assert!(fault(&words("cargo xtask test nothing")).is_some());
        assert!(fault(&words("cargo xtask fly")).is_some());
    }

    #[test]
    fn a_flag_is_known_only_by_its_whole_name() {
        let help = "  -f, --fresh   Begin anew\n      --nodes <N>  How many";
        assert!(knows(help, "--fresh") && knows(help, "--nodes"));
        assert!(!knows(help, "--node"));
    }
}
