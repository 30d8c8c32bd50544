//! Every message that a user can see in conditions, events and refused specs, in one file to review the wording:
//! `snapshots/main__messages__messages.snap`. A new reason, or a new thing to wait on, does not pass before it is in there.
//!
//! Long because every variant has its sample here, in a chain that does not compile without it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::world::{World, plain};
use quorate_api::status::{AgentDelivery, AgentDeliveryStatus, RecoveryResult, RecoveryStatus};
use quorate_api::{EtcdCluster, EtcdClusterStatus, Explanation, Reason, ReasonOf, crd, crds, keys};
use quorate_manifests::{
    Act, Defaults, EventText, Kind, NameConflict, Situation, Write, events as status_events, explain,
    invalid_status, resolve, status, trouble,
};
use quorate_model::adoption::Unadoptable;
use quorate_model::auth::{Clients, Marked, Orphan, SeenAuth};
use quorate_model::effect::{ClaimOutlook, Unsafe};
use quorate_model::incarnation::Order;
use quorate_model::quorum_recovery::{Log, RecoverFrom};
use quorate_model::record::RecordDoubt;
use quorate_model::record::{Abandoned, Loss};
use quorate_model::restore::{RestoreCause, RestoreFailure};
use quorate_model::rotation::{Rotation, RotationStage};
use quorate_model::snapshot::{Alarm, AlarmKind, AuthorityLoss, Database, Etcd, KeptOutByAuth, Listed};
use quorate_model::{
    Ca, ClockDifference, ClusterId, Fingerprint, GuardVerdict, Instant, MemberId, MemberName, PeerUrl,
    Revision, Span, Token, Uid, Version, Waiting,
};
use serde_json::{Value, json};

mod data_stores;

