//! The order of a pass, and what follows from each class of reply.

mod driver;

use driver::{Driver, OTHER_UID, OWN_UID, cluster, cluster_with, owned_by, parsed_volume, pod};
use quorate_api::Reason;
use quorate_manifests::{Act, Kind, Write};
use quorate_model::effect::{AuthorityPlace, Boot, EtcdCall, KubeEffect};
use quorate_model::{
    AppliedObject, Ca, ClockDifference, Effect, Fingerprint, Leaf, MemberId, MemberName, ObservedObject,
    PeerUrl, Refusal, Span, Step, Uid,
};
use quorate_reconcile::{
    CallError, Command, Event, Object, PassEnd, Purpose, Reply, Retry, Stop, Task, UNCONFIRMED_AFTER,
    WriteError,
};
use serde_json::json;

fn peer_service() -> Effect {
    Effect::kube(Step::B2, KubeEffect::Apply(AppliedObject::PeerService))
}

fn create_authority() -> Effect {
    Effect::kube(
        Step::B2,
        KubeEffect::CreateAuthority { ca: Ca::Clients, place: AuthorityPlace::Signer, given: None },
    )
}

fn client_service() -> Effect {
    Effect::kube(Step::B7, KubeEffect::Apply(AppliedObject::ClientService))
}

fn budget() -> Effect {
    Effect::kube(Step::K1, KubeEffect::Apply(AppliedObject::Budget { min_available: 2, excludes: None }))
}

fn volume(n: usize) -> Effect {
    Effect::kube(Step::B3, KubeEffect::CreateVolume { member: MemberName::new(format!("demo-{n}")) })
}

fn delete_pod() -> Effect {
    let (member, pod) = (MemberName::new("demo-0"), Uid::new("pod"));
    Effect::kube(Step::U5, KubeEffect::DeletePod { member, pod, resource_version: "7".to_owned() })
}

fn promote() -> Effect {
    let call = EtcdCall::Promote { member: MemberName::new("demo-1"), id: MemberId(1) };
    Effect::etcd(Step::G6, MemberName::new("demo-0"), call)
}

fn restart(n: usize) -> Effect {
    let member = MemberName::new(format!("demo-{n}"));
    Effect::kube(Step::W1, KubeEffect::CreatePod { member, boot: Boot::Resume, peers: Vec::new() })
}

fn remove() -> Effect {
    let member = MemberName::new("demo-2");
    let peer_url = PeerUrl::new("http://demo-2.demo.default.svc:2380");
    let call = EtcdCall::RemoveMember { member, id: MemberId(2), peer_url };
    Effect::etcd(Step::S3, MemberName::new("demo-0"), call)
}

fn changed() -> WriteError {
    WriteError::Changed("the object has been modified".to_owned())
}

fn lost() -> WriteError {
    WriteError::Unknown("no answer".to_owned())
}

fn missing() -> WriteError {
    WriteError::Missing("pods \"demo-0\" not found".to_owned())
}

fn stopped(retry: Retry) -> PassEnd {
    PassEnd::Stopped(Stop { retry, failure: None })
}

#[test]
fn the_record_is_written_before_any_effect() {
    let mut driver = Driver::planning(vec![volume(0)]);
    let record = driver.only();
    assert_eq!(record.purpose, Purpose::Record);
    assert!(matches!(&record.task, Task::Write(write) if matches!(write.act, Act::PatchStatus(_))));
    assert_eq!(driver.next(), None, "no effect before the reply");
    let stored = driver.stored(&record, 8);
    assert_eq!(driver.writes(&record, Ok(Some(stored))), Some(Event::Recorded(Ok(()))));
    assert_eq!(driver.only().purpose, Purpose::Effect(0));
}

#[test]
fn no_effect_is_carried_out_if_status_was_not_written() {
    for error in [lost(), WriteError::NotLeading, WriteError::Forbidden("no".to_owned()), missing()] {
        let mut driver = Driver::planning(vec![volume(0)]);
        let record = driver.only();
        assert_eq!(driver.writes(&record, Err(error.clone())), Some(Event::Recorded(Err(error.clone()))));
        assert_eq!(driver.next(), None);
        assert_eq!(driver.end(), &PassEnd::StatusNotWritten { error, failure: None });
    }
}

