//! docs/kamaji.md on kubelets: kube-apiservers of two tenants with exactly what a DataStore gives Kamaji.

/// Some minutes: API servers are rolled three times, and kubelets bring Secrets.
mod full {
    use std::time::{Duration, Instant};

    use anyhow::{Result, ensure};
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube::api::{Api, DeleteParams, PostParams};
    use quorate_scenarios::kamaji::{Kamaji, data_stores, definition, secret_of};
    use quorate_scenarios::rotations::{annotate, entry, rotation, stage};
    use quorate_scenarios::{ApiServers, Clients, Kubernetes, Tenant, report, spec, until};
    use serde_json::json;

    const TENANTS: [&str; 2] = ["red", "blue"];

    /// Without Kamaji nothing takes its finalizer off, where the test ended before.
    const FORGET: &str = "kubectl patch datastores.kamaji.clastix.io tenants --type=merge -p '{\"metadata\":{\"finalizers\":null}}' || true; \
         kubectl delete crd datastores.kamaji.clastix.io --ignore-not-found --timeout=60s && \
         kubectl delete clusterrole/quorate-kamaji clusterrolebinding/quorate-kamaji --ignore-not-found";

    /// In ten thousand writes, while nine members and twelve API servers are restarted.
    const MOST_UNKNOWN: usize = 3;

    /// No writer of a tenant has one acknowledged for as long at most.
    const PAUSE: Duration = Duration::from_secs(5);

    #[tokio::test(flavor = "multi_thread")]
    async fn api_servers_of_two_tenants_of_kamaji_live_through_a_rotation_and_hold_up_the_deletion()
    -> Result<()> {
        let world = Kubernetes::start().await?;
        let shell = world.shell()?;
        shell.run(FORGET).await?;
        let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
        definitions.create(&PostParams::default(), &definition()?).await?;
        let namespace = world.client.default_namespace();
        let role = "quorate-kamaji";
        shell
            .run(&format!(
                "kubectl create clusterrole {role} --verb=list,watch,create,patch,delete --resource=datastores.kamaji.clastix.io && \
                 kubectl create clusterrolebinding {role} --clusterrole={role} --serviceaccount=quorate-system:quorate && \
                 kubectl -n quorate-system set env deployment/quorate QUORATE_KAMAJI_NAMESPACES={namespace} && \
                 kubectl -n quorate-system rollout status deployment/quorate --timeout=100s"
            ))
            .await?;
        let outcome = Box::pin(tenants_live(&world)).await;
        // Tests after this one have the operator as it was installed.
        shell
            .run(
                "kubectl -n quorate-system set env deployment/quorate QUORATE_KAMAJI_NAMESPACES- && \
                 kubectl -n quorate-system rollout status deployment/quorate --timeout=100s",
            )
            .await?;
        shell.run(FORGET).await?;
        outcome
    }

