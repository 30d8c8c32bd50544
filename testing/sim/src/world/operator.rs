//! The operator: the product's own pass, driven a step at a time with modelled calls.
//!
//! A step is one write or one call to etcd, with the reads that its reply asks for. Anything may happen between two steps.
//! A pass observes everything in one step, which includes the write of its record.

use std::mem;
use std::sync::{Arc, LazyLock};

use quorate_manifests::certificate::verify::{Presented, Verifier};
use quorate_manifests::{Defaults, Kind};
use quorate_model::mutants;
use quorate_model::snapshot::{Answer, KeysHash, List, Listed, Pod, Proof, StatusReply};
use quorate_model::{Effect, Instant, Leaf, MemberName, Plan};
use quorate_reconcile::{
    CallError, Clocks, Command, Event, Memory, Pass, PassEnd, Planned, Proved, Purpose, Reply, Task,
    WriteError,
};
use quorate_status::explain;

use super::World;
use super::addresses::Answers;
use super::faults::Unread;
use super::former_leader::Leads;
use super::rogue::RogueEffect;
use super::wire::{Call, Response};
use crate::etcd::Failed;
use crate::oracle::{Landing, Truth};

/// The defaults of the operator's flags.
pub(super) static DEFAULTS: LazyLock<Arc<Defaults>> =
    LazyLock::new(|| Arc::new(Defaults { verifier: Verifier::new(verify), ..Defaults::default() }));

/// As the operator verifies what others issued.
fn verify(signer: &[u8], leaf: Option<Presented<'_>>) -> Result<(), String> {
    if mutants::is_broken(mutants::Rule::Verified) {
        return Ok(());
    }
    quorate_pki::verify(signer, leaf.map(|leaf| leaf.cert))
}

/// The operator's process.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    /// Where in a pass it is.
    pub at: At,
    /// What it keeps from pass to pass.
    pub memory: Memory,
    /// In the next pass its view of this kind is an earlier one.
    pub stale: Option<(Kind, u64)>,
    /// Its view was old, or a request of this pass met another outcome than Done: it observes again in any case.
    pub observes_again: bool,
    /// What a rogue planner adds to the next plan.
    pub rogue: Vec<RogueEffect>,
    /// The member list that it received last.
    pub last_list: Option<List>,
    /// It receives that list once more, however old it is.
    pub old_list: bool,
    /// The hash of what it could observe when it last had nothing to do.
    pub rested_on: Option<u64>,
    /// Whether it holds the lease.
    pub leads: Leads,
    /// What it knows of the API server's clock.
    pub clocks: Clocks,
    /// When the API server has replied last, by the time of the world.
    pub heard_at: Option<Instant>,
    /// Whether its clock differed from that when it looked last.
    pub differed: bool,
}

/// Where the operator is.
#[derive(Clone, Debug, Default)]
pub enum At {
    /// Between two passes.
    #[default]
    Between,
    /// In the middle of one.
    Within(Box<Within>),
}

/// A pass whose record is written.
#[derive(Clone, Debug)]
pub struct Within {
    /// The pass.
    pub pass: Pass,
    /// What was true when it observed.
    pub truth: Truth,
}

/// What a pass observes.
struct Sources {
    stale: Option<(Kind, u64)>,
    old_list: bool,
}

impl World {
    /// Takes the operator's next step, and describes it.
    pub fn operate(&mut self) -> String {
        // Taken out while it acts on the world that it is part of.
        let mut memory = mem::take(&mut self.operator.memory);
        let line = match mem::take(&mut self.operator.at) {
            At::Between => self.begin_pass(&mut memory),
            At::Within(within) => self.continue_pass(within, &mut memory),
        };
        self.operator.memory = memory;
        line
    }

    /// The next effect, if the operator is in the middle of a pass.
    pub fn pending(&self) -> Option<&Effect> {
        let At::Within(within) = &self.operator.at else { return None };
        match within.pass.upcoming()?.purpose {
            Purpose::Effect(place) => within.pass.planned()?.effects().get(place),
            Purpose::Observe | Purpose::Record | Purpose::Report => None,
        }
    }