/// A section of the file: its title and its lines, each once.
type Section = (&'static str, Vec<String>);

#[test]
fn messages() {
    let sections = [
        ("What a plan waits on", waited_on().iter().map(|waiting| explain(waiting).to_string()).collect()),
        ("What a safety rule forbids", refusals().iter().map(ToString::to_string).collect()),
        ("What could not be done", troubles().iter().map(ToString::to_string).collect()),
        ("Conditions", conditions()),
        ("Events", events()),
        ("A spec that cannot be carried out", invalid_specs()),
        ("What the API server refuses (CEL)", cel()),
    ];
    every_reason_is_shown(&sections);
    let mut file = String::new();
    for (title, lines) in sections {
        let _ = writeln!(file, "\n# {title}\n");
        let mut seen = BTreeSet::new();
        for line in lines.into_iter().filter(|line| seen.insert(line.clone())) {
            let _ = writeln!(file, "{line}");
        }
    }
    insta::assert_snapshot!("messages", file);
}

fn every_reason_is_shown(sections: &[Section]) {
    let lines = || sections.iter().flat_map(|(_, lines)| lines);
    // Those of the other kinds are shown by the tests of their controllers.
    let of_clusters = |reason: &&Reason| reason.kinds().contains(&ReasonOf::EtcdCluster);
    for reason in Reason::ALL.iter().filter(of_clusters) {
        let shown = format!("{reason}: ");
        let is_shown = |line: &String| line.split("  ").any(|part| part.starts_with(&shown));
        assert!(lines().any(is_shown), "no message here has the reason {reason}: add a situation");
    }
}

fn name(name: &str) -> MemberName {
    MemberName::new(name)
}

fn refused(why: Unadoptable) -> Waiting {
    Waiting::AdoptionRefused(ClusterId(0xc1), why)
}

/// One of each, and of those with more than one text one of each text.
fn waited_on() -> Vec<Waiting> {
    let mut all = vec![Waiting::Paused];
    while let Some(next) = all.last().and_then(after) {
        all.push(next);
    }
    let volumes = vec![name("demo-0"), name("demo-1")];
    for (found, quarantined, unmatched) in [
        (vec![], vec![], None),
        (vec![ClusterId(0xc1)], vec![], Some(ClusterId(0xdead))),
        (vec![ClusterId(0xc1)], volumes.clone(), Some(ClusterId(0xc1))),
        (vec![ClusterId(0xc1)], vec![name("demo-0")], None),
        (vec![ClusterId(1), ClusterId(2)], vec![], None),
    ] {
        all.push(Waiting::ExistingData { found, volumes: volumes.clone(), quarantined, unmatched });
    }
    for why in [Abandoned::VolumeLost, Abandoned::SpecEdited, Abandoned::VolumeEmptied] {
        all.push(Waiting::Clearing(why.as_str()));
    }
    all
}

fn rotation(stage: RotationStage) -> Rotation {
    let fingerprint = |digit: &str| Fingerprint::new(digit.repeat(64));
    let ca = Ca::Clients;
    let (from, to) = (fingerprint("a"), fingerprint("b"));
    Rotation { ca, from, to, given: false, stage, since: Instant(0), told: None }
}

/// The next one. A new variant does not compile before it is in this chain.
fn after(waiting: &Waiting) -> Option<Waiting> {
    let demo = || name("demo-1");
    Some(match waiting {
        Waiting::Paused => Waiting::ForeignObjects(vec!["Service default/demo".to_owned()]),
        Waiting::ForeignObjects(_) => {
            let (found, volumes) = (vec![ClusterId(0xc1)], vec![name("demo-0")]);
            Waiting::ExistingData { found, volumes, quarantined: Vec::new(), unmatched: None }
        }
        Waiting::ExistingData { .. } => {
            Waiting::EarlierDataGone { cluster: ClusterId(0xc1), voters: vec![name("demo-0"), demo()] }
        }
        Waiting::EarlierDataGone { .. } => Waiting::RestoredWithoutData("Velero's Restore nightly".to_owned()),
        Waiting::RestoredWithoutData(_) => {
            refused(Unadoptable::InUse(vec!["Pod default/demo-0".to_owned(), "Pod default/demo-1".to_owned()]))
        }
        Waiting::AdoptionRefused(_, Unadoptable::InUse(_)) => {
            refused(Unadoptable::SeveralTokens(BTreeMap::from([
                (Token::new("u-1-1"), vec![name("demo-0")]),
                (Token::new("u-2-1"), vec![demo()]),
            ])))
        }
        Waiting::AdoptionRefused(_, Unadoptable::SeveralTokens(_)) => {
            refused(Unadoptable::SameMember(MemberId(0xb0), vec![name("demo-0"), demo()]))
        }
        Waiting::AdoptionRefused(_, Unadoptable::SameMember(..)) => {
            refused(Unadoptable::Copies(BTreeMap::from([(demo(), "VolumeSnapshot nightly".to_owned())]), None))
        }
        Waiting::AdoptionRefused(_, Unadoptable::Copies(..)) => refused(Unadoptable::TooFew {
            there: vec![demo()],
            voters: vec![name("demo-0"), demo(), name("demo-2")],
        }),
        Waiting::AdoptionRefused(_, Unadoptable::TooFew { .. }) => {
            Waiting::AdoptionDiffers { field: "spec.tls.provider", needed: "auto", found: "disabled" }
        }
        Waiting::AdoptionDiffers { .. } => Waiting::EditedTooLate {
            field: "spec.tls.provider",
            committed: "disabled".to_owned(),
            found: "auto".to_owned(),
        },
        Waiting::EditedTooLate { .. } => {
            Waiting::SplitBrain(vec![(name("demo-0"), ClusterId(0xc1)), (demo(), ClusterId(0xdead))])
        }
        Waiting::SplitBrain(_) => {
            Waiting::WrongMember { member: demo(), answers: MemberId(0xb0), recorded: MemberId(0xb2) }
        }
        Waiting::WrongMember { .. } => Waiting::Objects,
        Waiting::Objects => Waiting::AuthorityLost {
            secret: "Secret default/demo-ca".to_owned(),
            loss: AuthorityLoss::Missing(Some(Fingerprint::new("0a1b2c3d4e5f60718293"))),
        },
        Waiting::AuthorityLost { secret, .. } => Waiting::AuthorityEnded(secret.clone()),
        Waiting::AuthorityEnded(_) => Waiting::AuthorityRefused {
            secret: "Secret default/my-ca".to_owned(),
            why: "its tls.key is not the key of its tls.crt".to_owned(),
        },
        Waiting::AuthorityRefused { .. } => {
            Waiting::Rotating(rotation(RotationStage::Trust), Unsafe::NotTrusted(demo()))
        }
        Waiting::Rotating(Rotation { stage: RotationStage::Trust, .. }, _) => {
            Waiting::Rotating(rotation(RotationStage::Sign), Unsafe::EarlierPresented(demo()))
        }
        Waiting::Rotating(Rotation { stage: RotationStage::Sign, .. }, _) => {
            Waiting::Rotating(rotation(RotationStage::Drop), Unsafe::NotTrusted(demo()))
        }
        Waiting::Rotating(Rotation { stage: RotationStage::Drop, .. }, _) => {
            Waiting::ClientsHaveTime(rotation(RotationStage::Trust), Instant(1_790_000_000_000))
        }
        Waiting::ClientsHaveTime(Rotation { stage: RotationStage::Trust, .. }, until) => {
            Waiting::ClientsHaveTime(rotation(RotationStage::Sign), *until)
        }
        Waiting::ClientsHaveTime(..) => Waiting::RotationRefused("it signs for peers, too".to_owned()),
        Waiting::RotationRefused(_) => {
            Waiting::AuthChanging(Unsafe::LacksCredential(demo()).to_string())
        }
        Waiting::AuthChanging(_) => Waiting::ClientsAreRoot,
        Waiting::ClientsAreRoot => Waiting::OthersAreRoot(["eve".to_owned()].into()),
        Waiting::OthersAreRoot(_) => Waiting::UsersToRevoke,
        Waiting::UsersToRevoke => Waiting::AuthStaysOn(ClusterId(0x1234)),
        Waiting::AuthStaysOn(_) => Waiting::AuthOffRefused(Unsafe::TenantsNeedAuth),
        Waiting::AuthOffRefused(_) => Waiting::AuthNotOurs,
        Waiting::AuthNotOurs => Waiting::Clearing(Abandoned::VolumeLost.as_str()),
        Waiting::Clearing(_) => Waiting::PodStarting(demo()),
        Waiting::PodStarting(_) => {
            Waiting::PodStuck(demo(), "Unschedulable: 0/3 nodes are available".to_owned())
        }
        Waiting::PodStuck(..) => Waiting::PodStopping(demo()),
        Waiting::PodStopping(_) => Waiting::PodStopsLate { member: demo(), node: Some("n1".to_owned()) },
        Waiting::PodStopsLate { .. } => Waiting::VolumeGoing(demo()),
        Waiting::VolumeGoing(_) => claim_terminating(ClaimOutlook::Moves),
        Waiting::ClaimTerminating { outlook: ClaimOutlook::Moves, .. } => {
            claim_terminating(ClaimOutlook::MovesInPlace)
        }
        Waiting::ClaimTerminating { outlook: ClaimOutlook::MovesInPlace, .. } => {
            claim_terminating(ClaimOutlook::MovesAlone)
        }
        Waiting::ClaimTerminating { outlook: ClaimOutlook::MovesAlone, .. } => {
            claim_terminating(ClaimOutlook::MovesOnOrder)
        }
        Waiting::ClaimTerminating { outlook: ClaimOutlook::MovesOnOrder, .. } => {
            claim_terminating(ClaimOutlook::Stays)
        }
        Waiting::ClaimTerminating { outlook: ClaimOutlook::Stays, .. } => {
            claim_terminating(ClaimOutlook::AtSizeZero)
        }
        Waiting::ClaimTerminating { outlook: ClaimOutlook::AtSizeZero, .. } => {
            claim_terminating(ClaimOutlook::Ordered)
        }
        Waiting::ClaimTerminating { outlook: ClaimOutlook::Ordered, .. } => {
            claim_terminating(ClaimOutlook::Deleted)
        }
        Waiting::ClaimTerminating { outlook: ClaimOutlook::Deleted, .. } => Waiting::VolumeLost(demo()),
        Waiting::VolumeLost(_) => Waiting::DataWentBack { had: Revision(1200), has: Revision(800) },
        Waiting::DataWentBack { .. } => Waiting::UnknownPods(vec![name("demo-0"), demo()]),
        Waiting::UnknownPods(_) => {
            Waiting::Quorum { healthy: 1, voters: 3, why: "no voter that answers has a leader".to_owned() }
        }
        Waiting::Quorum { .. } => kept_out(false),
        Waiting::AuthEnabled(KeptOutByAuth { tls: false, .. }) => kept_out(true),
        Waiting::AuthEnabled(_) => Waiting::FirstLeader,
        Waiting::FirstLeader => Waiting::NoSnapshot(RestoreFailure::new(
            RestoreCause::NotReady,
            "EtcdBackup nightly-1 is not complete yet",
        )),
        Waiting::NoSnapshot(RestoreFailure { cause: RestoreCause::NotReady, message, .. }) if message.starts_with("EtcdBackup nightly") => {
            Waiting::NoSnapshot(newest(None, "Job inspect-backup-u2-1 looks for the newest backup of EtcdCluster tenant/demo in s3://backups/etcd/, attempt 1"))
        }
        Waiting::NoSnapshot(RestoreFailure { cause: RestoreCause::NotReady, .. }) => Waiting::NoSnapshot(newest(
            Some(Reason::NoBackupFound),
            "s3://backups/etcd/tenant/demo has no whole backup of EtcdCluster tenant/demo: 0 objects were seen",
        )),
        Waiting::NoSnapshot(RestoreFailure { cause: RestoreCause::NothingFound, .. }) => {
            Waiting::NoSnapshot(newest(Some(Reason::BackupAmbiguous), "backups of several etcd clusters go by the name"))
        }
        Waiting::NoSnapshot(_) => Waiting::Restoring(demo(), None),
        Waiting::Restoring(..) => restore_failed(RestoreCause::Refused, "the snapshot is larger than the quota"),
        Waiting::RestoreFailed(_, RestoreFailure { cause: RestoreCause::Refused, .. }) => {
            restore_failed(RestoreCause::Gone, "s3://backups/demo/1 does not exist")
        }
        Waiting::RestoreFailed(_, RestoreFailure { cause: RestoreCause::Gone, .. }) => {
            restore_failed(RestoreCause::Forbidden, "the store refuses the credentials in Secret store")
        }
        Waiting::RestoreFailed(_, RestoreFailure { cause: RestoreCause::Forbidden, .. }) => {
            restore_failed(RestoreCause::Stale, "s3://backups/demo/1 is of 2026-11-01T02:00:00Z. Delete this EtcdCluster")
        }
        Waiting::RestoreFailed(_, RestoreFailure { cause: RestoreCause::Stale, .. }) => {
            restore_failed(RestoreCause::Failed, "the store does not answer")
        }
        Waiting::RestoreFailed(..) => Waiting::ClientsLeaving(demo()),
        Waiting::ClientsLeaving(_) => Waiting::InSync { member: demo(), behind: None },
        Waiting::InSync { behind: None, .. } => Waiting::InSync { member: demo(), behind: Some(10_000) },
        Waiting::InSync { behind: Some(_), .. } => Waiting::Sick(demo(), "it does not answer within 2s".to_owned()),
        Waiting::Sick(..) => {
            Waiting::LeaderTransferFailed { leader: name("demo-0"), tried: vec![(demo(), 2), (name("demo-2"), 1)] }
        }
        Waiting::LeaderTransferFailed { .. } => Waiting::LearnersFailed {
            count: 2,
            reason: "demo-4 did not get in sync within 10m (ErrImagePull: not found)".to_owned(),
        },
        Waiting::LearnersFailed { .. } => {
            Waiting::UnmanagedMember(MemberId(0xbad), PeerUrl::new("https://elsewhere:2380"))
        }
        Waiting::UnmanagedMember(..) => Waiting::VersionRefused(
            "version 3.7.3 must not follow 3.5.35: etcd is upgraded one minor version at a time".to_owned(),
        ),
        Waiting::VersionRefused(_) => {
            Waiting::UpgradeBackup("EtcdBackup before-3.7-6c1d runs (BackupRunning: Job backup-1 takes it)".to_owned())
        }
        Waiting::UpgradeBackup(_) => Waiting::UpgradeBackupFailed(
            "EtcdBackup before-3.7-6c1d has failed (StoreForbidden: the store refuses the credentials in Secret store). Delete EtcdBackup \
             before-3.7-6c1d, and another one is taken; or remove spec.upgrade.backupBefore to upgrade without a backup"
                .to_owned(),
        ),
        Waiting::UpgradeBackupFailed(_) => {
            Waiting::FinalBackup("EtcdBackup final-6c1d runs (BackupRunning: Job backup-1 takes it)".to_owned())
        }
        Waiting::FinalBackup(_) => Waiting::DataStoreInUse(
            "DataStore tenants is deleted once no tenant uses it. Tenant team-a/one uses it".to_owned(),
        ),
        Waiting::DataStoreInUse(_) => Waiting::NoFinalBackup(
            "EtcdBackup final-6c1d was not complete within its deadline: EtcdBackup final-6c1d has not begun".to_owned(),
        ),
        Waiting::NoFinalBackup(_) => {
            Waiting::SafePoint("the edit is committed once learner demo-3 is a voter".to_owned())
        }
        Waiting::SafePoint(_) => {
            let why = "status.formatVersion is 2, and this operator knows 1";
            Waiting::RecordDoubt(RecordDoubt::Newer(why.to_owned()))
        }
        Waiting::RecordDoubt(RecordDoubt::Newer(_)) => {
            Waiting::RecordDoubt(RecordDoubt::Incomplete { hash: "5f2c".repeat(16) })
        }
        Waiting::RecordDoubt(RecordDoubt::Incomplete { .. }) => Waiting::ClockDiffers(ClockDifference::Ahead(Span::seconds(3 * 3600))),
        Waiting::ClockDiffers(_) => Waiting::Unsafe(Unsafe::NoQuorum),
        Waiting::Unsafe(_) => may_be_lost(Loss::Refused(GuardVerdict::DataMissing)),
        Waiting::MayBeLost { loss: Loss::Refused(_), .. } => may_be_lost(Loss::VolumeGone),
        Waiting::MayBeLost { loss: Loss::VolumeGone, .. } => may_be_lost(Loss::NodeGone),
        Waiting::MayBeLost { loss: Loss::NodeGone, .. } => may_be_lost(Loss::Inconsistent),
        Waiting::MayBeLost { .. } => Waiting::Undecided {
            groups: vec![BTreeSet::from([name("demo-0")]), BTreeSet::from([name("demo-2")])],
            unknown: BTreeSet::from([demo()]),
            kept_out: vec![demo()],
            voters: 3,
        },
        Waiting::Undecided { .. } => Waiting::Comparing(demo()),
        Waiting::Comparing(_) => {
            Waiting::NotCompared { unknown: BTreeSet::from([demo()]), kept_out: vec![demo()] }
        }
        Waiting::NotCompared { .. } => Waiting::ReplacementDisabled { member: demo(), loss: Loss::VolumeGone },
        Waiting::ReplacementDisabled { .. } => {
            Waiting::Downgrading("etcd is asked to go back to 3.6".to_owned())
        }
        Waiting::Downgrading(_) => Waiting::Wave(
            "the operator's new defaults wait for their turn: team-a/demo take them now, and at most 1 may at a time \
             (--max-clusters-rolling=1)"
                .to_owned(),
        ),
        Waiting::Wave(_) => Waiting::Defragmenting(name("demo-1")),
        Waiting::Defragmenting(_) => {
            let database = Database { size: 600 << 20, in_use: 590 << 20, quota: Some(600 << 20) };
            Waiting::StillFull { member: name("demo-1"), database, compacts: true }
        }
        Waiting::StillFull { member, database, compacts: true } => {
            Waiting::StillFull { member: member.clone(), database: *database, compacts: false }
        }
        Waiting::StillFull { .. } => Waiting::VolumeGrowing(name("demo-1")),
        Waiting::VolumeGrowing(_) => Waiting::OrderWaits(
            order(),
            RestoreFailure::new(RestoreCause::NotReady, "EtcdBackup nightly-1 is not complete yet"),
        ),
        Waiting::OrderWaits(..) => Waiting::BackupFirst(order()),
        Waiting::BackupFirst(_) => Waiting::ReadAgain(order()),
        Waiting::ReadAgain(_) => Waiting::RestoringInPlace(order()),
        Waiting::RestoringInPlace(_) => Waiting::Recovering { from: RecoverFrom::Auto, logs: logs() },
        Waiting::Recovering { .. } => Waiting::RecoveryEnded { withdrawn: true },
        Waiting::RecoveryEnded { withdrawn: true } => Waiting::RecoveryEnded { withdrawn: false },
        Waiting::RecoveryEnded { withdrawn: false } => {
            Waiting::RecoveryRefused("demo-7 is no member of this cluster".to_owned())
        }
        Waiting::RecoveryRefused(_) => {
            Waiting::NotRead { member: demo(), why: "its agent has not reported yet what the volume has".to_owned() }
        }
        Waiting::NotRead { .. } => {
            Waiting::MayRun { member: demo(), why: "its Pod is not gone yet, on Node n1. Bring the node back".to_owned() }
        }
        Waiting::MayRun { .. } => return None,
    })
}

fn claim_terminating(outlook: ClaimOutlook) -> Waiting {
    Waiting::ClaimTerminating { member: name("demo-1"), outlook }
}

fn logs() -> Vec<(MemberName, Result<Log, String>)> {
    let log = Log {
        committed: 90,
        last_term: 4,
        last_index: 93,
        consistent: 88,
        term: 5,
        revision: Revision(70),
        cluster_id: ClusterId(0xc1),
        member_id: MemberId(0xb0),
    };
    vec![(name("demo-0"), Ok(log)), (name("demo-2"), Err("DataMissing: the volume is empty".to_owned()))]
}

fn order() -> Order {
    Order::Restore { name: "back".to_owned(), uid: Uid::new("uid-of-back") }
}

/// What a cluster says that is to begin with the newest backup, whose EtcdBackup says this.
fn newest(reason: Option<Reason>, message: &str) -> RestoreFailure {
    let mut spec = plain(1);
    spec["bootstrap"] = json!({"restore": {"latest": {
        "destination": {"s3": {"bucket": "backups", "prefix": "etcd"}}, "cluster": "demo", "clusterNamespace": "tenant",
    }}});
    let mut world = World::new(&spec);
    world.settle();
    let backup = world.etcd_backups.values_mut().next().unwrap();
    let failed = reason.map(|reason| json!({"reason": reason.as_str(), "message": message}));
    backup.status = serde_json::from_value(
        json!({"phase": "Running", "attempts": 1, "failedLook": failed, "conditions": [{
            "type": "Running", "status": "True", "reason": "BackupRunning", "message": message,
            "lastTransitionTime": "2026-10-03T12:00:00Z",
        }]}),
    )
    .unwrap();
    world.observe().unwrap().observation.snapshot.restore.unwrap().unwrap_err()
}

fn restore_failed(cause: RestoreCause, why: &str) -> Waiting {
    Waiting::RestoreFailed(name("demo-1"), RestoreFailure::new(cause, why))
}

fn kept_out(tls: bool) -> Waiting {
    let why = "refused: etcdserver: user name is empty".to_owned();
    Waiting::AuthEnabled(KeptOutByAuth { refuse: 3, ready: 3, voters: 3, tls, why })
}

fn may_be_lost(loss: Loss) -> Waiting {
    Waiting::MayBeLost { member: name("demo-1"), loss, is_due: false }
}

fn refusals() -> Vec<Unsafe> {
    let mut all = vec![Unsafe::NotABootstrapMember(name("demo-1"))];
    while let Some(next) = all.last().and_then(after_refusal) {
        all.push(next);
    }
    all
}

/// The next one. A new variant does not compile before it is in this chain.
fn after_refusal(why: &Unsafe) -> Option<Unsafe> {
    let demo = || name("demo-1");
    Some(match why {
        Unsafe::NotABootstrapMember(_) => Unsafe::MustRestore(demo()),
        Unsafe::MustRestore(_) => Unsafe::RestoresAgain(demo()),
        Unsafe::RestoresAgain(_) => Unsafe::NotRecorded(demo()),
        Unsafe::NotRecorded(_) => Unsafe::NotItsVolume(demo()),
        Unsafe::NotItsVolume(_) => Unsafe::NotSeen(demo()),
        Unsafe::NotSeen(_) => Unsafe::ChangeOutstanding(demo()),
        Unsafe::ChangeOutstanding(_) => Unsafe::SecondDisruption(demo()),
        Unsafe::SecondDisruption(_) => Unsafe::VoterUnhealthy(demo()),
        Unsafe::VoterUnhealthy(_) => Unsafe::NotThatMember(demo()),
        Unsafe::NotThatMember(_) => Unsafe::NotProven(None),
        Unsafe::NotProven(None) => Unsafe::NotProven(Some("demo-0: no reply within 2s".to_owned())),
        Unsafe::NotProven(Some(_)) => Unsafe::MustEvict(demo()),
        Unsafe::MustEvict(_) => Unsafe::BudgetOpen(demo()),
        Unsafe::BudgetOpen(_) => Unsafe::StillServes(demo()),
        Unsafe::StillServes(_) => Unsafe::LastThatServes(demo()),
        Unsafe::LastThatServes(_) => Unsafe::NoFreshList,
        Unsafe::NoFreshList => Unsafe::StillListed(demo()),
        Unsafe::StillListed(_) => Unsafe::PodNotGone(demo()),
        Unsafe::PodNotGone(_) => Unsafe::DataKept(demo()),
        Unsafe::DataKept(_) => Unsafe::ClaimTerminating(demo()),
        Unsafe::ClaimTerminating(_) => Unsafe::ClaimNotRead(demo(), "forbidden".to_owned()),
        Unsafe::ClaimNotRead(..) => Unsafe::NotAdmitted(
            demo(),
            Some("pods \"demo-1\" is forbidden: minimum memory usage is 8Gi".to_owned()),
        ),
        Unsafe::NotAdmitted(..) => Unsafe::NoQuorum,
        Unsafe::NoQuorum => Unsafe::WouldLoseQuorum { member: demo(), left: 1, of: 3 },
        Unsafe::WouldLoseQuorum { .. } => Unsafe::NotReplaced(demo()),
        Unsafe::NotReplaced(_) => Unsafe::SplitBrain,
        Unsafe::SplitBrain => Unsafe::AnotherAuthority,
        Unsafe::AnotherAuthority => Unsafe::NotTrusted(demo()),
        Unsafe::NotTrusted(_) => Unsafe::EarlierPresented(demo()),
        Unsafe::EarlierPresented(_) => Unsafe::BundleNotWritten,
        Unsafe::BundleNotWritten => Unsafe::OtherBundle,
        Unsafe::OtherBundle => Unsafe::PodsExist,
        Unsafe::PodsExist => Unsafe::OtherSource,
        Unsafe::OtherSource => Unsafe::TenantsNeedKey,
        Unsafe::TenantsNeedKey => Unsafe::NotReached,
        Unsafe::NotReached => Unsafe::NotTold("Secret default/demo-connection".to_owned()),
        Unsafe::NotTold(_) => Unsafe::NotAsked,
        Unsafe::NotAsked => Unsafe::NotIssuedForThis,
        Unsafe::NotIssuedForThis => Unsafe::AuthNotOrdered,
        Unsafe::AuthNotOrdered => Unsafe::TenantsNeedAuth,
        Unsafe::TenantsNeedAuth => Unsafe::NoRootUser,
        Unsafe::NoRootUser => Unsafe::RootNotNew,
        Unsafe::RootNotNew => Unsafe::OthersAreRoot,
        Unsafe::OthersAreRoot => Unsafe::NotAnOrphan("billing-01234567".to_owned()),
        Unsafe::NotAnOrphan(_) => Unsafe::NoClientGrace,
        Unsafe::NoClientGrace => Unsafe::ClientsHaveTime,
        Unsafe::ClientsHaveTime => Unsafe::LacksCredential(demo()),
        Unsafe::LacksCredential(_) => Unsafe::AuthorityKept,
        Unsafe::AuthorityKept => Unsafe::NotLost(demo()),
        Unsafe::NotLost(_) => Unsafe::LacksSuccessor(demo()),
        Unsafe::LacksSuccessor(_) => Unsafe::DataUndecided(demo()),
        Unsafe::DataUndecided(_) => {
            Unsafe::AlarmHolds(Alarm { member: MemberId(0xb0), kind: AlarmKind::NoSpace })
        }
        Unsafe::AlarmHolds(_) => Unsafe::VersionsMixed(
            "demo-0 runs etcd 3.6 and demo-1 runs 3.5. It changes once all run the same".to_owned(),
        ),
        Unsafe::VersionsMixed(_) => Unsafe::DataTooNew(
            demo(),
            "it has run 3.7, and its data do not go back to 3.6: set spec.version to 3.7 or later".to_owned(),
        ),
        Unsafe::DataTooNew(..) => Unsafe::NoDowngrade("nobody has ordered it".to_owned()),
        Unsafe::NoDowngrade(_) => Unsafe::Defragmenting(demo()),
        Unsafe::Defragmenting(_) => Unsafe::NoRoomToDefragment(demo()),
        Unsafe::NoRoomToDefragment(_) => Unsafe::BackupRuns("nightly-1".to_owned()),
        Unsafe::BackupRuns(_) => Unsafe::HistoryKept,
        Unsafe::HistoryKept => Unsafe::OldMemberRuns(name("demo-1")),
        Unsafe::OldMemberRuns(_) => Unsafe::NotOrdered,
        Unsafe::NotOrdered => Unsafe::NotQuarantined(name("demo-1")),
        Unsafe::NotQuarantined(_) => Unsafe::BeingReplaced(name("demo-1")),
        Unsafe::BeingReplaced(_) => Unsafe::QuorumAnswers,
        Unsafe::QuorumAnswers => Unsafe::DataInMemory,
        Unsafe::DataInMemory => Unsafe::NotRead(name("demo-1")),
        Unsafe::NotRead(_) => return None,
    })
}

fn troubles() -> Vec<Explanation> {
    let write = |kind, name: &str, act| Write { kind, namespace: "default".into(), name: name.into(), act };
    let pod = write(Kind::Pod, "demo-2", Act::Create(json!({})));
    let volume = write(Kind::Volume, "demo-2", Act::Patch(json!({})));
    let quota =
        "pods \"demo-2\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    let mut world = World::running(3);
    let whole = world.observe().unwrap().observation.snapshot;
    world.remove(Kind::Pod, "demo-2");
    let seen = world.observe().unwrap().observation.snapshot;
    let new = World::new(&plain(3));
    vec![
        trouble::write_refused(&pod.describe(), quota, &seen, world.now),
        trouble::write_refused(
            &volume.describe(),
            "admission webhook \"policy.example.com\" denied the request",
            &whole,
            world.now,
        ),
        trouble::write_refused(&pod.describe(), quota, &new.observe().unwrap().observation.snapshot, new.now),
        trouble::expansion_refused(
            &write(Kind::Volume, "demo-1", Act::Patch(json!({}))).describe(),
            "persistentvolumeclaims \"demo-1\" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that \
             provisions the pvc must support resize",
            &name("demo-1"),
        ),
        trouble::eviction_blocked(
            &write(Kind::Pod, "demo-2", Act::Evict { uid: "u".into() }).describe(),
            "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget demo needs 2 healthy \
             pods and has 2 currently",
        ),
        trouble::api_unavailable(&pod.describe(), "no answer within 10s"),
        trouble::status_not_written("default/demo", "the API server refuses it: etcdserver: mvcc: no space"),
        trouble::membership_change_refused("MemberAdd demo-3", "refused: etcdserver: user name not found"),
        trouble::membership_change_refused("MemberAdd demo-3", "refused: etcdserver: unhealthy cluster"),
    ]
}

/// Clusters in the situations that users meet.
fn situations() -> Vec<World> {
    let running = |change: &dyn Fn(&mut World)| {
        let mut world = World::running(3);
        change(&mut world);
        world
    };
    let spec = |world: &mut World, field: &str, value: Value| {
        world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"][field] = value);
    };
    let with_budget = |size: usize, policy: &str| {
        let mut world = World::running(size);
        spec(&mut world, "disruption", json!({ "podDisruptionBudget": policy }));
        world
    };
    let mut taken = World::new(&plain(1));
    taken.conflicts.push(NameConflict { kind: Kind::Service, name: "demo".to_owned(), made_by: None });
    // Nothing is renewed while it is paused.
    let with_old_certificates = |days: u64| {
        let mut world = World::new(&json!({ "size": 1, "version": "3.6.16" }));
        world.settle();
        spec(&mut world, "paused", json!(true));
        world.now = world.now + Span::seconds(days * 86_400);
        world
    };
    let mut without_authority = with_old_certificates(0);
    without_authority.remove(Kind::Secret, "demo-ca");
    let mut with_auth = World::new(&json!({ "size": 1, "version": "3.6.16", "auth": { "enabled": true } }));
    with_auth.settle();
    with_auth.edit(Kind::Cluster, "demo", |cluster| cluster["status"]["auth"] = json!({ "stage": "On" }));
    let mut with_orphans = with_auth.clone();
    let user = |name: &str| Marked::new(name, "01234567");
    with_orphans.auth = Some(SeenAuth {
        orphans: [
            (user("billing"), Orphan::Confirmed),
            (user("shop"), Orphan::Unconfirmed),
            (user("stays"), Orphan::Retained),
        ]
        .into(),
        ..SeenAuth::new(with_orphans.now, true)
    });
    let clients = |clients: Clients| {
        let mut world = with_auth.clone();
        world.edit(Kind::Cluster, "demo", |cluster| {
            cluster["status"]["clientGrace"] = json!({ "since": "2026-01-01T00:00:00Z" });
        });
        world.auth = Some(SeenAuth { clients, ..SeenAuth::new(world.now, true) });
        world
    };
    let (with_clients, with_broad_clients) = (clients(Clients::OfGrace), clients(Clients::AllKeys));
    // Clients have a week in a rotation, and nobody sees what the member trusts.
    let rotating = |seconds: u64| {
        let mut world = World::new(&json!({ "size": 1, "version": "3.6.16" }));
        world.settle();
        world.edit(Kind::Cluster, "demo", |cluster| {
            cluster["metadata"]["annotations"] = json!({ keys::ROTATE_CA: "clients" });
        });
        world.settle();
        world.now = world.now + Span::seconds(seconds);
        world
    };
    vec![
        rotating(0),
        rotating(6 * 86_400 + 3600),
        rotating(9 * 86_400),
        with_auth,
        with_orphans,
        with_clients,
        with_broad_clients,
        with_old_certificates(310),
        with_old_certificates(370),
        with_old_certificates(3600),
        with_old_certificates(3651),
        without_authority,
        World::new(&plain(3)),
        World::new(&json!({ "size": 1, "version": "3.6.16" })),
        World::new(&plain(0)),
        taken,
        running(&|world| spec(world, "size", json!(4))),
        running(&|world| spec(world, "size", json!(1))),
        running(&|world| spec(world, "size", json!(0))),
        running(&|world| {
            spec(world, "size", json!(0));
            world.settle();
            world.events.clear();
            spec(world, "size", json!(3));
        }),
        running(&|world| spec(world, "etcdOptions", json!(["--log-level=debug"]))),
        running(&|world| spec(world, "etcdOptions", json!(["--max-learnerz=2"]))),
        running(&|world| spec(world, "version", json!("3.5.35"))),
        running(&|world| spec(world, "paused", json!(true))),
        running(&|world| world.versions.extend([("demo-0".to_owned(), Version::new(3, 5, 2))])),
        running(&|world| world.remove(Kind::Pod, "demo-2")),
        running(&|world| {
            let order = format!("demo-1/{}", world.members[1].id);
            world.edit(Kind::Cluster, "demo", |cluster| {
                cluster["metadata"]["annotations"] = json!({ keys::REPLACE_MEMBER: order });
            });
        }),
        running(&|world| world.silent.extend(["demo-2".to_owned()])),
        running(&|world| {
            world.silent.insert("demo-2".to_owned());
            world.edit(Kind::Pod, "demo-2", |pod| {
                pod["metadata"]["labels"].as_object_mut().unwrap().remove(keys::SERVES);
                pod["metadata"]["annotations"][keys::SERVED_UNTIL] = json!("2026-01-01T00:00:00Z");
            });
        }),
        running(&|world| {
            world.remove(Kind::Pod, "demo-2");
            world.remove(Kind::Volume, "demo-2");
        }),
        running(&|world| {
            world.silent.insert("demo-1".to_owned());
            world.pass();
            world.silent.clear();
        }),
        running(&|world| world.silent.extend(["demo-1".to_owned()])),
        running(&|world| {
            world.edit(Kind::Pod, "demo-0", |pod| pod["status"]["conditions"][0]["status"] = json!("False"));
            world.edit(Kind::Pod, "demo-1", |pod| {
                pod["metadata"]["labels"]["operator.etcd.io/cluster"] = json!("x");
            });
            world.silent.insert("demo-2".to_owned());
        }),
        running(&|world| {
            spec(world, "paused", json!(true));
            world.remove(Kind::Service, "demo-client");
        }),
        running(&|world| world.alarms = vec![Alarm { member: MemberId(0xdead), kind: AlarmKind::NoSpace }]),
        running(&|world| {
            let member = world.members[1].id;
            world.alarms = vec![Alarm { member, kind: AlarmKind::Corrupt }];
        }),
        with_budget(1, "OneAtATime"),
        with_budget(2, "Quorum"),
        with_budget(1, "None"),
        running(&|world| world.silent.extend(["demo-1".to_owned(), "demo-2".to_owned()])),
        running(&|world| {
            let stray = PeerUrl::new("http://elsewhere:2380");
            let (id, name) = (MemberId(0xbad), "x".to_owned());
            world.members.push(Listed { id, name, peer_url: stray, is_learner: false, started: true });
        }),
        running(&|world| world.members.truncate(2)),
        running(&|world| {
            world.edit(Kind::Cluster, "demo", |cluster| cluster["status"]["clusterID"] = json!("dead"));
        }),
        running(&|world| {
            world
                .edit(Kind::Cluster, "demo", |cluster| cluster["status"]["members"][0]["id"] = json!("dead"));
        }),
        running(&|world| {
            world.edit(Kind::Cluster, "demo", |cluster| cluster["status"]["formatVersion"] = json!(2));
        }),
        running(&|world| {
            world.edit(Kind::Cluster, "demo", |cluster| {
                cluster["metadata"]["deletionTimestamp"] = json!("2026-11-21T08:00:00Z");
            });
        }),
    ]
}

/// Passes until nothing is done any more, at most a few.
fn live(world: &mut World, mut each: impl FnMut(&World, &EtcdClusterStatus)) {
    for _ in 0..40 {
        let Ok(pass) = world.observe() else { return };
        each(world, &pass.status);
        if !world.pass() {
            return;
        }
    }
}

fn conditions() -> Vec<String> {
    let mut lines = Vec::new();
    let mut show = |status: &EtcdClusterStatus| {
        let is = |type_: &str| status.conditions.iter().any(|one| one.type_ == type_ && one.status == "True");
        assert!(!(is("Ready") && is("Stalled")), "{:?}", status.conditions);
        for one in &status.conditions {
            lines.push(format!("{}={}  {}: {}", one.type_, one.status, one.reason, one.message));
        }
    };
    for mut world in situations() {
        live(&mut world, |_, status| show(status));
    }
    for health in data_stores::all() {
        let mut world = World::running(1);
        world.data_store = Some(health);
        show(&world.observe().unwrap().status);
    }
    let world = World::running(3);
    let mut pass = world.observe().unwrap();
    pass.observation.snapshot.etcd = Etcd::default();
    let cluster = world.cluster();
    let snapshot = &pass.observation.snapshot;
    show(&status(&Situation {
        cluster: &cluster,
        snapshot,
        refused: None,
        plan: &pass.plan,
        backups: None,
        data_store: None,
        now: world.now,
    }));
    let world = World::new(&json!({ "size": 3, "version": "latest" }));
    show(&invalid_status(&world.cluster(), &world.observe().err().unwrap(), world.now));
    let schema =
        crd("EtcdCluster").unwrap().spec.versions.remove(0).schema.unwrap().open_api_v3_schema.unwrap();
    let unseen = schema.properties.unwrap()["status"].default.clone().unwrap().0;
    show(&serde_json::from_value(unseen).unwrap());
    lines
}

fn events() -> Vec<String> {
    let mut lines = Vec::new();
    for mut world in situations() {
        live(&mut world, |_, _| {});
        for event in &world.events {
            lines.push(shown(event));
        }
    }
    let reason = "Pod demo-0: CreateContainerError: not supported".to_owned();
    let agent_delivery = Some(AgentDeliveryStatus { method: AgentDelivery::InitContainer, reason });
    let fell_back = EtcdClusterStatus { agent_delivery, ..EtcdClusterStatus::default() };
    lines.extend(status_events(&EtcdClusterStatus::default(), &fell_back).iter().map(shown));
    for (result, message) in [
        (RecoveryResult::Succeeded, "demo-1 was replaced: its PersistentVolumeClaim is gone"),
        (
            RecoveryResult::Withdrawn,
            "demo-1 was not replaced: the annotation that ordered it was removed, so the order is withdrawn",
        ),
    ] {
        let (last_result, message) = (Some(result), message.to_owned());
        let recovery = Some(RecoveryStatus { last_result, message, ..RecoveryStatus::default() });
        let ended = EtcdClusterStatus { recovery, ..EtcdClusterStatus::default() };
        lines.extend(status_events(&EtcdClusterStatus::default(), &ended).iter().map(shown));
    }
    lines
}

fn shown(event: &EventText) -> String {
    format!("{}  {}", if event.warning { "Warning" } else { "Normal" }, event.what)
}

fn invalid_specs() -> Vec<String> {
    let changes = [
        json!({ "version": "latest" }),
        json!({ "etcdOptions": ["--name=x"] }),
        json!({ "etcdOptions": ["--log-levle=x"] }),
        json!({ "storageSpec": { "volumeSizeRequest": "ten" } }),
        json!({ "storageSpec": { "volumeSizeRequest": "2Gi", "volumeSizeLimit": "1Gi" } }),
        json!({ "tls": { "providerCfg": { "autoCfg": { "commonName": "quorate-peer" } } } }),
        json!({ "tls": { "providerCfg": { "autoCfg": { "commonName": "billing-1f2e3d4c" } } } }),
    ];
    let refused = changes.iter().map(|change| {
        let mut spec = json!({ "size": 3, "version": "3.6.16" });
        for (field, value) in change.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let cluster: EtcdCluster = serde_json::from_value(crate::world::cluster(&spec)).unwrap();
        resolve(&cluster, &Defaults::default()).unwrap_err().to_string()
    });
    refused.collect()
}

fn cel() -> Vec<String> {
    let mut lines = Vec::new();
    for crd in crds() {
        rules(&serde_json::to_value(crd).unwrap(), &mut lines);
    }
    lines
}

fn rules(schema: &Value, lines: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key == "x-kubernetes-validations" {
                    let messages = value.as_array().into_iter().flatten();
                    lines.extend(messages.filter_map(|rule| rule["message"].as_str()).map(str::to_owned));
                } else {
                    rules(value, lines);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| rules(item, lines)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn m23_a_budget_that_a_policy_refuses_says_that_no_member_is_replaced_meanwhile() {
    let world = World::running(3);
    let seen = world.observe().unwrap().observation.snapshot;
    let answer = "admission webhook denied the request: minAvailable must leave room";
    let refused = trouble::write_refused("change PodDisruptionBudget default/demo", answer, &seen, world.now);
    assert!(refused.message().contains("no member is replaced, moved or removed"), "{}", refused.message());
    assert!(refused.message().contains("podDisruptionBudget to None"), "{}", refused.message());
    let other = trouble::write_refused("create Pod default/demo-1", answer, &seen, world.now);
    assert!(!other.message().contains("PodDisruptionBudget"), "{}", other.message());
}
