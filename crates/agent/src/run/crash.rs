//! The steps of a container's life, as `docs/protocols/pod.md` numbers them, and the crash points of the tests: the agent aborts
//! right after a step.

use std::process;

use clap::ValueEnum;

/// A step of a start (A1 to A7), of a stop (A8 to A12), of a restore between A1 and A2 (A13 to A18), or of a recovery
/// (A19 to A23).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "verbatim")]
pub enum AgentStep {
    /// Signals are handled, and the port of the probe is taken.
    A1,
    /// The guard found the volume fit, and its identity file is written.
    A2,
    /// The canary writes.
    A3,
    /// The search for data, which sets the Pod's marker, has begun.
    A4,
    /// etcd was forked.
    A5,
    /// The probe answers.
    A6,
    /// There are data, and the Pod's marker is set.
    A7,
    /// The stop was asked for.
    A8,
    /// Another member leads, or the attempt to move leadership is over.
    A9,
    /// Clients have stopped coming.
    A10,
    /// The signal was passed on to etcd.
    A11,
    /// etcd has ended.
    A12,
    /// In the init container `fetch`: the guard found the volume fit for a restore, and what an earlier try has left is deleted.
    A13,
    /// The same: the snapshot was downloaded, verified and unpacked, with a note of what it is.
    A14,
    /// etcdutl has made a data directory of it, and all of that is synced.
    A15,
    /// The marker is written.
    A16,
    /// The data directory has its name.
    A17,
    /// The scratch directory is deleted.
    A18,
    /// Of a recovery: the data are those that were chosen, nothing else has them open, and what an earlier try has left is deleted.
    A19,
    /// The copy of the data is whole.
    A20,
    /// etcd serves the copy, as a cluster of one member.
    A21,
    /// The snapshot of it is on the volume, with its manifest.
    A22,
    /// The copy is deleted.
    A23,
}

impl AgentStep {
    /// Every step, in order.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }
}

/// The step after which the agent aborts, in a test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrashAt(pub(crate) Option<AgentStep>);

impl CrashAt {
    /// A step is done.
    pub(crate) fn after(self, step: AgentStep) {
        if self.0 == Some(step) {
            eprintln!("crash point {step:?}: aborting, as --crash-at asks");
            process::abort();
        }
    }
}
