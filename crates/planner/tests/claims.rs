//! R21: somebody deleted the claim of a member. Its data live as long as its Pod, which no protocol ends.

use crate::world::{World, name};
use quorate_model::effect::{ClaimOutlook, Unsafe};
use quorate_model::record::{Leaving, Loss, Replacement, ReplacementEnd, Stage};
use quorate_model::snapshot::BudgetPolicy;
use quorate_model::target::{PodRevision, Retention};
use quorate_model::{AppliedObject, Effect, EtcdCall, KubeEffect, Plan, Span, Step, Waiting};
use quorate_planner::safety::mutants::without;
use quorate_planner::safety::{Scene, permits};

fn delete_claim(world: &mut World, member: &str) {
    world.seen.volumes.get_mut(&name(member)).expect("it has a volume").terminating = true;
}

fn ends_pod(plan: &Plan, member: &str) -> bool {
    plan.effects.iter().any(|effect| match effect.as_kube() {
        Some(KubeEffect::DeletePod { member: of, .. } | KubeEffect::EvictPod { member: of, .. }) => {
            *of == name(member)
        }
        Some(_) | None => false,
    })
}

fn says(plan: &Plan, member: &str, outlook: ClaimOutlook) -> bool {
    plan.waiting.contains(&Waiting::ClaimTerminating { member: name(member), outlook })
}

#[test]
fn m01_a_claim_that_is_being_deleted_is_told_at_once_and_no_eviction_is_admitted() {
    for size in [1, 2, 3] {
        let mut world = World::running(size);
        world.settle();
        world.seen.replacement_policy.enabled = false;
        delete_claim(&mut world, "demo-0");
        let plan = world.plan();
        assert!(says(&plan, "demo-0", ClaimOutlook::MovesOnOrder), "{:?}", plan.waiting);
        let budget = plan.effects.iter().find_map(|effect| match effect.as_kube() {
            Some(KubeEffect::Apply(AppliedObject::Budget { min_available, .. })) => Some(*min_available),
            Some(_) | None => None,
        });
        assert_eq!(budget, Some(size), "of {size}");
    }
}

#[test]
fn m01_a_healthy_member_moves_to_a_new_claim_before_it_goes() {
    for (size, outlook) in [(1, ClaimOutlook::MovesAlone), (3, ClaimOutlook::Moves)] {
        let mut world = World::running(size);
        world.settle();
        delete_claim(&mut world, "demo-0");
        let joins = world.plan_that(|plan| {
            plan.effects.iter().any(|effect| matches!(effect.as_etcd(), Some(EtcdCall::AddLearner { .. })))
        });
        assert!(says(&joins, "demo-0", outlook), "{:?}", joins.waiting);
        assert_eq!(world.voters().len(), size, "nobody has left");
        world.carry_out(joins);
        let story = world.settle();
        assert!(!world.voters().contains(&"demo-0") && world.voters().len() == size, "{story}");
        let last = world.seen.record.last_replacement.clone().expect("it was replaced");
        assert_eq!((last.member, last.end), (name("demo-0"), ReplacementEnd::Succeeded), "{story}");
    }
}

#[test]
fn m01_a_move_that_another_member_holds_up_for_long_does_not_hold_up_the_scale_in_that_removes_that_one() {
    let mut world = World::running(3);
    world.settle();
    delete_claim(&mut world, "demo-2");
    world.plan_that(|plan| plan.record.replacement.is_some());
    world.silence("demo-1");
    for _ in 0..30 {
        let plan = world.plan();
        assert!(!ends_pod(&plan, "demo-2"), "{:?}", plan.effects);
        world.carry_out(plan);
        world.now = world.now + Span::seconds(60);
    }
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"], "nobody was told to remove it");
    world.resize(2);
    let story = world.settle();
    assert!(world.voters().len() == 2 && !world.voters().contains(&"demo-1"), "{story}");
    assert!(!world.voters().contains(&"demo-2"), "it moves now: {story}");
}

