//! A namespace of a real Kubernetes whose nodes run on this machine (`cargo xtask kube up`). The operator is installed there
//! as users install it. Processes are found by the cgroup of their Pod.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, Pod};
use kube::api::{Api, PostParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::operator::Operator;
use crate::{NamespaceClient, ProcessFault, Shell, World, kube_client};

/// A namespace of its own, deleted when it is dropped.
pub struct Kubernetes {
    kubeconfig: PathBuf,
    namespace_client: NamespaceClient,
}

impl Kubernetes {
    /// A new namespace in the Kubernetes that `QUORATE_TEST_KUBECONFIG` names.
    pub async fn start() -> Result<Self> {
        let kubeconfig = std::env::var_os("QUORATE_TEST_KUBECONFIG").map(PathBuf::from);
        Self::start_in(kubeconfig.context("run this through `cargo xtask test kube`")?).await
    }

    /// A new namespace in the Kubernetes of this kubeconfig.
    pub async fn start_in(kubeconfig: PathBuf) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("scenario-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let namespace_client = NamespaceClient::new(kube_client(&kubeconfig, &name).await?);
        let namespaces: Api<Namespace> = Api::all(namespace_client.client.clone());
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
        let world = Self { kubeconfig, namespace_client };
        world.wait_for_service_account().await?;
        Ok(world)
    }

    /// The kubeconfig of its Kubernetes.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The operator that serves it.
    pub fn operator(&self) -> Operator {
        Operator::of(&self.client)
    }

    /// A shell whose kubectl works in this namespace.
    pub fn shell(&self) -> Result<Shell> {
        Shell::start(&self.kubeconfig, self.client.default_namespace())
    }

    /// Another namespace of this Kubernetes, which the caller creates and deletes.
    pub async fn in_namespace(&self, namespace: &str) -> Result<NamespaceClient> {
        Ok(NamespaceClient::new(kube_client(&self.kubeconfig, namespace).await?))
    }
}

impl Deref for Kubernetes {
    type Target = NamespaceClient;

    fn deref(&self) -> &NamespaceClient {
        &self.namespace_client
    }
}

impl World for Kubernetes {
    async fn signal_etcd(&self, pod: &str, fault: ProcessFault) -> Result<()> {
        let pod = self.pods().get(pod).await?;
        let signalled = signal_processes(&pod, "etcd", Signal::from(fault))?;
        ensure!(signalled || fault == ProcessFault::Resume, "no etcd runs in {:?}", pod.metadata.name);
        Ok(())
    }

    async fn kill_operator(&self) -> Result<()> {
        for pod in self.operator().pods().await? {
            signal_processes(&pod, "quorate", Signal::SIGKILL)?;
        }
        Ok(())
    }

    fn operator_log(&self) -> Result<String> {
        let logs = "kubectl -n quorate-system logs -l app.kubernetes.io/name=quorate --prefix --tail=60";
        self.shell()?.now(logs)
    }

    async fn volume_dir(&self, pod: &str) -> Result<PathBuf> {
        let claim = self.volumes().get(pod).await?;
        let name = claim.spec.and_then(|spec| spec.volume_name).context("the volume is not bound yet")?;
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let spec = volumes.get(&name).await?.spec.context("a volume without a spec")?;
        let local = spec.local.map(|local| local.path);
        Ok(local.or(spec.host_path.map(|host| host.path)).context("not a directory of a node")?.into())
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        // A program, because `Drop` cannot await.
        let namespace = self.client.default_namespace();
        let delete = format!("kubectl delete namespace --wait=false --ignore-not-found {namespace}");
        if let Err(error) = self.shell().and_then(|shell| shell.now(&delete)) {
            eprintln!("{error:#}");
        }
    }
}

/// Sends a signal to every process of a Pod with this program name; returns whether there was one.
pub(crate) fn signal_processes(pod: &Pod, program: &str, signal: Signal) -> Result<bool> {
    let mut signalled = false;
    for pid in processes_of(pod)? {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if name.trim() == program {
            // It may have ended meanwhile.
            signalled |= kill(Pid::from_raw(pid), signal).is_ok();
        }
    }
    Ok(signalled)
}

/// The processes of a Pod, on this machine.
pub(crate) fn processes_of(pod: &Pod) -> Result<Vec<i32>> {
    let uid = pod.metadata.uid.as_deref().context("a Pod without a uid")?;
    let entries = fs::read_dir("/proc")?.flatten();
    let of_pod = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| groups.contains(uid))
    };
    let pids = entries.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()));
    Ok(pids.filter(of_pod).collect())
}
