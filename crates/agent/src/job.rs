//! Jobs of backups. The order comes in the environment, the answer is the termination message of the container: both are JSON of
//! [`quorate_api::job`].
//!
//! | exit code | what happened |
//! |---|---|
//! | 0 | it is done |
//! | 1 | it failed, and another try may succeed |
//! | 2 | it failed, and every try would, until a person changes something |

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use quorate_api::job::{self, Answer, Failure, FailureKind, Task};
use quorate_backup::{Context, Places};
use serde::de::DeserializeOwned;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::log;

/// The most bytes of a termination message that the kubelet keeps.
const MOST: usize = 4096;

/// The flags of a Job.
#[derive(Clone, Debug, Args)]
pub struct JobArgs {
    /// Where the kubelet reads the answer.
    #[arg(long, default_value = "/dev/termination-log")]
    pub termination_log: PathBuf,
    /// The directory with etcd and etcdutl, for a restore test.
    #[arg(long, default_value = "/usr/local/bin")]
    pub bin_dir: PathBuf,
    /// Where things are.
    #[command(flatten)]
    pub places: PlacesArgs,
}

/// Directories of the container. The defaults are those of the manifests.
#[derive(Clone, Debug, Args)]
pub struct PlacesArgs {
    /// The Secret of credentials of the store.
    #[arg(long, hide = true, default_value = job::CREDENTIALS_DIR)]
    pub store_credentials: PathBuf,
    /// The authorities of the store's server.
    #[arg(long, hide = true, default_value = job::CA_FILE)]
    pub store_ca: PathBuf,
    /// Files with age identities.
    #[arg(long, hide = true, default_value = job::IDENTITIES_DIR)]
    pub store_identities: PathBuf,
    /// The claim of a `pvc` destination.
    #[arg(long, hide = true, default_value = job::PVC_DIR)]
    pub store_pvc: PathBuf,
    /// The certificate for connections to etcd.
    #[arg(long, hide = true, default_value = job::ETCD_TLS_DIR)]
    pub etcd_tls: PathBuf,
    /// A directory on a volume of the Job.
    #[arg(long, hide = true, default_value = job::SCRATCH_DIR)]
    pub scratch: PathBuf,
    /// The keys of the namespace that sign manifests.
    #[arg(long, hide = true, default_value = job::SIGNING_KEYS_DIR)]
    pub signing_keys: PathBuf,
}

impl PlacesArgs {
    /// With the log of the agent.
    pub(crate) fn context(&self, stop: CancellationToken) -> Context {
        let places = Places {
            credentials: self.store_credentials.clone(),
            ca_file: self.store_ca.clone(),
            identities: self.store_identities.clone(),
            pvc: self.store_pvc.clone(),
            etcd_tls: self.etcd_tls.clone(),
            scratch: self.scratch.clone(),
            signing_keys: self.signing_keys.clone(),
        };
        Context { places, stop, log: log::info }
    }
}

/// Carries out the task of the environment and reports how it ended.
pub async fn run<T: Task>(
    args: &JobArgs,
    carry_out: impl AsyncFnOnce(&T, &Context) -> Result<T::Answered, Failure>,
) -> ExitCode {
    let done = async {
        let stop = stop_by_signal()?;
        let task = order()?;
        Box::pin(carry_out(&task, &args.places.context(stop))).await.map(T::answer)
    };
    ExitCode::from(end(&args.termination_log, done.await))
}

/// `agent fetch-backup`. Only what fails is answered: the container that tests answers the rest.
pub async fn fetch(args: &JobArgs) -> ExitCode {
    let fetched = async {
        let stop = stop_by_signal()?;
        quorate_backup::fetch_for_test(&order()?, &args.places.context(stop)).await
    };
    match fetched.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(end(&args.termination_log, Err(failure))),
    }
}

/// Reports how an order ended, and makes the exit code of it.
pub(crate) fn end(termination_log: &Path, done: Result<Answer, Failure>) -> u8 {
    let (answer, code) = match done {
        // A mount may be missing for a moment: it is looked at again.
        Ok(answer @ Answer::NothingStored(_)) => (answer, 1),
        Ok(answer) => (answer, 0),
        Err(failure) if failure.kind.may_pass() => (Answer::Failed(failure), 1),
        Err(failure) => (Answer::Failed(failure), 2),
    };
    report(termination_log, answer);
    code
}

/// The order of the environment.
pub(crate) fn order<O: DeserializeOwned>() -> Result<O, Failure> {
    if let Ok(names) = std::env::var(job::REFUSED_ENV) {
        let message = format!(
            "jobTemplate.env has {names}, which decides whom a Job trusts with what it sends. A proxy must be one of those that the operator \
             admits: --allowed-proxies, allowedProxies of the chart"
        );
        return Err(Failure::new(FailureKind::OrderRefused, message));
    }
    let refused = |why: String| {
        Failure::new(
            FailureKind::OrderRefused,
            format!("{} has no order for this command: {why}", job::ORDER),
        )
    };
    let text = env::var(job::ORDER).map_err(|error| refused(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| refused(error.to_string()))
}

/// Cancelled by SIGTERM or SIGINT.
pub(crate) fn stop_by_signal() -> Result<CancellationToken, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::new(FailureKind::StoreUnavailable, format!("cannot handle signals: {error}"))
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let stop = CancellationToken::new();
    let cancelled = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        cancelled.cancel();
    });
    Ok(stop)
}

