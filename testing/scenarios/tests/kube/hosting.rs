//! Clusters under kube-apiservers, as those who host control planes have them. docs/hosting.md

/// Some minutes each: API servers start and are restarted, and kubelets bring Secrets when they do.
mod full {
    use std::fmt::Display;
    use std::time::{Duration, Instant};

    use anyhow::{Context, Result, bail, ensure};
    use k8s_openapi::api::core::v1::Pod;
    use kube::ResourceExt;
    use kube::api::{Api, ListParams};
    use quorate_etcd::Read;
    use quorate_scenarios::rig::Outage;
    use quorate_scenarios::rotations::{annotate, entry, stage};
    use quorate_scenarios::{
        ApiServers, Clients, Kubernetes, Page, Served, Tenant, Timeline, Writer, report, spec, until,
    };
    use serde::Deserialize;
    use serde_json::{Value, json};

    #[tokio::test(flavor = "multi_thread")]
    async fn both_authorities_are_replaced_under_api_servers_that_are_restarted_once_within_the_grace()
    -> Result<()> {
        let world = Kubernetes::start().await?;
        let mut given = spec(3);
        given["tls"] = json!({"rotation": {"clientGrace": "24h"}});
        world.create("demo", given).await?;
        world.settled("demo", 3).await?;
        let tenant = Tenant { name: "tenant", cluster: "demo", secret: "demo-client-tls" };
        let servers = ApiServers::start(&world, &tenant).await?;
        for size in [3, 5] {
            world.scale("demo", size).await?;
            world.settled("demo", size).await?;
            let writer = Writer::start(&world, "demo").await?;
            let clients = servers.clients().await?;
            let began = Instant::now();
            order(&world, &format!("peers/{size}")).await?;
            ended(&world, &format!("peers/{size}")).await?;
            figure(&format!("{size} members, peers"), began, clients.served());

            let (began, leaf) = (Instant::now(), entry(&world, "demo-client-tls", "tls.crt").await?);
            order(&world, &format!("clients/{size}")).await?;
            let to = stage(&world, "Trust").await?;
            servers.restart().await?;
            writer.stop().await?.are_all_readable(&world, "demo").await?;
            let writer = Writer::start(&world, "demo").await?;
            annotate(&world, "clients-trust", &to).await?;
            stage(&world, "Sign").await?;
            // An API server reads its certificate again at each connection.
            until("the leaf of clients is another one", async || {
                Ok(if entry(&world, "demo-client-tls", "tls.crt").await? == leaf {
                    Err("not yet".to_owned())
                } else {
                    Ok(())
                })
            })
            .await?;
            servers.have(&entry(&world, "demo-client-tls", "tls.crt").await?).await?;
            annotate(&world, "clients-present", &to).await?;
            ended(&world, &format!("clients/{size}")).await?;
            world.settled_again("demo", size).await?;
            let served = clients.stop().await?;
            figure(&format!("{size} members, clients; both through API servers"), began, &served);
            let acknowledged = writer.stop().await?;
            served.went_on(IN_A_TRANSFER, SERVES)?;
            acknowledged.are_all_readable(&world, "demo").await?;
        }
        Ok(())
    }

