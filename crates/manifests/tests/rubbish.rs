//! What others write: a status, the termination messages and statuses of Pods, Secrets. Every value may be missing, of another type, at the edge of
//! what is possible, or twice. Whatever of it the API server would hand out is read, planned on and reported without a panic, and the pass does
//! not take for ever.

use std::cell::Cell;

use crate::world::{World, plain};
use k8s_openapi::api::core::v1::{Pod, Secret};
use quorate_api::EtcdCluster;
use quorate_manifests::Kind;
use quorate_rubbish::{LAST_WORDS, each_round, values};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn worlds() -> [World; 3] {
    [World::running(3), hibernating(), World::new(&plain(3))]
}

fn reads<T: DeserializeOwned>(object: &Value) -> bool {
    serde_json::from_value::<T>(object.clone()).is_ok()
}

#[test]
fn no_status_that_can_be_read_makes_a_pass_panic_or_hang() {
    let worlds = worlds();
    let (read, rounds) = (Cell::new(0), Cell::new(0));
    each_round(5000, 60, |chance| {
        rounds.set(rounds.get() + 1);
        let mut damaged = chance.one_of(&worlds).clone();
        let mut cluster = damaged.objects[&(Kind::Cluster, "demo".to_owned())].clone();
        chance.damage_value(&mut cluster["status"], 4);
        if reads::<EtcdCluster>(&cluster) {
            read.set(read.get() + 1);
            damaged.put(Kind::Cluster, cluster);
            drop(damaged.observe());
        }
    });
    assert!(read.get() > rounds.get() / 5, "only {} statuses could be read", read.get());
}

#[test]
fn no_last_words_and_no_status_of_a_pod_make_a_pass_panic_or_hang() {
    let (world, last_words) = (World::running(3), values(LAST_WORDS));
    let (read, rounds) = (Cell::new(0), Cell::new(0));
    each_round(1000, 60, |chance| {
        rounds.set(rounds.get() + 1);
        let mut damaged = world.clone();
        let mut pod = damaged.objects[&(Kind::Pod, "demo-1".to_owned())].clone();
        let mut words = chance.one_of(&last_words).clone();
        chance.damage_value(&mut words, 2);
        let mut message = chance.text(&words);
        // etcd's own last words are a line of its log, beneath others.
        if chance.below(2) == 0 {
            message = format!("\u{1b}[0mgone\n{message}\n\n");
        }
        let end = json!({"terminated": {"exitCode": chance.below(3), "reason": "Error", "message": message}});
        let place = *chance.one_of(&["state", "lastState"]);
        for name in ["containerStatuses", "initContainerStatuses"] {
            for status in pod["status"][name].as_array_mut().into_iter().flatten() {
                status[place] = end.clone();
                status["ready"] = json!(false);
            }
        }
        chance.damage_value(&mut pod["status"], 2);
        if reads::<Pod>(&pod) {
            read.set(read.get() + 1);
            damaged.put(Kind::Pod, pod);
            drop(damaged.observe());
        }
    });
    assert!(read.get() > rounds.get() / 5, "only {} Pods could be read", read.get());
}

#[test]
fn no_entry_of_a_secret_makes_a_pass_panic_or_hang() {
    let world = World::running(3);
    let is_secret = |(kind, name): &(Kind, String)| (*kind == Kind::Secret).then(|| name.clone());
    let secrets: Vec<String> = world.objects.keys().filter_map(is_secret).collect();
    each_round(1000, 60, |chance| {
        let mut damaged = world.clone();
        let object = damaged.objects[&(Kind::Secret, chance.one_of(&secrets).clone())].clone();
        let mut secret: Secret = serde_json::from_value(object).unwrap();
        let mut entries: Vec<_> = secret.data.iter_mut().flatten().collect();
        let at = chance.below(entries.len());
        if let Some((_, entry)) = entries.get_mut(at) {
            chance.damage(&mut entry.0);
        }
        damaged.put(Kind::Secret, json!(secret));
        drop(damaged.observe());
    });
}

fn hibernating() -> World {
    let mut world = World::running(3);
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(0));
    world.settle();
    world
}
