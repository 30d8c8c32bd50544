//! Rules whose need one history shows: every part of R15, the proof before an act, and L3. The oracle judges by etcd's log and the
//! disks.
//!
//! Before each disruption the operator proves progress (`NotProven`), and a member that follows no leader, or another one, fails
//! that proof, as does one that has not applied what was committed before. So what the leader and the index protect by themselves is
//! the time between two proofs: without them the budget admits a drain that takes the quorum away.

use quorate_planner::safety::mutants::without;
use quorate_sim::history::{History, plain};
use quorate_sim::oracle::Property;
use serde_json::{Value, json};

/// A history that violates a property without one rule, and none with it.
pub struct Named {
    pub rule: &'static str,
    violates: Property,
    history: History,
}

#[test]
fn without_one_of_these_rules_a_named_history_violates_its_property() {
    for Named { rule, violates, history } in all() {
        let story = history.story();
        assert_eq!(story.violation(), None, "with {rule}:\n{story}");
        assert!(story.all_came_about(), "with {rule}:\n{story}");
        let story = without(rule, || history.story());
        let Some(violation) = story.violation() else { panic!("{rule} is not needed:\n{story}") };
        println!("without {rule}: {violation}");
        assert_eq!(violation.property, violates, "without {rule}:\n{story}");
    }
}

pub fn all() -> Vec<Named> {
    let of = |fault: &str, member: &str| json!({ "fault": { fault: member } });
    let for_good = |fault: &str, member: &str| json!({ "fault": { "stays": { fault: member } } });
    let write = || json!({ "fault": "client-writes" });
    let takes_quorum = |rule, sizes, then| named(rule, Property::QuorumStays, sizes, then);
    vec![
        // The other follower is removed while the Pod of this one is being deleted.
        takes_quorum("R15 terminating", [3, 2], json!([[0, of("delete-pod", "demo-1")]])),
        // The Pod of a member behind a partition stays ready, and a drain takes the other follower.
        takes_quorum("R15 answers", [3, 3], json!([[0, of("cut", "demo-1")], ["+2", of("drain", "demo-2")]])),
        // The leader hangs and goes on naming itself, and a drain takes one of the two that elected another.
        takes_quorum(
            "R15 leader",
            [3, 3],
            json!([[0, for_good("hang-disk", "demo-0")], ["+1", write()], ["+3", of("drain", "demo-2")]]),
        ),
        // A follower hangs, clients write, and a drain takes the other one.
        takes_quorum(
            "R15 index",
            [3, 3],
            json!([
                [0, for_good("hang-disk", "demo-1")],
                ["+0", write()],
                ["+0", write()],
                ["+3", of("drain", "demo-2")],
            ]),
        ),
        // A volume that is mounted empty for a moment has its data.
        named("P grace", Property::OnlyTheLostAreReplaced, [3, 3], json!([[0, of("empty-mount", "demo-1")]])),
        // Nobody writes, so that nothing but a proof shows that a follower hangs while the clients of the other one, which is removed,
        // leave.
        takes_quorum("R15 proof", [3, 2], json!([["after:K2", of("hang-disk", "demo-1")]])),
        takes_quorum("NotProven", [3, 2], json!([["after:K2", of("hang-disk", "demo-1")]])),
        // The data of a follower differ from the log, and the Pod of the other one is restarted.
        of_restarts("R15 alarm", 3, "demo-1"),
        // Two members differ, nobody knows which one is right, and the Pod of the right one is restarted.
        of_restarts("R15 errors", 2, "demo-0"),
        // Each member runs another version, so that none is compared, and one with the right data is removed.
        takes_quorum(
            "DataUndecided",
            [3, 2],
            json!([
                [0, { "fault": { "other-patch": ["demo-1", "next"] } }],
                ["+0", { "fault": { "other-patch": ["demo-2", "before"] } }],
                ["+0", of("damage", "demo-0")],
            ]),
        ),
        // A member is added while one of three runs the newer version.
        of_versions(
            "VersionsMixed",
            Property::MembershipStaysWhileMixed,
            3,
            json!([["after:W1#1", { "fault": { "rogue": "add" } }]]),
        ),
        // The peers of a member do not reach it, and clients are sent there for as long as that lasts.
        named("R24", Property::ClientsAreServed, [3, 3], json!([[0, for_good("cut-from-peers", "demo-1")]])),
        // A clock is set in the moment before a pass, and nothing has been heard of the API server since.
        named(
            "R23",
            Property::TimeIsTrue,
            [3, 3],
            json!([
                [0, of("removed-by-hand", "demo-2")],
                ["rest", { "fault": { "clock-set": ["operator", 8 * 86_400] } }],
            ]),
        ),
        in_turn(),
        // Another operator has made the connection Secret of this EtcdCluster, and it is written over.
        of_other_operator("R25", "demo-connection"),
        // Somebody has put an authority of peers there, by which they could write the log.
        of_other_operator("R19 of data", "demo-peer-ca"),
        // A tenant names an issuer of the whole Kubernetes that the operator does not allow.
        of_refused_issuer(),
        // An edit whose Pods a policy denies.
        of_denied_pods(),
        // The record loses the cluster ID while a restore in place is ordered, and new members begin beside the old ones.
        named(
            "R22",
            Property::OneClusterId,
            [3, 3],
            json!([
                [0, { "edit": { "etcdRestore": "back" } }],
                [0, { "fault": { "spoil-status": "clusterID" } }],
            ]),
        ),
        // A storage snapshot of before the last write takes the place of every volume of a cluster that sleeps.
        of_data_that_went_back(),
        // A member that serves is removed at once.
        named("StillServes", Property::ClientsAreServed, [3, 2], json!([])),
        // A promoted member is never heard, and the scale-in that would remove it does not begin.
        named("L3", Property::GoalIsReached, [3, 4], json!([["after:G6", for_good("cut", "demo-3")]])),
    ]
}

