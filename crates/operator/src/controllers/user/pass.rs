//! The worker of one EtcdUser: it reads the caches, asks etcd where that is due, asks `decide`, and writes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use quorate_api::user::EtcdUserStatus;
use quorate_api::{ConditionType, EtcdCluster, EtcdUser, Explanation, Reason, conditions, keys};
use quorate_etcd::{CallError, MemberClient};
use quorate_manifests::user::{self as secrets, Own, Presence, Signer};
use quorate_manifests::{Act as Writing, Write, certificate};
use quorate_model::crash_point::CrashSide;
use quorate_model::{ClusterRef, Instant, Span, Step};
use quorate_orders::user::{Act, Decision, Etcd, Seen, asks_etcd, decide};
use quorate_reconcile::WriteError;

use super::{UserController, etcd};
use crate::controllers::desk::{Clerk, Desk, Owned};
use crate::controllers::tls;
use crate::runtime::controller::Pass;
use crate::runtime::pace::Outcome;
use crate::runtime::watch::{NamespacedName, chain};

/// How long what etcd said of a user that is as it should be holds, by half of it more for some: each look is a few raft entries.
const HOLDS: Span = Span::seconds(240);

/// The same of one that waits for a person.
const HOLDS_STALLED: Span = Span::seconds(60);

/// Works on one EtcdUser.
pub(crate) struct UserWorker {
    controller: UserController,
    desk: Desk<EtcdUser>,
    looked: Option<Looked>,
}

/// What etcd said at a look, and of what it was asked.
struct Looked {
    until: Instant,
    about: (Option<i64>, Option<String>),
    etcd: Etcd,
}

/// Why an act was not done.
enum Undone {
    /// By the API server.
    Write(WriteError),
    /// By etcd, or the operator does not lead.
    Etcd(String),
    /// No certificate could be generated.
    Keys(String),
}

impl From<WriteError> for Undone {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl Clerk for UserWorker {
    type Kind = EtcdUser;

    fn desk(&mut self) -> &mut Desk<EtcdUser> {
        &mut self.desk
    }

    fn beside(&self) -> u64 {
        self.controller.secrets.get(&self.desk.root).seen
    }

    async fn work(&mut self, user: &EtcdUser) -> Pass {
        Pass::Ended(self.go_on(user).await)
    }
}

impl UserWorker {
    pub(super) fn new(controller: UserController, root: &NamespacedName) -> Self {
        let desk = Desk::new(&controller.runtime, root, &controller.kinds.users, Owned::default());
        Self { controller, desk, looked: None }
    }

    async fn go_on(&mut self, user: &EtcdUser) -> Outcome {
        let at = NamespacedName::new(&self.desk.root.namespace, &user.spec.cluster);
        let cluster = self.controller.kinds.cluster(&at.namespace, &at.name);
        if cluster.as_ref().is_some_and(|cluster| cluster.0.is_err()) {
            // It is there, and a newer operator wrote it: nothing is known of it, least of all that it is gone.
            return Outcome::Degraded;
        }
        let cluster = cluster.as_ref().and_then(|cluster| cluster.0.as_ref().ok());
        let certificates: Vec<Arc<Secret>> =
            self.controller.certificates.get(&at).objects.into_values().collect();
        let certificates: Vec<&Secret> = certificates.iter().map(AsRef::as_ref).collect();
        let (etcd, client) = self.look(user, cluster, &certificates, &at).await;
        let found = match self.secret(user, &etcd).await {
            Ok(found) => found,
            Err(error) => return self.desk.stopped(user, &error),
        };
        let now = self.controller.runtime.clock.now();
        let of_cluster = ClusterRef::new(&at.namespace, &at.name);
        let signer = cluster.map(|cluster| secrets::signer(cluster, &of_cluster, &certificates));
        let not_yet = secrets::NoSigner::NotYet("it does not exist".to_owned());
        let signer = signer.as_ref().map_or(Err(&not_yet), |signer| signer.as_ref());
        let secret = secrets::presence(user, &of_cluster, found.as_deref(), signer.ok());
        let key_fits = found.as_deref().and_then(certificate::kept_in);
        let decision = decide(&Seen {
            user,
            cluster,
            etcd: &etcd,
            secret: &secret,
            key_fits: key_fits.is_some_and(|kept| tls::is_pair(kept.cert, kept.key)),
            signer,
            allowed: allowed(cluster),
            now,
        });
        self.keep_look(user, cluster, etcd, &decision, now);
        let mut seen = user.clone();
        if Some(&decision.status) != user.status.as_ref() && decision.status != EtcdUserStatus::default() {
            match self.desk.write_status(Step::F2, user, &decision.status).await {
                Ok(written) => seen = written,
                Err(error) => return self.desk.stopped(user, &error),
            }
        }
        if let Some((warning, what)) = decision.event.clone() {
            self.desk.tell(user, warning, what);
        }
        let own = match &secret {
            Presence::Own(own) => Some(own),
            Presence::Absent | Presence::Foreign => None,
        };
        for act in &decision.acts {
            let done = match etcd::step(act) {
                Some(step) => self.in_etcd(step, client.as_ref(), user, act).await,
                None => self.in_kubernetes(&mut seen, act, (&of_cluster, own, signer.ok())).await,
            };
            if let Err(undone) = done {
                self.looked = None;
                return self.undone(user, act, undone);
            }
        }
        self.outcome(&decision)
    }

