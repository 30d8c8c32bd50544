//! What people do by docs/install.md, in the order in which one leads to the next. What the page promises is looked at
//! between its commands.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use kube::api::{Api, ListParams};
use quorate_api::EtcdCluster;
use quorate_scenarios::{spec, until};
use serde_json::json;

use crate::reader::{Reader, pods};

impl Reader<'_> {
    /// From a registry, an older release, so that there is something to upgrade.
    pub async fn installs_by_chart(&mut self) -> Result<()> {
        self.did(
            "helm install quorate charts/quorate --namespace quorate-system --create-namespace \
             --set image.repository=$REGISTRY/quorate",
        )
        .await?;
        self.does("kubectl label namespace quorate-system pod-security.kubernetes.io/enforce=restricted")
            .await?;
        self.sees_it_lead(&BTreeSet::new()).await?;
        Ok(())
    }

    pub async fn sees_that_it_works(&mut self) -> Result<()> {
        self.does("kubectl apply -f config/samples/etcdcluster.yaml").await?;
        self.does("kubectl wait etcd/demo --for=condition=Available --timeout=5m").await?;
        // Available says that a quorum serves; people take longer to type than the last member takes to come.
        self.world.settled("demo", 3).await?;
        let row = self.does("kubectl get etcd demo").await?;
        ensure!(row.contains("3.6.16") && row.contains("Running"), "{row}");
        let table =
            self.does("kubectl exec demo-0 -c etcd -- etcdctl endpoint status --cluster -w table").await?;
        ensure!(table.matches("https://demo-").count() == 3, "{table}");
        let told = self.does("kubectl describe etcd demo").await?;
        let (status, events) = told.split_once("\nEvents:").unwrap_or_default();
        ensure!(status.contains("3 of 3 voters are healthy") && events.contains("Bootstrapped"), "{told}");
        let log =
            self.does("kubectl -n quorate-system logs -l app.kubernetes.io/name=quorate --tail=50").await?;
        ensure!(log.contains("/demo"), "{log}");
        Ok(())
    }

    /// Who has the built-in roles in a namespace.
    pub async fn sees_who_may_have_clusters(&self) -> Result<()> {
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
        ensure!(!may("view", "create").await?, "who only views may not create");
        Ok(())
    }

    /// Clusters are told of neither: their Pods' image stays the same.
    pub async fn upgrades(&mut self) -> Result<()> {
        let before = self.sees_it_lead(&BTreeSet::new()).await?;
        let members = pods(self.world, "demo").await?;
        self.does("helm upgrade quorate charts/quorate --namespace quorate-system --reset-then-reuse-values")
            .await?;
        self.sees_it_lead(&before).await?;
        self.sees_new_definitions().await?;
        self.sees_it_serve("demo", "upgraded").await?;
        ensure!(pods(self.world, "demo").await? == members, "no member was touched");
        Ok(())
    }

    /// Then nothing is repaired, until there is an operator again; this time by plain manifests, of the same image.
    pub async fn uninstalls_and_keeps_clusters(&mut self) -> Result<()> {
        let members = pods(self.world, "demo").await?;
        self.does("helm uninstall quorate --namespace quorate-system").await?;
        self.sees_no_operator("quorate-system").await?;
        ensure!(pods(self.world, "demo").await? == members, "members stay as they are");
        self.sees_it_serve("demo", "uninstalled").await?;
        self.shell.run("kubectl delete pod demo-1").await?;
        ensure!(pods(self.world, "demo").await?.len() == 2, "nobody repairs");

        self.does(
            r#"sed "s|quorate:0.1.0|$REGISTRY/quorate:0.1.0|" config/install/quorate.yaml | kubectl apply --server-side -f -"#,
        )
        .await?;
        self.sees_it_lead(&BTreeSet::new()).await?;
        self.world.settled("demo", 3).await?;
        let now = pods(self.world, "demo").await?;
        ensure!(now.intersection(&members).count() == 2, "only what was gone was made again");
        self.sees_key("demo", "uninstalled").await
    }

    /// Another image, and a cluster that is held back from it for a while.
    pub async fn upgrades_plain_manifests(&mut self) -> Result<()> {
        let before = self.sees_it_lead(&BTreeSet::new()).await?;
        let members = pods(self.world, "demo").await?;
        self.does(r#"kubectl patch etcd demo --type merge -p '{"spec":{"paused":true}}'"#).await?;
        self.does("kubectl apply --server-side -f config/install/quorate.yaml").await?;
        self.sees_it_lead(&before).await?;
        // An edit shows that the new operator has looked at the cluster.
        let edited = self.world.patch("demo", json!({"spec": {"etcd": {"snapshotCount": 5000}}})).await?;
        until("the edit is seen", async || {
            let seen = self.world.status("demo").await?["observedGeneration"].as_i64();
            Ok(if seen == edited.metadata.generation { Ok(()) } else { Err(format!("{seen:?}")) })
        })
        .await?;
        ensure!(pods(self.world, "demo").await? == members, "it was held back");

        self.does(r#"kubectl patch etcd demo --type merge -p '{"spec":{"paused":false}}'"#).await?;
        until("every member is of the new image", async || {
            let pods = self.world.pods_of("demo").await?;
            let guards = pods.iter().filter_map(|pod| pod.spec.as_ref()?.init_containers.as_ref()?.first());
            let images: Vec<_> = guards.filter_map(|guard| guard.image.as_deref()).collect();
            Ok(if images == ["quorate:0.1.0"; 3] { Ok(()) } else { Err(format!("{images:?}")) })
        })
        .await?;
        self.world.settled("demo", 3).await?;
        self.sees_key("demo", "upgraded").await
    }

    pub async fn goes_from_plain_manifests_to_the_chart(&mut self) -> Result<()> {
        const WITHOUT: &str = "helm upgrade --install quorate charts/quorate --namespace quorate-system";
        let before = self.sees_it_lead(&BTreeSet::new()).await?;
        let members = pods(self.world, "demo").await?;
        let refusal = self.shell.run(WITHOUT).await.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(refusal.contains("cannot be imported"), "Helm was to refuse: {refusal}");
        self.does(&format!("{WITHOUT} --take-ownership")).await?;
        self.sees_it_lead(&before).await?;
        let releases = self.shell.run("helm list --namespace quorate-system --short").await?;
        ensure!(releases.trim() == "quorate", "{releases}");
        self.world.settled("demo", 3).await?;
        ensure!(pods(self.world, "demo").await? == members, "the same image, the same Pods");
        Ok(())
    }

    pub async fn removes_everything(&mut self) -> Result<()> {
        let clusters = self.does("kubectl get etcd --all-namespaces").await?;
        ensure!(clusters.contains("demo"), "{clusters}");
        self.does("kubectl delete etcd --all --all-namespaces").await?;
        ensure!(self.world.pods_of("demo").await?.is_empty(), "Pods stop before the cluster is gone");
        self.does("helm uninstall quorate --namespace quorate-system").await?;
        self.does("kubectl delete crd etcdclusters.operator.etcd.io").await?;
        self.does("kubectl delete namespace quorate-system").await?;
        let volumes = self.does("kubectl get pvc --all-namespaces -l operator.etcd.io/cluster").await?;
        ensure!(volumes.matches(" demo-").count() == 3, "{volumes}");
        self.does("kubectl delete pvc --all-namespaces -l operator.etcd.io/cluster").await?;
        Ok(())
    }

    /// An operator for two teams, of an older release, and a third team that has its own.
    pub async fn installs_in_some_namespaces(&mut self) -> Result<()> {
        self.does("kubectl create namespace team-a").await?;
        self.does("kubectl create namespace team-b").await?;
        self.did(
            "helm install quorate charts/quorate --namespace quorate-system --create-namespace \
             --set \"namespaces={team-a,team-b}\"",
        )
        .await?;
        self.sees_it_lead(&BTreeSet::new()).await?;
        self.does("kubectl apply --server-side --force-conflicts -f config/crd").await?;
        self.sees_new_definitions().await?;
        self.does(
            "helm install quorate charts/quorate --namespace team-c --create-namespace \
             --set \"namespaces={team-c}\" --set crds.install=false",
        )
        .await?;
        let wide = "kubectl get clusterrole,clusterrolebinding -o name -l app.kubernetes.io/name=quorate";
        let wide = self.shell.run(wide).await?;
        ensure!(wide.is_empty(), "there is no ClusterRole: {wide}");

        let elsewhere = self.world.create("elsewhere", spec(1)).await?;
        for team in ["team-a", "team-b", "team-c"] {
            self.world.beside(team).await?.create("one", spec(1)).await?;
        }
        for team in ["team-a", "team-b", "team-c"] {
            self.world.beside(team).await?.settled("one", 1).await?;
        }
        let after = self.world.clusters().get("elsewhere").await?;
        ensure!(
            after.metadata.resource_version == elsewhere.metadata.resource_version,
            "that is none of theirs"
        );
        Ok(())
    }

    /// Without the operators first, so that a deleted cluster waits; the next operator finishes it.
    pub async fn goes_from_the_chart_to_plain_manifests(&mut self) -> Result<()> {
        self.does("helm uninstall quorate --namespace quorate-system").await?;
        self.shell.run("helm uninstall quorate --namespace team-c").await?;
        self.sees_no_operator("quorate-system").await?;
        self.sees_no_operator("team-c").await?;
        self.shell.run("kubectl delete etcd --all --all-namespaces --wait=false").await?;
        let waiting = self.shell.run("kubectl get etcd --all-namespaces --no-headers").await?;
        ensure!(waiting.lines().count() == 3, "three clusters wait for an operator: {waiting}");
        self.does("kubectl apply --server-side --force-conflicts -f config/install/quorate.yaml").await?;
        self.sees_it_lead(&BTreeSet::new()).await?;
        until("the clusters that waited are gone", async || {
            let all: Api<EtcdCluster> = Api::all(self.world.client.clone());
            let left = all.list(&ListParams::default()).await?.items.len();
            Ok(if left == 0 { Ok(()) } else { Err(format!("{left} clusters")) })
        })
        .await
    }

    pub async fn removes_only_the_operator(&mut self) -> Result<()> {
        self.world.create("demo", spec(1)).await?;
        self.world.settled("demo", 1).await?;
        let members = pods(self.world, "demo").await?;
        self.does("kubectl delete namespace quorate-system").await?;
        self.does("kubectl delete clusterrole,clusterrolebinding -l app.kubernetes.io/name=quorate").await?;
        self.sees_it_serve("demo", "alone").await?;
        ensure!(pods(self.world, "demo").await? == members, "members stay as they are");
        Ok(())
    }

    pub async fn removes_a_cluster_by_hand(&mut self) -> Result<()> {
        self.shell.run("kubectl delete etcd demo --wait=false").await?;
        let demo = self.world.clusters().get("demo").await?;
        ensure!(demo.metadata.deletion_timestamp.is_some(), "it waits");
        self.does("kubectl delete pods -l operator.etcd.io/cluster=demo").await?;
        self.does(r#"kubectl patch etcd demo --type merge -p '{"metadata":{"finalizers":null}}'"#).await?;
        ensure!(self.world.clusters().get_opt("demo").await?.is_none(), "it is gone");
        Ok(())
    }

    pub async fn removes_plain_manifests(&mut self) -> Result<()> {
        self.does("kubectl apply --server-side -f config/install/quorate.yaml").await?;
        self.sees_it_lead(&BTreeSet::new()).await?;
        self.does("kubectl delete --ignore-not-found -f config/install/quorate.yaml").await?;
        self.does("kubectl delete pvc --all-namespaces -l operator.etcd.io/cluster").await?;
        Ok(())
    }
}
