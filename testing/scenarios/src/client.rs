//! What a user can see and do, through the Kubernetes API and through etcd.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod, Secret, ServiceAccount};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Client, Config, ResourceExt};
use quorate_api::EtcdCluster;
use quorate_etcd::{Deadlines, Endpoint, MemberClient, Tls};
use serde_json::{Value, json};

/// Long enough for two slow cores that run other tests too. A test that needs all of it fails.
const DEADLINE: Duration = Duration::from_secs(120);

/// A user of one namespace: its objects, and its etcd members.
#[derive(Clone)]
pub struct NamespaceClient {
    /// Its default namespace is this namespace.
    pub client: Client,
    /// The Secret with the certificate by which it is a client of etcd; `None`: that of the cluster's clients.
    secret: Option<String>,
}

impl NamespaceClient {
    /// With the certificate of the cluster's clients.
    pub fn new(client: Client) -> Self {
        Self { client, secret: None }
    }

    /// The same, as the user of this Secret.
    #[must_use]
    pub fn with_certificate_of(&self, secret: &str) -> Self {
        Self { client: self.client.clone(), secret: Some(secret.to_owned()) }
    }

    /// Waits until the new namespace has its ServiceAccount. Without it the API server refuses Pods.
    pub async fn wait_for_service_account(&self) -> Result<()> {
        until("the namespace has its ServiceAccount", async || {
            let accounts: Api<ServiceAccount> = Api::default_namespaced(self.client.clone());
            Ok(accounts.get_opt("default").await?.map(drop).ok_or_else(|| "not yet".to_owned()))
        })
        .await
    }

    /// All clusters.
    pub fn clusters(&self) -> Api<EtcdCluster> {
        Api::default_namespaced(self.client.clone())
    }

