//! The modelled etcd: alarms, auth, the cluster version, `--force-new-cluster`, data that are rolled back or wrong. And what the World
//! shows of a container that starts again without its guard.

use std::collections::BTreeSet;

use quorate_model::effect::DowngradeAction;
use quorate_model::{ClusterId, Instant, MemberId, Minor, PeerUrl, Refusal, Version};
use quorate_sim::etcd::{Alarm, AlarmKind, Disk, Etcd, Failed, Launch, State};
use quorate_sim::history::{History, plain};
use serde_json::json;

const NOW: Instant = Instant(0);
const LATER: Instant = Instant(10_000);
const PLACES: [&str; 3] = ["m0", "m1", "m2"];

fn launch(place: &str, scheme: &str, version: Version) -> Launch {
    let url = |place: &str| PeerUrl::new(format!("{scheme}://{place}:2380"));
    Launch {
        name: place.to_owned(),
        url: url(place),
        peers: PLACES.iter().map(|place| ((*place).to_owned(), url(place))).collect(),
        new: true,
        token: "token".to_owned(),
        dir: place.to_owned(),
        version,
    }
}

fn cluster_of(scheme: &str, version: Version) -> Etcd {
    let mut etcd = Etcd::default();
    for place in PLACES {
        etcd.launch(place, launch(place, scheme, version), NOW);
    }
    etcd.settle(NOW);
    assert!(write(&mut etcd), "all members serve");
    etcd
}

fn cluster() -> Etcd {
    cluster_of("http", Version::new(3, 6, 16))
}

fn cluster_id(etcd: &Etcd) -> ClusterId {
    etcd.groups().next().expect("a cluster").id()
}

fn write(etcd: &mut Etcd) -> bool {
    let acknowledged = etcd.write(cluster_id(etcd), 1);
    etcd.settle(LATER);
    acknowledged
}

fn id(etcd: &Etcd, place: &str) -> MemberId {
    etcd.dir(place).expect("it has data").member
}

fn ended_with(etcd: &Etcd, place: &str, words: &str) {
    let process = etcd.process(place).expect("it was started");
    assert!(matches!(&process.state, State::Ended(last) if last.contains(words)), "{process:?}");
}

#[test]
fn an_alarm_outlives_the_member_that_it_names_and_refuses_writes_and_no_change_of_membership() {
    let mut etcd = cluster();
    let (cluster, gone) = (cluster_id(&etcd), id(&etcd, "m2"));
    assert!(etcd.raise_alarm(cluster, Alarm { member: gone, kind: AlarmKind::NoSpace }));
    etcd.settle(LATER);
    assert!(!write(&mut etcd));
    assert!(etcd.prove("m0").is_ok(), "AlarmList is no write");
    assert_eq!(etcd.remove("m0", gone, LATER), Ok(()));
    etcd.settle(LATER);
    assert!(!write(&mut etcd), "the alarm stays without its member");
    assert!(etcd.disarm(cluster));
    assert!(write(&mut etcd));
}

#[test]
fn a_corrupt_alarm_without_a_member_is_an_error_of_every_member() {
    let mut etcd = cluster();
    let cluster = cluster_id(&etcd);
    assert!(etcd.raise_alarm(cluster, Alarm { member: MemberId(0), kind: AlarmKind::Corrupt }));
    etcd.settle(LATER);
    for place in PLACES {
        let status = etcd.status(place).expect("it answers");
        assert!(!status.errors.is_empty(), "{place}: {status:?}");
    }
}

#[test]
fn the_alarm_for_data_that_differ_names_their_member_where_a_quorum_agrees_and_nobody_otherwise() {
    let mut etcd = cluster();
    assert!(etcd.damage("m2"));
    etcd.settle(LATER);
    let alarms = |etcd: &Etcd| etcd.status("m0").expect("it answers").alarms;
    assert_eq!(alarms(&etcd), [Alarm { member: id(&etcd, "m2"), kind: AlarmKind::Corrupt }]);
    assert!(etcd.damage("m1"));
    etcd.settle(LATER);
    let status = etcd.status("m0").expect("it answers");
    assert_eq!(status.errors, ["alarm:CORRUPT"], "as etcd writes it");
    assert_eq!(status.alarms.len(), 1);
    assert!(!etcd.is_stored_by("m1") && !etcd.is_stored_by("m2") && etcd.is_stored_by("m0"));
    assert!(etcd.mend_data(&BTreeSet::new()) && etcd.is_stored_by("m1") && etcd.is_stored_by("m2"));
}

