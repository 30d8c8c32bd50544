//! The states of a Pod's containers.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus,
};

use crate::clock::seconds;

/// One container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerState {
    /// Its name.
    pub name: String,
    /// The image of the spec.
    pub image: String,
    /// The id of the resolved image.
    pub image_id: String,
    /// Its phase.
    pub phase: ContainerPhase,
    /// The end of its last run.
    pub last: Option<Ended>,
    /// The number of restarts.
    pub restarts: i32,
    /// Whether its startup probe succeeded, or it has none.
    pub started: bool,
    /// Whether its readiness probe succeeds, or it has none.
    pub ready: bool,
}

/// The phase of a container.
#[derive(Clone, Debug, PartialEq)]
pub enum ContainerPhase {
    /// It does not run.
    Waiting {
        /// The reason, in CamelCase.
        reason: String,
        /// The message.
        message: Option<String>,
    },
    /// It runs.
    Running {
        /// The start time.
        since: Timestamp,
        /// The id of the run.
        id: String,
    },
    /// It has ended.
    Terminated(Ended),
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Its exit code.
    pub code: i32,
    /// The reason, in CamelCase.
    pub reason: String,
    /// The termination message.
    pub message: Option<String>,
    /// The start time.
    pub since: Timestamp,
    /// The end time.
    pub until: Timestamp,
    /// The id of the run.
    pub id: String,
}

impl ContainerState {
    /// A container that has not run yet.
    pub fn new(name: &str, image: &str) -> Self {
        Self {
            name: name.to_owned(),
            image: image.to_owned(),
            image_id: String::new(),
            phase: ContainerPhase::waiting("PodInitializing"),
            last: None,
            restarts: 0,
            started: false,
            ready: false,
        }
    }

    /// The container status. An init container is ready once it has succeeded.
    pub fn status(&self, is_init: bool) -> ContainerStatus {
        let succeeded = matches!(&self.phase, ContainerPhase::Terminated(ended) if ended.code == 0);
        let running = matches!(self.phase, ContainerPhase::Running { .. });
        ContainerStatus {
            name: self.name.clone(),
            image: self.image.clone(),
            image_id: self.image_id.clone(),
            container_id: match &self.phase {
                ContainerPhase::Running { id, .. } => Some(id.clone()),
                ContainerPhase::Terminated(ended) => Some(ended.id.clone()),
                ContainerPhase::Waiting { .. } => self.last.as_ref().map(|ended| ended.id.clone()),
            },
            ready: if is_init { succeeded } else { running && self.ready },
            started: Some(running && self.started),
            restart_count: self.restarts,
            state: Some(self.phase.api()),
            last_state: self
                .last
                .as_ref()
                .map(|ended| ApiState { terminated: Some(ended.api()), ..ApiState::default() }),
            ..ContainerStatus::default()
        }
    }
}

impl ContainerPhase {
    /// Waiting, with a reason and no message.
    pub fn waiting(reason: &str) -> Self {
        Self::Waiting { reason: reason.to_owned(), message: None }
    }

    fn api(&self) -> ApiState {
        match self {
            Self::Waiting { reason, message } => ApiState {
                waiting: Some(ContainerStateWaiting {
                    reason: Some(reason.clone()),
                    message: message.clone(),
                }),
                ..ApiState::default()
            },
            Self::Running { since, .. } => ApiState {
                running: Some(ContainerStateRunning { started_at: Some(seconds(*since)) }),
                ..ApiState::default()
            },
            Self::Terminated(ended) => ApiState { terminated: Some(ended.api()), ..ApiState::default() },
        }
    }
}

impl Ended {
    fn api(&self) -> ContainerStateTerminated {
        ContainerStateTerminated {
            container_id: Some(self.id.clone()),
            exit_code: self.code,
            reason: Some(self.reason.clone()),
            message: self.message.clone(),
            signal: None,
            started_at: Some(seconds(self.since)),
            finished_at: Some(seconds(self.until)),
        }
    }
}
