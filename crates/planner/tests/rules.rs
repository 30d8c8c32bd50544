//! The safety rules, one test each. `permits` refuses the effect that would break the rule, and permits it without the fact
//! that makes it dangerous. Each test fails when its check is removed from `safety.rs`.

use crate::world::{World, name};
use quorate_model::effect::{Boot, Unsafe};
use quorate_model::record::{Abandoned, Leaving, Loss, Stage, Suspicion};
use quorate_model::snapshot::{BudgetPolicy, FRESH, Quarantine};
use quorate_model::{ClusterId, Effect, EtcdCall, Instant, KubeEffect, MemberId, Record, Span, Step, Uid};
use quorate_planner::safety::{Scene, permits};

/// A cluster without a budget: the other rules are judged here.
fn running(size: usize) -> World {
    let mut world = World::running(size);
    world.seen.budget_policy = BudgetPolicy::None;
    world
}

fn judge(world: &World, record: &Record, before: &[Effect], effect: &Effect) -> Result<(), Unsafe> {
    permits(&Scene { seen: &world.seen, record, now: world.now, before }, effect)
}

fn verdict(world: &mut World, effect: &Effect) -> Result<(), Unsafe> {
    world.observe();
    world.prove();
    world.admit_successors();
    judge(world, &world.seen.record.clone(), &[], effect)
}

fn create(member: &str, boot: Boot) -> Effect {
    let step = match boot {
        Boot::New | Boot::Restore => Step::B4,
        Boot::Join => Step::G4,
        Boot::Resume => Step::W1,
        Boot::Read | Boot::Extract => Step::Q2,
    };
    Effect::kube(step, KubeEffect::CreatePod { member: name(member), boot, peers: Vec::new() })
}

fn delete_pod(world: &World, member: &str) -> Effect {
    let pod = &world.seen.pods[&name(member)];
    let (pod, resource_version) = (pod.uid.clone(), pod.resource_version.clone());
    Effect::kube(Step::U5, KubeEffect::DeletePod { member: name(member), pod, resource_version })
}

fn evict(world: &World, member: &str) -> Effect {
    let pod = world.seen.pods[&name(member)].uid.clone();
    Effect::kube(Step::U5, KubeEffect::EvictPod { member: name(member), pod })
}

fn delete_volume(world: &World, member: &str) -> Effect {
    let volume = &world.seen.volumes[&name(member)];
    let (volume, resource_version) = (volume.uid.clone(), volume.resource_version.clone());
    Effect::kube(Step::S5, KubeEffect::DeleteVolume { member: name(member), volume, resource_version })
}

fn remove(world: &World, member: &str) -> Effect {
    let listed = world.members.iter().find(|listed| listed.name == member).unwrap();
    remove_as(world, member, listed.id)
}

fn remove_as(world: &World, member: &str, id: MemberId) -> Effect {
    let call =
        EtcdCall::RemoveMember { member: name(member), id, peer_url: world.seen.peer_url(&name(member)) };
    Effect::etcd(Step::S3, world.leader.clone().unwrap(), call)
}

fn add(world: &World, member: &str) -> Effect {
    let peer_url = world.seen.peer_url(&name(member));
    let call = EtcdCall::AddLearner { member: name(member), peer_url };
    Effect::etcd(Step::G3, world.leader.clone().unwrap(), call)
}

fn label_joined(member: &str, pod: Uid) -> Effect {
    Effect::kube(Step::K1, KubeEffect::LabelJoined { member: name(member), pod })
}

fn ungate(member: &str, pod: Uid) -> Effect {
    Effect::kube(Step::BR, KubeEffect::UngatePod { member: name(member), pod })
}

/// Its clients have left, so that R24 allows its removal.
fn led_away(world: &mut World, member: &str) {
    let until = Instant(world.now.0 - 60_000);
    let pod = world.seen.pods.get_mut(&name(member)).unwrap();
    (pod.serves, pod.served_until) = (false, Some(until));
}

fn leaving(world: &mut World, member: &str) {
    if world.seen.pods.contains_key(&name(member)) {
        led_away(world, member);
    }
    world.seen.record.members.get_mut(&name(member)).unwrap().stage = Stage::Leaving(Leaving::Shrink);
}

fn joining(world: &mut World, member: &str) {
    let mut joining = world.seen.record.members[&name("demo-0")].clone();
    (joining.stage, joining.id, joining.volume) = (Stage::Joining, None, None);
    world.seen.record.members.insert(name(member), joining);
}

