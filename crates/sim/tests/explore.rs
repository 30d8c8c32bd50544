//! L1
use quorate_sim::campaign::{Campaign, Weather};
use quorate_sim::explore::{Scope, explore};
use quorate_sim::world::faults::Fault;
use serde_json::json;

fn scope(name: &'static str, sizes: &[u32], from: usize, edits: usize, faults: u32) -> Scope {
    let specs: Vec<_> = sizes.iter().map(|size| json!({"size": size, "version": "3.6.16", "tls": {"provider": "disabled"}, "storageSpec": {"volumeSizeRequest": "1Gi"}})).collect();
    assert_eq!(from + edits + 1, sizes.len());
    Scope {
        name,
        before: specs[..from].to_vec(),
        spec: specs[from].clone(),
        edits: specs[from + 1..].to_vec(),
        faults,
        strikes: |_: &Fault| true,
        max_states: 2_000_000,
    }
}

fn run(scope: &Scope) {
    let started = std::time::Instant::now();
    match explore(scope) {
        Ok(found) => println!(
            "{} with {} faults: states {} transitions {} depth {} ends {} in {:?}",
            scope.name,
            scope.faults,
            found.states,
            found.transitions,
            found.depth,
            found.ends,
            started.elapsed()
        ),
        Err(bad) => {
            let told = bad.told();
            let lines: Vec<&str> = told.lines().collect();
            let from = lines.len().saturating_sub(34);
            println!(
                "{}",
                lines[from..]
                    .iter()
                    .map(|line| line.chars().take(400).collect::<String>())
                    .collect::<Vec<_>>()
                    .join("\n")
            );
            println!("FAILED {}: {}", scope.name, bad.violation.property);
        }
    }
}

fn scopes(faults: u32) -> Vec<Scope> {
    vec![
        scope("bootstrap 1", &[1], 0, 0, faults),
        scope("bootstrap 3", &[3], 0, 0, faults),
        scope("1 to 2", &[1, 2], 1, 0, faults),
        scope("3 to 4", &[3, 4], 1, 0, faults),
        scope("3 to 2", &[3, 2], 1, 0, faults),
        scope("3 to 0", &[3, 0], 1, 0, faults),
        scope("0 to 3", &[3, 0, 3], 2, 0, faults),
    ]
}

#[test]
fn none() {
    for scope in scopes(0) {
        run(&scope);
    }
}

#[test]
fn one() {
    for scope in scopes(1) {
        run(&scope);
    }
}

#[test]
fn campaign() {
    let mut campaign = Campaign::default();
    let started = std::time::Instant::now();
    let mut failed = 0;
    for seed in 0..200 {
        if let Err(bad) = campaign.run(seed, Weather::default()) {
            failed += 1;
            if failed > 12 {
                break;
            }
            println!("SEED {seed}");
            let told = bad.told();
            let lines: Vec<&str> = told.lines().collect();
            let from = lines.len().saturating_sub(30);
            println!(
                "{}",
                lines[from..]
                    .iter()
                    .map(|line| line.chars().take(330).collect::<String>())
                    .collect::<Vec<_>>()
                    .join("\n")
            );
        }
    }
    println!("{:?} in {:?}", campaign, started.elapsed());
}
