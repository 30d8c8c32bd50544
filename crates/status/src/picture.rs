//! The observation, prepared for conditions: which members are not healthy and why, what the plan waits on, the phase.

use quorate_api::status::{EtcdClusterStatus, Phase};
use quorate_api::{ConditionType, Explanation, Reason, conditions};
use quorate_model::effect::{OrderWait, RecoveryWait, Unsafe};
use quorate_model::incarnation::Order;
use quorate_model::record::Stage;
use quorate_model::snapshot::Pod;
use quorate_model::{Effect, Instant, KubeEffect, MemberName, Plan, Record, Snapshot, Span, Target, Waiting};

use super::backups::BackupHealth;
use super::data_store::DataStoreHealth;
use super::waiting::{explain, text};
use crate::{order_name, replace_command, why_sick};
use quorate_manifests::Invalid;

/// How long members that were all started at once may take to their first quorum before it counts as lost.
const TO_COME_UP: Span = Span::seconds(120);

/// How long after the first quorum the other members may take to join it before they count as unhealthy.
const TO_SETTLE: Span = Span::seconds(30);

pub(super) struct Picture<'a> {
    pub(super) before: &'a EtcdClusterStatus,
    pub(super) seen: &'a Snapshot,
    pub(super) refused: Option<&'a Invalid>,
    pub(super) plan: &'a Plan,
    pub(super) record: &'a Record,
    /// What is known about backups.
    pub(super) backups: Option<&'a BackupHealth>,
    /// What is known about its DataStore of Kamaji.
    pub(super) data_store: Option<&'a DataStoreHealth>,
    pub(super) now: Instant,
    /// Voters that are not healthy, and why.
    pub(super) sick: Vec<(MemberName, String)>,
}

impl<'a> Picture<'a> {
    pub(super) fn new(
        before: &'a EtcdClusterStatus,
        seen: &'a Snapshot,
        refused: Option<&'a Invalid>,
        plan: &'a Plan,
        now: Instant,
    ) -> Self {
        let record = &plan.record;
        let (backups, data_store, sick) = (None, None, Vec::new());
        let mut picture = Self { before, seen, refused, plan, record, backups, data_store, now, sick };
        if !picture.is_stopped_on_purpose() {
            let voters = picture.record.voters();
            picture.sick =
                voters.filter_map(|voter| Some((voter.clone(), picture.why_not_healthy(voter)?))).collect();
        }
        picture
    }

    pub(super) fn phase(&self) -> Phase {
        if self.is_deleted() {
            return Phase::Deleting;
        }
        if self.is_blocked() {
            return Phase::Blocked;
        }
        if self.record.next_incarnation.is_some() {
            return Phase::Restoring;
        }
        if !self.record.is_bootstrapped() && self.record.incarnation.is_some() && self.target().size > 0 {
            return Phase::Restoring;
        }
        if !self.record.is_bootstrapped() {
            return if self.record.attempt == 0 || self.target().size == 0 {
                Phase::Pending
            } else {
                Phase::Bootstrapping
            };
        }
        if self.record.hibernating {
            return if self.seen.pods.is_empty() { Phase::Hibernated } else { Phase::Hibernating };
        }
        if self.is_coming_up() {
            return if self.is_waking() { Phase::Waking } else { Phase::Bootstrapping };
        }
        if !self.has_quorum() || !self.has_endpoint() {
            return Phase::Unavailable;
        }
        if !self.sick.is_empty() || !self.seen.alarms(self.now).is_empty() {
            return Phase::Degraded;
        }
        if self.is_scaling() { Phase::Scaling } else { Phase::Running }
    }

    /// The committed target; before the first commit, the desired one.
    pub(super) fn target(&self) -> &Target {
        self.record.target.as_ref().unwrap_or(&self.seen.desired)
    }

    /// Its Pods are stopped on purpose.
    pub(super) fn is_stopped_on_purpose(&self) -> bool {
        self.record.hibernating
            || self.is_ending()
            || self.record.next_incarnation.is_some()
            || self.record.quorum_recovery.is_some()
    }

