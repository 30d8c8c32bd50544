//! Samples of what a plan waits on: one of each fact, and of those with more than one text one of each text.

use std::collections::BTreeMap;

use quorate_model::adoption::{SaysNothing, Unadoptable};
use quorate_model::effect::{
    AuthChanging, AuthWait, AuthorityWait, Downgrading, EarlierData, FixedField, GivenUp, HeldUp, LastNode,
    LeftOut, MayRun, Mixed, NoStep, NotBegun, NotRead, NotRestored, NotRotated, NotSigned, NotTaken,
    OrderWait, PodTrouble, RecoveryRefused, RecoveryWait, SafePoint, TakingTurns, Unfit, Unsafe,
    VersionRefused, Wave,
};
use quorate_model::quorum_recovery::{Log, RecoverFrom};
use quorate_model::restore::{RestoreCause, RestoreFailure};
use quorate_model::rotation::{Rotation, RotationStage};
use quorate_model::snapshot::{
    AlarmKind, AuthorityLoss, KeptOutByAuth, NoRoom, PodName, ReplaceMember, Sick, Unhealthy,
};
use quorate_model::target::Medium;
use quorate_model::{
    Ca, ClusterId, ClusterRef, ClusterUid, Fingerprint, GuardVerdict, Instant, Leaf, MemberId, Minor,
    Revision, Span, Token, Version,
};

use super::{every, name};

fn secret() -> String {
    "Secret default/demo-ca".to_owned()
}

pub(super) fn earlier_data() -> Vec<EarlierData> {
    let volumes = || vec![name("demo-0"), name("demo-1")];
    let existing = |found: &[u64], quarantined, unmatched: Option<u64>| EarlierData::Volumes {
        found: found.iter().map(|id| ClusterId(*id)).collect(),
        volumes: volumes(),
        quarantined,
        unmatched: unmatched.map(ClusterId),
    };
    let mut all = vec![
        existing(&[0xc1], vec![], None),
        existing(&[], vec![], None),
        existing(&[0xc1], vec![], Some(0xdead)),
        existing(&[0xc1], volumes(), Some(0xc1)),
        existing(&[0xc1], vec![name("demo-0")], None),
        existing(&[1, 2], vec![], None),
        EarlierData::Gone { cluster: ClusterId(0xc1), voters: volumes() },
        EarlierData::NotRestored("Velero's Restore nightly".to_owned()),
        EarlierData::UnknownPods(volumes()),
    ];
    all.extend(unadoptable().into_iter().map(|why| EarlierData::NotAdopted(ClusterId(0xc1), why)));
    all.extend(fixed_fields().into_iter().take(2).map(EarlierData::Contradict));
    every(all)
}

fn unadoptable() -> Vec<Unadoptable> {
    let (first, second) = (|| name("demo-0"), || name("demo-1"));
    let by_token =
        BTreeMap::from([(Token::new("u-1-1"), vec![first()]), (Token::new("u-2-1"), vec![second()])]);
    let copies = || BTreeMap::from([(second(), "VolumeSnapshot nightly".to_owned())]);
    let given = "yes".to_owned();
    let says = SaysNothing { given, cluster: ClusterId(0xc1), uid: ClusterUid::new("uid-of-demo") };
    every(vec![
        Unadoptable::InUse(vec!["Pod default/demo-0".to_owned(), "Pod default/demo-1".to_owned()]),
        Unadoptable::SeveralTokens(by_token),
        Unadoptable::SameMember(MemberId(0xb0), vec![first(), second()]),
        Unadoptable::Copies(copies(), None),
        Unadoptable::Copies(copies(), Some(says)),
        Unadoptable::TooFew { there: vec![second()], voters: vec![first(), second(), name("demo-2")] },
    ])
}

pub(super) fn fixed_fields() -> Vec<FixedField> {
    let (once, pod) = ("ReadWriteOnce".to_owned(), "ReadWriteOncePod".to_owned());
    every(vec![
        FixedField::Tls { is: true, found: false },
        FixedField::Medium { is: Medium::Disk, found: Medium::Memory },
        FixedField::AccessMode { is: once, found: pod },
    ])
}

