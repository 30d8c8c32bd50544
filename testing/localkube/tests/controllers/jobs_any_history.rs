//! After any history of a Job and its Pods the controllers settle, and nothing is counted twice or left behind.

use proptest::prelude::*;
use quorate_apistore::fields::{deleting, has_finalizer, integer, items, name, text, uid};
use quorate_apistore::store::Propagation;
use serde_json::{Value, json};

use super::cluster::{Cluster, condition};

/// An act of a user or the kubelet. Numbers choose among the Pods that exist.
#[derive(Clone, Debug)]
enum Deed {
    Create { backoff: u8, completions: u8, waits: bool },
    Run(u8),
    End { pod: u8, code: u8 },
    DeletePod(u8),
    StopPod(u8),
    Suspend(bool),
    DeleteJob(u8),
    Wait(u8),
}

fn deed() -> impl Strategy<Value = Deed> {
    let number = || 0..3_u8;
    prop_oneof![
        (number(), 1..3_u8, any::<bool>()).prop_map(|(backoff, completions, waits)| Deed::Create {
            backoff,
            completions,
            waits
        }),
        number().prop_map(Deed::Run),
        (number(), number()).prop_map(|(pod, code)| Deed::End { pod, code }),
        number().prop_map(Deed::DeletePod),
        number().prop_map(Deed::StopPod),
        any::<bool>().prop_map(Deed::Suspend),
        number().prop_map(Deed::DeleteJob),
        (0..200_u8).prop_map(Deed::Wait),
    ]
}

fn act(cluster: &Cluster, deed: &Deed) {
    let pods = cluster.all("pods");
    let pod = |number: u8| pods.get(usize::from(number));
    let is_open = |pod: &Value| !["Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
    let placed = |pod: &&Value| is_open(pod) && !text(pod, "/spec/nodeName").is_empty();
    match *deed {
        Deed::Create { backoff, completions, waits } => {
            if cluster.find("jobs", "demo").is_none() {
                let replacement = if waits { "Failed" } else { "TerminatingOrFailed" };
                let containers = json!([{ "name": "agent", "image": "quorate:1" }]);
                let template = json!({ "spec": { "restartPolicy": "Never", "containers": containers } });
                cluster.create("jobs", json!({ "metadata": { "name": "demo" }, "spec": {
                    "backoffLimit": backoff, "completions": completions, "parallelism": 2, "template": template,
                    "activeDeadlineSeconds": 600, "ttlSecondsAfterFinished": 300, "podReplacementPolicy": replacement,
                } }));
            }
        }
        Deed::Run(number) => {
            if let Some(pod) = pod(number).filter(placed) {
                cluster.run_pod(name(pod), "127.0.0.1", true);
            }
        }
        Deed::End { pod: number, code } => {
            if let Some(pod) = pod(number).filter(placed) {
                let mut status = pod["status"].clone();
                status["phase"] = json!(if code == 0 { "Succeeded" } else { "Failed" });
                cluster.set_status("pods", name(pod), status);
            }
        }
        Deed::DeletePod(number) => {
            if let Some(pod) = pod(number) {
                cluster.delete("pods", name(pod));
            }
        }
        Deed::StopPod(number) => {
            if let Some(pod) = pod(number).filter(|pod| deleting(pod)) {
                if placed(&pod) {
                    let mut status = pod["status"].clone();
                    status["phase"] = json!("Failed");
                    cluster.set_status("pods", name(pod), status);
                }
                cluster.remove_pod(name(pod));
            }
        }
        Deed::Suspend(on) => {
            if cluster.find("jobs", "demo").is_some() {
                cluster.edit("jobs", "demo", &json!({ "spec": { "suspend": on } }));
            }
        }
        Deed::DeleteJob(how) => {
            let how =
                [Propagation::Background, Propagation::Foreground, Propagation::Orphan][usize::from(how)];
            if cluster.find("jobs", "demo").is_some() {
                cluster.delete_as("jobs", "demo", how);
            }
        }
        Deed::Wait(seconds) => cluster.pass_seconds(seconds.into()),
    }
}

fn check(cluster: &Cluster) {
    let pods = cluster.all("pods");
    let job = cluster.find("jobs", "demo");
    let counts = |pod: &Value, job: &Value| text(pod, "/metadata/ownerReferences/0/uid") == uid(job);
    for pod in pods.iter().filter(|pod| has_finalizer(pod, "batch.kubernetes.io/job-tracking")) {
        let of = job.as_ref().filter(|job| counts(pod, job));
        let job = of.unwrap_or_else(|| panic!("{} is counted by no Job", name(pod)));
        assert_ne!(condition(job, "Complete")["status"], "True", "{} is not counted", name(pod));
    }
    let Some(job) = job else { return };
    let number = |pointer: &str| integer(&job, pointer).unwrap_or(0);
    let active = pods.iter().filter(|pod| {
        counts(pod, &job) && !deleting(pod) && !["Succeeded", "Failed"].contains(&text(pod, "/status/phase"))
    });
    let active = i64::try_from(active.count()).unwrap();
    assert!(active <= number("/spec/parallelism"));
    assert!(
        number("/status/succeeded") + active <= number("/spec/completions").max(active),
        "{}",
        job["status"]
    );
    let ends = ["Complete", "Failed"].map(|kind| condition(&job, kind)["status"] == "True");
    assert_ne!(ends, [true, true]);
    if ends != [false, false] {
        assert_eq!(active, 0);
        assert_eq!(job["status"]["uncountedTerminatedPods"], json!({}));
    } else if !deleting(&job) {
        assert_eq!(number("/status/active"), active);
        assert!(items(&job, "/status/uncountedTerminatedPods/succeeded").is_empty(), "{}", job["status"]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_job_settles_after_any_history(deeds in prop::collection::vec(deed(), 1..60), every in 1..4_usize) {
        let mut cluster = Cluster::with_nodes(2);
        for (at, deed) in deeds.iter().enumerate() {
            act(&cluster, deed);
            if at % every == 0 {
                cluster.settle();
                check(&cluster);
            }
        }
        cluster.settle();
        check(&cluster);
    }
}
