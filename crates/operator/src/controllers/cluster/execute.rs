//! Carries a plan out, in order, and decides nothing: every effect becomes the one request that `manifests` made of it, or
//! the one call to etcd that it names. The first that does not succeed ends the pass, save upkeep; the next pass looks again.
//!
//! Nothing is retried here. A membership call whose reply is lost is not failed and not done: it is unknown (R8).

mod etcd;
mod kubernetes;
pub(crate) mod send;

use futures::future::join_all;
use quorate_api::{EtcdCluster, Explanation};
use quorate_manifests::{ClusterObjects, trouble};
use quorate_model::{ClusterRef, Effect, EtcdCall, Record, Snapshot};

use crate::controllers::cluster::Shared;
use crate::controllers::cluster::look::MemberClients;
use crate::controllers::cluster::observe::{Foreign, Own};
use crate::runtime::crash::Side;
use crate::runtime::pace::Outcome;
use etcd::Call;
use send::SendError;

pub(crate) use kubernetes::{write_record, write_status};

/// What effects are carried out upon.
pub(crate) struct Scene<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) cluster: &'a ClusterRef,
    /// The objects that the plan was made on.
    pub(crate) objects: &'a ClusterObjects<'a>,
    /// The snapshot that the plan was made on.
    pub(crate) seen: &'a Snapshot,
    /// The record of the plan, which stands in status now.
    pub(crate) record: &'a Record,
    /// The connections to members.
    pub(crate) lines: &'a MemberClients,
}

/// Why a pass ended before its plan did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// When to try again.
    pub(crate) ended: Outcome,
    /// What status and events report, if anything.
    pub(crate) trouble: Option<Explanation>,
    /// An object of somebody else that has our name.
    pub(crate) foreign: Option<Foreign>,
}

/// Carries effects out. What the API server replied goes into `own`, whether or not all went well.
pub(crate) async fn carry_out(
    scene: &Scene<'_>,
    cluster: &EtcdCluster,
    effects: &[Effect],
    own: &mut Own,
) -> Result<(), Stopped> {
    let mut cluster = cluster.clone();
    let mut aside = None;
    for group in effects.chunk_by(Effect::runs_in_parallel_with) {
        if scene.shared.runtime.stop.is_cancelled() {
            return Err(Stopped::quietly(Outcome::Waiting));
        }
        let outcomes = join_all(group.iter().map(|effect| carried_out(scene, &cluster, effect))).await;
        let mut stopped = None;
        for (effect, outcome) in group.iter().zip(outcomes) {
            match outcome {
                Ok(replies) => {
                    for reply in replies {
                        // Later effects of this plan must not be refused because of earlier ones.
                        cluster = reply.cluster().unwrap_or(cluster);
                        reply.note(own);
                    }
                }
                Err(failed) => {
                    let now = failed.into_stopped(&effect.to_string(), own);
                    stopped = stopped.or(Some(now));
                }
            }
        }
        match stopped {
            Some(stopped) if group.iter().all(Effect::is_best_effort) => aside = aside.or(Some(stopped)),
            Some(stopped) => return Err(stopped),
            None => {}
        }
    }
    // The members may be in the middle of something, so the next look does not wait as it would after a failure.
    aside.map_or(Ok(()), |stopped| Err(Stopped { ended: Outcome::Unwell, ..stopped }))
}

impl Stopped {
    /// Nothing needs to be said.
    pub(crate) fn quietly(ended: Outcome) -> Self {
        Self { ended, trouble: None, foreign: None }
    }

    /// Status could not be written, so nothing else was done.
    pub(crate) fn without_status(cluster: &ClusterRef, error: &SendError) -> Self {
        let ended = error.ended();
        let trouble = (ended == Outcome::Failed)
            .then(|| trouble::status_not_written(&cluster.to_string(), &error.to_string()));
        Self { ended, trouble, foreign: None }
    }
}

/// Why one effect was not carried out.
enum Failed {
    Etcd(etcd::CallFailed),
    Kube(kubernetes::Failure),
}

impl Failed {
    fn into_stopped(self, what: &str, own: &mut Own) -> Stopped {
        match self {
            Self::Etcd(failed) => failed.into_stopped(what),
            Self::Kube(failed) => failed.into_stopped(own),
        }
    }
}

async fn carried_out(
    scene: &Scene<'_>,
    cluster: &EtcdCluster,
    effect: &Effect,
) -> Result<Vec<kubernetes::Reply>, Failed> {
    let step = effect.step();
    scene.shared.runtime.hook.reached(Side::Before, step).await;
    let outcome = one(scene, cluster, effect).await;
    let label = match &outcome {
        Ok(_) => "ok",
        Err(Failed::Etcd(failed)) => failed.as_label(),
        Err(Failed::Kube(failed)) => failed.error.as_label(),
    };
    scene.shared.metrics.effect(&step.to_string(), label);
    match &outcome {
        Ok(_) => tracing::info!(%step, %effect, "done"),
        // Whoever ends the pass with it says it aloud, if it is to be said.
        Err(Failed::Etcd(error)) => tracing::debug!(%step, %effect, %error, "not done"),
        Err(Failed::Kube(failed)) => tracing::debug!(%step, %effect, error = %failed.error, "not done"),
    }
    if outcome.is_ok() {
        scene.shared.runtime.hook.reached(Side::After, step).await;
    }
    outcome
}

async fn one(
    scene: &Scene<'_>,
    cluster: &EtcdCluster,
    effect: &Effect,
) -> Result<Vec<kubernetes::Reply>, Failed> {
    let (at, asked) = match effect {
        Effect::Kube { write, .. } => {
            return kubernetes::carry_out(scene, cluster, write).await.map_err(Failed::Kube);
        }
        Effect::Etcd { at, call, .. } => (at, call),
    };
    let called = match asked {
        EtcdCall::AddLearner { peer_url, .. } => {
            etcd::call(scene, Call::Add, at, async |member| member.member_add_learner(peer_url).await).await
        }
        EtcdCall::Promote { id, .. } => {
            etcd::call(scene, Call::Promote, at, async |member| member.member_promote(*id).await).await
        }
        EtcdCall::RemoveMember { id, .. } => {
            etcd::call(scene, Call::Remove, at, async |member| member.member_remove(*id).await).await
        }
        EtcdCall::MoveLeadership { to_id, .. } => {
            etcd::call(scene, Call::MoveLeader, at, async |member| member.move_leader(*to_id).await).await
        }
    };
    called.map(|()| Vec::new()).map_err(Failed::Etcd)
}
