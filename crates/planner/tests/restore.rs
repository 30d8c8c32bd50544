//! A bootstrap that begins with a snapshot: what is refused before anything starts, that nobody begins with nothing, and that nobody
//! begins with the snapshot once more when a member may have data that are newer.

use crate::world::{self, World, name, words};
use quorate_model::effect::{Boot, NoSnapshot, Unfit, Unsafe};
use quorate_model::record::Abandoned;
use quorate_model::restore::{Restore, RestoreCause, RestoreFailure};
use quorate_model::snapshot::ImageVolume;
use quorate_model::target::Medium;
use quorate_model::{ClockDifference, Effect, KubeEffect, Plan, Revision, Span, Step, Version, Waiting};
use quorate_planner::safety::{Scene, permits};

fn snapshot() -> Restore {
    Restore { bump: 5, ..world::snapshot() }
}

fn restoring(size: usize, restore: Restore) -> World {
    let mut world = World::new(size);
    world.seen.restore = Some(Ok(restore));
    world
}

fn boots(plan: &Plan) -> Vec<Boot> {
    let created = plan.effects.iter().filter_map(|effect| match effect.as_kube() {
        Some(KubeEffect::CreatePod { boot, .. }) => Some(*boot),
        Some(_) | None => None,
    });
    created.collect()
}

fn refusal(plan: &Plan) -> Option<&NoSnapshot> {
    plan.waiting.iter().find_map(|waiting| match waiting {
        Waiting::NoSnapshot(why) => Some(why),
        _ => None,
    })
}

fn until_pods(world: &mut World) -> Vec<Boot> {
    for _ in 0..10 {
        let plan = world.plan();
        let created = boots(&plan);
        world.carry_out(plan);
        if !created.is_empty() {
            return created;
        }
    }
    panic!("no Pod was created");
}

/// Makes a world unfit for a restore.
type Change<'a> = &'a dyn Fn(&mut World);

#[test]
fn all_members_restore_the_recorded_snapshot_at_once_and_form_a_cluster() {
    let mut world = restoring(3, snapshot());
    let plan = world.plan();
    assert!(plan.recorded_steps.contains(&Step::B1));
    assert_eq!(plan.record.restore, Some(snapshot()), "recorded with the attempt");
    world.carry_out(plan);
    world.seen.restore = Some(Err(RestoreFailure::new(RestoreCause::NotReady, "the backup is gone")));
    assert_eq!(until_pods(&mut world), [Boot::Restore; 3], "what is recorded does not change under way");
    world.settle();
    assert!(world.seen.record.is_bootstrapped());
    assert_eq!(world.seen.record.restore, Some(snapshot()));
}

