//! The modelled etcd on disks that hang or are full: what its members answer, and what they acknowledge.

use quorate_model::{Instant, MemberId, PeerUrl, Version};
use quorate_sim::etcd::{Disk, Etcd, Failed, Group, Launch, State};

const NOW: Instant = Instant(0);
const PLACES: [&str; 3] = ["m0", "m1", "m2"];

/// A cluster of three members that all run and have one write.
fn cluster() -> Etcd {
    let mut etcd = Etcd::default();
    let url = |place: &str| PeerUrl::new(format!("http://{place}:2380"));
    let peers: Vec<_> = PLACES.iter().map(|place| ((*place).to_owned(), url(place))).collect();
    for place in PLACES {
        let launch = Launch {
            name: place.to_owned(),
            url: url(place),
            peers: peers.clone(),
            new: true,
            token: "token".to_owned(),
            dir: place.to_owned(),
            version: Version::new(3, 6, 16),
        };
        etcd.launch(place, launch, NOW);
    }
    etcd.settle(NOW);
    assert!(write(&mut etcd), "all disks work");
    etcd
}

fn write(etcd: &mut Etcd) -> bool {
    let id = etcd.groups().next().expect("a cluster").id();
    let acknowledged = etcd.write(id, 1);
    etcd.settle(NOW);
    acknowledged
}

fn id(etcd: &Etcd, place: &str) -> MemberId {
    etcd.dir(place).expect("it has data").member
}

/// The places of the leader and of the others.
fn places(etcd: &Etcd) -> (&'static str, Vec<&'static str>) {
    let leader = etcd.groups().next().and_then(Group::leader).expect("a leader");
    let (leads, others): (Vec<_>, Vec<_>) = PLACES.into_iter().partition(|place| id(etcd, place) == leader);
    (leads[0], others)
}

/// Whether the proof of progress at the leader finds that this member stores what is committed.
fn is_proved(etcd: &mut Etcd, place: &str) -> bool {
    let (leader, _) = places(etcd);
    let index = etcd.prove(leader).expect("a quorum stores it");
    etcd.settle(NOW);
    etcd.status(place).expect("it answers").applied >= index
}

#[test]
fn a_member_whose_disk_hangs_follows_and_serves_linearizable_reads_until_an_entry_comes() {
    let mut etcd = cluster();
    let (leader, others) = places(&etcd);
    let before = etcd.status(others[0]).expect("it answers");
    etcd.set_disk(others[0], Disk::Hung);
    etcd.settle(NOW);
    assert!(etcd.member_list(others[0]).is_ok(), "on an idle cluster nothing shows that its disk hangs");
    assert!(write(&mut etcd), "the other two are a quorum");
    assert_eq!(etcd.member_list(others[0]).err(), Some(Failed::Unknown));
    let status = etcd.status(others[0]).expect("it answers Status");
    assert_eq!(status.leader, Some(id(&etcd, leader)), "it goes on following its leader");
    assert_eq!(status.errors, before.errors);
    for _ in 0..3 {
        assert!(write(&mut etcd));
    }
    assert_eq!(etcd.status(others[0]), Ok(status), "what it has applied stands still");
    // It does not count for commits.
    etcd.set_disk(others[1], Disk::Hung);
    assert!(!write(&mut etcd), "one disk of three is no quorum");
}

#[test]
fn the_proof_of_progress_fails_for_the_member_whose_disk_hangs_and_for_no_other() {
    let mut etcd = cluster();
    let (leader, others) = places(&etcd);
    assert!(PLACES.iter().all(|place| is_proved(&mut etcd, place)));
    etcd.set_disk(others[0], Disk::Hung);
    assert!(!is_proved(&mut etcd, others[0]));
    assert!(is_proved(&mut etcd, others[1]) && is_proved(&mut etcd, leader));
    etcd.set_disk(others[0], Disk::Works);
    etcd.settle(NOW);
    assert!(is_proved(&mut etcd, others[0]), "it catches up");
}

