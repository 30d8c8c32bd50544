//! The Certificates of cert-manager, for a cluster whose spec has it issue certificates: kept as the spec wants them, and deleted once nothing rests on
//! them any more. What is issued comes back in Secrets, which the watch brings; here only what cert-manager says of it is read.
//!
//! None of its kinds is watched: cert-manager need not be installed. So they are read at the passes of such a cluster, and of no other one.

use std::collections::BTreeMap;

use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use quorate_api::EtcdCluster;
use quorate_manifests::cert_manager::{self, Act};
use quorate_model::{ClusterRef, Instant, Leaf, Span, Step};
use quorate_reconcile::{Memory, Pass, WriteError};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Shared;
use crate::runtime::lease::WRITE_DEADLINE;
use crate::runtime::pace::Outcome;
use crate::runtime::write::{reply, write_at};

/// How long a Certificate that is issued and as it should be is not read again. An edit of the spec ends it.
const HOLDS: Span = Span::seconds(60);

/// The longest pause before a Certificate is put right again that somebody changes back.
const LONGEST: Span = Span::seconds(3600);

/// How many requests are read, of which the newest one of each Certificate says why it is not issued.
const REQUESTS: u32 = 200;

/// What was seen last.
#[derive(Debug, Default)]
pub(super) struct Issuance {
    /// Until when, and for which generation of the spec, all was as it should be.
    holds: Option<(Instant, Option<i64>, bool)>,
    /// The Certificates that were put right, and were not seen as they should be since.
    put_right: BTreeMap<Leaf, PutRight>,
}

/// How often in a row a Certificate was put right, for this generation of the spec.
#[derive(Clone, Copy, Debug)]
struct PutRight {
    times: u32,
    generation: Option<i64>,
    /// When it may be once more: a policy that changes what is written does so each time.
    next: Instant,
}

impl Issuance {
    /// Keeps the Certificates of the cluster that the pass has seen; when to look again. `None` if it has none.
    pub(super) async fn keep(
        &mut self,
        shared: &Shared,
        pass: &Pass,
        memory: &mut Memory,
    ) -> Option<Outcome> {
        let planned = pass.planned()?;
        let cluster = planned.cluster.0.as_ref().ok()?;
        let at = &planned.snapshot.cluster;
        if planned.snapshot.paused || planned.snapshot.newer_status.is_some() {
            return None;
        }
        let is_issued = |leaf| planned.view.secrets.contains_key(&cert_manager::secret_name(leaf, at));
        if !cert_manager::is_wanted(cluster) {
            memory.set_issuer_says(None);
            // Of most clusters there is nothing.
            let left = cert_manager::leaves(true).filter(|leaf| is_issued(*leaf));
            for leaf in left.filter(|_| cert_manager::is_left(cluster)) {
                if let Err(error) = Kinds::new(shared, at).remove(cluster, leaf).await {
                    tracing::warn!(%error, %leaf, "the Certificate of cert-manager is not deleted");
                    return Some(error.retry().into());
                }
            }
            return None;
        }
        let auth = planned.snapshot.record.has_credential() || planned.snapshot.auth_policy.wanted;
        let now = shared.runtime.clock.now();
        let spec = (cluster.metadata.generation, auth);
        if self.holds.is_some_and(|(until, generation, auth)| now < until && (generation, auth) == spec) {
            return None;
        }
        let kinds = Kinds::new(shared, at);
        if !auth && let Err(error) = kinds.remove(cluster, Leaf::Operator).await {
            // Nothing rests on it. A copy of what was issued stays for Pods that still mount it.
            tracing::warn!(%error, "the Certificate of etcd's user root is not deleted");
        }
        let says = kinds.ask(cluster, auth, (&mut self.put_right, now)).await;
        let waits = says.as_ref().is_some_and(|says| says.soon);
        self.holds = (!waits).then_some((now + HOLDS, spec.0, spec.1));
        let (says, waits) = (says.map(|says| says.text), waits.then_some(Outcome::Degraded));
        if memory.set_issuer_says(says) { Some(Outcome::Waiting) } else { waits }
    }
}

