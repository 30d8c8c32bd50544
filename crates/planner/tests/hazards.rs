//! The hazards of docs/hazards.md that the planner prevents. Tests are named after the number of their hazard.

use crate::world::{World, name};
use quorate_model::effect::{Boot, EarlierData, LEARNER_SYNC_DEADLINE, Unsafe};
use quorate_model::record::{Leaving, Stage};
use quorate_model::snapshot::{Answer, Listed};
use quorate_model::{
    ClusterId, Effect, EtcdCall, GuardVerdict, KubeEffect, MemberId, PeerUrl, Plan, Record, Revision, Step,
    Version, Waiting,
};

fn creates_pod(plan: &Plan, desired: Boot) -> bool {
    plan.effects.iter().any(|effect| matches!(effect, Effect::Kube { write: KubeEffect::CreatePod { boot, .. }, .. } if *boot == desired))
}

fn removes_a_member(plan: &Plan) -> bool {
    let removes = |effect: &Effect| matches!(effect.as_etcd(), Some(EtcdCall::RemoveMember { .. }));
    plan.effects.iter().any(removes)
}

fn changes_membership(plan: &Plan) -> bool {
    plan.effects.iter().any(Effect::changes_membership)
}

fn destroys(plan: &Plan) -> bool {
    plan.effects.iter().any(|effect| {
        matches!(
            effect,
            Effect::Kube { write: KubeEffect::DeletePod { .. }, .. }
                | Effect::Kube { write: KubeEffect::DeleteVolume { .. }, .. }
                | Effect::Etcd { call: EtcdCall::RemoveMember { .. }, .. }
        )
    })
}

#[test]
fn h01_an_empty_data_dir_never_starts_as_new_after_the_cluster_id_is_recorded() {
    let mut world = World::running(3);
    for member in ["demo-0", "demo-1", "demo-2"] {
        world.lose_pod(member);
    }
    let plan = world.plan();
    assert!(creates_pod(&plan, Boot::Resume) && !creates_pod(&plan, Boot::New));

    world.seen.volumes.clear();
    let plan = world.plan();
    assert!(plan.effects.is_empty(), "no volume is created again empty: {:?}", plan.effects);
    assert!(plan.waiting.contains(&Waiting::VolumeLost(name("demo-0"))));
}

#[test]
fn h01_a_bootstrap_pod_that_a_late_call_creates_in_a_running_cluster_is_deleted_before_it_runs() {
    for size in [3, 0] {
        let mut world = World::with_pods_created(3);
        let late = world.seen.pods[&name("demo-1")].clone();
        assert!(late.gated);
        world.settle();
        world.resize(size);
        world.settle();
        world.lose_pod("demo-1");
        world.seen.pods.insert(name("demo-1"), late);
        let plan = world.plan();
        let deletes_it = |effect: &Effect| matches!(effect, Effect::Kube { write: KubeEffect::DeletePod { member, .. }, .. } if *member == name("demo-1"));
        assert!(plan.effects.iter().any(deletes_it), "{size}: {:?}", plan.effects);
        let ungates =
            |effect: &Effect| matches!(effect, Effect::Kube { write: KubeEffect::UngatePod { .. }, .. });
        assert!(!plan.effects.iter().any(ungates), "{size}: {:?}", plan.effects);
        world.carry_out(plan);
        world.settle();
        let pods: Vec<bool> = world.seen.pods.values().map(|pod| pod.gated).collect();
        assert_eq!(pods, vec![false; size]);
    }
}

#[test]
fn a_gated_pod_does_not_prevent_bootstrap_after_status_was_lost() {
    let mut world = World::with_pods_created(3);
    world.seen.volumes.clear();
    world.seen.record = Record::default();
    (world.members, world.cluster_id) = (Vec::new(), None);
    world.settle();
    assert_eq!(world.voters(), ["demo-3", "demo-4", "demo-5"]);
    assert!(world.seen.pods.values().all(|pod| !pod.gated), "it is deleted");
}

