//! `bench create`: apply to three Ready voters, in turns with three etcd processes started by hand.

use std::time::Duration;

use anyhow::Result;
use quorate_etcd::testkit::etcd;

use super::playground::Playground;
use super::{Create, Tls, by_hand, idle};

/// What is wanted of the ratio.
const GOAL: f64 = 1.5;

/// How many clusters are watched while idle.
const IDLE_CLUSTERS: u32 = 3;

/// Measures and prints.
pub async fn run(args: &Create) -> Result<()> {
    // The one that the playground can start.
    let version = xtask::etcd_version(&etcd(args.etcd))?;
    let playground = Playground::start().await?;
    let modes: &[bool] = match args.tls {
        Tls::Both => &[false, true],
        Tls::Off => &[false],
        Tls::On => &[true],
    };
    println!("create: three members, etcd {version}; seconds from start to three Ready voters");
    for tls in modes {
        measure(&playground, args, &version, *tls).await?;
    }
    if args.idle == 0 {
        return Ok(());
    }
    let tls = modes.contains(&true);
    for n in 0..IDLE_CLUSTERS {
        playground.create(&format!("idle-{n}"), &version, tls).await?;
    }
    println!("\nidle: {IDLE_CLUSTERS} clusters of three members, TLS {}, {} s", word(tls), args.idle);
    idle::measure(&playground, IDLE_CLUSTERS, Duration::from_secs(args.idle)).await
}

async fn measure(playground: &Playground, args: &Create, version: &str, tls: bool) -> Result<()> {
    println!("\nTLS {:8} by hand  playground", word(tls));
    let (mut by_hand, mut applied) = (Vec::new(), Vec::new());
    for run in 0..=args.runs {
        let base = by_hand::create(args.etcd, tls).await?.as_secs_f64();
        let name = format!("bench-{}-{run}", word(tls));
        let took = playground.create(&name, version, tls).await?.as_secs_f64();
        playground.delete(&name).await?;
        let label = if run == 0 { "warm-up".to_owned() } else { format!("run {run}") };
        println!("{label:12} {base:7.2}  {took:10.2}");
        if run > 0 {
            by_hand.push(base);
            applied.push(took);
        }
    }
    // Of the medians, not the median of the turns' ratios: how long an election takes differs from one to the next by
    // more than anything that two neighbouring turns have in common.
    let (base, took) = (median(by_hand), median(applied));
    println!("{:12} {base:7.2}  {took:10.2}", "median");
    println!("TLS {}: ratio {:.2} (goal: {GOAL:.2} or less)", word(tls), took / base);
    Ok(())
}

fn word(tls: bool) -> &'static str {
    if tls { "on" } else { "off" }
}

/// The middle one; between the two in the middle where they are even. There is at least one.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let half = figures.len() / 2;
    if figures.len() % 2 == 1 { figures[half] } else { f64::midpoint(figures[half - 1], figures[half]) }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    #[expect(clippy::float_cmp, reason = "exact in binary")]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![7.0]), 7.0);
    }
}
