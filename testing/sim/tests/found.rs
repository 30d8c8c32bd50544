//! What exploration found once, as the shortest history that shows it, at all the times at which it may be.

use quorate_sim::history::{History, plain};
use serde_json::{Value, json};

/// Ends as it must, with all that was to go wrong.
#[track_caller]
fn ends_well(history: &Value) {
    all_end_well([history.clone()]);
}

/// All of them end as they must, and in one at least everything came about that was to go wrong.
#[track_caller]
fn all_end_well(histories: impl IntoIterator<Item = Value>) {
    let mut came_about = false;
    for history in histories {
        let history: History = serde_json::from_value(history).expect("a history");
        let story = history.story();
        assert_eq!(story.violation(), None, "{story}");
        came_about |= story.all_came_about();
    }
    assert!(came_about, "what was to go wrong met nothing");
}

fn memory(size: u32) -> Value {
    json!({
        "size": size, "version": "3.6.16", "tls": { "provider": "disabled" }, "storageSpec": { "medium": "Memory" },
    })
}

#[test]
fn h10_a_promotion_that_was_done_and_not_seen_leaves_no_cluster_without_its_quorum() {
    for fault in ["kill-pod", "kill-process"] {
        all_end_well((9..14).map(|after| {
            json!({
                "before": [plain(1)], "spec": plain(2),
                "departures": [{ "at": after, "what": { "fault": { fault: "demo-1" } } }],
            })
        }));
    }
}

#[test]
fn h01_a_member_in_memory_that_forgot_everything_before_it_was_marked_is_replaced() {
    all_end_well((8..24).map(|after| {
        json!({
            "spec": memory(5),
            "departures": [{ "at": after, "what": { "fault": { "wipe": "demo-1" } } }],
        })
    }));
}

#[test]
fn h01_a_founder_that_is_not_marked_yet_goes_to_sleep_while_others_still_know_it() {
    let times = (22..34).flat_map(|edited| (edited + 1..edited + 12).map(move |wiped| (edited, wiped)));
    all_end_well(times.map(|(edited, wiped)| {
        json!({
            "spec": plain(3),
            "departures": [
                { "at": 11, "what": { "fault": { "slow": "demo-0" } } },
                { "at": edited, "what": { "edit": plain(0) } },
                { "at": wiped, "what": { "fault": { "wipe": "demo-0" } } },
            ],
        })
    }));
}

#[test]
fn h01_what_an_old_leader_makes_to_found_a_cluster_that_sleeps_by_now_never_runs() {
    let late = |paused: bool| if paused { json!("paused") } else { json!({ "request": "late" }) };
    for (size, times) in [(1, 4..8), (3, 6..14)] {
        let times = times.flat_map(|after| (30..50).map(move |wiped| (after, wiped)));
        let times = times.flat_map(|(after, wiped)| [true, false].map(|paused| (paused, after, wiped)));
        all_end_well(times.map(|(paused, after, wiped)| {
            json!({
                "spec": plain(size),
                "departures": [
                    { "at": after, "what": { "fault": late(paused) } },
                    { "at": 24, "what": { "edit": plain(0) } },
                    { "at": wiped, "what": { "fault": { "wipe": "demo-0" } } },
                ],
            })
        }));
    }
}

#[test]
fn h45_the_late_pod_of_a_founding_that_was_called_off_is_cleared_away() {
    all_end_well((7..16).map(|after| {
        json!({
            "spec": plain(3),
            "departures": [
                { "at": after, "what": { "edit": plain(0) } },
                { "at": after, "what": { "fault": { "lose-volume": "demo-1" } } },
                { "at": after, "what": { "fault": { "request": "late" } } },
            ],
        })
    }));
}

#[test]
fn h45_a_volume_that_a_late_call_makes_for_a_member_given_up_is_cleared_away() {
    ends_well(&json!({
        "spec": plain(1),
        "departures": [
            { "at": 3, "what": { "fault": { "request": "late" } } },
            { "at": 6, "what": { "edit": { "size": 2 } } },
        ],
    }));
}