    /// Its quorum is being recovered: what that waits for, first what a person has to do.
    pub(super) fn recovers(&self) -> Option<Explanation> {
        self.record.quorum_recovery.as_ref()?;
        let refused = |waiting: &'a Waiting| {
            matches!(waiting, Waiting::Recovery(RecoveryWait::Refused(_)) | Waiting::Unsafe(_))
        };
        let runs = |waiting: &'a Waiting| {
            matches!(waiting, Waiting::Recovery(RecoveryWait::MayRun(..) | RecoveryWait::NotRead(..)))
        };
        let all = |waiting: &'a Waiting| matches!(waiting, Waiting::Recovery(RecoveryWait::Reads { .. }));
        let first =
            |is: &dyn Fn(&'a Waiting) -> bool| self.waits(|waiting| is(waiting).then(|| explain(waiting)));
        let otherwise =
            || Explanation::new(Reason::RecoveringQuorum, "the quorum is being recovered, as ordered");
        let (found, has) = (first(&refused).or_else(|| first(&runs)), first(&all));
        // Whoever has to name a member needs to know what each one has.
        Some(match (found, has) {
            (Some(found), Some(has)) => {
                Explanation::new(found.reason(), format!("{}. {}", found.message(), has.message()))
            }
            (found, has) => found.or(has).unwrap_or_else(otherwise),
        })
    }

    /// Its deletion is ordered.
    pub(super) fn is_deleted(&self) -> bool {
        self.seen.deleting || self.seen.data_store.is_some()
    }

    /// It is being deleted, and its members do not serve on until a backup is complete.
    pub(super) fn is_ending(&self) -> bool {
        let serves_on = |waiting: &Waiting| matches!(waiting, Waiting::FinalBackup(_)).then_some(());
        self.seen.deleting && self.waits(serves_on).is_none()
    }

    /// Its members make way for another incarnation: what that waits for.
    pub(super) fn restores_in_place(&self) -> Option<Explanation> {
        let order = &self.record.next_incarnation.as_ref()?.order;
        // One that stays holds everything up, so it comes first.
        let stays =
            self.waits(|waiting| matches!(waiting, Waiting::PodStopsLate { .. }).then(|| text(waiting)));
        let stays = stays.map(|text| {
            let order = order_name(order);
            let text = format!(
                "{order} waits: {text}. No new member is started beside it. Or delete {order}: then the old members start again"
            );
            Explanation::new(Reason::PodNotTerminated, text)
        });
        let moves = || {
            self.waits(|waiting| {
                matches!(waiting, Waiting::Order(_, OrderWait::Replacing)).then(|| explain(waiting))
            })
        };
        let text = "every member is being replaced, as an EtcdRestore orders";
        let otherwise = || Explanation::new(Reason::RestoringInPlace, text);
        let why = stays.or_else(moves).unwrap_or_else(otherwise);
        if !self.goes_on_without_its_order() {
            return Some(why);
        }
        let text = format!(
            "{}. Its order was removed after every member had stopped and their volumes were given up, so it is not withdrawn and goes on",
            why.message()
        );
        Some(Explanation::new(why.reason(), text))
    }

    /// Whether the order for another incarnation was removed when it could not be withdrawn any more.
    fn goes_on_without_its_order(&self) -> bool {
        let next = self.record.next_incarnation.as_ref().filter(|next| next.stopped);
        next.is_some_and(|next| match &next.order {
            Order::Restore { .. } => !self.seen.orders.iter().any(|seen| seen.order == next.order),
            Order::Recovery { .. } => self.seen.recover_from.is_none(),
        })
    }

    /// A linearizable list was read a moment ago: proof of a quorum.
    pub(super) fn has_quorum(&self) -> bool {
        self.seen.had_quorum(self.now)
    }

    /// A client that connects through the client Service reaches a member that a quorum follows.
    pub(super) fn has_endpoint(&self) -> bool {
        self.seen.serving_endpoints(self.now).next().is_some()
    }

    /// Whether etcd was asked at all since the operator started.
    pub(super) fn was_looked_at(&self) -> bool {
        let etcd = &self.seen.etcd;
        etcd.list.is_some() || etcd.list_failure.is_some() || !etcd.answers.is_empty()
    }

    /// Started voters that answer and whose Pods are ready.
    pub(super) fn serving(&self) -> usize {
        let serves = |member: &&MemberName| {
            let ready = self.seen.pods.get(*member).is_some_and(|pod| pod.ready && !pod.terminating);
            ready && self.seen.status_of(member, self.now).is_some_and(|reply| !reply.is_learner)
        };
        self.record.members.keys().filter(serves).count()
    }

    pub(super) fn is_scaling(&self) -> bool {
        let moves = |stage| matches!(stage, Stage::Joining | Stage::Leaving(_));
        self.record.members.values().any(|member| moves(member.stage))
            || self.record.voters().count() != self.target().size
    }

    /// Voters whose Pods have an earlier revision.
    pub(super) fn stale(&self) -> Vec<&'a MemberName> {
        let voters = self.record.voters();
        voters.filter(|voter| self.seen.is_stale(self.record, voter)).collect()
    }

    /// Nothing is done until a person has decided.
    pub(super) fn is_blocked(&self) -> bool {
        let bootstrapped = self.record.is_bootstrapped();
        self.plan.waiting.iter().any(|waiting| {
            matches!(waiting, Waiting::SplitBrain(_) | Waiting::WrongMember { .. } | Waiting::EarlierData(_))
                || (matches!(waiting, Waiting::ForeignObjects(_)) && !bootstrapped)
        })
    }

    pub(super) fn is_waking(&self) -> bool {
        matches!(self.before.phase, Some(Phase::Hibernating | Phase::Hibernated | Phase::Waking))
    }

    /// Bootstrapped or woken a moment ago: every member that is not healthy yet is starting, or no Pod is ready yet.
    pub(super) fn is_coming_up(&self) -> bool {
        let fresh =
            matches!(self.before.phase, Some(Phase::Pending | Phase::Bootstrapping | Phase::Restoring))
                || self.is_waking();
        let (since, span) = if self.has_quorum() {
            (self.true_since(ConditionType::QuorumAvailable), TO_SETTLE)
        } else {
            (self.true_since(ConditionType::Progressing), TO_COME_UP)
        };
        fresh
            && (!self.sick.is_empty() || (self.has_quorum() && !self.has_endpoint()))
            && self.now - since < span
            && self.sick.iter().all(|(member, _)| self.is_on_its_way(member))
    }

    /// The voters without a Pod that has this.
    pub(super) fn voters_lacking(&self, has: impl Fn(&Pod) -> bool) -> Vec<&str> {
        let lacks = |voter: &&MemberName| !self.seen.pods.get(*voter).is_some_and(&has);
        self.record.voters().filter(lacks).map(MemberName::as_str).collect()
    }

    fn is_on_its_way(&self, member: &MemberName) -> bool {
        let young =
            |pod: &Pod| pod.trouble.is_none() && pod.guard.is_none() && pod.restarts == 0 && !pod.terminating;
        self.seen.pods.get(member).map_or_else(|| self.is_being_made(member), young)
    }

    /// Since when a condition is true; one that is not yet may become so now.
    fn true_since(&self, type_: ConditionType) -> Instant {
        let holds = conditions::find_true(&self.before.conditions, type_.as_str());
        holds.map_or(self.now, |own| Instant(own.last_transition_time.0.as_millisecond()))
    }

    fn is_being_made(&self, member: &MemberName) -> bool {
        let made = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::CreatePod { member: made, .. }) if made == member);
        self.plan.effects.iter().any(made)
    }

    /// The first thing that is waited on and that this picks out.
    pub(super) fn waits<T>(&self, pick: impl Fn(&'a Waiting) -> Option<T>) -> Option<T> {
        self.plan.waiting.iter().find_map(pick)
    }

    /// What is waited on first, else what is being done. A proof that fails is named in any case: nothing goes on without it.
    pub(super) fn next_step(&self) -> String {
        let first = self.plan.waiting.first();
        let no_proof = |waiting: &&Waiting| matches!(waiting, Waiting::Unsafe(Unsafe::NotProven(Some(_))));
        let no_proof = self.plan.waiting.iter().skip(1).find(no_proof);
        let waiting = first.map(|first| match no_proof {
            Some(no_proof) => format!("{}; {}", text(first), text(no_proof)),
            None => text(first),
        });
        let done = || self.plan.effects.first().map(ToString::to_string);
        waiting.or_else(done).unwrap_or_default()
    }

    /// `None` if it is healthy; otherwise the nearest cause, and what is done about it.
    pub(super) fn why_not_healthy(&self, member: &MemberName) -> Option<String> {
        if self.record.hibernating {
            return Some("stopped: the cluster is at size zero".to_owned());
        }
        let Some(pod) = self.seen.pods.get(member) else {
            return Some(self.why_without_pod(member));
        };
        if pod.terminating {
            let leaves =
                self.record.members.get(member).is_some_and(|known| matches!(known.stage, Stage::Leaving(_)));
            let then = if leaves {
                "the member is being removed"
            } else if pod.is_stuck(self.now) {
                return Some(self.why_stuck(member, pod));
            } else {
                "it is restarted on its volume afterwards"
            };
            return Some(format!("its Pod is stopping; {then}"));
        }
        if self.seen.is_getting_ready_after_defragmentation(member, self.now) {
            return None;
        }
        self.seen.why_unhealthy(member, self.now).map(|why| why_sick(&why))
    }

    /// Its node may be dead, and only a person knows for how long.
    fn why_stuck(&self, member: &MemberName, pod: &Pod) -> String {
        let node = pod.node.as_deref().unwrap_or("NODE");
        let is_unread =
            !self.seen.sites.contains_key(member) && self.seen.sites_to_ask().any(|of| of == member);
        let on_order = if is_unread {
            format!(
                ". The operator cannot read nodes and PersistentVolumes, so where the volume is on a disk of that machine, order the \
                 replacement as well: {}",
                replace_command(&self.seen.order_to_replace(member))
            )
        } else {
            ". Then it starts elsewhere; where its volume is on a disk of that machine, it is replaced after \
             spec.recovery.gracePeriod"
                .to_owned()
        };
        format!(
            "its Pod is stopping, and Node {node} does not confirm it. If that machine is off for good, say so: kubectl delete node \
             {node}, or kubectl taint nodes {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute{on_order}"
        )
    }

    fn why_without_pod(&self, member: &MemberName) -> String {
        let lost = |waiting: &Waiting| matches!(waiting, Waiting::VolumeLost(lost) if lost == member);
        if self.plan.waiting.iter().any(lost) {
            "its volume is gone, and its data with it; it is not restarted on an empty volume".to_owned()
        } else if self.is_being_made(member) {
            "its Pod is gone, and is restarted on its volume".to_owned()
        } else {
            "it has no Pod".to_owned()
        }
    }
}