#[test]
fn m01_with_replacements_off_it_stays_and_no_rollout_ends_its_pod() {
    for size in [1, 3] {
        let mut world = World::running(size);
        world.settle();
        world.seen.replacement_policy.enabled = false;
        delete_claim(&mut world, "demo-0");
        world.seen.desired.pod.revision = PodRevision("another".into());
        for _ in 0..20 {
            let plan = world.plan();
            assert!(!ends_pod(&plan, "demo-0"), "{:?}", plan.effects);
            world.carry_out(plan);
            world.now = world.now + Span::seconds(60);
        }
        assert!(world.voters().contains(&"demo-0"));
    }
}

#[test]
fn m01_with_replacements_off_a_rollout_restarts_the_others() {
    let mut world = World::running(3);
    world.settle();
    world.seen.replacement_policy.enabled = false;
    delete_claim(&mut world, "demo-0");
    world.seen.desired.pod.revision = PodRevision("another".into());
    world.seen.desired.pod.content = "another".into();
    let story = world.settle();
    let stale: Vec<&str> = world
        .seen
        .pods
        .iter()
        .filter(|(_, pod)| pod.revision != PodRevision("another".into()))
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(stale, ["demo-0"], "{story}");
}

#[test]
fn m01_another_minor_version_waits_for_the_move() {
    let mut world = World::running(3);
    world.settle();
    delete_claim(&mut world, "demo-0");
    let committed = world.seen.record.target.as_ref().expect("it is committed").version;
    world.seen.desired.version.minor += 1;
    let plan = world.plan();
    assert_eq!(plan.record.target.as_ref().map(|target| target.version), Some(committed));
    let story = world.settle();
    let target = world.seen.record.target.as_ref().expect("it is committed");
    assert_eq!(target.version, world.seen.desired.version, "{story}");
}

#[test]
fn m01_a_member_that_is_kept_out_or_refused_while_its_claim_is_being_deleted_is_replaced() {
    let mut world = World::running(3);
    world.settle();
    delete_claim(&mut world, "demo-1");
    world.silence("demo-1");
    let pod = world.seen.pods.get_mut(&name("demo-1")).expect("it has a Pod");
    pod.guard = Some((quorate_model::GuardVerdict::DataMissing, "it is empty".to_owned()));
    (pod.ready, pod.differs_from_peers) = (false, true);
    let plan = world.plan();
    assert!(says(&plan, "demo-1", ClaimOutlook::Stays), "{:?}", plan.waiting);
    world.carry_out(plan);
    world.now = world.now + world.seen.replacement_policy.grace;
    let story = world.settle();
    assert!(!world.voters().contains(&"demo-1") && world.voters().len() == 3, "{story}");
}

#[test]
fn m01_size_zero_is_carried_out_once_every_claim_is_there_to_stay() {
    let mut world = World::running(3);
    world.settle();
    delete_claim(&mut world, "demo-1");
    world.resize(0);
    let plan = world.plan();
    assert_eq!(plan.record.target.as_ref().map(|target| target.size), Some(3), "{:?}", plan.waiting);
    assert!(!plan.record.hibernating);
    let story = world.settle();
    assert!(world.seen.record.hibernating, "{story}");
    let voters: Vec<&str> = world.seen.record.voters().map(quorate_model::MemberName::as_str).collect();
    assert_eq!(voters, ["demo-0", "demo-2", "demo-3"], "{story}");
}

#[test]
fn m01_a_claim_that_is_deleted_on_the_way_to_size_zero_keeps_its_pod() {
    let mut world = World::running(1);
    world.settle();
    world.resize(0);
    world.seen.record.hibernating = true;
    world.seen.record.target.as_mut().expect("it is committed").size = 0;
    delete_claim(&mut world, "demo-0");
    let plan = world.plan();
    assert!(!ends_pod(&plan, "demo-0"), "{:?}", plan.effects);
    assert!(says(&plan, "demo-0", ClaimOutlook::AtSizeZero), "{:?}", plan.waiting);
    let stops = without("ClaimTerminating", || world.plan());
    assert!(ends_pod(&stops, "demo-0"), "without the rule it is stopped");
}