/// What is to be told of the Certificates.
struct Says {
    text: String,
    /// It may end soon.
    soon: bool,
}

/// cert-manager's kinds in the namespace of a cluster.
struct Kinds<'a> {
    shared: &'a Shared,
    at: &'a ClusterRef,
    certificates: Api<DynamicObject>,
    requests: Api<DynamicObject>,
}

impl<'a> Kinds<'a> {
    fn new(shared: &'a Shared, at: &'a ClusterRef) -> Self {
        let api = |kind: &str, plural: &str| {
            let kind = GroupVersionKind::gvk(cert_manager::GROUP, cert_manager::VERSION, kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, plural);
            Api::namespaced_with(shared.runtime.client.clone(), &at.namespace, &resource)
        };
        Self {
            shared,
            at,
            certificates: api("Certificate", "certificates"),
            requests: api("CertificateRequest", "certificaterequests"),
        }
    }

    /// Asks for every certificate; why one of them is not issued.
    async fn ask(
        &self,
        cluster: &EtcdCluster,
        auth: bool,
        (put_right, now): (&mut BTreeMap<Leaf, PutRight>, Instant),
    ) -> Option<Says> {
        let soon = |text: String| Says { text, soon: true };
        let (mut waiting, mut changed) = (Vec::new(), None);
        for leaf in cert_manager::leaves(auth) {
            let before = put_right.get(&leaf).copied();
            match self.keep(cluster, leaf, before, now).await {
                Ok((found, of_leaf)) => {
                    changed = changed.or_else(|| self.changed(cluster, leaf, &found, of_leaf));
                    match of_leaf {
                        Some(of_leaf) => put_right.insert(leaf, of_leaf),
                        None => put_right.remove(&leaf),
                    };
                    waiting.push(found);
                }
                Err(why) => return Some(soon(why)),
            }
        }
        let not_issued = self.not_issued(&waiting).await.map(soon);
        not_issued.or_else(|| Some(Says { text: changed?, soon: false }))
    }

    /// That somebody changes what the operator writes, if it is so.
    fn changed(
        &self,
        cluster: &EtcdCluster,
        leaf: Leaf,
        found: &Value,
        put_right: Option<PutRight>,
    ) -> Option<String> {
        let again = put_right.filter(|put_right| put_right.times > 1)?;
        let differs = cert_manager::differences(cluster, self.at, leaf, found).join(", ");
        (!differs.is_empty()).then(|| {
            format!(
                "Certificate {}/{} is changed whenever the operator writes it ({differs}), {} times by now: look for a policy that does, and \
                 except it. It is written again after growing pauses, an hour at most, and at once after an edit of spec.tls",
                self.at.namespace,
                cert_manager::name(leaf, self.at),
                again.times
            )
        })
    }

    /// Why one of these is not issued.
    async fn not_issued(&self, waiting: &[Value]) -> Option<String> {
        waiting.iter().find_map(|found| cert_manager::says(self.at, found, &[]))?;
        let how = ListParams::default().limit(REQUESTS);
        let requests = reply(timeout(WRITE_DEADLINE, self.requests.list(&how)).await);
        let requests: Vec<Value> =
            requests.map(|list| list.items).unwrap_or_default().iter().map(|one| json!(one)).collect();
        waiting.iter().find_map(|found| cert_manager::says(self.at, found, &requests))
    }

