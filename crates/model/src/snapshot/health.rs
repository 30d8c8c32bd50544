//! The one definition of a healthy member (R15), and why a member is not. Gates, the choice of members, status and metrics use them.

use strum::{IntoStaticStr, VariantNames};

use super::loss::MOUNTED_WITHIN;
use super::service::is_unnamed_corrupt;
use super::{Alarm, AlarmKind, Snapshot};
use crate::guard::GuardVerdict;
use crate::ids::MemberId;
use crate::mutants;
use crate::names::{ClusterRef, MemberName, Uid};
use crate::record::Stage;
use crate::time::{Instant, Span};

/// The entries that a leader keeps for followers that are behind (etcd's `DefaultSnapshotCatchUpEntries`). 3.5 keeps these and what
/// follows its last snapshot of the log.
pub const CATCH_UP_ENTRIES: u64 = 5_000;

/// A member that was away may take so long until it keeps up again.
const CATCHES_UP_WITHIN: Span = Span::seconds(600);

/// How long a member that answers may take until its Pod is ready: the probe asks every second at first.
pub const READY_WITHIN: Span = Span::seconds(60);

/// A Pod that starts takes a few seconds. From then on its node is asked what keeps it.
const STARTED_WITHIN: Span = Span::seconds(10);

/// How the readiness probe of a container that runs fails, as its kubelet reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unready {
    /// It has not passed since this time, when the container or its kubelet was started.
    NotYet(Instant),
    /// It passed since the container was started, and does not any more.
    NoMore,
}

/// Why a member is not healthy.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum Unhealthy {
    /// It has no Pod.
    NoPod,
    /// Its Pod is being deleted.
    Terminating,
    /// There is no recent answer; with the reason, if one is known.
    NoAnswer(Option<String>),
    /// It is a voter by the list, and reports that it is still a learner: it has not applied its promotion, or its data lack it
    /// (etcd-io/etcd#18347).
    Learner,
    /// It follows no leader, or one that no quorum follows.
    NoLeader,
    /// It follows another leader than a quorum of the voters.
    OtherLeader {
        /// The leader that it reports.
        follows: MemberId,
        /// The leader of the others.
        leader: MemberId,
    },
    /// It has not applied what the leader committed some time ago.
    Lagging {
        /// The index that it has applied.
        applied: u64,
        /// The index that it must have applied.
        committed: u64,
    },
    /// Its data differ from those of a majority of the members.
    Differs,
    /// An alarm names it.
    Alarm(AlarmKind),
    /// It reports errors.
    Errors(Vec<String>),
    /// All else is well, but its Pod is not ready: the agent finds that the volume takes no writes, or that a read fails.
    NotReady,
}

/// Why a member is not healthy, by the nearest cause.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum Sick {
    /// The guard of the agent refuses its volume: its verdict, and why.
    Guard(GuardVerdict, String),
    /// Its Pod is in trouble.
    Pod {
        /// What Kubernetes says.
        trouble: String,
        /// What its node says.
        says: Option<String>,
        /// Its disk may be gone for good. Then it is replaced by this order.
        lost: Option<ReplaceMember>,
    },
    /// Its node has not mounted its volume for long.
    NotMounted {
        /// Its Pod.
        pod: PodName,
        /// What the node says.
        says: Option<String>,
        /// Its disk may be gone for good. Then it is replaced by this order.
        lost: Option<ReplaceMember>,
    },
    /// Its Pod starts; what its node says, if it does not.
    Starting(Option<String>),
    /// It has not answered recently.
    Silent,
    /// etcd's auth refuses the operator.
    KeptOut,
    /// It was defragmented, and its Pod will be ready.
    Defragmented,
    /// Its Pod is not ready although etcd answers.
    NotReady {
        /// Its Pod.
        pod: PodName,
        /// What its node says.
        says: Option<String>,
    },
    /// It is too far behind to catch up entry by entry; what it lacks, if its volume has no room for a snapshot.
    FarBehind(Option<NoRoom>),
    /// It cannot answer: of two Pods that may contradict each other it decides first.
    MustAnswer,
    /// What its answers show.
    Is(Unhealthy),
}

/// The Pod of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName {
    /// Its name.
    pub member: MemberName,
    /// Its namespace.
    pub namespace: String,
}

/// The order of a person to replace a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplaceMember {
    /// The EtcdCluster.
    pub cluster: ClusterRef,
    /// The member.
    pub member: MemberName,
    /// Its ID, if it is known.
    pub id: Option<MemberId>,
}

/// Why a member cannot receive a snapshot of the leader's database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// The bytes that its volume needs.
    pub needed: u64,
    /// Whether a new volume of the size in the spec has them.
    pub new_volume_fits: bool,
    /// The order to replace it.
    pub order: ReplaceMember,
}

impl Snapshot {
    /// Whether a member is healthy: its Pod is not being deleted, it answered recently, it follows the leader that the others
    /// follow, it has applied what the leader had committed before, no alarm names it, and its readiness probe passes.
    pub fn is_healthy(&self, member: &MemberName, now: Instant) -> bool {
        self.health(member, now).is_ok()
    }