/// Writes the answer to where the kubelet reads it.
pub(crate) fn report(file: &Path, answer: Answer) {
    match &answer {
        Answer::BackedUp(manifest) => log::info(&format!("{} is complete", manifest.key)),
        Answer::Removed => log::info("removed"),
        Answer::Read(manifest) => log::info(&format!("{} is what was stored", manifest.key)),
        Answer::Verified(verified) => log::info(&format!("verified: {} keys", verified.keys)),
        Answer::Looked(found) => log::info(&format!(
            "gone: {}; changed: {}; the others are there",
            found.gone.join(" "),
            found.changed.join(" ")
        )),
        Answer::Found(found) => {
            log::info(&format!(
                "the newest is {}, finished at {}",
                found.manifest.key, found.manifest.finished
            ));
            found.skipped.iter().for_each(|why| log::info(&format!("left out: {why}")));
        }
        Answer::Inspected(manifest) => {
            log::info(&format!("{} is there, as its manifest says", manifest.key));
        }
        Answer::Listed(listed) => {
            log::info(&format!("{} backups are on this page", listed.backups.len()));
            listed.notes.iter().for_each(|why| log::info(&format!("left out: {why}")));
        }
        Answer::Stored(stored) => log::info(&format!(
            "committed up to entry {}, the last entry is {}; etcd is not started",
            stored.committed_index, stored.last_index
        )),
        Answer::NothingStored(why) => {
            log::info(&format!("nothing to recover from: {why}; etcd is not started"));
        }
        Answer::Failed(failure) => log::error(&format!("{:?}: {}", failure.kind, failure.message)),
    }
    if let Err(error) = fs::write(file, to_json(answer)) {
        log::warn(&format!("cannot write {}: {error}", file.display()));
    }
}

/// The answer as JSON that the kubelet keeps whole.
fn to_json(mut answer: Answer) -> String {
    let json = |answer: &Answer| serde_json::to_string(answer).expect("plain strings and numbers");
    let text = json(&answer);
    if text.len() <= MOST {
        return text;
    }
    match &mut answer {
        // The manifest in the store has them.
        Answer::BackedUp(manifest) | Answer::Read(manifest) => manifest.recipients.clear(),
        Answer::Verified(verified) => verified.manifest.recipients.clear(),
        Answer::Failed(Failure { message, .. }) | Answer::NothingStored(message) => {
            // Escaped, a character may take six bytes.
            let end = message.char_indices().nth(MOST / 8).map_or(message.len(), |(end, _)| end);
            message.truncate(end);
            message.push_str(" ...");
        }
        // The order has so few objects that all their names fit.
        Answer::Found(found) => {
            while found.skipped.pop().is_some() && json(&Answer::Found(found.clone())).len() > MOST {}
        }
        // Without a note its backups fit.
        Answer::Listed(listed) => {
            while listed.notes.pop().is_some() && json(&Answer::Listed(listed.clone())).len() > MOST {}
        }
        // What is longer was refused.
        Answer::Inspected(_) | Answer::Removed | Answer::Stored(_) | Answer::Looked(_) => {}
    }
    json(&answer)
}

#[cfg(test)]
mod tests {
    use quorate_api::backup::ExistingObject;
    use quorate_api::job::{FoundBackup, ListedBackups, Manifest};

    use super::*;

    #[test]
    fn an_answer_is_never_cut_by_the_kubelet() {
        let failed = Answer::Failed(Failure::new(FailureKind::NoSource, "\u{1}ä\"".repeat(5000)));
        let backed_up =
            Answer::BackedUp(Manifest { recipients: vec!["age1".repeat(16); 200], ..Manifest::default() });
        let left_out = vec!["x".repeat(900); 5];
        let found = Answer::Found(FoundBackup { skipped: left_out, ..FoundBackup::default() });
        let notes = vec!["x\n".repeat(400); 3];
        let backups =
            vec![
                ExistingObject { key: "k".repeat(230), sha256: "5".repeat(64), ..ExistingObject::default() };
                10
            ];
        let listed = Answer::Listed(ListedBackups { backups, notes, ..ListedBackups::default() });
        for answer in [failed, backed_up, found, listed, Answer::Removed] {
            let text = to_json(answer);
            assert!(text.len() <= MOST, "{} bytes", text.len());
            serde_json::from_str::<Answer>(&text).unwrap();
        }
    }
}
