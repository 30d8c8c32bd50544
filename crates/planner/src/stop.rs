//! Stops members for good, or for long: at size zero (Z1), before the end of the cluster (D1) or of an incarnation (J2), and after an attempt
//! that was given up (BA).
//!
//! All at once. What was acknowledged is on the disks of a quorum, whoever stops last. No Pod is deleted by force: one whose kubelet does not
//! confirm that its containers have stopped stays, is named, and holds up what needs it gone. Nor is one that is all that keeps the data
//! of a voter (R21): safety refuses it, and [`claims`](crate::claims) says what becomes of it.

use quorate_model::{MemberName, Step};

use crate::draft::{Draft, Progress, for_all};

/// Deletes these Pods. Done when all are gone.
pub(crate) fn all(draft: &mut Draft<'_>, step: Step, pods: &[MemberName]) -> Progress {
    for_all(pods, |member| draft.delete_pod(step, member))
}

/// Deletes every Pod of the cluster.
pub(crate) fn every_pod(draft: &mut Draft<'_>, step: Step) -> Progress {
    let pods: Vec<MemberName> = draft.seen.pods.keys().cloned().collect();
    all(draft, step, &pods)
}
