//! The operator crashes at every numbered step of a cluster's life and is started again, and the reply to every kind of
//! request is lost once. After each failure the end is the same: one cluster id, no additional change of membership, no
//! additional create or delete, and no writes once the cluster is at rest.

use std::collections::{BTreeMap, BTreeSet};

use crate::world::story::{Failure, Scene, run_story};
use anyhow::{Context as _, Result, ensure};
use quorate_model::{Effect, Step};
use quorate_operator::crash::CrashSide;

// In each story the failures happen in the last scene. The scenes before it are the shortest way there.
const BOOTSTRAP: [Scene; 1] = [Scene::Create];
const GROW: [Scene; 2] = [Scene::Create, Scene::Scale(5)];
const SHRINK: [Scene; 3] = [Scene::Create, Scene::Scale(5), Scene::ScaleWhileTheMemberToRemoveLeads(3)];
const HIBERNATE: [Scene; 2] = [Scene::Create, Scene::Scale(0)];
const WAKE: [Scene; 3] = [Scene::Create, Scene::Scale(0), Scene::Scale(3)];
const RESTART: [Scene; 2] = [Scene::Create, Scene::LosePod("demo-1", 3)];
const DELETE: [Scene; 2] = [Scene::Create, Scene::Delete];
const UPGRADE: [Scene; 3] = [Scene::CreateOne("3.6.15"), Scene::Scale(2), Scene::Upgrade("3.6.16")];
const MEMORY: [Scene; 2] = [Scene::CreateInMemory, Scene::LosePod("demo-1", 3)];
const SLOW_LEARNER: [Scene; 2] = [Scene::CreateOne("3.6.16"), Scene::GrowWithASlowLearner];
const ABANDON: [Scene; 1] = [Scene::AbandonBootstrap];
const ADOPT: [Scene; 3] = [Scene::CreateOne("3.6.16"), Scene::Delete, Scene::Adopt];
const NO_IMAGE_VOLUMES: [Scene; 1] = [Scene::CreateWithoutImageVolumes];
const REPLACE: [Scene; 2] = [Scene::Create, Scene::EmptyVolume("demo-1")];
const FULL: [Scene; 2] = [Scene::CreateCompacting, Scene::FillDatabases];
const STRAY_POD: [Scene; 2] = [Scene::CreateOne("3.6.16"), Scene::DeleteAStrayPod];
const DOWNGRADE: [Scene; 2] = [Scene::CreateOne("3.7.3"), Scene::Downgrade("3.6.16")];
const CANCEL: [Scene; 2] = [Scene::CreateOne("3.7.3"), Scene::CancelDowngrade];

const RESTORE_IN_PLACE: [Scene; 2] = [Scene::Create, Scene::RestoreInPlace];
const WITHDRAW_RESTORE: [Scene; 2] = [Scene::Create, Scene::WithdrawRestore];

/// Effects that do not happen in a world with modelled members, with the tests that cover them.
const ELSEWHERE: [(&str, &str); 22] = [
    ("Auth", "modelled members have no TLS: testing/sim/tests/auth.rs"),
    ("CreateBackup", "no Jobs run here: backups_before.rs"),
    ("CreateAuthority", "modelled members have no TLS: crash.rs"),
    ("IssueLeaf", "modelled members have no TLS: crash.rs"),
    ("DeleteAuthority", "modelled members have no TLS: crash.rs"),
    ("KeepAuthority", "modelled members have no TLS: certificates.rs"),
    ("MakeNextAuthority", "modelled members have no TLS: testing/sim/tests/rotate.rs"),
    ("ArrangeAuthority", "modelled members have no TLS: testing/sim/tests/rotate.rs"),
    ("WriteTrust", "modelled members have no TLS: testing/sim/tests/rotate.rs"),
    ("RenewLeaf", "modelled members have no TLS: certificates.rs"),
    ("CreateCertificate", "no cert-manager runs here: testing/sim/tests/cert_manager.rs"),
    ("ChangeCertificate", "no cert-manager runs here: testing/sim/tests/cert_manager.rs"),
    ("DeleteCertificate", "no cert-manager runs here: testing/sim/tests/cert_manager.rs"),
    ("DeleteIssued", "no cert-manager runs here: testing/sim/tests/cert_manager.rs"),
    ("DeleteUser", "modelled members have no TLS: testing/sim/tests/auth.rs"),
    ("DeleteRole", "modelled members have no TLS: testing/sim/tests/auth.rs"),
    ("EvictPod", "the replies to evictions are not lost here: testing/sim/tests/evictions.rs"),
    ("ApplyMetadata", "no story edits labels: crates/manifests/tests/metadata.rs"),
    ("DeleteBudget", "no story takes the budget away: crates/planner/tests/evictions.rs"),
    ("ApplyNetworkPolicy", "no story has a policy: network_policy.rs"),
    ("DeleteNetworkPolicy", "no story has a policy: network_policy.rs"),
    ("ExpandVolume", "no StorageClass here allows expansion: testing/scenarios"),
];