/// The status that a command writes, as a CustomResourceDefinition stores it that lacks `bootstrap` and `members`.
fn pruned(command: &Command, version: u64) -> Object {
    let Task::Write(Write { act: Act::PatchStatus(patch), .. }) = &command.task else {
        panic!("{command:?}")
    };
    let mut status = patch["status"].clone();
    for field in ["bootstrap", "members"] {
        status.as_object_mut().unwrap().remove(field);
    }
    cluster_with(version, &status)
}

fn reason(driver: &Driver) -> String {
    let status = driver.status();
    let progressing = status.conditions.iter().find(|condition| condition.type_ == "Progressing");
    progressing.map(|condition| condition.reason.clone()).unwrap_or_default()
}

#[test]
fn l01_nothing_is_begun_by_a_record_that_the_api_server_stored_in_part() {
    let mut driver = Driver::planning(vec![volume(0)]);
    let record = driver.only();
    let stored = pruned(&record, 8);
    assert!(matches!(driver.writes(&record, Ok(Some(stored))), Some(Event::Recorded(Err(_)))));
    assert_eq!(driver.next(), None, "no effect");
    assert_eq!(driver.end(), &stopped(Retry::Degraded));

    driver.next_pass(Vec::new());
    let report = driver.only();
    let reported = driver.stored(&report, 10);
    driver.writes(&report, Ok(Some(reported)));
    assert_eq!((driver.end(), &*reason(&driver)), (&PassEnd::Done, Reason::RecordIncomplete.as_str()));
    driver.next_pass(Vec::new());
    assert_eq!(driver.next(), None, "nothing has changed, so nothing is written");
}

#[test]
fn a_status_that_another_writer_changed_is_read_for_the_next_pass() {
    let mut driver = Driver::planning(vec![volume(0)]);
    let record = driver.only();
    assert_eq!(driver.writes(&record, Err(changed())), None);
    let read = driver.only();
    assert_eq!(read.task, Task::Read { kind: Kind::Cluster, name: "demo".to_owned() });
    assert_eq!(driver.reads(&read, Ok(Some(cluster(9)))), Some(Event::Recorded(Err(changed()))));
    assert_eq!(driver.end(), &PassEnd::StatusNotWritten { error: changed(), failure: None });
    assert_eq!(driver.observed_version(), "9");
}

#[test]
fn effects_of_a_group_are_issued_together_and_their_replies_come_in_any_order() {
    let mut driver = Driver::acting(vec![volume(0), volume(1), volume(2), delete_pod()]);
    let issued = driver.all();
    assert_eq!(issued.len(), 3, "the delete waits for the group before it");
    for command in issued.iter().rev() {
        assert_eq!(driver.next(), None);
        assert!(matches!(
            driver.writes(command, Ok(Some(driver::volume(OWN_UID)))),
            Some(Event::Effect(_, Ok(())))
        ));
    }
    assert_eq!(driver.only().purpose, Purpose::Effect(3));
}

#[test]
fn the_first_failure_of_a_group_ends_the_pass_when_the_group_is_done() {
    let mut driver = Driver::acting(vec![volume(0), volume(1), volume(2), delete_pod()]);
    let issued = driver.all();
    driver.writes(&issued[2], Err(WriteError::NotLeading));
    driver.writes(&issued[1], Err(WriteError::Forbidden("by a quota".to_owned())));
    driver.writes(&issued[0], Ok(Some(driver::volume(OWN_UID))));
    let report = driver.only();
    assert_eq!(report.purpose, Purpose::Report);
    let Task::Write(write) = &report.task else { panic!("{report:?}") };
    assert!(
        format!("{:?}", write.act).contains("cannot create PersistentVolumeClaim default/demo-1: by a quota")
    );
    let reported = driver.stored(&report, 9);
    driver.writes(&report, Ok(Some(reported)));
    assert!(matches!(driver.end(), PassEnd::Stopped(Stop { retry: Retry::Failed, failure: Some(_) })));
    // Status reports it until a pass has carried out its whole plan.
    assert!(driver.memory.failure().is_some());
    driver.next_pass(Vec::new());
    let record = driver.only();
    assert_eq!(record.purpose, Purpose::Record);
    let recorded = driver.stored(&record, 10);
    driver.writes(&record, Ok(Some(recorded)));
    assert_eq!((driver.end(), driver.memory.failure()), (&PassEnd::Done, None));
}