    /// Two tenants of one cluster as the sample has it, each with an EtcdUser and API servers of its own, which are never restarted by the test.
    #[tokio::test(flavor = "multi_thread")]
    async fn two_tenants_live_through_a_drain_an_upgrade_and_a_restore_in_place_and_cannot_read_each_other()
    -> Result<()> {
        let world = Kubernetes::start().await?;
        let store = world.claim_for_backups("backups").await?;
        world
            .create(
                "demo",
                sample("EtcdCluster", |spec| {
                    spec["version"] = json!(OLD);
                    spec["storageSpec"]["volumeSizeRequest"] = json!("512Mi");
                })?,
            )
            .await?;
        for tenant in TENANTS {
            let text = sample("EtcdUser", |spec| spec["cluster"] = json!("demo"))?.to_string();
            let spec = serde_json::from_str(&text.replace("tenant-a", tenant))?;
            world.create_user(tenant, spec).await?;
        }
        world.wait_for_condition("demo", "AuthReady", "True").await?;
        world.settled("demo", 3).await?;
        let mut servers = Vec::new();
        for name in TENANTS {
            let secret = format!("{name}-etcd");
            servers
                .push(ApiServers::start(&world, &Tenant { name, cluster: "demo", secret: &secret }).await?);
        }
        let clients = both(&servers).await?;
        for (own, other) in [(TENANTS[0], TENANTS[1]), (TENANTS[1], TENANTS[0])] {
            is_kept_out(&world, own, other).await?;
        }

        let shell = world.shell()?;
        let node = world.nodes_of("demo").await?.into_iter().next().context("no node")?;
        let began = Instant::now();
        let drain = format!("kubectl drain {node} --ignore-daemonsets --delete-emptydir-data --timeout=100s");
        let drained = shell.run(&drain).await;
        figure("a node is drained", began, told(&clients));
        shell.run(&format!("kubectl uncordon {node}")).await?;
        drained?;
        world.settled_again("demo", 3).await?;
        figure("it is back", began, told(&clients));

        let began = Instant::now();
        world.patch("demo", json!({"spec": {"version": quorate_scenarios::version()}})).await?;
        world.settled_again("demo", 3).await?;
        figure(&format!("{OLD} to {}", quorate_scenarios::version()), began, told(&clients));

        world.back_up("backup", "demo", &store).await?;
        world.is_backed_up("backup").await?;
        for served in ended_of(clients).await? {
            served.went_on(IN_A_TRANSFER, SERVES)?;
        }

        let (began, id) = (Instant::now(), world.cluster_id("demo").await?);
        world.restore_in_place("back", "demo", &id, "backup").await?;
        world.restore_is("back", "Complete").await?;
        figure("restored in place", began, "");
        let clients = both(&servers).await?;
        figure("both tenants write", began, "");
        world.wait_for_condition("demo", "AuthReady", "True").await?;
        world.settled_again("demo", 3).await?;
        is_kept_out(&world, TENANTS[0], TENANTS[1]).await?;
        for served in ended_of(clients).await? {
            figure("after the restore", began, served);
        }
        Ok(())
    }