#[test]
fn r1_new_is_only_for_bootstrap_members_before_the_cluster_id_is_recorded() {
    let mut world = World::new(3);
    for _ in 0..2 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    world.lose_pod("demo-0");
    (world.members, world.cluster_id) = (Vec::new(), None);
    assert_eq!(verdict(&mut world, &create("demo-0", Boot::New)), Ok(()));

    world.seen.record.cluster_id = Some(ClusterId(1));
    let refused = verdict(&mut world, &create("demo-0", Boot::New));
    assert_eq!(refused, Err(Unsafe::NotABootstrapMember(name("demo-0"))));

    let mut running = running(3);
    running.lose_pod("demo-0");
    let refused = verdict(&mut running, &create("demo-0", Boot::New));
    assert_eq!(refused, Err(Unsafe::NotABootstrapMember(name("demo-0"))));
}

#[test]
fn r1_a_gated_pod_is_ungated_only_during_bootstrap_and_on_its_own_volume() {
    let mut world = World::with_pods_created(3);
    let pod = world.seen.pods[&name("demo-0")].uid.clone();
    let ungate_it = ungate("demo-0", pod);
    assert_eq!(verdict(&mut world, &ungate_it), Ok(()));

    let later = ungate("demo-0", Uid::new("later"));
    assert_eq!(verdict(&mut world, &later), Err(Unsafe::NotSeen(name("demo-0"))));

    let volume = world.seen.volumes.remove(&name("demo-0")).unwrap();
    assert_eq!(verdict(&mut world, &ungate_it), Err(Unsafe::NotItsVolume(name("demo-0"))));
    world.seen.volumes.insert(name("demo-0"), volume);

    let bootstrapping = world.seen.record.clone();
    world.seen.record.abandoned = Some(Abandoned::SpecEdited);
    assert_eq!(verdict(&mut world, &ungate_it), Err(Unsafe::NotABootstrapMember(name("demo-0"))));
    world.seen.record = Record { cluster_id: Some(ClusterId(1)), ..bootstrapping };
    assert_eq!(verdict(&mut world, &ungate_it), Err(Unsafe::NotABootstrapMember(name("demo-0"))));
}

#[test]
fn r2_a_member_starts_only_under_a_recorded_name_and_on_its_own_volume() {
    let mut world = running(3);
    assert_eq!(
        verdict(&mut world, &create("demo-7", Boot::Resume)),
        Err(Unsafe::NotRecorded(name("demo-7")))
    );
    world.lose_pod("demo-1");
    assert_eq!(verdict(&mut world, &create("demo-1", Boot::Resume)), Ok(()));
    let volume = world.seen.volumes[&name("demo-0")].clone();
    world.seen.volumes.insert(name("demo-1"), volume);
    assert_eq!(
        verdict(&mut world, &create("demo-1", Boot::Resume)),
        Err(Unsafe::NotItsVolume(name("demo-1")))
    );
}

#[test]
fn r3_only_the_object_that_was_observed_is_deleted() {
    let mut world = running(3);
    // It does not serve.
    world.silence("demo-1");
    let delete = delete_pod(&world, "demo-1");
    assert_eq!(verdict(&mut world, &delete), Ok(()));
    world.seen.pods.get_mut(&name("demo-1")).unwrap().uid = Uid::new("later");
    assert_eq!(verdict(&mut world, &delete), Err(Unsafe::NotSeen(name("demo-1"))));

    let delete = delete_pod(&world, "demo-1");
    world.seen.pods.get_mut(&name("demo-1")).unwrap().resource_version = "2".into();
    assert_eq!(verdict(&mut world, &delete), Err(Unsafe::NotSeen(name("demo-1"))));
}

#[test]
fn r4_observed_size_is_never_desired_size() {
    let mut world = World::running(5);
    for member in ["demo-1", "demo-3"] {
        world.lose_pod(member);
    }
    let plan = world.plan();
    assert_eq!(plan.record.target.as_ref().unwrap().size, 5);
    assert!(!plan.effects.iter().any(Effect::changes_membership));
    assert_eq!(plan.effects.len(), 2, "both Pods come back: {:?}", plan.effects);
}