/// Steps with the tests that crash at them.
const STEPS_ELSEWHERE: [(Step, &str); 38] = [
    (Step::K4, "modelled members are cut off from nobody: testing/sim/tests/clients.rs"),
    (Step::O1, "publish.rs"),
    (Step::O2, "publish.rs"),
    (Step::O3, "publish.rs"),
    (Step::O4, "publish.rs"),
    (Step::O5, "publish.rs"),
    (Step::O6, "publish.rs"),
    (Step::O7, "nothing follows from it but a wait: crates/orders/src/data_store/tests.rs"),
    (Step::I5, "testing/sim/tests/cert_manager.rs"),
    (Step::I6, "testing/sim/tests/cert_manager.rs"),
    (Step::I7, "testing/sim/tests/cert_manager.rs"),
    (Step::L1, "testing/sim/tests/auth.rs"),
    (Step::L4, "testing/sim/tests/auth.rs"),
    (Step::L5, "testing/sim/tests/auth.rs"),
    (Step::L6, "testing/sim/tests/auth.rs"),
    (Step::L8, "testing/sim/tests/auth.rs"),
    (Step::L9, "testing/sim/tests/auth.rs"),
    (Step::L10, "testing/sim/tests/auth.rs"),
    (Step::L11, "testing/sim/tests/auth.rs"),
    (Step::T0, "backups_before.rs"),
    (Step::D0, "backups_before.rs"),
    (Step::I1, "crash.rs"),
    (Step::I2, "crash.rs"),
    (Step::I3, "certificates.rs"),
    (Step::I4, "certificates.rs"),
    (Step::C1, "testing/sim/tests/rotate.rs"),
    (Step::C2, "testing/sim/tests/rotate.rs"),
    (Step::C3, "testing/sim/tests/rotate.rs"),
    (Step::C5, "testing/sim/tests/rotate.rs"),
    (Step::C4, "testing/sim/tests/rotate.rs"),
    (Step::C6, "testing/sim/tests/rotate.rs"),
    (Step::C7, "testing/sim/tests/rotate.rs"),
    (Step::Q1, "testing/sim/tests/recover.rs"),
    (Step::Q2, "testing/sim/tests/recover.rs"),
    (Step::Q4, "testing/sim/tests/recover.rs"),
    (Step::Q5, "testing/sim/tests/recover.rs"),
    (Step::Q6, "testing/sim/tests/recover.rs"),
    (Step::QX, "testing/sim/tests/recover.rs"),
];

/// The one step of a story that no other story has, where other stories have the rest of it.
fn own_step(story: &[Scene]) -> Option<Step> {
    match story {
        [.., Scene::GrowWithASlowLearner] => Some(Step::G5),
        [.., Scene::CreateWithoutImageVolumes] => Some(Step::W3),
        [.., Scene::WithdrawRestore] => Some(Step::JX),
        _ => None,
    }
}

/// Whether the operator crashes at this step of the story.
fn crashes_at(story: &[Scene], step: Step) -> bool {
    own_step(story).is_none_or(|own| own == step)
}

/// Runs the story with each failure that its last scene can have.
async fn with_every_failure(story: &[Scene]) -> Result<()> {
    let scene = story.len() - 1;
    let clean = Box::pin(run_story(story, None)).await.context("without a failure")?;
    let crashes = clean.steps.iter().filter(|(at, step)| *at == scene && crashes_at(story, *step)).flat_map(
        |(at, step)| [CrashSide::Before, CrashSide::After].map(|side| Failure::Crash(*at, side, *step)),
    );
    let losses = clean.effects.iter().filter(|(at, _)| *at == scene && own_step(story).is_none());
    let losses = losses.map(|(at, effect)| Failure::ReplyLost(*at, effect));
    for failure in crashes.chain(losses) {
        let run = Box::pin(run_story(story, Some(failure))).await.with_context(|| format!("{failure:?}"))?;
        ensure!(run.failed, "{failure:?} did not happen");
        ensure!(
            run.changes == clean.changes,
            "{failure:?}: {:?} instead of {:?}",
            run.changes,
            clean.changes
        );
        let (writes, allowed) = (counted(&run.writes[scene]), counted(&clean.writes[scene]));
        for (object, count) in writes {
            let allowed = allowed.get(object).copied().unwrap_or(0);
            ensure!(count <= allowed, "{failure:?}: {object} {count} times, {allowed} without it");
        }
    }
    Ok(())
}

