//! Every message that a user can see in conditions, events and refused specs, in one file to review the wording:
//! `snapshots/main__messages__messages.snap`. A new reason, or a new thing to wait on, does not pass before it is in there.
//! The samples of what a plan waits on, topic by topic: [`waits`].

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::world::{World, plain};
use quorate_api::status::{AgentDelivery, AgentDeliveryStatus, RecoveryResult, RecoveryStatus};
use quorate_api::{EtcdCluster, EtcdClusterStatus, Explanation, Reason, ReasonOf, crd, crds, keys};
use quorate_manifests::{Act, Defaults, Kind, NameConflict, Write, resolve};
use quorate_model::auth::{Clients, Marked, Orphan, SeenAuth};
use quorate_model::effect::{ClaimOutlook, Foreign, Mixed, NoDowngrade, NoList, NoSnapshot, TooNew, Unsafe};
use quorate_model::incarnation::Order;
use quorate_model::record::RecordDoubt;
use quorate_model::record::{Abandoned, Loss};
use quorate_model::restore::{RestoreCause, RestoreFailure};
use quorate_model::snapshot::{Alarm, AlarmKind, Database, Etcd, Listed};
use quorate_model::{
    ClockDifference, ClusterId, ClusterUid, GuardVerdict, MemberId, MemberName, Minor, PeerUrl, Revision,
    Span, Uid, Version, Waiting,
};
use quorate_status::{
    EventText, Situation, events as status_events, explain, invalid_status, refusal, status, trouble,
};
use serde_json::{Value, json};
use strum::VariantNames;

mod data_stores;
mod waits;