#[test]
fn h01_a_gated_bootstrap_pod_is_ungated_before_the_cluster_id_is_recorded() {
    let mut world = World::with_pods_created(3);
    let mut plan = world.plan();
    plan.effects
        .retain(|effect| !matches!(effect, Effect::Kube { write: KubeEffect::UngatePod { member, .. }, .. } if *member == name("demo-2")));
    world.carry_out(plan);
    let plan = world.plan();
    let ungated = plan.effects.iter().filter_map(|effect| match effect.as_kube() {
        Some(KubeEffect::UngatePod { member, .. }) => Some(member.as_str()),
        _ => None,
    });
    assert_eq!(ungated.collect::<Vec<_>>(), ["demo-2"], "{:?}", plan.effects);
    assert_eq!(
        plan.record.cluster_id, None,
        "two of three are a quorum, and the third could not start as new any more"
    );
    let volume = world.seen.volumes.remove(&name("demo-2")).unwrap();
    let plan = world.plan();
    assert!(
        plan.record.cluster_id.is_some(),
        "a member without its volume does not delay the others: {:?}",
        plan.waiting
    );
    world.seen.volumes.insert(name("demo-2"), volume);
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);
}

#[test]
fn h01_a_bootstrap_member_that_never_started_is_replaced_and_one_that_had_started_is_not() {
    let mut world = World::running(3);
    let refused = Some((GuardVerdict::DataMissing, "no data".to_owned()));
    let empty = |world: &mut World| {
        world.silence("demo-2");
        let pod = world.seen.pods.get_mut(&name("demo-2")).unwrap();
        (pod.ready, pod.guard) = (false, refused.clone());
    };
    empty(&mut world);
    let plan = world.plan();
    assert!(!changes_membership(&plan), "it had data before, and may have them again");
    assert_eq!(plan.record.members, world.seen.record.members);

    let member = world.members.iter_mut().find(|member| member.name == "demo-2").unwrap();
    member.started = false;
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-3"]);
}

#[test]
fn h03_two_cluster_ids_among_members_stop_everything() {
    let mut world = World::running(3);
    world.resize(5);
    world.lose_pod("demo-2");
    world.observe();
    let answer = world.seen.etcd.answers.get_mut(&name("demo-1")).unwrap();
    answer.reply.as_mut().unwrap().cluster_id = ClusterId(0xbad);
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert!(plan.effects.is_empty() && plan.record == world.seen.record);
    assert!(matches!(plan.waiting.as_slice(), [Waiting::SplitBrain(ids)] if ids.len() == 2));
}

#[test]
fn h03_sizes_three_zero_one_zero_three_in_quick_order_keep_one_cluster_id() {
    let mut world = World::new(0);
    for size in [1, 0, 3, 0, 1, 3] {
        world.resize(size);
        for _ in 0..4 {
            let plan = world.plan();
            world.carry_out(plan);
        }
    }
    world.settle();
    assert_eq!(world.voters().len(), 3);
    assert_eq!(world.seen.record.cluster_id, world.cluster_id);
}

#[test]
fn h04_an_edit_during_bootstrap_never_mixes_two_initial_clusters() {
    let mut world = World::new(3);
    for _ in 0..2 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    world.lose_pod("demo-2");
    (world.cluster_id, world.members) = (None, Vec::new());
    for pod in world.seen.pods.values_mut() {
        pod.ready = false;
    }
    world.resize(5);
    let plan = world.plan();
    assert!(!creates_pod(&plan, Boot::New), "no Pod of the old set gets the new initial cluster");
    assert_eq!(
        plan.record.target.unwrap().size,
        3,
        "the committed target stays until the attempt is deleted"
    );
    world.settle();
    assert_eq!(world.voters(), ["demo-3", "demo-4", "demo-5", "demo-6", "demo-7"]);
}

#[test]
fn h04_an_edit_during_growth_waits_for_the_learner() {
    let mut world = World::running(3);
    world.resize(4);
    for _ in 0..2 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    world.resize(5);
    let plan = world.plan();
    assert_eq!(plan.record.target.as_ref().unwrap().size, 4);
    assert!(plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::SafePoint(_))));
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2", "demo-3", "demo-4"]);
}

#[test]
fn h05_a_recreated_cluster_leaves_old_volumes_alone_and_takes_new_names_and_a_new_token() {
    let mut world = World::running(3);
    let old = world.seen.record.token.clone();
    world.recreate("uid-2");
    world.members.clear();
    let id = world.cluster_id.take().unwrap();
    let plan = world.plan();
    assert!(plan.effects.is_empty());
    let Some(Waiting::EarlierData(EarlierData::Volumes { found, volumes, .. })) = plan.waiting.first() else {
        panic!()
    };
    assert_eq!((found.as_slice(), volumes.len()), ([id].as_slice(), 3));
    world.carry_out(plan);

    world.seen.volumes.clear();
    world.settle();
    assert_eq!(world.voters(), ["demo-3", "demo-4", "demo-5"]);
    assert_ne!(world.seen.record.token, old);
    assert!(world.seen.record.token.as_ref().unwrap().as_str().contains("uid-2"));
}

