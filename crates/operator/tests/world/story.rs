//! Stories of a cluster in scenes. Each runs with one failure: the operator crashes at a step, or a reply is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use kube::api::{Patch, PatchParams, PostParams};
use quorate_api::restore::RestorePhase;
use quorate_api::status::RecoveryResult;
use quorate_api::{EtcdCluster, EtcdRestore, keys};
use quorate_manifests::AgentDelivery;
use quorate_model::effect::{DowngradeAction, LEARNER_DEADLINE};
use quorate_model::{Minor, Step};
use quorate_operator::Options;
use quorate_operator::crash::{CrashSide, Hook};
use quorate_sim::world::faults::Fault;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::members::CallOutcome;
use super::requests::{RequestOutcome, Sent};
use super::{World, jobs, plain, scale, settled, until};

/// An action of a user or a fault, and the state that the test waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// Creates three members, whose volumes are deleted with the cluster.
    Create,
    /// Creates one member in this version, whose volume is retained.
    CreateOne(&'static str),
    /// Creates three members with their data in memory.
    CreateInMemory,
    /// Creates three members where the API server refuses Pods with image volumes, which the operator prefers.
    CreateWithoutImageVolumes,
    /// Scales to this size.
    Scale(u32),
    /// Scales to this size. The first member to remove becomes the leader just before it is removed.
    ScaleWhileTheMemberToRemoveLeads(u32),
    /// Deletes a Pod of a cluster of this size.
    LosePod(&'static str, u32),
    /// Changes the version.
    Upgrade(&'static str),
    /// Scales to three members. The second does not start before its deadline.
    GrowWithASlowLearner,
    /// Creates three members whose Pods do not start, and scales to one.
    AbandonBootstrap,
    /// A Pod appears whose member never existed.
    DeleteAStrayPod,
    /// Deletes the cluster.
    Delete,
    /// Creates the cluster again, and adopts its old volumes.
    Adopt,
    /// Empties the volume of this member, which is replaced when the grace period is over.
    EmptyVolume(&'static str),
    /// Orders a finished upgrade to be taken back to this version.
    Downgrade(&'static str),
    /// Somebody enables a downgrade to 3.6 in etcd, and nobody has ordered it.
    CancelDowngrade,
    /// Creates three members whose etcd compacts its history.
    CreateCompacting,
    /// The database of every member is full.
    FillDatabases,
    /// A person orders to replace the data by those of a snapshot.
    RestoreInPlace,
    /// The same order, which is deleted while a Pod does not go.
    WithdrawRestore,
}

/// A failure that happens once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The operator crashes on this side of the first such step of this scene.
    Crash(usize, CrashSide, Step),
    /// The reply to the first such request of this scene is lost.
    ReplyLost(usize, &'static str),
}

/// The result of a story.
pub struct StoryRun {
    /// How often objects were created and deleted, at the end of each scene.
    pub writes: Vec<BTreeMap<String, u64>>,
    /// Changes of membership and leadership.
    pub changes: Vec<String>,
    /// Steps that were passed, with the number of their scene.
    pub steps: BTreeSet<(usize, Step)>,
    /// Effects that were sent, with the number of their scene.
    pub effects: BTreeSet<(usize, &'static str)>,
    /// Whether the failure happened.
    pub failed: bool,
}

/// Knows the current scene, and injects the failure.
#[derive(Default)]
struct Director {
    scene: AtomicUsize,
    failure: Option<Failure>,
    failed: CancellationToken,
    steps: Mutex<BTreeSet<(usize, Step)>>,
    effects: Mutex<BTreeSet<(usize, &'static str)>>,
}

/// The effect that a request to the Kubernetes API carries out, or `status`.
fn of_request(sent: &Sent) -> Option<&'static str> {
    let named =
        |desired: &str| sent.body["metadata"]["name"].as_str().is_some_and(|name| name.ends_with(desired));
    let finalizers = &sent.body["metadata"]["finalizers"];
    Some(match (sent.method.as_str(), sent.kind().as_str()) {
        ("PATCH", "etcdclusters") if finalizers.as_array().is_some_and(|all| !all.is_empty()) => {
            "AddFinalizer"
        }
        ("PATCH", "etcdclusters") => "RemoveFinalizer",
        ("PATCH", "etcdclusters/status") => "status",
        ("POST", "services") if named("-client") => "ApplyClientService",
        ("POST", "services") => "ApplyPeerService",
        ("POST", "secrets") if named("-ca") => "CreateAuthority",
        ("POST", "secrets") if named("-connection") => "ApplyConnection",
        ("POST", "secrets") => "IssueLeaf",
        ("PATCH", "secrets") if sent.body["data"].is_object() => "RenewLeaf",
        ("PATCH", "secrets") => "KeepAuthority",
        ("DELETE", "secrets") => "DeleteAuthority",
        ("POST", "persistentvolumeclaims") => "CreateVolume",
        ("PATCH", "persistentvolumeclaims") if sent.body["spec"].is_object() => "ExpandVolume",
        ("PATCH", "persistentvolumeclaims")
            if sent.body["metadata"]["annotations"]["operator.etcd.io/quarantined-since"].is_string() =>
        {
            "QuarantineVolume"
        }
        ("PATCH", "persistentvolumeclaims") => "AnnotateVolume",
        ("DELETE", "persistentvolumeclaims") => "DeleteVolume",
        ("POST", "pods") => "CreatePod",
        ("PATCH", "pods") if sent.body["spec"].is_object() => "UngatePod",
        ("PATCH", "pods") if sent.body["metadata"]["annotations"][keys::SERVED_UNTIL].is_string() => {
            "LeadClientsAway"
        }
        ("PATCH", "pods") if sent.body["metadata"]["labels"][keys::SERVES].is_string() => "LabelServes",
        ("PATCH", "pods") => "LabelJoined",
        ("DELETE", "pods") => "DeletePod",
        ("POST" | "PATCH", "poddisruptionbudgets") => "ApplyBudget",
        ("POST" | "PATCH", "networkpolicies") => "ApplyNetworkPolicy",
        ("DELETE", "networkpolicies") => "DeleteNetworkPolicy",
        _ => return None,
    })
}

/// The effect that a call to etcd carries out.
fn of_call(call: &str) -> Option<&'static str> {
    Some(match call {
        "MemberAdd" => "AddLearner",
        "MemberPromote" => "Promote",
        "MemberRemove" => "RemoveMember",
        "MoveLeader" => "MoveLeadership",
        "Downgrade" => "Downgrade",
        "AlarmDisarm" => "Disarm",
        "Compact" => "Compact",
        "Defragment" => "Defragment",
        _ => return None,
    })
}

impl Director {
    /// Logs an effect. `true` if its reply is to be lost.
    fn sends(&self, effect: &'static str) -> bool {
        let scene = self.scene.load(Ordering::SeqCst);
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).insert((scene, effect));
        let lost = self.failure == Some(Failure::ReplyLost(scene, effect)) && !self.failed.is_cancelled();
        if lost {
            self.failed.cancel();
        }
        lost
    }
}

/// Crashes the operator at the step of the failure.
struct Stage(Arc<Director>);

impl Hook for Stage {
    fn reached(&self, side: CrashSide, step: Step) -> BoxFuture<'static, ()> {
        let Self(director) = self;
        let scene = director.scene.load(Ordering::SeqCst);
        director.steps.lock().unwrap_or_else(PoisonError::into_inner).insert((scene, step));
        if director.failure == Some(Failure::Crash(scene, side, step)) {
            director.failed.cancel();
        }
        let dead = matches!(director.failure, Some(Failure::Crash(..))) && director.failed.is_cancelled();
        // A process that ended runs no other task either.
        if dead { futures::future::pending().boxed() } else { futures::future::ready(()).boxed() }
    }
}

/// Runs a story, with this failure if one is given, and checks its end.
pub async fn run_story(story: &[Scene], failure: Option<Failure>) -> Result<StoryRun> {
    let world = World::new().await?;
    let _kubelets = [world.kubelet(), jobs::kubelet(&world, jobs::able())];
    let director = Arc::new(Director { failure, ..Director::default() });
    let (calls, members, mut leads) = (director.clone(), world.members.clone(), false);
    let story_of = story.to_vec();
    world.members.decide_calls(move |call| {
        let scene = story_of[calls.scene.load(Ordering::SeqCst)];
        let turns =
            matches!(scene, Scene::ScaleWhileTheMemberToRemoveLeads(_)) && call.method == "MemberRemove";
        if turns && !std::mem::replace(&mut leads, true) {
            members.move_leadership_to_the_last();
            return CallOutcome::Refused(tonic::Code::Unavailable, "etcdserver: unhealthy cluster");
        }
        let lost = of_call(call.method).is_some_and(|effect| calls.sends(effect));
        if lost { CallOutcome::ReplyLost } else { CallOutcome::Done }
    });
    let requests = director.clone();
    let prefers_image_volumes = story.contains(&Scene::CreateWithoutImageVolumes);
    let client = world.client_through(move |sent| {
        if sent.has_image_volume() {
            return RequestOutcome::Refused(403, "Forbidden");
        }
        let lost = of_request(sent).is_some_and(|effect| requests.sends(effect));
        if lost { RequestOutcome::ReplyLost } else { RequestOutcome::Open }
    });
    let deliver = move |options: &mut Options| {
        if prefers_image_volumes {
            options.defaults.agent_delivery = AgentDelivery::ImageVolumeFirst;
        }
    };
    let first = world.operator_over(client.clone(), |options| {
        deliver(options);
        options.hook = Arc::new(Stage(director.clone()));
    });
    let restarts = async {
        director.failed.cancelled().await;
        if !matches!(failure, Some(Failure::Crash(..))) {
            std::future::pending::<()>().await;
        }
        drop(first);
        let _second = world.operator_over(client.clone(), deliver);
        std::future::pending::<()>().await;
    };
    let scenes = async {
        let mut writes = Vec::new();
        for (number, scene) in story.iter().enumerate() {
            director.scene.store(number, Ordering::SeqCst);
            Box::pin(scene.play(&world)).await.with_context(|| format!("{scene:?}"))?;
            writes.push(world.writes());
        }
        world.is_at_rest().await?;
        Ok::<_, anyhow::Error>(writes)
    };
    let writes = tokio::select! {
        writes = scenes => writes?,
        () = restarts => unreachable!("this future never ends"),
    };
    let steps = director.steps.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let effects = director.effects.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (changes, failed) = (world.members.changes(), director.failed.is_cancelled());
    Ok(StoryRun { writes, changes, steps, effects, failed })
}

impl Scene {
    async fn play(self, world: &World) -> Result<()> {
        match self {
            Self::Create => {
                let mut spec = plain(3);
                spec["storageSpec"]["retention"] = json!({"whenDeleted": "Delete"});
                spec["recovery"] = json!({"gracePeriod": "60s"});
                world.create_cluster(spec).await?;
                settled(world, 3).await
            }
            Self::CreateOne(version) => {
                let mut spec = plain(1);
                spec["version"] = json!(version);
                world.create_cluster(spec).await?;
                settled(world, 1).await
            }
            Self::CreateInMemory => {
                let mut spec = plain(3);
                spec["storageSpec"] = json!({"medium": "Memory"});
                world.create_cluster(spec).await?;
                settled(world, 3).await
            }
            Self::CreateWithoutImageVolumes => {
                world.create_cluster(plain(3)).await?;
                settled(world, 3).await
            }
            Self::Scale(size) | Self::ScaleWhileTheMemberToRemoveLeads(size) => scaled(world, size).await,
            Self::LosePod(member, size) => {
                let before = world.api::<Pod>().get(member).await?.metadata.uid;
                ensure!(world.members.strike(&Fault::KillPod(member.to_owned())), "{member} has no Pod");
                until("the Pod is gone", async || {
                    let there = world.api::<Pod>().get_opt(member).await?;
                    let same = there.is_some_and(|pod| pod.metadata.uid == before);
                    Ok(if same { Err(format!("{member} still exists")) } else { Ok(()) })
                })
                .await?;
                until("the goal is reached", async || {
                    let missing = world.members.goal();
                    Ok(missing)
                })
                .await?;
                settled(world, size).await
            }
            Self::EmptyVolume(member) => {
                ensure!(world.members.strike(&Fault::Wipe(member.to_owned())), "{member} has no data");
                tokio::time::sleep(Duration::from_secs(70)).await;
                until("another member took its place", async || {
                    let status = world.status().await?;
                    let is_there = status.members.iter().any(|one| one.name == member);
                    let last = status.recovery.and_then(|recovery| recovery.last_result);
                    let done = !is_there && last == Some(RecoveryResult::Succeeded);
                    Ok(if done { Ok(()) } else { Err(format!("{:#?}", status.conditions)) })
                })
                .await?;
                settled(world, 3).await
            }
            Self::Upgrade(version) => {
                edit(world, json!({"version": version})).await?;
                until("the goal is reached", async || Ok(world.members.goal_in(version))).await
            }
            Self::Downgrade(version) => {
                let patch = Patch::Merge(json!({
                    "metadata": {"annotations": {keys::ALLOW_DOWNGRADE: version}}, "spec": {"version": version},
                }));
                world.api::<EtcdCluster>().patch("demo", &PatchParams::default(), &patch).await?;
                until("the goal is reached", async || Ok(world.members.goal_in(version))).await?;
                until("etcd has ended the downgrade", async || {
                    let cluster = world.api::<EtcdCluster>().get("demo").await?;
                    let left = cluster.status.and_then(|status| status.goes_back_to);
                    Ok(left.map_or(Ok(()), |left| Err(format!("members go back to {left}"))))
                })
                .await
            }
            Self::CancelDowngrade => {
                {
                    let mut nodes = world.members.nodes();
                    let at =
                        nodes.etcd.processes().map(|(at, _)| at.to_owned()).next().context("no member")?;
                    let (action, to) = (DowngradeAction::Enable, Minor(3, 6));
                    let enabled = nodes.etcd.downgrade(&at, action, to);
                    ensure!(enabled.is_ok(), "{enabled:?}");
                }
                until("it is cancelled", async || {
                    let nodes = world.members.nodes();
                    let tips =
                        nodes.etcd.groups().map(|group| (group.tip().downgrade, group.tip().cluster_version));
                    let left: Vec<_> = tips.filter(|tip| *tip != (None, Some(Minor(3, 7)))).collect();
                    Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) })
                })
                .await
            }
            Self::GrowWithASlowLearner => {
                world.members.nodes().faults.slow.insert("demo-1".to_owned());
                scale(world, 3).await?;
                tokio::time::sleep(Duration::from_millis(LEARNER_DEADLINE.0) + Duration::from_mins(1)).await;
                world.members.end_lasting_faults();
                settled(world, 3).await
            }
            Self::AbandonBootstrap => {
                for member in ["demo-0", "demo-1", "demo-2"] {
                    world.members.nodes().faults.slow.insert(member.to_owned());
                }
                world.create_cluster(plain(3)).await?;
                super::until_pods(world, &["demo-0", "demo-1", "demo-2"]).await?;
                scale(world, 1).await?;
                settled_pods(world, 1).await?;
                world.members.end_lasting_faults();
                settled(world, 1).await
            }
            Self::DeleteAStrayPod => {
                let mut stray = world.api::<Pod>().get("demo-0").await?;
                stray.metadata.name = Some("demo-9".to_owned());
                stray.metadata.uid = None;
                stray.metadata.resource_version = None;
                stray.spec.iter_mut().for_each(|spec| spec.node_name = None);
                stray.status = None;
                world.api::<Pod>().create(&PostParams::default(), &stray).await?;
                super::until_pods(world, &["demo-0"]).await
            }
            Self::Delete => {
                world.delete::<EtcdCluster>("demo").await?;
                until("nothing is left", async || {
                    let left = [
                        world.names::<EtcdCluster>().await?,
                        world.names::<Pod>().await?,
                        world.names::<Service>().await?,
                        world.names::<Secret>().await?,
                    ];
                    Ok(if left.iter().all(Vec::is_empty) { Ok(()) } else { Err(format!("{left:?}")) })
                })
                .await
            }
            Self::Adopt => {
                let id = world.members.cluster_ids().pop().context("no cluster was bootstrapped")?;
                let object = json!({
                    "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
                    "metadata": {"name": "demo", "annotations": {keys::ADOPT: id}}, "spec": plain(1),
                });
                let object = serde_json::from_value(object)?;
                world.api::<EtcdCluster>().create(&PostParams::default(), &object).await?;
                settled(world, 1).await
            }
            Self::CreateCompacting => {
                let mut spec = plain(3);
                spec["etcd"] = json!({"autoCompactionRetention": "1h"});
                world.create_cluster(spec).await?;
                settled(world, 3).await?;
                // Nothing binds claims here.
                let bound = Patch::Merge(json!({"status": {"capacity": {"storage": "2Gi"}}}));
                for claim in world.names::<PersistentVolumeClaim>().await? {
                    let claims = world.api::<PersistentVolumeClaim>();
                    claims.patch_status(&claim, &PatchParams::default(), &bound).await?;
                }
                Ok(())
            }
            Self::FillDatabases => {
                for member in ["demo-0", "demo-1", "demo-2"] {
                    let is_full = world.members.strike(&Fault::Alarm(member.to_owned()));
                    ensure!(is_full, "{member} cannot be filled");
                }
                until("no alarm is active", async || {
                    let alarms = world.members.alarms();
                    Ok(if alarms == 0 { Ok(()) } else { Err(format!("{alarms} alarms")) })
                })
                .await?;
                settled(world, 3).await
            }
            Self::RestoreInPlace => {
                order_restore(world).await?;
                until("the order is complete", async || {
                    let order = world.api::<EtcdRestore>().get("back").await?;
                    let status = order.status.unwrap_or_default();
                    let is_complete = status.phase == Some(RestorePhase::Complete);
                    Ok(if is_complete { Ok(()) } else { Err(format!("{status:#?}")) })
                })
                .await?;
                settled(world, 3).await
            }
            Self::WithdrawRestore => {
                hold(world, "demo-1", &json!(["example.org/held"])).await?;
                order_restore(world).await?;
                until("demo-1 is to be deleted", async || {
                    let pod = world.api::<Pod>().get("demo-1").await?;
                    Ok(pod.metadata.deletion_timestamp.map_or(Err("not yet".to_owned()), |_| Ok(())))
                })
                .await?;
                world.delete::<EtcdRestore>("back").await?;
                until("the order is withdrawn", async || {
                    let replacing = world.status().await?.replacing;
                    Ok(replacing.map_or(Ok(()), |replacing| Err(format!("{replacing:?}"))))
                })
                .await?;
                hold(world, "demo-1", &json!(null)).await?;
                settled(world, 3).await
            }
        }
    }
}

