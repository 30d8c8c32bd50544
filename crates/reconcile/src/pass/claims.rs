//! R21: a claim that somebody deletes in this second may not be in the caches, and with its Pod its data end. So the claims of the
//! Pods that a plan ends are read from the API, and the plan is made once more.

use std::collections::{BTreeMap, BTreeSet};

use quorate_manifests::Kind;
use quorate_model::{ClusterRef, Effect, Instant, KubeEffect, MemberName, Plan};
use quorate_planner::safety::would_keep_data;

use super::observe::Observed;
use super::uid;
use crate::command::Task;
use crate::memory::Memory;
use crate::objects::Object;
use crate::ownership::is_visible;
use crate::reply::WriteError;

/// The claims that were read from the API in this pass, of Pods that it may end.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadClaims {
    read: BTreeSet<String>,
    /// Those that could not be read, by member, and why.
    pub(super) failed: BTreeMap<MemberName, String>,
}

impl Observed {
    /// The claims to read before the plan may be carried out. A member in memory has none.
    pub(super) fn claims_to_read(&self, plan: &Plan, now: Instant) -> Vec<Task> {
        if plan.record.is_in_memory() {
            return Vec::new();
        }
        // It matters only where the Pod may be all that keeps data.
        let matters = |member: &&MemberName| would_keep_data(&self.snapshot, &plan.record, now, member);
        let members: BTreeSet<&MemberName> =
            plan.effects.iter().filter_map(ends_pod).filter(matters).collect();
        let unread = members.into_iter().filter(|member| !self.claims.read.contains(member.as_str()));
        unread.map(|member| Task::Read { kind: Kind::Volume, name: member.to_string() }).collect()
    }

    /// Takes a claim as it is now. Where that is not known, the Pod is not ended.
    pub(super) fn read_claim(
        &mut self,
        memory: &mut Memory,
        at: &ClusterRef,
        name: &str,
        read: Result<Option<Object>, WriteError>,
        now: Instant,
    ) {
        self.claims.read.insert(name.to_owned());
        let viewed = self.view.volumes.get(name).and_then(|claim| claim.metadata.uid.clone());
        let is_own = |object: &Object| {
            // One whose label was taken off is still the one that was observed.
            is_visible(object, at, &uid(&self.cluster)) || (viewed.is_some() && object.meta().uid == viewed)
        };
        let why = match read {
            Ok(Some(object)) if !is_own(&object) => None,
            Ok(Some(object)) => {
                memory.exists(&object, now);
                self.view.insert(object);
                None
            }
            // A reply that is late. The watch has it, or will lose it.
            Ok(None) => viewed.map(|_| "it is not there, and the watch still has it".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        self.claims.failed.extend(why.map(|why| (MemberName::new(name), why)));
    }
}

fn ends_pod(effect: &Effect) -> Option<&MemberName> {
    let (KubeEffect::DeletePod { member, .. } | KubeEffect::EvictPod { member, .. }) = effect.as_kube()?
    else {
        return None;
    };
    Some(member)
}
