//! What is read from Pods, volumes and names.

use crate::world::World;
use k8s_openapi::api::core::v1::Pod;
use quorate_manifests::{AgentDelivery, Kind, NameConflict};
use quorate_model::snapshot::{ImageVolume, Unready};
use quorate_model::{ClusterUid, GuardVerdict, Instant, MemberId, MemberName, snapshot};
use serde_json::{Value, json};

fn seen(status: &Value) -> snapshot::Pod {
    let mut world = World::running(1);
    world.edit(Kind::Pod, "demo-0", |pod| pod["status"] = status.clone());
    world.observe().unwrap().observation.snapshot.pods[&MemberName::new("demo-0")].clone()
}

fn container(name: &str, state: &Value, last: &Value, restarts: i32) -> Value {
    json!({
        "name": name, "image": "example/etcd:v1", "imageID": "", "ready": false, "restartCount": restarts,
        "state": state, "lastState": last,
    })
}

fn ended(code: i32, reason: &str, message: &str) -> Value {
    json!({ "terminated": { "exitCode": code, "reason": reason, "message": message } })
}

fn waits(reason: &str, message: &str) -> Value {
    json!({ "waiting": { "reason": reason, "message": message } })
}

fn etcd(state: &Value, last: &Value) -> Value {
    json!({ "phase": "Running", "containerStatuses": [container("etcd", state, last, 3)] })
}

#[test]
fn scheduling_gates_of_others_are_reported() {
    let mut world = World::running(1);
    let mut seen = |gates: &[&str]| {
        let gates: Vec<Value> = gates.iter().map(|gate| json!({ "name": gate })).collect();
        world.edit(Kind::Pod, "demo-0", |pod| pod["spec"]["schedulingGates"] = json!(gates));
        let pod = world.observe().unwrap().observation.snapshot.pods[&MemberName::new("demo-0")].clone();
        (pod.gated, pod.trouble)
    };
    assert_eq!(seen(&["operator.etcd.io/bootstrap"]), (true, None));
    let trouble = "SchedulingGated: the Pod has the scheduling gates example.org/quota";
    assert_eq!(seen(&["example.org/quota"]), (false, Some(trouble.to_owned())));
}

#[test]
fn what_keeps_a_pod_with_an_image_volume_is_read_until_etcd_was_started() {
    let mut world = World::running(1);
    world.defaults.agent_delivery = AgentDelivery::ImageVolumeFirst;
    let mut seen_last = |volume: &Value, state: &Value, last: &Value| {
        world.edit(Kind::Pod, "demo-0", |pod| {
            let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
            volumes.retain(|volume| volume["name"] != "agent");
            volumes.push(volume.clone());
            pod["spec"].as_object_mut().unwrap().remove("initContainers");
            pod["status"] = json!({
                "phase": "Pending", "containerStatuses": [container("etcd", state, last, 0)],
                "conditions": [
                    { "type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:05Z" },
                    { "type": "PodReadyToStartContainers", "status": "False" },
                ],
            });
        });
        world.observe().unwrap().observation.snapshot.pods[&MemberName::new("demo-0")].image_volume.clone()
    };
    let mut seen = |volume: Value, state: &Value| seen_last(&volume, state, &json!({}));
    let image = json!({ "name": "agent", "image": { "reference": "quorate:1" } });
    let creating = waits("ContainerCreating", "");
    assert_eq!(seen(image.clone(), &creating), Some(ImageVolume::Mounting(Instant(5000))));
    let refused = ImageVolume::Refused("CreateContainerError: no such mount".to_owned());
    assert_eq!(seen(image.clone(), &waits("CreateContainerError", "no such mount")), Some(refused));
    assert_eq!(
        seen(image.clone(), &waits("ErrImagePull", "")),
        None,
        "an init container needs the image, too"
    );
    let noexec = "error during container init: exec: \"/agent/quorate\": permission denied";
    let refused =
        seen_last(&image, &waits("CrashLoopBackOff", "back-off 10s"), &ended(128, "StartError", noexec));
    assert!(matches!(refused, Some(ImageVolume::Refused(why)) if why.contains("permission denied")));
    let crashes =
        seen_last(&image, &waits("CrashLoopBackOff", "back-off 10s"), &ended(1, "Error", "disk is full"));
    assert_eq!(crashes, None, "it was executed");
    let mut seen = |volume: Value, state: &Value| seen_last(&volume, state, &json!({}));
    assert_eq!(seen(image, &json!({ "running": { "startedAt": "1970-01-01T00:00:09Z" } })), None);
    let dropped = ImageVolume::Refused("the API server dropped the image volume".to_owned());
    assert_eq!(seen(json!({ "name": "agent", "emptyDir": {} }), &creating), Some(dropped));
}

