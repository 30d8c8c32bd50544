//! The record is read back from status as it was written.

use std::collections::BTreeMap;

use proptest::prelude::*;
use quorate_api::EtcdClusterStatus;
use quorate_api::bootstrap::{RestoreSource, RestoreStatus};
use quorate_api::destination::{Destination, S3};
use quorate_manifests::record::{from_status, into_status};
use quorate_model::adoption::Earlier;
use quorate_model::auth::{AuthStage, ClientGrace};
use quorate_model::incarnation::{Incarnation, NextIncarnation, Order};
use quorate_model::quorum_recovery::{Chosen, Container, Log, QuorumRecovery, RecoverFrom};
use quorate_model::record::{
    Abandoned, Defragmenting, FailedLearners, Leaving, Loss, Member, Replaced, Replacement, ReplacementEnd,
    Stage, Suspicion, Turn,
};
use quorate_model::restore::Restore;
use quorate_model::rotation::{Rotation, RotationStage};
use quorate_model::target::{Medium, PodRevision, PodTemplate, Retention, Storage};
use quorate_model::{
    Ca, ClusterId, ClusterUid, Fingerprint, GuardVerdict, Instant, MemberId, MemberName, Minor, Ordinal,
    Record, Revision, Target, Token, Uid, Version,
};

fn text() -> impl Strategy<Value = String> {
    "[a-z0-9./:-]{1,12}"
}

fn retention() -> impl Strategy<Value = Retention> {
    prop_oneof![Just(Retention::Retain), Just(Retention::Delete)]
}

fn stage() -> impl Strategy<Value = Stage> {
    let leaving = [
        Leaving::Shrink,
        Leaving::RolledBack,
        Leaving::Lost,
        Leaving::Stray,
        Leaving::Removed,
        Leaving::Replaced,
    ];
    let stages =
        [Stage::Bootstrap, Stage::Joining, Stage::Voter].into_iter().chain(leaving.map(Stage::Leaving));
    prop::sample::select(stages.collect::<Vec<_>>())
}

fn member() -> impl Strategy<Value = Member> {
    let (id, volume, version) = (any::<Option<u64>>(), prop::option::of(text()), prop::option::of(version()));
    let since = 0..4_000_000_000_000_i64;
    (stage(), id, volume, version, since).prop_map(|(stage, id, volume, version, since)| Member {
        stage,
        id: id.map(MemberId),
        volume: volume.map(Uid::new),
        version,
        since: Instant(since),
    })
}

fn pod() -> impl Strategy<Value = PodTemplate> {
    (text(), any::<bool>(), text()).prop_map(|(revision, image_has_version, content)| PodTemplate {
        revision: PodRevision(revision),
        image_has_version,
        content,
        // Read from the content.
        quota: None,
        compacts: false,
    })
}

fn storage() -> impl Strategy<Value = Storage> {
    let medium = prop_oneof![Just(Medium::Disk), Just(Medium::Memory)];
    let mode = prop::sample::select(vec!["ReadWriteOnce", "ReadWriteOncePod"]);
    let bytes = || 0..u64::MAX >> 1;
    (medium, prop::option::of(text()), mode, bytes(), prop::option::of(bytes()), retention(), retention())
        .prop_map(|(medium, class, mode, bytes, limit_bytes, when_deleted, when_scaled)| Storage {
            medium,
            class,
            access_mode: mode.to_owned(),
            bytes,
            limit_bytes,
            when_deleted,
            when_scaled,
        })
}

fn version() -> impl Strategy<Value = Version> {
    any::<(u16, u16, u16)>().prop_map(|(major, minor, patch)| Version::new(major, minor, patch))
}

fn target() -> impl Strategy<Value = Target> {
    (0..10_usize, version(), pod(), storage(), any::<(bool, bool)>()).prop_map(
        |(size, version, pod, storage, (tls, auth))| Target { size, version, pod, storage, tls, auth },
    )
}

fn loss() -> impl Strategy<Value = Loss> {
    let lost = GuardVerdict::ALL.into_iter().filter(|verdict| verdict.is_loss()).map(Loss::Refused);
    let others = [
        Loss::VolumeGone,
        Loss::NodeGone,
        Loss::Inconsistent,
        Loss::Ordered,
        Loss::Memory,
        Loss::NeverStarted,
    ];
    prop::sample::select(lost.chain(others).collect::<Vec<_>>())
}

