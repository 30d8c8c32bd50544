//! The words of new defaults of the operator that wait.

use quorate_model::effect::{TakingTurns, Wave};

use super::why_sick;

/// How many clusters one message names.
const NAMES: usize = 3;

pub(super) fn text(wave: &Wave) -> String {
    match wave {
        Wave::Stopped { cluster, why } => format!(
            "the operator's new defaults wait: EtcdCluster {cluster} has taken them and does not get ready ({why}). They reach no \
             other cluster until it does, or is paused"
        ),
        Wave::Full(TakingTurns { now, most, limit }) => format!(
            "the operator's new defaults wait for their turn: {} take them now, and at most {most} may at a time \
             (--max-clusters-rolling={limit})",
            names(now)
        ),
        Wave::FullOfInterrupted(TakingTurns { now, most, limit }) => format!(
            "the operator's new defaults wait for their turn: {} take them now. Of clusters with fewer than three members, which a \
             restart interrupts, at most {most} may at a time (--max-clusters-rolling={limit})",
            names(now)
        ),
        Wave::Missed => {
            "the operator's new defaults wait: it was this cluster's turn, and they could not be committed. Other clusters go first".to_owned()
        }
        Wave::PassedOver(why) => passed_over(why),
        Wave::Sick(voter, why) => passed_over(&format!("{voter}: {}", why_sick(why))),
        Wave::Parked(after) => format!(
            "no member was restarted with the operator's new defaults for more than {after}, so other clusters do not wait for this one any \
             more. It takes them as soon as its members can be restarted"
        ),
    }
}

fn passed_over(why: &str) -> String {
    format!(
        "the operator's new defaults pass this EtcdCluster over while it is not well ({}), and no other one waits for it. Repair it: it \
         takes them when it is well again, or with the next change of its spec",
        why.trim_end_matches('.')
    )
}

fn names(clusters: &[String]) -> String {
    match clusters.len().saturating_sub(NAMES) {
        0 => clusters.join(", "),
        more => format!("{} and {more} more", clusters[..NAMES].join(", ")),
    }
}