    /// Whether a member is healthy but for a full database, or for an alarm CORRUPT while its data are those of a majority. It refuses writes of clients, and takes part in raft as ever: it votes, leads, and stores what the cluster commits.
    pub fn is_sound(&self, member: &MemberName, now: Instant) -> bool {
        self.soundness(member, now).is_ok()
    }

    /// Why a member is not healthy, if it is not.
    pub fn health(&self, member: &MemberName, now: Instant) -> Result<(), Unhealthy> {
        self.soundness(member, now)?;
        let Some(status) = self.status_of(member, now) else { return Ok(()) };
        let no_space = self.alarms(now).into_iter().find(|alarm| alarm.member == status.member_id);
        match no_space {
            Some(alarm) if !mutants::is_broken(mutants::Rule::R15Alarm) => {
                return Err(Unhealthy::Alarm(alarm.kind));
            }
            Some(_) | None => {}
        }
        let is_alarmed = status.errors.iter().any(|error| is_unnamed_corrupt(error));
        if is_alarmed && !mutants::is_broken(mutants::Rule::R15Errors) {
            return Err(Unhealthy::Errors(status.errors.clone()));
        }
        Ok(())
    }

    fn soundness(&self, member: &MemberName, now: Instant) -> Result<(), Unhealthy> {
        match self.pods.get(member) {
            None => return Err(Unhealthy::NoPod),
            Some(pod) if pod.terminating && !mutants::is_broken(mutants::Rule::R15Terminating) => {
                return Err(Unhealthy::Terminating);
            }
            Some(_) => {}
        }
        if self.is_excused(member, now) {
            return Ok(());
        }
        let Some(status) = self.status_of(member, now) else {
            if mutants::is_broken(mutants::Rule::R15Answers) {
                return Ok(());
            }
            let answer = self.etcd.answers.get(member).map(|answer| &answer.reply);
            return Err(Unhealthy::NoAnswer(answer.and_then(|reply| reply.as_ref().err().cloned())));
        };
        let is_voter = self.record.members.get(member).is_some_and(|member| member.stage == Stage::Voter);
        if is_voter && status.is_learner && !mutants::is_broken(mutants::Rule::R15Learner) {
            return Err(Unhealthy::Learner);
        }
        if !mutants::is_broken(mutants::Rule::R15Leader) {
            match (status.leader, self.leader(now)) {
                (Some(follows), Some(leader)) if leader == follows => {}
                (Some(follows), Some(leader)) => return Err(Unhealthy::OtherLeader { follows, leader }),
                // A leader that nobody follows any more still names itself.
                (None, _) | (Some(_), None) => return Err(Unhealthy::NoLeader),
            }
        }
        if let Some(committed) = self.must_have_applied()
            && status.applied < committed
        {
            return Err(Unhealthy::Lagging { applied: status.applied, committed });
        }
        // An alarm is a reason to compare. It may name nobody (3.5), or a follower where the leader is wrong (`PeriodicCheck`).
        let is_right = self.agrees_with_majority(member, now) || mutants::is_broken(mutants::Rule::PAgrees);
        if self.differs_from_majority(member, now) && !mutants::is_broken(mutants::Rule::R15Alarm) {
            return Err(Unhealthy::Differs);
        }
        if self.is_corrupt(status.member_id, now) && !is_right && !mutants::is_broken(mutants::Rule::R15Alarm)
        {
            return Err(Unhealthy::Alarm(AlarmKind::Corrupt));
        }
        let is_of_others = |error: &String| is_unnamed_corrupt(error) && is_right;
        let errors: Vec<String> =
            status.errors.iter().filter(|error| !is_of_others(error)).cloned().collect();
        if !errors.is_empty() && !mutants::is_broken(mutants::Rule::R15Errors) {
            return Err(Unhealthy::Errors(errors));
        }
        if self.fails_its_probe(member, now) && !mutants::is_broken(mutants::Rule::R15Canary) {
            return Err(Unhealthy::NotReady);
        }
        Ok(())
    }

    /// Whether all that is wrong with a member is that its readiness probe has not passed again since a defragmentation that the operator
    /// ordered: etcd answered no read meanwhile, and the probe lags behind. That is nothing to report. The member is not healthy all the
    /// same, so no gate asks this.
    pub fn is_getting_ready_after_defragmentation(&self, member: &MemberName, now: Instant) -> bool {
        let lost_readiness = self.pods.get(member).is_some_and(|pod| pod.unready == Some(Unready::NoMore));
        let is_over = self.etcd.defragmentations.iter().any(|attempt| {
            let ended = attempt.answered && attempt.member == *member;
            ended && attempt.at <= now && now - attempt.at <= READY_WITHIN
        });
        lost_readiness && is_over && self.health(member, now) == Err(Unhealthy::NotReady)
    }

