//! Jobs: their Pods, their end, their deletion. A test plays the kubelet.

use quorate_apistore::fields::{deleting, has_finalizer, integer, items, label, name, text, uid};
use quorate_apistore::store::{DeleteOptions, Propagation};
use serde_json::{Value, json};

use super::cluster::{Cluster, condition, key};

const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// A Job `backup` with these fields of its spec.
fn create(cluster: &Cluster, more: &Value) -> Value {
    let mut spec = json!({
        "template": { "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "agent", "image": "quorate:1" }],
        } },
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    cluster.create("jobs", json!({ "metadata": { "name": "backup" }, "spec": spec }))
}

fn started(more: &Value) -> Cluster {
    let mut cluster = Cluster::with_nodes(1);
    create(&cluster, more);
    cluster.settle();
    cluster
}

/// The names of Pods that have not ended and are not being deleted.
fn active(cluster: &Cluster) -> Vec<String> {
    let open =
        |pod: &&Value| !["Succeeded", "Failed"].contains(&text(pod, "/status/phase")) && !deleting(pod);
    cluster.all("pods").iter().filter(open).map(|pod| name(pod).to_owned()).collect()
}

/// A container of the Pod ends with this code.
fn end(cluster: &mut Cluster, pod: &str, code: i64) {
    let mut status = cluster.get("pods", pod)["status"].clone();
    status["phase"] = json!(if code == 0 { "Succeeded" } else { "Failed" });
    let at = quorate_apistore::fields::seconds(cluster.store.now());
    status["containerStatuses"] =
        json!([{ "name": "agent", "state": { "terminated": { "exitCode": code, "finishedAt": at } } }]);
    cluster.set_status("pods", pod, status);
    cluster.settle();
}

fn job(cluster: &Cluster) -> Value {
    cluster.get("jobs", "backup")
}

/// Reason and message of a condition that is true.
fn reason(cluster: &Cluster, kind: &str) -> (String, String) {
    let condition = condition(&job(cluster), kind);
    assert_eq!(condition["status"], "True", "{kind}: {}", job(cluster)["status"]);
    (text(&condition, "/reason").to_owned(), text(&condition, "/message").to_owned())
}

#[test]
fn a_pod_of_a_job_carries_its_labels_and_its_owner() {
    let cluster = started(&json!({}));
    let (job, pods) = (job(&cluster), cluster.all("pods"));
    let [pod] = pods.as_slice() else { panic!("{} Pods", pods.len()) };
    assert!(name(pod).starts_with("backup-") && name(pod).len() == "backup-".len() + 5, "{}", name(pod));
    assert_eq!(pod["metadata"]["generateName"], "backup-");
    for key in ["batch.kubernetes.io/job-name", "job-name"] {
        assert_eq!(label(pod, key), Some("backup"));
    }
    for key in ["batch.kubernetes.io/controller-uid", "controller-uid"] {
        assert_eq!(label(pod, key), Some(uid(&job)));
    }
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], job["metadata"]["uid"]);
    assert!(has_finalizer(pod, TRACKING));
    assert_eq!(job["status"]["active"], 1);
    assert!(!job["status"]["startTime"].is_null());
    assert_eq!(cluster.node_of(name(pod)), "node-1", "it is scheduled as every Pod");
    let created = format!("SuccessfulCreate: Created pod: {}", name(pod));
    assert_eq!(cluster.events_of(&job), [(created, 1)]);
}