    /// Every command of the page. Each node of the pool goes and another one comes in its place; then a node is lost. Volumes are local disks here.
    #[tokio::test(flavor = "multi_thread")]
    async fn every_node_is_replaced_and_one_is_lost_under_a_tenant_by_the_commands_of_the_page() -> Result<()>
    {
        let world = Kubernetes::start().await?;
        let (shell, mut page) = (world.shell()?, Page::read("docs/hosting.md")?);
        page.run(&shell, "kubectl apply -f config/samples/hosting-shared.yaml").await?;
        page.run(&shell, "kubectl wait etcd/tenants --for=condition=AuthReady --timeout=300s").await?;
        page.run(&shell, "kubectl wait etcduser/tenant-a --for=condition=Ready --timeout=120s").await?;
        page.run(&shell, "kubectl get secret tenant-a-etcd").await?;
        // Shorter than its default of ten minutes.
        world.patch("tenants", json!({"spec": {"recovery": {"gracePeriod": "60s"}}})).await?;
        world.settled("tenants", 3).await?;
        let id = world.one_cluster_id("tenants").await?;
        let tenant = Tenant { name: "tenant-a", cluster: "tenants", secret: "tenant-a-etcd" };
        let servers = ApiServers::start(&world, &tenant).await?;
        let started = shell.run("kubectl get deployment tenant-a -o yaml").await?;
        for flag in flags(&page) {
            let own = flag.replace("NAMESPACE", world.client.default_namespace());
            ensure!(started.contains(&own), "the API servers are not started with {own}:\n{started}");
            page.mark_as_covered(&flag)?;
        }
        let (drain, delete, wait) = (
            "kubectl drain NODE --ignore-daemonsets --delete-emptydir-data",
            "kubectl delete node NODE",
            "kubectl wait etcd --all --for=condition=Ready --timeout=30m",
        );
        for command in [drain, delete, wait] {
            page.mark_as_covered(command)?;
        }
        page.ensure_all_covered()?;

        let clients = servers.clients().await?;
        for node in world.nodes_of("tenants").await? {
            let (began, lost) = (Instant::now(), member_on(&world, &node).await?);
            let timeline =
                Timeline::of(&world, "tenants", &format!("{node} is drained, deleted and replaced"));
            shell.run(&drain.replace("NODE", &node)).await?;
            figure(&format!("{node} is drained"), began, clients.served());
            shell.run(&delete.replace("NODE", &node)).await?;
            // The machine is gone. The one that comes in its place has the same name and an empty disk.
            let outage = Outage::kill(&[&format!("kubelet-{node}")])?;
            is_given_up(&world, &lost).await?;
            figure(&format!("{lost} is given up"), began, clients.served());
            outage.repair()?;
            shell.run(&wait.replace("30m", "110s")).await?;
            world.settled_again("tenants", 3).await?;
            figure(&format!("{node} is replaced"), began, clients.served());
            drop(timeline);
        }
        let served = clients.stop().await?;
        served.went_on(IN_A_TRANSFER, SERVES)?;

        let node = without_operator(&world).await?;
        let clients = servers.clients().await?;
        let (began, lost) = (Instant::now(), member_on(&world, &node).await?);
        let timeline = Timeline::of(&world, "tenants", &format!("{node} is lost"));
        let kubelet = Outage::kill(&[&format!("kubelet-{node}")])?;
        let network = Outage::cut(&[&node])?;
        until("Kubernetes says that the node does not report", async || {
            let nodes = shell.run("kubectl get nodes").await?;
            Ok(if nodes.contains("NotReady") { Ok(()) } else { Err(nodes) })
        })
        .await?;
        figure(&format!("{node} is NotReady"), began, clients.served());
        world.wait_for_condition("tenants", "Available", "True").await?;
        shell.run(&delete.replace("NODE", &node)).await?;
        // Kubernetes removes the Pods of a node that is gone within a minute. The grace period begins then.
        until("another Pod of it waits for a node", async || {
            let pod = world.pods().get_opt(&lost).await?;
            let waits = pod.and_then(|pod| pod.spec).is_some_and(|spec| spec.node_name.is_none());
            Ok(if waits { Ok(()) } else { Err("not yet".to_owned()) })
        })
        .await?;
        figure(&format!("the Pod of {lost} is gone with its node"), began, clients.served());
        is_given_up(&world, &lost).await?;
        figure(&format!("{lost} is given up"), began, clients.served());
        kubelet.repair()?;
        network.repair()?;
        world.settled_again("tenants", 3).await?;
        figure(&format!("{node} is replaced"), began, clients.served());
        drop(timeline);
        // Connections to the API server of the lost node hang until they time out: what fails there is no failure of etcd. What was acknowledged is
        // there: each client goes on by the version that it was answered.
        clients.stop().await?;
        ensure!(world.one_cluster_id("tenants").await? == id, "it is another cluster");
        Ok(())
    }

    /// The flags of a kube-apiserver on the page, with which the API servers of these tests run.
    fn flags(page: &Page) -> Vec<String> {
        page.commands().filter(|command| command.starts_with("--")).map(str::to_owned).collect()
    }

    async fn member_on(world: &Kubernetes, node: &str) -> Result<String> {
        let pods = world.pods_of("tenants").await?;
        let on = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
        Ok(pods.into_iter().find(on).with_context(|| format!("no member on {node}"))?.name_any())
    }

    /// Waits until another member is made instead of this one.
    async fn is_given_up(world: &Kubernetes, member: &str) -> Result<()> {
        until(&format!("{member} is given up"), async || {
            let names: Vec<String> =
                world.pods_of("tenants").await?.iter().map(ResourceExt::name_any).collect();
            let is_given_up = names.len() == 3 && !names.iter().any(|name| name == member);
            Ok(if is_given_up { Ok(()) } else { Err(format!("{names:?}")) })
        })
        .await
    }