#[test]
fn h05_adopted_members_start_as_existing_with_their_old_token() {
    let mut world = World::running(3);
    let (id, token) = (world.cluster_id.unwrap(), world.seen.record.token.clone());
    world.recreate("uid-2");
    world.seen.adopt = Some(ClusterId(0x123));
    let plan = world.plan();
    assert!(plan.effects.is_empty(), "an id that no volume has adopts nothing");
    world.carry_out(plan);
    world.seen.adopt = Some(id);
    let story = world.settle();
    assert!(story.contains("existing, on its data") && !story.contains("(new;"), "{story}");
    assert_eq!(world.seen.record.token, token);
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);
    let own = |volume: &quorate_model::snapshot::Volume| volume.cluster_uid.as_ref() == Some(&world.seen.uid);
    assert!(world.seen.volumes.values().all(own), "adopted volumes are annotated as this cluster's");
}

#[test]
fn h06_total_loss_is_reported_and_nothing_is_bootstrapped_again() {
    let mut world = World::running(3);
    world.seen.pods.clear();
    world.seen.volumes.clear();
    world.members.clear();
    let plan = world.plan();
    assert!(plan.effects.is_empty());
    let lost = |waiting: &Waiting| matches!(waiting, Waiting::Quorum { healthy: 0, voters: 3, .. });
    assert!(plan.waiting.iter().any(lost), "{:?}", plan.waiting);
}

#[test]
fn h07_nothing_is_added_while_a_voter_is_dead() {
    let mut world = World::running(3);
    world.silence("demo-2");
    world.resize(5);
    let plan = world.plan();
    assert!(!changes_membership(&plan));
    assert!(plan.waiting.contains(&Waiting::Unsafe(Unsafe::VoterUnhealthy(name("demo-2")))));
    assert_eq!(plan.record.members.len(), 3, "no name is used up for it");
}

#[test]
fn h08_members_join_as_learners_and_are_promoted_only_once_they_answer() {
    let mut world = World::running(3);
    world.resize(4);
    let plan = world.plan();
    assert!(
        plan.effects
            .iter()
            .any(|effect| matches!(effect, Effect::Etcd { call: EtcdCall::AddLearner { .. }, .. }))
    );
    world.carry_out(plan);
    let plan = world.plan();
    world.carry_out(plan);
    world.silence("demo-3");
    let plan = world.plan();
    assert!(!changes_membership(&plan), "an unreachable learner stays one");
}

#[test]
fn h09_a_learner_without_progress_is_rolled_back_and_growth_goes_on() {
    let mut world = World::running(3);
    world.resize(4);
    for _ in 0..2 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    world.silence("demo-3");
    world.now = world.now + LEARNER_SYNC_DEADLINE + quorate_model::Span(1);
    let plan = world.plan();
    assert!(
        matches!(plan.effects.as_slice(), [.., Effect::Etcd { call: EtcdCall::RemoveMember { .. }, .. }]),
        "{:?}",
        plan.effects
    );
    assert_eq!(plan.record.members[&name("demo-3")].stage, Stage::Leaving(Leaving::RolledBack));
    world.carry_out(plan);
    world.settle();
    world.now = world.now + quorate_model::Span::seconds(60);
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2", "demo-4"]);
}

#[test]
fn h10_promotion_is_requested_again_on_every_pass() {
    let mut world = World::running(1);
    world.resize(2);
    for _ in 0..3 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    for _ in 0..3 {
        let plan = world.plan();
        let promoted = plan
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Etcd { call: EtcdCall::Promote { .. }, .. }));
        assert!(promoted, "etcd refused it, so it is requested again");
    }
}

#[test]
fn h11_a_crash_after_member_add_adopts_the_member_by_its_url_and_adds_no_second() {
    let mut world = World::running(3);
    world.resize(4);
    let plan = world.plan();
    let record_before_reply = plan.record.clone();
    world.carry_out(plan);
    world.seen.record = record_before_reply;
    let plan = world.plan();
    assert!(!changes_membership(&plan));
    assert!(plan.record.members[&name("demo-3")].id.is_some(), "recognised by its URL");
    assert!(creates_pod(&plan, Boot::Join));
}