#[test]
fn a_failed_best_effort_effect_is_reported_and_the_other_effects_are_carried_out() {
    let mut driver = Driver::acting(vec![budget(), promote()]);
    let budget = driver.only();
    driver.writes(&budget, Err(WriteError::Invalid("no".to_owned())));
    let promote = driver.only();
    assert_eq!(promote.purpose, Purpose::Effect(1));
    driver.replies(&promote, Reply::Called(Ok(())));
    let report = driver.only();
    assert_eq!(report.purpose, Purpose::Report);
    driver.writes(&report, Err(lost()));
    let PassEnd::StatusNotWritten { error, failure: Some(failure) } = driver.end() else {
        panic!("{:?}", driver.end())
    };
    assert_eq!((error, failure.reason()), (&lost(), Reason::WriteRefused));
}

#[test]
fn l01_a_restart_that_is_refused_does_not_keep_a_removal_from_being_sent() {
    let mut driver = Driver::acting(vec![restart(1), restart(3), remove()]);
    let restarts = driver.all();
    assert_eq!(restarts.len(), 2);
    driver.writes(&restarts[0], Err(WriteError::Forbidden("denied by a policy".to_owned())));
    driver.writes(&restarts[1], Ok(Some(pod("another", 9))));
    let remove = driver.only();
    assert!(matches!(remove.task, Task::Call { .. }), "{remove:?}");
    driver.replies(&remove, Reply::Called(Ok(())));
    let report = driver.only();
    assert_eq!(report.purpose, Purpose::Report);
    let failure = driver.memory.failure().unwrap();
    assert_eq!(failure.reason(), Reason::WriteRefused);
    assert!(failure.message().contains("create Pod default/demo-1"), "{}", failure.message());
}

#[test]
fn h45_a_lost_reply_is_not_taken_for_done() {
    let mut driver = Driver::acting(vec![promote(), delete_pod()]);
    let call = driver.only();
    assert!(matches!(&call.task, Task::Call { at, .. } if at.as_str() == "demo-0"));
    let lost = CallError::Unknown("no answer".to_owned());
    assert!(matches!(driver.replies(&call, Reply::Called(Err(lost))), Some(Event::Effect(0, Err(_)))));
    assert_eq!((driver.next(), driver.end()), (None, &stopped(Retry::Soon)));
}

#[test]
fn h16_a_temporary_refusal_is_retried_without_a_report() {
    let mut driver = Driver::acting(vec![promote(), delete_pod()]);
    let call = driver.only();
    let refused = CallError::Refused(Refusal::UnhealthyCluster, "unhealthy cluster".to_owned());
    driver.replies(&call, Reply::Called(Err(refused)));
    assert_eq!((driver.next(), driver.end()), (None, &stopped(Retry::Refused)));
}

#[test]
fn a_permanent_refusal_of_etcd_is_reported() {
    let mut driver = Driver::acting(vec![promote()]);
    let call = driver.only();
    let refused = CallError::Refused(Refusal::PermissionDenied, "permission denied".to_owned());
    driver.replies(&call, Reply::Called(Err(refused)));
    assert_eq!(driver.only().purpose, Purpose::Report);
    let failure = driver.memory.failure().unwrap();
    assert!(failure.message().contains("refused: permission denied"), "{}", failure.message());
}

#[test]
fn a_create_whose_object_exists_and_is_owned_by_the_cluster_is_done() {
    let mut driver = Driver::acting(vec![peer_service()]);
    let create = driver.only();
    driver.writes(&create, Err(WriteError::Exists));
    let read = driver.only();
    driver.reads(&read, Ok(Some(owned_by(Kind::Service, "demo", OWN_UID))));
    assert_eq!(driver.end(), &PassEnd::Done);
}

