//! Why a step must not be taken: the words of the safety rules.

use quorate_model::effect::{Mixed, NoDowngrade, TooNew, Unsafe};
use quorate_model::quorum::quorum;

/// What a safety rule says to a user.
#[expect(clippy::too_many_lines, reason = "a table: one row for each variant")]
pub fn refusal(why: &Unsafe) -> String {
    match why {
        Unsafe::NotABootstrapMember(member) => {
            format!("{member} must not start as a member of a new cluster: it is not in the bootstrap set")
        }
        Unsafe::MustRestore(member) => {
            format!("{member} must not start without data: the cluster begins with those of a snapshot")
        }
        Unsafe::RestoresAgain(member) => format!(
            "{member} is not restored once more: the members have had a leader, so its own data may be newer than the snapshot"
        ),
        Unsafe::NotRecorded(member) => format!("status.members has no entry for {member}"),
        Unsafe::NotItsVolume(member) => {
            format!("the volume of {member} is missing, or belongs to another cluster or member")
        }
        Unsafe::NotSeen(member) => format!("{member} has changed since it was observed"),
        Unsafe::ChangeOutstanding(member) => {
            format!("the membership change of {member} must be finished first")
        }
        Unsafe::SecondDisruption(member) => {
            format!("{member} waits: only one member is disrupted at a time")
        }
        Unsafe::VoterUnhealthy(member) => format!(
            "voter {member} is not healthy, so no other member is changed. Bring {member} back to continue"
        ),
        Unsafe::NotThatMember(member) => {
            format!("etcd's member list does not show {member} with the expected ID and peer URL")
        }
        Unsafe::NotProven(None) => {
            String::from("it is not proven yet that every member stores what is written")
        }
        Unsafe::NotProven(Some(why)) => {
            format!("it cannot be proven that every member stores what is written: {why}")
        }
        Unsafe::MustEvict(member) => format!("Pod {member} serves, so it is evicted and not deleted"),
        Unsafe::BudgetOpen(member) => format!(
            "{member} waits until the PodDisruptionBudget of the cluster admits no other eviction meanwhile"
        ),
        Unsafe::StillServes(member) => format!(
            "{member} is removed a few seconds after its Pod was taken out of the client Service, so that its clients are elsewhere"
        ),
        Unsafe::LastThatServes(member) => format!(
            "{member} stays in the client Service, because too few other members are behind it and serve. Bring them back to \
                 continue: each needs a Pod that is ready"
        ),
        Unsafe::NoFreshList => String::from("there is no recent linearizable member list"),
        Unsafe::StillListed(member) => {
            format!("{member} is still in etcd's member list, so its data are kept")
        }
        Unsafe::PodNotGone(member) => format!("Pod {member} still exists, so its data are kept"),
        Unsafe::DataKept(member) => {
            format!("the data of {member} are kept: nothing has decided to delete them")
        }
        Unsafe::ClaimTerminating(member) => format!(
            "Pod {member} is not stopped: its PersistentVolumeClaim is being deleted, and the data of {member} go with the Pod"
        ),
        Unsafe::ClaimNotRead(member, why) => format!(
            "Pod {member} is neither stopped nor created: its PersistentVolumeClaim could not be read: {why}"
        ),
        Unsafe::NotAdmitted(member, None) => {
            format!("the API server was not asked whether it would admit the next Pod of {member}")
        }
        Unsafe::NotAdmitted(member, Some(why)) => format!(
            "Pod {member} is not restarted: the API server would not admit its next Pod: {why}. The Pod that runs stays. Correct the edit, \
                 or what refuses the Pod; the API server is asked again with each look"
        ),
        Unsafe::NoQuorum => String::from("the cluster has no quorum"),
        Unsafe::WouldLoseQuorum { member, left, of } => format!(
            "without {member} only {left} of {of} voters would be healthy, {} are needed",
            quorum(*of)
        ),
        Unsafe::NotReplaced(member) => format!(
            "the data of {member} are in memory and go with its Pod, and it would not be replaced, because \
                 spec.recovery.enabled is false. Set it to true, if its Pod is to be replaced"
        ),
        Unsafe::SplitBrain => String::from("members belong to different etcd clusters"),
        Unsafe::AnotherAuthority => String::from(
            "running members trust another certificate authority, or the Secret of it has changed",
        ),
        Unsafe::NotTrusted(member) => {
            format!(
                "{member} is not seen to trust the authorities that it is to trust: a restart makes it read them"
            )
        }
        Unsafe::EarlierPresented(member) => {
            format!(
                "{member} is not seen to present a certificate of the new authority: its kubelet brings it within minutes"
            )
        }
        Unsafe::BundleNotWritten => String::from("the Secrets of the certificates are being written"),
        Unsafe::OtherBundle => {
            String::from("status does not record that these authorities are to be trusted")
        }
        Unsafe::PodsExist => {
            String::from("a Pod exists, and its member trusts the certificate authority that signs now")
        }
        Unsafe::OtherSource => String::from("the certificate authority is not the one that the spec names"),
        Unsafe::TenantsNeedKey => String::from(
            "Kamaji signs certificates of its tenants with the key of the authority of clients, and the one that spec.tls names is without its key. Set \
                 spec.tls.provider to auto; or take the annotation operator.etcd.io/kamaji-datastore off first, and it is replaced once the DataStore is gone",
        ),
        Unsafe::NotReached => String::from(
            "no member has answered the operator since its certificate is of the new authority. The certificate of members follows once one does, so that no \
                 more than that is lost where they refuse it",
        ),
        Unsafe::NotTold(secret) => format!(
            "clients have not been told: {secret} does not have the new authority yet. A webhook or a quota may refuse the write, something else may take \
                 it back, or etcd may refuse the operator: the EtcdUser, or DataStoreReady, says so. If no client reads it, delete it"
        ),
        Unsafe::NotAsked => String::from("the spec that was accepted does not ask cert-manager for this"),
        Unsafe::NotIssuedForThis => String::from(
            "cert-manager has not made it for this EtcdCluster, or somebody has changed it meanwhile, so it is neither changed nor written over",
        ),
        Unsafe::AuthNotOrdered => String::from("nobody has ordered this change of etcd's auth"),
        Unsafe::TenantsNeedAuth => String::from(
            "etcd's auth keeps the tenants of Kamaji from the data of each other, so it is not disabled while the cluster may have a DataStore. Take \
                 the annotation operator.etcd.io/kamaji-datastore off first",
        ),
        Unsafe::NoRootUser => String::from(
            "etcd's auth is not enabled, because the user root, whose certificate the operator has, is not seen to have the role root",
        ),
        Unsafe::RootNotNew => String::from(
            "etcd's auth is not enabled, because the user root is not made anew right before, and may have a password of somebody else",
        ),
        Unsafe::OthersAreRoot => String::from(
            "etcd's auth is not enabled, because other users than root have the role root, and may do everything",
        ),
        Unsafe::NotAnOrphan(user) => {
            format!("user {user} stays in etcd: it is not seen that it has no EtcdUser, or it is to stay")
        }
        Unsafe::NoClientGrace => String::from(
            "clients have no time to become users of etcd, so the user quorate-client is not made",
        ),
        Unsafe::ClientsHaveTime => String::from(
            "clients still have time to become users of etcd, or a person made the user quorate-client, so it is not deleted",
        ),
        Unsafe::LacksCredential(member) => {
            format!("Pod {member} does not have the operator's credential for etcd's auth yet")
        }
        Unsafe::AuthorityKept => {
            String::from("the certificate authority is kept with the data of the cluster")
        }
        Unsafe::NotLost(member) => {
            format!("{member} is not replaced: nothing shows that its data are lost")
        }
        Unsafe::LacksSuccessor(member) => {
            format!("{member} stays until another member has its place: it is healthy")
        }
        Unsafe::DataUndecided(member) => format!(
            "{member} stays: data of members differ, and without it no quorum of the others is known to hold identical data. Make \
                 every voter run, all with one version, so that they are compared; or have the member replaced whose data are wrong: annotate \
                 the EtcdCluster with operator.etcd.io/replace-member=MEMBER/ID. The runbook has more (DataInconsistent)"
        ),
        Unsafe::AlarmHolds(alarm) => {
            format!("{alarm} stays: it is not known that what it was raised for is over")
        }
        Unsafe::VersionsMixed(why) => format!("membership does not change now: {}", mixed(why)),
        Unsafe::DataTooNew(member, why) => {
            format!("{member} is not started with an older version: {}", too_new(why))
        }
        Unsafe::NoDowngrade(why) => format!("etcd is not asked about a downgrade now: {}", no_downgrade(why)),
        Unsafe::Defragmenting(member) => {
            format!("{member} is being defragmented, so no other member is disturbed")
        }
        Unsafe::NoRoomToDefragment(member) => format!(
            "the volume of {member} has no room for the copy that a defragmentation makes. Raise \
                 spec.storageSpec.volumeSizeRequest"
        ),
        Unsafe::BackupRuns(backup) => format!(
            "EtcdBackup {backup} runs, and may read a snapshot, so no member is defragmented until it ends: etcd would let the defragmentation wait for \
                 it, and the member would serve nothing"
        ),
        Unsafe::HistoryKept => String::from(
            "auto-compaction is off in the spec, or no database is full, so the operator does not compact the history",
        ),
        Unsafe::OldMemberRuns(member) => format!(
            "Pod {member} of the earlier members still exists, so no new member starts: both could acknowledge writes"
        ),
        Unsafe::NotOrdered => String::from("status records no EtcdRestore and no quorum recovery"),
        Unsafe::NotQuarantined(member) => {
            format!("the volume of {member}, an earlier member, is not quarantined yet")
        }
        Unsafe::QuorumAnswers => String::from(
            "a quorum answers, or its Pods are ready, so the cluster is not recovered from one member: that would lose what it acknowledges. Where no \
                 member has a leader, take an EtcdBackup with withoutQuorum: true, and restore it in place by an EtcdRestore",
        ),
        Unsafe::NotRead(member) => format!("it is not known yet what {member} has stored"),
        Unsafe::DataInMemory => {
            String::from("the data are in memory, and are lost with the Pods that would be stopped")
        }
        Unsafe::BeingReplaced(member) => {
            format!("{member} is not changed: an EtcdRestore or a quorum recovery is replacing every member")
        }
    }
}

