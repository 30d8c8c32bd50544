//! The status of a Pod, from the states of its containers. Pure.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{HostIP, Pod, PodCondition, PodIP, PodStatus};

use super::state::{ContainerPhase, ContainerState};
use crate::clock::seconds;

/// The state of a Pod on its node.
#[derive(Clone, Debug, PartialEq)]
pub struct PodState {
    /// When the node took over the Pod.
    pub since: Timestamp,
    /// Its address.
    pub ip: Ipv4Addr,
    /// Its node's address.
    pub host: Ipv4Addr,
    /// Its init containers, in order.
    pub inits: Vec<ContainerState>,
    /// Its containers.
    pub containers: Vec<ContainerState>,
    /// Whether it has run for `activeDeadlineSeconds`.
    pub overdue: bool,
}

/// The message of a Pod that has run for too long.
pub const OVERDUE: &str = "Pod was active on the node longer than the specified deadline";

/// The conditions that the node writes; all others are left unchanged.
const OWN: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// The status of a Pod.
pub fn status(pod: &Pod, state: &PodState, now: Timestamp) -> PodStatus {
    let old = pod.status.clone().unwrap_or_default();
    let phase = phase(pod, state);
    let over = matches!(phase, "Succeeded" | "Failed");
    let initialized = condition_of(&unfinished(&state.inits), "ContainersNotInitialized", |names| {
        format!("containers with incomplete status: [{names}]")
    });
    let ready = if phase == "Succeeded" {
        Reported::no("PodCompleted", None)
    } else if phase == "Failed" {
        Reported::no("PodFailed", None)
    } else {
        condition_of(&unready(&state.containers), "ContainersNotReady", |names| {
            format!("containers with unready status: [{names}]")
        })
    };
    let reported = [
        ("PodReadyToStartContainers", if over { Reported::no("", None) } else { Reported::yes() }),
        (
            "Initialized",
            if phase == "Succeeded" {
                Reported { reason: Some("PodCompleted"), ..Reported::yes() }
            } else {
                initialized
            },
        ),
        ("Ready", ready.clone()),
        ("ContainersReady", ready),
        ("PodScheduled", Reported::yes()),
    ];
    let before = old.conditions.unwrap_or_default();
    let mut conditions: Vec<PodCondition> =
        reported.into_iter().map(|(kind, reported)| reported.condition(kind, &before, pod, now)).collect();
    conditions.extend(before.into_iter().filter(|one| !OWN.contains(&one.type_.as_str())));
    let own = |ip: Ipv4Addr| ip.to_string();
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(conditions),
        host_ip: Some(own(state.host)),
        host_ips: Some(vec![HostIP { ip: own(state.host) }]),
        pod_ip: Some(own(state.ip)),
        pod_ips: Some(vec![PodIP { ip: own(state.ip) }]),
        start_time: Some(seconds(state.since)),
        init_container_statuses: (!state.inits.is_empty())
            .then(|| state.inits.iter().map(|one| one.status(true)).collect()),
        container_statuses: Some(state.containers.iter().map(|one| one.status(false)).collect()),
        qos_class: old.qos_class,
        message: if state.overdue { Some(OVERDUE.to_owned()) } else { old.message },
        reason: if state.overdue { Some("DeadlineExceeded".to_owned()) } else { old.reason },
        nominated_node_name: old.nominated_node_name,
        ..PodStatus::default()
    }
}

