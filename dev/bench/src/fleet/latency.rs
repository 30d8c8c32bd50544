//! How soon the operator acts on an event in one cluster, while some clusters are sick and some are rolled out.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams};
use serde_json::json;
use tokio::task::JoinSet;

use super::clusters::{Clusters, Effects};
use super::etcd::Key;
use super::nodes::Nodes;

/// The time between two events.
pub const PACE: Duration = Duration::from_millis(250);

/// How long the first effect is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long what is sick and what is rolled out runs before the first event.
const WARM_UP: Duration = Duration::from_secs(15);

/// How long a Pod that was reported as not ready stays so.
const UNREADY: Duration = Duration::from_secs(3);

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Pod is deleted without a grace period; first effect: a record or the next Pod.
    Deleted,
    /// A Pod is reported as not ready; first effect: status.
    Unready,
    /// An edit of the spec; first effect: status.
    Edited,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Deleted, Self::Unready, Self::Edited];

    /// For the table.
    pub fn words(self) -> &'static str {
        match self {
            Self::Deleted => "a Pod deleted",
            Self::Unready => "a Pod not ready",
            Self::Edited => "an edit",
        }
    }
}

/// How long each took, and how many had no effect in time.
#[derive(Default)]
pub struct Latencies {
    pub took: Vec<(Kind, Duration)>,
    pub none: usize,
}

impl Latencies {
    /// The quantile of all, or of one kind.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index into a short list"
    )]
    pub fn quantile(&self, kind: Option<Kind>, part: f64) -> Option<Duration> {
        let of = self.took.iter().filter(|(one, _)| kind.is_none_or(|kind| kind == *one));
        let mut took: Vec<Duration> = of.map(|(_, took)| *took).collect();
        took.sort();
        let place = (took.len() as f64 * part).ceil() as usize;
        took.get(place.max(1) - 1).copied()
    }
}

impl Latencies {
    /// Three quantiles, in milliseconds.
    pub fn summary(&self, kind: Option<Kind>) -> String {
        let part =
            |part| self.quantile(kind, part).map_or("-".to_owned(), |took| took.as_millis().to_string());
        format!("{} {} {}", part(0.5), part(0.99), part(1.0))
    }

    /// How many there are, and how many had no effect.
    pub fn counts(&self) -> String {
        format!("{}, {}", self.took.len(), self.none)
    }
}

/// What is needed to make events.
#[derive(Clone)]
pub struct Stage {
    pub client: Client,
    pub clusters: Clusters,
    pub nodes: Nodes,
    pub effects: Effects,
}

impl Stage {
    /// Makes so many events in a fleet of this size, of which one in a hundred is sick and one in a hundred is rolled out.
    pub async fn measure(&self, fleet: usize, events: usize) -> Result<Latencies> {
        let share = (fleet / 100).max(1);
        let sick: Vec<_> = (0..share).map(|number| self.member(number, 1)).collect();
        try_join_all(sick.iter().map(|(key, member)| self.nodes.cut(key, member))).await?;
        let mut rolled = JoinSet::new();
        for number in share..2 * share {
            let clusters = self.clusters.clone();
            rolled.spawn(async move { roll(&clusters, &clusters.key(number)).await });
        }
        tokio::time::sleep(WARM_UP).await;
        let calm: Vec<usize> = (2 * share..fleet).collect();
        let latencies = self.events(&calm, events).await?;
        rolled.abort_all();
        try_join_all(sick.iter().map(|(key, member)| self.nodes.mend(key, member))).await?;
        Ok(latencies)
    }

    /// Makes so many events in the clusters with these numbers, and measures how long the first effect of each takes.
    pub async fn events(&self, among: &[usize], events: usize) -> Result<Latencies> {
        let mut measured = JoinSet::new();
        for nth in 0..events {
            let (stage, kind) = (self.clone(), Kind::ALL[nth % Kind::ALL.len()]);
            // Spread over the fleet; none again before its last event is over.
            let number = among[nth * 7919 % among.len()];
            measured.spawn(async move { (kind, stage.event(kind, number, nth).await) });
            tokio::time::sleep(PACE).await;
        }
        let mut latencies = Latencies::default();
        while let Some(event) = measured.join_next().await {
            match event? {
                (kind, Ok(Some(took))) => latencies.took.push((kind, took)),
                (_, Ok(None)) => latencies.none += 1,
                (kind, Err(error)) => eprintln!("{kind:?}: {error:#}"),
            }
        }
        Ok(latencies)
    }

    /// A member of the cluster with this number.
    pub fn member(&self, number: usize, ordinal: usize) -> (Key, String) {
        let key = self.clusters.key(number);
        let member = format!("{}-{ordinal}", key.1);
        (key, member)
    }

    /// One event in the cluster with this number. How long the first effect took, from before the request that made the event.
    async fn event(&self, kind: Kind, number: usize, nth: usize) -> Result<Option<Duration>> {
        let since = Instant::now();
        self.make(kind, number, nth).await?;
        let (key, member) = self.member(number, nth % 3);
        let took = self.effects.after(&key, since, PATIENCE).await;
        if kind == Kind::Unready {
            tokio::time::sleep(UNREADY).await;
            self.nodes.report(&key, &member, true).await?;
        }
        Ok(took)
    }

    /// Makes the event alone.
    #[expect(clippy::disallowed_methods, reason = "the benchmark is the user who deletes")]
    pub async fn make(&self, kind: Kind, number: usize, nth: usize) -> Result<()> {
        let (key, member) = self.member(number, nth % 3);
        match kind {
            Kind::Deleted => {
                let how = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
                let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.0);
                pods.delete(&member, &how).await.context("the Pod")?;
            }
            Kind::Unready => self.nodes.report(&key, &member, false).await?,
            Kind::Edited => {
                // Each edit is another one, and restarts no Pod.
                let edit = json!({"service": {"annotations": {"bench": nth.to_string()}}});
                self.clusters.edit(&key, edit).await?;
            }
        }
        Ok(())
    }
}

/// Edits the template, waits until every Pod has it, and begins again.
async fn roll(clusters: &Clusters, key: &Key) -> Result<()> {
    for turn in 0_u32.. {
        let annotations = json!({"bench": turn.to_string()});
        clusters.edit(key, json!({"podTemplate": {"metadata": {"annotations": annotations}}})).await?;
        while !clusters.is_ready(key) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_is_the_smallest_figure_that_so_many_do_not_exceed() {
        let took = (1..=100).map(|n| (Kind::ALL[n % 3], Duration::from_millis(n as u64))).collect();
        let latencies = Latencies { took, none: 0 };
        assert_eq!(latencies.quantile(None, 0.99), Some(Duration::from_millis(99)));
        assert_eq!(latencies.quantile(None, 0.5), Some(Duration::from_millis(50)));
        assert_eq!(latencies.quantile(Some(Kind::Deleted), 1.0), Some(Duration::from_millis(99)));
        assert_eq!(Latencies::default().quantile(None, 0.99), None);
    }
}
