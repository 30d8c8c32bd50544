//! R21: a claim that somebody deletes in this second may not be in the caches, and with its Pod its data end. So the claims of the
//! Pods that a plan ends are read from the API, and the plan is made once more.

use std::collections::BTreeSet;

use quorate_manifests::Kind;
use quorate_model::{ClusterRef, Effect, Instant, KubeEffect, MemberName, Plan};

use super::observe::Observed;
use super::{PassEnd, Stage, Stop, uid};
use crate::command::Task;
use crate::memory::Memory;
use crate::objects::Object;
use crate::ownership::is_visible;
use crate::reply::{Retry, WriteError};

/// The claims that were read from the API in this pass, of Pods that it may end.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadClaims {
    read: BTreeSet<String>,
    failed: bool,
}

impl Observed {
    /// The claims to read before the plan may be carried out. A member in memory has none.
    pub(super) fn claims_to_read(&self, plan: &Plan) -> Vec<Task> {
        if plan.record.is_in_memory() {
            return Vec::new();
        }
        let members: BTreeSet<&MemberName> = plan.effects.iter().filter_map(ends_pod).collect();
        let unread = members.into_iter().filter(|member| !self.claims.read.contains(member.as_str()));
        unread.map(|member| Task::Read { kind: Kind::Volume, name: member.to_string() }).collect()
    }

    /// Takes a claim as it is now.
    pub(super) fn read_claim(
        &mut self,
        memory: &mut Memory,
        at: &ClusterRef,
        name: &str,
        read: Result<Option<Object>, WriteError>,
        now: Instant,
    ) {
        self.claims.read.insert(name.to_owned());
        match read {
            Ok(Some(object)) if !is_visible(&object, at, &uid(&self.cluster)) => {}
            Ok(Some(object)) => {
                memory.exists(&object, now);
                if let Object::Volume(claim) = object {
                    self.view.volumes.insert(name.to_owned(), claim);
                }
            }
            Ok(None) => {
                memory.missing(Kind::Volume, name, now);
                self.view.volumes.remove(name);
            }
            Err(_) => self.claims.failed = true,
        }
    }

    /// How the pass ends where a claim could not be read: nothing is done on what the caches say.
    pub(super) fn unread_claim(&self) -> Option<Stage> {
        let stop = Stop { retry: Retry::Failed, failure: None };
        self.claims.failed.then(|| Stage::Ended(PassEnd::Stopped(stop), None))
    }
}

fn ends_pod(effect: &Effect) -> Option<&MemberName> {
    let (KubeEffect::DeletePod { member, .. } | KubeEffect::EvictPod { member, .. }) = effect.as_kube()?
    else {
        return None;
    };
    Some(member)
}
