//! The operator dies at every numbered step that the life of a cluster passes through, and is started again; and of every
//! kind of request the reply is lost once. Whatever it was: the same end, one cluster id, no change of membership and no
//! create or delete more often than without, and then silence.

mod world;

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use quorate_model::{Effect, KubeEffect, Step};
use quorate_operator::crash::Side;
use world::story::{EFFECTS, Mishap, Scene, name_of, tell};

// Each the shortest way to what is told with every mishap: its last scene.
const FOUNDED: [Scene; 1] = [Scene::Create];
const GROWN: [Scene; 2] = [Scene::Create, Scene::Scale(5)];
const SHRUNK: [Scene; 3] = [Scene::Create, Scene::Scale(5), Scene::ScaleWhileTheNextToLeaveLeads(3)];
const ASLEEP: [Scene; 2] = [Scene::Create, Scene::Scale(0)];
const AWAKE: [Scene; 3] = [Scene::Create, Scene::Scale(0), Scene::Scale(3)];
const MADE_AGAIN: [Scene; 2] = [Scene::Create, Scene::LosePod("demo-1", 3)];
const GONE: [Scene; 2] = [Scene::Create, Scene::Delete];
const UPGRADE: [Scene; 3] = [Scene::CreateOne("3.6.15"), Scene::Scale(2), Scene::Upgrade("3.6.16")];
const MEMORY: [Scene; 2] = [Scene::CreateInMemory, Scene::LosePod("demo-1", 3)];
const LATE: [Scene; 2] = [Scene::CreateOne("3.6.16"), Scene::GrowBySomebodyWhoDoesNotStart];
const ABANDONED: [Scene; 1] = [Scene::CreateAndThinkBetterOfIt];
const ADOPTED: [Scene; 3] = [Scene::CreateOne("3.6.16"), Scene::Delete, Scene::Adopt];
const STRAY: [Scene; 2] = [Scene::CreateOne("3.6.16"), Scene::MeetAStrayPod];

/// Effects that no world with modelled members can have.
const ELSEWHERE: [(&str, &str); 2] = [
    ("IssueCertificates", "modelled members speak plain text: crash.rs"),
    ("ExpandVolume", "volumes here have no class that lets them grow: testing/scenarios"),
];

/// Whether the operator dies at this step of the story: a learner's deadline is long, and its other steps are those of
/// growing and shrinking.
fn is_told(story: &[Scene], step: Step) -> bool {
    *story != LATE || step == Step::G5
}

/// Tells the story with each of the mishaps that its last scene can have.
async fn with_every_mishap(story: &[Scene]) -> Result<()> {
    let scene = story.len() - 1;
    let clean = tell(story, None).await.context("without a mishap")?;
    let crashes = clean
        .steps
        .iter()
        .filter(|(at, step)| *at == scene && is_told(story, *step))
        .flat_map(|(at, step)| [Side::Before, Side::After].map(|side| Mishap::Crash(*at, side, *step)));
    let losses = clean.effects.iter().filter(|(at, _)| *at == scene && *story != LATE);
    let losses = losses.map(|(at, effect)| Mishap::ReplyLost(*at, effect));
    for mishap in crashes.chain(losses) {
        let told = tell(story, Some(mishap)).await.with_context(|| format!("{mishap:?}"))?;
        ensure!(told.struck, "{mishap:?} never came about");
        ensure!(
            told.changes == clean.changes,
            "{mishap:?}: {:?} instead of {:?}",
            told.changes,
            clean.changes
        );
        let (writes, allowed) = (&told.writes[scene], &clean.writes[scene]);
        for (object, count) in writes {
            let allowed = allowed.get(object).copied().unwrap_or(0);
            ensure!(*count <= allowed, "{mishap:?}: {object} {count} times, {allowed} without it");
        }
    }
    Ok(())
}

macro_rules! stories {
    ($($name:ident: $story:expr;)*) => {
        $(#[tokio::test(start_paused = true)]
        async fn $name() -> Result<()> {
            with_every_mishap(&$story).await
        })*

        /// The stories whose last scene is told with every mishap.
        const TOLD: &[&[Scene]] = &[$(&$story),*];
    };
}

stories! {
    no_mishap_while_it_is_founded_changes_the_end: FOUNDED;
    no_mishap_while_it_grows_changes_the_end: GROWN;
    no_mishap_while_it_shrinks_changes_the_end: SHRUNK;
    no_mishap_while_it_goes_to_sleep_changes_the_end: ASLEEP;
    no_mishap_while_it_wakes_changes_the_end: AWAKE;
    no_mishap_while_a_pod_is_made_again_changes_the_end: MADE_AGAIN;
    no_mishap_while_it_is_deleted_changes_the_end: GONE;
    no_mishap_during_an_upgrade_changes_the_end: UPGRADE;
    no_mishap_while_a_member_in_memory_is_replaced_changes_the_end: MEMORY;
    no_mishap_while_a_learner_is_given_up_changes_the_end: LATE;
    no_mishap_while_a_founding_is_given_up_changes_the_end: ABANDONED;
    no_mishap_while_old_data_are_adopted_changes_the_end: ADOPTED;
    no_mishap_while_a_stray_pod_is_cleared_away_changes_the_end: STRAY;
}

#[tokio::test(start_paused = true)]
async fn every_step_is_crashed_at_and_of_every_effect_a_reply_is_lost() -> Result<()> {
    let (mut steps, mut effects) = (BTreeSet::new(), BTreeSet::new());
    for story in TOLD {
        let told = tell(story, None).await.with_context(|| format!("{story:?}"))?;
        let is_last = |at: usize| at + 1 == story.len();
        steps.extend(
            told.steps
                .into_iter()
                .filter(|(at, step)| is_last(*at) && is_told(story, *step))
                .map(|(_, step)| step),
        );
        effects.extend(
            told.effects
                .into_iter()
                .filter(|(at, _)| is_last(*at) && **story != LATE)
                .map(|(_, effect)| effect),
        );
    }
    let missed: Vec<Step> = Step::ALL.into_iter().filter(|step| !steps.contains(step)).collect();
    ensure!(missed.is_empty(), "never crashed at: {missed:?}");
    let elsewhere = |effect: &str| ELSEWHERE.iter().any(|(name, _)| *name == effect);
    let missed: Vec<&str> =
        EFFECTS.into_iter().filter(|effect| effects.contains(effect) == elsewhere(effect)).collect();
    ensure!(missed.is_empty(), "no reply was lost to these, or it was against what is said: {missed:?}");
    ensure!(effects.contains("status"), "no reply to a write of status was lost");
    ensure!(EFFECTS.contains(&name_of(&Effect::kube(Step::B1, KubeEffect::AddFinalizer))));
    Ok(())
}