/// Orders to replace the data of the cluster by those of the snapshot that the modelled nodes know.
pub async fn order_restore(world: &World) -> Result<()> {
    order_restore_with(world, json!({"backupBefore": "Never"})).await
}

/// The same, with these fields of the spec.
pub async fn order_restore_with(world: &World, fields: Value) -> Result<()> {
    let id = world.status().await?.cluster_id.context("it is bootstrapped")?;
    world.members.nodes().oracle.may_be_replaced(id.parse()?);
    let source = json!({"destination": {"s3": {"bucket": "backups"}}, "key": "k", "sha256": "a".repeat(64)});
    let mut order = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdRestore",
        "metadata": {"name": "back"},
        "spec": {"clusterName": "demo", "clusterID": id, "snapshot": {"source": source}},
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        order["spec"][field] = value.clone();
    }
    let order = serde_json::from_value(order)?;
    world.api::<EtcdRestore>().create(&PostParams::default(), &order).await?;
    Ok(())
}

/// Keeps a Pod from going while it has finalizers.
async fn hold(world: &World, pod: &str, finalizers: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    world.api::<Pod>().patch(pod, &PatchParams::default(), &patch).await?;
    Ok(())
}

async fn scaled(world: &World, size: u32) -> Result<()> {
    scale(world, usize::try_from(size)?).await?;
    settled(world, size).await
}

