//! What is done next: effects as values, each with its numbered protocol step, and what the plan waits on. The executor
//! carries effects out and decides nothing.
//!
//! - this file: [`Plan`], and the two kinds of [`Effect`]
//! - `kube`: writes to the Kubernetes API; `etcd`: calls to etcd
//! - `step`: the numbered steps; `waiting`: what a plan waits on; `refusal`: why a step is not taken

/// The names of the variants of an enum: of one, and of all. A variant that the list lacks does not compile.
macro_rules! names {
    ($($name:ident),+ $(,)?) => {
        /// The names of all.
        pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

        /// Its name in tests and metrics.
        pub fn name(&self) -> &'static str {
            match self {
                $(Self::$name { .. } => stringify!($name),)+
            }
        }
    };
}

mod etcd;
mod kube;
mod refusal;
mod step;
mod waiting;

use std::fmt;

use crate::incarnation::Order;
use crate::names::MemberName;
use crate::record::Record;
pub use etcd::{DowngradeAction, EtcdCall};
pub use kube::{AuthorityPlace, Boot, KubeEffect};
pub use refusal::{Mixed, NoDowngrade, TooNew, Unsafe};
pub use step::{LEARNER_DEADLINE, LEARNER_SYNC_DEADLINE, Step};
pub use waiting::{
    AuthChanging, AuthWait, AuthorityWait, ClaimOutlook, Downgrading, EarlierData, FixedField, Foreign,
    GivenUp, HeldUp, LastNode, LeftOut, MayRun, NoList, NoSnapshot, NoStep, NotBegun, NotRead, NotRestored,
    NotRotated, NotSigned, NotTaken, OrderWait, PodTrouble, RecoveryRefused, RecoveryWait, SafePoint,
    TakingTurns, Unfit, VersionRefused, Waiting, Wave,
};

/// The outcome of planning: first the record is written to status, then the effects are carried out in order; the
/// first that fails ends the pass (R3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The record that is written to status before any effect begins.
    pub record: Record,
    /// The steps at which the record changes; empty if it does not.
    pub recorded_steps: Vec<Step>,
    /// What to do, in order.
    pub effects: Vec<Effect>,
    /// What is waited on, most important first.
    pub waiting: Vec<Waiting>,
    /// The protocol after which no other ran in this pass; `None` if all ran.
    pub ended_by: Option<Protocol>,
    /// A proof of progress is needed before the next step, or to settle a doubt (R15). The pass makes one, then plans again.
    pub needs_proof: bool,
    /// Progress was not proved for a while. On a calm cluster the pass may take its time for it.
    pub proof_is_due: bool,
    /// What the API server is asked before a Pod is ended for a successor. The pass asks, then plans again.
    pub rehearsal: Option<Box<Rehearsal>>,
}

/// Effects that are sent so that nothing is created (a dry run): whether they would be admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsal {
    /// Who would come.
    pub of: Successor,
    /// The record as it would be when they are due.
    pub record: Record,
    /// The creation of a claim and of a Pod.
    pub effects: Vec<KubeEffect>,
}

/// Who comes when Pods that run are ended (R27).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Successor {
    /// The first member of the incarnation that this order begins.
    Incarnation(Order),
    /// The next Pod of this member.
    Pod(MemberName),
}

impl Plan {
    /// Whether nothing is to be done, and nothing is waited on. A proof may be due.
    pub fn is_settled(&self) -> bool {
        let all_ran = self.ended_by.is_none();
        self.does_nothing() && self.waiting.is_empty() && all_ran && !self.needs_proof
    }

    /// Whether it writes nothing to status and has no effect.
    pub fn does_nothing(&self) -> bool {
        self.recorded_steps.is_empty() && self.effects.is_empty()
    }
}

/// The protocols that can end a pass, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The cluster is being deleted.
    Delete,
    /// The record is not known to be whole: only what may be done whatever it says.
    RecordDoubt,
    /// Two cluster ids, or a member under the name of another: nothing is touched.
    SplitBrain,
    /// `spec.paused`.
    Pause,
    /// Volumes of an earlier cluster wait for a person, or are adopted.
    Adopt,
    /// Objects that this EtcdCluster does not own have its names.
    ForeignObjects,
    /// A lost quorum is recovered, as ordered.
    RecoverQuorum,
    /// The present incarnation makes way for another one, as ordered.
    NewIncarnation,
    /// The first members are started.
    Bootstrap,
    /// Status lost the committed target.
    Target,
    /// The cluster is at size zero.
    Hibernate,
    /// Peer Service and certificates.
    NamesAndCertificates,
    /// No quorum answers: only restarts.
    NoQuorum,
    /// A member is removed.
    Shrink,
    /// A member is added.
    Grow,
    /// Not every voter's Pod is labelled joined.
    JoinedLabels,
    /// A lost member is replaced.
    Replace,
    /// The number of voters differs from the target.
    Scale,
    /// Pods get the committed revision, one at a time.
    Rollout,
    /// A finished minor upgrade is taken back.
    Downgrade,
    /// Databases get room again, or are defragmented.
    Maintain,
}

