//! The restore of a member, as a part of `agent run`: its order, its end, and how that is reported.

use quorate_api::job::{Answer, Failure, FailureKind, ORDER, RestoreOrder};
use quorate_model::GuardVerdict;

use super::crash::CrashAt;
use super::signals::Signals;
use super::{RunArgs, exit, inspected, refuse};
use crate::guard::{Expect, GuardArgs};
use crate::job;
use crate::{log, restore};

/// The order of a restore, if the Pod has one.
pub(super) fn order() -> Option<Result<RestoreOrder, Failure>> {
    let text = std::env::var_os(ORDER)?;
    Some(serde_json::from_slice(text.as_encoded_bytes()).map_err(|error| {
        Failure::new(FailureKind::OrderRefused, format!("{ORDER} is not the order of a restore: {error}"))
    }))
}

/// Restores, unless that is done already. Returns the exit code if etcd must not be started.
pub(super) async fn restore(
    args: &RunArgs,
    order: Result<RestoreOrder, Failure>,
    signals: &mut Signals,
    crash: CrashAt,
) -> Result<Option<u8>, String> {
    // Whose volume it is comes first. Data may be there or not.
    let guard = GuardArgs { expect: Expect::Fresh, ..args.guard.clone() };
    let mut report = inspected(&guard, signals).await?;
    if report.as_ref().is_some_and(|report| report.verdict == GuardVerdict::DiskFull) {
        // It is this member's. What a try left that was killed may be what fills it. What was fetched is still needed.
        match restore::clear(&restore::data_dir(&guard)).await {
            Ok(()) => report = inspected(&guard, signals).await?,
            Err(failure) => log::warn(&failure.message),
        }
    }
    match report {
        None => return Ok(Some(exit::STOPPED)),
        Some(report) if report.verdict != GuardVerdict::Fit => return Ok(Some(refuse(&args.guard, &report))),
        Some(_) => {}
    }
    let restored = async {
        let order = order?;
        let restore = restore::Restore { order: &order, guard: &guard, etcdutl: &args.etcdutl };
        restore.run(|step| crash.after(step)).await
    };
    tokio::select! {
        restored = restored => match restored {
            Ok(()) => Ok(None),
            Err(failure) => {
                job::report(&args.guard.termination_log, Answer::Failed(failure));
                Ok(Some(exit::NOT_RESTORED))
            }
        },
        // What it leaves is deleted by the next try.
        signal = signals.stop() => {
            log::info(&format!("{signal} before etcd was started"));
            Ok(Some(exit::STOPPED))
        }
    }
}
