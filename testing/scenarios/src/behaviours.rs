//! The behaviours. A world runs all behaviours of a file with one line: `quorate_scenarios::life!(Playground::start());`.
#![allow(missing_docs, reason = "each name is the sentence that it tests")]

pub mod backup;
pub mod faults;
pub mod input;
pub mod life;
pub mod recover;
pub mod repair;
pub mod versions;

/// One test for each of these behaviours, each in a world of its own.
#[macro_export]
macro_rules! behaviours {
    ($file:ident in $world:expr; $($behaviour:ident)+) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $behaviour() -> anyhow::Result<()> {
            let world = $world.await?;
            let result = $crate::behaviours::$file::$behaviour(&world).await;
            if result.is_err() {
                eprintln!("the operator's log: {}", $crate::World::operator_log(&world)?);
            }
            result
        }
    )+ };
}

/// The life of a cluster.
#[macro_export]
macro_rules! life {
    ($world:expr) => {
        $crate::behaviours! { life in $world;
            a_cluster_goes_through_every_size_and_loses_no_acknowledged_write
            a_cluster_without_tls_is_bootstrapped_and_scaled
            retained_volumes_wait_for_a_person_and_are_served_after_the_adopt_annotation
            h05_after_retained_volumes_are_deleted_a_new_cluster_has_new_names_and_another_id
            volumes_are_deleted_with_the_cluster_when_retention_is_delete
            quick_edits_during_bootstrap_end_in_one_cluster_of_the_last_size
            a_version_that_does_not_exist_is_reported_and_a_right_one_fixes_it
            a_cluster_deleted_during_bootstrap_and_created_again_at_once_is_one_cluster
            a_settled_cluster_writes_nothing_to_the_api
        }
    };
}

/// Faults and recovery.
#[macro_export]
macro_rules! faults {
    ($world:expr) => {
        $crate::behaviours! { faults in $world;
            h22_killed_pods_and_processes_come_back_as_the_same_members
            a_hung_member_is_named_in_status_and_recovers
            h25_lost_quorum_is_reported_with_what_is_being_done
            h01_an_emptied_volume_is_refused_by_the_guard_and_named_in_status
            r14_an_unhealthy_cluster_does_not_delay_others_and_thirty_run_at_once
        }
    };
}

/// Replacement of members.
#[macro_export]
macro_rules! repair {
    ($world:expr) => {
        $crate::behaviours! { repair in $world;
            h21_a_member_whose_disk_is_lost_is_replaced_and_one_is_moved_on_order_under_writes
            a_cluster_of_one_is_moved_to_another_volume_on_order
            m01_size_zero_and_a_rollout_keep_the_data_of_members_whose_claims_were_deleted
        }
    };
}

/// Recovery of a lost quorum.
#[macro_export]
macro_rules! recover {
    ($world:expr) => {
        $crate::behaviours! { recover in $world;
            h27_a_lost_quorum_is_recovered_on_order_with_all_that_the_last_member_has_and_under_a_new_id
            an_order_to_recover_a_quorum_has_no_effect_while_one_answers_and_is_withdrawn_without_a_trace
        }
    };
}

/// Invalid input and objects in the way.
#[macro_export]
macro_rules! input {
    ($world:expr) => {
        $crate::behaviours! { input in $world;
            an_invalid_spec_is_refused_at_once_and_the_cluster_is_not_changed
            an_unknown_etcd_flag_is_reported_with_a_suggestion_and_the_right_one_fixes_it
            objects_not_owned_by_the_cluster_are_named_and_left_alone_and_bootstrap_goes_on_once_they_are_gone
            a_corrupt_volume_and_a_volume_of_another_member_are_refused_by_the_guard_and_named
            a_full_volume_is_reported
        }
    };
}

/// Versions: upgrades, and ways back.
#[macro_export]
macro_rules! versions {
    ($world:expr) => {
        $crate::behaviours! { versions in $world;
            minor_upgrades_keep_data_leases_and_users
            h36_a_minor_upgrade_that_is_half_done_is_taken_back
            a_finished_minor_upgrade_is_refused_without_the_order_cancelled_half_way_and_then_taken_back
            while_paused_lost_pods_come_back_and_no_edit_is_carried_out
        }
    };
}

/// Backups and restores.
#[macro_export]
macro_rules! backup {
    ($world:expr) => {
        $crate::behaviours! { backup in $world;
            a_backup_under_writes_is_restored_into_a_new_cluster_with_every_write_up_to_its_revision
            a_lost_cluster_is_restored_under_its_own_name_and_pods_that_die_meanwhile_restore_again
            o03_in_place_from_a_claim_of_one_node_members_are_on_three_though_the_operator_is_killed
            a_backup_that_cannot_be_made_says_why_and_leaves_nothing_that_looks_whole
            without_a_quorum_a_backup_waits_unless_it_is_ordered_from_what_one_member_has
            a_cluster_reports_whether_its_schedules_back_it_up
        }
    };
}
