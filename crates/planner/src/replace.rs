//! A member whose data are lost for certain is removed, and growth brings another in its place (P1, then the steps of
//! shrink and grow): remove first, then add. Lost are the data of a Pod that held them in memory (it is gone, the
//! guard or etcd refuses to start it, or it never joined and does not come up), and whatever volume etcd's list says its
//! member never started on: a founding member that came too late, when a quorum had formed
//! without it. Nothing of `new` may start any more (R1), and there is nothing that it could continue from.

use quorate_model::record::{Leaving, Stage};
use quorate_model::{GuardVerdict, MemberName, Step, Waiting};

use crate::draft::{Draft, Flow, ON};
use crate::{safety, shrink};

pub(crate) fn lost_members(draft: &mut Draft<'_>) -> Flow {
    let Some(lost) = lost_voter(draft) else { return ON };
    match safety::may_remove(draft.seen, &draft.record, draft.now, &lost) {
        Ok(()) => {
            draft.enter(Step::P1, &lost, Stage::Leaving(Leaving::Lost));
            shrink::finish(draft)
        }
        Err(why) => {
            draft.wait(Waiting::Unsafe(why));
            ON
        }
    }
}

/// A voter whose data are lost for certain.
pub(crate) fn lost_voter(draft: &Draft<'_>) -> Option<MemberName> {
    draft.record.voters().find(|voter| is_lost(draft, voter)).cloned()
}

pub(crate) fn is_lost(draft: &Draft<'_>, voter: &MemberName) -> bool {
    if draft.record.is_in_memory() {
        // A Pod may stay while its memory goes, when its node restarts. Before it is marked its guard takes that for a first
        // start, and etcd refuses.
        let forgot = draft.pod(voter).is_some_and(|pod| pod.already_bootstrapped && !pod.ready);
        // What was never marked, does not answer and ended again when it was restarted is not the Pod in which the member
        // voted, or contradicts the others. (What ails a Pod that answers is its probe.)
        let never_joined = draft.status_of(voter).is_none()
            && draft.pod(voter).is_some_and(|pod| {
                pod.has_run && !pod.joined && !pod.ready && pod.trouble.is_some() && pod.restarts > 1
            });
        return draft.pod(voter).is_none() || guard_misses_data(draft, voter) || forgot || never_joined;
    }
    let never_started = draft.listed(voter).is_some_and(|listed| !listed.started);
    never_started && (guard_misses_data(draft, voter) || draft.lost_its_volume(voter))
}

fn guard_misses_data(draft: &Draft<'_>, voter: &MemberName) -> bool {
    let refused = draft.pod(voter).and_then(|pod| pod.guard.as_ref());
    refused.is_some_and(|(verdict, _)| *verdict == GuardVerdict::DataMissing)
}
