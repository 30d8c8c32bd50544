//! Rounds of back up, wreck, restore. A round has passed if the restored cluster has everything up to the revision of the backup.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use quorate_etcd::testkit::{MINORS, etcd};
use quorate_scenarios::rounds::{Ground, Round, Store, Tally, Took, Way, Wreck, record};
use quorate_scenarios::{Playground, S3Server};

#[derive(Args, Clone)]
pub struct Rounds {
    /// How many
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Those that the playground has: it runs no `kubectl exec`. `cargo xtask test kube --full` has the others.
const WRECKS: [Wreck; 3] = [Wreck::Volumes, Wreck::Namespace, Wreck::TamperedBackup];

pub async fn run(args: &Rounds) -> Result<()> {
    let world = Playground::start().await?;
    let s3 = S3Server::start()?;
    let ground = Ground::playground(world.path());
    let versions: Vec<String> =
        MINORS.iter().map(|minor| xtask::etcd_version(&etcd(*minor))).collect::<Result<_>>()?;
    println!(
        "{:>5}  {:<8} {:>4}  {:<15} {:>9} {:>9}  result",
        "round", "etcd", "size", "wreck", "backup s", "restore s"
    );
    let mut passed = 0;
    let mut tally: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for number in 0..args.rounds {
        let turn = usize::try_from(number)?;
        let round = Round {
            number,
            version: versions[turn % versions.len()].clone(),
            size: if turn % 4 == 3 { 1 } else { 3 },
            wreck: WRECKS[turn / versions.len() % WRECKS.len()],
            store: Store::S3,
            way: Way::Anew,
            encrypted: false,
        };
        let result = round.run(&ground, &s3).await;
        passed += u32::from(result.is_ok());
        let of_version = tally.entry(round.version.clone()).or_insert((0, 0));
        *of_version = (of_version.0 + 1, of_version.1 + u32::from(result.is_ok()));
        let Round { number, version, size, wreck, .. } = &round;
        let (times, result) = match result {
            Ok(Took { backup, restore }) => (format!("{backup:>9.1} {restore:>9.1}"), "passed".to_owned()),
            Err(error) => (format!("{:>9} {:>9}", "-", "-"), format!("FAILED: {error:#}")),
        };
        println!("{number:>5}  {version:<8} {size:>4}  {:<15} {times}  {result}", format!("{wreck:?}"));
    }
    println!("{passed} of {} rounds passed", args.rounds);
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/restore-rounds.csv"));
    let of_version = tally.iter().map(|(etcd, (rounds, passed))| Tally {
        world: "playground",
        etcd,
        rounds: *rounds,
        passed: *passed,
    });
    let run: Vec<Tally<'_>> = of_version.collect();
    record(&file, &run)?;
    ensure!(passed == args.rounds, "not every round has passed");
    Ok(())
}