fn of_data_that_went_back() -> Named {
    let went_back = json!([[0, { "fault": { "went-back": "" } }]]);
    let mut named = named("Z3", Property::DataDoNotGoBack, [3, 3], went_back);
    named.history.before.push(plain(0));
    named
}

fn of_denied_pods() -> Named {
    let denied = json!([[0, { "fault": { "refuse": ["Pod", ""] } }]]);
    let mut named = named("NotAdmitted", Property::SuccessorsAreAdmitted, [3, 3], denied);
    named.history.spec["podTemplate"] = json!({ "metadata": { "labels": { "a": "b" } } });
    named
}

fn of_other_operator(rule: &'static str, object: &str) -> Named {
    let strikes = json!([[0, { "fault": { "other-operator": object } }]]);
    let mut named = named(rule, Property::OnlyOwnedObjectsChange, [3, 3], strikes);
    named.history.before = Vec::new();
    named.history.spec["tls"] = json!({ "provider": "auto" });
    named
}

fn of_refused_issuer() -> Named {
    let tls = json!({ "provider": "cert-manager", "providerCfg": { "certManagerCfg": {
        "issuerKind": "ClusterIssuer", "issuerName": "company",
    } } });
    let edit = json!([[0, { "edit": { "certManager": { "ca": 71 }, "tls": tls } }]]);
    let mut named = named("R26", Property::NothingOfRefusedSpecs, [3, 3], edit);
    for spec in [&mut named.history.before[0], &mut named.history.spec] {
        spec["tls"] = json!({ "provider": "auto" });
    }
    named
}

/// All members make their hashes at the same time, and none serves.
fn in_turn() -> Named {
    let damage = json!([[0, { "fault": { "stays": { "damage": "demo-1" } } }]]);
    let mut named = named("P in turn", Property::ClientsAreServed, [3, 3], damage);
    named.history.hash_takes = 20;
    named
}

/// A history in which the Pods are restarted one after another, and the data of a member differ.
fn of_restarts(rule: &'static str, size: u32, wrong: &str) -> Named {
    let damage = json!([[0, { "fault": { "damage": wrong } }]]);
    let mut named = named(rule, Property::QuorumStays, [size, size], damage);
    named.history.spec["podTemplate"] = json!({ "metadata": { "labels": { "a": "b" } } });
    named
}

/// A history of an upgrade.
fn of_versions(rule: &'static str, violates: Property, size: u32, departures: Value) -> Named {
    let mut named = named(rule, violates, [size, size], departures);
    named.history.spec["version"] = json!("3.7.3");
    named
}

/// A history from one size to another, with departures as pairs of a moment and what happens then. A person follows the runbook.
fn named(rule: &'static str, violates: Property, [from, to]: [u32; 2], departures: Value) -> Named {
    let departures: Vec<(Value, Value)> = serde_json::from_value(departures).expect("pairs");
    let departures: Vec<Value> =
        departures.into_iter().map(|(at, what)| json!({ "at": at, "what": what })).collect();
    let history =
        json!({ "before": [plain(from)], "spec": plain(to), "departures": departures, "wide": true });
    Named { rule, violates, history: serde_json::from_value(history).expect("a history") }
}
