//! J4: a new incarnation of the cluster takes the place of the present one: another token and cluster id, new names (R2), and the data of a
//! snapshot. The bootstrap goes on from there (B1 to B8).
//!
//! Whoever orders it records a [`NextIncarnation`] first (J1). `in_place` then stops the present members and quarantines their volumes (J2, J3).

use std::collections::BTreeMap;

use quorate_model::effect::{Rehearsal, Successor};
use quorate_model::incarnation::{Incarnation, NextIncarnation};
use quorate_model::{Record, Step};

use crate::draft::Draft;
use crate::{bootstrap, safety};

/// Records the new incarnation, unless it is not safe yet.
pub(crate) fn begin(draft: &mut Draft<'_>) {
    if !draft.wait_unless_safe(safety::may_begin_incarnation(draft.view())) {
        record(draft);
    }
}

/// The record of the new incarnation, if one is ordered.
fn record(draft: &mut Draft<'_>) {
    let Some(NextIncarnation { order, replaces, restore, members, stopped: _, since: _ }) =
        draft.record.next_incarnation.clone()
    else {
        return;
    };
    let first = draft.next_ordinal();
    draft.write_record(Step::J4, |record| {
        let before = std::mem::take(record);
        let number = before.incarnation.map_or(0, |present| present.number) + 1;
        *record = Record {
            // B1 counts the next attempt, whose token is another one.
            attempt: before.attempt,
            token: before.token,
            adopted_by: before.adopted_by,
            taken_back: false,
            // The authorities sign for the life of the EtcdCluster (R19).
            authority: before.authority,
            peer_authority: before.peer_authority,
            certificates: before.certificates,
            given: before.given,
            rotation: before.rotation,
            spent_rotation: before.spent_rotation,
            trust: before.trust,
            // What was on stays on, whatever the snapshot says.
            auth: before.auth,
            client_grace: before.client_grace,
            spent_disable_auth: before.spent_disable_auth,
            // B1 commits the spec. Until then a spec that cannot be carried out is replaced by what was committed.
            target: before.target,
            restore: Some(restore),
            next_ordinal: first,
            no_image_volume: before.no_image_volume,
            last_replacement: before.last_replacement,
            incarnation: Some(Incarnation { number, first, order, replaced: replaces, members }),
            // What follows is of the members that are gone.
            cluster_id: None,
            had_leader: false,
            abandoned: None,
            hibernating: false,
            stopped_at: None,
            failed_learners: None,
            members: BTreeMap::new(),
            suspected: BTreeMap::new(),
            differ_since: None,
            replacement: None,
            downgrading_to: None,
            earlier: None,
            takes_defaults: None,
            defragmenting: None,
            next_incarnation: None,
            quorum_recovery: None,
            // The annotation is still there, and was followed.
            last_quorum_recovery: before.last_quorum_recovery,
        };
    });
}

/// What would create the claim and the Pod of the first new member, were the order carried out now, and the record by which. The others
/// differ by their names only.
pub(crate) fn rehearse(draft: &Draft<'_>, next: NextIncarnation) -> Rehearsal {
    let of = Successor::Incarnation(next.order.clone());
    let mut later = Draft::new(draft.seen, draft.now);
    later.record.next_incarnation = Some(next);
    record(&mut later);
    let restore = later.record.restore.clone();
    bootstrap::begin_attempt(&mut later, restore);
    let effects = bootstrap::first_member(&later);
    Rehearsal { of, record: later.record, effects }
}