/// How often objects were written. The name of a Pod of a Job ends with the time of its creation, which a crash makes a later one.
fn counted(writes: &BTreeMap<String, u64>) -> BTreeMap<&str, u64> {
    let mut counted = BTreeMap::new();
    for (object, count) in writes {
        let is_of_job = object.contains(" pods ") && object.contains("-backup-");
        let name = object.rsplit_once('-').filter(|_| is_of_job).map_or(object.as_str(), |(job, _)| job);
        *counted.entry(name).or_default() += count;
    }
    counted
}

macro_rules! stories {
    ($($name:ident: $story:expr;)*) => {
        $(#[tokio::test(start_paused = true)]
        async fn $name() -> Result<()> {
            with_every_failure(&$story).await
        })*

        /// The stories above.
        const STORIES: &[&[Scene]] = &[$(&$story),*];
    };
}

stories! {
    no_failure_during_bootstrap_changes_the_end: BOOTSTRAP;
    no_failure_during_growth_changes_the_end: GROW;
    no_failure_during_scale_in_changes_the_end: SHRINK;
    no_failure_during_hibernation_changes_the_end: HIBERNATE;
    no_failure_during_the_restart_after_hibernation_changes_the_end: WAKE;
    no_failure_while_a_lost_pod_is_restarted_changes_the_end: RESTART;
    no_failure_during_deletion_changes_the_end: DELETE;
    no_failure_during_an_upgrade_changes_the_end: UPGRADE;
    no_failure_while_a_member_in_memory_is_replaced_changes_the_end: MEMORY;
    no_failure_while_a_slow_learner_is_rolled_back_changes_the_end: SLOW_LEARNER;
    no_failure_while_a_bootstrap_is_abandoned_changes_the_end: ABANDON;
    no_failure_during_adoption_changes_the_end: ADOPT;
    no_failure_while_an_emptied_member_is_replaced_changes_the_end: REPLACE;
    no_failure_while_a_stray_pod_is_deleted_changes_the_end: STRAY_POD;
    no_failure_where_image_volumes_are_refused_changes_the_end: NO_IMAGE_VOLUMES;
    no_failure_during_a_downgrade_changes_the_end: DOWNGRADE;
    no_failure_while_a_downgrade_is_cancelled_changes_the_end: CANCEL;
    no_failure_while_full_databases_are_given_room_changes_the_end: FULL;
    no_failure_while_the_data_are_replaced_in_place_changes_the_end: RESTORE_IN_PLACE;
    no_failure_while_such_an_order_is_withdrawn_changes_the_end: WITHDRAW_RESTORE;
}

#[tokio::test(start_paused = true)]
async fn the_stories_pass_every_step_and_send_every_effect() -> Result<()> {
    let (mut steps, mut effects) = (BTreeSet::new(), BTreeSet::new());
    for story in STORIES {
        let run = Box::pin(run_story(story, None)).await.with_context(|| format!("{story:?}"))?;
        let is_last = |at: usize| at + 1 == story.len();
        steps.extend(
            run.steps
                .into_iter()
                .filter(|(at, step)| is_last(*at) && crashes_at(story, *step))
                .map(|(_, step)| step),
        );
        effects.extend(
            run.effects
                .into_iter()
                .filter(|(at, _)| is_last(*at) && own_step(story).is_none())
                .map(|(_, effect)| effect),
        );
    }
    // Those of EtcdBackups and of schedules: backups.rs.
    let of_restores = |step: &Step| {
        matches!(step, Step::E2 | Step::E3 | Step::E4 | Step::X1 | Step::X2 | Step::X3 | Step::X4)
    };
    let of_backups = |step: &Step| step.page() == "backup" && !of_restores(step);
    // Those of EtcdUsers, which need certificates: crates/orders/src/user/tests.rs, and testing/scenarios/tests/etcd/users.rs on real etcd.
    let of_users = |step: &Step| step.to_string().starts_with('F');
    let elsewhere = |step: &Step| {
        STEPS_ELSEWHERE.iter().any(|(known, _)| known == step) || of_backups(step) || of_users(step)
    };
    let missed: Vec<Step> =
        Step::ALL.iter().copied().filter(|step| steps.contains(step) == elsewhere(step)).collect();
    ensure!(missed.is_empty(), "never crashed at: {missed:?}");
    let elsewhere = |effect: &str| ELSEWHERE.iter().any(|(name, _)| *name == effect);
    let missed: Vec<&str> =
        Effect::names().filter(|effect| effects.contains(effect) == elsewhere(effect)).collect();
    ensure!(missed.is_empty(), "effects that are not sent, or that ELSEWHERE should not list: {missed:?}");
    ensure!(effects.contains("status"), "no reply to a write of status was lost");
    Ok(())
}
