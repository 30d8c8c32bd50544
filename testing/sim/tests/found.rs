//! Defects that exploration and random histories found once. Each test has the shortest history that shows the defect, at all
//! crash points around it. `src/history/moment.rs` explains a moment such as `after:B4#2+1`.

use std::ops::Range;

use quorate_sim::history::{ends_well, plain, sound_story};
use serde_json::{Value, json};

/// All histories end without a violation, and in at least one of them all departures happened.
#[track_caller]
fn all_end_well(histories: impl IntoIterator<Item = Value>) {
    let mut came_about = false;
    for history in histories {
        came_about |= sound_story(&history).all_came_about();
    }
    assert!(came_about, "in no history all departures happened");
}

/// The moments after a crash point, one for each of these numbers of steps.
fn after(point: &str, steps: Range<usize>) -> Vec<String> {
    steps.map(|later| format!("after:{point}+{later}")).collect()
}

/// These crash points, then the moments after `last`.
fn from<const N: usize>(points: [&str; N], last: &str, steps: Range<usize>) -> Vec<String> {
    points.into_iter().map(str::to_owned).chain(after(last, steps)).collect()
}

/// Each of these moments with each of these numbers of later steps.
fn with_later(moments: Vec<String>, later: Range<usize>) -> impl Iterator<Item = (String, String)> {
    let pairs = move |at: String| later.clone().map(move |later| (at.clone(), format!("+{later}")));
    moments.into_iter().flat_map(pairs)
}

fn memory(size: u32) -> Value {
    json!({
        "size": size, "version": "3.6.16", "tls": { "provider": "disabled" }, "storageSpec": { "medium": "Memory" },
    })
}

fn fault(at: &str, fault: &Value) -> Value {
    json!({ "at": at, "what": { "fault": fault } })
}

fn edit(at: &str, spec: &Value) -> Value {
    json!({ "at": at, "what": { "edit": spec } })
}

#[test]
fn h10_a_promotion_that_was_done_but_not_observed_leaves_the_cluster_with_quorum() {
    for kind in ["kill-pod", "kill-process"] {
        all_end_well(from(["before:G6"], "G6", 0..4).into_iter().map(|at| {
            json!({
                "before": [plain(1)], "spec": plain(2),
                "departures": [fault(&at, &json!({ kind: "demo-1" }))],
            })
        }));
    }
}

#[test]
fn h01_a_member_in_memory_that_lost_its_data_before_it_was_labelled_joined_is_replaced() {
    all_end_well(
        from(["before:BR", "after:BR#2", "before:B6"], "B6", 0..12)
            .into_iter()
            .map(|at| json!({ "spec": memory(5), "departures": [fault(&at, &json!({ "wipe": "demo-1" }))] })),
    );
}

#[test]
fn h01_a_bootstrap_member_that_is_not_labelled_joined_stops_first_when_the_cluster_hibernates() {
    all_end_well(with_later(after("B7", 0..9), 1..12).map(|(edited, wiped)| {
        json!({
            "spec": plain(3),
            "departures": [
                fault("before:BR", &json!({ "slow": "demo-0" })),
                edit(&edited, &plain(0)),
                fault(&wiped, &json!({ "wipe": "demo-0" })),
            ],
        })
    }));
}

#[test]
fn h01_a_bootstrap_pod_that_a_former_leader_creates_while_the_cluster_hibernates_never_runs() {
    for (size, hibernates) in [(1, "after:B7+3"), (3, "after:B6+8")] {
        for late in [json!("paused"), json!({ "request": "late" })] {
            let moments = ["after:B3", "after:B3#2", "before:B4", "after:B4", "before:BR"];
            let moments =
                moments.into_iter().flat_map(|at| (6..24).map(move |wiped| (at, format!("+{wiped}"))));
            all_end_well(moments.map(|(at, wiped)| {
                json!({
                    "spec": plain(size),
                    "departures": [
                        fault(at, &late),
                        edit(hibernates, &plain(0)),
                        fault(&wiped, &json!({ "wipe": "demo-0" })),
                    ],
                })
            }));
        }
    }
}

