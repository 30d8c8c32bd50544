//! Less obvious ways to lose data: a status that was lost in part or whole, an edit that delays a change of the retention
//! policy, a Pod in trouble while its etcd serves, data in memory. In each case no acknowledged write is lost, and there is one
//! cluster.

use crate::world::{World, name};
use quorate_model::effect::{EarlierData, LEARNER_DEADLINE, LEARNER_SYNC_DEADLINE, Unsafe};
use quorate_model::record::{Leaving, Stage};
use quorate_model::target::{Medium, PodRevision, Retention};
use quorate_model::{
    AppliedObject, Effect, GuardVerdict, KubeEffect, ManagedObject, Plan, Record, Span, Step, Version,
    Waiting,
};

fn in_memory(size: usize) -> World {
    let mut world = World::new(size);
    world.seen.desired.storage.medium = Medium::Memory;
    world.settle();
    world
}

/// Every Pod has an older revision than the desired one.
fn new_revision(world: &mut World) {
    world.seen.desired.pod.revision = PodRevision("r2".into());
}

fn deletes_pods(plan: &Plan) -> usize {
    plan.effects
        .iter()
        .filter(|effect| {
            matches!(
                effect,
                Effect::Kube { write: KubeEffect::DeletePod { .. } | KubeEffect::EvictPod { .. }, .. }
            )
        })
        .count()
}

fn deletes_volumes(plan: &Plan) -> bool {
    plan.effects
        .iter()
        .any(|effect| matches!(effect, Effect::Kube { write: KubeEffect::DeleteVolume { .. }, .. }))
}

#[test]
fn a_voters_pod_is_labelled_joined_so_that_an_emptied_volume_is_a_loss_and_not_a_first_start() {
    let mut world = World::running(3);
    assert!(
        world.seen.pods.values().all(|pod| pod.joined && pod.boots_new),
        "labelled joined once the cluster id is recorded"
    );
    world.seen.pods.get_mut(&name("demo-1")).unwrap().joined = false;
    let plan = world.plan();
    assert!(
        matches!(plan.effects.as_slice(), [Effect::Kube { write: KubeEffect::LabelJoined { .. }, .. }]),
        "{:?}",
        plan.effects
    );
}

#[test]
fn a_bootstrap_pod_that_has_not_run_is_not_labelled_joined_so_that_it_can_start() {
    let mut world = World::running(3);
    let late = world.seen.pods.get_mut(&name("demo-2")).unwrap();
    (late.joined, late.has_run, late.ready) = (false, false, false);
    let plan = world.plan();
    assert!(
        !plan
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Kube { write: KubeEffect::LabelJoined { .. }, .. })),
        "{:?}",
        plan.effects
    );
    world.seen.pods.get_mut(&name("demo-2")).unwrap().has_run = true;
    let plan = world.plan();
    assert!(
        plan.effects
            .iter()
            .any(|effect| matches!(effect, Effect::Kube { write: KubeEffect::LabelJoined { .. }, .. })),
        "{:?}",
        plan.effects
    );
}

#[test]
fn a_bootstrap_member_in_memory_that_never_starts_is_replaced_and_not_labelled_joined() {
    let mut world = in_memory(3);
    world.silence("demo-2");
    let broken = world.seen.pods.get_mut(&name("demo-2")).unwrap();
    (broken.joined, broken.labelled, broken.ready, broken.restarts) = (false, false, false, 2);
    broken.trouble = Some("CrashLoopBackOff: etcd ended with exit code 1".to_owned());
    let plan = world.plan();
    assert!(
        !plan
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Kube { write: KubeEffect::LabelJoined { .. }, .. })),
        "{:?}",
        plan.effects
    );
    assert_eq!(
        plan.record.members[&name("demo-2")].stage,
        Stage::Leaving(Leaving::Lost),
        "it is replaced: {:?}",
        plan.effects
    );
}

#[test]
fn bootstrap_members_in_memory_are_labelled_joined_only_once_all_that_have_run_answer() {
    let mut world = in_memory(3);
    for pod in world.seen.pods.values_mut() {
        (pod.joined, pod.labelled) = (false, false);
    }
    world.silence("demo-2");
    let plan = world.plan();
    let of_pods =
        |effect: &Effect| !matches!(effect.as_kube(), Some(KubeEffect::Apply(AppliedObject::Budget { .. })));
    assert!(!plan.effects.iter().any(of_pods), "{:?}", plan.effects);
    let reported = plan
        .waiting
        .iter()
        .any(|waiting| matches!(waiting, Waiting::Sick(member, _) if *member == name("demo-2")));
    assert!(reported, "{:?}", plan.waiting);
}

