//! etcd's auth in the simulation: whoever is not root is refused by the model as by etcd, also the operator, and what may be switched is
//! judged by what Pods mount and what people wrote.

use quorate_api::keys;
use quorate_model::Span;
use quorate_model::auth::{Clients, Marked};
use quorate_planner::safety::mutants::without;
use quorate_sim::history::{History, sound_story};
use quorate_sim::oracle::Property;
use quorate_sim::world::World;
use quorate_sim::world::faults::{Fault, Planted};
use quorate_sim::world::restore::restored;
use quorate_sim::world::rogue::RogueEffect;
use serde_json::{Value, json};

fn spec(size: u32, auth: bool) -> Value {
    json!({
        "size": size, "version": "3.6.16", "storageSpec": { "volumeSizeRequest": "1Gi" },
        "auth": { "enabled": auth },
    })
}

fn at_rest(size: u32) -> World {
    let mut world = History { spec: spec(size, false), ..History::default() }.start();
    while world.go().is_some() {}
    world
}

fn auth(world: &World) -> Option<String> {
    world.cluster().unwrap().status.unwrap().auth.map(|auth| auth.stage)
}

fn is_on(world: &World) -> bool {
    world.etcd.groups().any(|group| group.tip().auth)
}

fn edit(world: &mut World, edit: &Value) {
    world.edit(edit).unwrap();
    while world.go().is_some() {}
    world.judge_rest();
    assert_eq!(world.oracle.violation(), None);
}

fn switch_on() -> Value {
    json!({ "auth": { "enabled": true } })
}

/// The edit by which a person orders to switch it off.
fn switch_off(world: &World) -> Value {
    let id = world.cluster().unwrap().status.unwrap().cluster_id.unwrap();
    json!({ "metadata": { "annotations": { "operator.etcd.io/disable-auth": id } }, "auth": { "enabled": false } })
}

#[test]
fn auth_is_switched_on_and_the_cluster_scales_and_rolls_under_it_and_off_by_order_only() {
    for size in [1, 3] {
        let mut world = at_rest(size);
        edit(&mut world, &switch_on());
        assert_eq!((auth(&world).as_deref(), is_on(&world)), (Some("On"), true));
        // What needs the role root goes on.
        edit(&mut world, &json!({ "size": size + 2 }));
        edit(&mut world, &json!({ "size": size, "podTemplate": { "metadata": { "labels": { "a": "b" } } } }));
        edit(&mut world, &json!({ "auth": { "enabled": false } }));
        assert!(is_on(&world), "nobody ordered it off");
        let off = switch_off(&world);
        edit(&mut world, &off);
        assert_eq!((auth(&world), is_on(&world)), (None, false));
        edit(&mut world, &json!({ "size": size + 2 }));
    }
}

#[test]
fn a_cluster_that_begins_with_auth_has_it() {
    let mut world = History { spec: spec(3, true), ..History::default() }.start();
    while world.go().is_some() {}
    world.judge_rest();
    assert_eq!(world.oracle.violation(), None);
    assert_eq!((auth(&world).as_deref(), is_on(&world)), (Some("On"), true));
}

/// A cluster whose auth is switched on, with these departures after the edit. Whether all came about.
#[track_caller]
fn survives(departures: &[Value]) -> bool {
    let mut all = vec![json!({ "at": 0, "what": { "edit": switch_on() } })];
    all.extend(departures.iter().cloned());
    let history = json!({ "before": [spec(3, false)], "spec": {}, "departures": all });
    sound_story(&history).all_came_about()
}

#[test]
fn a_crash_at_each_step_or_a_request_that_is_lost_or_late_changes_nothing_of_the_end() {
    let mut happened = 0;
    for step in ["L1", "L4", "L5", "L6", "L8", "L11"] {
        for side in ["before", "after"] {
            for fault in [
                json!("crash"),
                json!("two-lead"),
                json!({ "request": "lost" }),
                json!({ "request": "late" }),
            ] {
                let departure = json!({ "at": format!("{side}:{step}"), "what": { "fault": fault } });
                happened += usize::from(survives(&[departure]));
            }
        }
    }
    assert!(happened >= 30, "{happened}");
}

