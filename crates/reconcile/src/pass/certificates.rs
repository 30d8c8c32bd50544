//! The commands of one certificate: it is generated, then its Secret is written.

use quorate_manifests::Write;
use quorate_manifests::certificate::Order;
use quorate_model::Instant;

use super::write::{Owner, WriteEnd, WriteFailure, WriteRun};
use crate::command::{Reply, Task};
use crate::memory::Memory;
use crate::reply::WriteError;

/// A certificate that is being issued.
#[derive(Clone, Debug)]
pub(super) struct Issue {
    order: Box<Order>,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// It is being generated.
    Generating,
    /// Its Secret is to be written.
    Generated(Box<Write>),
    /// Its Secret is being written.
    Writing(WriteRun),
}

impl Issue {
    /// A certificate that is issued now, and the first command.
    pub(super) fn begin(order: Box<Order>) -> (Self, Task) {
        let task = Task::Generate(order.generate.clone());
        (Self { order, state: State::Generating }, task)
    }

    /// The next command, if one can be issued before further replies arrive.
    pub(super) fn next(&mut self) -> Option<Task> {
        match &mut self.state {
            State::Generating => None,
            State::Generated(write) => {
                let write = write.as_ref().clone();
                self.state = State::Writing(WriteRun::new(&write));
                Some(Task::Write(write))
            }
            State::Writing(run) => run.next(),
        }
    }

    /// Whether the next command may change anything; `None` if none can be issued now.
    pub(super) fn upcoming(&self) -> Option<bool> {
        match &self.state {
            State::Generating => None,
            State::Generated(_) => Some(true),
            State::Writing(run) => run.is_due().then_some(false),
        }
    }

    /// Takes a reply; the outcome once the Secret was written or was not.
    pub(super) fn reply(
        &mut self,
        memory: &mut Memory,
        owner: Owner<'_>,
        reply: Reply,
        now: Instant,
    ) -> Option<Result<(), WriteFailure>> {
        match (&mut self.state, reply) {
            (State::Generating, Reply::Keys(Ok(pair))) => {
                self.state = State::Generated(Box::new(self.order.write(&pair)));
                None
            }
            (State::Generating, Reply::Keys(Err(why))) => {
                let what = format!("generate the certificate of {}", self.order.object());
                Some(Err(WriteFailure::new(WriteError::Invalid(why), what)))
            }
            (State::Writing(run), reply) => match run.reply(memory, owner, reply, now)? {
                WriteEnd::Done(_) => Some(Ok(())),
                WriteEnd::Failed(failure) => Some(Err(failure)),
            },
            (State::Generating | State::Generated(_), _) => None,
        }
    }
}
