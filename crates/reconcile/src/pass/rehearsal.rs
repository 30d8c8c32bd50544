//! R27: before a Pod that runs is ended for a successor, the API server is asked whether it would admit that. A restore in place sends the claim
//! and the Pod of the first new member as a dry run, a restart the next Pod of the member. What it refuses then, it would refuse when the member
//! does not run any more.

use std::sync::Arc;

use quorate_manifests::request::request;
use quorate_manifests::{Context, Defaults, Kind, Request, Write};
use quorate_model::effect::{Rehearsal, Successor};
use quorate_model::incarnation::{Admission, Admitted};
use quorate_model::{Instant, Plan, Record, Snapshot};

use super::observe::Observed;
use super::parsed;
use super::quota;
use crate::command::Task;
use crate::objects::ClusterView;
use crate::reply::WriteError;

/// What is asked, and what was answered so far.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    of: Successor,
    claim: Admitted,
    /// Of the Pod as it would be created first, and as it would be created if that is refused. One that is admitted is enough.
    pods: Vec<Admitted>,
}

impl Observed {
    /// What the API server is asked before the plan is made once more.
    pub(super) fn rehearse(
        &self,
        plan: &Plan,
        defaults: &Arc<Defaults>,
        now: Instant,
    ) -> Option<(Asked, Vec<Task>)> {
        let Rehearsal { of, record, effects } = plan.rehearsal.as_deref()?;
        let cluster = parsed(&self.cluster)?;
        let seen = self.view.objects(cluster, self.conflicts.clone());
        let of_record = |record: &Record| {
            let context = Context { cluster, seen: &seen, snapshot: &self.snapshot, record, defaults, now };
            let requests = effects.iter().map(|effect| request(effect, &context));
            requests.filter_map(written).collect::<Vec<Write>>()
        };
        let mut writes = of_record(record);
        // A Pod that is refused for its image volume is created without it.
        let mut without = record.clone();
        without.no_image_volume.get_or_insert_with(|| "it may be refused".to_owned());
        for write in of_record(&without) {
            if !writes.contains(&write) {
                writes.push(write);
            }
        }
        let asked = Asked { of: of.clone(), claim: Admitted::Yes, pods: Vec::new() };
        Some((asked, writes.into_iter().map(Task::DryRun).collect()))
    }
}

impl Asked {
    /// Takes an answer.
    pub(super) fn answered(&mut self, seen: &ClusterView, write: &Write, admitted: Result<(), WriteError>) {
        let leaves_room = |why: &str| match &self.of {
            // All of the old Pods are gone when the new ones come. A claim stays.
            Successor::Incarnation(_) => write.kind == Kind::Pod && why.contains("exceeded quota"),
            Successor::Pod(member) => {
                let present = seen.pods.get(member.as_str());
                present.is_some_and(|present| quota::fits_after(why, present))
            }
        };
        let outcome = outcome(admitted, leaves_room);
        if write.kind == Kind::Pod {
            self.pods.push(outcome);
        } else {
            self.claim = outcome;
        }
    }

    /// Puts what was answered into the snapshot.
    pub(super) fn add_to(self, snapshot: &mut Snapshot, now: Instant) {
        let Self { of, claim, mut pods } = self;
        let pod = match pods.iter().position(|pod| *pod == Admitted::Yes) {
            Some(_) => Admitted::Yes,
            None if pods.is_empty() => Admitted::Unknown("no answer".to_owned()),
            None => pods.remove(0),
        };
        let outcome = match claim {
            Admitted::Yes => pod,
            Admitted::No(_) | Admitted::Unknown(_) => claim,
        };
        let admission = Admission { at: now, outcome };
        match of {
            Successor::Incarnation(order) => {
                let asked = snapshot.orders.iter_mut().filter(|asked| asked.order == order);
                asked.for_each(|asked| asked.admission = Some(admission.clone()));
            }
            Successor::Pod(member) => {
                snapshot.successors.insert(member, admission);
            }
        }
    }
}

fn written(request: Request) -> Option<Write> {
    match request {
        Request::Write(write) => Some(write),
        Request::Certificate(_) => None,
    }
}

fn outcome(admitted: Result<(), WriteError>, leaves_room: impl Fn(&str) -> bool) -> Admitted {
    match admitted {
        // A late call of before, or the present Pod: policies are asked before the name.
        Ok(()) | Err(WriteError::Exists) => Admitted::Yes,
        Err(WriteError::Invalid(why) | WriteError::Forbidden(why)) => {
            // A webhook that may not be asked like this is asked for the first time by the real call.
            if leaves_room(&why) || why.contains("does not support dry run") {
                Admitted::Yes
            } else {
                Admitted::No(why)
            }
        }
        Err(
            error @ (WriteError::NotLeading
            | WriteError::Outdated
            | WriteError::Changed(_)
            | WriteError::Missing(_)
            | WriteError::Blocked(_)
            | WriteError::Throttled(..)
            | WriteError::Unknown(_)),
        ) => Admitted::Unknown(error.to_string()),
    }
}