#[test]
fn m01_a_hibernated_cluster_reports_a_claim_that_is_gone() {
    let mut world = World::running(3);
    world.settle();
    world.resize(0);
    world.settle();
    assert!(world.seen.record.hibernating && world.seen.pods.is_empty());
    world.seen.volumes.remove(&name("demo-1"));
    let plan = world.plan();
    assert!(plan.waiting.contains(&Waiting::VolumeLost(name("demo-1"))), "{:?}", plan.waiting);
}

#[test]
fn m01_a_deleted_cluster_whose_data_are_kept_waits_for_a_person() {
    let mut world = World::running(3);
    world.settle();
    delete_claim(&mut world, "demo-2");
    world.seen.deleting = true;
    let plan = world.plan();
    assert!(!ends_pod(&plan, "demo-2") && ends_pod(&plan, "demo-1"), "{:?}", plan.effects);
    assert!(says(&plan, "demo-2", ClaimOutlook::Deleted), "{:?}", plan.waiting);
}

#[test]
fn m01_a_member_that_ends_while_its_claim_is_being_deleted_is_removed_first_after_the_grace_period() {
    let mut world = World::running(3);
    world.settle();
    delete_claim(&mut world, "demo-1");
    world.silence("demo-1");
    let pod = world.seen.pods.get_mut(&name("demo-1")).expect("it has a Pod");
    (pod.ready, pod.finished) = (false, true);
    let plan = world.plan();
    assert!(!ends_pod(&plan, "demo-1"), "also a Pod that has ended keeps its claim: {:?}", plan.effects);
    assert_eq!(plan.record.suspected[&name("demo-1")].loss, Loss::ClaimTerminating);
    world.carry_out(plan);
    world.now = world.now + world.seen.replacement_policy.grace;
    let story = world.settle();
    assert!(!world.voters().contains(&"demo-1") && world.voters().len() == 3, "{story}");
}

#[test]
fn m01_a_pod_is_not_ended_while_its_claim_is_being_deleted_and_the_member_votes() {
    let mut world = World::running(3);
    world.seen.budget_policy = BudgetPolicy::None;
    delete_claim(&mut world, "demo-1");
    world.observe();
    world.prove();
    let pod = world.seen.pods[&name("demo-1")].clone();
    let evict = Effect::kube(Step::U5, KubeEffect::EvictPod { member: name("demo-1"), pod: pod.uid.clone() });
    let delete = Effect::kube(
        Step::W2,
        KubeEffect::DeletePod {
            member: name("demo-1"),
            pod: pod.uid,
            resource_version: pod.resource_version,
        },
    );
    let refused = Err(Unsafe::ClaimTerminating(name("demo-1")));
    let mut record = world.seen.record.clone();
    for effect in [&evict, &delete] {
        let scene = Scene { seen: &world.seen, record: &record, now: world.now, before: &[] };
        assert_eq!(permits(&scene, effect), refused);
    }
    // A quorum has removed it, and has its data.
    let id = record.members[&name("demo-1")].id;
    world.seen.etcd.list.as_mut().expect("it was read").members.retain(|listed| Some(listed.id) != id);
    record.members.get_mut(&name("demo-1")).expect("it is recorded").stage =
        Stage::Leaving(Leaving::Replaced);
    let scene = Scene { seen: &world.seen, record: &record, now: world.now, before: &[] };
    assert_eq!(permits(&scene, &delete), Ok(()));
}