pub(super) fn authority() -> Vec<AuthorityWait> {
    let loss = AuthorityLoss::Missing(Some(Fingerprint::new("0a1b2c3d4e5f60718293")));
    let mut all = vec![AuthorityWait::Lost { secret: secret(), loss }, AuthorityWait::Ended(secret())];
    all.extend(not_taken().into_iter().map(AuthorityWait::Refused));
    all.extend([
        AuthorityWait::Rotating(rotation(RotationStage::Trust), Unsafe::NotTrusted(name("demo-1"))),
        AuthorityWait::Rotating(rotation(RotationStage::Sign), Unsafe::EarlierPresented(name("demo-1"))),
        AuthorityWait::Rotating(rotation(RotationStage::Drop), Unsafe::NotTrusted(name("demo-1"))),
        AuthorityWait::ClientsHaveTime(rotation(RotationStage::Trust), Instant(1_790_000_000_000)),
        AuthorityWait::ClientsHaveTime(rotation(RotationStage::Sign), Instant(1_790_000_000_000)),
    ]);
    all.extend(not_rotated().into_iter().map(AuthorityWait::NotRotated));
    every(all)
}

fn not_taken() -> Vec<NotTaken> {
    let given = || "Secret default/my-ca".to_owned();
    every(vec![
        NotTaken::Unusable { secret: given(), why: "its tls.key is not the key of its tls.crt".to_owned() },
        NotTaken::NotNamed,
        NotTaken::OfAnother(given()),
    ])
}

fn not_rotated() -> Vec<NotRotated> {
    let given = || "Secret default/my-ca".to_owned();
    every(vec![
        NotRotated::Unusable { secret: given(), why: "it is not valid yet".to_owned() },
        NotRotated::CopyOf(given()),
        NotRotated::Unsafe(Unsafe::TenantsNeedKey),
    ])
}

fn not_signed() -> Vec<NotSigned> {
    every(vec![
        NotSigned::NoTls,
        NotSigned::Ended(secret()),
        NotSigned::NotCreated(secret()),
        NotSigned::Lost { secret: secret(), loss: AuthorityLoss::Missing(None) },
        NotSigned::NotNamed,
        NotSigned::NotGiven("no operator certificate comes with it".to_owned()),
        NotSigned::OfAnother { leaf: Leaf::Operator, secret: "Secret default/my-ca".to_owned() },
    ])
}

fn rotation(stage: RotationStage) -> Rotation {
    let fingerprint = |digit: &str| Fingerprint::new(digit.repeat(64));
    let (from, to) = (fingerprint("a"), fingerprint("b"));
    Rotation { ca: Ca::Clients, from, to, given: false, stage, since: Instant(0), told: None }
}

pub(super) fn auth() -> Vec<AuthWait> {
    let kept_out = |tls| {
        let why = "refused: etcdserver: user name is empty".to_owned();
        AuthWait::KeptOut(KeptOutByAuth { refuse: 3, ready: 3, voters: 3, tls, why })
    };
    let mut changing = vec![
        AuthChanging::CredentialFirst,
        AuthChanging::Unsafe(Unsafe::LacksCredential(name("demo-1"))),
        AuthChanging::UserFirst("billing".to_owned()),
        AuthChanging::OnAgain,
        AuthChanging::MakingRoot,
        AuthChanging::Enabling,
        AuthChanging::Disabling,
        AuthChanging::Asked,
        AuthChanging::ClientsAsked,
    ];
    changing.extend(not_signed().into_iter().map(AuthChanging::NoRootCertificate));
    let mut all: Vec<AuthWait> = every(changing).into_iter().map(AuthWait::Changing).collect();
    all.extend([
        AuthWait::ClientsAreRoot,
        AuthWait::OthersAreRoot(["eve".to_owned()].into()),
        AuthWait::UsersToRevoke,
        AuthWait::StaysOn(ClusterId(0x1234)),
        AuthWait::OffRefused(Unsafe::TenantsNeedAuth),
        AuthWait::NotOurs,
        kept_out(false),
        kept_out(true),
    ]);
    every(all)
}

