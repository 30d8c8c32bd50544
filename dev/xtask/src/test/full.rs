//! What `cargo xtask test --full` runs and CI does not repeat for each commit.

/// One of these things.
pub struct Addition {
    /// What it is.
    pub what: &'static str,
    /// What CI runs instead.
    pub ci: &'static str,
    /// Why that is enough for each commit.
    pub why: &'static str,
}

/// The minor versions of etcd whose clusters run what only the playground has: in CI, and with `--full`.
pub const WHOLE_CI: &[&str] = &["3.6"];
/// See [`WHOLE_CI`]. With `--full` also the behaviours that a real Kubernetes runs as well.
pub const WHOLE_FULL: &[&str] = &["3.6", "3.7"];

/// The minor versions whose clusters run the behaviours of a cluster's life only, and the comparison of etcd with its model.
pub const LIFE_CI: &[&str] = &["3.7"];
/// See [`LIFE_CI`].
pub const LIFE_FULL: &[&str] = &["3.5"];

/// Random histories in CI.
pub const HISTORIES_CI: u64 = 3_000;
/// Random histories with `--full`.
pub const HISTORIES_FULL: u64 = 20_000;

/// The table. `docs/testing.md` has it too, and a test compares them.
pub const ADDITIONS: [Addition; 14] = [
    Addition {
        what: "The widest scopes of the exploration, with two faults of any kind: bootstrap of one and of three with an edit, 1 to 2, 3 to 4, 3 to 2, and 0 to 3",
        ci: "The same scopes with one fault, all but the bootstraps also with two of the operator itself, and 3 to 0 with two of any kind",
        why: "They are most of the states, and their paths consist of steps that the other scopes take too",
    },
    Addition {
        what: "20000 random histories",
        ci: "3000 random histories",
        why: "Each kind of fault strikes within the first thousand; seeds are fixed, so a repetition finds nothing new",
    },
    Addition {
        what: "[Damaged outside data](#damaged-outside-data) in twenty to sixty times as many rounds",
        ci: "Hundreds of rounds for each reader of files, and thousands of statuses",
        why: "Rounds are the same in every run, so a repetition finds nothing new in code that did not change",
    },
    Addition {
        what: "In the playground: the behaviours that Kubernetes runs too, on etcd 3.6 and 3.7; what only the playground has on 3.7; a \
               cluster's life and auth on 3.5; the model of etcd on 3.5 and 3.6",
        ci: "The behaviours on Kubernetes, on etcd 3.6 (in the playground where no Kubernetes can run); a cluster's life and the model of \
             etcd on 3.7; what only the playground has on 3.6; the etcd port on 3.5, 3.6 and 3.7",
        why: "A behaviour on Kubernetes shows more than the same one in the playground. The versions differ in the port's replies, \
              which its own tests compare on all of them",
    },
    Addition {
        what: "The operator killed at seven steps under real etcd (the tier `shell`)",
        ci: "A crash before and after every step, in process (the tier `crash`)",
        why: "The same code runs at the same steps; what the real one adds, a SIGABRT between two systems, is the same at each step",
    },
    Addition {
        what: "All rounds of the disruptions that fall together",
        ci: "The first half of the rounds",
        why: "Each round repeats the same fault at another moment; seeded histories of the simulation have every moment",
    },
    Addition {
        what: "The upgrade from the commit before when the operator did not change",
        ci: "The upgrade whenever crates/, config/ or the dependencies changed",
        why: "Both images would be the same program",
    },
    Addition {
        what: "Clusters on a Kubernetes with IPv6 addresses only",
        ci: "The flags of members and probes with addresses of either family",
        why: "Nothing else depends on the family, and it takes a second Kubernetes",
    },
    Addition {
        what: "On Kubernetes a new cluster by cert-manager, and one from auto to cert-manager, to another authority of its issuer, without the issuer and back, under writes",
        ci: "What cert-manager itself does; its provider in the simulation and against an API server of the tests",
        why: "Three rotations take minutes, and rotations are there on etcd and in the simulation",
    },
    Addition {
        what: "Clusters under kube-apiservers on Kubernetes: both authorities replaced at three and five members; two tenants with auth through a drain, an upgrade and a restore in place; two tenants of Kamaji through a rotation and a deletion that waits for them; a tenant through a pool of nodes that is replaced and a node that is lost",
        ci: "The same rotations and changes under the scenarios' own clients",
        why: "API servers that start and are restarted, and kubelets that bring them Secrets, take ten minutes",
    },
    Addition {
        what: "NetworkPolicies carried out by kube-router on Kubernetes: who is let in, and that the cluster goes on",
        ci: "The NetworkPolicy that is written, field by field, and that it is put right",
        why: "What it lets in is decided by Kubernetes' own rules, which do not change with a commit; and it takes the network of every Pod",
    },
    Addition {
        what: "20 rounds of back up, wreck, restore on Kubernetes, with kinds of wrecks, stores and restores mixed",
        ci: "A backup and a restore of each kind: in S3 over TLS and in a claim, in place and anew",
        why: "A round repeats them after another loss; `bench backup rounds` has the first kinds on every version of etcd",
    },
    Addition {
        what: "Backups in an emulator of Azure Blob Storage",
        ci: "The same backups in S3 and through the client of Google Cloud Storage",
        why: "All three are one interface of one crate, and the emulator takes npm and 365 MiB",
    },
    Addition {
        what: "Alerts on a real Prometheus and Alertmanager: seven faults in a playground fire theirs and end them",
        ci: "promtool on the same rules: each alert has a case that fires and cases that do not; their metrics are compared with those \
             of the operator and of etcd",
        why: "What the real ones add, that what is scraped has the labels that rules expect and that a fault is noticed in time, changes seldom",
    },
];

/// Prints the table, at the start of a run that has all of it.
pub fn print() {
    eprintln!("--full adds to CI:");
    for Addition { what, ci, why } in ADDITIONS {
        eprintln!("- {what}\n  CI: {ci}\n  Enough for each commit: {why}");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::repo;

    #[test]
    fn docs_testing_lists_what_a_full_run_adds() {
        let page = repo::read(Path::new("docs/testing.md")).unwrap();
        for Addition { what, ci, why } in ADDITIONS {
            let row = format!("| {what} | {ci} | {why} |");
            assert!(page.contains(&row), "docs/testing.md has no row {row}");
        }
    }
}