    /// Observes, plans, writes the record.
    fn begin_pass(&mut self, memory: &mut Memory) -> String {
        let (stale, old_list) = (self.operator.stale.take(), mem::take(&mut self.operator.old_list));
        self.operator.observes_again |= old_list;
        let sources = Sources { stale, old_list };
        if let Some(turn) = self.defaults_turn() {
            memory.set_defaults_turn(turn);
        }
        let mut pass = Pass::new(self.at.clone(), self.defaults.clone(), memory, self.operators_time());
        self.renew_lease();
        self.tell_clocks(&mut pass, memory);
        // What it proposes is judged like a proposal of the planner, which would have asked for a proof.
        if !self.operator.rogue.is_empty() {
            pass.always_prove();
        }
        while pass.upcoming().is_some_and(|upcoming| upcoming.purpose == Purpose::Observe) {
            let commands: Vec<Command> = std::iter::from_fn(|| pass.next(memory)).collect();
            if commands.is_empty() {
                break;
            }
            self.make_hashes(&pass, &commands);
            for Command { id, task, .. } in commands {
                let Some(reply) = self.observe(&pass, task, &sources) else {
                    return "its view is too old; it lists again".to_owned();
                };
                self.set_while_it_observes();
                self.tell_clocks(&mut pass, memory);
                pass.reply(memory, id, reply, self.operators_time());
            }
        }
        // The next member is asked in the next pass, which follows at once.
        self.operator.observes_again |= pass.planned().is_some_and(|planned| planned.compares());
        for rogue in mem::take(&mut self.operator.rogue) {
            let now = self.operators_time();
            pass.change_plan(|observed, plan| {
                rogue.join(observed, plan, now);
            });
            self.operator.observes_again = true;
        }
        let truth = Truth::of(self);
        let mut line = String::new();
        if let Some(planned) = pass.planned() {
            line = in_words(&planned.plan);
            self.last_plan = Some(planned.clone());
            self.oracle.plan(&planned.snapshot, &planned.plan, &planned.status, &truth);
            self.note_sleep(&planned.snapshot, &planned.plan);
        }
        self.carry_on(&mut pass, memory);
        match pass.end() {
            Some(PassEnd::Gone) => {
                self.operator.rested_on = Some(self.observable_hash());
                return "the cluster is gone".to_owned();
            }
            Some(PassEnd::SpecInvalid(invalid)) => {
                self.operator.rested_on = Some(self.observable_hash());
                return format!("the spec is invalid: {invalid}");
            }
            Some(PassEnd::StatusNotWritten { .. }) => return format!("{line}; status was not written"),
            Some(PassEnd::Unreadable(_) | PassEnd::Stopped(_) | PassEnd::Done) => return line,
            None => {}
        }
        if stale.is_some() {
            line.push_str(" (on an old view)");
        }
        self.operator.at = At::Within(Box::new(Within { pass, truth }));
        line
    }

    /// Carries out the next effect, or the next write of it.
    fn continue_pass(&mut self, mut within: Box<Within>, memory: &mut Memory) -> String {
        let Within { pass, truth } = &mut *within;
        self.tell_clocks(pass, memory);
        if pass.end().is_some() {
            return "a clock was set, so it plans again".to_owned();
        }
        let planned = pass.planned().cloned();
        let upcoming = pass.upcoming().map(|upcoming| upcoming.purpose);
        let (Some(planned), Some(Purpose::Effect(place))) = (planned, upcoming) else {
            return "has nothing left to do".to_owned();
        };
        let effect = &planned.effects()[place];
        let now = Truth::of(self);
        let landing = Landing { observed: truth, now: &now };
        self.oracle.effect(&planned.snapshot, &planned.plan, effect, landing);
        self.judge_removal_of_clients(&planned.snapshot, &planned.plan, effect);
        self.judge_successor(&planned.snapshot, &planned.plan, effect);
        match self.operator.leads {
            // Where the EtcdCluster was created again meanwhile, its preconditions protect what is there.
            Leads::Now if planned.snapshot.uid.as_str() != self.cluster_uid() => {}
            Leads::Now => self.judge_intent(&planned.plan, effect),
            // It acts on what status recorded when its pass began.
            Leads::NoMore => {}
        }
        let done = self.carry_on(pass, memory);
        if pass.end().is_none() {
            self.operator.at = At::Within(within);
        }
        format!("{}: {effect}{}", effect.step(), if done { "" } else { " - not done" })
    }

