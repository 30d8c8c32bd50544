//! The init container of a Pod that restores: it fetches the snapshot onto the member's volume. It has the image of the operator, because it
//! sees the credentials, the identities and the store; the image of etcd, which the EtcdCluster names, sees none of them.
//!
//! | exit code | what happened | termination message |
//! |---|---|---|
//! | 0 | the snapshot is on the volume, or the member has data | empty |
//! | [`REFUSED`](exit::REFUSED) (64) | the guard refused the volume | the verdict as JSON |
//! | [`NOT_RESTORED`](exit::NOT_RESTORED) (66) | it failed, or was stopped: success would start etcd's container | the failure as JSON |

use clap::Args;
use quorate_api::job::{Answer, Failure, FailureKind, RestoreOrder};
use quorate_model::GuardVerdict;
use tokio_util::sync::CancellationToken;

use crate::guard::{self, Expect, GuardArgs, Report};
use crate::job::{self, PlacesArgs};
use crate::log;
use crate::restore::{self, Fetch};
use crate::run::{AgentStep, CrashAt, exit, refuse};

/// The flags of `fetch`.
#[derive(Clone, Debug, Args)]
pub struct FetchArgs {
    /// Of the guard.
    #[command(flatten)]
    pub guard: GuardArgs,
    /// Where the store's credentials are.
    #[command(flatten)]
    pub places: PlacesArgs,
    /// For tests: abort after this step.
    #[arg(long, hide = true, value_name = "STEP")]
    pub crash_at: Option<AgentStep>,
}

/// Why nothing was fetched.
enum Ended {
    Refused(Report),
    Failed(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Fetches, reports what keeps it from that, and ends the process.
///
/// A return would wait for threads that a hung volume holds.
pub async fn run(args: &FetchArgs) -> ! {
    let stop = job::stop_by_signal();
    let fetched = async {
        let stop = stop?;
        tokio::select! {
            fetched = fetch(args, stop.clone()) => fetched,
            () = stop.cancelled() => {
                let message = "stopped by a signal before the snapshot was fetched";
                Err(Failure::new(FailureKind::StoreUnavailable, message).into())
            }
        }
    };
    let code = match fetched.await {
        Ok(()) => 0,
        Err(Ended::Refused(report)) => refuse(&args.guard, &report),
        Err(Ended::Failed(failure)) => {
            job::report(&args.guard.termination_log, Answer::Failed(failure));
            exit::NOT_RESTORED
        }
    };
    std::process::exit(code.into())
}

async fn fetch(args: &FetchArgs, stop: CancellationToken) -> Result<(), Ended> {
    // The Pod may be started again long after its member has begun to serve. Whose data they are is looked at before etcd starts.
    let data_dir = args.guard.data_dir.clone();
    if on_thread(move || guard::has_data(&data_dir)).await? {
        log::info("the volume has data: nothing is fetched");
        return Ok(());
    }
    let order: RestoreOrder = job::order()?;
    // Whose volume it is comes first.
    let guard = GuardArgs { expect: Expect::Fresh, ..args.guard.clone() };
    let inspect = |guard: &GuardArgs| {
        let guard = guard.clone();
        on_thread(move || guard::inspect(&guard))
    };
    let mut report = inspect(&guard).await?;
    if report.verdict == GuardVerdict::DiskFull {
        // It is this member's. What a try left that was killed may be what fills it.
        restore::clear(&restore::scratch(&guard)).await?;
        report = inspect(&guard).await?;
    }
    if report.verdict != GuardVerdict::Fit {
        return Err(Ended::Refused(report));
    }
    let crash = CrashAt(args.crash_at);
    let context = args.places.context(stop);
    let fetch = Fetch { order: &order, guard: &guard, context: &context };
    Ok(fetch.run(|step| crash.after(step)).await?)
}

/// On a thread that nobody waits for when the container is to stop: a volume may hang.
async fn on_thread<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let looked = tokio::task::spawn_blocking(look).await;
    looked.map_err(|error| Failure::new(FailureKind::NoSpace, format!("cannot read the volume: {error}")))
}