/// Somebody may have deleted it just now.
#[test]
fn m01_a_pod_is_not_ended_while_its_claim_cannot_be_read() {
    let mut world = World::running(3);
    world.settle();
    world.seen.desired.size = 0;
    let plan = world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::Z1));
    let first =
        ["demo-0", "demo-1", "demo-2"].into_iter().find(|member| ends_pod(&plan, member)).expect("a Pod");
    world.seen.claims_not_read.insert(name(first), "forbidden".to_owned());
    let plan = world.plan();
    assert!(!ends_pod(&plan, first), "{:?}", plan.effects);
    let told = Waiting::Unsafe(Unsafe::ClaimNotRead(name(first), "forbidden".to_owned()));
    assert!(plan.waiting.contains(&told), "{:?}", plan.waiting);
    assert!(ends_pod(&without("ClaimNotRead", || world.plan()), first));
}

/// Somebody deletes the claim and the Pod of a member whose node is dead: both stay as long as the Node object does.
fn node_dies(world: &mut World, member: &str) {
    delete_claim(world, member);
    world.silence(member);
    let now = world.now;
    let pod = world.seen.pods.get_mut(&name(member)).expect("it has a Pod");
    (pod.terminating, pod.ready, pod.stops_by, pod.node) = (true, false, Some(now), Some("n3".to_owned()));
}

#[test]
fn l05_a_pod_that_a_dead_node_keeps_is_no_member_and_holds_nothing_up() {
    for edit in [
        |world: &mut World| world.seen.desired.size = 0,
        |world: &mut World| world.seen.desired.version = "3.7.3".parse().expect("a version"),
    ] {
        let mut world = World::running(3);
        world.settle();
        node_dies(&mut world, "demo-2");
        for _ in 0..60 {
            let plan = world.plan();
            world.carry_out(plan);
            world.now = world.now + Span::seconds(30);
            if world.voters() == ["demo-0", "demo-1", "demo-3"] {
                break;
            }
        }
        for _ in 0..10 {
            let plan = world.plan();
            world.carry_out(plan);
        }
        assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-3"]);
        assert!(world.seen.pods.contains_key(&name("demo-2")), "its kubelet never reports");
        assert!(!world.seen.record.members.contains_key(&name("demo-2")));
        let plan = world.plan();
        assert_eq!((&*plan.waiting, &*plan.effects), (&[][..], &[][..]), "nothing is waited for");
        edit(&mut world);
        let plan = world.plan();
        let target = plan.record.target.as_ref().expect("a target");
        assert_eq!((target.size, target.version), (world.seen.desired.size, world.seen.desired.version));
        world.carry_out(plan);
        for _ in 0..10 {
            let plan = world.plan();
            world.carry_out(plan);
        }
        // At size zero nobody answers, so nothing but the claim tells that its data are no voter's.
        let told = world.plan().waiting;
        let is_meant = |waiting: &&Waiting| matches!(waiting, Waiting::ClaimTerminating { .. });
        assert_eq!(told.iter().find(is_meant), None);
    }
}

#[test]
fn l05_a_member_whose_volume_was_quarantined_before_its_node_came_back_is_gone_all_the_same() {
    let mut world = World::running(3);
    world.settle();
    node_dies(&mut world, "demo-2");
    world.seen.volumes.get_mut(&name("demo-2")).expect("it has a volume").terminating = false;
    world.resize(2);
    let quarantines = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::QuarantineVolume { member, .. }) if *member == name("demo-2"));
    for _ in 0..60 {
        let plan = world.plan();
        let ends = plan.effects.iter().any(quarantines);
        world.carry_out(plan);
        if ends {
            break;
        }
        world.now = world.now + Span::seconds(30);
    }
    assert!(world.seen.volumes[&name("demo-2")].quarantine.is_some(), "its Pod is stuck");
    world.seen.pods.remove(&name("demo-2"));
    let story = world.settle();
    assert!(!world.seen.record.members.contains_key(&name("demo-2")), "{story}");
    assert!(world.seen.volumes.contains_key(&name("demo-2")), "it is kept for its time: {story}");
    assert_eq!(world.seen.budget.as_ref().and_then(|budget| budget.min_available), Some(1), "{story}");
}