#[test]
fn h14_one_plan_never_takes_two_healthy_voters_away() {
    all_end_well((27..40).map(|after| {
        json!({
            "spec": plain(3),
            "departures": [
                { "at": after, "what": { "fault": { "rogue": { "remove": "demo-0" } } } },
                { "at": after, "what": { "edit": { "podTemplate": { "metadata": { "labels": { "a": "b" } } } } } },
            ],
        })
    }));
}

#[test]
fn h01_nothing_is_acknowledged_before_the_loss_of_a_volume_would_be_noticed() {
    let times = (8..18).flat_map(|touched| (touched - 2..touched + 6).map(move |wiped| (touched, wiped)));
    all_end_well(times.map(|(touched, wiped)| {
        json!({
            "spec": plain(1),
            "departures": [
                { "at": touched, "what": { "fault": { "touch": ["Pod", "demo-0"] } } },
                { "at": wiped, "what": { "fault": { "wipe": "demo-0" } } },
            ],
        })
    }));
}

#[test]
fn h07_a_learner_makes_way_where_a_voter_in_memory_is_lost_beside_it() {
    all_end_well((4..16).map(|after| {
        json!({
            "before": [memory(3)], "spec": memory(4),
            "departures": [{ "at": after, "what": { "fault": { "kill-pod": "demo-1" } } }],
        })
    }));
}

#[test]
fn h01_a_founding_member_that_was_emptied_does_not_start_anew_once_its_peers_are_gone_from_sight() {
    let times = (8..22).flat_map(|touched| (touched + 1..touched + 10).map(move |wiped| (touched, wiped)));
    all_end_well(times.map(|(touched, wiped)| {
        json!({
            "spec": plain(3),
            "departures": [
                { "at": touched, "what": { "fault": { "touch": ["Service", "demo"] } } },
                { "at": wiped, "what": { "fault": { "wipe": "demo-0" } } },
                { "at": 34, "what": { "edit": { "size": 0 } } },
            ],
        })
    }));
}

#[test]
fn h01_no_client_meets_the_late_pod_of_an_attempt_given_up_and_it_is_cleared_away() {
    let label = json!({ "podTemplate": { "metadata": { "labels": { "a": "b" } } } });
    all_end_well((2..12).map(|after| {
        json!({
            "spec": memory(1),
            "departures": [
                { "at": after, "what": { "fault": { "request": "late" } } },
                { "at": after + 1, "what": { "edit": label } },
            ],
        })
    }));
    all_end_well((5..10).map(|after| {
        json!({
            "spec": plain(1),
            "departures": [
                { "at": after, "what": { "fault": "two-lead" } },
                { "at": after, "what": { "fault": { "stale": ["PersistentVolumeClaim", 1] } } },
            ],
        })
    }));
}

#[test]
fn h01_membership_waits_until_the_loss_of_every_voter_would_be_noticed() {
    all_end_well((0..10).map(|later| {
        json!({
            "spec": memory(4),
            "departures": [
                { "at": 3, "what": { "edit": { "size": 3 } } },
                { "at": 5, "what": { "fault": { "request": "late" } } },
                { "at": 9 + later, "what": { "fault": { "cut": "demo-6" } } },
                { "at": 10 + later, "what": { "fault": { "request": "lost" } } },
                { "at": 13 + later, "what": { "fault": { "wipe": "demo-4" } } },
            ],
        })
    }));
}

#[test]
fn h01_a_founder_in_memory_that_was_made_again_serves_nobody_while_another_may_remember_more() {
    let times = (8..20).flat_map(|killed| (killed..killed + 6).map(move |lost| (killed, lost)));
    all_end_well(times.map(|(killed, lost)| {
        json!({
            "spec": memory(3),
            "departures": [
                { "at": 5, "what": { "fault": { "slow": "demo-0" } } },
                { "at": killed, "what": { "fault": { "kill-pod": "demo-2" } } },
                { "at": lost, "what": { "fault": { "lose-node": "demo-1" } } },
            ],
        })
    }));
}

