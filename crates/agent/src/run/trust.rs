//! Waits until the kubelet has brought the certificate authorities that this Pod needs.
//!
//! etcd reads the authorities that it trusts once per process (`ServerConfig` in [client/pkg/transport/listener.go]). The kubelet brings
//! what has changed in a Secret up to two minutes late, and may give a new Pod what it has cached ([Secrets as files]). An
//! etcd that starts with an older `ca.crt` refuses, for the life of its process, peers whose leaf a newer authority has signed.
//!
//! The operator counts the sets of authorities: the file `trust` beside `ca.crt` has the number of the set. Both are of one Secret, so
//! the kubelet replaces them at once.
//!
//! There is no deadline: a member that starts with the old authorities is worse than one that waits. Of the one that waits it is known
//! that it is not ready, and the rollout goes on only when it is.
//!
//! [client/pkg/transport/listener.go]: https://github.com/etcd-io/etcd/blob/main/client/pkg/transport/listener.go
//! [Secrets as files]: https://kubernetes.io/docs/concepts/configuration/secret/#using-secrets-as-files-from-a-pod

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::refuse_readiness;
use super::signals::Signals;
use crate::log;
use crate::probe::Refusal;

/// The file of a directory that has the number of its authorities.
const FILE: &str = "trust";

/// How often the files are read.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// The flags of the wait.
#[derive(Clone, Debug, Args)]
pub struct TrustArgs {
    /// etcd is started when the file `trust` of every --trust-dir has this number or a higher one. With 0 nothing is waited for.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub trust: u32,
    /// A directory with the certificates of etcd, as the kubelet brings them; may be repeated.
    #[arg(long, value_name = "DIR")]
    pub trust_dir: Vec<PathBuf>,
}

impl TrustArgs {
    /// What is missing, and where; `None` if nothing is.
    fn missing(&self) -> Option<String> {
        let older = self.trust_dir.iter().map(|dir| dir.join(FILE)).filter_map(|file| {
            let number = number(&fs::read_to_string(&file).unwrap_or_default());
            (number < self.trust).then(|| format!("{} is {number}", file.display()))
        });
        let older: Vec<_> = older.collect();
        if older.is_empty() {
            return None;
        }
        let (older, needed) = (older.join(", "), self.trust);
        Some(format!(
            "waiting for the kubelet to bring the certificates: {older}, and this Pod needs {needed}"
        ))
    }
}

/// A file that is missing, or has no number, is older than any set.
fn number(text: &str) -> u32 {
    text.trim().parse().unwrap_or(0)
}

/// Waits until nothing is missing; meanwhile the probe answers what is. Returns whether etcd is to be started: the container may be
/// stopped first.
pub(super) async fn arrived(args: &TrustArgs, signals: &mut Signals, refusal: &Refusal) -> bool {
    let mut has_waited = false;
    while let Some(missing) = args.missing() {
        if !has_waited {
            has_waited = true;
            log::info(&format!("{missing}: looking again every second"));
        }
        refuse_readiness(refusal, Some(missing));
        tokio::select! {
            () = tokio::time::sleep(LOOKS_EVERY) => {}
            signal = signals.stop() => {
                log::info(&format!("{signal} before etcd was started"));
                return false;
            }
        }
    }
    if has_waited {
        refuse_readiness(refusal, None);
        log::info("the kubelet has brought the certificates that this Pod needs");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn what_is_no_decimal_number_counts_as_zero() {
        let table = [("2", 2), ("2\n", 2), ("", 0), ("two", 0), ("0x2", 0), ("-1", 0), ("4294967296", 0)];
        for (text, expected) in table {
            assert_eq!(number(text), expected, "{text:?}");
        }
    }
}