/// Of the last replacement status has the second.
fn recovery() -> impl Strategy<Value = (Option<Suspicion>, Option<Replacement>, Option<Replaced>)> {
    let (at, name) = (0..4_000_000_000_000_i64, || text().prop_map(MemberName::new));
    let ends = [ReplacementEnd::Succeeded, ReplacementEnd::Withdrawn];
    let end = prop::sample::select(ends.to_vec());
    (loss(), at, prop::option::of(text()), name(), end, any::<[bool; 4]>()).prop_map(
        |(loss, at, rechecked, member, end, [suspected, active, last, in_place])| {
            let since = Instant(at);
            let suspicion = Suspicion { loss, since, rechecked: rechecked.map(Uid::new) };
            let replaced = Replaced {
                member: member.clone(),
                end,
                message: format!("{member} was replaced"),
                at: Instant(at / 1000 * 1000),
            };
            (
                suspected.then_some(suspicion),
                active.then(|| Replacement { member: member.clone(), loss, since, in_place }),
                last.then_some(replaced),
            )
        },
    )
}

fn restore() -> Restore {
    let status = RestoreStatus {
        source: RestoreSource {
            destination: Destination {
                s3: Some(S3 { bucket: "b".to_owned(), ..S3::default() }),
                ..Destination::default()
            },
            key: "k".to_owned(),
            sha256: "5".repeat(64),
            version_id: Some("v1".to_owned()),
        },
        bump_revision: 7,
        etcd_version: Some("3.6.16".to_owned()),
        snapshot_bytes: Some(5),
        revision: Some(3),
        ..RestoreStatus::default()
    };
    Restore {
        content: serde_json::to_string(&RestoreStatus { bump_revision: 0, ..status }).unwrap(),
        url: "s3://b/k".to_owned(),
        version: Some(Version::new(3, 6, 16)),
        bytes: Some(5),
        revision: Some(Revision(3)),
        auth: None,
        bump: 7,
        floor: quorate_model::Revision(0),
    }
}

fn container(number: u32) -> Container {
    let pod = (number.is_multiple_of(2)).then(|| Uid::new(format!("uid-{number}")));
    let node = |of: u32| (number.is_multiple_of(of)).then(|| format!("n{number}"));
    Container { pod, node: node(5), served_on: node(3) }
}

fn log(number: u32) -> Log {
    Log {
        committed: number.into(),
        last_term: 4,
        last_index: u64::from(number) + 3,
        consistent: number.into(),
        term: 5,
        revision: Revision(number.into()),
        cluster_id: ClusterId(7),
        member_id: MemberId(number.into()),
    }
}

fn order() -> Order {
    Order::Restore { name: "back".to_owned(), uid: Uid::new("uid") }
}

fn rotation(since: u32) -> Rotation {
    let stages = [RotationStage::Trust, RotationStage::Sign, RotationStage::Drop];
    let ca = if since.is_multiple_of(2) { Ca::Clients } else { Ca::Peers };
    Rotation {
        ca,
        from: Fingerprint::new("a"),
        to: Fingerprint::new("b"),
        given: since.is_multiple_of(5),
        stage: stages[usize::try_from(since % 3).unwrap()],
        since: Instant(i64::from(since)),
        told: since.is_multiple_of(7).then(|| Instant(i64::from(since))),
    }
}

