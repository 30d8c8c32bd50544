//! A namespace of a real Kubernetes whose nodes run on this machine: `cargo xtask kube up` made it, and the operator was
//! installed there as its users install it. Processes are found by the cgroup of their Pod.

use std::fs;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, Pod};
use kube::api::{Api, PostParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::operator::Operator;
use crate::{Blow, Eyes, Shell, World, client};

/// A namespace of its own, deleted when it is dropped.
pub struct Kubernetes {
    kubeconfig: PathBuf,
    eyes: Eyes,
}

impl Kubernetes {
    /// A new namespace in the Kubernetes that `QUORATE_TEST_KUBECONFIG` names.
    pub async fn start() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let kubeconfig = std::env::var_os("QUORATE_TEST_KUBECONFIG").map(PathBuf::from);
        let kubeconfig = kubeconfig.context("run this through `cargo xtask test kube`")?;
        let name = format!("story-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let eyes = Eyes { client: client(&kubeconfig, &name).await? };
        let namespaces: Api<Namespace> = Api::all(eyes.client.clone());
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
        let world = Self { kubeconfig, eyes };
        world.takes_pods().await?;
        Ok(world)
    }

    /// The operator that serves it.
    pub fn operator(&self) -> Operator {
        Operator::of(&self.client)
    }

    /// A shell whose kubectl works in this namespace.
    pub fn shell(&self) -> Result<Shell> {
        Shell::start(&self.kubeconfig, self.client.default_namespace())
    }

    /// Another namespace of this Kubernetes, which somebody else makes and deletes.
    pub async fn beside(&self, namespace: &str) -> Result<Eyes> {
        Ok(Eyes { client: client(&self.kubeconfig, namespace).await? })
    }
}

impl Deref for Kubernetes {
    type Target = Eyes;

    fn deref(&self) -> &Eyes {
        &self.eyes
    }
}

impl World for Kubernetes {
    async fn strike(&self, pod: &str, blow: Blow) -> Result<()> {
        let pod = self.pods().get(pod).await?;
        let struck = strike(&pod, "etcd", Signal::from(blow))?;
        ensure!(struck || blow == Blow::Continue, "no etcd runs in {:?}", pod.metadata.name);
        Ok(())
    }

    async fn kill_operator(&self) -> Result<()> {
        for pod in self.operator().pods().await? {
            strike(&pod, "quorate", Signal::SIGKILL)?;
        }
        Ok(())
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
        // A program, because nothing can be awaited here.
        let namespace = self.client.default_namespace();
        let delete = format!("kubectl delete namespace --wait=false --ignore-not-found {namespace}");
        if let Err(error) = self.shell().and_then(|shell| shell.now(&delete)) {
            eprintln!("{error:#}");
        }
    }
}

/// Sends a signal to every process of a Pod whose program is called so; whether there was one.
pub(crate) fn strike(pod: &Pod, program: &str, signal: Signal) -> Result<bool> {
    let uid = pod.metadata.uid.as_deref().context("a Pod without a uid")?;
    let mut struck = false;
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let of_pod = fs::read_to_string(entry.path().join("cgroup")).is_ok_and(|groups| groups.contains(uid));
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if of_pod && name.trim() == program {
            // It may have ended in between.
            struck |= kill(Pid::from_raw(pid), signal).is_ok();
        }
    }
    Ok(struck)
}