#[test]
fn what_does_not_go_with_the_snapshot_is_refused_before_anything_starts() {
    let none = |_: &mut World| {};
    let in_memory = |world: &mut World| world.seen.desired.storage.medium = Medium::Memory;
    let with_quota = |world: &mut World| world.seen.desired.pod.quota = Some(1 << 20);
    let old = |world: &mut World| world.seen.desired.version = Version::new(3, 5, 9);
    let of = |change: &dyn Fn(&mut Restore)| {
        let mut restore = snapshot();
        change(&mut restore);
        restore
    };
    let cases: [(Restore, Change<'_>, Unfit); 5] = [
        (
            of(&|restore| restore.version = Some(Version::new(3, 7, 0))),
            &none,
            Unfit::OlderThan(Version::new(3, 7, 0)),
        ),
        (
            of(&|restore| restore.version = None),
            &old,
            Unfit::CannotRaise(Version::new(3, 5, 9), Version::new(3, 5, 10)),
        ),
        (
            of(&|restore| restore.bytes = Some(2 << 20)),
            &with_quota,
            Unfit::OverQuota { bytes: 2 << 20, quota: 1 << 20 },
        ),
        (
            of(&|restore| restore.bytes = Some(500 << 20)),
            &none,
            Unfit::VolumeTooSmall { bytes: 500 << 20, needed: 1256 << 20, has: 1 << 30 },
        ),
        (snapshot(), &in_memory, Unfit::Memory),
    ];
    for (restore, change, expected) in cases {
        let mut world = restoring(1, restore);
        change(&mut world);
        let plan = world.plan();
        assert_eq!(refusal(&plan), Some(&NoSnapshot::Unfit(expected)));
        assert!(plan.effects.is_empty() && plan.record.attempt == 0, "{:?}", plan.effects);
    }
    // An edit is the cure.
    let mut world = restoring(1, of(&|restore| restore.version = Some(Version::new(3, 7, 0))));
    world.plan();
    world.seen.desired.version = Version::new(3, 7, 3);
    assert_eq!(until_pods(&mut world), [Boot::Restore]);
}

#[test]
fn a_backup_that_is_not_complete_is_waited_for_and_nothing_starts_without_it() {
    let mut world = World::new(3);
    let why = RestoreFailure::new(RestoreCause::NotReady, "EtcdBackup nightly is not complete yet");
    world.seen.restore = Some(Err(why.clone()));
    for _ in 0..3 {
        let plan = world.plan();
        assert_eq!(refusal(&plan), Some(&NoSnapshot::Failed(why.clone())));
        assert!(plan.effects.is_empty());
        world.carry_out(plan);
    }
    world.seen.restore = Some(Ok(snapshot()));
    assert_eq!(until_pods(&mut world), [Boot::Restore; 3]);
}

#[test]
fn r1_no_member_of_a_restored_cluster_begins_with_nothing() {
    let mut world = restoring(3, snapshot());
    until_pods(&mut world);
    world.lose_pod("demo-0");
    let create = |boot| {
        let create = KubeEffect::CreatePod { member: name("demo-0"), boot, peers: Vec::new() };
        Effect::kube(Step::B4, create)
    };
    let judge = |world: &World, boot| {
        let scene = Scene { seen: &world.seen, record: &world.seen.record, now: world.now, before: &[] };
        permits(&scene, &create(boot))
    };
    assert_eq!(judge(&world, Boot::Restore), Ok(()));
    assert_eq!(judge(&world, Boot::New), Err(Unsafe::MustRestore(name("demo-0"))));
    // The spec says so, also where the record was lost.
    let recorded = world.seen.record.restore.take();
    assert_eq!(judge(&world, Boot::New), Err(Unsafe::MustRestore(name("demo-0"))));
    assert_eq!(judge(&world, Boot::Restore), Err(Unsafe::NotABootstrapMember(name("demo-0"))));
    world.seen.record.restore = recorded;
    // Members have had a leader: this one may have acknowledged writes that the snapshot has not.
    world.seen.record.had_leader = true;
    assert_eq!(judge(&world, Boot::Restore), Err(Unsafe::RestoresAgain(name("demo-0"))));
    assert_eq!(judge(&world, Boot::Resume), Ok(()));
}

#[test]
fn a_pod_that_is_still_gated_when_members_have_a_leader_does_not_restore_and_is_made_anew() {
    let mut world = restoring(3, snapshot());
    until_pods(&mut world);
    world.observe();
    world.seen.record.had_leader = true;
    world.seen.etcd.list = None;
    let plan = quorate_planner::plan(&world.seen, world.now);
    let deletes = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::DeletePod { .. }));
    assert!(!plan.effects.is_empty() && plan.effects.iter().all(deletes), "{:?}", plan.effects);
}

#[test]
fn a_cluster_is_not_recorded_while_a_member_answers_that_has_not_what_was_restored() {
    let mut world = restoring(3, Restore { bump: 1_000, ..snapshot() });
    for _ in 0..10 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    assert!(!world.seen.record.is_bootstrapped(), "every member of this world reports revision 7");
    let plan = world.plan();
    let why = plan.waiting.iter().find(|waiting| matches!(waiting, Waiting::NotRestored(..)));
    assert!(why.is_some_and(|why| words(why).contains("least: Revision(1000)")), "{:?}", plan.waiting);
}