/// `Pending` until every container has run once; finished when none runs and none will restart, which is also the end of a Pod that is
/// being deleted.
pub fn phase(pod: &Pod, state: &PodState) -> &'static str {
    let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always");
    let code = |one: &ContainerState| match &one.phase {
        ContainerPhase::Terminated(ended) => Some(ended.code),
        ContainerPhase::Waiting { .. } | ContainerPhase::Running { .. } => None,
    };
    if state.overdue {
        return "Failed";
    }
    let stopped = pod.metadata.deletion_timestamp.is_some();
    let mut all = state.inits.iter().chain(&state.containers);
    if stopped && !all.clone().any(|one| matches!(one.phase, ContainerPhase::Running { .. })) {
        return if all.all(|one| code(one) == Some(0)) { "Succeeded" } else { "Failed" };
    }
    if state.inits.iter().any(|init| code(init) != Some(0)) {
        let failed =
            policy == "Never" && state.inits.iter().any(|init| code(init).is_some_and(|code| code != 0));
        return if failed { "Failed" } else { "Pending" };
    }
    let ended: Vec<Option<i32>> = state.containers.iter().map(code).collect();
    let never_ran =
        |one: &ContainerState| matches!(one.phase, ContainerPhase::Waiting { .. }) && one.last.is_none();
    if state.containers.iter().any(never_ran) {
        return "Pending";
    }
    match policy {
        _ if ended.iter().any(Option::is_none) => "Running",
        "Always" => "Running",
        "OnFailure" if ended.iter().any(|code| *code != Some(0)) => "Running",
        _ if ended.iter().all(|code| *code == Some(0)) => "Succeeded",
        _ => "Failed",
    }
}

#[derive(Clone, Debug)]
struct Reported {
    value: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Reported {
    fn yes() -> Self {
        Self { value: true, reason: None, message: None }
    }

    fn no(reason: &'static str, message: Option<String>) -> Self {
        Self { value: false, reason: Some(reason).filter(|reason| !reason.is_empty()), message }
    }

    fn condition(self, kind: &str, before: &[PodCondition], pod: &Pod, now: Timestamp) -> PodCondition {
        let status = if self.value { "True" } else { "False" };
        let same = before.iter().find(|one| one.type_ == kind && one.status == status);
        let since = same.and_then(|one| one.last_transition_time.clone()).unwrap_or_else(|| seconds(now));
        PodCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: self.reason.map(str::to_owned),
            message: self.message,
            last_transition_time: Some(since),
            observed_generation: same
                .and_then(|one| one.observed_generation)
                .filter(|_| pod.metadata.generation.is_some()),
            ..PodCondition::default()
        }
    }
}

fn condition_of(missing: &[&str], reason: &'static str, message: impl Fn(&str) -> String) -> Reported {
    if missing.is_empty() { Reported::yes() } else { Reported::no(reason, Some(message(&missing.join(" ")))) }
}

fn unfinished(inits: &[ContainerState]) -> Vec<&str> {
    let done =
        |one: &ContainerState| matches!(&one.phase, ContainerPhase::Terminated(ended) if ended.code == 0);
    inits.iter().filter(|one| !done(one)).map(|one| one.name.as_str()).collect()
}

