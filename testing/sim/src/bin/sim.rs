//! The simulation's program: `sim replay` replays one history, `sim soak` runs random ones for hours. `cargo xtask replay` and
//! `cargo xtask soak` start it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use quorate_model::CrashPoint;
use quorate_model::crash_point::CrashSide;
use quorate_sim::campaign::{Campaign, FuzzConfig};
use quorate_sim::history::replay::{Event, Line};
use quorate_sim::history::{History, Replay};

// Worlds are copied often. This allocator makes that a fifth faster than the one of the C library.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often a soak reports its progress.
const REPORT_EVERY: Duration = Duration::from_secs(60);

#[derive(Parser)]
#[command(name = "sim", about = "The simulation: replay one history, or run random ones")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Replay a history and print its story: a line for every step, departure and violation
    #[command(after_help = "\
A line of the story has the number of the step, the steps of the protocols that were reached with their number of
occurrence (B4#2 is the second B4), and what happened. `--at` and `--from` take the number of a step, or a crash point:
before:B4, after:B4#2. B4 alone is before:B4#1.

State is: what status records, the last plan (effects that are sent, next and later, and what it waits on), the objects,
etcd's clusters with their logs and members, its processes and data directories, and the faults that last.")]
    Replay {
        /// The trace that a failure printed, or a file that has it
        trace: String,
        /// Print the state of the world at this moment, and stop there
        #[arg(long, value_name = "N|POINT", conflicts_with = "from")]
        at: Option<Place>,
        /// Print the state of the world at this moment, and from there on what every step changes
        #[arg(long, value_name = "N|POINT")]
        from: Option<Place>,
        /// Print the trace with its moments named by crash points, and nothing else
        #[arg(long, conflicts_with_all = ["at", "from"])]
        name_moments: bool,
    },
    /// Run random histories for hours
    Soak {
        /// For how long; 0.5 is half an hour
        #[arg(long)]
        hours: f64,
        /// The seed to begin with
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
}

/// A moment that `--at` or `--from` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Step(usize),
    Point(CrashPoint),
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(step) = text.parse() {
            return Ok(Self::Step(step));
        }
        let point = text.parse().or_else(|_| format!("before:{text}").parse::<CrashPoint>());
        point.map(Self::Point).map_err(|error| format!("{error}, nor the number of a step"))
    }
}

fn main() -> ExitCode {
    match Args::parse().task {
        Task::Replay { trace, at, from, name_moments } => match read(&trace) {
            Err(error) => {
                eprintln!("{error}");
                ExitCode::from(2)
            }
            Ok(history) if name_moments => {
                println!("{}", serde_json::to_string(&history.with_named_moments()).unwrap_or_default());
                ExitCode::SUCCESS
            }
            Ok(history) => match (at, from) {
                (Some(place), _) => show_from(&history, place, false),
                (None, Some(place)) => show_from(&history, place, true),
                (None, None) => {
                    let story = history.story();
                    print!("{story}");
                    if story.violation().is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
                }
            },
        },
        Task::Soak { hours, from } => soak(hours, from),
    }
}

fn read(trace: &str) -> Result<History, String> {
    let text = if trace.trim_start().starts_with('{') {
        trace.to_owned()
    } else {
        std::fs::read_to_string(trace).map_err(|error| format!("cannot read the trace {trace}: {error}"))?
    };
    serde_json::from_str(&text).map_err(|error| format!("this is not a trace: {error}"))
}

/// Prints the state at a place, and then, with `goes_on`, what every line of the story changes.
fn show_from(history: &History, place: Place, goes_on: bool) -> ExitCode {
    let Some(mut replay) = find(history, place) else {
        eprintln!("the history ends before that");
        return ExitCode::from(2);
    };
    let mut state = replay.world.describe();
    print!("{state}");
    if !goes_on {
        return ExitCode::SUCCESS;
    }
    let mut code = ExitCode::SUCCESS;
    while let Some(line) = replay.next() {
        println!("{line}");
        let next = replay.world.describe();
        for change in next.changes_since(&state) {
            println!("           {change}");
        }
        state = next;
        if let Event::Violated(_) = line.event {
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// The history, replayed up to a place. A first replay counts the lines before it.
fn find(history: &History, place: Place) -> Option<Replay> {
    let is_after = |line: &Line| match (place, &line.event) {
        (Place::Step(step), Event::Due { .. }) => line.step >= step,
        (Place::Point(point), Event::Due { reached, .. }) => {
            reached.iter().any(|one| (one.step, one.occurrence) == (point.step, point.occurrence))
        }
        (_, Event::Departure { .. } | Event::NeverReached(_) | Event::Violated(_)) => false,
    };
    let lines = match place {
        Place::Step(0) => 0,
        Place::Step(_) | Place::Point(CrashPoint { side: CrashSide::After, .. }) => {
            Replay::of(history).position(|line| is_after(&line))? + 1
        }
        Place::Point(CrashPoint { side: CrashSide::Before, .. }) => {
            Replay::of(history).position(|line| is_after(&line))?
        }
    };
    let mut replay = Replay::of(history);
    for line in replay.by_ref().take(lines) {
        println!("{line}");
    }
    println!();
    Some(replay)
}

fn soak(hours: f64, from: u64) -> ExitCode {
    let begun = Instant::now();
    let length = Duration::try_from_secs_f64(hours * 3600.0).unwrap_or(Duration::MAX);
    let (mut reported, mut failed) = (begun, 0);
    let mut campaign = Campaign::default();
    for seed in from.. {
        if begun.elapsed() >= length {
            break;
        }
        if let Err(failure) = campaign.run(seed, FuzzConfig { wide: true, ..FuzzConfig::default() }) {
            failed += 1;
            println!("\nseed {seed}: {}", failure.report());
        }
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            println!(
                "after {} min: histories {} steps {} failed {failed}",
                begun.elapsed().as_secs() / 60,
                campaign.histories,
                campaign.steps
            );
        }
    }
    println!("{}", campaign.figures());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
