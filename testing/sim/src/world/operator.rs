//! The operator, a step at a time: the real translation, the real planner and the real requests; what the executor does
//! with replies is written down once more, without its connections and waiting.
//!
//! A step is one write, or one call to etcd. Between two steps anything may happen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_api::{EtcdCluster, keys};
use quorate_apistore::fields::{items, label, name, text, uid};
use quorate_manifests::certificate::{self, Certificate, Pair};
use quorate_manifests::{
    Act, Context, Defaults, Kind, Observation, Request, Situation, Write, request, snapshot, status,
};
use quorate_model::snapshot::{Answer, Etcd, List, Listed, Pod, StatusReply};
use quorate_model::{Effect, EtcdCall, MemberName, Plan, Snapshot, Step};
use quorate_planner::plan;
use quorate_planner::safety::mutants;
use serde_json::Value;

use super::World;
use super::objects::{Objects, Overlay, Own};
use super::rival::Leads;
use super::rogue::RogueEffect;
use super::wire::{Call, Outcome, RequestOutcome};
use crate::etcd::Failed;
use crate::oracle::Truth;

/// The operator's process.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    /// Where in a pass it is.
    pub at: At,
    /// What it wrote and its view may not show yet.
    pub own: Overlay,
    /// Names that are taken.
    pub conflicts: BTreeSet<String>,
    /// Its view is an earlier one in the next pass, of one kind.
    pub stale: Option<(Kind, u64)>,
    /// Its view was old, or a request of this pass met another outcome than Done: it looks again in any case.
    pub troubled: bool,
    /// What its planner proposes in the next plan, right or wrong.
    pub rogue: Vec<RogueEffect>,
    /// The member list that it got last.
    pub last_list: Option<List>,
    /// It is served that list once more, however old it is.
    pub old_list: bool,
    /// What it saw when it last could do nothing more.
    pub rested_on: Option<u64>,
    /// Whether it holds the lease.
    pub leads: Leads,
}

/// Where the operator is.
#[derive(Clone, Debug, Default)]
pub enum At {
    /// Between two passes.
    #[default]
    Between,
    /// In the middle of one.
    Within(Box<Pass>),
}

/// A pass whose status is written.
#[derive(Clone, Debug)]
pub struct Pass {
    cluster: Arc<EtcdCluster>,
    objects: Objects,
    /// What it saw.
    pub snapshot: Snapshot,
    /// What it does.
    pub plan: Plan,
    /// The effect that is next.
    pub next: usize,
    /// One of the effects that go together has failed: the others are still done.
    failed: bool,
    /// What was true when it looked.
    pub truth: Truth,
}

impl World {
    /// The operator's next step, in words.
    pub fn operate(&mut self) -> String {
        match std::mem::take(&mut self.operator.at) {
            At::Between => self.begin_pass(),
            At::Within(pass) => self.next_effect(pass),
        }
    }

    /// What the operator does next, if it is in the middle of a pass.
    pub fn pending(&self) -> Option<&Effect> {
        match &self.operator.at {
            At::Between => None,
            At::Within(pass) => pass.plan.effects.get(pass.next),
        }
    }