#[test]
fn a_voter_that_is_still_a_learner_to_raft_neither_counts_nor_leads_and_says_that_it_is_a_learner() {
    let mut etcd = cluster();
    assert!(etcd.forget_promotion("m1") && !etcd.forget_promotion("m1"));
    etcd.settle(LATER);
    let (_, conf) = etcd.member_list("m0").expect("it leads");
    assert!(conf.is_voter(id(&etcd, "m1")), "by the list it votes");
    assert!(etcd.status("m1").expect("it answers").is_learner && !etcd.is_ready("m1"));
    assert!(write(&mut etcd), "raft counts the other two");
    let to = id(&etcd, "m1");
    assert!(etcd.move_leader("m0", to, LATER).is_err());
    etcd.stop("m2");
    etcd.settle(Instant(30_000));
    assert!(!write(&mut etcd), "two of three run, and raft counts one of them");
}

#[test]
fn a_member_behind_a_partition_stays_ready() {
    let mut etcd = cluster();
    etcd.process_mut("m2").expect("it was started").cut = true;
    etcd.settle(LATER);
    assert!(etcd.status("m2").is_err() && etcd.is_ready("m2"), "its probe is beside it");
}

#[test]
fn a_member_that_stores_nothing_does_not_know_a_later_alarm() {
    let mut etcd = cluster();
    let (cluster, hung) = (cluster_id(&etcd), id(&etcd, "m2"));
    etcd.set_disk("m2", Disk::Hung);
    assert!(etcd.raise_alarm(cluster, Alarm { member: hung, kind: AlarmKind::Corrupt }));
    etcd.settle(LATER);
    assert_eq!(etcd.status("m2").expect("it answers").alarms, Vec::new());
    assert_eq!(etcd.status("m0").expect("it answers").alarms.len(), 1, "the others know it");
}

#[test]
fn with_auth_a_caller_without_a_name_is_refused_and_one_with_a_certificate_may_not_change_membership() {
    let refused = Some(Failed::Refused(Refusal::Other));
    for (scheme, has_name) in [("http", false), ("https", true)] {
        let mut etcd = cluster_of(scheme, Version::new(3, 6, 16));
        let (cluster, other) = (cluster_id(&etcd), id(&etcd, "m2"));
        assert!(etcd.set_auth(cluster, true));
        etcd.settle(LATER);
        assert_eq!(etcd.status("m0").is_ok(), has_name, "{scheme}");
        assert_eq!(etcd.member_list("m0").is_ok(), has_name, "{scheme}");
        assert_eq!(etcd.prove("m0").is_ok(), has_name, "{scheme}");
        assert_eq!(etcd.remove("m0", other, LATER).err(), refused);
        assert_eq!(etcd.add_learner("m0", &PeerUrl::new("http://m3:2380"), LATER).err(), refused);
        assert_eq!(etcd.promote("m0", other).err(), refused);
        assert_eq!(etcd.move_leader("m0", other, LATER).err(), refused);
        assert!(etcd.set_auth(cluster, false));
        assert!(etcd.status("m0").is_ok());
    }
    // Before 3.6.12 only root may ask for the status.
    let mut etcd = cluster_of("https", Version::new(3, 6, 11));
    let cluster = cluster_id(&etcd);
    assert!(etcd.set_auth(cluster, true));
    assert_eq!(etcd.status("m0").err(), refused);
}

#[test]
fn the_cluster_version_rises_with_the_last_member_and_no_older_binary_starts_from_then_on() {
    let mut etcd = cluster();
    let newer = Version::new(3, 7, 3);
    for place in ["m0", "m1"] {
        etcd.launch(place, launch(place, "http", newer), NOW);
        etcd.settle(LATER);
    }
    // One of them is still the old one: the others may go back.
    etcd.launch("m1", launch("m1", "http", Version::new(3, 6, 16)), NOW);
    etcd.settle(LATER);
    assert!(etcd.status("m1").is_ok());
    for place in ["m1", "m2"] {
        etcd.launch(place, launch(place, "http", newer), NOW);
        etcd.settle(LATER);
    }
    etcd.launch("m1", launch("m1", "http", Version::new(3, 6, 16)), NOW);
    etcd.settle(LATER);
    ended_with(&etcd, "m1", "cannot be downgraded");
}

