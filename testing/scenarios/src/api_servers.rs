//! kube-apiservers whose data are in a cluster, as a tenant of a hosting platform has them: two Pods behind a Service on a real Kubernetes, each with
//! the certificate of a Secret, and clients of theirs that write and watch without rest.
//!
//! Each client replaces an object of its own by the resource version that it was answered before. So a write that was acknowledged and lost ends the
//! test with a conflict.

mod clients;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, Config, ResourceExt};
use serde_json::{Value, json};

pub use clients::{Clients, Served};

use crate::kubernetes::processes_of;
use crate::{Kubernetes, NamespaceClient, Shell, is_ready, rig, tool, until, version};

/// Who sends this is `system:masters` there. Not secret: it serves no one but a test.
const TOKEN: &str = "test";

/// Where the Secret with the certificate is mounted.
const CERTIFICATE: &str = "/etcd-tls";

/// Two API servers of one tenant. They go with the namespace of their world.
pub struct ApiServers {
    name: String,
    address: String,
    namespace: NamespaceClient,
    shell: Shell,
}

/// What they are started with.
pub struct Tenant<'a> {
    /// Its name: that of the Deployment and of the prefix of all keys.
    pub name: &'a str,
    /// The EtcdCluster in the same namespace.
    pub cluster: &'a str,
    /// The Secret with `ca.crt`, `tls.crt` and `tls.key`.
    pub secret: &'a str,
}

impl ApiServers {
    /// Starts them, and waits until both serve. Pods of this namespace may use the host's files from now on.
    ///
    /// # Errors
    /// They do not serve in time.
    pub async fn start(world: &Kubernetes, tenant: &Tenant<'_>) -> Result<Self> {
        let (name, namespace) = (tenant.name, world.client.default_namespace());
        let shell = world.shell()?;
        let allow = "pod-security.kubernetes.io/enforce=privileged";
        shell.run(&format!("kubectl label --overwrite namespace {namespace} {allow}")).await?;
        let client = || world.client.clone();
        let labels = json!({"app": name});
        let key = |file: &str| {
            std::fs::read_to_string(rig::folder()?.join("pki").join(file)).context("the key of accounts")
        };
        let secret = json!({
            "metadata": {"name": format!("{name}-accounts")},
            "stringData": {"sa.key": key("sa.key")?, "sa.pub": key("sa.pub")?, "tokens": format!("{TOKEN},test,test,system:masters")},
        });
        let secrets: Api<Secret> = Api::default_namespaced(client());
        secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
        let budget = json!({
            "metadata": {"name": name},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        });
        let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client());
        budgets.create(&PostParams::default(), &serde_json::from_value(budget)?).await?;
        let service = json!({
            "metadata": {"name": format!("{name}-api")},
            "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": 6443}]},
        });
        let services: Api<Service> = Api::default_namespaced(client());
        let service = services.create(&PostParams::default(), &serde_json::from_value(service)?).await?;
        let address =
            service.spec.and_then(|spec| spec.cluster_ip).context("a Service without an address")?;
        let deployments: Api<Deployment> = Api::default_namespaced(client());
        let deployment = deployment(tenant, namespace)?;
        deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
        let servers =
            Self { name: name.to_owned(), address, namespace: NamespaceClient::clone(world), shell };
        servers.roll_out().await?;
        Ok(servers)
    }

    /// Replaces both, one after the other, as `kubectl rollout restart` does.
    pub async fn restart(&self) -> Result<()> {
        self.shell.run(&format!("kubectl rollout restart deployment/{}", self.name)).await?;
        self.roll_out().await
    }

    /// Waits until each of them would read this certificate at its next connection: kubelets bring a Secret within a minute or two.
    pub async fn have(&self, certificate: &[u8]) -> Result<()> {
        until("the certificate is in each Pod of the API servers", async || {
            for pod in self.pods().await? {
                let process = processes_of(&pod)?.into_iter().find(|process| {
                    std::fs::read_to_string(format!("/proc/{process}/comm"))
                        .is_ok_and(|name| name.trim() == "kube-apiserver")
                });
                let process = process.with_context(|| format!("no API server in {}", pod.name_any()))?;
                if std::fs::read(format!("/proc/{process}/root{CERTIFICATE}/tls.crt"))? != certificate {
                    return Ok(Err(format!("{} has another one", pod.name_any())));
                }
            }
            Ok(Ok(()))
        })
        .await
    }

    /// Clients that write and watch through them from now on.
    pub async fn clients(&self) -> Result<Clients> {
        Clients::start(&self.name, async || self.client()).await
    }

    /// A client of them. Each has connections of its own.
    pub fn client(&self) -> Result<Client> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = Config::new(format!("https://{}", self.address).parse()?);
        // Each made its certificate when it started.
        config.accept_invalid_certs = true;
        config.auth_info.token = Some(TOKEN.to_owned().into());
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    async fn pods(&self) -> Result<Vec<Pod>> {
        let of = ListParams::default().labels(&format!("app={}", self.name));
        let pods: Vec<Pod> = self.namespace.pods().list(&of).await?.into_iter().filter(is_ready).collect();
        ensure!(!pods.is_empty(), "no API server of {} is ready", self.name);
        Ok(pods)
    }

    async fn roll_out(&self) -> Result<()> {
        let wait = format!("kubectl rollout status deployment/{} --timeout=100s", self.name);
        let Err(error) = self.shell.run(&wait).await else { return Ok(()) };
        let log = format!(
            "kubectl logs deployment/{} --tail=30 || true; kubectl get pods -l app={0} -o wide",
            self.name
        );
        bail!("{error:#}\n{}", self.shell.run(&log).await?)
    }
}