#[test]
fn r5_a_plan_changes_membership_once_and_disturbs_one_member() {
    let mut world = running(5);
    leaving(&mut world, "demo-4");
    leaving(&mut world, "demo-3");
    world.observe();
    world.prove();
    let record = world.seen.record.clone();
    let (first, second) = (remove(&world, "demo-4"), remove(&world, "demo-3"));
    assert_eq!(judge(&world, &record, &[], &second), Ok(()));
    assert_eq!(judge(&world, &record, &[first], &second), Err(Unsafe::ChangeOutstanding(name("demo-3"))));
    let world = {
        let mut world = running(5);
        world.observe();
        world.prove();
        world.admit_successors();
        world
    };
    let record = world.seen.record.clone();
    let (first, second) = (evict(&world, "demo-1"), evict(&world, "demo-2"));
    assert_eq!(judge(&world, &record, &[], &second), Ok(()));
    assert_eq!(judge(&world, &record, &[first], &second), Err(Unsafe::SecondDisruption(name("demo-2"))));
}

#[test]
fn r5_one_learner_at_a_time() {
    let mut world = running(3);
    joining(&mut world, "demo-3");
    let effect = add(&world, "demo-3");
    assert_eq!(verdict(&mut world, &effect), Ok(()));
    let mut learner = world.members[0].clone();
    (learner.id, learner.is_learner) = (MemberId(9), true);
    learner.peer_url = world.seen.peer_url(&name("demo-8"));
    world.members.push(learner);
    assert!(matches!(verdict(&mut world, &effect), Err(Unsafe::ChangeOutstanding(_))));
}

#[test]
fn r6_a_dead_member_is_removed_before_its_replacement_is_added() {
    let mut world = running(3);
    joining(&mut world, "demo-3");
    world.silence("demo-2");
    let effect = add(&world, "demo-3");
    assert_eq!(verdict(&mut world, &effect), Err(Unsafe::VoterUnhealthy(name("demo-2"))));
    world.silent.clear();
    leaving(&mut world, "demo-2");
    assert_eq!(verdict(&mut world, &effect), Err(Unsafe::ChangeOutstanding(name("demo-2"))));
}

#[test]
fn r7_a_member_is_identified_by_id_and_url() {
    let mut world = running(3);
    leaving(&mut world, "demo-2");
    let effect = remove(&world, "demo-2");
    assert_eq!(verdict(&mut world, &effect), Ok(()));
    let swapped = remove_as(&world, "demo-2", world.members[0].id);
    assert_eq!(verdict(&mut world, &swapped), Err(Unsafe::NotThatMember(name("demo-2"))));
}

#[test]
fn r9_membership_changes_only_on_a_fresh_list_and_at_the_member_that_served_it() {
    let mut world = running(3);
    leaving(&mut world, "demo-2");
    let effect = remove(&world, "demo-2");
    world.observe();
    world.prove();
    let elsewhere = Effect::etcd(Step::S3, name("demo-1"), effect.as_etcd().unwrap().clone());
    assert_eq!(verdict(&mut world, &elsewhere), Err(Unsafe::NoFreshList));

    world.observe();
    world.prove();
    world.now = world.now + FRESH + Span(1);
    let record = world.seen.record.clone();
    assert_eq!(judge(&world, &record, &[], &effect), Err(Unsafe::NoFreshList));
}

#[test]
fn r10_a_volume_is_deleted_only_when_a_quorum_has_removed_the_member_and_its_pod_is_gone() {
    let mut world = running(3);
    let effect = delete_volume(&world, "demo-2");
    assert_eq!(verdict(&mut world, &effect), Err(Unsafe::PodNotGone(name("demo-2"))));
    world.lose_pod("demo-2");
    assert_eq!(verdict(&mut world, &effect), Err(Unsafe::DataKept(name("demo-2"))));
    leaving(&mut world, "demo-2");
    assert_eq!(verdict(&mut world, &effect), Err(Unsafe::StillListed(name("demo-2"))));
    let removed = world.members.pop().unwrap();
    assert_eq!(removed.name, "demo-2");
    assert_eq!(verdict(&mut world, &effect), Ok(()));
    world.silence("demo-0");
    world.silence("demo-1");
    assert_eq!(verdict(&mut world, &effect), Err(Unsafe::NoFreshList));
}

#[test]
fn r10_retained_data_outlive_the_cluster() {
    let mut world = running(1);
    world.lose_pod("demo-0");
    world.seen.deleting = true;
    let effect = delete_volume(&world, "demo-0");
    assert_eq!(verdict(&mut world, &effect), Err(Unsafe::DataKept(name("demo-0"))));
    world.seen.desired.storage.when_deleted = quorate_model::target::Retention::Delete;
    assert_eq!(verdict(&mut world, &effect), Ok(()));
    world.seen.volumes.get_mut(&name("demo-0")).unwrap().cluster_uid = None;
    assert_eq!(verdict(&mut world, &effect), Err(Unsafe::NotItsVolume(name("demo-0"))));
}