#[test]
fn a_member_a_secret_or_status_that_is_lost_at_any_step_is_made_good() {
    let faults = [
        json!({ "kill-pod": "demo-1" }),
        json!({ "lose-volume": "demo-1" }),
        json!({ "cut-from-peers": "demo-2" }),
        json!("lose-status"),
        json!({ "remove": ["Secret", "demo-operator-tls"] }),
        json!({ "remove": ["Secret", "demo-client-tls"] }),
    ];
    let mut happened = 0;
    for step in ["L1", "L4", "L6", "L8", "L11"] {
        for fault in &faults {
            let departure = json!({ "at": format!("after:{step}"), "what": { "fault": fault } });
            happened += usize::from(survives(&[departure]));
        }
    }
    assert!(happened >= 18, "{happened}");
}

/// What is violated where auth is switched on in a cluster that runs.
fn violated_by_switching_on() -> Option<Property> {
    let on = json!({ "at": 0, "what": { "edit": switch_on() } });
    let history = json!({ "before": [spec(3, false)], "spec": {}, "departures": [on] });
    let history: History = serde_json::from_value(history).unwrap();
    history.story().violation().map(|violation| violation.property)
}

#[test]
fn without_a_look_at_the_pods_auth_makes_an_agent_nobody() {
    assert_eq!(violated_by_switching_on(), None);
    assert_eq!(without("LacksCredential", violated_by_switching_on), Some(Property::AuthByOrder));
}

#[test]
fn auth_ordered_off_stays_on_as_long_as_a_datastore_may_exist_and_then_goes_off() {
    let finalizers = |all: &[&str]| json!({ "metadata": { "finalizers": all } });
    let mut world = at_rest(3);
    edit(&mut world, &switch_on());
    edit(&mut world, &finalizers(&[keys::FINALIZER, keys::DATA_STORE_FINALIZER]));
    let off = switch_off(&world);
    edit(&mut world, &off);
    assert!(is_on(&world));
    edit(&mut world, &finalizers(&[keys::FINALIZER]));
    assert!(!is_on(&world), "it was ordered");
}

/// A cluster without auth, in whose etcd somebody gives this user the role root, or root a password; and auth is switched on.
fn with_planted(other: Option<&str>) -> World {
    let mut world = at_rest(3);
    let id = world.etcd.groups().next().unwrap().id();
    assert!(world.etcd.plant(id, other));
    world.edit(&switch_on()).unwrap();
    while world.go().is_some() {}
    world
}

#[test]
fn a_password_that_somebody_gave_root_while_auth_was_off_is_gone_once_it_is_on() {
    let world = with_planted(None);
    assert_eq!((world.oracle.violation(), is_on(&world)), (None, true));
}

#[test]
fn auth_waits_for_a_person_where_somebody_else_has_the_role_root() {
    let mut world = with_planted(Some("eve"));
    assert_eq!((world.oracle.violation(), is_on(&world)), (None, false));
    let status = world.cluster().unwrap().status.unwrap();
    let ready = status.conditions.iter().find(|condition| condition.type_ == "AuthReady").unwrap();
    assert_eq!(ready.reason, "OthersAreRoot");
    assert!(ready.message.contains("etcdctl user revoke-role eve root"), "{}", ready.message);
    let id = world.etcd.groups().next().unwrap().id();
    assert!(world.etcd.revoke_other_roots(id));
    edit(&mut world, &json!({ "metadata": { "annotations": { "example.com/looked": "yes" } } }));
    assert_eq!((world.oracle.violation(), is_on(&world)), (None, true));
}

/// The users in etcd with the names of users of EtcdUsers, and those that people made.
fn users(world: &World) -> (Vec<String>, Vec<String>) {
    let tip = world.etcd.groups().next().unwrap().tip();
    (tip.users.iter().map(Marked::user).collect(), tip.by_hand.iter().cloned().collect())
}

/// A cluster with auth, in which these users come to be.
fn with_users(spec: &Value, all: &[Planted]) -> World {
    let mut world = History { spec: spec.clone(), ..History::default() }.start();
    while world.go().is_some() {}
    for planted in all {
        assert!(world.strike(&Fault::PlantUser(*planted)), "{planted:?}");
    }
    // The operator looks now and then.
    world.advance(Span::seconds(600));
    edit(&mut world, &json!({ "metadata": { "annotations": { "example.com/looked": "yes" } } }));
    world
}

const ALL_USERS: [Planted; 3] = [Planted::Orphan, Planted::OfEtcdUser, Planted::ByHand];

#[test]
fn a_user_without_an_etcduser_is_revoked_and_nobody_else() {
    let world = with_users(&spec(3, true), &ALL_USERS);
    assert_eq!(users(&world), (vec!["billing-0000beef".to_owned()], vec!["person".to_owned()]));
}

