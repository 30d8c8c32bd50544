//! The built-in controllers that matter. Each is a pure function from the objects to the writes that it wants.
//!
//! [`run`] executes them at every change. A test steps through them itself: a [`ControlPlane`] pass by pass, or
//! [`Controller::step`] and [`Action::apply`] one by one.

mod action;
pub mod disruption;
mod endpoints;
mod expiry;
mod garbage;
mod jobs;
mod labelled;
mod namespaces;
mod plane;
mod scheduler;
mod view;
mod volumes;

use jiff::Timestamp;

pub use action::Action;
pub use plane::{ControlPlane, run};
pub use view::{Kind, View, kinds};

/// A controller of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Phases and deletion of namespaces.
    Namespaces,
    /// Owner references.
    Garbage,
    /// PersistentVolumeClaims and PersistentVolumes.
    Volumes,
    /// Jobs and their Pods.
    Jobs,
    /// Pods without a node.
    Scheduler,
    /// Endpoints and EndpointSlices.
    Endpoints,
    /// PodDisruptionBudgets.
    Disruption,
    /// Expired events.
    Expiry,
}

impl Controller {
    /// All of them, in the order in which they run.
    pub const ALL: [Self; 8] = [
        Self::Namespaces,
        Self::Garbage,
        Self::Volumes,
        Self::Jobs,
        Self::Scheduler,
        Self::Endpoints,
        Self::Disruption,
        Self::Expiry,
    ];

    /// The writes that this controller wants.
    pub fn step(self, view: &View, now: Timestamp) -> Vec<Action> {
        match self {
            Self::Namespaces => namespaces::step(view),
            Self::Garbage => garbage::step(view),
            Self::Volumes => volumes::step(view),
            Self::Jobs => jobs::step(view, now),
            Self::Scheduler => scheduler::step(view, now),
            Self::Endpoints => endpoints::step(view),
            Self::Disruption => disruption::step(view, now),
            Self::Expiry => expiry::step(view, now),
        }
    }
}