#[test]
fn r17_the_volume_of_a_member_that_the_operator_did_not_choose_to_remove_is_quarantined_and_not_deleted() {
    let mut world = World::running(3);
    let delete = delete_volume(&world, "demo-2");
    let uid = world.seen.volumes[&name("demo-2")].uid.clone();
    let (member, since, why) = (name("demo-2"), world.now, Leaving::Removed.into());
    let quarantine = Effect::kube(Step::S5, KubeEffect::QuarantineVolume { member, volume: uid, since, why });
    assert_eq!(verdict(&mut world, &quarantine), Err(Unsafe::NotRecorded(name("demo-2"))));
    let set = |world: &mut World, why| {
        world.seen.record.members.get_mut(&name("demo-2")).unwrap().stage = Stage::Leaving(why);
    };
    set(&mut world, Leaving::Shrink);
    assert_eq!(verdict(&mut world, &quarantine), Err(Unsafe::NotRecorded(name("demo-2"))));
    set(&mut world, Leaving::Removed);
    assert_eq!(verdict(&mut world, &quarantine), Err(Unsafe::StillListed(name("demo-2"))));
    world.members.pop();
    world.lose_pod("demo-2");
    for why in [Leaving::Removed, Leaving::Lost, Leaving::Replaced] {
        set(&mut world, why);
        assert_eq!(verdict(&mut world, &quarantine), Ok(()));
        assert_eq!(verdict(&mut world, &delete), Err(Unsafe::DataKept(name("demo-2"))));
    }

    let kept = Quarantine { since: Some(world.now), why: "why".into() };
    world.seen.volumes.get_mut(&name("demo-2")).unwrap().quarantine = Some(kept);
    world.seen.record.members.remove(&name("demo-2"));
    assert_eq!(verdict(&mut world, &delete), Err(Unsafe::DataKept(name("demo-2"))));
    world.now = world.now + world.seen.keep_volumes;
    assert_eq!(verdict(&mut world, &delete), Ok(()));
    let answer = world.seen.etcd.answers.get_mut(&name("demo-1")).unwrap();
    answer.reply.as_mut().unwrap().errors.push("NOSPACE".into());
    let record = world.seen.record.clone();
    assert_eq!(judge(&world, &record, &[], &delete), Err(Unsafe::VoterUnhealthy(name("demo-1"))));
}

#[test]
fn r17_a_quarantined_volume_is_never_mounted_again() {
    let mut world = World::running(3);
    world.lose_pod("demo-2");
    assert_eq!(verdict(&mut world, &create("demo-2", Boot::Resume)), Ok(()));
    let kept = Quarantine { since: None, why: "why".into() };
    world.seen.volumes.get_mut(&name("demo-2")).unwrap().quarantine = Some(kept);
    assert_eq!(
        verdict(&mut world, &create("demo-2", Boot::Resume)),
        Err(Unsafe::NotItsVolume(name("demo-2")))
    );
}

#[test]
fn r11_without_quorum_only_restarts_are_permitted() {
    let mut world = running(3);
    leaving(&mut world, "demo-2");
    let (removal, deletion) = (remove(&world, "demo-2"), delete_pod(&world, "demo-0"));
    world.silence("demo-1");
    world.lose_pod("demo-2");
    assert_eq!(verdict(&mut world, &create("demo-2", Boot::Resume)), Ok(()));
    assert_eq!(verdict(&mut world, &removal), Err(Unsafe::NoFreshList));
    assert_eq!(verdict(&mut world, &deletion), Err(Unsafe::NoFreshList));
}