const OUT_OF_MEMORY: &str = "OOMKilled: the kernel kills etcd again and again, because its memory is used up. Raise \
     podTemplate.spec.resources.limits.memory; without a limit, the node is short of memory";

#[test]
fn a_container_that_was_killed_once_for_its_memory_is_in_no_trouble_while_it_runs() {
    let mut status = etcd(&json!({ "running": {} }), &ended(137, "OOMKilled", ""));
    status["containerStatuses"][0]["restartCount"] = json!(1);
    assert_eq!(seen(&status).trouble, None);
    status["containerStatuses"][0]["restartCount"] = json!(3);
    status["containerStatuses"][0]["ready"] = json!(true);
    assert_eq!(seen(&status).trouble, None);
}

#[test]
fn the_reason_that_a_pod_does_not_run_is_reported_in_a_text_that_does_not_change() {
    let fatal = r#"{"level":"info","msg":"starting"}
{"level":"fatal","msg":"discovery failed","error":"member 8e9 has already been bootstrapped"}"#;
    let backoff =
        |seconds: u32| waits("CrashLoopBackOff", &format!("back-off {seconds}s restarting failed container"));
    let unschedulable = json!({
        "phase": "Pending",
        "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available",
        }],
    });
    let evicted = json!({ "phase": "Failed", "reason": "Evicted", "message": "The node was low on memory." });
    let table = [
        (etcd(&json!({ "running": {} }), &json!({})), None),
        (etcd(&waits("ContainerCreating", ""), &json!({})), None),
        (etcd(&waits("PodInitializing", ""), &json!({})), None),
        (unschedulable, Some("Unschedulable: 0/3 nodes are available")),
        (evicted, Some("Evicted: The node was low on memory.")),
        (
            etcd(&waits("ErrImagePull", "not found"), &json!({})),
            Some("ErrImagePull: the image example/etcd:v1 of etcd cannot be pulled"),
        ),
        (
            etcd(&waits("ImagePullBackOff", "Back-off pulling image"), &json!({})),
            Some("ErrImagePull: the image example/etcd:v1 of etcd cannot be pulled"),
        ),
        (etcd(&waits("InvalidImageName", "bad"), &json!({})), Some("InvalidImageName: etcd: bad")),
        (
            etcd(&backoff(10), &ended(1, "Error", fatal)),
            Some(
                "CrashLoopBackOff: etcd ended with exit code 1: discovery failed: member 8e9 has already been bootstrapped",
            ),
        ),
        (etcd(&backoff(40), &ended(137, "OOMKilled", "")), Some(OUT_OF_MEMORY)),
        // It starts again, and is about to be killed once more.
        (etcd(&json!({ "running": {} }), &ended(137, "OOMKilled", "")), Some(OUT_OF_MEMORY)),
        // The kubelet shows this for a moment, and starts the container again.
        (etcd(&ended(2, "Error", "flag provided but not defined: -x\n"), &json!({})), None),
    ];
    for (status, trouble) in table {
        assert_eq!(seen(&status).trouble.as_deref(), trouble, "{status}");
    }
}

#[test]
fn etcd_has_run_in_a_pod_once_its_container_was_started() {
    let state = |state: Value, last: Value, restarts: i32| {
        let status =
            json!({ "phase": "Pending", "containerStatuses": [container("etcd", &state, &last, restarts)] });
        seen(&status).has_run
    };
    assert!(!seen(&json!({ "phase": "Pending" })).has_run);
    assert!(!state(waits("PodInitializing", ""), json!({}), 0));
    assert!(!state(waits("ErrImagePull", "no such image"), json!({}), 0));
    assert!(state(json!({ "running": {} }), json!({}), 0));
    assert!(state(waits("CrashLoopBackOff", ""), ended(1, "Error", ""), 1));
    assert!(state(ended(1, "Error", ""), json!({}), 0));
}