fn record() -> impl Strategy<Value = Record> {
    let abandoned = [Abandoned::VolumeLost, Abandoned::SpecEdited, Abandoned::VolumeEmptied];
    let abandoned = prop::option::of(prop::sample::select(abandoned.to_vec()));
    let members = prop::collection::btree_map(text().prop_map(MemberName::new), member(), 0..4);
    let token = (prop::option::of(text()), prop::option::of(text()), any::<bool>());
    let authority = (prop::option::of(text()), prop::option::of(text()));
    (
        1..9_u32,
        (token, authority),
        any::<Option<u64>>(),
        abandoned,
        any::<bool>(),
        any::<u32>(),
        prop::option::of(target()),
        (members, recovery()),
    )
        .prop_map(
            |(attempt, (token, authority), id, abandoned, hibernating, next, target, (members, recovery))| {
                let (suspicion, replacement, last_replacement) = recovery;
                let first = members.keys().next().cloned();
                Record {
                    quorum_recovery: next.is_multiple_of(3).then(|| QuorumRecovery {
                        from: if hibernating {
                            RecoverFrom::Auto
                        } else {
                            RecoverFrom::Member(MemberName::new("demo-0"))
                        },
                        since: Instant(i64::from(next)),
                        containers: members.keys().map(|member| (member.clone(), container(next))).collect(),
                        chosen: first
                            .clone()
                            .filter(|_| hibernating)
                            .map(|member| Chosen { member, log: log(next) }),
                    }),
                    last_quorum_recovery: hibernating.then_some(RecoverFrom::Auto),
                    suspected: first.into_iter().zip(suspicion).collect(),
                    replacement,
                    last_replacement,
                    attempt,
                    token: token.0.map(Token::new),
                    had_leader: token.2,
                    restore: token.2.then(restore),
                    earlier: hibernating.then(|| Earlier {
                        cluster_id: ClusterId(7),
                        voters: vec![MemberName::new("demo-0")],
                        had_volumes: token.2,
                    }),
                    adopted_by: token.1.map(ClusterUid::new),
                    taken_back: hibernating,
                    cluster_id: id.map(ClusterId),
                    authority: authority.0.map(Fingerprint::new),
                    peer_authority: authority.1.map(Fingerprint::new),
                    certificates: (0..next % 3)
                        .map(|own| (Fingerprint::new(own.to_string()), "PEM".to_owned()))
                        .collect(),
                    given: attempt % 2 == 1,
                    rotation: token.2.then(|| rotation(next)),
                    spent_rotation: hibernating.then(|| "peers/again".to_owned()),
                    trust: attempt,
                    auth: token.2.then_some(if hibernating { AuthStage::On } else { AuthStage::Preparing }),
                    client_grace: hibernating.then_some(ClientGrace::Since(Instant(1_790_000_000_000))),
                    spent_disable_auth: hibernating.then_some(ClusterId(9)),
                    abandoned,
                    hibernating,
                    stopped_at: hibernating.then(|| Revision(i64::from(next))),
                    next_ordinal: Ordinal(next),
                    target,
                    failed_learners: (attempt > 4).then(|| FailedLearners {
                        count: attempt,
                        reason: "demo-3 did not get in sync".to_owned(),
                        at: Instant(i64::from(next)),
                    }),
                    no_image_volume: hibernating
                        .then(|| "Pod demo-0: its volumes are not mounted".to_owned()),
                    members,
                    differ_since: (attempt > 1).then(|| Instant(i64::from(next))),
                    downgrading_to: (next > 7).then_some(Minor(3, 6)),
                    takes_defaults: hibernating
                        .then(|| Turn { since: Instant(i64::from(next)), restarted: attempt }),
                    defragmenting: token.2.then(|| Defragmenting {
                        member: MemberName::new("demo-1"),
                        pod: Uid::new("pod"),
                        restarts: attempt,
                        since: Instant(i64::from(next)),
                    }),
                    incarnation: (attempt > 2).then(|| Incarnation {
                        number: attempt,
                        first: Ordinal(next),
                        order: order(),
                        replaced: ClusterId(7),
                        members: hibernating.then_some(1),
                    }),
                    next_incarnation: (attempt > 6).then(|| NextIncarnation {
                        order: order(),
                        replaces: ClusterId(8),
                        restore: restore(),
                        members: hibernating.then_some(1),
                        stopped: token.2,
                        since: Instant(i64::from(next)),
                    }),
                }
            },
        )
}

proptest! {
    #[test]
    fn a_record_is_read_back_the_same(record in record()) {
        let mut status = EtcdClusterStatus::default();
        into_status(&record, &mut status);
        let kept = serde_json::to_string(&status).unwrap();
        let read: EtcdClusterStatus = serde_json::from_str(&kept).unwrap();
        prop_assert_eq!(from_status(&read), record);
    }
}

#[test]
fn an_empty_status_is_an_empty_record_and_back() {
    assert_eq!(from_status(&EtcdClusterStatus::default()), Record::default());
    let mut status = EtcdClusterStatus::default();
    into_status(&Record::default(), &mut status);
    assert_eq!(status, EtcdClusterStatus::default());
    assert_eq!(Record::default().members, BTreeMap::new());
}
