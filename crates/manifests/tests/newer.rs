//! This operator meets the status of a newer one, or a record that is not whole: it reports that, keeps members running, and changes nothing
//! else. A status without a Pod template starts nothing that was not committed.

use crate::world::World;
use quorate_api::Reason;
use quorate_manifests::template::Template;
use quorate_manifests::{Act, Kind, request};
use quorate_model::{Effect, KubeEffect};
use serde_json::{Value, json};

/// A cluster of three whose status a newer operator wrote, with values and fields that this one does not know.
fn world_with(newer: impl FnOnce(&mut Value)) -> World {
    let mut world = World::running(3);
    world.tamper(Kind::Cluster, "demo", |cluster| newer(&mut cluster["status"]));
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(1));
    world
}

fn newer_format(status: &mut Value) {
    status["formatVersion"] = json!(quorate_api::status::FORMAT_VERSION + 1);
    status["phase"] = json!("Meditating");
    status["unheardOf"] = json!({ "a": 1 });
    status["members"][1]["unheardOf"] = json!("b");
    status["members"][1]["role"] = json!("witness");
    status["target"]["unheardOf"] = json!("c");
}

fn unknown_phase(status: &mut Value) {
    status["members"][2]["phase"] = json!("Quarantined");
}

fn unknown_bootstrap(status: &mut Value) {
    status["bootstrap"]["abandoned"] = json!("Bored");
}

#[test]
fn a_lost_pod_is_restarted_and_nothing_else_is_done() {
    for newer in [newer_format, unknown_phase, unknown_bootstrap] {
        let mut world = world_with(newer);
        let written = world.status();
        world.remove(Kind::Pod, "demo-1");
        world.remove(Kind::Pod, "demo-2");
        let pass = world.observe().unwrap();
        let restarted: Vec<String> = pass
            .plan
            .effects
            .iter()
            .map(|effect| match effect {
                Effect::Kube { write: KubeEffect::CreatePod { member, .. }, .. } => member.to_string(),
                other => panic!("{other} is not a restart"),
            })
            .collect();
        let phase_is_known = written.members[2].phase != quorate_api::status::MemberPhase::Unknown;
        let known: &[&str] = if phase_is_known { &["demo-1", "demo-2"] } else { &["demo-1"] };
        assert_eq!(restarted, known, "a member in an unknown phase is left alone");
        let (status, reason, message) = world.condition("Progressing");
        assert_eq!((&*status, &*reason), ("False", Reason::StatusFromNewerVersion.as_str()), "{message}");
        assert!(message.contains("Upgrade the operator"), "{message}");
        world.settle();
        assert_eq!(world.members.len(), 3, "the cluster is not scaled");
    }
}

#[test]
fn what_the_newer_operator_recorded_is_kept() {
    for newer in [newer_format, unknown_phase, unknown_bootstrap] {
        let world = world_with(newer);
        let pass = world.observe().unwrap();
        assert!(pass.plan.recorded_steps.is_empty());
        let write = request::write_status(&world.cluster(), &pass.status).expect("conditions have changed");
        let Act::PatchStatus(patch) = write.act else { panic!("{:?}", write.act) };
        let fields: Vec<&String> = patch["status"].as_object().unwrap().keys().collect();
        let reported = ["conditions", "phase", "readyReplicas", "summary"];
        assert!(fields.iter().all(|field| reported.contains(&field.as_str())), "{patch:#}");
    }
}

#[test]
fn a_deletion_does_not_wait_for_the_newer_operator() {
    let mut world = world_with(newer_format);
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["deletionTimestamp"] = json!("2026-11-21T08:00:00Z");
    });
    let effects = world.observe().unwrap().plan.effects;
    assert_eq!(effects.len(), 3, "{effects:?}");
    assert!(effects.iter().all(|effect| matches!(effect.as_kube(), Some(KubeEffect::DeletePod { .. }))));
}

/// The ways in which a record comes to lack something.
fn lessen(way: usize, status: &mut Value) {
    let fields = status.as_object_mut().unwrap();
    match way {
        0 => drop(fields.remove("bootstrap")),
        1 => drop(fields.remove("recordHash")),
        2 => fields["nextOrdinal"] = json!(9),
        3 => fields["target"]["size"] = json!(1),
        _ => fields["acceptedSpec"] = json!("{}"),
    }
}

#[test]
fn l01_a_record_without_its_hash_keeps_members_running_until_a_person_confirms_it() {
    for way in 0..5 {
        let mut world = world_with(|status| lessen(way, status));
        world.remove(Kind::Pod, "demo-1");
        let before = world.status();
        let pass = world.observe().unwrap();
        let effects: Vec<String> = pass.plan.effects.iter().map(ToString::to_string).collect();
        assert!(matches!(&*effects, [only] if only.starts_with("create Pod demo-1")), "{way}: {effects:?}");
        let (_, reason, message) = world.condition("Progressing");
        assert_eq!(reason, Reason::RecordIncomplete.as_str(), "{message}");
        assert_eq!(pass.status.record_hash, before.record_hash, "{way}: the record stays as it is");

        let (_, confirmation) = message.split_once("operator.etcd.io/confirm-record=").unwrap();
        let hash = confirmation.to_owned();
        let confirm = |world: &mut World, hash: &str| {
            world.edit(Kind::Cluster, "demo", |cluster| {
                cluster["metadata"]["annotations"]["operator.etcd.io/confirm-record"] = json!(hash);
            });
        };
        confirm(&mut world, &"0".repeat(64));
        assert_eq!(world.condition("Progressing").1, reason, "another record is confirmed");
        confirm(&mut world, &hash);
        assert_ne!(world.condition("Progressing").1, reason, "{way}");
        assert_ne!(world.observe().unwrap().status.record_hash, before.record_hash, "{way}");
    }
}

#[test]
fn a_status_without_a_template_starts_no_pod_of_a_version_that_was_not_committed() {
    for version in ["3.7.3", "4.0.0"] {
        let mut world = World::running(3);
        let committed = world.status().target.unwrap().version;
        world.edit(Kind::Cluster, "demo", |cluster| {
            cluster["status"]["target"]["pod"] = json!({});
            cluster["spec"]["version"] = json!(version);
        });
        let target = world.observe().unwrap().observation.snapshot.record.target.unwrap();
        assert_ne!(committed, version);
        let image = Template::from_status(&target.pod).image;
        assert!(image.ends_with(&format!(":v{committed}")), "{image}, desired {version}");
    }
}
