//! R18: an act that takes redundancy is dropped when what it rests on was observed too long ago.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use quorate_model::Step;
use quorate_operator::crash::{CrashSide, Hook};
use quorate_planner::safety::mutants::Broken;

use crate::world::{World, plain, scale, settled, until};

/// Every removal waits for longer than an observation is fresh, as behind a slow API server.
struct SlowRemovals;

impl Hook for SlowRemovals {
    fn reached(&self, side: CrashSide, step: Step) -> BoxFuture<'static, ()> {
        match (side, step) {
            (CrashSide::Before, Step::S3) => tokio::time::sleep(Duration::from_secs(16)).boxed(),
            _ => ready(()).boxed(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s09_a_removal_that_waited_too_long_is_not_sent() -> Result<()> {
    assert_eq!(members_after_a_slow_scale_in().await?, 3);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s09_without_r18_it_is_sent_on_an_old_observation() -> Result<()> {
    let _broken = Broken::rule("R18");
    assert_eq!(members_after_a_slow_scale_in().await?, 2, "this test does not detect that R18 is broken");
    Ok(())
}

async fn members_after_a_slow_scale_in() -> Result<usize> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let operator = world.operator_with(Arc::new(SlowRemovals));
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    scale(&world, 2).await?;
    until("the removal is recorded", async || {
        let members = world.status().await?.members;
        let leaves = members.iter().any(|member| member.phase == quorate_api::status::MemberPhase::Leaving);
        Ok(if leaves { Ok(()) } else { Err(format!("{members:?}")) })
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(40)).await;
    let left = world.members.names().len();
    operator.stop().await?;
    Ok(left)
}