#[test]
fn a_member_whose_disk_hangs_may_have_applied_one_entry_that_it_does_not_store() {
    let mut etcd = cluster();
    let (leader, others) = places(&etcd);
    etcd.set_disk(others[0], Disk::Hung);
    etcd.alarm_list(leader).expect("a quorum stores it");
    let index = etcd.status(leader).expect("it answers").applied;
    assert_eq!(etcd.status(others[0]).expect("it answers").applied, index, "one AlarmList proves nothing");
    assert!(etcd.dir(others[0]).expect("it has data").stored.index() < index);
}

#[test]
fn a_leader_whose_disk_hangs_is_deposed_at_a_later_term_and_goes_on_saying_that_it_leads() {
    let mut etcd = cluster();
    let (former, _) = places(&etcd);
    etcd.set_disk(former, Disk::Hung);
    etcd.settle(NOW);
    assert_eq!(places(&etcd).0, former, "an idle leader leads on");
    assert!(!write(&mut etcd), "it acknowledges nothing");
    let (leader, others) = places(&etcd);
    assert_ne!(leader, former);
    assert_eq!(etcd.status(former).expect("it answers").leader, Some(id(&etcd, former)));
    assert!(
        others
            .iter()
            .filter(|place| **place != former)
            .all(|place| { etcd.status(place).is_ok_and(|status| status.leader == Some(id(&etcd, leader))) })
    );
    assert!(write(&mut etcd), "the others acknowledge");
    let writes = etcd.groups().next().expect("a cluster").writes().count();
    assert_eq!(writes, 3, "what the former leader sent was committed, and nobody acknowledged it");
    etcd.set_disk(former, Disk::Works);
    etcd.settle(NOW);
    assert!(is_proved(&mut etcd, former));
    assert_eq!(etcd.status(former).expect("it answers").leader, Some(id(&etcd, leader)));
}

#[test]
fn a_member_with_a_full_disk_ends_at_the_next_entry_and_starts_again_when_there_is_space() {
    let mut etcd = cluster();
    let (_, others) = places(&etcd);
    let full = others[0];
    etcd.set_disk(full, Disk::Full);
    etcd.settle(NOW);
    assert!(etcd.status(full).is_ok(), "nothing had to be stored yet");
    assert!(write(&mut etcd));
    let process = etcd.process(full).expect("it was started");
    assert!(matches!(&process.state, State::Ended(words) if words.contains("no space left")), "{process:?}");
    let launch = process.launch.clone();
    etcd.launch(full, launch.clone(), NOW);
    etcd.settle(NOW);
    assert!(etcd.status(full).is_err(), "it ends again");
    etcd.set_disk(full, Disk::Works);
    etcd.launch(full, launch, NOW);
    etcd.settle(NOW);
    assert!(is_proved(&mut etcd, full));
}

#[test]
fn a_process_that_starts_on_a_hung_disk_does_not_serve_before_the_disk_works() {
    let mut etcd = cluster();
    let (_, others) = places(&etcd);
    let launch = etcd.process(others[0]).expect("it was started").launch.clone();
    etcd.set_disk(others[0], Disk::Hung);
    etcd.launch(others[0], launch, NOW);
    etcd.settle(NOW);
    assert_eq!(etcd.status(others[0]).err(), Some(Failed::Unreachable));
    etcd.set_disk(others[0], Disk::Works);
    etcd.settle(NOW);
    assert!(etcd.status(others[0]).is_ok());
}

#[test]
fn while_leadership_moves_to_a_member_whose_disk_hangs_proposals_are_dropped_and_then_the_leader_stays() {
    let mut etcd = cluster();
    let (leader, others) = places(&etcd);
    etcd.set_disk(others[0], Disk::Hung);
    let hung = id(&etcd, others[0]);
    assert_eq!(etcd.move_leader(leader, hung, NOW), Err(Failed::Unknown));
    assert!(!write(&mut etcd), "proposals are dropped meanwhile");
    assert!(etcd.member_list(leader).is_ok(), "a linearizable read is no proposal");
    etcd.settle(Instant(1000));
    assert_eq!(places(&etcd).0, leader);
    assert!(write(&mut etcd), "after an election timeout the leader gives the transfer up");
    let other = id(&etcd, others[1]);
    assert_eq!(etcd.move_leader(leader, other, Instant(1000)), Ok(()));
    assert_eq!(places(&etcd).0, others[1]);
}
