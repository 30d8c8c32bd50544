//! The end of a history does not depend on what was before, and an edit that is reverted changes nothing at the end.

use std::collections::BTreeMap;

use quorate_manifests::Kind;
use quorate_sim::campaign::Random;
use quorate_sim::edits;
use quorate_sim::ending::Ending;
use quorate_sim::history::History;
use quorate_sim::world::World;
use serde_json::Value;

/// How many edits are made and reverted.
const EDITS: u64 = 200;

#[test]
fn an_edit_that_is_reverted_leaves_the_cluster_as_it_was_whether_it_was_refused_or_applied() {
    let (mut refused, mut applied, mut kept) = (0, 0, 0);
    for seed in 0..EDITS {
        let mut random = Random::from_seed(seed);
        let mut first = edits::first(&mut random);
        // In memory a Pod that is created again is another member.
        if let Some(storage) = first["storageSpec"].as_object_mut() {
            storage.remove("medium");
        }
        // A Pod that restores a snapshot does not, once it is created again.
        if let Some(spec) = first.as_object_mut() {
            spec.remove("bootstrap");
        }
        let mut world = History { spec: first, ..History::default() }.start();
        rest(&mut world);
        let (before, spec) = (Ending::of(&world), spec_of(&world));

        let edit = edits::revertible(&mut random);
        // A quota that a running cluster has is not lowered by the default of its volume.
        if !edit["etcd"]["quotaBackendBytes"].is_null() && spec["etcd"]["quotaBackendBytes"].is_null() {
            kept += 1;
            continue;
        }
        match world.edit(&edit) {
            Err(_) => refused += 1,
            Ok(()) => applied += 1,
        }
        // Any moment from at once to when all is done.
        for _ in 0..random.below(40) {
            world.go();
        }
        if world.replace_spec(&spec).is_err() {
            // A volume that was expanded does not shrink.
            kept += 1;
            continue;
        }
        rest(&mut world);
        let other = Ending::of(&world).first_difference(&before);
        assert_eq!(other, None, "seed {seed}: after {edit} was reverted");
    }
    println!("edits reverted: {applied} applied, {refused} refused; {kept} could not be reverted");
    assert!(refused > EDITS / 10 && applied > EDITS / 10 && kept < EDITS / 10);
}

#[test]
fn the_same_spec_ends_in_the_same_objects_whatever_came_before() {
    let ways: [&[u32]; 6] = [&[1, 3], &[2, 3], &[5, 3], &[3, 0, 3], &[4, 2, 3], &[3, 4, 3]];
    let straight = shape(&[3]);
    for way in ways {
        let other = shape(way);
        assert_eq!(other.keys().collect::<Vec<_>>(), straight.keys().collect::<Vec<_>>(), "{way:?}");
        for (name, object) in &straight {
            let patch = json_patch::diff(object, &other[name]);
            assert!(patch.is_empty(), "{name} by way of {way:?}: {patch}");
        }
    }
}

fn rest(world: &mut World) {
    while world.go().is_some() {}
    world.judge_rest();
    assert_eq!(world.oracle.violation(), None);
}

fn spec_of(world: &World) -> Value {
    world.object(Kind::Cluster, "demo").expect("the cluster exists")["spec"].clone()
}

/// The objects at the end, with members named by their rank, and without the ids of members and clusters.
fn shape(sizes: &[u32]) -> BTreeMap<String, Value> {
    let mut world = History::through(sizes).start();
    rest(&mut world);
    let pods = world.names(Kind::Pod);
    let ending = Ending::of(&world);
    let objects = ending.objects.iter().map(|((kind, name), object)| {
        let mut object = object.clone();
        forget(&mut object);
        let mut text = format!("{} {name} {object}", kind.as_str());
        for (rank, pod) in pods.iter().enumerate() {
            text = text.replace(pod, &format!("member-{rank}"));
        }
        let (title, object) = text.split_once(" {").expect("an object");
        (title.to_owned(), serde_json::from_str(&format!("{{{object}")).expect("only names were changed"))
    });
    objects.collect()
}

/// Removes the ids of etcd and the count of earlier members.
fn forget(object: &mut Value) {
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.retain(|key, _| !["cluster-id", "member-id"].iter().any(|id| key.ends_with(id)));
    }
    let status = object.pointer_mut("/status").and_then(Value::as_object_mut);
    if let Some(status) = status {
        status.retain(|field, _| {
            ["conditions", "phase", "replicas", "readyReplicas"].contains(&field.as_str())
        });
    }
    // Their messages name ids.
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        condition.remove("message");
    }
}