    /// Looks, plans, writes status.
    fn begin_pass(&mut self) -> String {
        let stale = self.operator.stale.take();
        let looked = self.parsed.look(&self.store, &self.at, stale, &mut self.operator.own);
        let Ok(objects) = looked else { return "its view is too old; it lists again".to_owned() };
        let Some(cluster) = objects.cluster.clone() else {
            self.operator.rested_on = Some(self.sight());
            return "the cluster is gone".to_owned();
        };
        let conflicts = self.conflicts_left();
        let defaults = Defaults::default();
        let seen = objects.seen(&cluster, conflicts);
        let Observation { snapshot: mut seen, refused } = match snapshot(&seen, &defaults) {
            Ok(sight) => sight,
            Err(invalid) => {
                let status = quorate_manifests::invalid_status(&cluster, &invalid, self.now);
                let write = quorate_manifests::request::write_status(&cluster, &status);
                self.write_status(&cluster, write, &[]);
                self.operator.rested_on = Some(self.sight());
                return format!("the spec can not be honoured: {invalid}");
            }
        };
        seen.etcd = self.look(&seen);
        match &seen.etcd.list {
            _ if std::mem::take(&mut self.operator.old_list) => {
                seen.etcd.list.clone_from(&self.operator.last_list);
                self.operator.troubled = true;
            }
            Some(list) => self.operator.last_list = Some(list.clone()),
            None => {}
        }
        let mut plan = plan(&seen, self.now);
        for rogue in std::mem::take(&mut self.operator.rogue) {
            rogue.join(&seen, &mut plan, self.now);
            self.operator.troubled = true;
        }
        self.last_plan = Some(Arc::new(plan.clone()));
        let situation = Situation {
            cluster: &cluster,
            snapshot: &seen,
            refused: refused.as_ref(),
            plan: &plan,
            now: self.now,
        };
        let status = status(&situation);
        let truth = Truth::of(self);
        let mut told = told(&plan);
        self.oracle.plan(&seen, &plan, &status, &truth);
        let write = quorate_manifests::request::write_record(&cluster, &status, &plan.effects);
        let Some(cluster) = self.write_status(&cluster, write, &plan.recorded_steps) else {
            return format!("{told}; status was not written");
        };
        if plan.effects.is_empty() {
            return told;
        }
        if stale.is_some() {
            told.push_str(" (on an old view)");
        }
        let pass = Pass { cluster, objects, snapshot: seen, plan, next: 0, failed: false, truth };
        self.operator.at = At::Within(Box::new(pass));
        told
    }

    /// `None` if it is not certain that it stands there now.
    fn write_status(
        &mut self,
        cluster: &Arc<EtcdCluster>,
        write: Option<Write>,
        recorded_steps: &[Step],
    ) -> Option<Arc<EtcdCluster>> {
        let Some(write) = write else { return Some(cluster.clone()) };
        self.covered.extend(recorded_steps.iter().map(|step| (*step, self.request_outcome.as_str())));
        match self.send(Call::Kube(write)) {
            Outcome::Done(Some(object)) => {
                self.note(Kind::Cluster, Own::Stands(object.clone()), name(&object).to_owned());
                serde::Deserialize::deserialize(object.as_ref()).ok().map(Arc::new)
            }
            Outcome::Changed => {
                self.read_again(Kind::Cluster, &self.at.name.clone());
                None
            }
            Outcome::Unknown => believed().then(|| cluster.clone()),
            Outcome::Done(None) | Outcome::Exists | Outcome::Missing | Outcome::Refused(_) => None,
        }
    }

    fn next_effect(&mut self, mut pass: Box<Pass>) -> String {
        let effect = pass.plan.effects[pass.next].clone();
        self.covered.insert((effect.step(), self.request_outcome.as_str()));
        self.oracle.effect(&pass.snapshot, &pass.plan, &effect, &pass.truth);
        match self.operator.leads {
            Leads::Now => self.judge_intent(&pass.plan, &effect),
            // What stood when it began its pass.
            Leads::NoMore => {}
        }
        let done = self.carry_out(&mut pass, &effect);
        let told = format!("{}: {effect}{}", effect.step(), if done { "" } else { " - not done" });
        pass.next += 1;
        let next = pass.plan.effects.get(pass.next);
        pass.failed |= !done && !effect.is_best_effort();
        let together = next.is_some_and(|next| effect.runs_in_parallel_with(next));
        if next.is_some() && (together || !pass.failed) {
            self.operator.at = At::Within(pass);
        }
        told
    }

    /// Whether it is certain that the effect stands.
    fn carry_out(&mut self, pass: &mut Pass, effect: &Effect) -> bool {
        let defaults = Defaults::default();
        let conflicts = self.operator.conflicts.iter().cloned().collect();
        let seen = pass.objects.seen(&pass.cluster, conflicts);
        let context = Context {
            cluster: &pass.cluster,
            seen: &seen,
            snapshot: &pass.snapshot,
            record: &pass.plan.record,
            defaults: &defaults,
        };
        let write = match effect {
            Effect::Kube { write, .. } => write,
            Effect::Etcd { at, call, .. } => return self.call_etcd(&pass.snapshot, at, call),
        };
        match request(write, &context) {
            Request::Certificates => self.issue(&pass.cluster, &seen.secrets.clone(), &pass.snapshot),
            Request::Write(write) => {
                let kind = write.kind;
                let done = self.write(write, &pass.snapshot);
                if kind == Kind::Cluster
                    && let Some(Own::Stands(object)) = self.operator.own.get(&(kind, self.at.name.clone()))
                    && let Ok(cluster) = serde::Deserialize::deserialize(object.as_ref())
                {
                    pass.cluster = Arc::new(cluster);
                }
                done
            }
        }
    }

