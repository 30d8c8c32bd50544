//! Somebody deletes the claim of a member by mistake. Kubernetes keeps it as long as a Pod names it: from then on the end of the Pod is
//! the end of the data, and no act of the operator may be that.

use quorate_sim::history::{ends_well, plain, sound_story};
use serde_json::{Value, json};

const ALL: [&str; 3] = ["demo-0", "demo-1", "demo-2"];
const AT_ONCE: &str = "+0";
const AT_REST: &str = "rest";

/// A cluster of this size at rest when the claims of these members are deleted, and what happens then.
fn claims_are_deleted(size: u32, members: &[&str], then: &[(&str, Value)]) -> Value {
    let mut departures: Vec<Value> = members
        .iter()
        .map(|member| json!({ "at": AT_ONCE, "what": { "fault": { "delete-claim": member } } }))
        .collect();
    departures[0]["at"] = json!(AT_REST);
    departures.extend(then.iter().map(|(at, what)| json!({ "at": at, "what": what })));
    json!({ "spec": plain(size), "departures": departures })
}

fn edit(spec: &Value) -> Value {
    json!({ "edit": spec })
}

#[test]
fn m01_a_member_whose_claim_is_deleted_moves_to_another_one_by_itself() {
    for members in [&ALL[..1], &ALL[..2], &ALL] {
        ends_well(&claims_are_deleted(3, members, &[]));
    }
    ends_well(&claims_are_deleted(1, &ALL[..1], &[]));
    ends_well(&claims_are_deleted(2, &ALL[..2], &[]));
}

#[test]
fn m01_an_operator_that_dies_at_any_step_of_the_move_ends_it() {
    for dies in ["after:P1", "before:G2", "before:G3", "before:G4", "before:G6", "before:P3", "before:P4"] {
        ends_well(&claims_are_deleted(1, &ALL[..1], &[(dies, json!({ "fault": "crash" }))]));
    }
}

#[test]
fn m01_size_zero_keeps_the_data_of_a_cluster_whose_claims_were_deleted() {
    for (size, members) in [(3, &ALL[..]), (3, &ALL[1..2]), (1, &ALL[..1])] {
        let sleeps = (AT_ONCE, edit(&json!({ "size": 0 })));
        ends_well(&claims_are_deleted(size, members, std::slice::from_ref(&sleeps)));
        let wakes = (AT_REST, edit(&json!({ "size": size })));
        ends_well(&claims_are_deleted(size, members, &[sleeps, wakes]));
    }
}

#[test]
fn m01_a_claim_that_is_deleted_while_the_cluster_goes_to_size_zero_keeps_its_pod() {
    for at in ["after:Z1", "before:Z1#2", "before:Z1#3"] {
        let spec = json!({ "at": "rest", "what": { "edit": { "size": 0 } } });
        let deleted = json!({ "at": at, "what": { "fault": { "delete-claim": "demo-0" } } });
        let back = json!({ "at": "rest", "what": { "edit": { "size": 3 } } });
        ends_well(&json!({ "spec": plain(3), "departures": [spec, deleted, back] }));
    }
}

#[test]
fn m01_a_rollout_does_not_end_the_only_copy_of_the_data() {
    for (size, members) in [(1, &ALL[..1]), (3, &ALL[..])] {
        let rolls = edit(&json!({ "podTemplate": { "metadata": { "labels": { "rolled": "yes" } } } }));
        ends_well(&claims_are_deleted(size, members, &[(AT_ONCE, rolls)]));
    }
}

#[test]
fn m01_an_upgrade_waits_for_the_move_and_goes_on_where_a_claim_is_deleted_in_the_middle() {
    let upgrade = edit(&json!({ "version": "3.7.0" }));
    for members in [&ALL[..1], &ALL] {
        ends_well(&claims_are_deleted(3, members, &[(AT_ONCE, upgrade.clone())]));
    }
    for at in ["after:T1", "after:U5", "after:U5#2"] {
        for member in ALL {
            let upgrade = json!({ "at": AT_REST, "what": upgrade });
            let deleted = json!({ "at": at, "what": { "fault": { "delete-claim": member } } });
            ends_well(&json!({ "spec": plain(3), "departures": [upgrade, deleted] }));
        }
    }
}

