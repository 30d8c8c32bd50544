//! What may go wrong, and what people do: each a choice with the number it has in the list of faults.

mod words;

use std::collections::BTreeSet;

use quorate_apistore::fields::{deleting, name, uid};
use quorate_apistore::store::{DeleteOptions, Part};
use quorate_manifests::Kind;
use quorate_model::snapshot::FRESH;
use quorate_model::{ClusterId, Effect};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::World;
use super::kubelet::delete;
use super::objects::{KINDS, key, resource};
use super::operator::{At, Operator};
use super::rival::Turn;
use super::rogue::RogueEffect;
use super::wire::RequestOutcome;
use crate::etcd::State;

/// A deviation from the fair schedule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// F1, F2: the operator dies where it is, and starts anew.
    Crash,
    /// F3 to F6, F11, F12: of the operator's next request.
    Request(RequestOutcome),
    /// F7, F9: the operator's next pass sees the objects of one kind as they were so many changes ago.
    Stale(String, u32),
    /// F8: the operator starts anew, on a list that is older than what it had seen.
    TimeTravel(String, u32),
    /// F15, F16: a Pod is gone, with its processes.
    KillPod(String),
    /// F13: another replica takes the lease, and this one does not know it: each goes on, in turns, until this one's pass ends.
    TwoLead,
    /// F13: another replica takes the lease while this one is stopped in its pass; it goes on when all else has come to rest.
    Paused,
    /// F16: etcd dies in its Pod.
    KillProcess(String),
    /// F16, F18: a Pod that was made does not start until all else has come to rest.
    Slow(String),
    /// F16: the node is gone from sight: its Pod runs on, and can neither be reached nor stopped.
    LoseNode(String),
    /// F19: a member and its peers do not reach each other; the kubelet still reaches it.
    Cut(String),
    /// F18: a member takes no new entries.
    Lag(String),
    /// F17: a volume and its data are gone, with the Pod that used it.
    LoseVolume(String),
    /// F17: the data on a volume are gone, and its Pod, if there is one, starts over.
    Wipe(String),
    /// F22: a member reports an alarm.
    Alarm(String),
    /// F23: certificates have expired: no running member trusts another one, nor does the operator.
    Expired,
    /// F24: the etcd that runs in a Pod is of the next patch, or of the one before, whatever its image is called.
    OtherPatch(String, Patch),
    /// F15: somebody changes a managed object of this kind and name.
    Touch(String, String),
    /// F15: somebody deletes a managed object.
    Remove(String, String),
    /// F21: the status of the cluster is gone.
    LoseStatus,
    /// F17: the data on a volume are exchanged for those of another cluster, and etcd starts again on them.
    Swap(String),
    /// F19: the member list that the operator gets is one of long ago.
    OldList,
    /// The planner itself goes wrong: it proposes this in its next plan. What safety lets pass is done.
    Rogue(RogueEffect),
}

/// Another patch than an image is called after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Patch {
    /// The next one.
    Next,
    /// The one before.
    Before,
}

/// What goes on being wrong until it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Standing {
    /// Members whose Pods do not start.
    pub slow: BTreeSet<String>,
    /// Members on nodes that are gone from sight.
    pub stuck: BTreeSet<String>,
    /// Members whose data were destroyed by a fault.
    pub destroyed: BTreeSet<String>,
    /// Clusters that a fault brought here.
    pub foreign: BTreeSet<ClusterId>,
    /// The status was lost: what stood in nothing but status is for a human to say again.
    pub forgotten: bool,
    alarmed: BTreeSet<String>,
}

impl Standing {
    /// In words, a fault a line.
    pub fn words(&self) -> Vec<String> {
        let Self { slow, stuck, destroyed, foreign, forgotten, alarmed } = self;
        let mut words = Vec::new();
        words.extend(slow.iter().map(|member| format!("Pod {member} does not start")));
        words.extend(stuck.iter().map(|member| format!("the node of {member} is out of reach")));
        words.extend(alarmed.iter().map(|member| format!("{member} reports an alarm")));
        words.extend(destroyed.iter().map(|member| format!("the data of {member} were destroyed")));
        words.extend(foreign.iter().map(|cluster| format!("cluster {cluster} is another one's")));
        words.extend(forgotten.then(|| "the status was lost".to_owned()));
        words
    }
}

impl World {
    /// Lets something go wrong. `false` if there is nothing that it could happen to.
    pub fn strike(&mut self, fault: &Fault) -> bool {
        let struck = self.try_strike(fault);
        if struck {
            self.waited = 0;
            self.look_for_harm();
        }
        struck
    }

