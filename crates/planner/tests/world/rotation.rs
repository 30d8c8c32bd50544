//! Rotations as the tests of given and of issued authorities follow them.

use std::fmt::Write as _;

use super::World;
use super::certificates::DAY;
use quorate_model::effect::AuthorityWait;
use quorate_model::rotation::RotationStage;
use quorate_model::{Fingerprint, Span, Waiting};

/// The stage of the rotation that is under way.
pub fn stage(world: &World) -> Option<RotationStage> {
    world.seen.record.rotation.as_ref().map(|rotation| rotation.stage)
}

/// The recorded authority of clients.
pub fn recorded(world: &World) -> &str {
    world.seen.record.authority.as_ref().map_or("", Fingerprint::as_str)
}

/// Carries plans out until this holds, and lets days pass where only clients have time. The story of it.
pub fn until(world: &mut World, holds: impl Fn(&World) -> bool) -> String {
    let mut story = String::new();
    for _ in 0..300 {
        if holds(world) {
            return story;
        }
        step(world, &mut story);
    }
    panic!("{:?} stays: {story}", world.seen.record.rotation);
}

/// Carries one plan out.
pub fn step(world: &mut World, story: &mut String) {
    let plan = world.plan();
    for effect in &plan.effects {
        let _ = writeln!(story, "{} {effect}", effect.step());
    }
    let waits = plan
        .waiting
        .iter()
        .any(|waiting| matches!(waiting, Waiting::Authority(AuthorityWait::ClientsHaveTime(..))));
    let idle = plan.effects.is_empty() && plan.record == world.seen.record;
    world.carry_out(plan);
    if idle && waits {
        world.now = world.now + Span::seconds(DAY);
    }
}