    fn write(&mut self, write: Write, seen: &Snapshot) -> bool {
        let (kind, named) = (write.kind, write.name.clone());
        let gone = match &write.act {
            Act::Delete { uid, .. } => Some(uid.clone()),
            Act::Create(_) | Act::Patch(_) | Act::PatchStatus(_) => None,
        };
        let creates = matches!(write.act, Act::Create(_));
        let object = write.object();
        match self.send(Call::Kube(write)) {
            Outcome::Done(Some(object)) => {
                self.note(kind, Own::Stands(object), named);
                true
            }
            Outcome::Done(None) => {
                if let Some(uid) = gone {
                    self.note(kind, Own::Gone(uid), named);
                }
                true
            }
            Outcome::Missing if gone.is_some() => {
                self.note(kind, Own::Gone(gone.unwrap_or_default()), named);
                true
            }
            // By us, if an earlier reply was lost or the view is old; else by somebody.
            Outcome::Exists if creates => match self.object(kind, &named) {
                Some(there) if self.is_ours(kind, &there, seen) => {
                    self.note(kind, Own::Stands(there), named);
                    true
                }
                Some(_) => {
                    self.operator.conflicts.insert(object);
                    false
                }
                None => false,
            },
            Outcome::Changed => {
                self.read_again(kind, &named);
                false
            }
            Outcome::Unknown => believed(),
            Outcome::Exists | Outcome::Missing | Outcome::Refused(_) => false,
        }
    }

    fn call_etcd(&mut self, seen: &Snapshot, at: &MemberName, call: &EtcdCall) -> bool {
        let Some(at) = seen.pods.get(at).map(|pod| pod.uid.as_str().to_owned()) else { return false };
        let call = match call {
            EtcdCall::AddLearner { peer_url, .. } => Call::Add { at, url: peer_url.clone() },
            EtcdCall::Promote { id, .. } => Call::Promote { at, id: *id },
            EtcdCall::RemoveMember { id, .. } => Call::Remove { at, id: *id },
            EtcdCall::MoveLeadership { to_id, .. } => Call::Lead { at, to: *to_id },
        };
        match self.send(call) {
            Outcome::Done(_) => true,
            Outcome::Unknown => believed(),
            Outcome::Exists | Outcome::Changed | Outcome::Missing | Outcome::Refused(_) => false,
        }
    }

    /// Keys are no matter here: a Secret that is there counts.
    fn issue(
        &mut self,
        cluster: &EtcdCluster,
        secrets: &[&k8s_openapi::api::core::v1::Secret],
        seen: &Snapshot,
    ) -> bool {
        let missing: Vec<Certificate> = certificate::missing(secrets, &seen.cluster, &seen.uid);
        let mut all = true;
        for kind in missing {
            let pair = Pair { cert: "certificate", key: "key" };
            let write = certificate::secret(cluster, &seen.cluster, kind, "authority", pair);
            all &= self.write(write, seen);
            if std::mem::replace(&mut self.request_outcome, RequestOutcome::Done) != RequestOutcome::Done {
                return false;
            }
        }
        all
    }

    fn is_ours(&self, kind: Kind, object: &Value, seen: &Snapshot) -> bool {
        match kind {
            Kind::Volume => label(object, keys::CLUSTER) == Some(&self.at.name),
            Kind::Cluster => uid(object) == seen.uid.as_str(),
            Kind::Pod | Kind::Service | Kind::Budget | Kind::Secret => {
                items(object, "/metadata/ownerReferences")
                    .iter()
                    .any(|owner| text(owner, "/uid") == seen.uid.as_str())
            }
        }
    }

