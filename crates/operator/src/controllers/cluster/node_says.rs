//! What a node says of why a Pod does not start, or is not ready: the words of its last warning event. Of a volume that cannot be mounted or an
//! image that cannot be pulled the status of the Pod says nothing, or not why. Words decide nothing: they are quoted in messages.

use quorate_model::{Instant, Span, Uid};

use crate::controllers::cluster::Shared;
use crate::controllers::said::Warning;

/// For how long a warning explains why a Pod is not ready. The API server keeps it for an hour, also when what it was about is long over; the
/// kubelet repeats it within two minutes while it lasts.
const EXPLAINS_FOR: Span = Span::seconds(180);

/// How much of a message is quoted, in characters.
const QUOTED: usize = 400;

/// The reasons of the kubelet and of the attach controller that say why a Pod does not start, or is not ready.
const REASONS: [&str; 7] = [
    "FailedMount",
    "FailedAttachVolume",
    "FailedMapVolume",
    "FailedCreatePodSandBox",
    "NetworkNotReady",
    "Failed",
    "Unhealthy",
];

/// The last words about a Pod.
pub(super) async fn read(shared: &Shared, namespace: &str, pod: &Uid) -> Result<Option<String>, String> {
    let warnings = shared.said.about(&shared.runtime, namespace, pod.as_str()).await?;
    Ok(last(&warnings, shared.runtime.api_clock.api_servers_time()))
}

/// The last of the warnings that explain why a Pod does not start, or is not ready, now.
fn last(warnings: &[Warning], now: Instant) -> Option<String> {
    let is_telling = |warning: &&Warning| {
        // "Error: ImagePullBackOff" says less than the failed pull before it.
        let is_told = warning.reason != "Failed" || warning.message.starts_with("Failed to pull");
        is_told
            && REASONS.contains(&&*warning.reason)
            && warning.at.is_some_and(|at| now - at <= EXPLAINS_FOR)
    };
    let Warning { reason, message, .. } = warnings.iter().rfind(is_telling)?;
    let quoted: String = without_numbers(message).chars().take(QUOTED).collect();
    Some(format!("{reason}: {quoted}"))
}

/// A probe says for how many seconds it got no answer. Status would change with each of them.
fn without_numbers(message: &str) -> String {
    match message.split_once("no answer for ") {
        Some((before, _)) => format!("{before}no answer"),
        None => message.replace(['\n', '\r'], " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(1_800_000_000_000);

    fn warning(seconds_ago: i64, reason: &str, message: &str) -> Warning {
        let at = Some(Instant(NOW.0 - seconds_ago * 1000));
        Warning { at, reason: reason.to_owned(), message: message.to_owned() }
    }

    #[test]
    fn the_last_words_of_the_node_are_quoted() {
        let warnings = [
            warning(120, "FailedMount", "MountVolume.SetUp failed for volume \"pvc-1\": earlier"),
            warning(60, "FailedMount", "MountVolume.SetUp failed: path \"/data/1\" does not exist"),
            warning(1, "BackOff", "Back-off restarting failed container"),
            warning(1, "Failed", "Error: ImagePullBackOff"),
        ];
        assert_eq!(
            last(&warnings, NOW).as_deref(),
            Some("FailedMount: MountVolume.SetUp failed: path \"/data/1\" does not exist")
        );
        assert_eq!(last(&warnings[2..], NOW), None);
        let hung = warning(0, "Unhealthy", "Readiness probe failed: hung: no answer for 35 s");
        assert_eq!(last(&[hung], NOW).as_deref(), Some("Unhealthy: Readiness probe failed: hung: no answer"));
    }

    #[test]
    fn a_warning_that_is_over_does_not_explain_why_a_pod_is_not_ready_now() {
        let of_its_start = || warning(181, "FailedMount", "MountVolume.SetUp failed: the node has no disk");
        assert_eq!(last(&[of_its_start()], NOW), None);
        let still = warning(180, "FailedMount", "MountVolume.SetUp failed: the node has no disk");
        assert!(last(&[still], NOW).is_some());
        // A kubelet's clock may be ahead.
        assert!(last(&[warning(-30, "Unhealthy", "Readiness probe failed")], NOW).is_some());
        let without_time = Warning { at: None, ..warning(0, "FailedMount", "MountVolume.SetUp failed") };
        assert_eq!(last(&[without_time], NOW), None);
    }
}