#[test]
fn m01_a_restore_in_place_comes_after_the_move_of_members_whose_claims_were_deleted() {
    let order = edit(&json!({ "etcdRestore": "back" }));
    ends_well(&claims_are_deleted(3, &ALL[..1], &[(AT_ONCE, order)]));
}

/// A cluster that moves no member, at rest with these claims being deleted, and what happens then.
fn claims_stay_deleted(members: &[&str], then: &[(&str, Value)]) -> Value {
    let mut history = claims_are_deleted(3, members, then);
    history["spec"]["recovery"] = json!({ "enabled": false });
    history
}

#[test]
fn m01_a_deleted_cluster_whose_data_are_kept_keeps_the_pods_whose_claims_were_deleted_before() {
    ends_well(&claims_stay_deleted(&ALL[..1], &[(AT_REST, json!("delete"))]));
    let forgoes = edit(&json!({ "storageSpec": { "retention": { "whenDeleted": "Delete" } } }));
    ends_well(&claims_are_deleted(3, &ALL, &[(AT_ONCE, forgoes), (AT_ONCE, json!("delete"))]));
}

#[test]
fn l10_a_cluster_that_is_deleted_together_with_its_claims_ends() {
    // In either order of one command.
    for (first, second) in [(json!("delete"), ALL), (json!({ "fault": { "delete-claim": "demo-0" } }), ALL)] {
        let mut departures = vec![json!({ "at": AT_REST, "what": first })];
        if first != "delete" {
            departures.push(json!({ "at": AT_ONCE, "what": "delete" }));
        }
        departures.extend(
            second
                .iter()
                .filter(|member| first == "delete" || **member != "demo-0")
                .map(|member| json!({ "at": AT_ONCE, "what": { "fault": { "delete-claim": member } } })),
        );
        let story = sound_story(&json!({ "spec": plain(3), "wide": true, "departures": departures }));
        assert!(story.to_string().contains("the cluster is gone"), "{story}");
    }
}

#[test]
fn m01_a_member_that_ends_while_its_claim_is_being_deleted_is_replaced() {
    for fault in ["kill-process", "kill-pod"] {
        let ends = json!({ "fault": { fault: "demo-0" } });
        ends_well(&claims_are_deleted(3, &ALL[..1], &[(AT_ONCE, ends)]));
    }
}

/// The watch of the claims is behind: in the operator's caches the claim is as it was.
#[test]
fn m01_a_claim_whose_deletion_no_watch_has_told_yet_keeps_its_pod() {
    let behind = |changes: u32| json!({ "fault": { "stale": ["PersistentVolumeClaim", changes] } });
    let rolls = json!({ "podTemplate": { "metadata": { "labels": { "rolled": "yes" } } } });
    for spec in [json!({ "size": 0 }), rolls, json!({ "version": "3.7.0" })] {
        let then = [(AT_ONCE, edit(&spec)), (AT_ONCE, behind(1))];
        ends_well(&claims_are_deleted(1, &ALL[..1], &then));
    }
}

/// No record names the members any more. The claims say whose data they are.
#[test]
fn m01_a_deleted_cluster_whose_status_was_lost_keeps_the_pods_whose_claims_were_deleted() {
    let lost = json!({ "fault": "lose-status" });
    ends_well(&claims_stay_deleted(&ALL[..1], &[(AT_REST, json!("delete")), (AT_ONCE, lost.clone())]));
    ends_well(&claims_stay_deleted(&ALL, &[(AT_REST, lost), (AT_REST, json!("delete"))]));
}