#[test]
fn r11_what_is_left_after_a_removal_must_be_a_quorum() {
    let mut world = running(5);
    leaving(&mut world, "demo-4");
    world.silence("demo-4");
    world.observe();
    world.prove();
    let effect = remove(&world, "demo-4");
    assert_eq!(verdict(&mut world, &effect), Ok(()), "the unhealthy one may go");
    // Three of five answer, and the list is from just before.
    world.observe();
    world.prove();
    world.silence("demo-3");
    let list = world.seen.etcd.list.clone();
    world.observe();
    world.prove();
    world.seen.etcd.list = list;
    for answer in world.seen.etcd.answers.values_mut() {
        if let Ok(status) = &mut answer.reply {
            status.leader = Some(MemberId(0xb050));
        }
    }
    let record = world.seen.record.clone();
    assert_eq!(judge(&world, &record, &[], &effect), Ok(()), "three of four are a quorum");
    // Two of five follow the leader: it leads no more.
    world.seen.etcd.answers.remove(&name("demo-1"));
    assert_eq!(
        judge(&world, &record, &[], &effect),
        Err(Unsafe::WouldLoseQuorum { member: name("demo-4"), left: 0, of: 4 })
    );
}

#[test]
fn r11_a_serving_member_is_not_disturbed_while_another_is_unhealthy() {
    let mut world = running(5);
    let effect = evict(&world, "demo-1");
    world.silence("demo-2");
    assert_eq!(verdict(&mut world, &effect), Err(Unsafe::VoterUnhealthy(name("demo-2"))));
}

#[test]
fn r12_two_cluster_ids_stop_every_effect() {
    let mut world = running(3);
    world.lose_pod("demo-2");
    let effect = create("demo-2", Boot::Resume);
    assert_eq!(verdict(&mut world, &effect), Ok(()));
    world.seen.record.cluster_id = Some(ClusterId(1));
    assert_eq!(verdict(&mut world, &effect), Err(Unsafe::SplitBrain));
}

#[test]
fn r5_a_learner_is_promoted_and_a_healthy_member_removed_only_while_the_other_voters_are_healthy() {
    let mut world = running(3);
    world.resize(4);
    for _ in 0..2 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    let learner = world.members.iter().find(|member| member.is_learner).unwrap().id;
    let via = world.leader.clone().unwrap();
    let promote = |id| Effect::etcd(Step::G6, via.clone(), EtcdCall::Promote { member: name("demo-3"), id });
    assert_eq!(verdict(&mut world, &promote(learner)), Ok(()));
    assert_eq!(verdict(&mut world, &promote(MemberId(1))), Err(Unsafe::NotThatMember(name("demo-3"))));
    world.silence("demo-2");
    assert_eq!(verdict(&mut world, &promote(learner)), Err(Unsafe::VoterUnhealthy(name("demo-2"))));

    let mut world = running(5);
    leaving(&mut world, "demo-1");
    let healthy = remove(&world, "demo-1");
    assert_eq!(verdict(&mut world, &healthy), Ok(()));
    world.silence("demo-4");
    assert_eq!(verdict(&mut world, &healthy), Err(Unsafe::VoterUnhealthy(name("demo-4"))));
}

#[test]
fn leadership_moves_only_to_a_voter_that_is_healthy() {
    let mut world = running(3);
    let to_id = world.members.iter().find(|member| member.name == "demo-1").unwrap().id;
    let lead = |to_id| {
        Effect::etcd(Step::U4, name("demo-0"), EtcdCall::MoveLeadership { to: name("demo-1"), to_id })
    };
    assert_eq!(verdict(&mut world, &lead(to_id)), Ok(()));
    world.silence("demo-1");
    assert_eq!(verdict(&mut world, &lead(to_id)), Err(Unsafe::VoterUnhealthy(name("demo-1"))));
    assert_eq!(verdict(&mut world, &lead(MemberId(1))), Err(Unsafe::NotThatMember(name("demo-1"))));
}

#[test]
fn r5_no_voter_is_disturbed_while_a_member_joins() {
    let mut world = running(3);
    let delete = evict(&world, "demo-1");
    assert_eq!(verdict(&mut world, &delete), Ok(()));
    joining(&mut world, "demo-3");
    assert_eq!(verdict(&mut world, &delete), Err(Unsafe::ChangeOutstanding(name("demo-3"))));
}

#[test]
fn a_hibernating_cluster_starts_no_pod_and_neither_it_nor_a_deleted_one_changes_membership() {
    let mut world = running(3);
    joining(&mut world, "demo-3");
    let add = add(&world, "demo-3");
    assert_eq!(verdict(&mut world, &add), Ok(()));
    world.seen.deleting = true;
    assert_eq!(verdict(&mut world, &add), Err(Unsafe::NoQuorum));
    world.seen.deleting = false;
    world.seen.record.hibernating = true;
    assert_eq!(verdict(&mut world, &add), Err(Unsafe::NoQuorum));

    world.lose_pod("demo-1");
    let resume = create("demo-1", Boot::Resume);
    assert_eq!(verdict(&mut world, &resume), Err(Unsafe::NotRecorded(name("demo-1"))));
    world.seen.record.hibernating = false;
    assert_eq!(verdict(&mut world, &resume), Ok(()));
}

