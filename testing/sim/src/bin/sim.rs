//! `sim replay TRACE`: tells a history again, step by step. `sim soak --hours N [--from SEED]`: histories by lot for hours.
//! `cargo xtask replay` and `cargo xtask soak` start it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorate_sim::campaign::{Campaign, FuzzConfig};
use quorate_sim::history::History;

// Worlds are copied all the time: a fifth faster than with the C library's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often a soak says where it is.
const TOLD_EVERY: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["replay", trace] => replay(trace),
        ["soak", "--hours", hours] => soak(hours, "0"),
        ["soak", "--hours", hours, "--from", seed] => soak(hours, seed),
        _ => wrong("say: replay TRACE (a file, or the trace itself), or: soak --hours N [--from SEED]"),
    }
}

fn replay(trace: &str) -> ExitCode {
    let text = if trace.trim_start().starts_with('{') {
        Ok(trace.to_owned())
    } else {
        std::fs::read_to_string(trace)
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => return wrong(&format!("the trace {trace} can not be read: {error}")),
    };
    let history: History = match serde_json::from_str(&text) {
        Ok(history) => history,
        Err(error) => return wrong(&format!("this is no trace: {error}")),
    };
    let (story, violation) = history.tell();
    for (n, line) in story.iter().enumerate() {
        println!("{:4}  {line}", n + 1);
    }
    if violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn soak(hours: &str, from: &str) -> ExitCode {
    let (Ok(hours), Ok(from)) = (hours.parse::<f64>(), from.parse::<u64>()) else {
        return wrong("hours and seed are numbers: soak --hours 0.5 --from 1200");
    };
    let begun = Instant::now();
    let length = Duration::try_from_secs_f64(hours * 3600.0).unwrap_or(Duration::MAX);
    let (mut told, mut broken) = (begun, 0);
    let mut campaign = Campaign::default();
    for seed in from.. {
        if begun.elapsed() >= length {
            break;
        }
        if let Err(bad) = campaign.run(seed, FuzzConfig::default()) {
            broken += 1;
            println!("\nseed {seed}: {}", bad.told());
        }
        if told.elapsed() >= TOLD_EVERY {
            told = Instant::now();
            println!(
                "after {} min: histories {} steps {} broken {broken}",
                begun.elapsed().as_secs() / 60,
                campaign.histories,
                campaign.steps
            );
        }
    }
    println!("{}", campaign.figures());
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn wrong(what: &str) -> ExitCode {
    eprintln!("{what}");
    ExitCode::from(2)
}