/// None may join while a downgrade is in force, and no member leaves before another one has joined.
#[test]
fn m01_a_downgrade_waits_for_the_move_and_is_cancelled_for_it() {
    let newer = json!({ "size": 3, "version": "3.7.3", "tls": { "provider": "disabled" }, "storageSpec": { "volumeSizeRequest": "1Gi" } });
    let back = edit(&json!({
        "metadata": { "annotations": { "operator.etcd.io/allow-downgrade": "3.6.16" } }, "version": "3.6.16",
    }));
    let deleted = json!({ "fault": { "delete-claim": "demo-0" } });
    for departures in [
        json!([{ "at": AT_REST, "what": deleted }, { "at": "after:G3", "what": back }]),
        json!([{ "at": AT_REST, "what": back }, { "at": "after:V2", "what": deleted }]),
        json!([{ "at": AT_REST, "what": back }, { "at": "after:V4", "what": deleted }]),
        json!([{ "at": AT_REST, "what": back }, { "at": "after:U5#2", "what": deleted }]),
    ] {
        ends_well(&json!({ "spec": newer, "wide": true, "departures": departures }));
    }
}

/// It answers the operator, so it is not lost; and it does not move, since it is not healthy.
#[test]
fn m01_a_scale_in_removes_a_member_that_began_to_move_and_is_cut_off_for_good() {
    let cut = json!({ "fault": { "stays": { "cut-from-peers": "demo-0" } } });
    for at in ["after:G4", "after:G6"] {
        let mut history = claims_are_deleted(3, &ALL[..1], &[(at, cut.clone())]);
        history["wide"] = json!(true);
        ends_well(&history);
    }
}

/// Kubernetes has room for no member beside these three: nodes that take one each, or a quota of their claims.
fn without_room(room: &str, members: &[&str], then: &[(&str, Value)]) -> Value {
    let mut history = claims_are_deleted(3, members, then);
    history["room"] = json!({ room: 3 });
    history
}

#[test]
fn l11_a_member_whose_claim_is_deleted_moves_in_place_where_no_other_member_has_room() {
    for room in ["nodes", "claims"] {
        for members in [&ALL[..1], &ALL[1..], &ALL] {
            ends_well(&without_room(room, members, &[]));
        }
    }
}

#[test]
fn l11_an_operator_that_dies_at_any_step_of_a_move_in_place_ends_it() {
    // Between two requests of a pass, or after its record.
    let moments = [
        "after:P1",
        "before:G4",
        "after:G5",
        "before:S3",
        "after:S1",
        "before:S4",
        "before:S5",
        "before:P3",
        "before:P4",
        "before:G3#3",
        "before:G4#2",
        "before:G6",
    ];
    for dies in moments {
        ends_well(&without_room("nodes", &ALL[..1], &[(dies, json!({ "fault": "crash" }))]));
    }
}

/// What befalls another member: before the removal, so that it does not come about, and between the removal and the join.
#[test]
fn l11_a_move_in_place_comes_to_its_end_whatever_befalls_another_member_meanwhile() {
    for at in ["after:S3", "after:S1", "before:P3", "after:P3", "before:P4", "before:G3#3", "before:G6"] {
        for fault in [
            "kill-process",
            "kill-pod",
            "hang-disk",
            "cut-from-peers",
            "lose-node",
            "lose-volume",
            "wipe",
            "delete-claim",
        ] {
            let befalls = json!({ "fault": { fault: "demo-1" } });
            ends_well(&without_room("nodes", &ALL[..1], &[(at, befalls)]));
        }
    }
}

/// They wanted the cluster gone.
#[test]
fn l11_a_cluster_that_is_deleted_while_a_member_moves_in_place_ends() {
    let forgoes = edit(&json!({ "storageSpec": { "retention": { "whenDeleted": "Delete" } } }));
    for at in ["after:S3", "after:S1", "before:P3", "after:P3", "before:P4", "before:G3#3"] {
        ends_well(&without_room("nodes", &ALL[..1], &[(at, json!("delete"))]));
        ends_well(&without_room("nodes", &ALL[..1], &[(AT_ONCE, forgoes.clone()), (at, json!("delete"))]));
    }
}