#[test]
fn a_member_that_was_bootstrapped_and_has_no_data_is_recognised() {
    let text = "member 8e9e05c52164694d has already been bootstrapped";
    let crashing = seen(&etcd(&json!({ "running": {} }), &ended(1, "Error", text)));
    assert!(crashing.already_bootstrapped && crashing.restarts == 3 && crashing.boots_new);
    assert!(!crashing.differs_from_peers);
    let text = "discovery failed: 8e9e05c52164694d found data inconsistency with peers";
    assert!(seen(&etcd(&json!({ "running": {} }), &ended(1, "Error", text))).differs_from_peers);
    assert!(
        !seen(&etcd(&json!({ "running": {} }), &ended(1, "Error", "another reason"))).already_bootstrapped
    );
}

/// As etcd 3.5.35 ends, with the entry before it. The text alone may be what a client wrote.
#[test]
fn m03_only_the_last_words_of_etcd_say_that_its_check_refused_the_data() {
    let before = r#"{"level":"error","caller":"embed/etcd.go:274","msg":"checkInitialHashKV failed","error":"8e9e05c52164694d found data inconsistency with peers"}"#;
    let last = r#"{"level":"fatal","ts":"2026-11-26T23:00:40.298351Z","caller":"etcdmain/etcd.go:204","msg":"discovery failed","error":"8e9e05c52164694d found data inconsistency with peers","stacktrace":"go.etcd.io/etcd/server/v3/etcdmain.startEtcdOrProxyV2\n\tgo.etcd.io/etcd/server/v3@v3.5.35/etcdmain/etcd.go:204\nmain.main"}"#;
    let refused = |code, text: &str| {
        seen(&etcd(&json!({ "running": {} }), &ended(code, "Error", text))).refused_by_check
    };
    assert_eq!(refused(1, &format!("{before}\n{last}\n")), Some(MemberId(0x8e9e_05c5_2164_694d)));
    assert_eq!(refused(1, before), None, "not the last words");
    assert_eq!(refused(137, last), None, "it was killed");
    assert_eq!(refused(1, &format!("{last}\n{before}")), None);
    assert_eq!(
        refused(
            1,
            r#"{"level":"fatal","msg":"discovery failed","error":"a key: 8e9e found data inconsistency with peers"}"#
        ),
        None
    );
    assert_eq!(refused(1, "discovery failed: 8e9e05c52164694d found data inconsistency with peers"), None);
}

#[test]
fn the_verdict_of_the_guard_is_read_until_a_later_start_is_ready() {
    let report = r#"{"verdict":"DataMissing","message":"no etcd data on the volume","facts":{"data":false}}"#;
    let refused = Some((GuardVerdict::DataMissing, "no etcd data on the volume".to_owned()));
    let guard = |state: &Value, last: &Value, ready: bool| {
        let mut etcd = container("etcd", state, last, 1);
        etcd["ready"] = json!(ready);
        seen(&json!({ "phase": "Running", "containerStatuses": [etcd] })).guard
    };
    let (runs, none) = (json!({ "running": {} }), json!({}));
    assert_eq!(guard(&ended(64, "Error", report), &none, false), refused);
    assert_eq!(
        guard(&waits("CrashLoopBackOff", "back-off 10s"), &ended(64, "Error", report), false),
        refused
    );
    assert_eq!(guard(&runs, &ended(64, "Error", report), false), refused, "it may be refused again at once");
    assert_eq!(guard(&runs, &ended(64, "Error", report), true), None);
    assert_eq!(
        guard(&ended(1, "Error", "not JSON"), &ended(64, "Error", report), false),
        None,
        "it ran since"
    );
}

#[test]
fn l09_what_the_data_need_is_read_where_etcd_is_older() {
    let report = r#"{"verdict":"DataTooNew","message":"etcd 3.6.5 does not run on data of 3.7","facts":{"data":true,"clusterVersion":"3.7"}}"#;
    let etcd = container("etcd", &waits("CrashLoopBackOff", "back-off 10s"), &ended(64, "Error", report), 1);
    let pod = seen(&json!({ "phase": "Running", "containerStatuses": [etcd] }));
    assert_eq!(pod.data_need, Some(quorate_model::Minor(3, 7)));
    assert_eq!(pod.guard.map(|(verdict, _)| verdict), Some(GuardVerdict::DataTooNew));
}