fn mixed(why: &Mixed) -> String {
    match why {
        Mixed::Downgrading(to) => format!("etcd is being downgraded to {to}"),
        Mixed::Differ { one: (first, line), other: (second, other) } => {
            format!("{first} runs etcd {line} and {second} runs {other}. It changes once all run the same")
        }
        Mixed::NotYet(voter, line) => format!(
            "{voter} does not run etcd {line} yet, and a new member would. It changes once all voters run it"
        ),
    }
}

fn too_new(why: &TooNew) -> String {
    match why {
        TooNew::Cluster { is, to } => {
            format!("the cluster version is {is}, and the data do not go back to {to} by themselves")
        }
        TooNew::HasRun { ran, to } => {
            format!(
                "it has run {ran}, and its data do not go back to {to}: set spec.version to {ran} or later"
            )
        }
    }
}

fn no_downgrade(why: &NoDowngrade) -> String {
    match why {
        NoDowngrade::NotUnderWay => "no downgrade is under way".to_owned(),
        NoDowngrade::AboutToRun(to) => format!("members are about to run {to}"),
        NoDowngrade::NotOrdered => "nobody has ordered it".to_owned(),
        NoDowngrade::Impossible(from) => format!("etcd {from} cannot be downgraded"),
        NoDowngrade::Unfinished(from) => {
            format!("not every member is a voter that has finished its upgrade to {from}")
        }
    }
}
