//! Which volumes of an earlier cluster are adopted, and which are not (docs/disaster.md).

use crate::world::{World, name};
use quorate_model::adoption::{Earlier, Unadoptable};
use quorate_model::effect::{EarlierData, Foreign};
use quorate_model::restore::{RestoreCause, RestoreFailure};
use quorate_model::snapshot::Quarantine;
use quorate_model::{ClusterId, Effect, KubeEffect, ManagedObject, Minor, Plan, Version, Waiting};

/// A cluster of three that was deleted and created again, with the annotation that adopts its volumes.
fn adopting() -> (World, ClusterId) {
    let mut world = World::running(3);
    let id = world.cluster_id.unwrap();
    world.recreate("uid-2");
    world.seen.adopt = Some(id);
    (world, id)
}

fn refused(plan: &Plan) -> Option<&Unadoptable> {
    plan.waiting.iter().find_map(|waiting| match waiting {
        Waiting::EarlierData(EarlierData::NotAdopted(_, why)) => Some(why),
        _ => None,
    })
}

/// Nothing is adopted or sent, and the names of the volumes are not used again.
fn nothing_happens(plan: &Plan) {
    assert!(plan.effects.is_empty(), "{:?}", plan.effects);
    assert!(plan.record.members.is_empty() && !plan.record.is_bootstrapped());
    assert_eq!(plan.record.next_ordinal.0, 3);
}

#[test]
fn volumes_are_not_adopted_while_pods_that_nobody_owns_may_run_on_them() {
    let (mut world, _) = adopting();
    let pod = "Pod default/demo-1".to_owned();
    world.seen.foreign.insert(ManagedObject::Pod(name("demo-1")), pod.clone());
    let plan = world.plan();
    assert_eq!(refused(&plan), Some(&Unadoptable::InUse(vec![pod])));
    nothing_happens(&plan);
    world.seen.foreign.clear();
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);
}

#[test]
fn before_a_person_decides_pods_that_nobody_owns_are_named_beside_the_volumes() {
    let (mut world, _) = adopting();
    world.seen.adopt = None;
    let pod = "Pod default/demo-1".to_owned();
    world.seen.foreign.insert(ManagedObject::Pod(name("demo-1")), pod.clone());
    let plan = world.plan();
    assert!(
        matches!(plan.waiting[0], Waiting::EarlierData(EarlierData::Volumes { .. })),
        "{:?}",
        plan.waiting
    );
    assert_eq!(plan.waiting[1], Waiting::ForeignObjects(vec![Foreign::Object(pod)]));
    nothing_happens(&plan);
}

#[test]
fn volumes_of_two_bootstraps_are_not_adopted_as_one_cluster() {
    let (mut world, _) = adopting();
    let other = quorate_model::Token::new("uid-0-1");
    world.seen.volumes.get_mut(&name("demo-2")).unwrap().token = Some(other.clone());
    let plan = world.plan();
    let Some(Unadoptable::SeveralTokens(by_token)) = refused(&plan) else { panic!("{:?}", plan.waiting) };
    assert_eq!(by_token[&other], [name("demo-2")]);
    nothing_happens(&plan);
}

#[test]
fn of_volumes_of_two_clusters_only_those_of_the_chosen_one_are_adopted() {
    let (mut world, id) = adopting();
    let other = world.seen.volumes.get_mut(&name("demo-2")).unwrap();
    other.cluster_id = Some(ClusterId(0xbad));
    world.seen.adopt = None;
    let plan = world.plan();
    let Some(Waiting::EarlierData(EarlierData::Volumes { found, .. })) = plan.waiting.first() else {
        panic!("{:?}", plan.waiting)
    };
    assert_eq!(found.len(), 2, "both are named, and neither is chosen");
    nothing_happens(&plan);
    world.seen.adopt = Some(id);
    let members: Vec<_> = world.plan().record.members.into_keys().collect();
    assert_eq!(members, [name("demo-0"), name("demo-1")]);
}

#[test]
fn two_volumes_of_one_member_are_not_adopted() {
    let (mut world, _) = adopting();
    let id = world.seen.volumes[&name("demo-0")].member_id.unwrap();
    world.seen.volumes.get_mut(&name("demo-2")).unwrap().member_id = Some(id);
    let plan = world.plan();
    let twins = vec![name("demo-0"), name("demo-2")];
    assert_eq!(refused(&plan), Some(&Unadoptable::SameMember(id, twins)));
    nothing_happens(&plan);
}

#[test]
fn copies_of_several_volumes_are_adopted_only_by_a_person_who_says_that_they_are_of_one_moment() {
    let (mut world, id) = adopting();
    let how = "VolumeSnapshot nightly".to_owned();
    world.seen.volumes.get_mut(&name("demo-1")).unwrap().copied_by = Some(how.clone());
    for says in [None, Some(ClusterId(0xbad))] {
        world.seen.adopt_copies = says;
        let plan = world.plan();
        let Some(Unadoptable::Copies(copies, _)) = refused(&plan) else { panic!("{:?}", plan.waiting) };
        assert_eq!(copies.get(&name("demo-1")), Some(&how));
        nothing_happens(&plan);
    }
    world.seen.adopt_copies = Some(id);
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);
}