fn unready(containers: &[ContainerState]) -> Vec<&str> {
    let ready = |one: &ContainerState| one.ready && matches!(one.phase, ContainerPhase::Running { .. });
    containers.iter().filter(|one| !ready(one)).map(|one| one.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::state::Ended;
    use super::*;

    fn pod(policy: &str) -> Pod {
        serde_json::from_value(serde_json::json!({"spec": {"restartPolicy": policy, "containers": []}}))
            .unwrap()
    }

    fn container(phase: ContainerPhase) -> ContainerState {
        ContainerState { phase, ..ContainerState::new("etcd", "etcd:v3") }
    }

    fn ended(code: i32) -> ContainerPhase {
        let at = Timestamp::UNIX_EPOCH;
        ContainerPhase::Terminated(Ended {
            code,
            reason: "Error".into(),
            message: None,
            since: at,
            until: at,
            id: String::new(),
        })
    }

    fn running() -> ContainerPhase {
        ContainerPhase::Running { since: Timestamp::UNIX_EPOCH, id: String::new() }
    }

    fn state(inits: Vec<ContainerPhase>, containers: Vec<ContainerPhase>) -> PodState {
        PodState {
            since: Timestamp::UNIX_EPOCH,
            ip: Ipv4Addr::LOCALHOST,
            host: Ipv4Addr::LOCALHOST,
            inits: inits.into_iter().map(container).collect(),
            containers: containers.into_iter().map(container).collect(),
            overdue: false,
        }
    }

    #[test]
    fn the_phase_follows_containers_and_restart_policy() {
        let waiting = || ContainerPhase::waiting("PodInitializing");
        let table = [
            ("Always", state(vec![running()], vec![waiting()]), "Pending"),
            ("Always", state(vec![ended(1)], vec![waiting()]), "Pending"),
            ("Never", state(vec![ended(1)], vec![waiting()]), "Failed"),
            ("Always", state(vec![ended(0)], vec![waiting()]), "Pending"),
            ("Always", state(vec![ended(0)], vec![running()]), "Running"),
            ("Always", state(vec![], vec![ended(0)]), "Running"),
            ("Always", state(vec![], vec![running(), ended(1)]), "Running"),
            ("OnFailure", state(vec![], vec![ended(1)]), "Running"),
            ("OnFailure", state(vec![], vec![ended(0)]), "Succeeded"),
            ("Never", state(vec![], vec![ended(0), ended(2)]), "Failed"),
            ("Never", state(vec![], vec![ended(0), running()]), "Running"),
        ];
        for (policy, state, expected) in table {
            assert_eq!(phase(&pod(policy), &state), expected, "{policy} {state:?}");
        }
    }

    #[test]
    fn a_pod_that_is_deleted_has_an_end_once_nothing_runs() {
        let mut deleted = pod("Always");
        deleted.metadata.deletion_timestamp = Some(seconds(Timestamp::UNIX_EPOCH));
        let waiting = || ContainerPhase::waiting("ContainerCreating");
        let table = [
            (state(vec![], vec![running()]), "Running"),
            (state(vec![], vec![ended(143)]), "Failed"),
            (state(vec![], vec![ended(0)]), "Succeeded"),
            (state(vec![], vec![waiting()]), "Failed"),
            (state(vec![running()], vec![waiting()]), "Pending"),
            (state(vec![ended(0)], vec![waiting()]), "Failed"),
        ];
        for (state, expected) in table {
            assert_eq!(phase(&deleted, &state), expected, "{state:?}");
        }
    }

    #[test]
    fn a_pod_that_ran_for_too_long_has_failed_and_says_so() {
        let mut late = state(vec![], vec![running()]);
        late.overdue = true;
        let status = status(&pod("Never"), &late, Timestamp::UNIX_EPOCH);
        assert_eq!(
            (status.phase.as_deref(), status.reason.as_deref()),
            (Some("Failed"), Some("DeadlineExceeded"))
        );
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes_and_other_conditions_stay() {
        let mut pod = pod("Always");
        let (then, now) = (Timestamp::from_second(100).unwrap(), Timestamp::from_second(200).unwrap());
        let mut one = state(vec![], vec![running()]);
        pod.status = Some(status(&pod, &one, then));
        let foreign =
            PodCondition { type_: "DisruptionTarget".into(), status: "True".into(), ..Default::default() };
        pod.status.as_mut().unwrap().conditions.as_mut().unwrap().push(foreign);
        one.containers[0].ready = true;
        let conditions = status(&pod, &one, now).conditions.unwrap();
        let find = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind).unwrap();
        assert_eq!(find("Initialized").last_transition_time, Some(seconds(then)));
        assert_eq!(find("Ready").last_transition_time, Some(seconds(now)));
        assert_eq!(find("Ready").status, "True");
        assert_eq!(find("DisruptionTarget").status, "True");
    }

    #[test]
    fn a_pod_reports_which_container_is_not_ready() {
        let conditions =
            status(&pod("Always"), &state(vec![], vec![running()]), Timestamp::UNIX_EPOCH).conditions;
        let ready = conditions.unwrap().into_iter().find(|one| one.type_ == "Ready").unwrap();
        assert_eq!(ready.message.unwrap(), "containers with unready status: [etcd]");
    }
}