#[test]
fn an_object_with_the_name_of_one_that_is_needed_is_read_in_every_pass_until_it_is_gone() {
    let mut driver = Driver::acting(vec![peer_service()]);
    let meet = |driver: &mut Driver| {
        let create = driver.only();
        driver.writes(&create, Err(WriteError::Exists));
        let read = driver.only();
        driver.reads(&read, Ok(Some(owned_by(Kind::Service, "demo", OTHER_UID))));
        driver.end().clone()
    };
    assert_eq!(meet(&mut driver), stopped(Retry::Now), "the planner is to observe it at once");
    driver.conflicts = vec![Some(owned_by(Kind::Service, "demo", OTHER_UID))];
    driver.next_pass(vec![peer_service()]);
    assert_eq!(driver.foreign(), ["Service default/demo (EtcdCluster demo controls it)"]);
    driver.record();
    assert_eq!(meet(&mut driver), stopped(Retry::Degraded), "the planner knows the conflict already");
    driver.conflicts = vec![None];
    driver.next_pass(Vec::new());
    assert_eq!((driver.foreign().len(), driver.memory.conflicts().count()), (0, 0));
}

#[test]
fn a_volume_of_an_earlier_incarnation_is_neither_done_nor_a_conflict() {
    let mut driver = Driver::acting(vec![volume(0)]);
    let create = driver.only();
    driver.writes(&create, Err(WriteError::Exists));
    let read = driver.only();
    driver.reads(&read, Ok(Some(driver::volume(OTHER_UID))));
    assert_eq!((driver.end(), driver.memory.conflicts().count()), (&stopped(Retry::Soon), 0));
}

#[test]
fn an_incomplete_secret_of_the_cluster_is_reported() {
    let mut driver = Driver::acting(vec![create_authority()]);
    let authority = driver.generate_keys();
    driver.writes(&authority, Err(WriteError::Exists));
    let read = driver.only();
    driver.reads(&read, Ok(Some(owned_by(Kind::Secret, "demo-ca", OWN_UID))));
    let failure = driver.memory.failure().unwrap();
    assert!(failure.message().contains("Secret default/demo-ca lacks one of"), "{}", failure.message());
}

#[test]
fn an_object_that_changed_is_read_and_the_pass_ends() {
    let mut driver = Driver::acting(vec![delete_pod()]);
    let delete = driver.only();
    driver.writes(&delete, Err(changed()));
    let read = driver.only();
    assert_eq!(driver.reads(&read, Ok(Some(pod("pod", 9)))), Some(Event::Effect(0, Err(changed().into()))));
    assert_eq!(driver.end(), &stopped(Retry::Soon));
    assert_eq!(driver.view().pods["demo-0"].metadata.resource_version.as_deref(), Some("9"));
}

#[test]
fn a_delete_with_reply_404_is_done_only_if_the_object_does_not_exist() {
    let outcomes = [
        (Ok(None), true),
        (Ok(Some(pod("another", 9))), true),
        // A proxy that does not know the path also replies 404.
        (Ok(Some(pod("pod", 7))), false),
        (Err(lost()), false),
    ];
    for (read, done) in outcomes {
        let mut driver = Driver::acting(vec![delete_pod()]);
        driver.caches.pods.insert(driver::parsed_pod("pod", 7));
        let delete = driver.only();
        driver.writes(&delete, Err(missing()));
        let command = driver.only();
        driver.reads(&command, read.clone());
        if let Some(report) = driver.next() {
            driver.writes(&report, Ok(Some(cluster(9))));
        }
        assert_eq!(*driver.end() == PassEnd::Done, done, "{read:?}");
        assert_eq!(driver.view().pods.is_empty(), done, "{read:?}");
    }
}

#[test]
fn a_deleted_object_exists_until_its_grace_period_ends() {
    let mut driver = Driver::acting(vec![delete_pod()]);
    let delete = driver.only();
    let metadata = json!({
        "name": "demo-0", "uid": "pod", "resourceVersion": "8",
        "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30,
    });
    let left = driver::object(Kind::Pod, &json!({ "metadata": metadata }));
    driver.writes(&delete, Ok(Some(left)));
    assert_eq!((driver.end(), driver.view().pods.len()), (&PassEnd::Done, 1));
}