#[test]
fn a_cluster_is_not_recorded_while_two_members_that_restored_the_same_have_other_data() {
    let mut world = restoring(3, snapshot());
    world.wrong.insert(name("demo-1"), 2);
    for _ in 0..10 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    assert!(!world.seen.record.is_bootstrapped());
    assert!(waits(&world, "NotRestored(demo-1, Differs { from: demo-0, revision: Revision(7) })"));
    // Hashes of some versions differ until all members have carried out the same compaction.
    world.wrong.clear();
    world.now = world.now + Span::seconds(30);
    world.settle();
    assert!(world.seen.record.is_bootstrapped());
}

#[test]
fn a_member_that_makes_no_hash_keeps_no_restored_cluster_waiting_and_one_that_was_not_asked_does() {
    let mut world = restoring(3, snapshot());
    until_pods(&mut world);
    while !world.seen.begins_with_a_snapshot(world.now) {
        let plan = world.plan();
        world.carry_out(plan);
        world.observe();
    }
    let hashes = world.seen.etcd.hashes.clone().expect("they are compared");
    let is_recorded = |world: &World| quorate_planner::plan(&world.seen, world.now).record.is_bootstrapped();
    assert!(is_recorded(&world));
    world.seen.etcd.hashes = None;
    assert!(!is_recorded(&world));
    let mut without = hashes.clone();
    without.replies.remove(&name("demo-2"));
    world.seen.etcd.hashes = Some(without);
    assert!(!is_recorded(&world));
    let mut failed = hashes;
    failed.replies.insert(name("demo-2"), Err("no reply within 60s".to_owned()));
    world.seen.etcd.hashes = Some(failed);
    assert!(is_recorded(&world));
}

#[test]
fn a_snapshot_of_an_etcd_that_nobody_wrote_to_has_the_raised_revision_itself() {
    // Every member of this world reports revision 7.
    let mut world = restoring(3, Restore { bump: 7, revision: Some(Revision(1)), ..snapshot() });
    for _ in 0..10 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    assert!(world.seen.record.is_bootstrapped());
}

/// Three members whose Pods are bound and restore.
fn under_way(restore: Restore) -> World {
    let mut world = restoring(3, restore);
    until_pods(&mut world);
    for pod in world.seen.pods.values_mut() {
        (pod.gated, pod.ready, pod.has_run) = (false, false, false);
    }
    world
}

fn waits(world: &World, of: &str) -> bool {
    let plan = quorate_planner::plan(&world.seen, world.now);
    plan.waiting.iter().any(|waiting| words(waiting).contains(of))
}

#[test]
fn a_failure_of_an_earlier_try_is_no_failure_while_the_next_one_runs() {
    let mut world = under_way(snapshot());
    let pod = world.seen.pods.get_mut(&name("demo-1")).unwrap();
    pod.ip = Some("10.0.0.1".to_owned());
    pod.restore_failure = Some(RestoreFailure::new(RestoreCause::Failed, "no route"));
    assert!(waits(&world, "NotRestored(demo-1, "));
    world.seen.pods.get_mut(&name("demo-1")).unwrap().runs = true;
    assert!(waits(&world, "Restoring(demo-1, Some("));
}

#[test]
fn a_leader_without_a_member_list_is_reported_with_what_etcd_answers() {
    let mut world = under_way(snapshot());
    world.seen.record.had_leader = true;
    world.seen.etcd.list_failure = Some("etcdserver: user name is empty".to_owned());
    world.seen.record.target.as_mut().unwrap().tls = true;
    assert!(waits(&world, "user name is empty"));
    world.seen.record.target.as_mut().unwrap().tls = false;
    world.seen.desired.tls = false;
    assert!(waits(&world, "AuthWithoutTls"));
}

#[test]
fn a_claim_that_is_not_mounted_is_no_failure_of_image_volumes() {
    let mut world = under_way(Restore { url: "pvc://backups/1".to_owned(), ..snapshot() });
    let since = world.now;
    let pod = world.seen.pods.get_mut(&name("demo-0")).unwrap();
    pod.image_volume = Some(ImageVolume::Mounting(since));
    pod.mounting = Some(since);
    assert!(!waits(&world, "SnapshotNotMounted"));
    world.now = since + Span::seconds(150);
    assert!(waits(&world, "SnapshotNotMounted"));
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert!(
        plan.record.no_image_volume.is_none() && plan.effects.iter().all(|effect| effect.step() != Step::W3)
    );
}