    /// All Pods.
    pub fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// All claims.
    pub fn volumes(&self) -> Api<PersistentVolumeClaim> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates an EtcdCluster from its spec.
    pub async fn create(&self, name: &str, spec: Value) -> Result<EtcdCluster> {
        let object = json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
            "metadata": {"name": name}, "spec": spec,
        });
        let cluster = serde_json::from_value(object)?;
        // An EtcdCluster is large, and so is every future that holds one.
        Ok(Box::pin(self.clusters().create(&PostParams::default(), &cluster)).await?)
    }

    /// A person says that the authorities which are left without volumes are to sign for this EtcdCluster, by the annotation that status names.
    pub async fn adopt_authorities(&self, name: &str) -> Result<()> {
        let uid = self.clusters().get(name).await?.metadata.uid.context("it has a uid")?;
        let annotated = json!({ "metadata": { "annotations": { "operator.etcd.io/cluster-uid": uid } } });
        let secrets: Api<Secret> = Api::default_namespaced(self.client.clone());
        for secret in [format!("{name}-ca"), format!("{name}-peer-ca")] {
            if secrets.get_opt(&secret).await?.is_some() {
                secrets.patch(&secret, &PatchParams::default(), &Patch::Merge(&annotated)).await?;
            }
        }
        Ok(())
    }

    /// A person deletes the Secrets of the authorities.
    #[expect(clippy::disallowed_methods, reason = "the test is the person who deletes them")]
    pub async fn delete_authorities(&self, name: &str) -> Result<()> {
        let secrets: Api<Secret> = Api::default_namespaced(self.client.clone());
        for secret in [format!("{name}-ca"), format!("{name}-peer-ca")] {
            if secrets.get_opt(&secret).await?.is_some() {
                secrets.delete(&secret, &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    /// Creates an EtcdUser from its spec.
    pub async fn create_user(&self, name: &str, spec: Value) -> Result<()> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("operator.etcd.io", "v1alpha1", "EtcdUser"));
        let users: Api<DynamicObject> = Api::default_namespaced_with(self.client.clone(), &kind);
        let mut user = DynamicObject::new(name, &kind);
        user.data = json!({"spec": spec});
        users.create(&PostParams::default(), &user).await?;
        Ok(())
    }

    /// A merge patch, as `kubectl patch --type merge` sends it.
    pub async fn patch(&self, name: &str, patch: Value) -> Result<EtcdCluster> {
        Ok(self.clusters().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Orders to replace a member, by its name and its ID in status.
    pub async fn order_replacement(&self, name: &str, member: &str) -> Result<()> {
        let status = self.status(name).await?;
        let mut members = status["members"].as_array().into_iter().flatten();
        let id = members.find(|seen| seen["name"] == member).and_then(|seen| seen["id"].as_str());
        let id = id.ok_or_else(|| anyhow!("{member} has no ID in {status}"))?;
        let order = json!({"operator.etcd.io/replace-member": format!("{member}/{id}")});
        self.patch(name, json!({"metadata": {"annotations": order}})).await.map(drop)
    }

    /// `kubectl scale`, through the scale subresource.
    pub async fn scale(&self, name: &str, size: usize) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": size}}));
        self.clusters().patch_scale(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Deletes an EtcdCluster and waits until it and its Pods are gone.
    #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.clusters().delete(name, &DeleteParams::default()).await?;
        until(&format!("{name} is gone"), async || {
            let object = self.clusters().get_opt(name).await?.is_none();
            let pods = self.pods_of(name).await?.is_empty();
            Ok(if object && pods { Ok(()) } else { Err(format!("object gone {object}, Pods gone {pods}")) })
        })
        .await
    }

    /// `kubectl delete pod`.
    #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
    pub async fn delete_pod(&self, pod: &str) -> Result<()> {
        self.pods().delete(pod, &DeleteParams::default()).await?;
        Ok(())
    }

    /// `kubectl delete pvc`.
    #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
    pub async fn delete_volume(&self, volume: &str) -> Result<()> {
        self.volumes().delete(volume, &DeleteParams::default()).await?;
        Ok(())
    }

    /// The Pods of a cluster.
    pub async fn pods_of(&self, cluster: &str) -> Result<Vec<Pod>> {
        let of = ListParams::default().labels(&format!("operator.etcd.io/cluster={cluster}"));
        Ok(self.pods().list(&of).await?.items)
    }

    /// The nodes that its Pods are on.
    pub async fn nodes_of(&self, cluster: &str) -> Result<BTreeSet<String>> {
        let pods = self.pods_of(cluster).await?;
        Ok(pods.into_iter().filter_map(|pod| pod.spec?.node_name).collect())
    }

    /// The claims of a cluster, of every incarnation.
    pub async fn volumes_of(&self, cluster: &str) -> Result<Vec<PersistentVolumeClaim>> {
        let of = ListParams::default().labels(&format!("operator.etcd.io/cluster={cluster}"));
        Ok(self.volumes().list(&of).await?.items)
    }

    /// The status of a cluster, as JSON.
    pub async fn status(&self, name: &str) -> Result<Value> {
        let cluster = self.clusters().get(name).await?;
        Ok(serde_json::to_value(cluster.status)?)
    }

    /// The cluster id in status.
    pub async fn cluster_id(&self, name: &str) -> Result<String> {
        let status = self.status(name).await?;
        status["clusterID"].as_str().map(str::to_owned).ok_or_else(|| anyhow!("{name} has no cluster id"))
    }

    /// The member ids in status, by name.
    pub async fn member_ids(&self, name: &str) -> Result<BTreeMap<String, String>> {
        let status = self.status(name).await?;
        let members = status["members"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(members.iter().map(|member| (text(&member["name"]), text(&member["id"]))).collect())
    }

    /// Waits until the cluster has exactly this many ready voters, reports so, and makes no further change.
    pub async fn settled(&self, name: &str, size: usize) -> Result<()> {
        until(&format!("{name} settles at {size}"), async || {
            let cluster = self.clusters().get(name).await?;
            let ready = self.pods_of(name).await?.iter().filter(|pod| is_ready(pod)).count();
            let pods = self.pods_of(name).await?.len();
            let status = serde_json::to_value(&cluster.status)?;
            let seen = status["observedGeneration"].as_i64() == cluster.metadata.generation;
            let still =
                condition(&status, "Progressing") == "False" && condition(&status, "Degraded") == "False";
            let available = condition(&status, "Available") == if size > 0 { "True" } else { "False" };
            Ok(if seen && still && available && ready == size && pods == size {
                Ok(())
            } else {
                Err(format!("{ready} of {pods} Pods ready; {}", summary(&status)))
            })
        })
        .await
    }

    /// Waits until a fault was noticed or has already recovered, then until the cluster settles.
    pub async fn settled_again(&self, name: &str, size: usize) -> Result<()> {
        let broken = async {
            until("the fault is noticed", async || {
                let ready = self.pods_of(name).await?.iter().filter(|pod| is_ready(pod)).count();
                Ok(if ready < size { Ok(()) } else { Err(String::new()) })
            })
            .await
        };
        // A restart can be over before the first poll.
        let _ = tokio::time::timeout(Duration::from_secs(3), broken).await;
        self.settled(name, size).await
    }

    /// Waits until a condition has this status; returns its message.
    pub async fn wait_for_condition(&self, name: &str, kind: &str, desired: &str) -> Result<String> {
        let mut message = String::new();
        until(&format!("{kind} of {name} is {desired}"), async || {
            let status = self.status(name).await?;
            if condition(&status, kind) == desired {
                message = message_of(&status, kind);
                return Ok(Ok(()));
            }
            Ok(Err(summary(&status)))
        })
        .await?;
        Ok(message)
    }

    /// Waits until status, or an event about the cluster, contains this text.
    pub async fn reports(&self, name: &str, text: &str) -> Result<()> {
        until(&format!("{name} reports {text:?}"), async || {
            let status = self.status(name).await?;
            let events = self.events(name).await?;
            let found = status.to_string().contains(text) || events.contains(text);
            Ok(if found { Ok(()) } else { Err(format!("{}\n{events}", summary(&status))) })
        })
        .await
    }

    /// The events about an object, one per line.
    pub async fn events(&self, name: &str) -> Result<String> {
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        let of = ListParams::default().fields(&format!("involvedObject.name={name}"));
        let mut text = String::new();
        for event in events.list(&of).await?.items {
            let (reason, message) = (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
            let _ = writeln!(text, "{reason}: {message}");
        }
        Ok(text)
    }

    /// One client for each ready member, by Pod IP.
    pub async fn members(&self, cluster: &str) -> Result<Vec<(String, MemberClient)>> {
        self.members_in(cluster, is_ready).await
    }

    /// One client for each member that a Pod runs, whether or not it serves.
    pub async fn members_that_run(&self, cluster: &str) -> Result<Vec<(String, MemberClient)>> {
        self.members_in(cluster, |pod| pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some()))
            .await
    }

    async fn members_in(
        &self,
        cluster: &str,
        counts: impl Fn(&Pod) -> bool,
    ) -> Result<Vec<(String, MemberClient)>> {
        let tls = self.tls(cluster).await?;
        let mut members = Vec::new();
        for pod in self.pods_of(cluster).await?.iter().filter(|pod| counts(pod)) {
            let ip = pod
                .status
                .as_ref()
                .and_then(|status| status.pod_ip.clone())
                .context("a ready Pod has no IP")?;
            let address = SocketAddr::new(ip.parse()?, 2379);
            let endpoint = match &tls {
                Some(tls) => {
                    let namespace = self.client.default_namespace();
                    let server_name = format!("{}.{cluster}.{namespace}.svc", pod.name_any());
                    Endpoint::tls(address, Tls { server_name, ..tls.clone() })
                }
                None => Endpoint::plain(address),
            };
            members.push((pod.name_any(), MemberClient::new(&endpoint, Deadlines::default())?));
        }
        ensure!(!members.is_empty(), "{cluster} has no such member");
        Ok(members)
    }

    /// The cluster id in status; fails if a ready member reports another one.
    pub async fn one_cluster_id(&self, cluster: &str) -> Result<String> {
        let recorded = self.cluster_id(cluster).await?;
        for (name, member) in self.members(cluster).await? {
            let id = member.status().await?.cluster_id.to_string();
            ensure!(id == recorded, "{name} is in cluster {id}, status has {recorded}");
        }
        Ok(recorded)
    }

    /// What a client of the cluster dials with: the Secret `<cluster>-client-tls` or that of its user, without a server name. `None` without TLS.
    pub(crate) async fn tls(&self, cluster: &str) -> Result<Option<Tls>> {
        let secrets: Api<Secret> = Api::default_namespaced(self.client.clone());
        // That of a user exists only in a cluster with TLS, and a moment after its EtcdUser.
        let secret = match &self.secret {
            Some(name) => secrets.get(name).await?,
            None => match secrets.get_opt(&format!("{cluster}-client-tls")).await? {
                Some(secret) => secret,
                None => return Ok(None),
            },
        };
        let data = secret.data.unwrap_or_default();
        let part =
            |key: &str| data.get(key).map(|bytes| bytes.0.clone()).with_context(|| format!("no {key}"));
        let server_name = String::new();
        Ok(Some(Tls { server_name, ca: part("ca.crt")?, cert: part("tls.crt")?, key: part("tls.key")? }))
    }
}

/// The image that the agent of a member comes from: by an init container, or by an image volume.
pub fn agent_image(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let install = spec.init_containers.iter().flatten().next();
    let mut volumes = spec.volumes.iter().flatten().filter(|volume| volume.name == "agent");
    let by_volume = || volumes.find_map(|volume| volume.image.as_ref()?.reference.clone());
    install.and_then(|install| install.image.clone()).or_else(by_volume)
}

/// Ready, and not being deleted.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// Polls until the check holds. Fails with what the check last reported.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> Result<Result<(), String>>) -> Result<()> {
    let start = Instant::now();
    loop {
        let last = match holds().await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(seen)) => seen,
            Err(error) => format!("{error:#}"),
        };
        if start.elapsed() > DEADLINE {
            bail!("not within {DEADLINE:?}: {what}; last seen: {last}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a str {
    find(status, kind).and_then(|condition| condition["status"].as_str()).unwrap_or_default()
}

fn message_of(status: &Value, kind: &str) -> String {
    find(status, kind).and_then(|condition| condition["message"].as_str()).unwrap_or_default().to_owned()
}

fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn summary(status: &Value) -> String {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let line =
        |one: &Value| format!("{}={} {}: {}", one["type"], one["status"], one["reason"], one["message"]);
    format!("phase {}; {}", status["phase"], conditions.iter().map(line).collect::<Vec<_>>().join("; "))
}

/// A client for one namespace of the API that a kubeconfig names.
pub async fn kube_client(kubeconfig: &Path, namespace: &str) -> Result<Client> {
    // Other crates of this workspace link a second provider, so rustls cannot choose one by itself.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    namespace.clone_into(&mut config.default_namespace);
    Ok(Client::try_from(config)?)
}