pub(super) fn pods() -> Vec<PodTrouble> {
    every(vec![
        PodTrouble::Says("Unschedulable: 0/3 nodes are available".to_owned()),
        PodTrouble::Guard(GuardVerdict::DataMissing, "the volume is empty".to_owned()),
        PodTrouble::SnapshotNotMounted,
        PodTrouble::KeepsEnding {
            member: name("demo-1"),
            why: Some("Evicted: the node was low on resource: memory.".to_owned()),
            times: 4,
            delay: Span::seconds(20),
        },
    ])
}

pub(super) fn not_restored() -> Vec<NotRestored> {
    let failed = |cause, why: &str| NotRestored::Failed(RestoreFailure::new(cause, why));
    every(vec![
        failed(RestoreCause::Refused, "the snapshot is larger than the quota"),
        failed(RestoreCause::Gone, "s3://backups/demo/1 does not exist"),
        failed(RestoreCause::Forbidden, "the store refuses the credentials in Secret store"),
        failed(
            RestoreCause::Stale,
            "s3://backups/demo/1 is of 2026-11-01T02:00:00Z. Delete this EtcdCluster",
        ),
        failed(RestoreCause::Failed, "the store does not answer"),
        NotRestored::Lower { revision: Revision(7), least: Revision(1000) },
        NotRestored::Differs { from: name("demo-0"), revision: Revision(1000) },
    ])
}

pub(super) fn unfit() -> Vec<Unfit> {
    every(vec![
        Unfit::Memory,
        Unfit::AuthWithoutTls,
        Unfit::OlderThan(Version::new(3, 7, 3)),
        Unfit::CannotRaise(Version::new(3, 5, 9), Version::new(3, 5, 10)),
        Unfit::OverQuota { bytes: 3 << 30, quota: 2 << 30 },
        Unfit::VolumeTooSmall { bytes: 3 << 30, needed: 7 << 30, has: 4 << 30 },
    ])
}

fn given_up() -> Vec<GivenUp> {
    every(vec![
        GivenUp::VolumeGone,
        GivenUp::NotWanted,
        GivenUp::Unsafe(Unsafe::VersionsMixed(Mixed::NotYet(name("demo-0"), Minor(3, 7)))),
        GivenUp::LostFirst(name("demo-0")),
        GivenUp::DatabaseFull,
        GivenUp::VoterUnhealthy(name("demo-0")),
        GivenUp::DataDiffer,
        GivenUp::NotInSync {
            within: Span::seconds(600),
            trouble: Some("ErrImagePull: not found".to_owned()),
        },
    ])
}

pub(super) fn safe_points() -> Vec<SafePoint> {
    let held_up =
        every(vec![HeldUp::NoCopy(Span::seconds(600)), HeldUp::Voter(name("demo-0")), HeldUp::NoProgress]);
    let mut all = vec![SafePoint::Learner(name("demo-3"))];
    all.extend(held_up.into_iter().map(|why| SafePoint::LearnerMakesWay(name("demo-3"), why)));
    all.extend(given_up().into_iter().map(|why| SafePoint::LearnerGivenUp(name("demo-3"), why)));
    all.extend([
        SafePoint::Unfinished { voter: name("demo-0"), runs: Minor(3, 6), data: Minor(3, 5) },
        SafePoint::NoRootCertificate(NotSigned::NotCreated(secret())),
        SafePoint::VersionAfterClaims,
        SafePoint::SizeZeroAfterClaims,
    ]);
    every(all)
}

pub(super) fn versions() -> Vec<VersionRefused> {
    let steps = every(vec![
        NoStep::PatchFirst(Version::new(3, 5, 26)),
        NoStep::NotKnown,
        NoStep::Finished,
        NoStep::TooFarBack,
        NoStep::TooFar,
        NoStep::Data,
    ]);
    let no_step = |why: NoStep| {
        let (old, new) = (Version::new(3, 5, 20), Version::new(3, 6, 16));
        let back = matches!(why, NoStep::Finished | NoStep::TooFarBack | NoStep::Data);
        let (from, to) = if back { (new, old) } else { (old, new) };
        VersionRefused::NoStep { from, to, why }
    };
    let mut all = vec![
        VersionRefused::Unknown(Version::new(3, 8, 0)),
        VersionRefused::Unsound(Version::new(3, 5, 2)),
        VersionRefused::Unsafe(Unsafe::NotRecorded(name("demo-1"))),
    ];
    all.extend(steps.into_iter().map(no_step));
    every(all)
}