#[test]
fn a_job_is_complete_when_its_pod_has_succeeded() {
    let mut cluster = started(&json!({}));
    let pod = active(&cluster).remove(0);
    cluster.run_pod(&pod, "127.0.0.1", true);
    cluster.settle();
    assert_eq!(
        (&job(&cluster)["status"]["active"], &job(&cluster)["status"]["ready"]),
        (&json!(1), &json!(1))
    );
    cluster.pass_seconds(7);
    end(&mut cluster, &pod, 0);
    let expected = ("CompletionsReached".to_owned(), "Reached expected number of succeeded pods".to_owned());
    assert_eq!(reason(&cluster, "SuccessCriteriaMet"), expected);
    assert_eq!(reason(&cluster, "Complete"), expected);
    let status = job(&cluster)["status"].clone();
    assert_eq!((&status["succeeded"], status.get("active"), status.get("failed")), (&json!(1), None, None));
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    assert!(!status["completionTime"].is_null());
    assert!(!has_finalizer(&cluster.get("pods", &pod), TRACKING), "it is counted");
    assert!(cluster.events_of(&job(&cluster)).contains(&("Completed: Job completed".to_owned(), 1)));
}

#[test]
fn a_failed_pod_is_replaced_after_a_growing_delay_until_the_limit() {
    let mut cluster = started(&json!({ "backoffLimit": 2 }));
    for delay in [10, 20] {
        let pod = active(&cluster).remove(0);
        end(&mut cluster, &pod, 1);
        cluster.pass_seconds(delay - 1);
        cluster.settle();
        assert_eq!(active(&cluster), [""; 0], "{delay} s are not over");
        cluster.pass_seconds(1);
        cluster.settle();
        assert_eq!(active(&cluster).len(), 1, "{delay} s are over");
    }
    let pod = active(&cluster).remove(0);
    end(&mut cluster, &pod, 1);
    let expected =
        ("BackoffLimitExceeded".to_owned(), "Job has reached the specified backoff limit".to_owned());
    assert_eq!(reason(&cluster, "FailureTarget"), expected);
    assert_eq!(reason(&cluster, "Failed"), expected);
    assert_eq!(job(&cluster)["status"]["failed"], 3);
    assert!(job(&cluster)["status"].get("completionTime").is_none());
    cluster.pass_seconds(3600);
    cluster.settle();
    assert_eq!(active(&cluster), [""; 0], "a Job that has failed starts nothing");
}

#[test]
fn at_its_deadline_a_job_fails_once_its_pod_has_stopped() {
    let mut cluster = started(&json!({ "activeDeadlineSeconds": 60 }));
    let pod = active(&cluster).remove(0);
    cluster.run_pod(&pod, "127.0.0.1", true);
    cluster.pass_seconds(59);
    cluster.settle();
    assert_eq!(active(&cluster).len(), 1);
    cluster.pass_seconds(1);
    cluster.settle();
    assert!(deleting(&cluster.get("pods", &pod)));
    assert_eq!(reason(&cluster, "FailureTarget").0, "DeadlineExceeded");
    assert_eq!(condition(&job(&cluster), "Failed"), Value::Null, "its Pod still runs");
    assert_eq!(job(&cluster)["status"]["terminating"], 1);
    cluster.remove_pod(&pod);
    cluster.settle();
    assert_eq!(reason(&cluster, "Failed").0, "DeadlineExceeded");
    assert_eq!(job(&cluster)["status"]["failed"], 1);
}