#[test]
fn a_new_learner_is_not_labelled_joined_and_a_voter_is() {
    let mut world = World::running(3);
    world.resize(4);
    for _ in 0..2 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    assert!(!world.seen.pods[&name("demo-3")].joined);
    world.settle();
    assert!(world.seen.pods[&name("demo-3")].joined);
}

#[test]
fn a_member_in_memory_that_lost_its_data_but_not_its_pod_is_replaced() {
    let mut world = in_memory(3);
    world.silence("demo-1");
    let pod = world.seen.pods.get_mut(&name("demo-1")).unwrap();
    (pod.ready, pod.guard) = (false, Some((GuardVerdict::DataMissing, "no data".into())));
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"]);
}

#[test]
fn a_rollout_never_deletes_the_last_copy_of_data_in_memory() {
    for size in [1, 2] {
        let mut world = in_memory(size);
        new_revision(&mut world);
        world.settle();
        assert_eq!(world.seen.pods.len(), size);
        let plan = world.plan();
        assert_eq!(deletes_pods(&plan), 0);
        let why = |waiting: &Waiting| matches!(waiting, Waiting::Unsafe(Unsafe::WouldLoseQuorum { .. }));
        assert!(plan.waiting.iter().any(why), "it is reported: {:?}", plan.waiting);
    }
    let mut world = in_memory(3);
    new_revision(&mut world);
    world.settle();
    assert_eq!(world.voters(), ["demo-3", "demo-4", "demo-5"], "three can be replaced, one at a time");
}

#[test]
fn in_memory_nobody_is_restarted_while_nobody_would_be_replaced() {
    let mut world = in_memory(3);
    world.seen.replacement_policy.enabled = false;
    new_revision(&mut world);
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);
    assert_eq!(world.seen.pods.len(), 3);
    let plan = world.plan();
    let why = |waiting: &Waiting| matches!(waiting, Waiting::Unsafe(Unsafe::NotReplaced(_)));
    assert!(plan.waiting.iter().any(why), "it is reported: {:?}", plan.waiting);
    world.seen.replacement_policy.enabled = true;
    world.settle();
    assert_eq!(world.voters(), ["demo-3", "demo-4", "demo-5"]);
}

#[test]
fn no_second_cluster_is_bootstrapped_when_status_is_lost_and_data_are_in_memory() {
    let mut world = in_memory(3);
    world.seen.record = Record::default();
    let plan = world.plan();
    assert!(plan.effects.is_empty() && plan.record == Record::default(), "{:?}", plan.effects);
    assert!(
        matches!(plan.waiting.as_slice(), [Waiting::EarlierData(EarlierData::UnknownPods(pods))] if pods.len() == 3)
    );
}

#[test]
fn a_bootstrap_attempt_is_not_abandoned_once_a_member_served() {
    let mut world = World::new(3);
    for _ in 0..4 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    assert!(world.seen.record.cluster_id.is_none() && world.seen.pods.len() == 3);
    // The kubelet can reach them, the operator cannot.
    for member in ["demo-0", "demo-1", "demo-2"] {
        world.silence(member);
    }
    new_revision(&mut world);
    let plan = world.plan();
    assert!(plan.effects.is_empty() && plan.record.abandoned.is_none(), "{:?}", plan.effects);

    for pod in world.seen.pods.values_mut() {
        pod.ready = false;
    }
    assert!(world.plan().record.abandoned.is_some(), "where no member served, nothing can be lost");
}

#[test]
fn a_record_without_cluster_id_is_not_abandoned_when_volumes_are_annotated() {
    let mut world = World::running(3);
    world.seen.record.cluster_id = None;
    for member in world.seen.record.members.values_mut() {
        member.stage = Stage::Bootstrap;
    }
    for pod in world.seen.pods.values_mut() {
        pod.ready = false;
    }
    for member in ["demo-0", "demo-1", "demo-2"] {
        world.silence(member);
    }
    new_revision(&mut world);
    let plan = world.plan();
    assert!(plan.effects.is_empty() && plan.record.abandoned.is_none(), "{:?}", plan.effects);
}

#[test]
fn a_refused_version_does_not_delay_a_change_of_the_retention_policy() {
    let mut world = World::running(3);
    world.resize(2);
    world.seen.desired.version = Version::new(3, 5, 1);
    world.seen.desired.storage.when_scaled = Retention::Retain;
    world.settle();
    assert_eq!(world.voters().len(), 2);
    assert_eq!(world.seen.volumes.len(), 3, "the removed member's volume is kept");
    assert_eq!(world.seen.record.target.as_ref().unwrap().version, Version::new(3, 6, 16));
}

