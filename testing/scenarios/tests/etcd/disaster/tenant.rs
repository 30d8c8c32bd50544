//! A namespace of the playground that is deleted and created again, and what a user does in it.

use std::net::SocketAddr;
use std::ops::Deref;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use quorate_etcd::Tls;
use quorate_scenarios::{NamespaceClient, Page, Playground, is_ready, kube_client, until};
use serde_json::{Value, json};

/// The commands of the page; a test here does the same through the API.
const COMMANDS: [&str; 18] = [
    "kubectl create namespace tenant",
    "kubectl apply -n tenant -f secrets.json",
    "kubectl apply -n tenant -f demo.yaml",
    "kubectl annotate -n tenant --overwrite secret demo-ca operator.etcd.io/cluster-uid=$(kubectl get -n tenant etcd demo -o jsonpath='{.metadata.uid}')",
    "kubectl get -n tenant etcdbackups -o wide",
    "kubectl wait -n tenant etcd/demo --for=condition=Available --timeout=15m",
    "kubectl apply -n tenant -f schedules.yaml",
    "kubectl get pvc -n tenant -l operator.etcd.io/cluster=demo",
    "kubectl describe etcd -n tenant demo",
    "kubectl annotate -n tenant etcd demo operator.etcd.io/adopt=CLUSTER-ID",
    r#"kubectl patch pv VOLUME --type=merge -p '{"spec":{"claimRef":{"uid":null,"resourceVersion":null}}}'"#,
    "kubectl apply -n tenant -f claims.json",
    "kubectl delete pod -n tenant -l operator.etcd.io/cluster=demo",
    "kubectl annotate -n tenant etcd demo operator.etcd.io/adopt=CLUSTER-ID operator.etcd.io/adopt-copies=CLUSTER-ID/UID",
    "kubectl delete service -n tenant demo demo-client",
    "kubectl delete pdb -n tenant demo",
    r#"kubectl get secret -n tenant demo-ca s3-credentials quorate-backup-keys -o json | jq 'del(.items[].metadata["uid","resourceVersion","creationTimestamp","managedFields"])' > secrets.json"#,
    r#"kubectl get pvc -n tenant -l operator.etcd.io/cluster=demo -o json | jq 'del(.items[].metadata["uid","resourceVersion","creationTimestamp","managedFields","finalizers"], .items[].metadata.annotations["pv.kubernetes.io/bind-completed","pv.kubernetes.io/bound-by-controller"], .items[].status)' > claims.json"#,
];

/// What makes a schedule begin its next backup.
pub enum Change {
    /// Its status records that the last one was long ago.
    HoursPass,
    /// An edit after which a later time has just passed.
    Edit(Value),
}

/// Every hour, so many minutes ago for the last time.
pub fn hourly(minutes_ago: i64) -> String {
    let minute = now().as_second().div_euclid(60) - minutes_ago;
    format!("{} * * * *", minute.rem_euclid(60))
}

#[expect(clippy::disallowed_methods, reason = "schedules go by the time of day")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// A namespace.
pub struct Tenant {
    name: String,
    own: NamespaceClient,
}

impl Deref for Tenant {
    type Target = NamespaceClient;

    fn deref(&self) -> &NamespaceClient {
        &self.own
    }
}

impl Tenant {
    /// `kubectl create namespace`
    pub async fn create(world: &Playground, name: &str) -> Result<Self> {
        let client = kube_client(&world.path().join("kubeconfig"), name).await?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
        let own = NamespaceClient::new(client);
        Ok(Self { name: name.to_owned(), own })
    }

    /// `kubectl delete namespace`, until it is gone with all that was in it.
    #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
    pub async fn delete_namespace(self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(&self.name, &DeleteParams::default()).await?;
        until(&format!("namespace {} is gone", self.name), async || {
            let left = namespaces.get_opt(&self.name).await?;
            Ok(left.map_or(Ok(()), |left| Err(json!(left.status).to_string())))
        })
        .await
    }

    /// `kubectl apply` of a Secret.
    pub async fn create_secret(&self, secret: &Value) -> Result<()> {
        self.secrets().create(&PostParams::default(), &serde_json::from_value(secret.clone())?).await?;
        Ok(())
    }

    /// Secrets as they are kept outside: without what the API server wrote.
    pub async fn saved_secrets(&self, names: &[&str]) -> Result<Vec<Value>> {
        let mut saved = Vec::new();
        for name in names {
            let secret = self.secrets().get(name).await?;
            saved.push(json!({
                "metadata": {
                    "name": name, "labels": secret.metadata.labels, "annotations": secret.metadata.annotations,
                },
                "type": secret.type_, "data": secret.data,
            }));
        }
        Ok(saved)
    }