pub(super) fn downgrades() -> Vec<Downgrading> {
    let to = Minor(3, 6);
    every(vec![
        Downgrading::Asked(to),
        Downgrading::ClaimsFirst,
        Downgrading::Lowering(to),
        Downgrading::Cancelling(to),
        Downgrading::CancellingForClaims(to),
        Downgrading::Ending(to),
        Downgrading::ImageStays { runs: Minor(3, 7), to },
    ])
}

pub(super) fn waves() -> Vec<Wave> {
    let turns = |clusters: &[&str], limit: &str| TakingTurns {
        now: clusters.iter().map(|name| (*name).to_owned()).collect(),
        most: clusters.len(),
        limit: limit.to_owned(),
    };
    let many = ["team-a/demo", "team-b/demo", "team-c/demo", "team-d/demo", "team-e/demo"];
    every(vec![
        Wave::Stopped { cluster: "team-a/demo".to_owned(), why: "demo-0: ErrImagePull".to_owned() },
        Wave::Full(turns(&["team-a/demo"], "1")),
        Wave::Full(turns(&many, "1+5%")),
        Wave::FullOfInterrupted(turns(&["team-a/one"], "1+5%")),
        Wave::Missed,
        Wave::PassedOver("demo-0: no node fits.".to_owned()),
        Wave::Sick(name("demo-0"), Sick::Silent),
        Wave::Parked(Span::seconds(600)),
    ])
}

pub(super) fn orders() -> Vec<OrderWait> {
    let not_complete =
        RestoreFailure::new(RestoreCause::NotReady, "EtcdBackup nightly-1 is not complete yet");
    let not_begun = every(vec![
        NotBegun::Snapshot(not_complete),
        NotBegun::Unfit(Unfit::Memory),
        NotBegun::Version(VersionRefused::Unsound(Version::new(3, 5, 2))),
        NotBegun::SizeZero,
        NotBegun::NamesTaken(vec!["Service default/demo-client".to_owned()]),
        NotBegun::ClaimsFirst(None),
        NotBegun::ClaimsFirst(Some(vec![replaced(Some(MemberId(0xb0)))])),
        NotBegun::NotAdmitted("exceeded quota: small".to_owned()),
        NotBegun::AdmissionUnknown("no answer within 10s".to_owned()),
        NotBegun::AdmissionAsked,
    ]);
    let mut all: Vec<OrderWait> = not_begun.into_iter().map(OrderWait::NotBegun).collect();
    all.extend([OrderWait::BackupFirst, OrderWait::ReadAgain, OrderWait::Replacing]);
    every(all)
}

pub(super) fn recovery() -> Vec<RecoveryWait> {
    let mut all = vec![
        RecoveryWait::Reads { from: RecoverFrom::Auto, logs: logs() },
        RecoveryWait::Ended { withdrawn: true },
        RecoveryWait::Ended { withdrawn: false },
    ];
    all.extend(recovery_refused().into_iter().map(RecoveryWait::Refused));
    let not_read = every(vec![
        NotRead::Silent { says: None, may_be_left: false },
        NotRead::Silent { says: Some("ErrImagePull: not found".to_owned()), may_be_left: true },
        NotRead::OnceMore("DataMissing: the volume is empty".to_owned()),
        NotRead::Extracted,
    ]);
    all.extend(not_read.into_iter().map(|why| RecoveryWait::NotRead(name("demo-1"), why)));
    all.extend(may_run().into_iter().map(|why| RecoveryWait::MayRun(name("demo-1"), why)));
    every(all)
}