/// A section of the file: its title and its lines, each once.
type Section = (&'static str, Vec<String>);

#[test]
fn messages() {
    let sections = [
        ("What a plan waits on", waited_on().iter().map(|waiting| explain(waiting).to_string()).collect()),
        ("What a safety rule forbids", refusals().iter().map(refusal).collect()),
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

/// The samples, if there is one of each variant.
fn every<T>(samples: Vec<T>) -> Vec<T>
where
    T: VariantNames,
    for<'a> &'static str: From<&'a T>,
{
    let shown: BTreeSet<&str> = samples.iter().map(Into::into).collect();
    let missing: Vec<&&str> = T::VARIANTS.iter().filter(|name| !shown.contains(**name)).collect();
    assert!(missing.is_empty(), "no sample here of {missing:?}: add one");
    samples
}

/// One of each, and of those with more than one text one of each text.
fn waited_on() -> Vec<Waiting> {
    let demo = || name("demo-1");
    let foreign = every(vec![
        Foreign::Object("Service default/demo".to_owned()),
        Foreign::Authority {
            secret: "Secret default/demo-ca".to_owned(),
            uid: ClusterUid::new("uid-of-demo"),
        },
    ]);
    let mut all = vec![Waiting::Paused, Waiting::ForeignObjects(foreign)];
    all.extend(waits::earlier_data().into_iter().map(Waiting::EarlierData));
    all.extend(waits::fixed_fields().into_iter().map(Waiting::EditedTooLate));
    all.extend([
        Waiting::SplitBrain(vec![(name("demo-0"), ClusterId(0xc1)), (demo(), ClusterId(0xdead))]),
        Waiting::WrongMember { member: demo(), answers: MemberId(0xb0), recorded: MemberId(0xb2) },
        Waiting::Objects,
    ]);
    all.extend(waits::authority().into_iter().map(Waiting::Authority));
    all.extend(waits::auth().into_iter().map(Waiting::Auth));
    all.extend(
        [Abandoned::VolumeLost, Abandoned::SpecEdited, Abandoned::VolumeEmptied].map(Waiting::Clearing),
    );
    all.push(Waiting::PodStarting(demo()));
    all.extend(waits::pods().into_iter().map(|why| Waiting::PodStuck(demo(), why)));
    all.extend([
        Waiting::PodStopping(demo()),
        Waiting::PodStopsLate { member: demo(), node: Some("n1".to_owned()) },
        Waiting::VolumeGoing(demo()),
    ]);
    let outlooks = every(vec![
        ClaimOutlook::Moves,
        ClaimOutlook::MovesInPlace,
        ClaimOutlook::MovesAlone,
        ClaimOutlook::MovesOnOrder,
        ClaimOutlook::Stays,
        ClaimOutlook::AtSizeZero,
        ClaimOutlook::Ordered,
        ClaimOutlook::Deleted,
    ]);
    all.extend(outlooks.into_iter().map(|outlook| Waiting::ClaimTerminating { member: demo(), outlook }));
    let says = NoList::Says("no voter that answers has a leader".to_owned());
    all.extend([
        Waiting::VolumeLost(demo()),
        Waiting::DataWentBack { had: Revision(1200), has: Revision(800) },
        Waiting::Quorum { healthy: 1, voters: 3, why: Some(says) },
        Waiting::Quorum { healthy: 3, voters: 3, why: Some(NoList::AuthWithoutTls) },
        Waiting::FirstLeader,
    ]);
    all.extend(snapshots().into_iter().map(Waiting::NoSnapshot));
    all.push(Waiting::Restoring(demo(), None));
    all.extend(waits::not_restored().into_iter().map(|why| Waiting::NotRestored(demo(), why)));
    all.extend(waits::sick().into_iter().map(|why| Waiting::Sick(demo(), why)));
    all.extend([
        Waiting::ClientsLeaving(demo()),
        Waiting::InSync { member: demo(), behind: None },
        Waiting::InSync { member: demo(), behind: Some(10_000) },
        Waiting::LeaderTransferFailed {
            leader: name("demo-0"),
            tried: vec![(demo(), 2), (name("demo-2"), 1)],
        },
    ]);
    let reason = "demo-4 did not get in sync within 10m (ErrImagePull: not found)".to_owned();
    all.push(Waiting::LearnersFailed { count: 2, reason });
    all.push(Waiting::UnmanagedMember(MemberId(0xbad), PeerUrl::new("https://elsewhere:2380")));
    all.extend(waits::versions().into_iter().map(Waiting::VersionRefused));
    all.extend([
        Waiting::UpgradeBackup("EtcdBackup before-3.7-6c1d runs (BackupRunning: Job backup-1 takes it)".to_owned()),
        Waiting::UpgradeBackupFailed(
            "EtcdBackup before-3.7-6c1d has failed (StoreForbidden: the store refuses the credentials in Secret store). Delete EtcdBackup \
             before-3.7-6c1d, and another one is taken; or remove spec.upgrade.backupBefore to upgrade without a backup"
                .to_owned(),
        ),
        Waiting::FinalBackup("EtcdBackup final-6c1d runs (BackupRunning: Job backup-1 takes it)".to_owned()),
        Waiting::DataStoreInUse(
            "DataStore tenants is deleted once no tenant uses it. Tenant team-a/one uses it".to_owned(),
        ),
        Waiting::NoFinalBackup(
            "EtcdBackup final-6c1d was not complete within its deadline: EtcdBackup final-6c1d has not begun".to_owned(),
        ),
    ]);
    all.extend(waits::safe_points().into_iter().map(Waiting::SafePoint));
    all.extend([
        Waiting::RecordDoubt(RecordDoubt::Newer(
            "status.formatVersion is 2, and this operator knows 1".to_owned(),
        )),
        Waiting::RecordDoubt(RecordDoubt::Incomplete { hash: "5f2c".repeat(16) }),
        Waiting::ClockDiffers(ClockDifference::Ahead(Span::seconds(3 * 3600))),
        Waiting::Unsafe(Unsafe::NoQuorum),
    ]);
    let losses =
        [Loss::Refused(GuardVerdict::DataMissing), Loss::VolumeGone, Loss::NodeGone, Loss::Inconsistent];
    all.extend(losses.map(|loss| Waiting::MayBeLost { member: demo(), loss, is_due: false }));
    let database = Database { size: 600 << 20, in_use: 590 << 20, quota: Some(600 << 20) };
    all.extend([
        Waiting::Undecided {
            groups: vec![BTreeSet::from([name("demo-0")]), BTreeSet::from([name("demo-2")])],
            unknown: BTreeSet::from([demo()]),
            kept_out: vec![demo()],
            voters: 3,
        },
        Waiting::Comparing(demo()),
        Waiting::NotCompared { unknown: BTreeSet::from([demo()]), kept_out: vec![demo()] },
        Waiting::ReplacementDisabled { member: demo(), loss: Loss::VolumeGone },
    ]);
    all.extend(waits::downgrades().into_iter().map(Waiting::Downgrading));
    all.extend(waits::waves().into_iter().map(Waiting::Wave));
    all.extend([
        Waiting::Defragmenting(demo()),
        Waiting::StillFull { member: demo(), database, compacts: true },
        Waiting::StillFull { member: demo(), database, compacts: false },
        Waiting::VolumeGrowing(demo()),
    ]);
    let order = || Order::Restore { name: "back".to_owned(), uid: Uid::new("uid-of-back") };
    all.extend(waits::orders().into_iter().map(|wait| Waiting::Order(order(), wait)));
    all.extend(waits::recovery().into_iter().map(Waiting::Recovery));
    every(all)
}

/// What a cluster says that is to begin with a snapshot.
fn snapshots() -> Vec<NoSnapshot> {
    let not_complete =
        RestoreFailure::new(RestoreCause::NotReady, "EtcdBackup nightly-1 is not complete yet");
    let looks = "Job inspect-backup-u2-1 looks for the newest backup of EtcdCluster tenant/demo in s3://backups/etcd/, attempt 1";
    let nothing =
        "s3://backups/etcd/tenant/demo has no whole backup of EtcdCluster tenant/demo: 0 objects were seen";
    let several = "backups of several etcd clusters go by the name";
    let found = [
        not_complete,
        newest(None, looks),
        newest(Some(Reason::NoBackupFound), nothing),
        newest(Some(Reason::BackupAmbiguous), several),
    ];
    let found = found.into_iter().map(NoSnapshot::Failed);
    every(found.chain(waits::unfit().into_iter().map(NoSnapshot::Unfit)).collect())
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

fn refusals() -> Vec<Unsafe> {
    let demo = || name("demo-1");
    every(vec![
        Unsafe::NotABootstrapMember(demo()),
        Unsafe::MustRestore(demo()),
        Unsafe::RestoresAgain(demo()),
        Unsafe::NotRecorded(demo()),
        Unsafe::NotItsVolume(demo()),
        Unsafe::NotSeen(demo()),
        Unsafe::ChangeOutstanding(demo()),
        Unsafe::SecondDisruption(demo()),
        Unsafe::VoterUnhealthy(demo()),
        Unsafe::NotThatMember(demo()),
        Unsafe::NotProven(None),
        Unsafe::NotProven(Some("demo-0: no reply within 2s".to_owned())),
        Unsafe::MustEvict(demo()),
        Unsafe::BudgetOpen(demo()),
        Unsafe::StillServes(demo()),
        Unsafe::LastThatServes(demo()),
        Unsafe::NoFreshList,
        Unsafe::StillListed(demo()),
        Unsafe::PodNotGone(demo()),
        Unsafe::DataKept(demo()),
        Unsafe::ClaimTerminating(demo()),
        Unsafe::ClaimNotRead(demo(), "forbidden".to_owned()),
        Unsafe::NotAdmitted(
            demo(),
            Some("pods \"demo-1\" is forbidden: minimum memory usage is 8Gi".to_owned()),
        ),
        Unsafe::NoQuorum,
        Unsafe::WouldLoseQuorum { member: demo(), left: 1, of: 3 },
        Unsafe::NotReplaced(demo()),
        Unsafe::SplitBrain,
        Unsafe::AnotherAuthority,
        Unsafe::NotTrusted(demo()),
        Unsafe::EarlierPresented(demo()),
        Unsafe::BundleNotWritten,
        Unsafe::OtherBundle,
        Unsafe::PodsExist,
        Unsafe::OtherSource,
        Unsafe::TenantsNeedKey,
        Unsafe::NotReached,
        Unsafe::NotTold("Secret default/demo-connection".to_owned()),
        Unsafe::NotAsked,
        Unsafe::NotIssuedForThis,
        Unsafe::AuthNotOrdered,
        Unsafe::TenantsNeedAuth,
        Unsafe::NoRootUser,
        Unsafe::RootNotNew,
        Unsafe::OthersAreRoot,
        Unsafe::NotAnOrphan("billing-01234567".to_owned()),
        Unsafe::NoClientGrace,
        Unsafe::ClientsHaveTime,
        Unsafe::LacksCredential(demo()),
        Unsafe::AuthorityKept,
        Unsafe::NotLost(demo()),
        Unsafe::LacksSuccessor(demo()),
        Unsafe::DataUndecided(demo()),
        Unsafe::AlarmHolds(Alarm { member: MemberId(0xb0), kind: AlarmKind::NoSpace }),
        Unsafe::VersionsMixed(Mixed::Downgrading(Minor(3, 6))),
        Unsafe::VersionsMixed(Mixed::Differ {
            one: (name("demo-0"), Minor(3, 6)),
            other: (demo(), Minor(3, 5)),
        }),
        Unsafe::VersionsMixed(Mixed::NotYet(demo(), Minor(3, 6))),
        Unsafe::DataTooNew(demo(), TooNew::HasRun { ran: Minor(3, 7), to: Minor(3, 6) }),
        Unsafe::DataTooNew(demo(), TooNew::Cluster { is: Minor(3, 7), to: Minor(3, 6) }),
        Unsafe::NoDowngrade(NoDowngrade::NotOrdered),
        Unsafe::NoDowngrade(NoDowngrade::NotUnderWay),
        Unsafe::NoDowngrade(NoDowngrade::AboutToRun(Minor(3, 6))),
        Unsafe::NoDowngrade(NoDowngrade::Impossible(Minor(3, 5))),
        Unsafe::NoDowngrade(NoDowngrade::Unfinished(Minor(3, 7))),
        Unsafe::Defragmenting(demo()),
        Unsafe::NoRoomToDefragment(demo()),
        Unsafe::BackupRuns("nightly-1".to_owned()),
        Unsafe::HistoryKept,
        Unsafe::OldMemberRuns(demo()),
        Unsafe::NotOrdered,
        Unsafe::NotQuarantined(demo()),
        Unsafe::BeingReplaced(demo()),
        Unsafe::QuorumAnswers,
        Unsafe::DataInMemory,
        Unsafe::NotRead(demo()),
    ])
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