#[test]
fn l10_a_claim_that_is_deleted_after_the_cluster_does_not_hold_up_its_end() {
    let mut world = World::running(3);
    world.settle();
    world.seen.deleting = true;
    delete_claim(&mut world, "demo-0");
    assert!(!ends_pod(&world.plan(), "demo-0"), "it was deleted before");
    world.seen.volumes.get_mut(&name("demo-0")).expect("a claim").deleted_after_cluster = true;
    assert!(ends_pod(&world.plan(), "demo-0"));
    world.seen.deleting = false;
    world.seen.desired.pod.revision = PodRevision("r2".to_owned());
    assert!(!ends_pod(&world.plan(), "demo-0"), "nobody deletes the cluster");
}

#[test]
fn l12_a_claim_that_cannot_be_read_holds_up_only_the_end_of_a_pod_that_may_keep_data() {
    let mut world = World::running(3);
    world.settle();
    world.seen.claims_not_read.insert(name("demo-0"), "forbidden".to_owned());
    world.seen.deleting = true;
    assert!(!ends_pod(&world.plan(), "demo-0"), "its data are retained");
    world.seen.desired.storage.when_deleted = Retention::Delete;
    assert!(ends_pod(&world.plan(), "demo-0"), "nothing of it is to stay");
}

/// Makes passes, one every ten seconds, for so long. The Pod of a learner is bound to a node, if there is one for it, and then cannot start,
/// if its image does not exist.
fn pass_for(world: &mut World, minutes: i64, nodes: usize, is_pulled: bool) {
    let began = world.now;
    while world.now.0 - began.0 < minutes * 60_000 {
        let has_node = world.seen.pods.len() <= nodes;
        for (member, pod) in &mut world.seen.pods {
            let joins =
                world.seen.record.members.get(member).is_some_and(|member| member.stage == Stage::Joining);
            pod.node = (!joins || has_node).then(|| "a node".to_owned());
            pod.trouble = match (joins, has_node, is_pulled) {
                (true, false, _) => Some("Unschedulable: 0/3 nodes are available".to_owned()),
                (true, true, false) => Some("ErrImagePull: not found".to_owned()),
                (true, true, true) | (false, ..) => None,
            };
        }
        let at = world.now;
        let plan = world.plan();
        world.carry_out(plan);
        world.now = at + Span::seconds(10);
    }
}

#[test]
fn l11_a_member_whose_next_one_found_no_place_is_removed_first_and_the_next_one_joins_at_once() {
    let mut world = World::running(3);
    world.settle();
    delete_claim(&mut world, "demo-0");
    pass_for(&mut world, 9, 3, true);
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);
    let began = world.now;
    while world.voters().len() == 3 && world.now - began < Span::seconds(300) {
        pass_for(&mut world, 1, 3, true);
    }
    assert_eq!(world.voters(), ["demo-1", "demo-2"], "in place");
    assert_eq!(world.seen.record.failed_learners, None, "the next one has a place");
    pass_for(&mut world, 2, 3, true);
    assert_eq!(world.voters().len(), 3, "{:?}", world.voters());
    assert!(!world.voters().contains(&"demo-0"));
    let last = world.seen.record.last_replacement.clone().expect("it was replaced");
    assert_eq!((last.member, last.end), (name("demo-0"), ReplacementEnd::Succeeded));
}

/// It would not start in the place of the other one either.
#[test]
fn l11_a_member_whose_next_one_had_a_place_and_failed_stays() {
    let mut world = World::running(3);
    world.settle();
    delete_claim(&mut world, "demo-0");
    pass_for(&mut world, 120, 4, false);
    assert!(world.seen.record.failed_learners.is_some());
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);
}

#[test]
fn l11_of_two_no_member_moves_in_place() {
    let mut world = World::running(2);
    world.settle();
    delete_claim(&mut world, "demo-0");
    pass_for(&mut world, 120, 2, true);
    assert!(world.seen.record.failed_learners.is_some());
    assert_eq!(world.voters(), ["demo-0", "demo-1"]);
}