#[test]
fn h13_a_member_is_removed_by_id_and_url_never_by_position() {
    let mut world = World::running(3);
    world.members.reverse();
    world.silence("demo-1");
    let unhealthy = world.members.iter().find(|member| member.name == "demo-1").unwrap().clone();
    world.resize(2);
    let plan = world.plan_that(removes_a_member);
    let removed: Vec<&Effect> = plan
        .effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Etcd { call: EtcdCall::RemoveMember { .. }, .. }))
        .collect();
    let [Effect::Etcd { call: EtcdCall::RemoveMember { id, peer_url, .. }, .. }] = removed.as_slice() else {
        panic!("{:?}", plan.effects)
    };
    assert_eq!((*id, peer_url), (unhealthy.id, &unhealthy.peer_url), "the unhealthy one goes first");
}

#[test]
fn h13_a_member_that_answers_with_another_id_stops_everything() {
    let mut world = World::running(3);
    world.resize(1);
    world.observe();
    let answer = world.seen.etcd.answers.get_mut(&name("demo-1")).unwrap();
    answer.reply.as_mut().unwrap().member_id = MemberId(0xbad);
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert!(plan.effects.is_empty());
    assert!(matches!(plan.waiting.first(), Some(Waiting::WrongMember { .. })));
}

#[test]
fn h14_lost_pods_are_never_taken_for_a_request_to_shrink() {
    let mut world = World::running(3);
    world.lose_pod("demo-1");
    let plan = world.plan();
    assert_eq!(plan.record.target.as_ref().unwrap().size, 3);
    assert!(!changes_membership(&plan) && creates_pod(&plan, Boot::Resume));
}

#[test]
fn h15_membership_is_not_changed_on_an_old_list() {
    let mut world = World::running(3);
    world.resize(1);
    world.observe();
    world.now = world.now + quorate_model::snapshot::FRESH + quorate_model::Span(1);
    for answer in world.seen.etcd.answers.values_mut() {
        answer.at = world.now;
    }
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert!(plan.effects.is_empty(), "{:?}", plan.effects);
    assert!(plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::Quorum { .. })));
}

#[test]
fn h17_a_learner_that_a_late_call_added_is_removed_before_anything_else() {
    let mut world = World::running(3);
    world.resize(4);
    let ghost = world.seen.peer_url(&name("demo-9"));
    world.members.push(Listed {
        id: MemberId(0x9),
        name: String::new(),
        peer_url: ghost,
        is_learner: true,
        started: false,
    });
    let plan = world.plan();
    assert!(matches!(
        plan.effects.iter().find(|effect| effect.changes_membership()),
        Some(Effect::Etcd { call: EtcdCall::RemoveMember { id: MemberId(0x9), .. }, .. })
    ));
    world.carry_out(plan);
    world.settle();
    assert!(world.voters().contains(&"demo-10"), "its name is never used again: {:?}", world.voters());
}

#[test]
fn h17_an_unmanaged_learner_is_reported_and_left_alone() {
    let mut world = World::running(3);
    let url = PeerUrl::new("https://elsewhere.example:2380");
    world.members.push(Listed {
        id: MemberId(0x9),
        name: "guest".into(),
        peer_url: url,
        is_learner: true,
        started: false,
    });
    world.resize(5);
    let plan = world.plan();
    assert!(!changes_membership(&plan));
    assert!(plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::UnmanagedMember(MemberId(0x9), _))));
}

#[test]
fn h18_a_member_is_a_voter_only_when_it_reports_so_itself() {
    let mut world = World::running(3);
    world.resize(4);
    for _ in 0..3 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    world.observe();
    let status = world.seen.etcd.answers.get_mut(&name("demo-3")).unwrap().reply.as_mut().unwrap();
    status.is_learner = true;
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert_eq!(plan.record.members[&name("demo-3")].stage, Stage::Joining);
}

#[test]
fn h19_a_name_and_a_volume_are_used_once() {
    let mut world = World::running(3);
    world.seen.desired.storage.when_scaled = quorate_model::target::Retention::Retain;
    world.resize(1);
    world.settle();
    assert_eq!(world.seen.volumes.len(), 3, "volumes are retained");
    world.resize(3);
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-3", "demo-4"]);
}