    fn outcome(&mut self, decision: &Decision) -> Outcome {
        if !decision.acts.is_empty() {
            // What came of them is looked at.
            self.looked = None;
            return Outcome::Waiting;
        }
        if decision.waits {
            return Outcome::Degraded;
        }
        let stalls = conditions::is_true(&decision.status.conditions, ConditionType::Stalled.as_str());
        if stalls { Outcome::UserMustEdit } else { Outcome::Idle }
    }

    /// What etcd has: what it said at the last look, as long as that holds, or what it says now.
    async fn look(
        &mut self,
        user: &EtcdUser,
        cluster: Option<&EtcdCluster>,
        certificates: &[&Secret],
        at: &NamespacedName,
    ) -> (Etcd, Option<MemberClient>) {
        let Some(cluster) = cluster.filter(|cluster| asks_etcd(user, Some(*cluster))) else {
            self.looked = None;
            return (Etcd::NotAsked, None);
        };
        let now = self.controller.runtime.clock.now();
        if let Some(looked) = self
            .looked
            .as_ref()
            .filter(|looked| looked.until > now && looked.about == about(user, Some(cluster)))
        {
            return (looked.etcd.clone(), None);
        }
        let pods: Vec<Arc<Pod>> = self.controller.pods.get(at).objects.into_values().collect();
        let pods: Vec<&Pod> = pods.iter().map(AsRef::as_ref).collect();
        etcd::ask(&self.controller.transport, (user, cluster), (&pods, certificates)).await
    }

    /// Keeps what etcd said where nothing is to be done, and nothing comes by itself.
    fn keep_look(
        &mut self,
        user: &EtcdUser,
        cluster: Option<&EtcdCluster>,
        etcd: Etcd,
        decision: &Decision,
        now: Instant,
    ) {
        let is_kept = self.looked.as_ref().is_some_and(|looked| looked.until > now && looked.etcd == etcd);
        if is_kept && self.looked.as_ref().is_some_and(|looked| looked.about == about(user, cluster)) {
            return;
        }
        let Etcd::Answered(_) = &etcd else {
            self.looked = None;
            return;
        };
        let is_ready = conditions::is_true(&decision.status.conditions, ConditionType::Ready.as_str());
        let holds = if is_ready { HOLDS } else { HOLDS_STALLED };
        let spread: u64 = user.uid().unwrap_or_default().bytes().map(u64::from).sum();
        let until = now + Span(holds.0 + holds.0 / 2 / 100 * (spread % 100));
        self.looked = Some(Looked { until, about: about(user, cluster), etcd });
    }

    /// Its Secret. One without the label is not in the cache, so where that has none, the API is asked.
    async fn secret(&self, user: &EtcdUser, etcd: &Etcd) -> Result<Option<Arc<Secret>>, WriteError> {
        let name = secrets::secret_name(&self.desk.root.name);
        if let Some(cached) = self.controller.secrets.get(&self.desk.root).objects.remove(&name) {
            return Ok(Some(cached));
        }
        let is_going = user.metadata.deletion_timestamp.is_some();
        match etcd {
            Etcd::Answered(_) if !is_going => {
                Ok(self.desk.writer::<Secret>().read(&name).await?.map(Arc::new))
            }
            Etcd::Answered(_) | Etcd::NotAsked | Etcd::NoAnswer(_) | Etcd::Refused(_) => Ok(None),
        }
    }