    #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
    async fn tenants_live(world: &Kubernetes) -> Result<()> {
        let mut given = spec(3);
        given["auth"] = json!({"enabled": true});
        given["etcd"] = json!({"autoCompactionMode": "periodic", "autoCompactionRetention": "5m"});
        given["tls"] = json!({"rotation": {"clientGrace": "24h"}});
        given["storageSpec"]["volumeSizeRequest"] = json!("512Mi");
        world.create("demo", given).await?;
        annotate(world, "kamaji-datastore", "tenants").await?;
        world.wait_for_condition("demo", "DataStoreReady", "True").await?;
        world.settled("demo", 3).await?;
        let kamaji = Kamaji::start(world, "tenants");
        let (mut servers, mut clients) = (Vec::new(), Vec::new());
        for name in TENANTS {
            kamaji.add(name).await?;
            let tenant = Tenant { name, cluster: "demo", secret: &secret_of(name) };
            servers.push(ApiServers::start(world, &tenant).await?);
        }
        for servers in &servers {
            clients.push(servers.clients().await?);
        }
        let began = Instant::now();
        annotate(world, "rotate-ca", "clients").await?;
        let to = stage(world, "Trust").await?;
        rolled(&kamaji, &servers, 2).await?;
        annotate(world, "clients-trust", &to).await?;
        stage(world, "Sign").await?;
        rolled(&kamaji, &servers, 3).await?;
        annotate(world, "clients-present", &to).await?;
        for left in ["Sign", "Drop"] {
            until(&format!("the rotation has left the stage {left}"), async || {
                let rotation = rotation(world).await?;
                Ok(if rotation["stage"] == left { Err(rotation.to_string()) } else { Ok(()) })
            })
            .await?;
        }
        rolled(&kamaji, &servers, 4).await?;
        world.settled_again("demo", 3).await?;
        figure("a rotation of the authority of clients", began, &clients);
        let own = entry(world, "demo-ca", "tls.crt").await?;
        for tenant in TENANTS {
            ensure!(entry(world, &secret_of(tenant), "ca.crt").await? == own, "{tenant} trusts another one");
        }
        for clients in clients.drain(..) {
            let served = clients.stop().await?;
            served.went_on(MOST_UNKNOWN, PAUSE)?;
        }

        // Kubernetes deletes Pods in the foreground, until the operator stops it.
        let began = Instant::now();
        world.clusters().delete("demo", &DeleteParams::foreground()).await?;
        until("an event has told it", async || {
            let events = world.events("demo").await?;
            Ok(if events.contains("DeletedInForeground") { Ok(()) } else { Err(events) })
        })
        .await?;
        until("the members serve again", async || {
            let members = world.members("demo").await.map(|members| members.len());
            Ok(if members.as_ref().is_ok_and(|count| *count == 3) {
                Ok(())
            } else {
                Err(format!("{members:?}"))
            })
        })
        .await?;
        for servers in &servers {
            clients.push(servers.clients().await?);
        }
        figure("from a deletion in the foreground, which was stopped, to writes", began, &clients);
        let namespace = world.client.default_namespace();
        let began = Instant::now();
        world.reports("demo", &format!("Tenants {namespace}/blue, {namespace}/red use it")).await?;
        tokio::time::sleep(Duration::from_secs(20)).await;
        ensure!(world.members("demo").await?.len() == 3, "a member was stopped");
        figure("while the deletion waits", began, &clients);
        for clients in clients {
            let served = clients.stop().await?;
            served.went_on(MOST_UNKNOWN, PAUSE)?;
        }
        for tenant in TENANTS {
            world
                .shell()?
                .run(&format!("kubectl delete deployment {tenant} --wait=true --timeout=100s"))
                .await?;
            kamaji.remove(tenant).await?;
        }
        until("the EtcdCluster is gone", async || {
            let found = world.clusters().get_opt("demo").await?;
            Ok(if found.is_none() { Ok(()) } else { Err(format!("{:?}; {found:?}", kamaji.failure())) })
        })
        .await?;
        ensure!(data_stores(world).get_opt("tenants").await?.is_none(), "the DataStore is left");
        Ok(())
    }

    /// Each tenant's certificate was signed so many times, and Kamaji rolls its API servers for that.
    async fn rolled(kamaji: &Kamaji, servers: &[ApiServers], times: u32) -> Result<()> {
        until(&format!("the certificates are signed {times} times"), async || {
            let signed = TENANTS.map(|tenant| kamaji.signed(tenant));
            let is_so = signed.iter().all(|signed| *signed == times);
            Ok(if is_so { Ok(()) } else { Err(format!("{signed:?}, {:?}", kamaji.failure())) })
        })
        .await?;
        for servers in servers {
            servers.restart().await?;
        }
        Ok(())
    }

    fn figure(what: &str, began: Instant, clients: &[Clients]) {
        for (tenant, clients) in TENANTS.iter().zip(clients) {
            report(&format!(
                "{what}: {:.1} s, {tenant}: {}",
                began.elapsed().as_secs_f64(),
                clients.served()
            ));
        }
    }
}
