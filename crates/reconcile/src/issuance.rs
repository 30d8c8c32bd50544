//! What is known of the Certificates of cert-manager. No watch shows them, since cert-manager need not be installed. So they are read in the passes of
//! a cluster that asks for them, and of no other one, and for a while not again once all are as they should be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_api::EtcdCluster;
use quorate_manifests::cert_manager::{self, Certificate, Read};
use quorate_manifests::{Kind, target};
use quorate_model::snapshot::SeenCertificate;
use quorate_model::{Backoff, ClusterRef, DeletedObject, Instant, KubeEffect, Leaf, Snapshot, Span};
use serde_json::Value;

use crate::command::Task;
use crate::objects::{ClusterView, Object};
use crate::reply::WriteError;

/// How long Certificates that are issued and as they should be are not read again. An edit of the spec ends it.
const HOLDS: Span = Span::seconds(60);

/// The pauses before a Certificate is put right again that somebody changes back. An edit of the spec ends them.
const PAUSES: Backoff = Backoff { first: HOLDS, longest: Span::seconds(3600) };

/// What is kept of it from pass to pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Issuing {
    read: Read,
    /// Until when, and for which spec, all was as it should be.
    holds: Option<(Instant, Spec)>,
    /// The Certificates that were put right, and were not seen as they should be since.
    put_right: BTreeMap<Leaf, Tried>,
    /// Those that were read since they were written last: a reply shows what was written, and not what becomes of it.
    read_since: BTreeSet<Leaf>,
    /// Those that were to be issued anew.
    anew: BTreeMap<Leaf, Tried>,
    /// Until when nothing is created, as the API server had no such kind the last time.
    missing_until: Option<Instant>,
}

/// Which spec: its generation, and whether auth is on or being switched on.
type Spec = (Option<i64>, bool);

/// How often in a row something was done.
#[derive(Clone, Copy, Debug)]
struct Tried {
    times: u32,
    generation: Option<i64>,
    /// When it may be once more: a policy that changes what is written does so each time, and an issuer may have another authority each time.
    next: Instant,
}

impl Issuing {
    /// The reads that a pass begins with.
    pub(crate) fn to_read(
        &self,
        view: &ClusterView,
        cluster: &EtcdCluster,
        at: &ClusterRef,
        now: Instant,
    ) -> Vec<Task> {
        // Of most clusters there is nothing, and to read the accepted spec takes its time.
        let recorded = cluster.status.as_ref().and_then(|status| status.accepted_spec.as_ref());
        let has_secret = |leaf| view.secrets.contains_key(&cert_manager::secret_name(leaf, at));
        let is_concerned = cert_manager::is_wanted(cluster)
            || recorded.is_some_and(|spec| spec.contains("cert-manager"))
            || !self.read.certificates.is_empty()
            || cert_manager::leaves(true).any(has_secret);
        if !is_concerned {
            return Vec::new();
        }
        let accepted = target::accepted(cluster);
        let is_wanted = cert_manager::is_wanted(cluster) || cert_manager::is_wanted(&accepted);
        let holds = self.holds.is_some_and(|(until, spec)| now < until && spec == of(cluster));
        let is_left = |leaf: Leaf| {
            let secret = view.secrets.get(&cert_manager::secret_name(leaf, at));
            let is_issued = secret.is_some_and(|secret| cert_manager::is_issued(secret, leaf, at));
            let is_known = self.read.certificates.get(&leaf).is_some_and(Option::is_some);
            (is_issued || is_known) && cert_manager::is_left(&accepted)
        };
        let leaves = cert_manager::leaves(true);
        let leaves = leaves.filter(|leaf| if is_wanted { !holds } else { is_left(*leaf) });
        leaves
            .flat_map(|leaf| {
                let certificate = Task::Read { kind: Kind::Certificate, name: cert_manager::name(leaf, at) };
                // It has the label of the cluster where cert-manager wrote it for this one.
                let secret = cert_manager::secret_name(leaf, at);
                let is_seen = view.secrets.contains_key(&secret);
                let secret = (!is_seen).then_some(Task::Read { kind: Kind::Secret, name: secret });
                [Some(certificate), secret]
            })
            .flatten()
            .collect()
    }

