//! The tiers and their budgets.

use std::time::Duration;

use clap::ValueEnum;

use super::report::Verdict;
use super::{Context, docs, kube, layers, lint, proofs, quick};

/// What can be run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tier {
    /// While working: lint, unit tests, a small exploration, one life of a cluster. No part of CI, which runs all of it
    Quick,
    /// Format, clippy, licences, unused dependencies, arrows between crates, circles and length of files
    Lint,
    /// Tests that start no process
    Unit,
    /// Links, hazards, steps, commands and CRDs agree with the code
    Docs,
    /// Whole lives of clusters under the operator in process: a crash at every step, faults at random
    Crash,
    /// The simulation: every history of small scopes
    Explore,
    /// The simulation: random histories, and each safety check taken away once
    Random,
    /// The operator is killed at the steps of its protocols
    Shell,
    /// The etcd port, and clusters of real etcd in the playground
    Etcd,
    /// Clusters on a real Kubernetes of this machine, if it can hold one (root, cgroups, namespaces)
    Kube,
}

/// A tier's budgets, in seconds.
pub struct Budget {
    /// The tier.
    pub tier: Tier,
    /// In CI: two quiet cores, a clean clone, and a machine that has run it before. For `quick`: after a change in the
    /// planner, with everything else built.
    pub ci: u64,
    /// With `--full`.
    pub full: u64,
}

/// The table of budgets. `docs/testing.md` has it too, and a test compares them.
pub const BUDGETS: [Budget; 10] = [
    Budget { tier: Tier::Quick, ci: 240, full: 240 },
    Budget { tier: Tier::Lint, ci: 90, full: 90 },
    Budget { tier: Tier::Unit, ci: 480, full: 480 },
    Budget { tier: Tier::Docs, ci: 150, full: 150 },
    Budget { tier: Tier::Crash, ci: 600, full: 600 },
    Budget { tier: Tier::Explore, ci: 900, full: 1500 },
    Budget { tier: Tier::Random, ci: 300, full: 600 },
    Budget { tier: Tier::Shell, ci: 120, full: 120 },
    Budget { tier: Tier::Etcd, ci: 600, full: 1500 },
    Budget { tier: Tier::Kube, ci: 1500, full: 2200 },
];

/// The budget of a whole run, in seconds. Less than the sum, because some tiers run beside others.
pub fn whole(full: bool) -> Duration {
    Duration::from_secs(if full { 5000 } else { 3000 })
}

impl Tier {
    /// What it is called on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no tier is skipped").get_name().to_owned()
    }

    /// How long it may take.
    pub fn budget(self, full: bool) -> Duration {
        let budget = BUDGETS.iter().find(|budget| budget.tier == self).expect("a test compares them");
        Duration::from_secs(if full { budget.full } else { budget.ci })
    }

    /// Runs it.
    pub fn run(self, context: &Context) -> anyhow::Result<Verdict> {
        proofs::once(self, context, || match self {
            Self::Quick => quick::run(context),
            Self::Lint => lint::run(context),
            Self::Unit => layers::unit(context),
            Self::Docs => docs::run(context),
            Self::Crash => layers::crash(context),
            Self::Explore => layers::explore(context),
            Self::Random => layers::random(context),
            Self::Shell => layers::shell(context),
            Self::Etcd => layers::etcd(context),
            Self::Kube => kube::run(context),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::repo;

    #[test]
    fn every_tier_has_a_budget_which_docs_testing_has_too() {
        let tiers: Vec<Tier> = BUDGETS.iter().map(|budget| budget.tier).collect();
        assert_eq!(tiers, Tier::value_variants());
        let page = repo::read(Path::new("docs/testing.md")).unwrap();
        for Budget { tier, ci, full } in BUDGETS {
            let row = format!("| `{}` | {ci} | {full} |", tier.name());
            assert!(page.contains(&row), "docs/testing.md has no row that begins with {row}");
        }
    }
}