    /// Every fault that could strike now.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if let Some(effect) = self.pending() {
            faults.push(Fault::Crash);
            if self.rival.is_none() {
                faults.extend([Fault::TwoLead, Fault::Paused]);
            }
            let raced = matches!(effect, Effect::Etcd { .. });
            let outcomes = RequestOutcome::ALL.into_iter().filter(|outcome| *outcome != RequestOutcome::Done);
            faults.extend(
                outcomes.filter(|outcome| !(raced && *outcome == RequestOutcome::Raced)).map(Fault::Request),
            );
        } else {
            faults.extend(
                RequestOutcome::ALL
                    .into_iter()
                    .filter(|outcome| *outcome != RequestOutcome::Done)
                    .map(Fault::Request),
            );
            for kind in [Kind::Pod, Kind::Volume, Kind::Cluster, Kind::Service] {
                faults.push(Fault::Stale(kind.as_str().to_owned(), 1));
                // The operator lists by consensus when it starts, so this is more than can happen. A volume that it does not
                // see for that reason alone is forgotten, not lost.
                if kind != Kind::Volume {
                    faults.push(Fault::TimeTravel(kind.as_str().to_owned(), 3));
                }
            }
        }
        for pod in self.store.objects(&resource(Kind::Pod)) {
            let member = name(&pod).to_owned();
            if !self.pods.contains_key(uid(&pod)) {
                faults.push(Fault::Slow(member.clone()));
            }
            faults.extend([
                Fault::KillPod(member.clone()),
                Fault::KillProcess(member.clone()),
                Fault::LoseNode(member.clone()),
                Fault::Cut(member.clone()),
                Fault::Wipe(member.clone()),
                Fault::Lag(member.clone()),
                Fault::OtherPatch(member.clone(), Patch::Next),
                Fault::OtherPatch(member.clone(), Patch::Before),
                Fault::Alarm(member),
            ]);
        }
        let volumes = self.names(Kind::Volume);
        let at_rest = volumes.iter().filter(|name| self.object(Kind::Pod, name).is_none());
        faults.extend(at_rest.cloned().map(Fault::Wipe));
        faults.extend(volumes.into_iter().map(Fault::LoseVolume));
        for kind in [Kind::Service, Kind::Budget, Kind::Pod] {
            let touched =
                self.names(kind).into_iter().map(|named| Fault::Touch(kind.as_str().to_owned(), named));
            faults.extend(touched);
        }
        for kind in [Kind::Service, Kind::Budget, Kind::Secret] {
            let gone =
                self.names(kind).into_iter().map(|named| Fault::Remove(kind.as_str().to_owned(), named));
            faults.extend(gone);
        }
        faults.extend([Fault::LoseStatus, Fault::OldList, Fault::Expired]);
        if self.rogue_planner {
            faults.extend(self.names(Kind::Pod).into_iter().map(Fault::Swap));
            faults.extend(self.rogue_effects().into_iter().map(Fault::Rogue));
        }
        faults
    }

    fn try_strike(&mut self, fault: &Fault) -> bool {
        if self.would_leave_no_trace(fault) {
            return false;
        }
        match fault {
            Fault::Swap(member) => {
                let Some(at) = self.process_of(member) else { return false };
                let swapped = self.etcd.swap(&at, self.now);
                self.faults.destroyed.insert(member.clone());
                self.faults.foreign.extend(swapped);
                swapped.is_some()
            }
            Fault::OldList => {
                // A younger one counts as of now: it was read by consensus.
                let had = self.operator.last_list.as_ref().is_some_and(|list| self.now - list.at > FRESH);
                self.operator.old_list = had;
                self.operator.rested_on = None;
                had
            }
            Fault::Rogue(rogue) => {
                self.operator.rested_on = None;
                self.operator.rogue.push(rogue.clone());
                true
            }
            Fault::Crash => {
                let within = matches!(self.operator.at, At::Within(_));
                self.operator = Operator::default();
                within
            }
            Fault::Request(outcome) => {
                let free = self.request_outcome == RequestOutcome::Done;
                self.request_outcome = *outcome;
                free
            }
            Fault::Stale(kind, back) => {
                let Some(view) = self.earlier(kind, *back) else { return false };
                let between = matches!(self.operator.at, At::Between);
                self.operator.stale = Some(view);
                self.operator.rested_on = None;
                between
            }
            Fault::TimeTravel(kind, back) => {
                let Some(view) = self.earlier(kind, *back) else { return false };
                self.operator = Operator { stale: Some(view), ..Operator::default() };
                true
            }
            Fault::TwoLead => self.depose(Turn::Leaders),
            Fault::Paused => self.depose(Turn::WhenAllRests),
            Fault::Expired => {
                let reached = self.etcd.processes_mut().filter(|process| !process.cut);
                reached.map(|process| process.cut = true).count() > 0
            }
            Fault::OtherPatch(member, patch) => {
                let at = self.process_of(member);
                let Some(process) = at.and_then(|at| self.etcd.process_mut(&at)) else { return false };
                let called = &mut process.launch.version;
                let other = match patch {
                    Patch::Next => called.patch.checked_add(1),
                    Patch::Before => called.patch.checked_sub(1),
                };
                other.map(|other| called.patch = other).is_some()
            }
            Fault::KillPod(member) => self.kill_pod(member),
            Fault::KillProcess(member) => self.kill_process(member),
            Fault::Slow(member) => {
                let waits =
                    self.object(Kind::Pod, member).is_some_and(|pod| !self.pods.contains_key(uid(&pod)));
                waits && self.faults.slow.insert(member.clone())
            }
            Fault::LoseNode(member) => self.cut(member) && self.faults.stuck.insert(member.clone()),
            Fault::Cut(member) => self.cut(member),
            Fault::Lag(member) => {
                let at = self.process_of(member);
                let process = at.and_then(|at| self.etcd.process_mut(&at)).filter(|process| !process.lags);
                process.map(|process| process.lags = true).is_some()
            }
            Fault::LoseVolume(member) => self.lose_volume(member),
            Fault::Wipe(member) => self.wipe(member),
            Fault::Alarm(member) => {
                let at = self.process_of(member);
                let process =
                    at.and_then(|at| self.etcd.process_mut(&at)).filter(|process| process.alarms.is_empty());
                let struck = process.map(|process| process.alarms.push("alarm NoSpace".to_owned())).is_some();
                struck && self.faults.alarmed.insert(member.clone())
            }
            Fault::Touch(kind, named) => self.touch(kind, named),
            Fault::Remove(kind, named) => {
                let Some(kind) = kind_called(kind) else { return false };
                let object = self.object(kind, named);
                object.is_some_and(|object| delete(&self.store, kind, &object, Some(0)))
            }
            Fault::LoseStatus => {
                let key = key(Kind::Cluster, &self.at, &self.at.name);
                let had = self
                    .object(Kind::Cluster, &self.at.name)
                    .is_some_and(|cluster| cluster["status"].is_object());
                let lost = self.change(&key, Part::Status, |cluster| {
                    cluster.as_object_mut().and_then(|fields| fields.remove("status"));
                });
                self.faults.forgotten |= had && lost.is_ok();
                self.oracle.forget_names();
                had && lost.is_ok()
            }
        }
    }

    /// Status and data lost together: nothing would be left that remembers the cluster, and no rule can be asked of anybody.
    fn would_leave_no_trace(&self, fault: &Fault) -> bool {
        match fault {
            Fault::LoseStatus => !self.faults.destroyed.is_empty(),
            Fault::KillPod(_) | Fault::LoseVolume(_) | Fault::Wipe(_) | Fault::Swap(_) => {
                self.faults.forgotten
            }
            Fault::Crash
            | Fault::Request(_)
            | Fault::Stale(..)
            | Fault::TimeTravel(..)
            | Fault::KillProcess(_)
            | Fault::Slow(_)
            | Fault::LoseNode(_)
            | Fault::Cut(_)
            | Fault::Lag(_)
            | Fault::Alarm(_)
            | Fault::TwoLead
            | Fault::Paused
            | Fault::Expired
            | Fault::OtherPatch(..)
            | Fault::Touch(..)
            | Fault::Remove(..)
            | Fault::OldList
            | Fault::Rogue(_) => false,
        }
    }

    /// Ends what goes on being wrong, one kind after the other; what ended, if anything did.
    pub(super) fn end_a_standing_fault(&mut self) -> Option<String> {
        if let Some(member) = self.faults.slow.pop_first() {
            return Some(format!("Pod {member} starts at last"));
        }
        if let Some(member) = self.faults.stuck.pop_first() {
            self.heal(&member);
            return Some(format!("the node of {member} is back"));
        }
        if let Some(member) = self.faults.alarmed.pop_first() {
            if let Some(process) = self.process_of(&member).and_then(|at| self.etcd.process_mut(&at)) {
                process.alarms.clear();
            }
            return Some(format!("the alarm of {member} is cleared"));
        }
        let process = self.etcd.processes_mut().find(|process| process.cut || process.lags)?;
        (process.cut, process.lags, process.since) = (false, false, self.now);
        let member = &process.launch.name;
        Some(format!("{member} and its peers reach each other again"))
    }

    fn heal(&mut self, member: &str) {
        let now = self.now;
        if let Some(process) = self.process_of(member).and_then(|at| self.etcd.process_mut(&at)) {
            (process.cut, process.since) = (false, now);
        }
    }

    /// A view of a kind as it was so many changes ago.
    fn earlier(&self, kind: &str, back: u32) -> Option<(Kind, u64)> {
        let kind = kind_called(kind)?;
        let (changes, _) = self.store.changes(&resource(kind), 0).ok()?;
        let back = usize::try_from(back).ok()?;
        let place = changes.len().checked_sub(back)?;
        Some((kind, changes.get(place)?.version - 1))
    }

    fn process_of(&self, member: &str) -> Option<String> {
        let (at, _) =
            self.pods.iter().find(|(at, pod)| pod.member == member && self.etcd.process(at).is_some())?;
        Some(at.clone())
    }

    fn kill_pod(&mut self, member: &str) -> bool {
        if self.faults.stuck.contains(member) {
            return false;
        }
        let Some(pod) = self.object(Kind::Pod, member) else { return false };
        if self.pods.get(uid(&pod)).is_some_and(|running| running.dir.starts_with("memory of")) {
            self.faults.destroyed.insert(member.to_owned());
        }
        self.pods.remove(uid(&pod));
        self.etcd.stop(uid(&pod));
        delete(&self.store, Kind::Pod, &pod, Some(0))
    }

    fn kill_process(&mut self, member: &str) -> bool {
        let Some(process) = self.process_of(member).and_then(|at| self.etcd.process_mut(&at)) else {
            return false;
        };
        if process.state != State::Running || process.cut {
            return false;
        }
        process.state = State::Ended("killed".to_owned());
        process.serves = false;
        true
    }

    fn cut(&mut self, member: &str) -> bool {
        let process = self.process_of(member).and_then(|at| self.etcd.process_mut(&at));
        process.filter(|process| !process.cut).map(|process| process.cut = true).is_some()
    }

    fn lose_volume(&mut self, member: &str) -> bool {
        let Some(volume) = self.object(Kind::Volume, member) else { return false };
        if self.faults.stuck.contains(member) {
            return false;
        }
        let held_data = self.etcd.dir(uid(&volume)).is_some();
        self.kill_pod(member);
        if held_data {
            self.faults.destroyed.insert(member.to_owned());
        }
        let options = DeleteOptions { uid: Some(uid(&volume).to_owned()), ..DeleteOptions::default() };
        self.etcd.wipe(uid(&volume));
        self.identities.remove(uid(&volume));
        self.store.delete(&key(Kind::Volume, &self.at, member), &options).is_ok()
    }

    fn wipe(&mut self, member: &str) -> bool {
        let running = self.pods.iter().find(|(_, pod)| pod.member == member);
        let running = running.map(|(at, pod)| (at.clone(), pod.dir.clone()));
        let at_rest = || self.object(Kind::Volume, member).map(|volume| uid(&volume).to_owned());
        let Some(dir) = running.as_ref().map(|(_, dir)| dir.clone()).or_else(at_rest) else { return false };
        let held_data = self.etcd.dir(&dir).is_some();
        if self.faults.stuck.contains(member) || (running.is_none() && !held_data) {
            return false;
        }
        if held_data {
            self.faults.destroyed.insert(member.to_owned());
        }
        self.etcd.wipe(&dir);
        self.identities.remove(&dir);
        // All containers of the Pod start over, the guard among them.
        if let Some((at, _)) = running {
            self.etcd.stop(&at);
            self.pods.remove(&at);
        }
        true
    }

    fn touch(&mut self, kind: &str, named: &str) -> bool {
        let Some(kind) = kind_called(kind) else { return false };
        let touched = self.change(&key(kind, &self.at, named), Part::Main, |object| match kind {
            Kind::Service => object["spec"]["publishNotReadyAddresses"] = Value::Bool(false),
            Kind::Budget => object["spec"]["minAvailable"] = Value::from(0),
            Kind::Pod | Kind::Cluster | Kind::Volume | Kind::Secret => {
                object["metadata"]["labels"]["example.org/touched"] = Value::from("yes");
            }
        });
        touched.is_ok() && !self.object(kind, named).is_some_and(|object| deleting(&object))
    }
}

fn kind_called(called: &str) -> Option<Kind> {
    KINDS.into_iter().find(|kind| kind.as_str() == called)
}
