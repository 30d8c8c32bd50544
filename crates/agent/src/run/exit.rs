//! How `agent run` ends: the exit code of the container.
//!
//! | code | what happened | termination message |
//! |---|---|---|
//! | [`STOPPED`] (0) | a SIGTERM or SIGINT was passed on to etcd, and etcd ended by it | empty |
//! | [`REFUSED`] (64) | the guard refused the volume, and etcd was not started; or etcd ended by itself and is older than its data | the verdict as JSON: [`Report`](crate::guard::Report) |
//! | [`NOT_STARTED`] (65) | the agent could not do its part: flags, port, program | empty; the last line of the log says why |
//! | [`NOT_RESTORED`] (66) | the restore failed; etcd was not started | the failure as JSON: [`Answer`](quorate_api::job::Answer) |
//! | 128 + n | signal n ended etcd, and the agent had not passed it on | empty |
//! | any other | etcd ended by itself with this code | empty; etcd's last lines say why |
//!
//! An empty message makes the kubelet show the end of the log (`FallbackToLogsOnError`). So the agent writes nothing after etcd
//! failed, unless names do not resolve: the last words are etcd's.

use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;

/// etcd ended by a signal that was passed on.
pub const STOPPED: u8 = 0;
/// The guard refused to start etcd, or etcd refused its data because it is older.
pub const REFUSED: u8 = 64;
/// The agent could not start etcd.
pub const NOT_STARTED: u8 = 65;
/// The snapshot could not be restored; etcd was not started.
pub const NOT_RESTORED: u8 = 66;

/// The exit code for the end of etcd. `passed_on`: the signal that was passed on to it, if one was.
pub(super) fn code(end: WaitStatus, passed_on: Option<Signal>) -> u8 {
    match end {
        WaitStatus::Exited(_, code) => u8::try_from(code).unwrap_or(u8::MAX),
        WaitStatus::Signaled(_, signal, _) if passed_on == Some(signal) => STOPPED,
        WaitStatus::Signaled(_, signal, _) => 128_u8.saturating_add(u8::try_from(signal as i32).unwrap_or(0)),
        other => unreachable!("waitpid without WUNTRACED reports only ends, not {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::Pid;

    use super::*;

    #[test]
    fn only_an_end_by_the_signal_that_was_passed_on_is_a_stop() {
        let pid = Pid::from_raw(7);
        let by = |signal| WaitStatus::Signaled(pid, signal, false);
        assert_eq!(code(by(Signal::SIGTERM), Some(Signal::SIGTERM)), STOPPED);
        assert_eq!(code(by(Signal::SIGTERM), None), 143);
        assert_eq!(code(by(Signal::SIGKILL), Some(Signal::SIGTERM)), 137);
        assert_eq!(code(WaitStatus::Exited(pid, 0), None), 0);
        assert_eq!(code(WaitStatus::Exited(pid, 2), Some(Signal::SIGTERM)), 2);
    }
}