    /// What a client of the cluster has, as a copy of its own.
    pub async fn client_certificate(&self, cluster: &str) -> Result<Tls> {
        let data = self.secrets().get(&format!("{cluster}-client-tls")).await?.data.unwrap_or_default();
        let part = |key: &str| data.get(key).map(|bytes| bytes.0.clone()).with_context(|| key.to_owned());
        let server_name = String::new();
        Ok(Tls { server_name, ca: part("ca.crt")?, cert: part("tls.crt")?, key: part("tls.key")? })
    }

    /// Where the ready members serve.
    pub async fn addresses(&self, cluster: &str) -> Result<Vec<SocketAddr>> {
        let pods = self.pods_of(cluster).await?;
        let ips =
            pods.iter().filter(|pod| is_ready(pod)).filter_map(|pod| pod.status.as_ref()?.pod_ip.clone());
        ips.map(|ip| Ok(SocketAddr::new(ip.parse()?, 2379))).collect()
    }

    /// `kubectl annotate etcd`
    pub async fn annotate(&self, cluster: &str, key: &str, value: &str) -> Result<()> {
        self.patch(cluster, json!({"metadata": {"annotations": {key: value}}})).await.map(drop)
    }

    /// `kubectl apply` of an EtcdBackupSchedule.
    pub async fn create_schedule(&self, name: &str, spec: &Value) -> Result<()> {
        self.create_schedule_with(name, spec, &json!({})).await
    }

    /// The same of one with these annotations.
    pub async fn create_schedule_with(&self, name: &str, spec: &Value, annotations: &Value) -> Result<()> {
        let schedule = json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackupSchedule",
            "metadata": {"name": name, "annotations": annotations}, "spec": spec,
        });
        self.schedules().create(&PostParams::default(), &serde_json::from_value(schedule)?).await?;
        Ok(())
    }

    /// Waits for the next backup of a schedule after this change of the schedule; returns what the backup came to.
    pub async fn backup_after(&self, schedule: &str, change: Change) -> Result<Value> {
        let of = ListParams::default().labels(&format!("operator.etcd.io/backup-schedule={schedule}"));
        let names = async || {
            let backups = self.backups().list(&of).await?.items;
            Ok::<Vec<String>, anyhow::Error>(backups.iter().map(ResourceExt::name_any).collect())
        };
        let before = names().await?;
        match change {
            Change::HoursPass => {
                let long_ago = Timestamp::from_second(now().as_second() - 7200)?.to_string();
                let passed = Patch::Merge(json!({"status": {"lastScheduled": long_ago}}));
                self.schedules().patch_status(schedule, &PatchParams::default(), &passed).await?;
            }
            Change::Edit(spec) => {
                let edit = Patch::Merge(json!({"spec": spec}));
                self.schedules().patch(schedule, &PatchParams::default(), &edit).await?;
            }
        }
        let mut created = None;
        until(&format!("{schedule} has begun a backup"), async || {
            let now = names().await?;
            created = now.iter().find(|backup| !before.contains(backup)).cloned();
            Ok(if created.is_some() { Ok(()) } else { Err(format!("{now:?}")) })
        })
        .await?;
        Ok(self.is_backed_up(&created.context("it was just there")?).await?["result"].clone())
    }

    /// Deletes what a restore created and this cluster needs the names of, as its message says: Services and the budget.
    #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
    pub async fn delete_what_nobody_owns(&self, cluster: &str) -> Result<()> {
        let at_once = DeleteParams::default();
        let services: Api<Service> = Api::default_namespaced(self.client.clone());
        for service in [cluster.to_owned(), format!("{cluster}-client")] {
            services.delete(&service, &at_once).await?;
        }
        let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(self.client.clone());
        budgets.delete(cluster, &at_once).await?;
        Ok(())
    }

    fn secrets(&self) -> Api<Secret> {
        Api::default_namespaced(self.client.clone())
    }
}

/// Fails if the page and the list differ. It runs nothing: a command that is added to the page or changed asks for a person who looks at
/// what the tests here do in its place.
pub fn covers_the_page() -> Result<()> {
    let mut page = Page::read("docs/disaster.md")?;
    for command in COMMANDS {
        page.mark_as_covered(command)?;
    }
    page.ensure_all_covered()
}