    /// Sends one write or call, and the reads that its reply asks for. Returns whether all of it succeeded.
    fn carry_on(&mut self, pass: &mut Pass, memory: &mut Memory) -> bool {
        let (mut sent, mut succeeded) = (false, true);
        while let Some(upcoming) = pass.upcoming() {
            // A failure is reported in the step in which it is met.
            if sent && upcoming.changes_something && upcoming.purpose != Purpose::Report {
                break;
            }
            let Some(Command { id, purpose, task, .. }) = pass.next(memory) else { break };
            if let Some(planned) = pass.planned().filter(|_| task.changes_something()) {
                self.cover(planned, purpose);
            }
            sent |= task.changes_something();
            let reply = self.carry_out(pass, task);
            self.tell_clocks(pass, memory);
            match pass.reply(memory, id, reply, self.operators_time()) {
                Some(Event::Effect(_, result)) => succeeded &= result.is_ok(),
                Some(Event::Planned | Event::Recorded(_)) | None => {}
            }
        }
        succeeded
    }

    /// Notes the steps whose request is about to be sent, with its outcome.
    fn cover(&mut self, planned: &Planned, purpose: Purpose) {
        let outcome = self.request_outcome.as_str();
        match purpose {
            Purpose::Record => {
                self.covered.extend(planned.plan.recorded_steps.iter().map(|step| (*step, outcome)));
            }
            Purpose::Effect(place) => {
                self.covered.insert((planned.effects()[place].step(), outcome));
            }
            Purpose::Observe | Purpose::Report => {}
        }
    }

    /// Who the operator is to members: the user of the certificate that it has.
    fn show_credential(&mut self, pass: &Pass) {
        let certificates = pass.observed().and_then(|(observed, _)| observed.certificates.as_ref());
        let own = certificates.and_then(|all| all.leaves.get(&Leaf::Operator));
        self.etcd.operator_is_root(own.is_some_and(|leaf| leaf.content.is_ok()));
    }

    /// The reply to a command of the second half of a pass.
    fn carry_out(&mut self, pass: &Pass, task: Task) -> Reply {
        match task {
            Task::Write(write) => {
                let kind = write.kind;
                let response = self.send(Call::Kube(write));
                self.hear(&response);
                Reply::Written(match response {
                    Response::Kube(written) => {
                        written.map(|object| object.map(|object| self.parsed.object(kind, &object)))
                    }
                    Response::Etcd(_) => Err(WriteError::Unknown("etcd replied".to_owned())),
                })
            }
            Task::Call { at, call } => {
                self.show_credential(pass);
                let pod = pass.observed().and_then(|(observed, _)| observed.pods.get(&at));
                Reply::Called(match pod.map(|pod| self.who_answers(pod)) {
                    Some(Answers::Others) => self.others_are_called(&call),
                    Some(Answers::Own(at)) => match self.send(Call::Etcd { at, call }) {
                        Response::Etcd(called) => called,
                        Response::Kube(_) => Err(CallError::Unknown("Kubernetes replied".to_owned())),
                    },
                    None => Err(CallError::NoConnection(at)),
                })
            }
            Task::Read { kind, name } => self.read(kind, &name),
            Task::Generate(order) => Reply::Keys(Ok(self.trust.generate(&order))),
            Task::Caches
            | Task::Status { .. }
            | Task::FreeSpace { .. }
            | Task::Handshake { .. }
            | Task::MemberList { .. }
            | Task::Auth { .. }
            | Task::Hash { .. }
            | Task::ProveProgress { .. }
            | Task::Entry { .. }
            | Task::Site { .. }
            | Task::NodeSays { .. }
            | Task::CertificateRequests
            | Task::DryRun(_) => {
                let sources = Sources { stale: None, old_list: false };
                self.observe(pass, task, &sources).unwrap_or(Reply::Object(Ok(None)))
            }
        }
    }