#[test]
fn r2_a_volume_is_created_once_and_only_a_members_own_volume_is_changed() {
    let mut world = running(3);
    let create_volume =
        |member: &str| Effect::kube(Step::G2, KubeEffect::CreateVolume { member: name(member) });
    joining(&mut world, "demo-3");
    assert_eq!(verdict(&mut world, &create_volume("demo-3")), Ok(()));
    assert_eq!(
        verdict(&mut world, &create_volume("demo-1")),
        Err(Unsafe::NotItsVolume(name("demo-1"))),
        "a voter's"
    );
    world.seen.record.members.get_mut(&name("demo-3")).unwrap().volume = Some(Uid::new("created"));
    assert_eq!(
        verdict(&mut world, &create_volume("demo-3")),
        Err(Unsafe::NotItsVolume(name("demo-3"))),
        "once more"
    );

    let expand = |volume| {
        Effect::kube(Step::K1, KubeEffect::ExpandVolume { member: name("demo-1"), volume, bytes: 1 })
    };
    let own = world.seen.volumes[&name("demo-1")].uid.clone();
    assert_eq!(verdict(&mut world, &expand(own)), Ok(()));
    let others = world.seen.volumes[&name("demo-0")].uid.clone();
    assert_eq!(verdict(&mut world, &expand(others)), Err(Unsafe::NotItsVolume(name("demo-1"))));
}

#[test]
fn only_the_pod_of_a_voter_or_of_a_learner_that_answers_is_labelled_joined() {
    let mut world = running(3);
    let pod = world.seen.pods[&name("demo-1")].uid.clone();
    let label = label_joined("demo-1", pod);
    assert_eq!(verdict(&mut world, &label), Ok(()));
    let other = label_joined("demo-1", Uid::new("later"));
    assert_eq!(verdict(&mut world, &other), Err(Unsafe::NotSeen(name("demo-1"))));
    world.seen.record.members.get_mut(&name("demo-1")).unwrap().stage = Stage::Joining;
    assert_eq!(verdict(&mut world, &label), Ok(()));
    world.seen.pods.get_mut(&name("demo-1")).unwrap().trouble = Some("its node is gone".into());
    assert_eq!(verdict(&mut world, &label), Err(Unsafe::NotRecorded(name("demo-1"))));
}

#[test]
fn h01_the_pod_of_a_bootstrap_member_is_labelled_joined_only_once_it_has_followed_a_leader() {
    let mut world = running(3);
    let label = label_joined("demo-1", world.seen.pods[&name("demo-1")].uid.clone());
    for member in world.seen.record.members.values_mut() {
        member.stage = Stage::Bootstrap;
    }
    assert_eq!(verdict(&mut world, &label), Err(Unsafe::NotRecorded(name("demo-1"))), "it may be given up");
    world.seen.record.had_leader = true;
    assert_eq!(verdict(&mut world, &label), Ok(()));
    let silent = &mut world.seen.pods.get_mut(&name("demo-1")).unwrap().trouble;
    *silent = Some("its node is gone".into());
    assert_eq!(verdict(&mut world, &label), Err(Unsafe::NotRecorded(name("demo-1"))));
}

/// P3, R6.
#[test]
fn p_a_lost_member_is_removed_only_while_it_is_lost_and_the_others_are_healthy() {
    let mut world = running(3);
    world.settle();
    world.lose_pod("demo-1");
    world.seen.volumes.remove(&name("demo-1"));
    let since = world.now;
    world.seen.record.members.get_mut(&name("demo-1")).unwrap().stage = Stage::Leaving(Leaving::Lost);
    let suspicion = Suspicion { loss: Loss::VolumeGone, since, rechecked: None };
    world.seen.record.suspected.insert(name("demo-1"), suspicion);
    let removal = remove(&world, "demo-1");
    assert_eq!(verdict(&mut world, &removal), Err(Unsafe::NotLost(name("demo-1"))), "grace period");
    world.now = world.now + world.seen.replacement_policy.grace;
    assert_eq!(verdict(&mut world, &removal), Ok(()));
    world.silence("demo-2");
    assert!(verdict(&mut world, &removal).is_err());
}
