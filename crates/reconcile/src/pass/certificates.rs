//! The writes of `IssueCertificates`: first the authority, then the leaves it signs, in parallel. A Secret that exists is
//! used unchanged, so that after a crash the same authority signs the other leaves.

use k8s_openapi::api::core::v1::Secret;
use quorate_api::EtcdCluster;
use quorate_manifests::Write;
use quorate_manifests::certificate::{self, Certificate};
use quorate_model::{ClusterRef, Instant, Snapshot};

use super::write::{Owner, WriteEnd, WriteFailure, WriteRun};
use crate::command::{KeyPair, Reply, Task};
use crate::memory::Memory;
use crate::objects::Object;
use crate::reply::WriteError;

/// Certificates that are being issued.
#[derive(Clone, Debug)]
pub(super) struct Issue {
    cluster: EtcdCluster,
    at: ClusterRef,
    /// The authority that exists.
    authority: Option<KeyPair>,
    /// The authority, then the leaves; what exists already is left out. A command is named by its place.
    parts: Vec<Part>,
}

/// One certificate that is being issued.
#[derive(Clone, Debug)]
struct Part {
    certificate: Certificate,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// Its keys are to be generated.
    Missing,
    /// Its keys are being generated.
    Generating,
    /// Its Secret is to be created.
    Generated(KeyPair),
    /// Its Secret is being created.
    Creating(KeyPair, WriteRun),
    Ended(Result<(), WriteFailure>),
}

impl Issue {
    /// The certificates that are missing among these Secrets.
    pub(super) fn new(cluster: &EtcdCluster, snapshot: &Snapshot, secrets: &[&Secret]) -> Self {
        let (at, uid) = (&snapshot.cluster, &snapshot.uid);
        let missing = certificate::missing(secrets, at, uid);
        let kept = certificate::kept(Certificate::Authority, secrets, at, uid);
        let authority = kept.map(|kept| KeyPair { cert: text(kept.cert), key: text(kept.key) });
        let parts = missing.into_iter().map(|certificate| Part { certificate, state: State::Missing });
        Self { cluster: cluster.clone(), at: at.clone(), authority, parts: parts.collect() }
    }

    /// The next command that can be issued before further replies arrive, and its place.
    pub(super) fn next(&mut self) -> Option<(usize, Task)> {
        let place = (0..self.parts.len()).find(|place| self.upcoming_of(*place).is_some())?;
        let state = std::mem::replace(&mut self.parts[place].state, State::Generating);
        let certificate = self.parts[place].certificate;
        let task = match state {
            State::Missing => match (certificate.leaf(&self.at), &self.authority) {
                (Some(leaf), Some(authority)) => Task::NewLeaf { authority: authority.clone(), leaf },
                (Some(_) | None, _) => Task::NewAuthority { common_name: self.authority_name() },
            },
            State::Generated(pair) => {
                let write = self.secret(certificate, &pair);
                self.parts[place].state = State::Creating(pair, WriteRun::new(&write));
                Task::Write(write)
            }
            State::Creating(pair, mut run) => {
                let task = run.next();
                self.parts[place].state = State::Creating(pair, run);
                task?
            }
            ended @ (State::Generating | State::Ended(_)) => {
                self.parts[place].state = ended;
                return None;
            }
        };
        Some((place, task))
    }

    /// Whether the next command may change anything; `None` if none can be issued now.
    pub(super) fn upcoming(&self) -> Option<bool> {
        (0..self.parts.len()).find_map(|place| self.upcoming_of(place))
    }

    /// Takes a reply; the outcome once every certificate was issued or was not.
    pub(super) fn reply(
        &mut self,
        memory: &mut Memory,
        owner: Owner<'_>,
        place: usize,
        reply: Reply,
        now: Instant,
    ) -> Option<Result<(), WriteFailure>> {
        let part = self.parts.get_mut(place)?;
        match (&mut part.state, reply) {
            (State::Generating, Reply::Keys(Ok(pair))) => part.state = State::Generated(pair),
            (State::Generating, Reply::Keys(Err(why))) => {
                part.state =
                    State::Ended(Err(WriteFailure::new(WriteError::Invalid(why), "issue certificates")));
            }
            (State::Creating(pair, run), reply) => {
                let ended = match run.reply(memory, owner, reply, now)? {
                    WriteEnd::Done(object) => {
                        if part.certificate == Certificate::Authority {
                            self.authority = Some(existing(object.as_ref()).unwrap_or_else(|| pair.clone()));
                        }
                        Ok(())
                    }
                    WriteEnd::Failed(failure) => Err(failure),
                };
                part.state = State::Ended(ended);
            }
            (State::Missing | State::Generating | State::Generated(_) | State::Ended(_), _) => {}
        }
        self.outcome()
    }

    fn upcoming_of(&self, place: usize) -> Option<bool> {
        let Part { certificate, state } = &self.parts[place];
        match state {
            State::Missing => {
                (*certificate == Certificate::Authority || self.authority.is_some()).then_some(false)
            }
            State::Generated(_) => Some(true),
            State::Creating(_, run) => run.is_due().then_some(false),
            State::Generating | State::Ended(_) => None,
        }
    }

    fn outcome(&self) -> Option<Result<(), WriteFailure>> {
        let mut waits = false;
        let mut failed = None;
        for Part { state, .. } in &self.parts {
            match state {
                State::Ended(Err(failure)) => failed = failed.or(Some(failure)),
                State::Ended(Ok(())) => {}
                // Without an authority no leaf is begun.
                State::Missing => waits |= failed.is_none() || self.authority.is_some(),
                State::Generating | State::Generated(_) | State::Creating(..) => waits = true,
            }
        }
        (!waits).then(|| failed.map_or(Ok(()), |failure| Err(failure.clone())))
    }

    fn secret(&self, certificate: Certificate, pair: &KeyPair) -> Write {
        let signed_by = self.authority.as_ref().unwrap_or(pair);
        certificate::secret(&self.cluster, &self.at, certificate, &signed_by.cert, pair.borrowed())
    }

    fn authority_name(&self) -> String {
        let uid = self.cluster.metadata.uid.clone().unwrap_or_default();
        certificate::authority_name(&quorate_model::ClusterUid::new(uid))
    }
}

/// The certificate and key in a Secret that the API server replied with.
fn existing(object: Option<&Object>) -> Option<KeyPair> {
    let Some(Object::Secret(secret)) = object else { return None };
    let kept = certificate::kept_in(secret)?;
    Some(KeyPair { cert: text(kept.cert), key: text(kept.key) })
}

fn text(pem: &[u8]) -> String {
    String::from_utf8_lossy(pem).into_owned()
}