    fn conflicts_left(&mut self) -> Vec<String> {
        // Asked after in every pass: what is gone, or ours by now, is in nobody's way.
        let names = std::mem::take(&mut self.operator.conflicts);
        let uid = self.cluster_uid();
        for object in names {
            let Some((kind, named)) = parse_object(&object) else { continue };
            let there = self.object(kind, &named);
            let foreign = there.is_some_and(|there| {
                let mut owners =
                    items(&there, "/metadata/ownerReferences").iter().map(|owner| text(owner, "/uid"));
                !owners.any(|owner| owner == uid)
            });
            if foreign {
                self.operator.conflicts.insert(object);
            }
        }
        self.operator.conflicts.iter().cloned().collect()
    }

    fn note(&mut self, kind: Kind, own: Own, named: String) {
        self.operator.own.insert((kind, named), own);
    }

    fn read_again(&mut self, kind: Kind, named: &str) {
        if let Some(object) = self.object(kind, named) {
            self.note(kind, Own::Stands(object), named.to_owned());
        }
    }

    /// Every member for itself, then one of them for the list by quorum: the leader, else a voter that follows one.
    fn look(&self, seen: &Snapshot) -> Etcd {
        let answers: BTreeMap<MemberName, Answer> = seen
            .can_answer()
            .map(|(member, pod)| (member.clone(), Answer { at: self.now, reply: self.ask(pod) }))
            .collect();
        let said =
            || answers.iter().filter_map(|(member, answer)| Some((member, answer.reply.as_ref().ok()?)));
        let leads = said().find(|(_, said)| said.leader == Some(said.member_id));
        let via = leads.or_else(|| said().find(|(_, said)| said.leader.is_some() && !said.is_learner));
        let list = match via {
            None => Err("no voter that answers has a leader".to_owned()),
            Some((via, _)) => self.list(via, &seen.pods[via]),
        };
        let (list, list_failure) = match list {
            Ok(list) => (Some(list), None),
            Err(why) => (None, Some(why)),
        };
        Etcd { list, list_failure, answers }
    }

    fn ask(&self, pod: &Pod) -> Result<StatusReply, String> {
        let status = self.etcd.status(pod.uid.as_str()).map_err(words)?;
        Ok(StatusReply {
            cluster_id: status.cluster,
            member_id: status.member,
            leader: status.leader,
            is_learner: status.is_learner,
            applied: status.applied,
            revision: status.revision,
            version: status.version,
            errors: status.errors,
        })
    }

    fn list(&self, via: &MemberName, pod: &Pod) -> Result<List, String> {
        let (cluster_id, conf) = self.etcd.member_list(pod.uid.as_str()).map_err(words)?;
        let members = conf.members.into_iter().map(|(id, peer)| Listed {
            id,
            name: peer.name,
            peer_url: peer.url,
            is_learner: peer.is_learner,
            started: peer.started,
        });
        Ok(List { at: self.now, cluster_id, via: via.clone(), members: members.collect() })
    }
}

/// R8: what did not come back is not taken for done.
fn believed() -> bool {
    mutants::is_broken("R8")
}

fn words(failed: Failed) -> String {
    match failed {
        Failed::Refused(refusal) => format!("refused: {refusal:?}"),
        Failed::Unknown => "outcome unknown".to_owned(),
        Failed::Unreachable => "unreachable".to_owned(),
    }
}

/// What a plan does, in a line.
fn told(plan: &Plan) -> String {
    let recorded_steps: Vec<String> = plan.recorded_steps.iter().map(ToString::to_string).collect();
    let waiting: Vec<String> = plan.waiting.iter().take(2).map(ToString::to_string).collect();
    let mut parts = Vec::new();
    if !recorded_steps.is_empty() {
        parts.push(format!("recorded_steps {}", recorded_steps.join(" ")));
    }
    if !plan.effects.is_empty() {
        parts.push(format!("plans {} effects", plan.effects.len()));
    }
    if !waiting.is_empty() {
        parts.push(format!("waits: {}", waiting.join("; ")));
    }
    if parts.is_empty() { "has nothing to do".to_owned() } else { parts.join(", ") }
}

fn parse_object(object: &str) -> Option<(Kind, String)> {
    let (kind, rest) = object.split_once(' ')?;
    let kind = super::objects::KINDS.into_iter().find(|known| known.as_str() == kind)?;
    Some((kind, rest.split_once('/')?.1.to_owned()))
}