    /// The reply to a command of the first half of a pass; `None` if the view is older than the API server knows.
    fn observe(&mut self, pass: &Pass, task: Task, sources: &Sources) -> Option<Reply> {
        self.show_credential(pass);
        let pod = |member: &MemberName| pass.observed()?.0.pods.get(member);
        match task {
            Task::Caches => {
                let caches = self.parsed.caches(&self.store, &self.at, sources.stale).ok()?;
                Some(Reply::Caches(Box::new(caches)))
            }
            Task::Status { member } => {
                let reply =
                    pod(&member).ok_or_else(|| "it has no Pod".to_owned()).and_then(|pod| self.ask(pod));
                Some(Reply::Status(Answer { at: self.operators_time(), reply }))
            }
            // Nothing is done by it.
            Task::FreeSpace { .. } => Some(Reply::FreeSpace(Err("no agent here tells".to_owned()))),
            Task::Handshake { member, ca } => {
                let shown = pod(&member).ok_or_else(|| "it has no Pod".to_owned());
                Some(Reply::Handshake(shown.and_then(|pod| self.shown(pod, ca))))
            }
            Task::MemberList { at } => {
                let list = pod(&at).ok_or_else(|| "it has no Pod".to_owned());
                let list = list.and_then(|pod| self.list(&at, pod));
                if let Some(last) = self.operator.last_list.clone().filter(|_| sources.old_list) {
                    return Some(Reply::List(Ok(last)));
                }
                if let Ok(list) = &list {
                    self.operator.last_list = Some(list.clone());
                }
                Some(Reply::List(list))
            }
            Task::Auth { at, .. } => {
                let pod = pod(&at).ok_or_else(|| "it has no Pod".to_owned());
                let stored = pod
                    .and_then(|pod| self.etcd.auth(pod.uid.as_str()).map_err(|failed| format!("{failed:?}")));
                Some(Reply::Auth(stored.map(|stored| self.seen_of_auth(stored))))
            }
            Task::Hash { member, .. } => {
                let hash = pod(&member).ok_or_else(|| "it has no Pod".to_owned());
                Some(Reply::Hash(hash.and_then(|pod| self.hash_of(pod))))
            }
            Task::ProveProgress { at, members } => Some(Reply::Proved(self.prove(pass, &at, members))),
            Task::Entry { at } => Some(Reply::Entry(self.make_entry(pass, &at))),
            Task::Site { .. } if self.faults.unread.contains(&Unread::Sites) => {
                Some(Reply::Site(Err("nodes is forbidden".to_owned())))
            }
            Task::Site { member, .. } => Some(Reply::Site(Ok(self.site_of(&member)))),
            // Words decide nothing.
            Task::NodeSays { .. } => Some(Reply::NodeSays(Ok(None))),
            // What cert-manager cannot issue it says in the Certificate.
            Task::CertificateRequests => Some(Reply::CertificateRequests(Ok(Vec::new()))),
            Task::DryRun(write) => Some(Reply::DryRun(self.admit(&write))),
            Task::Read { kind, name } => Some(self.read(kind, &name)),
            Task::Write(_) | Task::Call { .. } | Task::Generate(_) => Some(self.carry_out(pass, task)),
        }
    }