    /// I5. The Certificate as it was found, or as it is created; and how often it was put right, if it is not as it should be.
    async fn keep(
        &self,
        cluster: &EtcdCluster,
        leaf: Leaf,
        before: Option<PutRight>,
        now: Instant,
    ) -> Result<(Value, Option<PutRight>), String> {
        let name = cert_manager::name(leaf, self.at);
        let found = reply(timeout(WRITE_DEADLINE, self.certificates.get_opt(&name)).await);
        let found = found.map_err(|error| self.failed("read", &name, &error))?.map(|found| json!(found));
        let taken =
            |name: String| format!("{name} exists and is not owned by this EtcdCluster. Delete or rename it");
        let act = cert_manager::act(cluster, self.at, leaf, found.as_ref()).map_err(taken)?;
        let generation = cluster.metadata.generation;
        let before = before.filter(|before| before.generation == generation);
        let mut put_right = None;
        let written = match act {
            None => return Ok((found.unwrap_or_default(), None)),
            Some(Act::Patch(_)) if before.is_some_and(|before| now < before.next) => {
                return Ok((found.unwrap_or_default(), before));
            }
            Some(Act::Create(object)) => {
                let object: DynamicObject = serde_json::from_value(object)
                    .map_err(|error| format!("Certificate {name} cannot be written: {error}"))?;
                let how = PostParams::default();
                write_at(&self.shared.runtime, Step::I5, self.certificates.create(&how, &object)).await
            }
            Some(Act::Patch(patch)) => {
                let times = before.map_or(0, |before| before.times) + 1;
                let pause = HOLDS.0.saturating_mul(2_u64.saturating_pow(times - 1)).min(LONGEST.0);
                put_right = Some(PutRight { times, generation, next: now + Span(pause) });
                let (how, patch) = (PatchParams::default(), Patch::Merge(patch));
                write_at(&self.shared.runtime, Step::I5, self.certificates.patch(&name, &how, &patch)).await
            }
        };
        // What was found shows what was changed. The reply has that only where it was changed on its way.
        let written = written.map(|object| found.unwrap_or_else(|| json!(object)));
        written.map(|seen| (seen, put_right)).map_err(|error| self.failed("written", &name, &error))
    }

    /// I6: the Certificate, then the Secret that cert-manager kept for it, which nobody renews any more.
    #[expect(clippy::disallowed_methods, reason = "with uid and resourceVersion")]
    async fn remove(&self, cluster: &EtcdCluster, leaf: Leaf) -> Result<(), WriteError> {
        let name = cert_manager::name(leaf, self.at);
        let found = reply(timeout(WRITE_DEADLINE, self.certificates.get_opt(&name)).await)?;
        if let Some(found) = found {
            if !cert_manager::is_owned(cluster, &json!(found)) {
                return Ok(());
            }
            let how = preconditioned(&found.metadata);
            return write_at(&self.shared.runtime, Step::I6, self.certificates.delete(&name, &how))
                .await
                .map(drop);
        }
        let secrets: Api<k8s_openapi::api::core::v1::Secret> =
            Api::namespaced(self.shared.runtime.client.clone(), &self.at.namespace);
        let name_of_secret = cert_manager::secret_name(leaf, self.at);
        let secret = reply(timeout(WRITE_DEADLINE, secrets.get_opt(&name_of_secret)).await)?;
        let annotations = secret.as_ref().and_then(|secret| secret.metadata.annotations.as_ref());
        let of = annotations.and_then(|all| all.get(cert_manager::CERTIFICATE_NAME));
        if let Some(secret) = secret.as_ref().filter(|_| of == Some(&name)) {
            let how = preconditioned(&secret.metadata);
            write_at(&self.shared.runtime, Step::I6, secrets.delete(&name_of_secret, &how)).await?;
        }
        Ok(())
    }

    fn failed(&self, what: &str, name: &str, error: &WriteError) -> String {
        if matches!(error, WriteError::Missing(_)) {
            return "cert-manager is not installed in this Kubernetes: there is no kind Certificate of cert-manager.io/v1"
                .to_owned();
        }
        format!("Certificate {}/{name} cannot be {what}: {error}", self.at.namespace)
    }
}

fn preconditioned(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> DeleteParams {
    let preconditions =
        Preconditions { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}
