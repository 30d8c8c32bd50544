//! The behaviours. A world runs all of a file by one line: `quorate_scenarios::life!(Playground::start());`.
#![allow(missing_docs, reason = "each name is the sentence that it proves")]

pub mod faults;
pub mod input;
pub mod life;

/// A test of each of these stories, each in a world of its own.
#[macro_export]
macro_rules! stories {
    ($file:ident in $world:expr; $($story:ident)+) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $story() -> anyhow::Result<()> {
            let world = $world.await?;
            $crate::stories::$file::$story(&world).await
        }
    )+ };
}

/// The life of a cluster.
#[macro_export]
macro_rules! life {
    ($world:expr) => {
        $crate::stories! { life in $world;
            a_cluster_goes_through_every_size_and_loses_no_acknowledged_write
            without_tls_a_cluster_is_founded_and_scaled_as_well
            retained_volumes_wait_for_a_human_and_are_served_after_the_annotation
            h05_once_retained_volumes_are_deleted_a_new_cluster_has_new_names_and_another_id
            volumes_go_with_the_cluster_when_retention_says_so
            edits_in_quick_succession_during_bootstrap_end_in_one_cluster_of_the_last_size
            a_version_that_does_not_exist_is_told_and_cured_by_the_right_one
            a_cluster_deleted_during_bootstrap_and_made_again_at_once_is_one_cluster
            a_settled_cluster_writes_nothing_to_the_api
        }
    };
}

/// What breaks and heals.
#[macro_export]
macro_rules! faults {
    ($world:expr) => {
        $crate::stories! { faults in $world;
            h22_pods_and_processes_that_die_come_back_as_the_same_members
            a_hung_member_is_named_in_status_and_heals
            h25_lost_quorum_is_said_with_what_is_being_done
            h01_a_volume_that_came_back_empty_is_refused_by_the_guard_and_named_in_status
            r14_a_sick_cluster_does_not_delay_the_creation_of_others_and_thirty_run_at_once
        }
    };
}

/// What is wrong from the start.
#[macro_export]
macro_rules! input {
    ($world:expr) => {
        $crate::stories! { input in $world;
            what_can_never_be_right_is_refused_at_once_and_the_cluster_stays_as_it_is
            a_flag_that_etcd_does_not_know_is_told_with_the_one_that_was_meant_and_the_right_one_cures_it
            objects_of_somebody_else_are_named_and_left_alone_and_the_cluster_comes_once_they_are_gone
            a_volume_that_is_corrupt_or_another_members_is_refused_by_the_guard_and_named
            a_volume_without_room_is_told_as_such
        }
    };
}