#[test]
fn the_copy_of_the_only_volume_of_a_cluster_is_adopted() {
    let mut world = World::running(1);
    let id = world.cluster_id;
    world.recreate("uid-2");
    world.seen.adopt = id;
    world.seen.volumes.get_mut(&name("demo-0")).unwrap().copied_by =
        Some("VolumeSnapshot nightly".to_owned());
    world.settle();
    assert_eq!(world.voters(), ["demo-0"]);
}

#[test]
fn volumes_of_fewer_than_a_quorum_of_the_voters_in_the_earlier_status_are_not_adopted() {
    let (mut world, id) = adopting();
    let voters = vec![name("demo-0"), name("demo-1"), name("demo-2")];
    world.seen.record.earlier = Some(Earlier { cluster_id: id, voters: voters.clone(), had_volumes: false });
    for lost in ["demo-1", "demo-2"] {
        world.seen.volumes.get_mut(&name(lost)).unwrap().terminating = true;
    }
    let plan = world.plan();
    let there = vec![name("demo-0")];
    assert_eq!(refused(&plan), Some(&Unadoptable::TooFew { there, voters }));
    nothing_happens(&plan);
    assert!(plan.record.earlier.unwrap().had_volumes);
    for back in ["demo-1", "demo-2"] {
        world.seen.volumes.get_mut(&name(back)).unwrap().terminating = false;
    }
    assert_eq!(world.plan().record.members.len(), 3);
}

#[test]
fn no_empty_cluster_takes_the_place_of_one_whose_status_came_without_its_volumes() {
    let mut world = World::running(3);
    let (id, record) = (world.cluster_id.unwrap(), world.seen.record.clone());
    world.recreate("uid-2");
    world.seen.record = record.for_another();
    let volumes = std::mem::take(&mut world.seen.volumes);
    let plan = world.plan();
    assert!(plan.effects.is_empty(), "{:?}", plan.effects);
    let [Waiting::EarlierData(EarlierData::Gone { cluster, voters })] = plan.waiting.as_slice() else {
        panic!("{:?}", plan.waiting)
    };
    assert_eq!((*cluster, voters.len()), (id, 3));

    // The volumes come back, and then a person decides against them.
    world.seen.volumes = volumes;
    let plan = world.plan();
    assert!(
        matches!(plan.waiting[0], Waiting::EarlierData(EarlierData::Volumes { .. })),
        "{:?}",
        plan.waiting
    );
    world.carry_out(plan);
    world.seen.volumes.clear();
    (world.members, world.cluster_id) = (Vec::new(), None);
    world.settle();
    assert_eq!(world.voters(), ["demo-3", "demo-4", "demo-5"]);
    assert_eq!(world.seen.record.earlier, None);
}

#[test]
fn what_a_backup_tool_created_without_data_does_not_begin_empty_but_may_begin_with_a_backup() {
    let mut world = World::new(3);
    world.seen.restored_by = Some("Velero's Restore nightly".to_owned());
    let plan = world.plan();
    assert!(plan.effects.is_empty() && plan.record.attempt == 0, "{:?}", plan.effects);
    assert!(
        matches!(plan.waiting.as_slice(), [Waiting::EarlierData(EarlierData::NotRestored(_))]),
        "{:?}",
        plan.waiting
    );

    let failure = RestoreFailure::new(RestoreCause::NotReady, "it is being taken");
    world.seen.restore = Some(Err(failure));
    assert!(
        matches!(world.plan().waiting.as_slice(), [.., Waiting::NoSnapshot(_)]),
        "{:?}",
        world.plan().waiting
    );
    (world.seen.restore, world.seen.restored_by) = (None, None);
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);
}

/// A cluster whose volumes have data of the newer minor version, and whose spec, when it is created again, asks for this one.
fn adopting_newer_data(size: usize, version: Version) -> World {
    let mut world = World::running(size);
    world.seen.desired.version = Version::new(3, 7, 3);
    "r of 3.7.3".clone_into(&mut world.seen.desired.pod.revision.0);
    world.settle();
    let id = world.cluster_id;
    world.recreate("uid-2");
    world.seen.adopt = id;
    world.seen.desired.version = version;
    world.seen.desired.pod.revision.0 = format!("r of {version}");
    world
}

fn committed(world: &World) -> Version {
    world.seen.record.target.as_ref().expect("a target is committed").version
}