#[test]
fn a_spec_that_keeps_users_without_an_etcduser_keeps_them() {
    let mut spec = spec(3, true);
    spec["auth"]["afterRestore"] = json!("Keep");
    let mut world = with_users(&spec, &ALL_USERS);
    assert_eq!(users(&world).0.len(), 2);
    let status = world.cluster().unwrap().status.unwrap();
    let ready = status.conditions.iter().find(|condition| condition.type_ == "AuthReady").unwrap();
    assert!(ready.message.contains("`etcdctl user delete gone-0000dead`"), "{}", ready.message);
    edit(&mut world, &json!({ "auth": { "afterRestore": "Revoke" } }));
    assert_eq!(users(&world).0, ["billing-0000beef"]);
}

#[test]
fn a_restore_brings_no_user_back_whose_etcduser_is_gone() {
    let mut world = History { spec: restored(spec(3, true)), ..History::default() }.start();
    while world.go().is_some() {}
    world.judge_rest();
    assert_eq!((world.oracle.violation(), is_on(&world)), (None, true));
    assert_eq!(users(&world), (Vec::new(), vec!["person".to_owned()]));
}

#[test]
fn a_crash_or_a_lost_request_while_a_user_is_revoked_leaves_none_of_it() {
    let mut happened = 0;
    for side in ["before", "after"] {
        for fault in
            [json!("crash"), json!("two-lead"), json!({ "request": "lost" }), json!({ "request": "late" })]
        {
            let departure = json!({ "at": format!("{side}:L10"), "what": { "fault": fault } });
            let history = json!({ "spec": restored(spec(3, true)), "departures": [departure] });
            happened += usize::from(sound_story(&history).all_came_about());
        }
    }
    assert!(happened >= 6, "{happened}");
}

#[test]
fn without_the_check_of_who_has_an_etcduser_a_user_that_the_spec_keeps_is_revoked() {
    let violated = || {
        let mut world = with_rogue_revocation();
        while world.go().is_some() {}
        world.oracle.violation().map(|violation| violation.property)
    };
    assert_eq!(violated(), None);
    assert_eq!(without("NotAnOrphan", violated), Some(Property::OnlyOrphansAreRevoked));
}

/// A planner that proposes to revoke the user of an EtcdUser.
fn with_rogue_revocation() -> World {
    let mut world = with_users(&spec(3, true), &ALL_USERS);
    world.rogue_planner = true;
    assert!(world.strike(&Fault::Rogue(RogueEffect::RevokeUser)));
    world
}

fn clients(world: &World) -> Clients {
    world.etcd.groups().next().unwrap().tip().clients
}

#[test]
fn the_certificate_that_applications_share_goes_on_for_its_time_and_is_refused_then() {
    let mut world = at_rest(3);
    edit(&mut world, &json!({ "auth": { "enabled": true, "clientGrace": "2h" } }));
    assert_eq!((is_on(&world), clients(&world)), (true, Clients::OfGrace));
    world.advance(Span::seconds(3600));
    edit(&mut world, &json!({ "metadata": { "annotations": { "example.com/a": "1" } } }));
    assert_eq!(clients(&world), Clients::OfGrace);
    world.advance(Span::seconds(3700));
    edit(&mut world, &json!({ "metadata": { "annotations": { "example.com/a": "2" } } }));
    assert_eq!(clients(&world), Clients::NoUser);
    // A person ends it sooner.
    let mut world = at_rest(1);
    edit(&mut world, &switch_on());
    assert_eq!(clients(&world), Clients::OfGrace);
    let id = world.cluster().unwrap().status.unwrap().cluster_id.unwrap();
    edit(&mut world, &json!({ "metadata": { "annotations": { keys::CLIENTS_ARE_USERS: id } } }));
    assert_eq!(clients(&world), Clients::NoUser);
}

#[test]
fn a_cluster_that_begins_with_auth_has_no_user_for_clients_of_before() {
    let world = with_users(&spec(1, true), &[]);
    assert_eq!(clients(&world), Clients::NoUser);
}

#[test]
fn without_the_check_of_their_time_clients_are_refused_too_early() {
    assert_eq!(violated_by_switching_on(), None);
    assert_eq!(without("ClientsHaveTime", violated_by_switching_on), Some(Property::ClientsHaveTime));
}
