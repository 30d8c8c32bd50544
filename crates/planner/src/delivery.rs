//! How the agent's program comes into Pods. W3: where an image volume fails, this is recorded, and an init container brings the
//! program into every later Pod of the cluster. A Pod that waits for an image volume is deleted. Pods that run keep theirs.

use quorate_model::snapshot::{ImageVolume, Pod};
use quorate_model::{MemberName, Span, Step};

use crate::draft::Draft;
use crate::restore;

/// How long volumes may be mounted before the image volume counts as failed: a kubelet without image volumes reports nothing else.
/// Longer than the kubelet itself waits before it reports a mount that failed (2 min 3 s, `podAttachAndMountTimeout`).
pub(crate) const MOUNTED_WITHIN: Span = Span::seconds(150);

/// The same where image volumes have worked for the cluster, and it is rather the volume with the data that comes late: after the end of a
/// node Kubernetes forces the detach after six minutes. An older kubelet on one of the nodes is still found.
pub(crate) const ATTACHED_WITHIN: Span = Span::seconds(600);

pub(crate) fn fall_back(draft: &mut Draft<'_>) {
    let pods = draft.seen.pods.iter().filter(|(_, pod)| !pod.terminating);
    let failed = pods.filter_map(|(name, pod)| Some((name.clone(), failure(draft, pod)?)));
    let failed: Vec<(MemberName, String)> = failed.collect();
    let first = || failed.first().map(|(name, why)| format!("Pod {name}: {why}"));
    if let Some(why) = refused(draft).or_else(first) {
        draft.write_record(Step::W3, |record| {
            record.no_image_volume.get_or_insert(why);
        });
    }
    for (member, _) in failed {
        draft.end_pod(Step::W3, &member);
    }
}

/// Why the API server refused a Pod with an image volume, once it has taken one without: it may refuse Pods for other reasons.
fn refused(draft: &Draft<'_>) -> Option<String> {
    let why = draft.seen.image_volume_refused.as_ref()?;
    let other_is_taken = draft.seen.pods.values().any(|pod| pod.installs_agent);
    other_is_taken.then(|| format!("the API server refused a Pod with an image volume: {why}"))
}

/// Why the image volume of a Pod counts as failed.
fn failure(draft: &Draft<'_>, pod: &Pod) -> Option<String> {
    // Reports of a kubelet may be late, and in memory the data of a member that started meanwhile go with its Pod.
    let may_have_data =
        draft.record.is_in_memory() && (draft.record.had_leader || draft.record.is_bootstrapped());
    let limit = if is_image_volume_known_to_work(draft) { ATTACHED_WITHIN } else { MOUNTED_WITHIN };
    match pod.image_volume.as_ref()? {
        ImageVolume::Refused(why) => Some(why.clone()),
        // The claim with the snapshot may be what cannot be mounted.
        ImageVolume::Mounting(_) if restore::mounts_claim(&draft.record, pod) => None,
        ImageVolume::Mounting(since) if draft.now - *since >= limit && !may_have_data => {
            Some(format!("its volumes are not mounted after {} s", limit.0 / 1000))
        }
        ImageVolume::Mounting(_) => None,
    }
}

/// Whether the members got the agent by an image volume before: the cluster runs, and no Pod of it brings the agent in another way.
fn is_image_volume_known_to_work(draft: &Draft<'_>) -> bool {
    draft.record.is_bootstrapped() && !draft.seen.pods.values().any(|pod| pod.installs_agent)
}