/// Two of them on two nodes, one of which may always leave. Their program is that of this machine's Kubernetes.
fn deployment(tenant: &Tenant<'_>, namespace: &str) -> Result<Value> {
    let Tenant { name, cluster, secret } = tenant;
    let program = tool("kube-apiserver", "kubernetes")?.canonicalize()?;
    let args = [
        format!("--etcd-servers=https://{cluster}-client.{namespace}.svc:2379"),
        format!("--etcd-prefix=/{name}"),
        // Etcd compacts by itself: a compaction by one tenant is one of all.
        "--etcd-compaction-interval=0".to_owned(),
        "--etcd-healthcheck-timeout=10s".to_owned(),
        format!("--etcd-cafile={CERTIFICATE}/ca.crt"),
        format!("--etcd-certfile={CERTIFICATE}/tls.crt"),
        format!("--etcd-keyfile={CERTIFICATE}/tls.key"),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        "--service-account-key-file=/accounts/sa.pub".to_owned(),
        "--service-account-signing-key-file=/accounts/sa.key".to_owned(),
        "--token-auth-file=/accounts/tokens".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--cert-dir=/made".to_owned(),
        "--secure-port=6443".to_owned(),
        // The Service leaves it out first.
        "--shutdown-delay-duration=5s".to_owned(),
    ];
    let probe = |path: &str, seconds: u32| {
        json!({
            "httpGet": {"path": path, "port": 6443, "scheme": "HTTPS"},
            "periodSeconds": seconds, "timeoutSeconds": 5, "failureThreshold": 3,
        })
    };
    let apart = json!({
        "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}},
    });
    let pod = json!({
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": false,
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}]}},
        "containers": [{
            "name": "kube-apiserver", "image": format!("gcr.io/etcd-development/etcd:v{}", version()),
            "command": ["/program/kube-apiserver"], "args": args,
            "readinessProbe": probe("/readyz", 1),
            "volumeMounts": [
                {"name": "program", "mountPath": "/program/kube-apiserver"},
                {"name": "certificate", "mountPath": CERTIFICATE},
                {"name": "accounts", "mountPath": "/accounts"},
                {"name": "made", "mountPath": "/made"},
            ],
        }],
        "volumes": [
            {"name": "program", "hostPath": {"path": program, "type": "File"}},
            {"name": "certificate", "secret": {"secretName": secret}},
            {"name": "accounts", "secret": {"secretName": format!("{name}-accounts")}},
            {"name": "made", "emptyDir": {}},
        ],
    });
    Ok(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }))
}