#[test]
fn s03_an_authority_that_another_operator_created_meanwhile_is_used_and_not_replaced() {
    let mut driver = Driver::acting(vec![create_authority()]);
    let authority = driver.generate_keys();
    assert!(matches!(&authority.task, Task::Write(write) if write.name == "demo-ca"));
    driver.writes(&authority, Err(WriteError::Exists));
    let read = driver.only();
    driver.reads(&read, Ok(Some(driver::secret("demo-ca", "first"))));
    assert_eq!(driver.end(), &PassEnd::Done);
    assert_eq!(driver.view().secrets["demo-ca"].data.as_ref().unwrap()["tls.crt"].0, b"first");
}

#[test]
fn leaves_are_issued_in_parallel_and_one_that_exists_already_counts_as_done() {
    let issue = |leaf| Effect::kube(Step::I2, KubeEffect::IssueLeaf { leaf, by: Fingerprint::new("ca") });
    let mut driver = Driver::acting(Leaf::of_cluster(false).map(issue).collect());
    let generate = driver.all();
    assert_eq!(generate.len(), 3, "in parallel");
    let mut names = Vec::new();
    for leaf in generate.iter().rev() {
        let create = driver.reply_with_keys(leaf);
        let Task::Write(write) = &create.task else { panic!("{create:?}") };
        names.push(write.name.clone());
        driver.writes(&create, Err(WriteError::Exists));
        let read = driver.only();
        driver.reads(&read, Ok(Some(driver::secret(&write.name, "leaf"))));
    }
    names.sort();
    assert_eq!(names, ["demo-client-tls", "demo-peer-tls", "demo-server-tls"]);
    assert_eq!(driver.end(), &PassEnd::Done);
}

#[test]
fn s04_a_leaf_that_changed_meanwhile_is_not_overwritten_and_keys_that_cannot_be_made_are_reported() {
    let renew = || {
        let (by, observed) = (Fingerprint::new("ca"), ObservedObject::new("uid of demo-peer-tls", "5"));
        Effect::kube(Step::I3, KubeEffect::RenewLeaf { leaf: Leaf::Peer, by, observed })
    };
    let mut driver = Driver::acting(vec![renew()]);
    let patch = driver.generate_keys();
    let Task::Write(Write { act: Act::Patch(body), .. }) = &patch.task else { panic!("{patch:?}") };
    assert_eq!(body["metadata"]["uid"], "uid of demo-peer-tls");
    assert_eq!(body["metadata"]["resourceVersion"], "5");
    driver.writes(&patch, Err(changed()));
    let read = driver.only();
    driver.reads(&read, Ok(Some(driver::secret("demo-peer-tls", "other"))));
    assert!(matches!(driver.end(), PassEnd::Stopped(_)));

    let mut driver = Driver::acting(vec![renew()]);
    let generate = driver.only();
    driver.replies(&generate, Reply::Keys(Err("the authority cannot be used".to_owned())));
    let failure = driver.memory.failure().unwrap();
    assert!(failure.message().contains("Secret default/demo-peer-tls"), "{}", failure.message());
}

#[test]
fn an_object_whose_write_no_watch_confirmed_is_read_at_the_start_of_a_pass() {
    let mut driver = Driver::acting(vec![client_service()]);
    let create = driver.only();
    driver.writes(&create, Ok(Some(owned_by(Kind::Service, "demo-client", OWN_UID))));
    assert_eq!(driver.end(), &PassEnd::Done);
    driver.now = driver.now + UNCONFIRMED_AFTER;
    let read = driver.first_command_of_the_next_pass();
    // The cluster, whose record was written, comes first.
    assert_eq!(read.task, Task::Read { kind: Kind::Cluster, name: "demo".to_owned() });
    let service = driver.only();
    assert_eq!(service.task, Task::Read { kind: Kind::Service, name: "demo-client".to_owned() });
}