    /// One act in etcd: a numbered step, before and after which the process may end.
    async fn in_etcd(
        &self,
        step: Step,
        client: Option<&MemberClient>,
        user: &EtcdUser,
        act: &Act,
    ) -> Result<(), Undone> {
        let runtime = &self.controller.runtime;
        // What it said some time ago is looked at again before anything is changed.
        let client = client.ok_or_else(|| Undone::Etcd("it is looked at again".to_owned()))?;
        runtime.hook.reached(CrashSide::Before, step).await;
        if !runtime.leadership.may_act() {
            runtime.metrics.dropped_write();
            return Err(Undone::Etcd("the operator does not lead".to_owned()));
        }
        etcd::carry_out(client, user, act)
            .await
            .map_err(|error: CallError| Undone::Etcd(error.to_string()))?;
        tracing::info!(%step, user = %self.desk.root, ?act, "done in etcd");
        runtime.hook.reached(CrashSide::After, step).await;
        Ok(())
    }

    async fn in_kubernetes(
        &self,
        seen: &mut EtcdUser,
        act: &Act,
        (at, own, signer): (&ClusterRef, Option<&Own<'_>>, Option<&Signer>),
    ) -> Result<(), Undone> {
        match act {
            Act::AddFinalizer => {
                *seen = self.desk.set_finalizer(Step::F1, seen, keys::USER_FINALIZER, true).await?;
            }
            Act::RemoveFinalizer => {
                self.desk.set_finalizer(Step::F0, seen, keys::USER_FINALIZER, false).await?;
            }
            Act::WriteSecret => {
                let Some(signer) = signer else { return Ok(()) };
                self.write_secret(seen, at, own, signer).await?;
            }
            Act::RemoveSecret => {
                if let Some(own) = own.filter(|own| !own.is_going) {
                    self.desk.writer::<Secret>().delete(Step::F7, own.secret).await?;
                }
            }
            Act::AddRetained
            | Act::AddRole
            | Act::Grant(..)
            | Act::Revoke(_)
            | Act::AddUser
            | Act::GrantRole(_)
            | Act::RevokeRole(_)
            | Act::DeleteUser
            | Act::DeleteRole
            | Act::DeleteRetained => {}
        }
        Ok(())
    }

    /// With a new certificate where one is due, else without.
    async fn write_secret(
        &self,
        user: &EtcdUser,
        at: &ClusterRef,
        own: Option<&Own<'_>>,
        signer: &Signer,
    ) -> Result<(), Undone> {
        let now = self.controller.runtime.clock.now();
        let fits = |own: &Own<'_>| {
            certificate::kept_in(own.secret).is_some_and(|kept| tls::is_pair(kept.cert, kept.key))
        };
        let is_due = own.is_none_or(|own| !fits(own) || own.leaf.is_due(&signer.authority, now));
        let act = if is_due {
            let order = secrets::sign(user, at, signer, own, self.controller.runtime.api_clock.present());
            let pair = tls::generate(&order.generate).map_err(|error| Undone::Keys(chain(&error)))?;
            let Write { act, .. } = order.write(&pair);
            act
        } else {
            secrets::write(user, at, signer, own)
        };
        match act {
            Writing::Create(object) => {
                let secret: Secret = serde_json::from_value(object)
                    .map_err(|error| Undone::Keys(format!("no Secret comes of it: {error}")))?;
                self.desk.writer::<Secret>().create(Step::F7, &secret).await?;
            }
            Writing::Patch(patch) => {
                let name = secrets::secret_name(&self.desk.root.name);
                self.desk.writer::<Secret>().patch(Step::F7, &name, &patch).await?;
            }
            Writing::PatchStatus(_) | Writing::Delete { .. } | Writing::Evict { .. } => {}
        }
        Ok(())
    }

    fn undone(&mut self, user: &EtcdUser, act: &Act, undone: Undone) -> Outcome {
        match undone {
            Undone::Write(error) => self.desk.stopped(user, &error),
            // The next look shows what came of it.
            Undone::Etcd(why) => {
                tracing::info!(user = %self.desk.root, ?act, why, "not done in etcd");
                Outcome::Refused
            }
            Undone::Keys(why) => {
                let text = format!("no certificate can be made: {why}");
                self.desk.tell(user, true, Explanation::new(Reason::AuthorityLost, text));
                Outcome::Failed
            }
        }
    }
}

/// What EtcdUsers of the cluster may be given; `None`: all keys.
fn allowed(cluster: Option<&EtcdCluster>) -> Option<&[String]> {
    cluster?.spec.auth.as_ref()?.allowed_prefixes.as_deref()
}

/// What a look is about: with another spec, or another etcd, it is due again.
fn about(user: &EtcdUser, cluster: Option<&EtcdCluster>) -> (Option<i64>, Option<String>) {
    let id = cluster.and_then(|cluster| cluster.status.as_ref()).and_then(|status| status.cluster_id.clone());
    (user.metadata.generation, id)
}
