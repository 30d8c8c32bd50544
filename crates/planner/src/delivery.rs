//! How the agent's program comes into Pods. W3: where an image volume fails, this is recorded, and an init container brings the
//! program into every later Pod of the cluster. A Pod that waits for an image volume is deleted. Pods that run keep theirs.

use quorate_model::snapshot::{ImageVolume, Pod};
use quorate_model::{Instant, MemberName, Span, Step};

use crate::draft::Draft;

/// How long the volumes of a Pod may be mounted before its image volume counts as failed: a kubelet without image volumes reports
/// nothing else, in events apart. Attaching a disk takes less than this as a rule; where it takes longer, an init container is
/// no harm.
pub(crate) const MOUNTED_WITHIN: Span = Span::seconds(60);

pub(crate) fn fall_back(draft: &mut Draft<'_>) {
    let refused = draft.seen.image_volume_refused.as_ref();
    let refused = refused.map(|why| format!("the API server refused a Pod with an image volume: {why}"));
    let failed: Vec<(MemberName, String)> = draft
        .seen
        .pods
        .iter()
        .filter(|(_, pod)| !pod.terminating)
        .filter_map(|(name, pod)| Some((name.clone(), failure(pod, draft.now)?)))
        .collect();
    if let Some(why) = refused.or_else(|| failed.first().map(|(name, why)| format!("Pod {name}: {why}"))) {
        draft.write_record(Step::W3, |record| {
            record.no_image_volume.get_or_insert(why);
        });
    }
    for (member, _) in failed {
        let _ = draft.delete_pod(Step::W3, &member);
    }
}

/// Why the image volume of a Pod that has not started yet counts as failed.
fn failure(pod: &Pod, now: Instant) -> Option<String> {
    match pod.image_volume.as_ref()? {
        ImageVolume::Refused(why) => Some(why.clone()),
        ImageVolume::Mounting(since) if now - *since >= MOUNTED_WITHIN => {
            Some(format!("its volumes are not mounted after {} s", MOUNTED_WITHIN.0 / 1000))
        }
        ImageVolume::Mounting(_) => None,
    }
}