/// What the caches say of a claim may be from before somebody deleted it, and its data would go with the Pod.
#[test]
fn m01_no_pod_is_ended_while_its_claim_cannot_be_read_from_the_api_server() {
    let mut driver = Driver::planning(Vec::new());
    let mut ends_pod = |reply| {
        let claim = driver.first_read_while_the_cluster_is_deleted("demo-0");
        assert!(
            matches!(&claim.task, Task::Read { kind: Kind::Volume, name } if name == "demo-0"),
            "{claim:?}"
        );
        driver.reads(&claim, reply);
        let deletes = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::DeletePod { .. }));
        driver.effects().iter().any(deletes)
    };
    assert!(ends_pod(Ok(None)));
    assert!(!ends_pod(Err(lost())), "and the rest of the plan is carried out");
    // The watch still has a claim that the API server does not have: one of them is late.
    let mut served = parsed_volume(OWN_UID);
    let annotations = std::sync::Arc::make_mut(&mut served).metadata.annotations.get_or_insert_default();
    annotations.insert(quorate_api::keys::MEMBER_ID.to_owned(), "1".to_owned());
    driver.caches.volumes.objects.insert("demo-0".to_owned(), served);
    let claim = driver.first_read_while_the_cluster_is_deleted("demo-0");
    driver.reads(&claim, Ok(None));
    assert!(
        !driver.effects().iter().any(|effect| matches!(effect.as_kube(), Some(KubeEffect::DeletePod { .. })))
    );
}

const AHEAD: Option<ClockDifference> = Some(ClockDifference::Ahead(Span::seconds(7200)));

#[test]
fn m58_once_a_reply_shows_that_the_clock_is_wrong_nothing_more_of_the_plan_is_begun() {
    let mut driver = Driver::planning(vec![volume(0), create_authority()]);
    let record = driver.only();
    driver.sees_clocks(AHEAD);
    let stored = driver.stored(&record, 8);
    driver.writes(&record, Ok(Some(stored)));
    assert_eq!(driver.next(), None);
    assert_eq!(*driver.end(), stopped(Retry::Now), "the next pass plans by what is known now");

    let mut driver = Driver::acting(vec![volume(0), volume(1), create_authority()]);
    let volumes = driver.all();
    assert_eq!(volumes.len(), 2, "they are created in parallel");
    driver.sees_clocks(AHEAD);
    assert_eq!(driver.next(), None);
    for created in &volumes {
        driver.writes(created, Ok(None));
    }
    assert_eq!(driver.next(), None, "not the authority");
    assert!(matches!(driver.end(), PassEnd::Stopped(_)));
}

#[test]
fn m58_a_certificate_that_was_generated_is_not_stored_once_the_clock_is_known_to_be_wrong() {
    let mut driver = Driver::acting(vec![create_authority()]);
    let generate = driver.only();
    driver.sees_clocks(AHEAD);
    driver.replies(&generate, driver::keys());
    assert_eq!(driver.next(), None);
    assert_eq!(*driver.end(), stopped(Retry::Now));
}

#[test]
fn m58_a_clock_that_is_right_again_takes_up_no_plan_of_which_something_was_left_out() {
    let mut driver = Driver::acting(vec![volume(0), create_authority()]);
    let created = driver.only();
    driver.sees_clocks(AHEAD);
    driver.sees_clocks(None);
    driver.writes(&created, Ok(None));
    assert_eq!(driver.next(), None);
    assert_eq!(*driver.end(), stopped(Retry::Now));
}

#[test]
fn m58_a_clock_that_was_wrong_when_the_pass_planned_and_still_is_ends_no_pass() {
    let mut driver = Driver::with_clock(AHEAD, vec![peer_service()]);
    driver.record();
    driver.sees_clocks(AHEAD);
    let service = driver.only();
    driver.writes(&service, Ok(None));
    assert_eq!(*driver.end(), PassEnd::Done);
}

#[test]
fn l06_a_difference_that_is_another_one_ends_a_pass() {
    let mut driver = Driver::with_clock(AHEAD, vec![peer_service()]);
    driver.record();
    driver.sees_clocks(Some(ClockDifference::Ahead(Span::seconds(600))));
    assert_eq!(driver.next(), None);
}
