//! K3: the connection Secret, with all that an application connects with. It has a copy of the client certificate, and follows it.

use quorate_model::snapshot::Presence;
use quorate_model::{AppliedObject, Leaf, Step};

use crate::draft::Draft;

/// Once the cluster id is recorded: an application that mounts the Secret starts no sooner than there is a cluster. It needs no quorum,
/// as the certificate that it follows is renewed without one.
pub(crate) fn keep_up(draft: &mut Draft<'_>) {
    let is_due = draft.seen.connection != Presence::Matches;
    if draft.record.is_bootstrapped() && is_due && has_certificate(draft) {
        draft.apply(Step::K3, AppliedObject::Connection);
    }
}

/// Whether there is a client certificate that members take, or TLS is off. One that somebody broke is renewed first (I3): applications
/// keep what they have.
fn has_certificate(draft: &Draft<'_>) -> bool {
    draft.seen.certificates.is_none() || draft.seen.has_usable(&draft.record, Leaf::Client, draft.now)
}