impl Protocol {
    /// The page in docs/protocols that describes it.
    pub fn page(self) -> &'static str {
        match self {
            Self::RecordDoubt | Self::SplitBrain | Self::Pause | Self::ForeignObjects | Self::NoQuorum => {
                "halt"
            }
            Self::Delete => "delete",
            Self::Adopt => "adopt",
            Self::RecoverQuorum => "recover-quorum",
            Self::NewIncarnation => "in-place",
            Self::Bootstrap => "bootstrap",
            Self::Hibernate => "hibernate",
            Self::NamesAndCertificates => "certificates",
            Self::Shrink => "shrink",
            Self::Grow | Self::Scale => "grow",
            Self::JoinedLabels => "upkeep",
            Self::Replace => "replace",
            Self::Target | Self::Rollout => "rollout",
            Self::Downgrade => "upgrade",
            Self::Maintain => "maintain",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delete => "delete",
            Self::RecordDoubt => "record in doubt",
            Self::SplitBrain => "split brain",
            Self::Pause => "pause",
            Self::Adopt => "adopt",
            Self::ForeignObjects => "foreign objects",
            Self::RecoverQuorum => "recover quorum",
            Self::NewIncarnation => "new incarnation",
            Self::Bootstrap => "bootstrap",
            Self::Target => "target",
            Self::Hibernate => "hibernate",
            Self::NamesAndCertificates => "names and certificates",
            Self::NoQuorum => "no quorum",
            Self::Shrink => "shrink",
            Self::Grow => "grow",
            Self::JoinedLabels => "joined labels",
            Self::Replace => "replace",
            Self::Scale => "scale",
            Self::Rollout => "rollout",
            Self::Downgrade => "downgrade",
            Self::Maintain => "maintain",
        })
    }
}

/// One act on Kubernetes or on etcd. It is idempotent, and carries its protocol step and its preconditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A write to the Kubernetes API.
    Kube {
        /// The protocol step.
        step: Step,
        /// What is written.
        write: KubeEffect,
    },
    /// A call to etcd.
    Etcd {
        /// The protocol step.
        step: Step,
        /// The member that is asked. A change of membership is asked of the member that served the list it rests on (R9).
        at: MemberName,
        /// What it is asked for.
        call: EtcdCall,
    },
}

impl Effect {
    /// A write to the Kubernetes API as this step.
    pub fn kube(step: Step, write: KubeEffect) -> Self {
        Self::Kube { step, write }
    }

    /// A call to etcd as this step, asked of this member.
    pub fn etcd(step: Step, at: MemberName, call: EtcdCall) -> Self {
        Self::Etcd { step, at, call }
    }

    /// The names of all effects.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KubeEffect::NAMES.iter().chain(EtcdCall::NAMES).copied()
    }

    /// Its name, one of [`Self::names`].
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kube { write, .. } => write.name(),
            Self::Etcd { call, .. } => call.name(),
        }
    }

    /// The protocol step of this effect.
    pub fn step(&self) -> Step {
        match self {
            Self::Kube { step, .. } | Self::Etcd { step, .. } => *step,
        }
    }

    /// The write, if this effect is one.
    pub fn as_kube(&self) -> Option<&KubeEffect> {
        match self {
            Self::Kube { write, .. } => Some(write),
            Self::Etcd { .. } => None,
        }
    }

    /// The call to etcd, if this effect is one.
    pub fn as_etcd(&self) -> Option<&EtcdCall> {
        match self {
            Self::Etcd { call, .. } => Some(call),
            Self::Kube { .. } => None,
        }
    }

    /// Whether the next effect may be sent before the reply to this one arrives. Independent writes of one step may;
    /// everything else waits for the effect before it.
    pub fn runs_in_parallel_with(&self, next: &Self) -> bool {
        let is_independent = |effect: &Self| effect.as_kube().is_some_and(KubeEffect::is_independent);
        is_independent(self) && is_independent(next) && self.step() == next.step()
    }

    /// Whether the plan goes on when this effect fails. No other effect of the plan depends on upkeep, on the order of a backup or on the
    /// restart of a lost Pod, and their failure may last: a storage class that cannot expand volumes, a quota that is used up. The failure
    /// is reported.
    pub fn is_best_effort(&self) -> bool {
        matches!(
            self.step(),
            Step::T0
                | Step::D0
                | Step::K1
                | Step::K2
                | Step::K3
                | Step::K4
                | Step::B7
                | Step::W1
                | Step::W2
                | Step::W3
                | Step::I3
                | Step::I4
                | Step::I5
                | Step::I6
                | Step::I7
                | Step::C1
                | Step::C2
                | Step::C3
                | Step::C4
                | Step::C5
                | Step::C6
                | Step::C7
        )
    }

    /// Whether it takes redundancy, data or a leader: it is only right as long as what it rests on is (R18).
    pub fn is_destructive(&self) -> bool {
        match self {
            Self::Kube { write, .. } => write.is_destructive(),
            Self::Etcd { call, .. } => match call {
                EtcdCall::AddLearner { .. } => false,
                EtcdCall::Promote { .. }
                | EtcdCall::RemoveMember { .. }
                | EtcdCall::MoveLeadership { .. }
                | EtcdCall::Disarm { .. }
                | EtcdCall::Compact { .. }
                | EtcdCall::Defragment { .. }
                | EtcdCall::Auth { .. }
                | EtcdCall::DeleteUser { .. }
                | EtcdCall::DeleteRole { .. }
                | EtcdCall::Downgrade { .. } => true,
            },
        }
    }

    /// Whether it changes etcd's membership.
    pub fn changes_membership(&self) -> bool {
        self.as_etcd().is_some_and(EtcdCall::changes_membership)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kube { write, .. } => write.fmt(f),
            Self::Etcd { at, call, .. } => write!(f, "{call} via {at}"),
        }
    }
}
