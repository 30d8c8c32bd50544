//! Why a step must not be taken: the refusals of the safety rules.

use std::fmt;

use crate::names::MemberName;
use crate::quorum::quorum;
use crate::snapshot::Alarm;

/// Why a step must not be taken now. The same value goes to status, event, metric and test.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    VersionsMixed(String),
    /// R20: no older binary starts on these data; why.
    DataTooNew(MemberName, String),
    /// R20: etcd's downgrade may not begin or end now; why.
    NoDowngrade(String),
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
    names! {
        NotABootstrapMember,
        MustRestore,
        RestoresAgain,
        NotRecorded,
        NotItsVolume,
        NotSeen,
        ChangeOutstanding,
        SecondDisruption,
        VoterUnhealthy,
        NotThatMember,
        NotProven,
        MustEvict,
        BudgetOpen,
        StillServes,
        LastThatServes,
        NoFreshList,
        StillListed,
        PodNotGone,
        DataKept,
        ClaimTerminating,
        ClaimNotRead,
        NotAdmitted,
        NoQuorum,
        WouldLoseQuorum,
        NotReplaced,
        SplitBrain,
        AnotherAuthority,
        NotTrusted,
        EarlierPresented,
        BundleNotWritten,
        OtherBundle,
        PodsExist,
        OtherSource,
        TenantsNeedKey,
        NotReached,
        NotTold,
        NotAsked,
        NotIssuedForThis,
        AuthNotOrdered,
        TenantsNeedAuth,
        NoRootUser,
        RootNotNew,
        OthersAreRoot,
        NotAnOrphan,
        NoClientGrace,
        ClientsHaveTime,
        LacksCredential,
        AuthorityKept,
        NotLost,
        LacksSuccessor,
        DataUndecided,
        AlarmHolds,
        VersionsMixed,
        DataTooNew,
        NoDowngrade,
        Defragmenting,
        NoRoomToDefragment,
        BackupRuns,
        HistoryKept,
        OldMemberRuns,
        NotOrdered,
        NotQuarantined,
        QuorumAnswers,
        DataInMemory,
        NotRead,
        BeingReplaced,
    }
}