#[test]
fn l06_adopted_data_start_with_their_version_whatever_the_spec_asks_for() {
    for size in [1, 3] {
        for (asked, allow) in [("3.5.20", false), ("3.5.20", true), ("3.6.16", false)] {
            let asked: Version = asked.parse().unwrap();
            let mut world = adopting_newer_data(size, asked);
            world.seen.allow_downgrade = Some(asked).filter(|_| allow);
            world.settle();
            assert_eq!(committed(&world), Version::new(3, 7, 3), "{size} {asked}");
            assert!(world.versions.values().all(|runs| runs.line() == Minor(3, 7)), "{size} {asked}");
            let plan = world.plan();
            let refused = |waiting: &Waiting| matches!(waiting, Waiting::VersionRefused(_));
            assert!(plan.waiting.iter().any(refused), "{:?}", plan.waiting);
        }
    }
}

#[test]
fn l06_adopted_data_go_back_by_etcds_downgrade_where_it_is_ordered() {
    let older = Version::new(3, 6, 16);
    let mut world = adopting_newer_data(3, older);
    world.seen.allow_downgrade = Some(older);
    world.settle();
    assert_eq!(committed(&world), older);
    assert_eq!(world.cluster_version, Some(Minor(3, 6)));
    assert!(world.seen.volumes.values().all(|volume| volume.version == Some(older)), "so are the volumes");
}

#[test]
fn l06_adopted_volumes_that_do_not_say_their_version_start_with_that_of_the_spec() {
    let newer = Version::new(3, 7, 3);
    let mut world = adopting_newer_data(3, newer);
    world.seen.volumes.values_mut().for_each(|volume| volume.version = None);
    world.settle();
    assert!(world.seen.volumes.values().all(|volume| volume.version == Some(newer)), "and are annotated");
}

#[test]
fn l06_a_volume_says_the_newer_version_before_it_starts_on_it() {
    let mut world = World::running(1);
    let newer = Version::new(3, 7, 3);
    world.seen.desired.version = newer;
    "r of 3.7.3".clone_into(&mut world.seen.desired.pod.revision.0);
    let creates = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::CreatePod { .. }));
    let notes = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::AnnotateVolume { version, .. }) if *version == Some(newer));
    let plan = world.plan_that(|plan| plan.effects.iter().any(creates));
    let noted = plan.effects.iter().position(notes).expect("it is annotated");
    assert!(Some(noted) < plan.effects.iter().position(creates));
    // The operator ends after the annotation. It is not taken back.
    world.apply(&plan.effects[noted]);
    let next = world.plan();
    assert!(
        !next
            .effects
            .iter()
            .any(|effect| matches!(effect.as_kube(), Some(KubeEffect::AnnotateVolume { .. })))
    );
}

#[test]
fn l06_no_older_version_starts_on_a_volume_that_says_a_newer_one() {
    let mut world = World::running(1);
    world.seen.desired.version = Version::new(3, 7, 3);
    "r of 3.7.3".clone_into(&mut world.seen.desired.pod.revision.0);
    world.settle();
    world.lose_pod("demo-0");
    // A target was committed without asking the data, and the record does not say what has run on them.
    world.seen.desired.version = Version::new(3, 5, 20);
    let record = &mut world.seen.record;
    record.target.as_mut().unwrap().version = Version::new(3, 5, 20);
    record.members.values_mut().for_each(|member| member.version = None);
    let creates = |plan: &Plan| {
        plan.effects.iter().any(|effect| matches!(effect.as_kube(), Some(KubeEffect::CreatePod { .. })))
    };
    assert!(!creates(&world.plan()));
    let volumes = world.seen.volumes.values_mut();
    volumes.for_each(|volume| volume.version = None);
    assert!(creates(&world.plan()), "only the volume says it");
}

#[test]
fn m61_where_only_the_status_was_lost_tls_is_as_the_volumes_say_and_its_members_are_attended() {
    let mut world = World::running(3);
    world.seen.record = quorate_model::Record::default();
    // An edit of the time before the first cluster id was recorded, which was never carried out.
    world.seen.desired.tls = !world.seen.desired.tls;
    world.lose_pod("demo-1");
    let story = world.settle();
    assert_eq!(
        world.seen.record.target.as_ref().map(|target| target.tls),
        Some(!world.seen.desired.tls),
        "{story}"
    );
    assert!(world.seen.pods.contains_key(&name("demo-1")), "{story}");
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"], "{story}");
}

#[test]
fn m61_of_quarantined_volumes_it_is_said_that_their_quarantine_ends_first() {
    let mut world = World::running(1);
    world.seen.record = quorate_model::Record::default();
    world.seen.pods.clear();
    let volume = world.seen.volumes.get_mut(&name("demo-0")).unwrap();
    volume.quarantine = Some(Quarantine { since: Some(world.now), why: "replaced".to_owned() });
    let plan = world.plan();
    let Some(Waiting::EarlierData(EarlierData::Volumes { quarantined, .. })) = plan.waiting.first() else {
        panic!("{:?}", plan.waiting)
    };
    assert_eq!(*quarantined, [name("demo-0")]);
}