#[test]
fn a_downgrade_lowers_the_cluster_version_while_all_binaries_are_new_and_ends_when_all_are_old() {
    let (newer, older, to) = (Version::new(3, 7, 3), Version::new(3, 6, 16), Minor(3, 6));
    let mut etcd = cluster_of("http", newer);
    assert_eq!(etcd.downgrade("m0", DowngradeAction::Cancel, to), Err(Failed::Refused(Refusal::Other)));
    assert_eq!(
        etcd.downgrade("m0", DowngradeAction::Enable, Minor(3, 5)),
        Err(Failed::Refused(Refusal::Other))
    );
    assert_eq!(etcd.downgrade("m0", DowngradeAction::Enable, to), Ok(()));
    etcd.settle(LATER);
    let status = etcd.status("m0").expect("it serves");
    assert_eq!((status.storage_version, status.downgrade), (Some(to), Some(to)));
    for place in PLACES {
        assert!(etcd.status("m2").expect("it serves").downgrade.is_some(), "not before the last one");
        etcd.launch(place, launch(place, "http", older), NOW);
        etcd.settle(LATER);
    }
    let status = etcd.status("m2").expect("it serves");
    assert_eq!((status.version, status.storage_version, status.downgrade), (older, Some(to), None));
    // A cancelled one is raised again by the leader, as long as all binaries are new.
    let mut etcd = cluster_of("http", newer);
    assert_eq!(etcd.downgrade("m0", DowngradeAction::Enable, to), Ok(()));
    etcd.settle(LATER);
    assert_eq!(etcd.downgrade("m0", DowngradeAction::Cancel, to), Ok(()));
    etcd.settle(LATER);
    assert_eq!(etcd.status("m0").expect("it serves").storage_version, Some(Minor(3, 7)));
}

#[test]
fn a_forced_new_cluster_keeps_the_cluster_id_and_has_one_member_with_what_it_had_stored() {
    let mut etcd = cluster();
    let cluster = cluster_id(&etcd);
    etcd.stop("m2");
    etcd.settle(LATER);
    assert!(write(&mut etcd), "m2 lacks this one");
    assert!(!etcd.force_new_cluster("m2"), "the others run");
    for place in ["m0", "m1"] {
        etcd.stop(place);
    }
    assert!(etcd.force_new_cluster("m2"));
    etcd.launch("m2", launch("m2", "http", Version::new(3, 6, 16)), NOW);
    etcd.settle(LATER);
    let group = etcd.group(cluster).expect("the same cluster id");
    assert_eq!((group.conf().members.len(), group.writes().count()), (1, 1));
    assert!(group.lost().is_empty(), "a person decided to lose it");
    assert!(write(&mut etcd));
    // The others are removed, and end when they hear of it.
    etcd.launch("m0", launch("m0", "http", Version::new(3, 6, 16)), NOW);
    etcd.settle(LATER);
    assert!(etcd.member_list("m0").is_err());
}

#[test]
fn a_member_whose_volume_was_rolled_back_ends_while_the_leader_remembers_what_it_had_stored() {
    let mut etcd = cluster();
    let leader = etcd.groups().next().and_then(quorate_sim::etcd::Group::leader).expect("a leader");
    let follower = PLACES.into_iter().find(|place| id(&etcd, place) != leader).expect("a follower");
    etcd.stop(follower);
    assert!(etcd.roll_back(follower, 1));
    etcd.launch(follower, launch(follower, "http", Version::new(3, 6, 16)), NOW);
    etcd.settle(LATER);
    ended_with(&etcd, follower, "tocommit is out of range");
}

#[test]
fn s07_a_member_of_one_whose_volume_is_emptied_between_two_starts_of_etcd_is_refused() {
    let trace = json!({
        "before": [plain(1)], "spec": plain(1), "wide": true,
        "departures": [{ "at": "rest", "what": { "fault": { "wipe-under": "demo-0" } } }],
    });
    let history: History = serde_json::from_value(trace).expect("a trace");
    let story = history.story();
    assert_eq!(story.violation(), None, "{story}");
    assert!(story.to_string().contains("the guard refuses its volume: DataMissing"), "{story}");
}
