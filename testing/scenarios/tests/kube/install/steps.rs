//! The steps of docs/install.md, in an order in which each leads to the next. What the page claims is checked between its
//! commands.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kube::api::{Api, ListParams};
use quorate_api::EtcdCluster;
use quorate_scenarios::{agent_image, spec, until};
use serde_json::json;

use super::reader::{Reader, pods};

impl Reader<'_> {
    /// Installs an older release from a registry, so that there is something to upgrade.
    pub async fn install_by_chart(&mut self) -> Result<()> {
        self.run_with_older_release(
            "helm install quorate charts/quorate --namespace quorate-system --create-namespace \
             --set image.repository=$REGISTRY/quorate",
        )
        .await?;
        self.run("kubectl label namespace quorate-system pod-security.kubernetes.io/enforce=restricted")
            .await?;
        self.wait_for_leader(&BTreeSet::new()).await?;
        Ok(())
    }

    pub async fn check_the_sample_cluster(&mut self) -> Result<()> {
        self.run("kubectl apply -f config/samples/etcdcluster.yaml").await?;
        self.run("kubectl wait etcd/demo --for=condition=Ready --timeout=5m").await?;
        // Available needs a quorum only; the last member may still be starting.
        self.world.settled("demo", 3).await?;
        let row = self.run("kubectl get etcd demo").await?;
        ensure!(row.contains("3.6.16") && row.contains("Running"), "{row}");
        let table = self.run("kubectl exec demo-0 -- etcdctl endpoint status --cluster -w table").await?;
        ensure!(table.matches("https://demo-").count() == 3, "{table}");
        let described = self.run("kubectl describe etcd demo").await?;
        let (status, events) = described.split_once("\nEvents:").unwrap_or_default();
        ensure!(
            status.contains("3 of 3 voters are healthy") && events.contains("Bootstrapped"),
            "{described}"
        );
        let log =
            self.run("kubectl -n quorate-system logs -l app.kubernetes.io/name=quorate --tail=50").await?;
        ensure!(log.contains("/demo"), "{log}");
        Ok(())
    }

    /// What the built-in roles allow in a namespace.
    pub async fn check_the_built_in_roles(&self) -> Result<()> {
        let may = async |who: &str, verb: &str| {
            let ask = format!("kubectl auth can-i {verb} etcdclusters.operator.etcd.io --as={who} || true");
            anyhow::Ok(self.shell.run(&ask).await?.trim() == "yes")
        };
        for (role, verb) in [("admin", "create"), ("edit", "delete"), ("view", "watch")] {
            self.shell
                .run(&format!("kubectl create rolebinding {role} --clusterrole={role} --user={role}"))
                .await?;
            until(&format!("{role} may {verb}"), async || {
                Ok(if may(role, verb).await? { Ok(()) } else { Err("no".to_owned()) })
            })
            .await?;
        }
        ensure!(!may("view", "create").await?, "the role view allows no creation");
        Ok(())
    }

    /// The clusters' Pods are not replaced: their image stays the same.
    pub async fn upgrade_the_chart(&mut self) -> Result<()> {
        let before = self.wait_for_leader(&BTreeSet::new()).await?;
        let members = pods(self.world, "demo").await?;
        self.run("helm upgrade quorate charts/quorate --namespace quorate-system --reset-then-reuse-values")
            .await?;
        self.wait_for_leader(&before).await?;
        self.wait_for_new_definitions().await?;
        self.ensure_it_serves("demo", "upgraded").await?;
        ensure!(pods(self.world, "demo").await? == members, "no member was touched");
        Ok(())
    }

    /// Without an operator nothing is repaired. It is installed again, with the same image, by plain manifests.
    pub async fn uninstall_and_keep_clusters(&mut self) -> Result<()> {
        let members = pods(self.world, "demo").await?;
        self.run("helm uninstall quorate --namespace quorate-system").await?;
        self.wait_for_no_operator("quorate-system").await?;
        ensure!(pods(self.world, "demo").await? == members, "members stay as they are");
        self.ensure_it_serves("demo", "uninstalled").await?;
        self.shell.run("kubectl delete pod demo-1").await?;
        ensure!(pods(self.world, "demo").await?.len() == 2, "the Pod was recreated without an operator");

        self.run(
            r#"sed "s|quorate:0.1.0|$REGISTRY/quorate:0.1.0|" config/install/quorate.yaml | kubectl apply --server-side -f -"#,
        )
        .await?;
        self.wait_for_leader(&BTreeSet::new()).await?;
        self.world.settled("demo", 3).await?;
        let now = pods(self.world, "demo").await?;
        ensure!(now.intersection(&members).count() == 2, "only the missing Pod was created");
        self.ensure_key_is_readable("demo", "uninstalled").await
    }

    /// Changes the image, while a cluster is paused at first.
    pub async fn upgrade_plain_manifests(&mut self) -> Result<()> {
        let before = self.wait_for_leader(&BTreeSet::new()).await?;
        let members = pods(self.world, "demo").await?;
        self.run(r#"kubectl patch etcd demo --type merge -p '{"spec":{"paused":true}}'"#).await?;
        self.run("kubectl apply --server-side -f config/install/quorate.yaml").await?;
        self.wait_for_leader(&before).await?;
        // An edit shows that the new operator has observed the cluster.
        let edited = self.world.patch("demo", json!({"spec": {"etcd": {"snapshotCount": 5000}}})).await?;
        until("the edit is seen", async || {
            let seen = self.world.status("demo").await?["observedGeneration"].as_i64();
            Ok(if seen == edited.metadata.generation { Ok(()) } else { Err(format!("{seen:?}")) })
        })
        .await?;
        ensure!(pods(self.world, "demo").await? == members, "the paused cluster was not changed");

        self.run(r#"kubectl patch etcd demo --type merge -p '{"spec":{"paused":false}}'"#).await?;
        until("every member has the new image", async || {
            let pods = self.world.pods_of("demo").await?;
            let images: Vec<String> = pods.iter().filter_map(agent_image).collect();
            Ok(if images == ["quorate:0.1.0"; 3] { Ok(()) } else { Err(format!("{images:?}")) })
        })
        .await?;
        self.world.settled("demo", 3).await?;
        self.ensure_key_is_readable("demo", "upgraded").await
    }

    pub async fn switch_from_plain_manifests_to_the_chart(&mut self) -> Result<()> {
        const WITHOUT: &str = "helm upgrade --install quorate charts/quorate --namespace quorate-system";
        let before = self.wait_for_leader(&BTreeSet::new()).await?;
        let members = pods(self.world, "demo").await?;
        let refusal = self.shell.run(WITHOUT).await.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(refusal.contains("cannot be imported"), "Helm should have refused: {refusal}");
        self.run(&format!("{WITHOUT} --take-ownership")).await?;
        self.wait_for_leader(&before).await?;
        let releases = self.shell.run("helm list --namespace quorate-system --short").await?;
        ensure!(releases.trim() == "quorate", "{releases}");
        self.world.settled("demo", 3).await?;
        ensure!(pods(self.world, "demo").await? == members, "the same image, the same Pods");
        Ok(())
    }

    pub async fn remove_everything(&mut self) -> Result<()> {
        let clusters = self.run("kubectl get etcd --all-namespaces").await?;
        ensure!(clusters.contains("demo"), "{clusters}");
        self.run(
            "kubectl delete etcdusers,etcdbackupschedules,etcdbackups,etcdrestores --all --all-namespaces",
        )
        .await?;
        self.run("kubectl delete etcd --all --all-namespaces").await?;
        ensure!(self.world.pods_of("demo").await?.is_empty(), "Pods stop before the cluster is gone");
        self.run("helm uninstall quorate --namespace quorate-system").await?;
        self.run(
            "kubectl delete crd etcdclusters.operator.etcd.io etcdbackups.operator.etcd.io etcdbackupschedules.operator.etcd.io etcdrestores.operator.etcd.io etcdusers.operator.etcd.io",
        )
        .await?;
        self.run("kubectl delete namespace quorate-system").await?;
        let left = self.run("kubectl get pvc,secret --all-namespaces -l operator.etcd.io/cluster").await?;
        ensure!(left.matches("persistentvolumeclaim/demo-").count() == 3, "{left}");
        ensure!(left.contains("secret/demo-ca"), "{left}");
        self.run("kubectl delete pvc,secret --all-namespaces -l operator.etcd.io/cluster").await?;
        Ok(())
    }

    /// Installs an operator of an older release for two teams, and another one for a third team.
    pub async fn install_in_some_namespaces(&mut self) -> Result<()> {
        self.run("kubectl create namespace team-a").await?;
        self.run("kubectl create namespace team-b").await?;
        self.run_with_older_release(
            "helm install quorate charts/quorate --namespace quorate-system --create-namespace \
             --set \"namespaces={team-a,team-b}\"",
        )
        .await?;
        self.wait_for_leader(&BTreeSet::new()).await?;
        self.run("kubectl apply --server-side --force-conflicts -f config/crd").await?;
        self.wait_for_new_definitions().await?;
        self.run(
            "helm install quorate charts/quorate --namespace team-c --create-namespace \
             --set \"namespaces={team-c}\" --set crds.install=false",
        )
        .await?;
        let wide = "kubectl get clusterrole,clusterrolebinding -o name -l app.kubernetes.io/name=quorate";
        let wide = self.shell.run(wide).await?;
        ensure!(wide.is_empty(), "there is no ClusterRole: {wide}");

        let elsewhere = self.world.create("elsewhere", spec(1)).await?;
        for team in ["team-a", "team-b", "team-c"] {
            self.world.in_namespace(team).await?.create("one", spec(1)).await?;
        }
        for team in ["team-a", "team-b", "team-c"] {
            self.world.in_namespace(team).await?.settled("one", 1).await?;
        }
        let after = self.world.clusters().get("elsewhere").await?;
        ensure!(
            after.metadata.resource_version == elsewhere.metadata.resource_version,
            "a cluster in another namespace was changed"
        );
        Ok(())
    }

    /// Kubernetes deletes the operator's Pods before the cluster that waits for it to take its finalizer off.
    pub async fn delete_the_namespace_of_an_operator_with_its_cluster(&mut self) -> Result<()> {
        let since = Instant::now();
        self.run("kubectl delete namespace team-c").await?;
        ensure!(since.elapsed() < Duration::from_mins(2), "{:?}", since.elapsed());
        self.world.in_namespace("team-a").await?.settled("one", 1).await
    }

    /// Removes the operators first, so that deleted clusters wait; the next operator finishes the deletion.
    pub async fn switch_from_the_chart_to_plain_manifests(&mut self) -> Result<()> {
        self.run("helm uninstall quorate --namespace quorate-system").await?;
        self.wait_for_no_operator("quorate-system").await?;
        self.shell.run("kubectl delete etcd --all --all-namespaces --wait=false").await?;
        let waiting = self.shell.run("kubectl get etcd --all-namespaces --no-headers").await?;
        ensure!(waiting.lines().count() == 2, "two clusters wait for an operator: {waiting}");
        self.run("kubectl apply --server-side --force-conflicts -f config/install/quorate.yaml").await?;
        self.wait_for_leader(&BTreeSet::new()).await?;
        until("the clusters that waited are gone", async || {
            let all: Api<EtcdCluster> = Api::all(self.world.client.clone());
            let left = all.list(&ListParams::default()).await?.items.len();
            Ok(if left == 0 { Ok(()) } else { Err(format!("{left} clusters")) })
        })
        .await
    }

    pub async fn remove_only_the_operator(&mut self) -> Result<()> {
        self.world.create("demo", spec(1)).await?;
        self.world.settled("demo", 1).await?;
        let members = pods(self.world, "demo").await?;
        self.run("kubectl delete namespace quorate-system").await?;
        self.run("kubectl delete clusterrole,clusterrolebinding -l app.kubernetes.io/name=quorate").await?;
        self.ensure_it_serves("demo", "alone").await?;
        ensure!(pods(self.world, "demo").await? == members, "members stay as they are");
        Ok(())
    }

    pub async fn remove_a_cluster_by_hand(&mut self) -> Result<()> {
        self.shell.run("kubectl delete etcd demo --wait=false").await?;
        let demo = self.world.clusters().get("demo").await?;
        ensure!(demo.metadata.deletion_timestamp.is_some(), "the cluster waits for its finalizer");
        self.run("kubectl delete pods -l operator.etcd.io/cluster=demo").await?;
        self.run(r#"kubectl patch etcd demo --type merge -p '{"metadata":{"finalizers":null}}'"#).await?;
        ensure!(self.world.clusters().get_opt("demo").await?.is_none(), "it is gone");
        Ok(())
    }

    pub async fn remove_plain_manifests(&mut self) -> Result<()> {
        self.run("kubectl apply --server-side -f config/install/quorate.yaml").await?;
        self.wait_for_leader(&BTreeSet::new()).await?;
        self.run("kubectl delete --ignore-not-found -f config/install/quorate.yaml").await?;
        self.run("kubectl delete pvc,secret --all-namespaces -l operator.etcd.io/cluster").await?;
        Ok(())
    }
}