impl fmt::Display for Unsafe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotABootstrapMember(member) => {
                write!(
                    f,
                    "{member} must not start as a member of a new cluster: it is not in the bootstrap set"
                )
            }
            Self::MustRestore(member) => write!(
                f,
                "{member} must not start without data: the cluster begins with those of a snapshot"
            ),
            Self::RestoresAgain(member) => write!(
                f,
                "{member} is not restored once more: the members have had a leader, so its own data may be newer than the snapshot"
            ),
            Self::NotRecorded(member) => write!(f, "status.members has no entry for {member}"),
            Self::NotItsVolume(member) => {
                write!(f, "the volume of {member} is missing, or belongs to another cluster or member")
            }
            Self::NotSeen(member) => write!(f, "{member} has changed since it was observed"),
            Self::ChangeOutstanding(member) => {
                write!(f, "the membership change of {member} must be finished first")
            }
            Self::SecondDisruption(member) => {
                write!(f, "{member} waits: only one member is disrupted at a time")
            }
            Self::VoterUnhealthy(member) => write!(
                f,
                "voter {member} is not healthy, so no other member is changed. Bring {member} back to continue"
            ),
            Self::NotThatMember(member) => {
                write!(f, "etcd's member list does not show {member} with the expected ID and peer URL")
            }
            Self::NotProven(None) => {
                f.write_str("it is not proven yet that every member stores what is written")
            }
            Self::NotProven(Some(why)) => {
                write!(f, "it cannot be proven that every member stores what is written: {why}")
            }
            Self::MustEvict(member) => write!(f, "Pod {member} serves, so it is evicted and not deleted"),
            Self::BudgetOpen(member) => write!(
                f,
                "{member} waits until the PodDisruptionBudget of the cluster admits no other eviction meanwhile"
            ),
            Self::StillServes(member) => write!(
                f,
                "{member} is removed a few seconds after its Pod was taken out of the client Service, so that its clients are elsewhere"
            ),
            Self::LastThatServes(member) => write!(
                f,
                "{member} stays in the client Service, because too few other members are behind it and serve. Bring them back to \
                 continue: each needs a Pod that is ready"
            ),
            Self::NoFreshList => f.write_str("there is no recent linearizable member list"),
            Self::StillListed(member) => {
                write!(f, "{member} is still in etcd's member list, so its data are kept")
            }
            Self::PodNotGone(member) => write!(f, "Pod {member} still exists, so its data are kept"),
            Self::DataKept(member) => {
                write!(f, "the data of {member} are kept: nothing has decided to delete them")
            }
            Self::ClaimTerminating(member) => write!(
                f,
                "Pod {member} is not stopped: its PersistentVolumeClaim is being deleted, and the data of {member} go with the Pod"
            ),
            Self::ClaimNotRead(member, why) => write!(
                f,
                "Pod {member} is neither stopped nor created: its PersistentVolumeClaim could not be read: {why}"
            ),
            Self::NotAdmitted(member, None) => {
                write!(f, "the API server was not asked whether it would admit the next Pod of {member}")
            }
            Self::NotAdmitted(member, Some(why)) => write!(
                f,
                "Pod {member} is not restarted: the API server would not admit its next Pod: {why}. The Pod that runs stays. Correct the edit, \
                 or what refuses the Pod; the API server is asked again with each look"
            ),
            Self::NoQuorum => f.write_str("the cluster has no quorum"),
            Self::WouldLoseQuorum { member, left, of } => write!(
                f,
                "without {member} only {left} of {of} voters would be healthy, {} are needed",
                quorum(*of)
            ),
            Self::NotReplaced(member) => write!(
                f,
                "the data of {member} are in memory and go with its Pod, and it would not be replaced, because \
                 spec.recovery.enabled is false. Set it to true, if its Pod is to be replaced"
            ),
            Self::SplitBrain => f.write_str("members belong to different etcd clusters"),
            Self::AnotherAuthority => f.write_str(
                "running members trust another certificate authority, or the Secret of it has changed",
            ),
            Self::NotTrusted(member) => {
                write!(f, "{member} is not seen to trust the authorities that it is to trust: a restart makes it read them")
            }
            Self::EarlierPresented(member) => {
                write!(f, "{member} is not seen to present a certificate of the new authority: its kubelet brings it within minutes")
            }
            Self::BundleNotWritten => f.write_str("the Secrets of the certificates are being written"),
            Self::OtherBundle => f.write_str("status does not record that these authorities are to be trusted"),
            Self::PodsExist => f.write_str("a Pod exists, and its member trusts the certificate authority that signs now"),
            Self::OtherSource => f.write_str("the certificate authority is not the one that the spec names"),
            Self::TenantsNeedKey => f.write_str(
                "Kamaji signs certificates of its tenants with the key of the authority of clients, and the one that spec.tls names is without its key. Set \
                 spec.tls.provider to auto; or take the annotation operator.etcd.io/kamaji-datastore off first, and it is replaced once the DataStore is gone",
            ),
            Self::NotReached => f.write_str(
                "no member has answered the operator since its certificate is of the new authority. The certificate of members follows once one does, so that no \
                 more than that is lost where they refuse it",
            ),
            Self::NotTold(secret) => write!(
                f,
                "clients have not been told: {secret} does not have the new authority yet. A webhook or a quota may refuse the write, something else may take \
                 it back, or etcd may refuse the operator: the EtcdUser, or DataStoreReady, says so. If no client reads it, delete it"
            ),
            Self::NotAsked => f.write_str("the spec that was accepted does not ask cert-manager for this"),
            Self::NotIssuedForThis => f.write_str(
                "cert-manager has not made it for this EtcdCluster, or somebody has changed it meanwhile, so it is neither changed nor written over",
            ),
            Self::AuthNotOrdered => f.write_str("nobody has ordered this change of etcd's auth"),
            Self::TenantsNeedAuth => f.write_str(
                "etcd's auth keeps the tenants of Kamaji from the data of each other, so it is not disabled while the cluster may have a DataStore. Take \
                 the annotation operator.etcd.io/kamaji-datastore off first",
            ),
            Self::NoRootUser => f.write_str(
                "etcd's auth is not enabled, because the user root, whose certificate the operator has, is not seen to have the role root",
            ),
            Self::RootNotNew => f.write_str(
                "etcd's auth is not enabled, because the user root is not made anew right before, and may have a password of somebody else",
            ),
            Self::OthersAreRoot => f.write_str(
                "etcd's auth is not enabled, because other users than root have the role root, and may do everything",
            ),
            Self::NotAnOrphan(user) => {
                write!(f, "user {user} stays in etcd: it is not seen that it has no EtcdUser, or it is to stay")
            }
            Self::NoClientGrace => f.write_str("clients have no time to become users of etcd, so the user quorate-client is not made"),
            Self::ClientsHaveTime => f.write_str(
                "clients still have time to become users of etcd, or a person made the user quorate-client, so it is not deleted",
            ),
            Self::LacksCredential(member) => {
                write!(f, "Pod {member} does not have the operator's credential for etcd's auth yet")
            }
            Self::AuthorityKept => {
                f.write_str("the certificate authority is kept with the data of the cluster")
            }
            Self::NotLost(member) => {
                write!(f, "{member} is not replaced: nothing shows that its data are lost")
            }
            Self::LacksSuccessor(member) => {
                write!(f, "{member} stays until another member has its place: it is healthy")
            }
            Self::DataUndecided(member) => write!(
                f,
                "{member} stays: data of members differ, and without it no quorum of the others is known to hold identical data. Make \
                 every voter run, all with one version, so that they are compared; or have the member replaced whose data are wrong: annotate \
                 the EtcdCluster with operator.etcd.io/replace-member=MEMBER/ID. The runbook has more (DataInconsistent)"
            ),
            Self::AlarmHolds(alarm) => {
                write!(f, "{alarm} stays: it is not known that what it was raised for is over")
            }
            Self::VersionsMixed(why) => write!(f, "membership does not change now: {why}"),
            Self::DataTooNew(member, why) => {
                write!(f, "{member} is not started with an older version: {why}")
            }
            Self::NoDowngrade(why) => write!(f, "etcd is not asked about a downgrade now: {why}"),
            Self::Defragmenting(member) => {
                write!(f, "{member} is being defragmented, so no other member is disturbed")
            }
            Self::NoRoomToDefragment(member) => write!(
                f,
                "the volume of {member} has no room for the copy that a defragmentation makes. Raise \
                 spec.storageSpec.volumeSizeRequest"
            ),
            Self::BackupRuns(backup) => write!(
                f,
                "EtcdBackup {backup} runs, and may read a snapshot, so no member is defragmented until it ends: etcd would let the defragmentation wait for \
                 it, and the member would serve nothing"
            ),
            Self::HistoryKept => f.write_str("auto-compaction is off in the spec, or no database is full, so the operator does not compact the history"),
            Self::OldMemberRuns(member) => write!(
                f,
                "Pod {member} of the earlier members still exists, so no new member starts: both could acknowledge writes"
            ),
            Self::NotOrdered => {
                f.write_str("status records no EtcdRestore and no quorum recovery")
            }
            Self::NotQuarantined(member) => {
                write!(f, "the volume of {member}, an earlier member, is not quarantined yet")
            }
            Self::QuorumAnswers => f.write_str(
                "a quorum answers, or its Pods are ready, so the cluster is not recovered from one member: that would lose what it acknowledges. Where no \
                 member has a leader, take an EtcdBackup with withoutQuorum: true, and restore it in place by an EtcdRestore",
            ),
            Self::NotRead(member) => write!(f, "it is not known yet what {member} has stored"),
            Self::DataInMemory => f.write_str("the data are in memory, and are lost with the Pods that would be stopped"),
            Self::BeingReplaced(member) => {
                write!(
                    f,
                    "{member} is not changed: an EtcdRestore or a quorum recovery is replacing every member"
                )
            }
        }
    }
}