#[test]
fn h17_a_pod_in_memory_that_a_late_call_makes_again_is_replaced_and_not_waited_for() {
    all_end_well((0..10).map(|later| {
        json!({
            "spec": memory(3),
            "departures": [
                { "at": 26 + later, "what": { "edit": { "size": 4 } } },
                { "at": 36 + later, "what": { "edit": { "image": "revision" } } },
                { "at": 37 + later, "what": { "fault": { "wipe": "demo-3" } } },
                { "at": 47 + later, "what": { "fault": { "request": "late" } } },
                { "at": 59 + later, "what": { "fault": { "alarm": "demo-0" } } },
                { "at": 63 + later, "what": { "fault": { "kill-pod": "demo-4" } } },
            ],
        })
    }));
}

#[test]
fn h20_where_status_is_lost_the_stamp_of_one_volume_keeps_the_data_of_all() {
    all_end_well((30..50).map(|after| {
        json!({
            "spec": plain(3),
            "departures": [
                { "at": 12, "what": { "edit": { "size": 5 } } },
                { "at": after, "what": "delete" },
                { "at": after, "what": { "fault": "lose-status" } },
            ],
        })
    }));
}

#[test]
fn h15_nothing_is_done_on_a_status_that_no_longer_stands() {
    for (from, back) in [(21, 3), (54, 3), (12, 2), (30, 5)] {
        all_end_well((from..from + 6).map(|after| {
            json!({
                "spec": plain(3),
                "departures": [
                    { "at": 5, "what": { "edit": { "size": 0 } } },
                    { "at": 9, "what": { "fault": { "remove": ["Service", "demo"] } } },
                    { "at": after, "what": { "fault": { "time-travel": ["EtcdCluster", back] } } },
                ],
            })
        }));
    }
}

#[test]
fn h36_a_version_that_ran_before_the_wish_for_it_was_taken_back_is_not_gone_back_from() {
    let version = |size: u32, version: &str| json!({ "size": size, "version": version, "tls": { "provider": "disabled" } });
    let times = (2..9).flat_map(|back| (back..back + 5).map(move |slow| (back, slow)));
    all_end_well(times.map(|(back, slow)| {
        json!({
            "before": [version(2, "3.5.35")], "spec": version(2, "3.5.35"),
            "departures": [
                { "at": 0, "what": { "edit": { "version": "3.6.5" } } },
                { "at": back, "what": { "edit": { "version": "3.5.35" } } },
                { "at": slow, "what": { "fault": { "slow": "demo-1" } } },
            ],
        })
    }));
    all_end_well((0..6).map(|later| {
        json!({
            "spec": { "size": 1, "version": "3.5.35" },
            "departures": [
                { "at": 4, "what": { "edit": { "size": 2 } } },
                { "at": 51 + later, "what": { "edit": { "version": "3.6.5" } } },
                { "at": 52 + later, "what": { "fault": { "request": "raced" } } },
                { "at": 57 + later, "what": { "edit": { "version": "3.5.35" } } },
                { "at": 58 + later, "what": { "fault": { "slow": "demo-2" } } },
            ],
        })
    }));
}

#[test]
fn h36_an_image_that_holds_another_patch_than_its_tag_says_keeps_no_member_down() {
    for patch in ["next", "before"] {
        ends_well(&json!({
            "before": [plain(3)], "spec": plain(3),
            "departures": [
                { "at": 0, "what": { "fault": { "other-patch": ["demo-1", patch] } } },
                { "at": 9, "what": { "fault": { "kill-pod": "demo-1" } } },
            ],
        }));
    }
}

#[test]
fn h01_a_learner_needs_its_data_from_before_it_votes() {
    all_end_well((9..20).map(|wiped: u32| {
        json!({
            "before": [plain(3)], "spec": plain(4),
            "departures": [
                { "at": wiped.min(11), "what": { "fault": "expired" } },
                { "at": wiped, "what": { "fault": { "wipe": "demo-3" } } },
            ],
        })
    }));
}
