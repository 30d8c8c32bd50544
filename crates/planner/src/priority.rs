//! The PriorityClass that the operator gives to Pods whose template names none. W4: where the namespace refuses it, and takes a
//! Pod without it, this is recorded, and later Pods come without it. An edit of the spec forgets it, so that the class is tried again.

use quorate_model::Step;

use crate::draft::Draft;

pub(crate) fn fall_back(draft: &mut Draft<'_>) {
    if let Some(refused) = &draft.seen.priority_class_refused
        && refused.taken_without
    {
        let refusal = refused.refusal.clone();
        draft.write_record(Step::W4, |record| {
            record.no_priority_class.get_or_insert(refusal);
        });
    }
}