    /// A node with a member, and without the operator: what that one's end costs is measured elsewhere.
    async fn without_operator(world: &Kubernetes) -> Result<String> {
        let operators: Api<Pod> = Api::namespaced(world.client.clone(), "quorate-system");
        let theirs = operators.list(&ListParams::default()).await?.items;
        let theirs: Vec<String> = theirs.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
        let nodes = world.nodes_of("tenants").await?;
        nodes.into_iter().find(|node| !theirs.contains(node)).context("the operator is on every node")
    }

    /// How many writes may be on their way to a leader that hands over: one of each writer.
    const IN_A_TRANSFER: usize = 4;

    /// No writer waits longer than this in a planned act, on a busy machine. The goal is 0.5 s.
    const SERVES: Duration = Duration::from_secs(3);

    /// Before the upgrade.
    const OLD: &str = "3.5.35";

    const TENANTS: [&str; 2] = ["red", "blue"];

    /// What the sample says in the spec of this kind, changed.
    fn sample(kind: &str, change: impl FnOnce(&mut Value)) -> Result<Value> {
        for document in serde_yaml_ng::Deserializer::from_str(include_str!(
            "../../../../config/samples/hosting-shared.yaml"
        )) {
            let object = Value::deserialize(document)?;
            if object["kind"] == kind {
                let mut spec = object["spec"].clone();
                change(&mut spec);
                return Ok(spec);
            }
        }
        bail!("the sample has no {kind}")
    }

    async fn both(servers: &[ApiServers]) -> Result<Vec<Clients>> {
        let mut clients = Vec::new();
        for servers in servers {
            clients.push(servers.clients().await?);
        }
        Ok(clients)
    }

    /// A line of what was measured.
    fn figure(what: &str, began: Instant, served: impl Display) {
        report(&format!("{what}: {:.1} s {served}", began.elapsed().as_secs_f64()));
    }

    fn told(clients: &[Clients]) -> String {
        clients.iter().map(|clients| clients.served().to_string()).collect::<Vec<_>>().join("; and ")
    }

    async fn ended_of(clients: Vec<Clients>) -> Result<Vec<Served>> {
        let mut served = Vec::new();
        for clients in clients {
            served.push(clients.stop().await?);
        }
        Ok(served)
    }

    /// Whoever has the certificate of one tenant neither reads nor writes what is another's.
    async fn is_kept_out(world: &Kubernetes, own: &str, other: &str) -> Result<()> {
        let user = world.with_certificate_of(&format!("{own}-etcd"));
        for (name, member) in user.members("demo").await? {
            let key = |tenant: &str| format!("/{tenant}/probe");
            member.put(&key(own), "x").await.with_context(|| format!("{own} at {name}"))?;
            for refused in [
                member.put(&key(other), "x").await.err().map(|error| format!("{error:#?}")),
                member.get(&key(other), Read::Linearizable).await.err().map(|error| format!("{error:#?}")),
            ] {
                ensure!(
                    refused.as_ref().is_some_and(|text| text.contains("permission denied")),
                    "{own} at {name}: {refused:?}"
                );
            }
        }
        Ok(())
    }

    async fn order(world: &Kubernetes, authority: &str) -> Result<()> {
        annotate(world, "rotate-ca", authority).await
    }

    /// Waits until what this order began has ended. Five members that kubelets bring Secrets to, one after the other, take longer than one wait.
    async fn ended(world: &Kubernetes, order: &str) -> Result<()> {
        let certificates = async || anyhow::Ok(world.status("demo").await?["certificates"].clone());
        for stage in ["Trust", "Sign", "Drop"] {
            until(&format!("the rotation has left the stage {stage}"), async || {
                let certificates: Value = certificates().await?;
                let is_there =
                    certificates["rotation"]["stage"] == stage || certificates["lastRotationOrder"] != order;
                Ok(if is_there { Err(certificates.to_string()) } else { Ok(()) })
            })
            .await?;
        }
        Ok(())
    }
}