#[test]
fn a_restore_goes_on_with_the_defaults_of_another_operator_and_is_given_up_for_an_edit() {
    let mut world = restoring(3, snapshot());
    let plan = world.plan();
    world.carry_out(plan);
    "another agent image".clone_into(&mut world.seen.desired.pod.revision.0);
    assert_eq!(world.plan().record.abandoned, None);
    "edited".clone_into(&mut world.seen.desired.pod.content);
    assert_eq!(world.plan().record.abandoned, Some(Abandoned::SpecEdited));
}

/// Revisions are raised by time, and what is recorded stays.
#[test]
fn o02_revisions_are_raised_by_the_later_clock() {
    let years = Span::seconds(100 * 365 * 86_400);
    let raised = |differs| {
        let mut world = restoring(3, snapshot());
        world.seen.clock_differs = differs;
        assert_eq!(until_pods(&mut world), [Boot::Restore; 3]);
        world.seen.record.restore.as_ref().map(Restore::least_revision)
    };
    let by_own = raised(None);
    assert_eq!(raised(Some(ClockDifference::Ahead(years))), by_own);
    assert!(raised(Some(ClockDifference::Behind(years))) > by_own);
}

#[test]
fn o03_another_size_is_no_reason_to_give_up_the_restore_of_one_member_from_a_claim() {
    let mut world = restoring(3, Restore { url: "pvc://backups/1".to_owned(), ..snapshot() });
    until_pods(&mut world);
    world.resize(5);
    assert_eq!(world.plan().record.abandoned, None);
    "another agent image".clone_into(&mut world.seen.desired.pod.revision.0);
    assert_eq!(world.plan().record.abandoned, None, "nor with the defaults of another operator");
    world.settle();
    assert_eq!((world.seen.record.attempt, world.voters().len()), (1, 5), "it grows to that size");
    // Size zero stops what goes on, and with any other snapshot the set has the size of the spec.
    let mut world = restoring(3, Restore { url: "pvc://backups/1".to_owned(), ..snapshot() });
    until_pods(&mut world);
    world.resize(0);
    assert_eq!(world.plan().record.abandoned, Some(Abandoned::SpecEdited));
    let mut world = restoring(3, snapshot());
    until_pods(&mut world);
    world.resize(5);
    assert_eq!(world.plan().record.abandoned, Some(Abandoned::SpecEdited));
}

/// A claim is mounted on one node at a time, unless it says otherwise, and the disk behind it may be of one node.
#[test]
fn o03_one_member_is_restored_from_a_claim_and_the_others_join_it() {
    let mut world = restoring(3, Restore { url: "pvc://backups/1".to_owned(), ..snapshot() });
    assert_eq!(until_pods(&mut world), [Boot::Restore]);
    assert_eq!(world.seen.record.members.keys().collect::<Vec<_>>(), [&name("demo-0")]);
    let mut booted = Vec::new();
    for _ in 0..200 {
        let plan = world.plan();
        if plan.is_settled() {
            break;
        }
        booted.extend(boots(&plan));
        world.carry_out(plan);
    }
    assert_eq!(booted, [Boot::Join, Boot::Join], "no other Pod mounts the claim");
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);
    // An attempt that is given up begins again with one.
    let mut world = restoring(3, Restore { url: "pvc://backups/1".to_owned(), ..snapshot() });
    until_pods(&mut world);
    "edited".clone_into(&mut world.seen.desired.pod.content);
    for _ in 0..20 {
        let plan = world.plan();
        world.carry_out(plan);
        if world.seen.record.attempt == 2 {
            break;
        }
    }
    assert_eq!((world.seen.record.attempt, until_pods(&mut world)), (2, vec![Boot::Restore]));
}
