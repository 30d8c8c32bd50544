//! The API server is killed and started again: every watch breaks, and what is read again is more than was read at any moment before.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use kube::api::Api;
use quorate_api::EtcdCluster;
use serde_json::json;

use super::operator::{Operator, Used};
use super::plane::Plane;
use super::{Bench, OBSERVED};
use crate::metrics::{API_REQUESTS, label};

/// A watch that broke is begun again after half a minute at most. When for so long none was, all are there.
const QUIET: Duration = Duration::from_secs(20);

/// How often the replicas are asked what they have sent.
const PACE: Duration = Duration::from_secs(1);

/// What the end of an API server costs.
pub struct Figures {
    /// How long it was away.
    pub away: Duration,
    /// From its return to the first effect of an edit.
    pub effect: Duration,
    /// From its return to the last list or watch of either replica.
    pub watches: Duration,
    /// The lists of both, in pages.
    pub lists: f64,
    /// From its end until every member was asked for its Status after its return.
    pub observed: Duration,
    /// The most memory of the replica that led, and of the other.
    pub leader_peak: f64,
    pub standby_peak: f64,
    /// How many replicas ended, and were started again as a kubelet would.
    pub ended: usize,
}

impl Bench<'_> {
    /// Restarts the API server. The first of the replicas leads.
    pub(super) async fn relist(
        &mut self,
        plane: &mut Plane,
        replicas: &mut [Operator; 2],
    ) -> Result<Figures> {
        for replica in replicas.iter() {
            replica.begin_peak()?;
        }
        let mut before = Vec::new();
        for replica in replicas.iter_mut() {
            before.push(replica.used().await?);
        }
        let killed = Instant::now();
        plane.restart().await?;
        let back = Instant::now();
        let edit = self.first_effect(plane, back);
        let (mut effect, mut observed) = (None, None);
        let (mut last, mut sent, mut ended) = (back, [0.0; 2], 0);
        let mut lists = [0.0; 2];
        tokio::pin!(edit);
        loop {
            for (at, replica) in replicas.iter_mut().enumerate() {
                if !replica.runs() {
                    *replica = Operator::start(plane, self.replicas + 1)?;
                    self.replicas += 1;
                    ended += 1;
                    before[at] = Used::none();
                }
                // One that has just been started has no metrics yet.
                let Ok(now) = replica.used().await else { continue };
                let of = |verb: &str| {
                    let more = now.counts.since(&before[at].counts, API_REQUESTS);
                    more.iter()
                        .filter(|(series, _)| label(series, "verb") == Some(verb))
                        .map(|(_, more)| more)
                        .sum::<f64>()
                };
                lists[at] = of("list");
                let all = lists[at] + of("watch");
                if all > sent[at] {
                    (sent[at], last) = (all, Instant::now());
                }
            }
            if observed.is_none() && self.etcds.unobserved(back) == 0 {
                observed = Some(killed.elapsed());
            }
            if let (Some(effect), Some(observed)) = (effect, observed)
                && last.elapsed() > QUIET
            {
                let [leader, standby] = &*replicas;
                return Ok(Figures {
                    away: back - killed,
                    effect,
                    watches: last - back,
                    lists: lists.iter().sum(),
                    observed,
                    leader_peak: leader.peak()?,
                    standby_peak: standby.peak()?,
                    ended,
                });
            }
            if back.elapsed() > OBSERVED {
                let unobserved = self.etcds.unobserved(back);
                bail!(
                    "after {OBSERVED:?} {unobserved} clusters were not observed; an edit had its effect: {effect:?}"
                );
            }
            tokio::select! {
                took = &mut edit, if effect.is_none() => effect = Some(took?),
                () = tokio::time::sleep(PACE) => {}
            }
        }
    }

    /// How long it takes until status is about an edit. It is read, since the watches of the benchmark have broken as well.
    fn first_effect(&self, plane: &Plane, back: Instant) -> impl Future<Output = Result<Duration>> + use<> {
        let (clusters, key) = (self.clusters.clone(), self.clusters.key(0));
        let api: Api<EtcdCluster> = Api::namespaced(plane.client(), &key.0);
        async move {
            let edit = json!({"service": {"annotations": {"bench": "relist"}}});
            while let Err(error) = clusters.edit(&key, edit.clone()).await {
                if back.elapsed() > OBSERVED {
                    return Err(error);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            loop {
                if let Ok(cluster) = api.get(&key.1).await {
                    let about = cluster.status.and_then(|status| status.observed_generation);
                    if about.is_some() && about == cluster.metadata.generation {
                        return Ok(back.elapsed());
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}
