//! The Certificates of cert-manager, for a cluster whose spec has it issue certificates: kept as the spec wants them, and deleted once nothing rests on
//! them any more. What is issued comes back in Secrets, which the watch brings; here only what cert-manager says of it is read.
//!
//! None of its kinds is watched: cert-manager need not be installed. So they are read at the passes of such a cluster, and of no other one.

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

/// How many requests are read, of which the newest one of each Certificate says why it is not issued.
const REQUESTS: u32 = 200;

/// What was seen last.
#[derive(Debug, Default)]
pub(super) struct Issuance {
    /// Until when, and for which generation of the spec, all was as it should be.
    holds: Option<(Instant, Option<i64>, bool)>,
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
        let says = Kinds::new(shared, at).ask(cluster, auth).await;
        self.holds = says.is_none().then_some((now + HOLDS, spec.0, spec.1));
        let waits = says.is_some().then_some(Outcome::Degraded);
        if memory.set_issuer_says(says) { Some(Outcome::Waiting) } else { waits }
    }
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
    async fn ask(&self, cluster: &EtcdCluster, auth: bool) -> Option<String> {
        let mut waiting = Vec::new();
        for leaf in cert_manager::leaves(auth) {
            match self.keep(cluster, leaf).await {
                Ok(found) => waiting.push(found),
                Err(why) => return Some(why),
            }
        }
        waiting.iter().find_map(|found| cert_manager::says(self.at, found, &[]))?;
        let how = ListParams::default().limit(REQUESTS);
        let requests = reply(timeout(WRITE_DEADLINE, self.requests.list(&how)).await);
        let requests: Vec<Value> =
            requests.map(|list| list.items).unwrap_or_default().iter().map(|one| json!(one)).collect();
        waiting.iter().find_map(|found| cert_manager::says(self.at, found, &requests))
    }

    /// I5. The Certificate as it is then.
    async fn keep(&self, cluster: &EtcdCluster, leaf: Leaf) -> Result<Value, String> {
        let name = cert_manager::name(leaf, self.at);
        let found = reply(timeout(WRITE_DEADLINE, self.certificates.get_opt(&name)).await);
        let found = found.map_err(|error| self.failed("read", &name, &error))?.map(|found| json!(found));
        let taken =
            |name: String| format!("{name} exists and is not owned by this EtcdCluster. Delete or rename it");
        let act = cert_manager::act(cluster, self.at, leaf, found.as_ref()).map_err(taken)?;
        let written = match act {
            None => return Ok(found.unwrap_or_default()),
            Some(Act::Create(object)) => {
                let object: DynamicObject = serde_json::from_value(object)
                    .map_err(|error| format!("Certificate {name} cannot be written: {error}"))?;
                let how = PostParams::default();
                write_at(&self.shared.runtime, Step::I5, self.certificates.create(&how, &object)).await
            }
            Some(Act::Patch(patch)) => {
                let (how, patch) = (PatchParams::default(), Patch::Merge(patch));
                write_at(&self.shared.runtime, Step::I5, self.certificates.patch(&name, &how, &patch)).await
            }
        };
        written.map(|object| json!(object)).map_err(|error| self.failed("written", &name, &error))
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