#[test]
fn a_pod_that_ran_and_ends_again_and_again_is_not_deleted_while_the_committed_revision_runs_nowhere() {
    let mut world = World::running(3);
    new_revision(&mut world);
    world.seen.record.target = Some(world.seen.desired.clone());
    let committed = world.seen.desired.pod.revision.clone();
    for (member, revision) in [("demo-0", Some(committed)), ("demo-1", None)] {
        let pod = world.seen.pods.get_mut(&name(member)).unwrap();
        (pod.ready, pod.has_run) = (false, true);
        pod.trouble = Some("CrashLoopBackOff: etcd ended: OOMKilled (exit code 137)".into());
        pod.revision = revision.unwrap_or_else(|| pod.revision.clone());
    }
    let deleted = |world: &mut World| {
        let plan = world.plan();
        plan.effects.iter().any(|effect| effect.step() == quorate_model::Step::W2)
    };
    assert!(!deleted(&mut world), "demo-1 would come back in the revision in which demo-0 does not run");
    world.seen.pods.get_mut(&name("demo-0")).unwrap().trouble = None;
    world.silence("demo-2");
    assert!(deleted(&mut world), "the committed revision may be the cure");
    world.seen.record.target.as_mut().unwrap().storage.medium = quorate_model::target::Medium::Memory;
    assert!(!deleted(&mut world), "in memory its data would go with the Pod");
}

#[test]
fn members_that_serve_while_their_probes_fail_are_not_all_deleted_at_once() {
    let mut world = World::running(3);
    for pod in world.seen.pods.values_mut() {
        (pod.ready, pod.trouble) = (false, Some("CrashLoopBackOff: probe ended with exit code 1".into()));
    }
    new_revision(&mut world);
    // In this world a Pod in trouble does not answer. Here its etcd answers nevertheless.
    world.observe();
    let healthy = World::running(3).seen.etcd;
    world.seen.etcd = healthy;
    let list = world.seen.etcd.list.as_mut().unwrap();
    list.at = world.now;
    for answer in world.seen.etcd.answers.values_mut() {
        answer.at = world.now;
    }
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert!(deletes_pods(&plan) <= 1, "{:?}", plan.effects);
}

#[test]
fn the_version_of_the_data_decides_about_an_upgrade_also_while_members_hibernate() {
    let mut world = World::running(3);
    world.resize(0);
    world.settle();
    // They ran 3.5 last. 3.6 was committed while they hibernated, and never ran.
    for member in world.seen.record.members.values_mut() {
        member.version = Some(Version::new(3, 5, 35));
    }
    world.seen.desired.version = Version::new(3, 7, 3);
    world.settle();
    let committed = world.seen.record.target.as_ref().unwrap().version;
    assert_eq!(committed, Version::new(3, 6, 16), "3.7 must not meet data of 3.5");
    assert!(world.plan().waiting.iter().any(|waiting| matches!(waiting, Waiting::VersionRefused(_))));
}

#[test]
fn a_silent_learner_has_time_for_a_large_database_and_one_in_sync_has_no_deadline() {
    let mut world = World::running(3);
    world.resize(4);
    for _ in 0..2 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    let rolled_back = |world: &mut World| {
        let plan = world.plan();
        plan.record.members.get(&name("demo-3")).map(|member| member.stage)
            == Some(Stage::Leaving(Leaving::RolledBack))
    };
    let began = world.now;
    world.now = began + LEARNER_SYNC_DEADLINE + Span(1);
    world.observe();
    world.seen.etcd.learner_progress = Some((name("demo-3"), world.now));
    let plan = quorate_planner::plan(&world.seen, world.now);
    let stage = plan.record.members[&name("demo-3")].stage;
    assert_eq!(stage, Stage::Joining, "it is in sync: another member delays its promotion");
    world.silence("demo-3");
    assert!(rolled_back(&mut world));
    world.now = began + LEARNER_DEADLINE + Span(1);
    assert!(!rolled_back(&mut world), "it runs");
    world.seen.pods.get_mut(&name("demo-3")).unwrap().trouble = Some("ErrImagePull".into());
    assert!(rolled_back(&mut world), "it does not run");
}

#[test]
fn the_member_to_remove_is_chosen_again_when_another_becomes_unhealthy() {
    let mut world = World::running(3);
    world.resize(2);
    world.seen.record.target.as_mut().unwrap().size = 2;
    world.seen.record.members.get_mut(&name("demo-2")).unwrap().stage = Stage::Leaving(Leaving::Shrink);
    world.lose_pod("demo-1");
    world.seen.volumes.remove(&name("demo-1"));
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2"]);
}

