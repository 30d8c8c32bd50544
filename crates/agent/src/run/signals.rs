//! The signals of the container's first process. Its handlers come before everything else: the kernel drops a signal for PID 1 that has
//! no handler.

use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// The handlers.
pub(super) struct Signals {
    child: unix::Signal,
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hangup: unix::Signal,
    quit: unix::Signal,
    user1: unix::Signal,
    user2: unix::Signal,
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// A child may have ended.
    Child,
    /// SIGTERM or SIGINT: the container is to stop.
    Stop(Signal),
    /// Any other: for etcd.
    Other(Signal),
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Received {
        tokio::select! {
            _ = self.child.recv() => Received::Child,
            _ = self.terminate.recv() => Received::Stop(Signal::SIGTERM),
            _ = self.interrupt.recv() => Received::Stop(Signal::SIGINT),
            _ = self.hangup.recv() => Received::Other(Signal::SIGHUP),
            _ = self.quit.recv() => Received::Other(Signal::SIGQUIT),
            _ = self.user1.recv() => Received::Other(Signal::SIGUSR1),
            _ = self.user2.recv() => Received::Other(Signal::SIGUSR2),
        }
    }

    /// Waits until the container is to stop.
    pub(super) async fn stop(&mut self) -> Signal {
        loop {
            match self.next().await {
                Received::Stop(signal) => return signal,
                Received::Child | Received::Other(_) => {}
            }
        }
    }
}