fn recovery_refused() -> Vec<RecoveryRefused> {
    let left_out = every(vec![LeftOut::Differs, LeftOut::GivenUp, LeftOut::Learner]);
    let left_out = left_out.into_iter().zip(0..).map(|(why, place)| (name(&format!("demo-{place}")), why));
    every(vec![
        RecoveryRefused::Spent,
        RecoveryRefused::TooSoon,
        RecoveryRefused::InMemory,
        RecoveryRefused::ForgetsEntries(Version::new(3, 6, 4), Version::new(3, 6, 5)),
        RecoveryRefused::NoMember(name("demo-7")),
        RecoveryRefused::QuorumHasData { readable: 2, voters: 3 },
        RecoveryRefused::DataDiffer,
        RecoveryRefused::NoDataOf(name("demo-1")),
        RecoveryRefused::NoData,
        RecoveryRefused::LeftOut(left_out.collect()),
        RecoveryRefused::Agent(name("demo-1"), "etcd does not start on a copy of the data".to_owned()),
        RecoveryRefused::SizeZero,
        RecoveryRefused::Unfit(Unfit::Memory),
        RecoveryRefused::Version(VersionRefused::Unsound(Version::new(3, 5, 2))),
    ])
}

fn may_run() -> Vec<MayRun> {
    let node = || Some("n1".to_owned());
    let mut all = vec![
        MayRun::PodThere(node()),
        MayRun::PodThere(None),
        MayRun::ClaimTerminating(name("demo-1")),
        MayRun::NotRecorded,
    ];
    for state in every(vec![LastNode::Stopping, LastNode::Silent, LastNode::NotKnown]) {
        all.extend([false, true].map(|former| MayRun::Node { node: node(), former, state }));
    }
    every(all)
}

fn logs() -> Vec<(quorate_model::MemberName, Result<Log, String>)> {
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

fn replaced(id: Option<MemberId>) -> ReplaceMember {
    let cluster = ClusterRef { namespace: "default".to_owned(), name: "demo".to_owned() };
    ReplaceMember { cluster, member: name("demo-1"), id }
}

pub(super) fn sick() -> Vec<Sick> {
    let pod = || PodName { member: name("demo-1"), namespace: "default".to_owned() };
    let lost = || Some(replaced(None));
    let says = || Some("FailedMount: the path does not exist".to_owned());
    let trouble = || "Unschedulable: 3 node(s) had volume node affinity conflict".to_owned();
    let no_room = |new_volume_fits| {
        let order = replaced(Some(MemberId(0xb0)));
        Sick::FarBehind(Some(NoRoom { needed: 3 << 30, new_volume_fits, order }))
    };
    let mut all = vec![
        Sick::Guard(GuardVerdict::DataMissing, "the volume is empty".to_owned()),
        Sick::Pod { trouble: trouble(), says: None, lost: lost() },
        Sick::Pod { trouble: "ErrImagePull: not found".to_owned(), says: says(), lost: None },
        Sick::NotMounted { pod: pod(), says: None, lost: None },
        Sick::NotMounted { pod: pod(), says: says(), lost: lost() },
        Sick::Starting(None),
        Sick::Starting(says()),
        Sick::Silent,
        Sick::KeptOut,
        Sick::Defragmented,
        Sick::NotReady { pod: pod(), says: None },
        Sick::NotReady { pod: pod(), says: says() },
        Sick::FarBehind(None),
        no_room(true),
        no_room(false),
        Sick::MustAnswer,
    ];
    let unhealthy = every(vec![
        Unhealthy::NoPod,
        Unhealthy::Terminating,
        Unhealthy::NoAnswer(None),
        Unhealthy::NoAnswer(Some("no reply within 2s".to_owned())),
        Unhealthy::Learner,
        Unhealthy::NoLeader,
        Unhealthy::OtherLeader { follows: MemberId(0xb0), leader: MemberId(0xb1) },
        Unhealthy::Lagging { applied: 1, committed: 2 },
        Unhealthy::Differs,
        Unhealthy::Alarm(AlarmKind::NoSpace),
        Unhealthy::Alarm(AlarmKind::Corrupt),
        Unhealthy::Errors(vec!["etcdserver: mvcc: database space exceeded".to_owned()]),
        Unhealthy::NotReady,
    ]);
    all.extend(unhealthy.into_iter().map(Sick::Is));
    every(all)
}