#[test]
fn h45_the_late_pod_of_an_abandoned_bootstrap_is_deleted() {
    let moments = ["before:B4", "after:B4", "after:B4#2", "after:B4#3", "before:BR", "after:BR", "before:B6"];
    all_end_well(moments.map(|at| {
        json!({
            "spec": plain(3),
            "departures": [
                edit(at, &plain(0)),
                fault("+0", &json!({ "lose-volume": "demo-1" })),
                fault("+0", &json!({ "request": "late" })),
            ],
        })
    }));
}

#[test]
fn h45_a_volume_that_a_late_request_creates_for_a_removed_member_is_deleted() {
    ends_well(&json!({
        "spec": plain(1),
        "departures": [
            fault("before:B3", &json!({ "request": "late" })),
            edit("after:B3#2", &json!({ "size": 2 })),
        ],
    }));
}

#[test]
fn h14_one_plan_never_disrupts_two_healthy_voters() {
    let label = json!({ "podTemplate": { "metadata": { "labels": { "a": "b" } } } });
    all_end_well(from(["rest"], "B7", 1..9).into_iter().map(|at| {
        json!({
            "spec": plain(3),
            "departures": [fault(&at, &json!({ "rogue": { "remove": "demo-0" } })), edit("+0", &label)],
        })
    }));
}

#[test]
fn h01_no_write_is_acknowledged_before_an_emptied_volume_would_be_noticed() {
    let touched = from(["before:BR", "after:BR", "before:B6"], "B6", 0..7);
    all_end_well(with_later(touched, 0..6).map(|(touched, wiped)| {
        json!({
            "spec": plain(1),
            "departures": [
                fault(&touched, &json!({ "touch": ["Pod", "demo-0"] })),
                fault(&wiped, &json!({ "wipe": "demo-0" })),
            ],
        })
    }));
}

#[test]
fn h07_a_learner_is_rolled_back_when_a_voter_in_memory_is_lost() {
    all_end_well(from(["before:G3"], "G3", 0..12).into_iter().map(|at| {
        json!({
            "before": [memory(3)], "spec": memory(4),
            "departures": [fault(&at, &json!({ "kill-pod": "demo-1" }))],
        })
    }));
}

#[test]
fn h01_a_bootstrap_member_that_lost_its_data_does_not_start_as_new_after_its_peers_stopped() {
    let touched =
        from(["after:B4", "after:B4#3", "before:BR", "after:BR", "after:BR#3", "before:B6"], "B6", 0..6);
    all_end_well(with_later(touched, 1..10).map(|(touched, wiped)| {
        json!({
            "spec": plain(3),
            "departures": [
                fault(&touched, &json!({ "touch": ["Service", "demo"] })),
                fault(&wiped, &json!({ "wipe": "demo-0" })),
                edit("after:B7+2", &json!({ "size": 0 })),
            ],
        })
    }));
}

#[test]
fn h01_no_client_reaches_the_late_pod_of_an_abandoned_attempt_and_it_is_deleted() {
    let label = json!({ "podTemplate": { "metadata": { "labels": { "a": "b" } } } });
    let late = from(["after:B2", "before:B4", "after:B4", "before:BR", "after:BR", "before:B6"], "B6", 0..4);
    all_end_well(late.into_iter().map(|at| {
        json!({
            "spec": memory(1),
            "departures": [fault(&at, &json!({ "request": "late" })), edit("+1", &label)],
        })
    }));
    all_end_well(["after:B3", "before:B4", "after:B4", "before:BR"].map(|at| {
        json!({
            "spec": plain(1),
            "departures": [
                fault(at, &json!("two-lead")),
                fault("+0", &json!({ "stale": ["PersistentVolumeClaim", 1] })),
            ],
        })
    }));
}

#[test]
fn h01_membership_changes_wait_until_every_voter_is_labelled_joined() {
    all_end_well(from(["before:BR#3", "after:BR#3", "before:B6"], "B6", 0..5).into_iter().map(|cut| {
        json!({
            "spec": memory(4),
            "departures": [
                edit("after:B2", &json!({ "size": 3 })),
                fault("after:B4", &json!({ "request": "late" })),
                fault(&cut, &json!({ "cut": "demo-6" })),
                fault("+1", &json!({ "request": "lost" })),
                fault("+3", &json!({ "wipe": "demo-4" })),
            ],
        })
    }));
}