    /// Takes what was read, if it is about one of them. Returns whether it is.
    pub(crate) fn take(&mut self, kind: Kind, name: &str, read: &Result<Option<Object>, WriteError>) -> bool {
        let Some(leaf) = cert_manager::leaf_called(kind, name) else { return false };
        match read {
            Ok(Some(Object::Secret(secret))) => {
                self.read.failures.remove(&(kind, leaf));
                self.read.secrets.insert(leaf, secret.clone());
            }
            Ok(None) if kind == Kind::Secret => {
                self.read.failures.remove(&(kind, leaf));
                self.read.secrets.remove(&leaf);
            }
            Ok(Some(Object::Certificate(found))) => {
                self.found(leaf, Some(found.clone()));
                self.read_since.insert(leaf);
            }
            Ok(None) => self.found(leaf, None),
            Ok(Some(
                Object::Cluster(_)
                | Object::Pod(_)
                | Object::Volume(_)
                | Object::Service(_)
                | Object::Budget(_)
                | Object::NetworkPolicy(_)
                | Object::Backup(_),
            )) => {}
            // Whether somebody has one of both names is not known, so nothing is asked.
            Err(error) => {
                self.read.failures.insert((kind, leaf), format!("cannot be read: {error}"));
            }
        }
        true
    }

    /// Takes the requests of the namespace.
    pub(crate) fn take_requests(&mut self, requests: Vec<Value>) {
        self.read.requests = requests;
    }

    /// Whether the requests of the namespace may say why something is not issued.
    pub(crate) fn asks_why(&self, snapshot: &Snapshot) -> bool {
        cert_manager::waits(&snapshot.issuance, &self.read)
    }

    /// Adds what is known to the snapshot, for the spec that was accepted (R26).
    pub(crate) fn add_to(
        &mut self,
        snapshot: &mut Snapshot,
        cluster: &EtcdCluster,
        view: &ClusterView,
        now: Instant,
    ) {
        let auth = snapshot.record.has_credential() || snapshot.auth_policy.wanted;
        let at = &snapshot.cluster;
        self.read.is_missing = self.missing_until.is_some();
        let seen = cert_manager::observe(cluster, (at, &snapshot.uid), auth, &view.secrets, &self.read);
        let (mut issuance, mut says) = (seen.issuance, seen.says);
        let generation = cluster.metadata.generation;
        for (leaf, one) in &mut issuance.leaves {
            let is_right = matches!(one.certificate, SeenCertificate::Own { matches: true, .. });
            if is_right {
                self.read.refusals.remove(leaf);
            }
            if is_right && self.read_since.contains(leaf) {
                self.put_right.remove(leaf);
            }
            let tried = if is_right { self.anew.get(leaf) } else { self.put_right.get(leaf) };
            let tried = tried.filter(|tried| tried.generation == generation);
            one.not_before = match one.certificate {
                SeenCertificate::Absent => self.missing_until,
                SeenCertificate::Own { .. } => tried.map(|tried| tried.next),
                SeenCertificate::Unread | SeenCertificate::Foreign => None,
            };
            let again = tried.filter(|tried| tried.times > 1 && one.asked.is_some() && !is_right);
            let found = self.read.certificates.get(leaf).and_then(Option::as_deref);
            if let (Some(tried), Some(found), None) = (again, found, &says) {
                says = Some(cert_manager::changed(cluster, at, *leaf, found, tried.times));
            }
        }
        let is_asked = issuance.leaves.values().any(|one| one.asked.is_some());
        let settles = is_asked && !issuance.is_pending;
        if !settles {
            self.holds = None;
        } else if self.holds.is_none_or(|(until, spec)| now >= until || spec != of(cluster)) {
            self.holds = Some((now + HOLDS, of(cluster)));
        }
        if let (Some(given), Some(says)) =
            (snapshot.certificates.as_mut().and_then(|own| own.given.as_mut()), &says)
        {
            given.see_issuer(says);
        }
        snapshot.issuance = issuance;
    }