    /// Why a member is not healthy, by the nearest cause. `None` if it is healthy.
    pub fn why_unhealthy(&self, member: &MemberName, now: Instant) -> Option<Sick> {
        let why = self.health(member, now).err()?;
        let pod = self.pods.get(member);
        if let Some((verdict, message)) = pod.and_then(|pod| pod.guard.as_ref()) {
            return Some(Sick::Guard(*verdict, message.clone()));
        }
        let says = pod.and_then(|pod| pod.node_says.clone());
        if let Some(trouble) = pod.and_then(|pod| pod.trouble.clone()) {
            let lost = self.lost_site(member, &trouble, now);
            return Some(Sick::Pod { trouble, says, lost });
        }
        if self.is_not_mounted(member, now) {
            return Some(Sick::NotMounted { pod: self.pod_name(member), says, lost: self.lost_disk(member) });
        }
        if pod.is_some_and(|pod| pod.ip.is_none() && !pod.terminating) {
            return Some(Sick::Starting(says));
        }
        Some(match why {
            Unhealthy::NoAnswer(None) if self.etcd.answers.contains_key(member) => Sick::Silent,
            Unhealthy::NoAnswer(Some(_)) if self.refuses_by_auth(member) => Sick::KeptOut,
            Unhealthy::NotReady if self.is_getting_ready_after_defragmentation(member, now) => {
                Sick::Defragmented
            }
            Unhealthy::NotReady => Sick::NotReady { pod: self.pod_name(member), says },
            Unhealthy::Lagging { applied, committed } if committed - applied > CATCH_UP_ENTRIES => {
                self.far_behind(member, now)
            }
            why => Sick::Is(why),
        })
    }

    fn pod_name(&self, member: &MemberName) -> PodName {
        PodName { member: member.clone(), namespace: self.cluster.namespace.clone() }
    }

    /// The order to replace it where its disk is gone for good, if there is a disk.
    fn lost_disk(&self, member: &MemberName) -> Option<ReplaceMember> {
        let is_voter = self.record.members.get(member).is_some_and(|member| member.stage == Stage::Voter);
        (is_voter && !self.record.is_in_memory()).then(|| self.order_to_replace(member))
    }

    /// The same for a Pod for which no node is where its volume is: of a zone without nodes nothing says whether it comes back.
    fn lost_site(&self, member: &MemberName, trouble: &str, now: Instant) -> Option<ReplaceMember> {
        let since = self.etcd.unhealthy_since.get(member);
        let lasts = since.is_some_and(|since| now - *since > MOUNTED_WITHIN);
        self.lost_disk(member).filter(|_| lasts && trouble.contains("volume node affinity conflict"))
    }

    /// Of a member that is too far behind to catch up entry by entry.
    fn far_behind(&self, member: &MemberName, now: Instant) -> Sick {
        let since = self.etcd.unhealthy_since.get(member);
        let lasts = since.is_some_and(|since| now - *since > CATCHES_UP_WITHIN);
        let no_room = self.volume_for_snapshot(member, now).filter(|_| lasts).map(|needed| NoRoom {
            needed,
            new_volume_fits: self.new_volume_fits_snapshot(&self.record, now),
            order: self.order_to_replace(member),
        });
        Sick::FarBehind(no_room)
    }

    /// The Pods of which their nodes are asked for words: those that do not start, or are not ready, for longer than most starts take.
    pub fn nodes_to_hear(&self, now: Instant) -> impl Iterator<Item = (&MemberName, &Uid)> {
        let is_late = move |since: Instant| now - since > STARTED_WITHIN;
        let pods = self.pods.iter().filter(move |(_, pod)| {
            let is_unready = match pod.unready {
                Some(Unready::NotYet(since)) => is_late(since),
                Some(Unready::NoMore) => true,
                None => false,
            };
            let is_wanted = pod.mounting.is_some_and(is_late) || is_unready || pod.trouble.is_some();
            is_wanted && !pod.terminating && !pod.finished
        });
        pods.map(|(member, pod)| (member, &pod.uid))
    }

    /// Whether a voter's Pod lost its readiness, or did not get it in time. A learner is not ready by design.
    fn fails_its_probe(&self, member: &MemberName, now: Instant) -> bool {
        let Some(voter) = self.record.members.get(member).filter(|member| member.stage == Stage::Voter)
        else {
            return false;
        };
        match self.pods.get(member).and_then(|pod| pod.unready) {
            None => false,
            Some(Unready::NoMore) => true,
            // Until it was promoted, it was a learner.
            Some(Unready::NotYet(since)) => now - since.max(voter.since) > READY_WITHIN,
        }
    }

    /// The index that every healthy member has applied by now.
    pub(super) fn must_have_applied(&self) -> Option<u64> {
        let before = self.etcd.committed_before.filter(|_| !mutants::is_broken(mutants::Rule::R15Index));
        let proof = self.etcd.proof.filter(|_| !mutants::is_broken(mutants::Rule::R15Proof));
        before.map(|mark| mark.index).max(proof.map(|proof| proof.index))
    }

    /// Whether an alarm says that the data of this member differ, by any member's answer.
    fn is_corrupt(&self, id: MemberId, now: Instant) -> bool {
        self.alarms(now).contains(&Alarm { member: id, kind: AlarmKind::Corrupt })
    }
}
