//! Why a step must not be taken: the refusals of the safety rules.

use strum::{IntoStaticStr, VariantNames};

use crate::names::MemberName;
use crate::snapshot::Alarm;
use crate::version::Minor;

/// Why a step must not be taken now. The same value goes to status, event, metric and test.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum Unsafe {
    /// R1: `new` for a member outside the recorded bootstrap set, or after the cluster ID was recorded.
    NotABootstrapMember(MemberName),
    /// R1: the cluster begins with a snapshot, and this member would begin with nothing.
    MustRestore(MemberName),
    /// R1: the member may have data that acknowledge writes, and would begin with the snapshot once more.
    RestoresAgain(MemberName),
    /// R2, R3: the record has no entry for this member.
    NotRecorded(MemberName),
    /// R2: the volume belongs to another incarnation, or is missing where data must be.
    NotItsVolume(MemberName),
    /// R3: the object was not observed, or differs from what the effect expects.
    NotSeen(MemberName),
    /// R5: another change of membership is outstanding.
    ChangeOutstanding(MemberName),
    /// R5: only one effect of a plan may reduce redundancy.
    SecondDisruption(MemberName),
    /// R6, R5: a voter is not healthy, so membership does not grow and no healthy voter is disturbed.
    VoterUnhealthy(MemberName),
    /// R7: the list does not show that ID with that URL.
    NotThatMember(MemberName),
    /// R15: this pass has no proof yet that every member stores what the cluster commits; why it failed, if it did.
    NotProven(Option<String>),
    /// R16: this Pod serves, so it is evicted and not deleted.
    MustEvict(MemberName),
    /// R16: the budget still admits an eviction, or a Pod is being evicted; the member that is about to be disrupted.
    BudgetOpen(MemberName),
    /// R24: clients were not led away from this member yet, or not long enough ago.
    StillServes(MemberName),
    /// R24: too few other members serve clients for clients to be led away from this one.
    LastThatServes(MemberName),
    /// R9: there is no fresh linearizable list, or it is from another member.
    NoFreshList,
    /// R10: the member is still in the list, or the list is not known.
    StillListed(MemberName),
    /// R10: its Pod is not gone.
    PodNotGone(MemberName),
    /// R10: no recorded decision deletes these data.
    DataKept(MemberName),
    /// R21: its claim is being deleted, and its data go with its Pod.
    ClaimTerminating(MemberName),
    /// R21: whether its claim is being deleted is not known, and why.
    ClaimNotRead(MemberName, String),
    /// R27: whether the API server would admit the next Pod of this member is not known; what it said, if it was asked.
    NotAdmitted(MemberName, Option<String>),
    /// R11: without quorum, Pods are restarted and nothing else is done.
    NoQuorum,
    /// R11: the others would not be a quorum.
    WouldLoseQuorum {
        /// The member in question.
        member: MemberName,
        /// Healthy voters left.
        left: usize,
        /// Voters of the resulting membership.
        of: usize,
    },
    /// R11: in memory its data go with its Pod, and it is not replaced then: `spec.recovery.enabled` is false.
    NotReplaced(MemberName),
    /// R12.
    SplitBrain,
    /// R19: certificates or data of another authority exist, or it is not the recorded one.
    AnotherAuthority,
    /// R19, C4: this member is not seen to trust what it has to trust by now.
    NotTrusted(MemberName),
    /// R19, C6: this member is not seen to present what the new authority signed.
    EarlierPresented(MemberName),
    /// R19: the Secrets of leaves do not have all that members are to trust or to present yet.
    BundleNotWritten,
    /// R19: a bundle has what the record says, and nothing else.
    OtherBundle,
    /// R19: a Pod exists, whose process trusts the authority that another one would replace at once.
    PodsExist,
    /// R19: the authority of clients is not the one that the spec names, or that cannot be taken.
    OtherSource,
    /// C1: a DataStore of Kamaji may exist, whose tenants get certificates by the key of the authority of clients, and the next one is without its key.
    TenantsNeedKey,
    /// C4: no member was reached yet with what the new authority signed for the operator.
    NotReached,
    /// R19, C4, C6: this Secret, which clients read, lacks what they are to follow in this stage of the rotation.
    NotTold(String),
    /// R26: the accepted spec does not ask cert-manager for this, or nothing is changed now.
    NotAsked,
    /// R25: it is not shown to be what cert-manager made for this EtcdCluster, or it has changed.
    NotIssuedForThis,
    /// L4 to L9: no record, and no order of a person, has auth changed so.
    AuthNotOrdered,
    /// L9: a DataStore of Kamaji may exist, and only auth keeps its tenants from the data of each other.
    TenantsNeedAuth,
    /// L8: the user root, whose certificate the operator has, is not seen to have the role root: nobody could do anything any more.
    NoRootUser,
    /// L8: the user root is not made anew right before. It may have a password that somebody gave it while auth was off.
    RootNotNew,
    /// L8: somebody else has the role root, and may do everything.
    OthersAreRoot,
    /// L10: it is not seen that the user of this name has no EtcdUser, or it is to stay.
    NotAnOrphan(String),
    /// L11: clients have no time, so nobody is made for them.
    NoClientGrace,
    /// L11: clients still have time, or a person made their user.
    ClientsHaveTime,
    /// L8: the Pod of this member does not have the operator's credential, so its agent could not move leadership away.
    LacksCredential(MemberName),
    /// R10, R19: the authority is kept with the data of the cluster.
    AuthorityKept,
    /// P1: nothing shows that its data are lost, and no person ordered to replace it.
    NotLost(MemberName),
    /// P3: it is healthy, no other voter has its place, and it does not move in place.
    LacksSuccessor(MemberName),
    /// R15: data of members differ, and it is not known that those of a quorum of the voters that would be left are right.
    DataUndecided(MemberName),
    /// N3: what an alarm was raised for is still so, or it is not known that it is not.
    AlarmHolds(Alarm),
    /// R20: membership does not change while versions are mixed, or a downgrade is under way.
    VersionsMixed(Mixed),
    /// R20: no older binary starts on these data; why.
    DataTooNew(MemberName, TooNew),
    /// R20: etcd's downgrade may not begin or end now; why.
    NoDowngrade(NoDowngrade),
    /// R5, R15: a member is being defragmented, so nothing else takes a member away.
    Defragmenting(MemberName),
    /// N3: its volume has too little room for the copy that a defragmentation makes, or it is not known to have.
    NoRoomToDefragment(MemberName),
    /// N3: this EtcdBackup runs, and may read a snapshot of a member, and etcd would let a defragmentation wait for that, and writes with it.
    BackupRuns(String),
    /// N1: the compaction of the history is not this cluster's own policy, or the database is not full.
    HistoryKept,
    /// R1, J3, J4: a container of the incarnation that is replaced may run, in the Pod of this member.
    OldMemberRuns(MemberName),
    /// R1, J3, J4: no recorded order replaces the present incarnation.
    NotOrdered,
    /// R1, J4: the volume of this member of the incarnation that is replaced is not quarantined.
    NotQuarantined(MemberName),
    /// R11, Q1 to Q6: a quorum answers, so nothing is recovered.
    QuorumAnswers,
    /// Q1: the data are in memory, and go with the Pods that would be stopped.
    DataInMemory,
    /// Q6: it is not known what this member has stored.
    NotRead(MemberName),
    /// J2: the incarnation of this member is being replaced, so it is not started and membership does not change.
    BeingReplaced(MemberName),
}

