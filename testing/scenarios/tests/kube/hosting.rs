//! Clusters under kube-apiservers, as those who host control planes have them. docs/hosting.md

/// Some minutes each: API servers start and are restarted, and kubelets bring Secrets when they do.
mod full {
    use std::fmt::Display;
    use std::time::Instant;

    use anyhow::{Context, Result, bail, ensure};
    use k8s_openapi::api::core::v1::Secret;
    use kube::Api;
    use quorate_etcd::Read;
    use quorate_scenarios::{ApiServers, Clients, Kubernetes, Served, Tenant, Writer, report, spec, until};
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
            ensure!(served.failed.is_empty(), "{served}");
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
            ensure!(served.failed.is_empty(), "{served}");
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

    async fn annotate(world: &Kubernetes, key: &str, value: &str) -> Result<()> {
        let annotations = json!({ format!("operator.etcd.io/{key}"): value });
        world.patch("demo", json!({"metadata": {"annotations": annotations}})).await?;
        Ok(())
    }

    /// Waits until the rotation is in this stage, and returns the fingerprint of the new authority.
    async fn stage(world: &Kubernetes, wanted: &str) -> Result<String> {
        let rotation = async || anyhow::Ok(world.status("demo").await?["certificates"]["rotation"].clone());
        until(&format!("the rotation is in stage {wanted}"), async || {
            let rotation = rotation().await?;
            Ok(if rotation["stage"] == wanted { Ok(()) } else { Err(rotation.to_string()) })
        })
        .await?;
        Ok(rotation().await?["to"].as_str().context("no fingerprint")?.to_owned())
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

    async fn entry(world: &Kubernetes, secret: &str, key: &str) -> Result<Vec<u8>> {
        let secrets: Api<Secret> = Api::default_namespaced(world.client.clone());
        let data = secrets.get(secret).await?.data;
        Ok(data.and_then(|mut data| data.remove(key)).with_context(|| format!("{secret} has no {key}"))?.0)
    }
}