    fn read(&mut self, kind: Kind, name: &str) -> Reply {
        let object = self.object(kind, name);
        self.hear_api_server();
        if Unread::of(kind).is_some_and(|of| self.faults.unread.contains(&of)) {
            return Reply::Object(Err(WriteError::Forbidden(format!("get {} {name}", kind.as_str()))));
        }
        Reply::Object(Ok(object.map(|object| self.parsed.object(kind, &object))))
    }

    fn hash_of(&self, pod: &Pod) -> Result<KeysHash, String> {
        match self.who_answers(pod) {
            Answers::Own(at) => self.etcd.hash_kv(&at).map_err(words),
            Answers::Others => Err("another cluster answers".to_owned()),
        }
    }

    pub(super) fn ask(&self, pod: &Pod) -> Result<StatusReply, String> {
        match self.who_answers(pod) {
            Answers::Own(at) => self.etcd.status(&at).map_err(words),
            Answers::Others => self.others_status(),
        }
    }

    /// The members have applied the second of two entries, unless they do not answer or their disks hang.
    fn prove(&mut self, pass: &Pass, at: &MemberName, members: Vec<MemberName>) -> Result<Proved, String> {
        let pod = |member: &MemberName| {
            let pod = pass.observed().and_then(|(observed, _)| observed.pods.get(member));
            pod.ok_or_else(|| "it has no Pod".to_owned())
        };
        let Answers::Own(asked) = self.who_answers(pod(at)?) else {
            return Err("another etcd answers at its address".to_owned());
        };
        let index = self.etcd.prove(&asked).map_err(words)?;
        self.etcd.settle(self.now);
        let ask = |member: &MemberName| pod(member).and_then(|pod| self.ask(pod));
        let answers = members.into_iter().map(|member| {
            let reply = ask(&member);
            (member, Answer { at: self.operators_time(), reply })
        });
        Ok(Proved { proof: Proof { at: self.operators_time(), index }, answers: answers.collect() })
    }

    fn make_entry(&mut self, pass: &Pass, at: &MemberName) -> Result<(), String> {
        let pod = pass.observed().and_then(|(observed, _)| observed.pods.get(at));
        let Answers::Own(asked) = self.who_answers(pod.ok_or_else(|| "it has no Pod".to_owned())?) else {
            return Err("another etcd answers at its address".to_owned());
        };
        let made = self.etcd.alarm_list(&asked).map_err(words);
        self.etcd.settle(self.now);
        made.map(drop)
    }

    fn list(&self, via: &MemberName, pod: &Pod) -> Result<List, String> {
        let Answers::Own(at) = self.who_answers(pod) else { return Ok(self.others_list(via)) };
        let (cluster_id, conf) = self.etcd.member_list(&at).map_err(words)?;
        let members = conf.members.into_iter().map(|(id, peer)| Listed {
            id,
            name: peer.name,
            peer_url: peer.url,
            is_learner: peer.is_learner,
            started: peer.started,
        });
        Ok(List { at: self.operators_time(), cluster_id, via: via.clone(), members: members.collect() })
    }
}

fn words(failed: Failed) -> String {
    match failed {
        Failed::Refused(refusal) => format!("refused: {refusal:?}"),
        Failed::Unknown => "outcome unknown".to_owned(),
        Failed::Unreachable => "unreachable".to_owned(),
    }
}

/// A plan in one line.
fn in_words(plan: &Plan) -> String {
    let recorded_steps: Vec<String> = plan.recorded_steps.iter().map(ToString::to_string).collect();
    let waiting: Vec<String> =
        plan.waiting.iter().take(2).map(|waiting| explain(waiting).message().to_owned()).collect();
    let mut parts = Vec::new();
    if !recorded_steps.is_empty() {
        parts.push(format!("records {}", recorded_steps.join(" ")));
    }
    if !plan.effects.is_empty() {
        parts.push(format!("plans {} effects", plan.effects.len()));
    }
    if !waiting.is_empty() {
        parts.push(format!("waits: {}", waiting.join("; ")));
    }
    if parts.is_empty() { "has nothing to do".to_owned() } else { parts.join(", ") }
}