#[test]
fn a_bootstrapped_cluster_whose_status_lost_its_target_follows_the_spec() {
    let mut world = World::running(3);
    world.seen.record.target = None;
    let story = world.settle();
    assert!(world.seen.record.target.is_some() && !story.contains("delete Pod"), "{story}");
}

#[test]
fn when_status_lost_its_target_a_version_that_may_not_follow_the_running_one_is_not_committed() {
    let mut world = World::running(3);
    let running = world.seen.desired.version;
    world.seen.record.target = None;
    world.seen.desired.version = Version::new(running.major, running.minor - 1, 1);
    let plan = world.plan();
    let committed = plan.record.target.expect("a target is recorded");
    assert_eq!(committed.version, running, "the version that the members run");
    assert!(committed.pod.content.is_empty(), "the next pass has the template for that version");
    assert_eq!(plan.effects, []);
    // Recorded when no member could be asked.
    world.seen.record.target = Some(world.seen.desired.clone());
    world.seen.desired.tls = !world.seen.desired.tls;
    let plan = world.plan();
    let committed = plan.record.target.expect("a target is recorded");
    assert_eq!(committed.version, running);
    assert_ne!(
        committed.tls, world.seen.desired.tls,
        "what cannot change while members run stays as it was committed"
    );
}

#[test]
fn h22_a_voter_that_status_lost_is_recorded_again_with_its_volume() {
    let mut world = World::running(3);
    world.seen.record.members.remove(&name("demo-1"));
    world.settle();
    world.lose_pod("demo-1");
    world.settle();
    assert!(world.seen.pods.contains_key(&name("demo-1")));
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);
}

#[test]
fn a_cluster_whose_status_was_lost_can_be_deleted_and_its_volumes_stay() {
    let mut world = World::running(3);
    world.seen.record = Record::default();
    world.seen.deleting = true;
    for _ in 0..5 {
        let plan = world.plan();
        assert!(!deletes_volumes(&plan));
        world.carry_out(plan);
    }
    assert!(!world.seen.finalizer && world.seen.pods.is_empty());
    assert_eq!(world.seen.volumes.len(), 3);
}

#[test]
fn h17_a_pod_that_a_late_call_created_for_a_removed_member_is_deleted() {
    let mut world = World::running(3);
    let late = world.seen.pods[&name("demo-0")].clone();
    world.seen.pods.insert(name("demo-9"), quorate_model::snapshot::Pod { ip: None, ready: false, ..late });
    let plan = world.plan();
    assert!(
        matches!(plan.effects.as_slice(), [Effect::Kube { write: KubeEffect::DeletePod { member, .. }, .. }] if *member == name("demo-9"))
    );
}

#[test]
fn a_removed_finalizer_is_added_again() {
    let mut world = World::running(1);
    world.seen.finalizer = false;
    let plan = world.plan();
    assert!(plan.effects.contains(&Effect::kube(Step::B1, KubeEffect::AddFinalizer)));
}

#[test]
fn a_restarted_voter_catches_up_before_the_next_one_is_restarted() {
    let mut world = World::running(3);
    new_revision(&mut world);
    // The first is deleted, then created again.
    for _ in 0..2 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    let new = |pod: &quorate_model::snapshot::Pod| pod.revision == PodRevision("r2".into());
    let restarted = world.seen.pods.iter().find(|(_, pod)| new(pod)).map(|(name, _)| name.clone()).unwrap();
    assert_eq!(deletes_pods(&world.plan()), 1, "in sync, so the next one goes");
    for (member, answer) in &mut world.seen.etcd.answers {
        answer.reply.as_mut().unwrap().applied = if *member == restarted { 1 } else { 100_000 };
    }
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert_eq!(deletes_pods(&plan), 0, "{:?}", plan.effects);
}

#[test]
fn a_foreign_service_does_not_prevent_growth() {
    let mut world = World::running(1);
    world.seen.client_service = quorate_model::snapshot::Presence::Absent;
    world.seen.foreign.insert(ManagedObject::ClientService, "Service default/demo-client".into());
    world.resize(2);
    let plan = world.plan();
    assert!(!plan.effects.contains(&Effect::kube(Step::B7, KubeEffect::Apply(AppliedObject::ClientService))));
    assert!(
        plan.effects
            .iter()
            .any(|effect| matches!(effect, Effect::Kube { write: KubeEffect::CreateVolume { .. }, .. }))
    );
    let is_reported = |waiting: &Waiting| matches!(waiting, Waiting::ForeignObjects(_));
    assert!(plan.waiting.iter().any(is_reported));
}