#[test]
fn objects_that_this_cluster_does_not_control_are_foreign_and_named() {
    let mut world = World::running(1);
    world.edit(Kind::Pod, "demo-0", |pod| pod["metadata"]["ownerReferences"][0]["uid"] = json!("u-0"));
    world.edit(Kind::Service, "demo-client", |service| {
        service["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    });
    let conflict = |kind, name: &str| NameConflict { kind, name: name.to_owned(), made_by: None };
    world.conflicts = vec![
        conflict(Kind::Service, "demo"),
        conflict(Kind::Volume, "demo-0"),
        conflict(Kind::Volume, "demo-7"),
        conflict(Kind::Service, "else"),
    ];
    let seen = world.observe().unwrap().observation.snapshot;
    assert!(
        seen.pods.is_empty()
            && seen.client_service == snapshot::Presence::Absent
            && seen.peer_service == snapshot::Presence::Matches
    );
    let foreign: Vec<&str> = seen.foreign.values().map(String::as_str).collect();
    // The conflicts about the peer Service and the volume of demo-0 are over: both are ours. No object is named "else".
    assert_eq!(
        foreign,
        [
            "PersistentVolumeClaim default/demo-7",
            "Pod default/demo-0 (EtcdCluster demo controls it)",
            "Service default/demo-client"
        ]
    );
}

#[test]
fn volumes_belong_to_the_cluster_by_label_and_name_also_those_of_an_earlier_uid() {
    let mut world = World::running(1);
    let mut old = world.objects[&(Kind::Volume, "demo-0".to_owned())].clone();
    for (name, change) in [("demo-7", json!("u-0")), ("demo-x", json!("u-1")), ("demo-8", json!(null))] {
        old["metadata"]["name"] = json!(name);
        old["metadata"]["uid"] = json!(null);
        old["metadata"]["annotations"]["operator.etcd.io/cluster-uid"] = change;
        if old["metadata"]["annotations"]["operator.etcd.io/cluster-uid"].is_null() {
            old["metadata"].as_object_mut().unwrap().remove("annotations");
        }
        world.put(Kind::Volume, old.clone());
    }
    let seen = world.observe().unwrap().observation.snapshot;
    let uids: Vec<(&str, Option<&str>)> = seen
        .volumes
        .iter()
        .map(|(name, volume)| (name.as_str(), volume.cluster_uid.as_ref().map(ClusterUid::as_str)))
        .collect();
    assert_eq!(uids, [("demo-0", Some("u-1")), ("demo-7", Some("u-0")), ("demo-8", None)]);
    assert_eq!(seen.volumes[&MemberName::new("demo-0")].bytes, 2 << 30);
}

#[test]
fn an_adoption_that_names_no_cluster_id_is_refused_with_the_reason() {
    let mut world = World::running(1);
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["annotations"] = json!({ "operator.etcd.io/adopt": "the old one" });
    });
    let refused = world.observe().unwrap().observation.refused.unwrap();
    assert!(
        refused.to_string().contains("operator.etcd.io/adopt") && refused.to_string().contains("hexadecimal")
    );
}

#[test]
fn m10_an_order_names_a_member_by_name_and_id_so_that_it_never_replaces_another_one() {
    let mut world = World::running(1);
    let mut observed = |member: &str| {
        world.edit(Kind::Cluster, "demo", |cluster| {
            cluster["metadata"]["annotations"] = json!({ "operator.etcd.io/replace-member": member });
        });
        let seen = world.observe().unwrap().observation;
        (seen.snapshot.replace_member, seen.refused.map(|refused| refused.to_string()))
    };
    let id = observed("nobody").1.unwrap();
    let named = id.split(' ').next_back().unwrap().to_owned();
    assert!(named.starts_with("demo-0/"), "{id}");
    assert_eq!(observed(&named), (Some(MemberName::new("demo-0")), None));
    for unknown in ["demo-0", "demo-7", "demo-7/8e9e05c52164694d"] {
        let (member, refused) = observed(unknown);
        assert_eq!(member, None);
        assert!(refused.is_some_and(|refused| refused.contains("names no member of this cluster")));
    }
    assert_eq!(
        observed("demo-0/8e9e05c52164694d"),
        (None, None),
        "it was given to another member of that name"
    );
}

#[test]
fn the_zone_is_read_from_the_label_that_kubernetes_copies_to_the_pod() {
    let mut world = World::running(1);
    world.edit(Kind::Pod, "demo-0", |pod| {
        pod["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("a");
    });
    let pod: Pod = world.get(Kind::Pod, "demo-0");
    assert!(pod.metadata.labels.is_some());
    let seen = world.observe().unwrap().observation.snapshot;
    let pod = &seen.pods[&MemberName::new("demo-0")];
    assert_eq!(
        (pod.zone.as_deref(), pod.node.as_deref(), pod.ip.as_deref()),
        (Some("a"), Some("node-0"), Some("10.0.0.0"))
    );
}

#[test]
fn a_pod_is_unready_by_its_kubelet_and_not_by_the_node_controller() {
    let seen = |ready: (&str, &str), containers: (&str, &str), container: &Value| {
        let condition =
            |kind, (status, at)| json!({ "type": kind, "status": status, "lastTransitionTime": at });
        let conditions = json!([condition("Ready", ready), condition("ContainersReady", containers)]);
        seen(&json!({ "phase": "Running", "conditions": conditions, "containerStatuses": [container] }))
            .unready
    };
    let unready = |ready, container: &Value| seen(ready, ready, container);
    let etcd = |ready: bool| {
        let runs = json!({ "running": { "startedAt": "2026-11-21T08:00:10Z" } });
        let mut etcd = container("etcd", &runs, &json!({}), 0);
        (etcd["started"], etcd["ready"]) = (json!(true), json!(ready));
        etcd
    };
    let (created, same, later) = ("2026-11-21T08:00:00Z", "2026-11-21T08:00:10Z", "2026-11-21T08:05:00Z");
    let (begun, changed) = (Instant(1_795_248_010_000), Instant(1_795_248_300_000));
    let table = [
        (unready(("True", later), &etcd(true)), None),
        (unready(("False", created), &etcd(false)), Some(Unready::NotYet(begun))),
        // The run before was ready, and ended within the second in which this one began.
        (unready(("False", same), &etcd(false)), Some(Unready::NotYet(begun))),
        (unready(("False", later), &etcd(false)), Some(Unready::NoMore)),
        // The node did not report for a while before the container was ready.
        (seen(("False", later), ("False", created), &etcd(false)), Some(Unready::NotYet(changed))),
        // The node does not report any more.
        (seen(("False", later), ("True", same), &etcd(true)), None),
        (unready(("False", later), &container("etcd", &waits("CrashLoopBackOff", ""), &json!({}), 1)), None),
    ];
    for (at, (seen, expected)) in table.into_iter().enumerate() {
        assert_eq!(seen, expected, "row {at}");
    }
}

#[test]
fn a_node_that_does_not_execute_programs_in_a_volume_is_told_what_to_do() {
    let noexec = ended(128, "StartError", "exec: \"/agent/quorate\": permission denied: unknown");
    let pod = seen(&json!({
        "phase": "Running",
        "containerStatuses": [container("etcd", &waits("CrashLoopBackOff", "back-off 10s"), &noexec, 0)],
    }));
    assert!(!pod.has_run, "nothing was executed");
    let trouble = pod.trouble.unwrap();
    assert!(trouble.contains("noexec") && trouble.contains("--agent-delivery=image-volume"), "{trouble}");
}

#[test]
fn a_container_of_which_an_earlier_attempt_is_not_shown_may_have_run() {
    let noexec = ended(128, "StartError", "shim is gone");
    let seen = |restarts: i32| {
        let etcd = container("etcd", &waits("CrashLoopBackOff", "back-off 10s"), &noexec, restarts);
        seen(&json!({ "phase": "Running", "containerStatuses": [etcd] })).has_run
    };
    assert_eq!((seen(0), seen(1), seen(2)), (false, true, true));
}

#[test]
fn a_pod_that_no_scheduler_takes_up_names_the_scheduler() {
    let trouble = |scheduler: &str, status: Value| {
        let mut world = World::running(1);
        world.edit(Kind::Pod, "demo-0", |pod| {
            pod["spec"]["schedulerName"] = json!(scheduler);
            pod["spec"].as_object_mut().unwrap().remove("nodeName");
            pod["status"] = status;
        });
        world.observe().unwrap().observation.snapshot.pods[&MemberName::new("demo-0")].trouble.clone()
    };
    let pending = json!({ "phase": "Pending" });
    let unknown = trouble("packing", pending.clone());
    assert!(unknown.is_some_and(|why| why.starts_with("NotScheduled: scheduler packing")));
    assert_eq!(trouble("default-scheduler", pending), None, "it is about to");
    let condition = |reason: &str| json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False", "reason": reason, "message": "why" }] });
    assert_eq!(trouble("packing", condition("Unschedulable")).as_deref(), Some("Unschedulable: why"));
    assert_eq!(trouble("packing", condition("SchedulerError")).as_deref(), Some("SchedulerError: why"));
}
