//! A Kubernetes without Quorate: before the test, after it, and when it fails.

use anyhow::{Context, Result};
use quorate_scenarios::{Shell, until};

/// In an order in which no deletion waits: the operators, then clusters without the finalizer that only an operator removes.
const CLEAR: &str = r#"
helm uninstall quorate --namespace quorate-system --ignore-not-found
helm uninstall quorate --namespace team-c --ignore-not-found
kubectl delete namespace quorate-system --ignore-not-found
if kubectl get crd etcdclusters.operator.etcd.io >/dev/null 2>&1; then
    kubectl delete etcd --all --all-namespaces --wait=false
    kubectl get etcd --all-namespaces --no-headers -o custom-columns=:metadata.namespace,:metadata.name |
        while read namespace name; do
            kubectl -n "$namespace" patch etcd "$name" --type merge -p '{"metadata":{"finalizers":null}}'
        done
fi
kubectl get etcdbackups --all-namespaces --no-headers -o custom-columns=:metadata.namespace,:metadata.name 2>/dev/null |
    while read namespace name; do
        kubectl -n "$namespace" patch etcdbackups "$name" --type merge -p '{"metadata":{"finalizers":null}}'
    done
kubectl get crd -o name | grep '[.]operator[.]etcd[.]io$' | xargs --no-run-if-empty kubectl delete
kubectl delete namespace team-a team-b team-c --ignore-not-found
kubectl delete clusterrole,clusterrolebinding -l app.kubernetes.io/name=quorate
kubectl delete pvc,secret --all-namespaces -l operator.etcd.io/cluster
"#;

/// Lists everything that the operator or its installation could have left, of every kind.
const LEFT: &str = r#"
kinds=$(kubectl api-resources --verbs=list -o name | paste -sd, -)
kubectl get "$kinds" --all-namespaces -o name -l app.kubernetes.io/name=quorate
kubectl get "$kinds" --all-namespaces -o name -l operator.etcd.io/cluster
kubectl get crd -o name | grep '[.]operator[.]etcd[.]io$' || true
kubectl get namespace quorate-system -o name --ignore-not-found
"#;

/// Deletes everything of Quorate when it is created and when it is dropped.
pub struct CleanKubernetes(Shell);

impl CleanKubernetes {
    pub fn start(shell: Shell) -> Result<Self> {
        shell.now(CLEAR).context("deleting what was there")?;
        Ok(Self(shell))
    }
}

impl Drop for CleanKubernetes {
    fn drop(&mut self) {
        if let Err(error) = self.0.now(CLEAR) {
            eprintln!("clearing: {error:#}");
        }
    }
}

/// Waits until nothing is left; garbage collection takes a moment.
pub async fn ensure_nothing_is_left(shell: &Shell) -> Result<()> {
    until("nothing is left", async || {
        let left = shell.run(LEFT).await?;
        Ok(if left.trim().is_empty() { Ok(()) } else { Err(left) })
    })
    .await
}