#[test]
fn the_failure_policy_fails_a_job_at_once_or_ignores_a_disruption() {
    let rules = json!([
        { "action": "FailJob", "onExitCodes": { "containerName": "agent", "operator": "In", "values": [3] } },
        { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget" }] },
    ]);
    let policy = json!({ "podFailurePolicy": { "rules": rules }, "backoffLimit": 0 });

    let mut cluster = started(&policy);
    let pod = active(&cluster).remove(0);
    end(&mut cluster, &pod, 3);
    let why = format!(
        "Container agent for pod default/{pod} failed with exit code 3 matching FailJob rule at index 0"
    );
    assert_eq!(reason(&cluster, "Failed"), ("PodFailurePolicy".to_owned(), why));

    let mut cluster = started(&policy);
    let pod = active(&cluster).remove(0);
    let mut status = cluster.get("pods", &pod)["status"].clone();
    status["conditions"] = json!([{ "type": "DisruptionTarget", "status": "True" }]);
    cluster.set_status("pods", &pod, status);
    end(&mut cluster, &pod, 137);
    cluster.pass_seconds(10);
    cluster.settle();
    assert_eq!(active(&cluster).len(), 1, "it does not count towards the limit of 0");
    assert!(job(&cluster)["status"].get("failed").is_none());

    let mut cluster = started(&policy);
    let pod = active(&cluster).remove(0);
    end(&mut cluster, &pod, 1);
    assert_eq!(reason(&cluster, "Failed").0, "BackoffLimitExceeded", "no rule matches 1");
}

#[test]
fn a_deleted_pod_counts_as_failed_before_it_is_gone() {
    let mut cluster = started(&json!({ "backoffLimit": 0 }));
    let pod = active(&cluster).remove(0);
    cluster.remove_pod(&pod);
    assert!(deleting(&cluster.get("pods", &pod)), "the finalizer keeps it");
    cluster.settle();
    assert!(cluster.find("pods", &pod).is_none());
    assert_eq!(reason(&cluster, "Failed").0, "BackoffLimitExceeded");
    assert_eq!(job(&cluster)["status"]["failed"], 1);
}

#[test]
fn several_completions_run_side_by_side_up_to_the_parallelism() {
    let mut cluster = started(&json!({ "completions": 3, "parallelism": 2 }));
    assert_eq!(active(&cluster).len(), 2);
    for left in [2, 1, 0] {
        let pod = active(&cluster).remove(0);
        end(&mut cluster, &pod, 0);
        assert_eq!(active(&cluster).len(), left);
    }
    assert_eq!(job(&cluster)["status"]["succeeded"], 3);
    reason(&cluster, "Complete");
}

#[test]
fn a_suspended_job_has_no_pods_and_its_time_begins_when_it_is_resumed() {
    let mut cluster = started(&json!({ "suspend": true, "activeDeadlineSeconds": 60 }));
    assert!(active(&cluster).is_empty());
    assert_eq!(reason(&cluster, "Suspended").0, "JobSuspended");
    cluster.pass_seconds(120);
    cluster.edit("jobs", "backup", &json!({ "spec": { "suspend": false } }));
    cluster.settle();
    assert_eq!(active(&cluster).len(), 1);
    assert_eq!(condition(&job(&cluster), "Suspended")["status"], "False");
    cluster.edit("jobs", "backup", &json!({ "spec": { "suspend": true } }));
    cluster.settle();
    assert!(active(&cluster).is_empty());
    assert!(
        job(&cluster)["status"].get("failed").is_none(),
        "a Pod of a suspended Job does not count as failed"
    );
}

#[test]
fn a_finished_job_is_deleted_with_its_pods_after_its_time() {
    let mut cluster = started(&json!({ "ttlSecondsAfterFinished": 100 }));
    let pod = active(&cluster).remove(0);
    end(&mut cluster, &pod, 0);
    cluster.pass_seconds(99);
    cluster.settle();
    job(&cluster);
    cluster.pass_seconds(1);
    cluster.settle();
    assert!(cluster.find("jobs", "backup").is_none() && cluster.find("pods", &pod).is_none());
}

#[test]
fn a_deletion_that_says_nothing_keeps_the_pods_of_a_job() {
    let mut cluster = started(&json!({}));
    let pod = active(&cluster).remove(0);
    cluster.store.delete(&key("jobs", "backup"), &DeleteOptions::default()).unwrap();
    cluster.settle();
    assert!(cluster.find("jobs", "backup").is_none());
    let kept = cluster.get("pods", &pod);
    assert!(!deleting(&kept) && items(&kept, "/metadata/ownerReferences").is_empty());
    assert!(!has_finalizer(&kept, TRACKING), "nobody counts it any more");
}

#[test]
fn a_deletion_in_either_order_deletes_the_pods_of_a_job() {
    for propagation in [Propagation::Background, Propagation::Foreground] {
        let mut cluster = started(&json!({}));
        let pod = active(&cluster).remove(0);
        cluster.run_pod(&pod, "127.0.0.1", true);
        cluster.delete_as("jobs", "backup", propagation);
        cluster.settle();
        let stopping = cluster.get("pods", &pod);
        assert!(deleting(&stopping) && !has_finalizer(&stopping, TRACKING));
        assert_eq!(cluster.find("jobs", "backup").is_some(), propagation == Propagation::Foreground);
        cluster.remove_pod(&pod);
        cluster.settle();
        assert!(cluster.find("jobs", "backup").is_none() && cluster.find("pods", &pod).is_none());
    }
}

#[test]
fn the_spec_of_a_job_gets_the_defaults_of_the_real_server_and_cannot_change() {
    let cluster = Cluster::with_nodes(0);
    let job = create(&cluster, &json!({}));
    let spec = &job["spec"];
    for (field, value) in [
        ("completions", json!(1)),
        ("parallelism", json!(1)),
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
        ("selector", json!({ "matchLabels": { "batch.kubernetes.io/controller-uid": uid(&job) } })),
    ] {
        assert_eq!(spec[field], value, "{field}");
    }
    assert_eq!(spec["template"]["spec"]["terminationGracePeriodSeconds"], 30);
    assert_eq!(spec["template"]["spec"]["enableServiceLinks"], Value::Null, "a default of Pods only");
    assert_eq!(job["metadata"]["labels"], spec["template"]["metadata"]["labels"]);
    assert_eq!(integer(&job, "/metadata/generation"), Some(1));

    let other = json!({ "spec": { "template": { "spec": { "serviceAccountName": "other" } } } });
    let refused = cluster.try_edit("jobs", "backup", &other).unwrap_err();
    assert!(refused.message.contains("spec.template: Invalid value: field is immutable"), "{refused}");
    let refused = cluster.try_edit("jobs", "backup", &json!({ "spec": { "completions": 2 } })).unwrap_err();
    assert!(refused.message.contains("spec.completions: Invalid value: 2: field is immutable"), "{refused}");
    cluster.edit("jobs", "backup", &json!({ "spec": { "activeDeadlineSeconds": 5, "backoffLimit": 1 } }));
    assert_eq!(integer(&cluster.get("jobs", "backup"), "/metadata/generation"), Some(2));
}

#[test]
fn a_job_that_the_real_server_refuses_is_refused() {
    let refused = |more: &Value, expected: &str| {
        let cluster = Cluster::with_nodes(0);
        let mut spec = json!({ "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "agent", "image": "quorate:1" }],
        } } });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        let object = json!({ "metadata": { "name": "backup" }, "spec": spec });
        let refused = cluster.store.create(&key("jobs", "").resource, "default", object, false).unwrap_err();
        assert!(refused.message.contains(expected), "{refused}\nshould be: {expected}");
    };
    let containers = json!([{ "name": "agent", "image": "quorate:1" }]);
    refused(
        &json!({ "template": { "spec": { "containers": containers } } }),
        r#"spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#,
    );
    refused(
        &json!({ "template": { "spec": { "containers": [], "restartPolicy": "Never" } } }),
        "spec.template.spec.containers: Required value",
    );
    refused(
        &json!({ "backoffLimit": -1 }),
        "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
    );
    refused(&json!({ "selector": { "matchLabels": { "a": "b" } } }), "`selector` not auto-generated");
    let policy = |rule: &Value| json!({ "podFailurePolicy": { "rules": [rule] } });
    refused(
        &policy(&json!({ "action": "Ignore" })),
        "specifying one of OnExitCodes and OnPodConditions is required",
    );
    refused(
        &policy(&json!({ "action": "FailJob", "onExitCodes": { "operator": "In", "values": [0] } })),
        "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
    );
}