impl Unsafe {
    /// The names of all.
    pub const NAMES: &'static [&'static str] = <Self as VariantNames>::VARIANTS;

    /// Its name in tests and metrics.
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

/// Why membership does not change.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum Mixed {
    /// etcd is being downgraded to this one.
    Downgrading(Minor),
    /// Two voters run different minor versions.
    Differ {
        /// A voter, and what it runs.
        one: (MemberName, Minor),
        /// Another one, and what it runs.
        other: (MemberName, Minor),
    },
    /// This voter does not run the minor version yet that a new member would.
    NotYet(MemberName, Minor),
}

/// Why no older binary starts on data.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum TooNew {
    /// The cluster version is above the one that is to run.
    Cluster {
        /// The cluster version.
        is: Minor,
        /// What is to run.
        to: Minor,
    },
    /// The member has run a newer one.
    HasRun {
        /// What it has run.
        ran: Minor,
        /// What is to run.
        to: Minor,
    },
}

/// Why a downgrade of etcd does not begin or end.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum NoDowngrade {
    /// None is under way.
    NotUnderWay,
    /// Members are about to run this one.
    AboutToRun(Minor),
    /// No person ordered it.
    NotOrdered,
    /// etcd of this minor version does not go back.
    Impossible(Minor),
    /// Not every member is a voter that has finished its upgrade to this one.
    Unfinished(Minor),
}
