//! Rows of Pods. STATUS is not the phase but the reason of the containers, chosen as the real server's printer does.

use jiff::Timestamp;
use quorate_apistore::fields::{condition, deleting, flag, integer, items, name, text, time};
use serde_json::{Value, json};

use super::age;
use super::columns::{BuiltIn, or_none, text as shown, wide};

pub(super) const PODS: BuiltIn = BuiltIn {
    columns: &[
        shown("Name"),
        shown("Ready"),
        shown("Status"),
        shown("Restarts"),
        shown("Age"),
        wide("IP"),
        wide("Node"),
        wide("Nominated Node"),
        wide("Readiness Gates"),
    ],
    cells,
};

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let restarts = match (summary.restarts, summary.last_restart) {
        (restarts, Some(last)) if restarts > 0 => format!("{restarts} ({} ago)", age::since(Some(last), now)),
        (restarts, _) => restarts.to_string(),
    };
    vec![
        json!(name(pod)),
        json!(format!("{}/{}", summary.ready, summary.containers)),
        json!(summary.status),
        json!(restarts),
        json!(age::since(time(pod, "/metadata/creationTimestamp"), now)),
        json!(or_none(text(pod, "/status/podIP"))),
        json!(or_none(text(pod, "/spec/nodeName"))),
        json!(or_none(text(pod, "/status/nominatedNodeName"))),
        json!(readiness_gates(pod)),
    ]
}

/// The number of restarts is separate from its text, for sorting and tests.
struct Summary {
    status: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let phase = text(pod, "/status/phase");
        let mut summary = Self {
            status: phase.to_owned(),
            ready: 0,
            containers: items(pod, "/spec/containers").len()
                + items(pod, "/spec/initContainers").iter().filter(|init| is_sidecar(init)).count(),
            restarts: 0,
            last_restart: None,
        };
        if !text(pod, "/status/reason").is_empty() {
            text(pod, "/status/reason").clone_into(&mut summary.status);
        }
        if items(pod, "/status/conditions").iter().any(|one| one["reason"] == "SchedulingGated") {
            "SchedulingGated".clone_into(&mut summary.status);
        }
        let initializing = summary.read_init_containers(pod);
        if !initializing || condition(pod, "Initialized") == "True" {
            summary.read_containers(pod);
        }
        if deleting(pod) && text(pod, "/status/reason") == "NodeLost" {
            "Unknown".clone_into(&mut summary.status);
        } else if deleting(pod) && !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut summary.status);
        }
        summary
    }

    /// Whether initialization is not finished (or has failed); STATUS then shows it.
    fn read_init_containers(&mut self, pod: &Value) -> bool {
        let specs = items(pod, "/spec/initContainers");
        for (at, container) in items(pod, "/status/initContainerStatuses").iter().enumerate() {
            self.count_restarts(container);
            let sidecar = specs.iter().any(|spec| spec["name"] == container["name"] && is_sidecar(spec));
            let waiting = text(container, "/state/waiting/reason");
            let terminated = container.pointer("/state/terminated").filter(|state| !state.is_null());
            self.status = match terminated {
                Some(state) if integer(state, "/exitCode") == Some(0) => continue,
                _ if sidecar && flag(container, "/started") => {
                    self.ready += usize::from(flag(container, "/ready"));
                    continue;
                }
                Some(state) => format!("Init:{}", ending(state)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{at}/{}", specs.len()),
            };
            return true;
        }
        false
    }

    fn read_containers(&mut self, pod: &Value) {
        let sidecars: Vec<&Value> = items(pod, "/spec/initContainers")
            .iter()
            .filter(|init| is_sidecar(init))
            .map(|init| &init["name"])
            .collect();
        (self.restarts, self.last_restart) = (0, None);
        for container in items(pod, "/status/initContainerStatuses") {
            if sidecars.contains(&&container["name"]) {
                self.count_restarts(container);
            }
        }
        let mut any_running = false;
        for container in items(pod, "/status/containerStatuses").iter().rev() {
            self.count_restarts(container);
            let waiting = text(container, "/state/waiting/reason");
            let terminated = container.pointer("/state/terminated").filter(|state| !state.is_null());
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.status);
            } else if let Some(state) = terminated {
                self.status = ending(state);
            } else if flag(container, "/ready") && container.pointer("/state/running").is_some() {
                any_running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" && any_running {
            let ready = condition(pod, "Ready") == "True";
            if ready { "Running" } else { "NotReady" }.clone_into(&mut self.status);
        }
    }

    fn count_restarts(&mut self, container: &Value) {
        self.restarts += integer(container, "/restartCount").unwrap_or_default();
        self.last_restart = self.last_restart.max(time(container, "/lastState/terminated/finishedAt"));
    }
}