#[test]
fn h01_a_recreated_bootstrap_member_in_memory_serves_no_client_while_another_may_hold_more_data() {
    let killed = from(["after:BR", "after:BR#2", "after:BR#3", "before:B6"], "B6", 0..9);
    all_end_well(with_later(killed, 0..6).map(|(killed, lost)| {
        json!({
            "spec": memory(3),
            "departures": [
                fault("after:B4", &json!({ "slow": "demo-0" })),
                fault(&killed, &json!({ "kill-pod": "demo-2" })),
                fault(&lost, &json!({ "lose-node": "demo-1" })),
            ],
        })
    }));
}

#[test]
fn h17_a_pod_in_memory_that_a_late_request_recreates_is_replaced() {
    all_end_well(after("P5#1", 0..5).into_iter().map(|killed| {
        json!({
            "spec": memory(3),
            "departures": [
                edit("rest", &json!({ "size": 4 })),
                edit("before:G6", &json!({ "image": "revision" })),
                fault("after:G6", &json!({ "wipe": "demo-3" })),
                fault("after:G4#2", &json!({ "request": "late" })),
                fault("after:P3#1", &json!({ "alarm": "demo-0" })),
                fault(&killed, &json!({ "kill-pod": "demo-4" })),
            ],
        })
    }));
}

#[test]
fn h20_after_status_is_lost_the_identity_annotation_of_one_volume_keeps_every_volume() {
    all_end_well(after("G1", 0..22).into_iter().map(|at| {
        json!({
            "spec": plain(3),
            "departures": [
                edit("after:BR", &json!({ "size": 5 })),
                { "at": at, "what": "delete" },
                fault("+0", &json!("lose-status")),
            ],
        })
    }));
}

#[test]
fn h15_no_effect_rests_on_a_status_that_was_replaced() {
    for back in [2, 3, 5] {
        all_end_well(from(["after:BA#4", "rest"], "BA#5", 0..16).into_iter().map(|at| {
            json!({
                "spec": plain(3),
                "departures": [
                    edit("after:B3#2", &json!({ "size": 0 })),
                    fault("after:BA#3", &json!({ "remove": ["Service", "demo"] })),
                    fault(&at, &json!({ "time-travel": ["EtcdCluster", back] })),
                ],
            })
        }));
    }
}

#[test]
fn h36_a_minor_version_that_already_ran_is_kept_when_the_edit_is_reverted() {
    let version = |size: u32, version: &str| json!({ "size": size, "version": version, "tls": { "provider": "disabled" } });
    let back = from(["after:U5", "after:U5+1", "before:W1"], "W1", 0..3);
    all_end_well(with_later(back, 0..5).map(|(back, slow)| {
        json!({
            "before": [version(2, "3.5.35")], "spec": version(2, "3.5.35"),
            "departures": [
                edit("+0", &json!({ "version": "3.6.5" })),
                edit(&back, &json!({ "version": "3.5.35" })),
                fault(&slow, &json!({ "slow": "demo-1" })),
            ],
        })
    }));
    all_end_well((0..6).map(|slow| {
        json!({
            "spec": { "size": 1, "version": "3.5.35" },
            "departures": [
                edit("after:B2#2", &json!({ "size": 2 })),
                edit("rest", &json!({ "version": "3.6.5" })),
                fault("after:T1", &json!({ "request": "raced" })),
                edit("before:W1", &json!({ "version": "3.5.35" })),
                fault(&format!("+{slow}"), &json!({ "slow": "demo-2" })),
            ],
        })
    }));
}

#[test]
fn h36_a_member_restarts_when_its_image_holds_another_patch_than_its_tag() {
    for patch in ["next", "before"] {
        ends_well(&json!({
            "before": [plain(3)], "spec": plain(3),
            "departures": [
                fault("+0", &json!({ "other-patch": ["demo-1", patch] })),
                fault("rest", &json!({ "kill-pod": "demo-1" })),
            ],
        }));
    }
}

#[test]
fn h01_a_learners_data_is_required_before_it_is_promoted() {
    let expired = ["after:G4+1", "after:G4+2", "before:G6"].map(str::to_owned).to_vec();
    all_end_well(with_later(expired, 0..9).map(|(expired, wiped)| {
        json!({
            "before": [plain(3)], "spec": plain(4),
            "departures": [fault(&expired, &json!("expired")), fault(&wiped, &json!({ "wipe": "demo-3" }))],
        })
    }));
}