#[test]
fn h19_names_are_not_reused_after_status_was_lost() {
    let mut world = World::running(3);
    world.resize(4);
    world.settle();
    world.seen.record = quorate_model::Record::default();
    world.settle();
    assert_eq!(
        world.seen.record.cluster_id, world.cluster_id,
        "the annotations of its own volumes have the cluster id"
    );
    assert_eq!(world.seen.record.next_ordinal.0, 4);
    assert_eq!(world.voters().len(), 4);
}

#[test]
fn h20_data_of_a_living_member_are_never_deleted() {
    let mut world = World::running(3);
    let volume = world.seen.volumes[&name("demo-1")].clone();
    world.observe();
    let delete = KubeEffect::DeleteVolume {
        member: name("demo-1"),
        volume: volume.uid,
        resource_version: volume.resource_version,
    };
    let delete = Effect::kube(Step::S5, delete);
    let record = world.seen.record.clone();
    let scene =
        quorate_planner::safety::Scene { seen: &world.seen, record: &record, now: world.now, before: &[] };
    assert_eq!(quorate_planner::safety::permits(&scene, &delete), Err(Unsafe::PodNotGone(name("demo-1"))));
}

#[test]
fn h22_a_pod_comes_back_on_the_same_volume() {
    let mut world = World::running(3);
    let ids: Vec<MemberId> = world.members.iter().map(|member| member.id).collect();
    world.lose_pod("demo-0");
    world.settle();
    assert_eq!(world.members.iter().map(|member| member.id).collect::<Vec<_>>(), ids);
    assert_eq!(world.seen.volumes.len(), 3);

    world.lose_pod("demo-0");
    world.seen.volumes.get_mut(&name("demo-0")).unwrap().uid = quorate_model::Uid::new("another");
    let plan = world.plan();
    assert!(
        !creates_pod(&plan, Boot::Resume),
        "a volume of the same name with another uid is not its volume"
    );
}

#[test]
fn h25_lost_quorum_is_reported_and_only_restarts_follow() {
    let mut world = World::running(3);
    world.resize(5);
    world.silence("demo-0");
    world.lose_pod("demo-1");
    let plan = world.plan();
    assert!(!changes_membership(&plan) && !destroys(&plan));
    assert!(creates_pod(&plan, Boot::Resume));
    assert!(
        plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::Quorum { healthy: 1, voters: 3, .. }))
    );
}

#[test]
fn h31_an_error_that_a_member_reports_blocks_membership_changes() {
    let mut world = World::running(3);
    world.resize(4);
    world.observe();
    let status = world.seen.etcd.answers.get_mut(&name("demo-1")).unwrap().reply.as_mut().unwrap();
    status.errors.push("CORRUPT alarm".into());
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert!(!changes_membership(&plan));
}

#[test]
fn h36_versions_are_not_skipped_and_never_go_back() {
    let mut world = World::running(3);
    for version in [Version::new(3, 5, 35), Version::new(3, 8, 0)] {
        world.seen.desired.version = version;
        world.seen.desired.pod.revision.0 = "r2".into();
        let plan = world.plan();
        assert!(!destroys(&plan));
        assert_eq!(plan.record.target.as_ref().unwrap().version, Version::new(3, 6, 16));
        assert!(matches!(plan.waiting.first(), Some(Waiting::VersionRefused(_))));
    }
}

#[test]
fn h44_a_removed_members_pod_stays_until_a_quorum_has_removed_it() {
    let mut world = World::running(3);
    world.resize(2);
    let plan = world.plan_that(removes_a_member);
    assert!(
        !plan
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Kube { write: KubeEffect::DeletePod { .. }, .. }))
    );
}

#[test]
fn a_second_learner_is_never_added() {
    let mut world = World::running(3);
    world.resize(5);
    for _ in 0..2 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    world.silence("demo-3");
    let plan = world.plan();
    assert!(!changes_membership(&plan));
    assert_eq!(plan.record.members.len(), 4);
}

#[test]
fn old_replies_do_not_count() {
    let mut world = World::running(3);
    world.observe();
    let stale = Answer {
        at: quorate_model::Instant(0),
        reply: world.seen.etcd.answers[&name("demo-1")].reply.clone(),
    };
    assert_eq!(stale.reply.as_ref().unwrap().revision, Revision(7));
    world.seen.etcd.answers.insert(name("demo-1"), stale);
    assert!(!world.seen.is_healthy(&name("demo-1"), world.now));
}
