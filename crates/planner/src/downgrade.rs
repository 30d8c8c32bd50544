//! Takes a finished minor upgrade back by etcd's own downgrade, on order: the lower `spec.version` and the annotation
//! `operator.etcd.io/allow-downgrade` with that version. V1 ask etcd whether it may be; V2 enable it; V3 wait until the data of every
//! member are those of the lower version, while all binaries are still the newer ones; V4 commit the lower version, which is then rolled out;
//! V5 etcd has ended the downgrade. VC: the order was withdrawn before V4, or the higher version is desired again, so cancel.

use quorate_model::effect::{DowngradeAction, Downgrading};
use quorate_model::{EtcdCall, MemberName, Minor, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON};
use crate::{claims, safety, upgrade};

pub(crate) fn settle(draft: &mut Draft<'_>) -> Flow {
    let Some(committed) = draft.record.target.as_ref().map(|target| target.version.line()) else { return ON };
    match (upgrade::is_ordered(draft.view()), safety::downgrade_in_force(draft.view())) {
        // V4
        (_, Some(to)) if to == committed => {
            if all_run(draft, to) {
                draft.wait(Waiting::Downgrading(Downgrading::Ending(to)));
            } else if let Some(runs) = image_stays_newer(draft, to) {
                draft.wait(Waiting::Downgrading(Downgrading::ImageStays { runs, to }));
            }
            ON
        }
        // R21: its members move to new claims first, and none may join while a downgrade is in force (R20).
        (Some(_), Some(to)) if claims::outlive_no_stop(draft) => {
            draft.wait(Waiting::Downgrading(Downgrading::CancellingForClaims(to)));
            ask(draft, to, [(Step::VC, DowngradeAction::Cancel)])
        }
        (Some(_), None) if claims::outlive_no_stop(draft) => {
            draft.wait(Waiting::Downgrading(Downgrading::ClaimsFirst));
            ON
        }
        // V3
        (Some(line), Some(to)) if line == to => {
            draft.wait(Waiting::Downgrading(Downgrading::Lowering(to)));
            ON
        }
        (_, Some(to)) => {
            draft.wait(Waiting::Downgrading(Downgrading::Cancelling(to)));
            ask(draft, to, [(Step::VC, DowngradeAction::Cancel)])
        }
        (Some(line), None) => {
            draft.wait(Waiting::Downgrading(Downgrading::Asked(line)));
            ask(draft, line, [(Step::V1, DowngradeAction::Validate), (Step::V2, DowngradeAction::Enable)])
        }
        (None, None) => {
            match draft.record.downgrading_to {
                Some(line) if all_run(draft, line) => {
                    draft.write_record(Step::V5, |record| record.downgrading_to = None);
                }
                None => note_reverted_edit(draft, committed),
                Some(_) => {}
            }
            ON
        }
    }
}

/// An edit that was reverted at once: only now it is seen that the newer version has run. What allows to go back is recorded as long as
/// it can be seen, because a restart needs it when nobody answers.
fn note_reverted_edit(draft: &mut Draft<'_>, committed: Minor) {
    let ran_newer = |voter| draft.view().line_of(voter).is_some_and(|ran| committed < ran);
    let has_version = draft.record.target.as_ref().is_some_and(|target| target.pod.image_has_version);
    if has_version && draft.record.voters().any(ran_newer) && safety::is_half_done(draft.view(), committed) {
        draft.write_record(Step::V4, |record| record.downgrading_to = Some(committed));
    }
}

/// One call after the other: the first that etcd refuses ends the pass.
fn ask<const N: usize>(draft: &mut Draft<'_>, to: Minor, steps: [(Step, DowngradeAction); N]) -> Flow {
    let Some(via) = draft.via() else { return ON };
    let mut steps = steps.into_iter();
    if steps.all(|(step, action)| draft.call(step, via, EtcdCall::Downgrade { action, to })) {
        DONE
    } else {
        ON
    }
}

/// Whether every voter answers, and runs this minor version.
fn all_run(draft: &Draft<'_>, line: Minor) -> bool {
    let runs =
        |voter: &MemberName| draft.status_of(voter).is_some_and(|status| status.version.line() == line);
    draft.record.voters().all(runs)
}

/// The minor version that every voter still runs though the lower one is rolled out: that of an image which names its version itself.
fn image_stays_newer(draft: &Draft<'_>, to: Minor) -> Option<Minor> {
    let runs = draft.record.voters().map(|voter| {
        let status = draft.status_of(voter).filter(|_| !draft.view().is_stale(voter))?;
        Some(status.version.line()).filter(|runs| to < *runs)
    });
    runs.min()?
}