#[test]
fn a_member_that_a_minor_upgrade_had_stopped_when_it_was_chosen_is_not_removed_once_it_runs_the_new_version()
{
    ends_well(&json!({
        "before": [],
        "spec": { "size": 3, "storageSpec": { "volumeSizeRequest": "1Gi" }, "version": "3.6.16" },
        "departures": [
            edit("after:B7#1+4", &json!({ "version": "3.7.3" })),
            edit("before:K1#9", &json!({ "size": 2 })),
            edit("+0", &json!({ "podTemplate": { "metadata": { "annotations": { "example.org/key": "1h" } } } })),
        ],
    }));
}

#[test]
fn an_edit_takes_no_member_in_memory_that_nobody_would_replace() {
    let in_memory = json!({
        "size": 3, "version": "3.6.16", "tls": { "provider": "disabled" }, "storageSpec": { "medium": "Memory" },
        "recovery": { "enabled": false },
    });
    let story = sound_story(&json!({
        "before": [in_memory], "spec": in_memory,
        "departures": [edit("+0", &json!({ "imagePullSecrets": [{ "name": "registry" }] }))],
    }));
    assert!(!story.to_string().contains("evict Pod"), "{story}");
    assert!(story.to_string().contains("it would not be replaced"), "{story}");
}

#[test]
fn a_bootstrap_member_that_loses_its_volume_before_it_starts_waits_for_a_person_where_nobody_is_replaced() {
    ends_well(&json!({
        "spec": { "size": 5, "version": "3.6.16", "storageSpec": { "volumeSizeRequest": "1Gi" } },
        "departures": [
            edit("after:B2#1", &json!({ "recovery": { "enabled": false } })),
            fault("after:BR#4", &json!({ "lose-volume": "demo-0" })),
        ],
    }));
}

#[test]
fn h01_a_bootstrap_member_that_is_emptied_once_it_followed_a_leader_elects_no_other_with_one_that_comes_late()
{
    let spec = json!({
        "size": 3, "version": "3.5.35", "tls": { "provider": "disabled" },
        "storageSpec": { "volumeSizeRequest": "1Gi" },
    });
    all_end_well((0..6).map(|later| {
        json!({
            "spec": spec,
            "departures": [
                fault("before:BR#1", &json!({ "request": "raced" })),
                fault("after:B6#1", &json!("expired")),
                fault(&format!("+{later}"), &json!({ "wipe": "demo-1" })),
            ],
        })
    }));
}

#[test]
fn a_member_that_a_proof_found_behind_stays_so_until_it_has_caught_up() {
    let plain = plain(3);
    let story = sound_story(&json!({
        "spec": plain, "wide": true,
        "departures": [
            fault("after:K1#7", &json!({ "hang-disk": "demo-1" })),
            edit("before:B7#1", &json!({ "size": 5 })),
        ],
    }));
    assert!(story.all_came_about(), "{story}");
}

#[test]
fn gated_pods_that_status_lost_go_when_the_cluster_is_not_wanted() {
    ends_well(&json!({
        "spec": plain(3), "wide": true,
        "departures": [fault("after:B3#4", &json!("lose-status")), edit("after:BX#1+7", &json!({ "size": 0 }))],
    }));
}

#[test]
fn a_member_cut_off_under_an_alarm_that_names_nobody_is_replaced_once_the_others_are_compared() {
    let mut spec = plain(4);
    (spec["version"], spec["tls"]) = (json!("3.5.35"), json!({ "provider": "disabled" }));
    ends_well(&json!({
        "spec": spec, "wide": true,
        "departures": [
            fault("after:K1#3", &json!({ "stays": { "damage": "demo-1" } })),
            fault("after:P0#1", &json!("expired")),
        ],
    }));
}

#[test]
fn what_is_emptied_before_anything_names_it_is_the_loss_of_its_storage() {
    ends_well(&json!({
        "spec": plain(1), "wide": true,
        "departures": [
            fault("after:BR#1", &json!("clients-on-names")),
            fault("before:B6#1", &json!({ "wipe": "demo-0" })),
        ],
    }));
}