#[test]
fn l11_a_member_that_moves_in_place_is_told_to() {
    let mut world = World::running(3);
    world.settle();
    delete_claim(&mut world, "demo-0");
    world.seen.record.replacement = Some(moved_in_place(&world));
    let plan = world.plan();
    assert!(says(&plan, "demo-0", ClaimOutlook::MovesInPlace), "{:?}", plan.waiting);
    assert_eq!(plan.record.members[&name("demo-0")].stage, Stage::Leaving(Leaving::Replaced));
}

#[test]
fn l11_a_move_in_place_that_another_member_holds_up_does_not_hold_up_the_scale_in_that_removes_that_one() {
    let mut world = World::running(3);
    world.settle();
    delete_claim(&mut world, "demo-0");
    world.seen.record.replacement = Some(moved_in_place(&world));
    world.silence("demo-1");
    for _ in 0..30 {
        let plan = world.plan();
        assert!(!ends_pod(&plan, "demo-0"), "{:?}", plan.effects);
        world.carry_out(plan);
        world.now = world.now + Span::seconds(60);
    }
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);
    world.resize(2);
    let story = world.settle();
    assert!(world.voters().len() == 2 && !world.voters().contains(&"demo-1"), "{story}");
    assert!(!world.voters().contains(&"demo-0"), "it moves now: {story}");
}

fn moved_in_place(world: &World) -> Replacement {
    let (member, since) = (name("demo-0"), world.now);
    Replacement { member, loss: Loss::ClaimTerminating, since, in_place: true }
}

/// P3: what permits the removal of a healthy member that nobody has the place of. Each of these is needed.
#[test]
fn l11_a_healthy_member_without_a_successor_is_removed_only_where_it_moves_in_place() {
    let in_place = |size: usize| {
        let mut world = World::running(size);
        world.settle();
        delete_claim(&mut world, "demo-0");
        world.seen.budget_policy = BudgetPolicy::None;
        world.seen.record.members.get_mut(&name("demo-0")).expect("it is recorded").stage =
            Stage::Leaving(Leaving::Replaced);
        world.seen.record.replacement = Some(moved_in_place(&world));
        let pod = world.seen.pods.get_mut(&name("demo-0")).expect("it has a Pod");
        (pod.serves, pod.served_until) = (false, Some(world.now));
        world.now = world.now + Span::seconds(10);
        world
    };
    let verdict = |mut world: World| {
        world.observe();
        world.prove();
        let listed = world.seen.listed(&world.seen.record, &name("demo-0"), world.now).expect("it is listed");
        let call = EtcdCall::RemoveMember {
            member: name("demo-0"),
            id: listed.id,
            peer_url: listed.peer_url.clone(),
        };
        let via = world.seen.list(world.now).expect("it was read").via.clone();
        let remove = Effect::etcd(Step::P3, via, call);
        let judge = || {
            let record = world.seen.record.clone();
            permits(&Scene { seen: &world.seen, record: &record, now: world.now, before: &[] }, &remove)
        };
        (judge(), without("LacksSuccessor", judge))
    };
    let refused = (Err(Unsafe::LacksSuccessor(name("demo-0"))), Ok(()));
    assert_eq!(verdict(in_place(3)).0, Ok(()));
    assert_eq!(verdict(in_place(2)), refused, "the one that is left can do without nobody");
    let mut world = in_place(3);
    world.seen.volumes.get_mut(&name("demo-0")).expect("it has a volume").terminating = false;
    assert_eq!(verdict(world), refused, "its claim stays");
    let mut world = in_place(3);
    world.seen.record.replacement.as_mut().expect("it is recorded").in_place = false;
    assert_eq!(verdict(world), refused, "it is to be removed last");
    let mut world = in_place(3);
    world.silence("demo-1");
    assert!(verdict(world).0.is_err(), "another one is not healthy");
}