    /// Takes how an effect ended.
    pub(crate) fn ended(
        &mut self,
        effect: &KubeEffect,
        result: Result<(), Option<&WriteError>>,
        generation: Option<i64>,
        now: Instant,
    ) {
        if let KubeEffect::ChangeCertificate { leaf, .. } | KubeEffect::CreateCertificate { leaf, .. } =
            effect
        {
            let why = result.err().flatten();
            match why {
                // It was not there, so the API server has no such kind.
                Some(WriteError::Missing(_)) => self.missing_until = Some(now + HOLDS),
                Some(WriteError::Invalid(_) | WriteError::Forbidden(_) | WriteError::Unknown(_)) => {
                    let why = why.map(|why| format!("cannot be written: {why}"));
                    self.read.refusals.extend(why.map(|why| (*leaf, why)));
                }
                // What it is now is read by the next pass.
                Some(
                    WriteError::NotLeading
                    | WriteError::Outdated
                    | WriteError::Exists
                    | WriteError::Changed(_)
                    | WriteError::Blocked(_)
                    | WriteError::Throttled(..),
                )
                | None => {
                    self.missing_until = None;
                    self.read.refusals.remove(leaf);
                }
            }
        }
        if result.is_err() {
            return;
        }
        if let KubeEffect::ChangeCertificate { leaf, .. } = effect {
            tried(&mut self.put_right, *leaf, generation, now);
        }
        if let KubeEffect::Delete { object: DeletedObject::Issued(leaf), .. } = effect {
            self.read.secrets.remove(leaf);
            tried(&mut self.anew, *leaf, generation, now);
        }
    }

    /// It is there like this, as the API server replied.
    pub(crate) fn exists(&mut self, found: &Arc<Certificate>) {
        let name = found.metadata.name.as_deref().unwrap_or_default();
        if let Some(leaf) = cert_manager::leaf_called(Kind::Certificate, name) {
            self.found(leaf, Some(found.clone()));
            self.read_since.remove(&leaf);
        }
    }

    /// It is not there.
    pub(crate) fn missing(&mut self, name: &str) {
        if let Some(leaf) = cert_manager::leaf_called(Kind::Certificate, name) {
            self.found(leaf, None);
        }
    }

    fn found(&mut self, leaf: Leaf, found: Option<Arc<Certificate>>) {
        if found.is_some() {
            self.missing_until = None;
        }
        self.read.failures.remove(&(Kind::Certificate, leaf));
        self.read.certificates.insert(leaf, found);
    }
}

fn of(cluster: &EtcdCluster) -> Spec {
    (cluster.metadata.generation, cluster.status.as_ref().is_some_and(|status| status.auth.is_some()))
}

/// It was done once more.
fn tried(all: &mut BTreeMap<Leaf, Tried>, leaf: Leaf, generation: Option<i64>, now: Instant) {
    let before = all.get(&leaf).filter(|before| before.generation == generation);
    let times = before.map_or(0, |before| before.times) + 1;
    all.insert(leaf, Tried { times, generation, next: now + PAUSES.after(times) });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replies arrive in any order.
    #[test]
    fn where_a_certificate_or_its_secret_could_not_be_read_nothing_is_known_to_be_free() {
        let cluster: EtcdCluster = serde_json::from_value(serde_json::json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
            "metadata": { "name": "demo", "namespace": "default", "uid": "u-1" },
            "spec": { "size": 1, "version": "3.6.16", "tls": { "provider": "cert-manager", "providerCfg": { "certManagerCfg": {
                "issuerKind": "Issuer", "issuerName": "ca",
            } } } },
        }))
        .unwrap();
        let (at, uid) = (ClusterRef::new("default", "demo"), quorate_model::ClusterUid::new("u-1"));
        let failed = || Err(WriteError::Unknown("no answer".to_owned()));
        let mut issuing = Issuing::default();
        let certificate = |issuing: &Issuing| {
            let seen = cert_manager::observe(&cluster, (&at, &uid), false, &BTreeMap::new(), &issuing.read);
            seen.issuance.leaves[&Leaf::Server].certificate.clone()
        };
        let names = [(Kind::Certificate, "demo-server"), (Kind::Secret, "demo-server-issued")];
        for (fails, free) in [(names[0], names[1]), (names[1], names[0])] {
            for order in [[fails, free], [free, fails]] {
                for (kind, name) in order {
                    let read = if kind == fails.0 { failed() } else { Ok(None) };
                    assert!(issuing.take(kind, name, &read));
                }
                assert_eq!(certificate(&issuing), SeenCertificate::Unread, "{order:?}");
            }
            assert!(issuing.take(fails.0, fails.1, &Ok(None)));
            assert_eq!(certificate(&issuing), SeenCertificate::Absent);
        }
    }
}