fn is_sidecar(init_container: &Value) -> bool {
    init_container["restartPolicy"] == "Always"
}

fn ending(terminated: &Value) -> String {
    match (text(terminated, "/reason"), integer(terminated, "/signal")) {
        ("", Some(signal)) if signal != 0 => format!("Signal:{signal}"),
        ("", _) => format!("ExitCode:{}", integer(terminated, "/exitCode").unwrap_or_default()),
        (reason, _) => reason.to_owned(),
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = items(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter(|gate| condition(pod, text(gate, "/conditionType")) == "True").count();
    format!("{open}/{}", gates.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pod: &Value) -> (String, String) {
        let now = "2024-01-01T00:10:00Z".parse().unwrap();
        let cells = cells(pod, now);
        (
            format!("{} {}", cells[1].as_str().unwrap(), cells[2].as_str().unwrap()),
            cells[3].as_str().unwrap().into(),
        )
    }

    fn etcd(status: &Value) -> Value {
        json!({
            "metadata": { "name": "demo-0" },
            "spec": {
                "initContainers": [{ "name": "guard" }],
                "containers": [{ "name": "etcd" }, { "name": "probe" }],
            },
            "status": status,
        })
    }

    #[test]
    fn the_status_column_follows_the_containers() {
        let guard_done = json!([{ "name": "guard", "state": { "terminated": { "exitCode": 0 } } }]);
        let running = |ready: bool| json!({ "ready": ready, "state": { "running": {} } });
        let table = [
            ("0/2 Pending", json!({ "phase": "Pending" })),
            (
                "0/2 Init:0/1",
                json!({ "phase": "Pending", "initContainerStatuses": [{ "name": "guard", "state": { "running": {} } }] }),
            ),
            (
                "0/2 Init:Error",
                json!({ "phase": "Pending", "initContainerStatuses":
                    [{ "name": "guard", "state": { "terminated": { "exitCode": 3, "reason": "Error" } } }] }),
            ),
            (
                "0/2 Init:CrashLoopBackOff",
                json!({ "phase": "Pending", "initContainerStatuses":
                    [{ "name": "guard", "state": { "waiting": { "reason": "CrashLoopBackOff" } } }] }),
            ),
            (
                "0/2 PodInitializing",
                json!({ "phase": "Pending", "initContainerStatuses": guard_done, "containerStatuses":
                    [{ "state": { "waiting": { "reason": "PodInitializing" } } }] }),
            ),
            (
                "1/2 Running",
                json!({ "phase": "Running", "initContainerStatuses": guard_done,
                    "containerStatuses": [running(false), running(true)] }),
            ),
            (
                "1/2 ErrImagePull",
                json!({ "phase": "Pending", "initContainerStatuses": guard_done, "containerStatuses":
                    [{ "state": { "waiting": { "reason": "ErrImagePull" } } }, running(true)] }),
            ),
            (
                "1/2 OOMKilled",
                json!({ "phase": "Running", "containerStatuses":
                    [{ "state": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } }, running(true)] }),
            ),
            (
                "0/2 ExitCode:2",
                json!({ "phase": "Failed", "containerStatuses": [{ "state": { "terminated": { "exitCode": 2 } } }] }),
            ),
            ("0/2 Evicted", json!({ "phase": "Failed", "reason": "Evicted" })),
        ];
        for (expected, pod) in table {
            assert_eq!(status(&etcd(&pod)).0, expected);
        }
    }

    #[test]
    fn a_deleted_pod_is_terminating_unless_it_had_finished() {
        let mut pod = etcd(&json!({ "phase": "Running" }));
        pod["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        assert_eq!(status(&pod).0, "0/2 Terminating");
        pod["status"] = json!({ "phase": "Failed" });
        assert_eq!(status(&pod).0, "0/2 Failed");
    }

    #[test]
    fn restarts_show_the_count_and_the_time_of_the_last() {
        let pod = etcd(&json!({ "phase": "Running", "containerStatuses": [
            { "restartCount": 2, "lastState": { "terminated": { "finishedAt": "2024-01-01T00:05:00Z" } } },
            { "restartCount": 1, "lastState": { "terminated": { "finishedAt": "2024-01-01T00:01:00Z" } } },
        ] }));
        assert_eq!(status(&pod).1, "3 (5m ago)");
        assert_eq!(status(&etcd(&json!({}))).1, "0");
    }
}