async fn settled_pods(world: &World, count: usize) -> Result<()> {
    until("the number of Pods is right", async || {
        let pods = world.names::<Pod>().await?;
        Ok(if pods.len() == count { Ok(()) } else { Err(format!("{pods:?}")) })
    })
    .await
}

/// A user's edit of the spec.
pub async fn edit(world: &World, spec: Value) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": spec}));
    world.api::<EtcdCluster>().patch("demo", &PatchParams::default(), &patch).await?;
    Ok(())
}

impl World {
    /// Checks the end of every story: the goal of the simulation is reached, no invariant was violated, there is one
    /// cluster id, and nothing is written for a minute.
    pub async fn is_at_rest(&self) -> Result<()> {
        // The last change is followed by readiness, identity annotations, the budget, a check of unconfirmed writes, and a calm look.
        tokio::time::sleep(Duration::from_secs(40)).await;
        let goal = self.members.goal();
        ensure!(goal.is_ok(), "the goal is not reached: {goal:?}");
        let violation = self.members.nodes().oracle.violation().cloned();
        ensure!(violation.is_none(), "{}", violation.map(|one| one.to_string()).unwrap_or_default());
        let mut ids = self.members.cluster_ids();
        // Those that an order replaced.
        ids.retain(|id| id.parse().is_ok_and(|id| !self.members.nodes().oracle.is_given_up(id)));
        ensure!(ids.len() <= 1, "there were several clusters: {ids:?}");
        if let Some(cluster) = self.api::<EtcdCluster>().get_opt("demo").await? {
            let status = cluster.status.unwrap_or_default();
            ensure!(
                status.cluster_id.as_ref() == ids.first(),
                "{:?} in status, {ids:?} in etcd",
                status.cluster_id
            );
        }
        let (before, sent) = (self.versions(), self.sent.writes().len());
        tokio::time::sleep(Duration::from_mins(1)).await;
        let late: Vec<_> = self.sent.writes().split_off(sent);
        ensure!(late.is_empty(), "written although nothing was left to do: {late:#?}");
        ensure!(self.versions() == before, "an object was changed by another writer");
        let volumes = self.names::<PersistentVolumeClaim>().await?;
        ensure!(volumes.len() < 10, "{volumes:?}");
        Ok(())
    }

    /// The uid and resourceVersion of every object but leases, which their holder renews.
    fn versions(&self) -> Vec<(String, String)> {
        let all = self.kube.store().everything().into_iter().filter(|(kind, _)| kind.plural != "leases");
        all.map(|(_, object)| {
            let of = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            (of("uid"), of("resourceVersion"))
        })
        .collect()
    }
}
