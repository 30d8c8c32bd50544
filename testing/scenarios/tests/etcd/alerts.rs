//! Alerts are seen to fire and to end: a real Prometheus scrapes a playground by the shipped configuration and evaluates the shipped rules,
//! and a real Alertmanager tells a webhook.

mod full {
    use std::env;
    use std::ffi::OsStr;
    use std::net::SocketAddr;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};

    use anyhow::{Result, ensure};
    use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
    use quorate_etcd::testkit::own_address;
    use quorate_scenarios::monitoring::{FASTER, Mark, Monitoring};
    use quorate_scenarios::{NamespaceClient, Playground, S3Server, World, Writer, kube_client, spec, until};
    use serde_json::{Value, json};

    use crate::certificates::replace_by_one_that_ends_in;
    use crate::playground_faults::node_of;
    use crate::space::{QUOTA, fill, with_quota};

    /// Where pictures of the dashboard are to be written, below the root of the repository.
    const PICTURES: &str = "QUORATE_PICTURES";

    /// Where an installed operator is, and the lease of this one.
    const SYSTEM: &str = "quorate-system";

    #[tokio::test(flavor = "multi_thread")]
    async fn each_fault_fires_its_alert_until_it_is_cured_and_a_rollout_fires_nothing_critical() -> Result<()>
    {
        // At a port that no connection takes while the operator is started again.
        let metrics = SocketAddr::new(own_address(), 8080);
        let world = Playground::start_with_args(&["--operator-metrics", &metrics.to_string()]).await?;
        let Some(monitoring) = Monitoring::start(&world.client).await? else {
            return Ok(());
        };
        show_the_operator(&world, metrics).await?;
        world.create("demo", spec(3)).await?;
        world.create("full", with_quota(1, &json!({ "quotaBackendBytes": QUOTA }))).await?;
        world.create("short", spec(1)).await?;
        world.create("kept", spec(1)).await?;
        for (cluster, size) in [("demo", 3), ("full", 1), ("short", 1), ("kept", 1)] {
            world.settled(cluster, size).await?;
        }
        monitoring.scrapes("quorate", 1).await?;
        monitoring.scrapes("quorate-members", 6).await?;

        let mut marks = vec![Mark::now(
            "four clusters are calm; then the Pods of one are rolled, and the operator is killed",
        )];
        nothing_critical_fires(&world, &monitoring).await?;
        // Each in a cluster of its own.
        marks.push(Mark::now("a disk hangs, a database fills up, a certificate ends, a store is down"));
        tokio::try_join!(
            a_disk_hangs(&world, &monitoring),
            a_database_is_full(&world, &monitoring),
            a_certificate_ends(&world, &monitoring),
            a_store_is_down(&world, &monitoring),
        )?;
        every_panel_has_data(&monitoring).await?;
        marks.push(Mark::now("a member is killed for good"));
        a_member_is_killed(&world, &monitoring).await?;
        marks.push(Mark::now("two of three nodes are cut off"));
        nodes_are_cut_off(&world, &monitoring).await?;
        marks.push(Mark::now("the operator hangs"));
        the_operator_hangs(&world, &monitoring).await?;
        match env::var_os(PICTURES) {
            Some(directory) => monitoring.draw(&repository(&directory), &marks).await,
            None => Ok(()),
        }
    }

    /// A folder of the repository.
    fn repository(folder: &OsStr) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder)
    }

    /// The operator of the playground is a process and no Pod. So that it is found as an installed one is, there is a Pod that looks like
    /// its, on a node that nobody runs.
    async fn show_the_operator(world: &Playground, metrics: SocketAddr) -> Result<()> {
        let system = NamespaceClient::new(kube_client(&world.path().join("kubeconfig"), SYSTEM).await?);
        let labels = json!({"app.kubernetes.io/name": "quorate", "app.kubernetes.io/component": "operator"});
        let ports = json!([{"name": "metrics", "containerPort": metrics.port()}]);
        let pod = json!({
            "metadata": {"name": "quorate", "labels": labels},
            "spec": {
                "nodeName": "elsewhere",
                "containers": [{"name": "operator", "image": "quorate:playground", "ports": ports}],
            },
        });
        system.pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        let status =
            json!({"status": {"phase": "Running", "podIP": metrics.ip(), "podIPs": [{"ip": metrics.ip()}]}});
        system.pods().patch_status("quorate", &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// While nothing happens, while a change of the Pods' labels is rolled out, and while the operator is started again.
    async fn nothing_critical_fires(world: &Playground, monitoring: &Monitoring) -> Result<()> {
        let before = monitoring.notices().len();
        let writer = Writer::start(world, "demo").await?;
        // Longer than the longest time for which a critical alert must hold.
        let (start, calm) = (Instant::now(), Duration::from_mins(10) / FASTER);
        until("it was calm for a while", async || {
            Ok(if start.elapsed() > calm { Ok(()) } else { Err(format!("{:?}", monitoring.notices())) })
        })
        .await?;
        let rolls = json!({"spec": {"podTemplate": {"metadata": {"labels": {"rolled": "yes"}}}}});
        world.patch("demo", rolls).await?;
        until("every Pod is rolled", async || {
            let rolled = world.pods().list(&ListParams::default().labels("rolled=yes")).await?.items.len();
            Ok(if rolled == 3 { Ok(()) } else { Err(format!("{rolled} of 3")) })
        })
        .await?;
        world.settled("demo", 3).await?;
        world.kill_operator().await?;
        monitoring.scrapes("quorate", 1).await?;
        writer.stop().await?.are_all_readable(world, "demo").await?;
        let notices = monitoring.notices();
        let critical: Vec<_> = notices[before..]
            .iter()
            .filter(|notice| notice.fires && notice.labels["severity"] == "critical")
            .collect();
        ensure!(critical.is_empty(), "{critical:?}");
        Ok(())
    }

    async fn a_disk_hangs(world: &Playground, monitoring: &Monitoring) -> Result<()> {
        let (member, cluster) = ([("etcd_cluster", "demo"), ("pod", "demo-0")], [("etcd_cluster", "demo")]);
        world.fault(&["hang-disk", "demo-0"])?;
        monitoring.fires("EtcdMemberDown", &member).await?;
        monitoring.fires("EtcdClusterNoSpareVoter", &cluster).await?;
        world.fault(&["hang-disk", "demo-0", "--undo"])?;
        monitoring.ends("EtcdMemberDown", &member).await?;
        monitoring.ends("EtcdClusterNoSpareVoter", &cluster).await?;
        world.settled("demo", 3).await
    }

    async fn a_database_is_full(world: &Playground, monitoring: &Monitoring) -> Result<()> {
        let cluster = [("etcd_cluster", "full")];
        fill(world, "full").await?;
        for alert in ["EtcdAlarm", "EtcdDatabaseFull", "EtcdClusterUnavailable"] {
            monitoring.fires(alert, &cluster).await?;
        }
        world.patch("full", json!({ "spec": { "etcd": { "quotaBackendBytes": "64Mi" } } })).await?;
        for alert in ["EtcdAlarm", "EtcdDatabaseFull", "EtcdClusterUnavailable"] {
            monitoring.ends(alert, &cluster).await?;
        }
        Ok(())
    }

    async fn a_certificate_ends(world: &Playground, monitoring: &Monitoring) -> Result<()> {
        let cluster = [("etcd_cluster", "short")];
        // Otherwise it is renewed at once.
        world.patch("short", json!({"spec": {"paused": true}})).await?;
        replace_by_one_that_ends_in(
            world,
            "short",
            ("short-peer-tls", "quorate-peer"),
            time::Duration::seconds(5),
        )
        .await?;
        monitoring.fires("EtcdCertificateExpired", &cluster).await?;
        world.patch("short", json!({"spec": {"paused": false}})).await?;
        monitoring.ends("EtcdCertificateExpired", &cluster).await
    }

    async fn a_store_is_down(world: &Playground, monitoring: &Monitoring) -> Result<()> {
        let cluster = [("etcd_cluster", "kept")];
        let mut server = S3Server::start()?;
        let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::default_namespaced(world.client.clone());
        secrets.create(&PostParams::default(), &serde_json::from_value(server.secret("store"))?).await?;
        let template: Value = json!({"spec": {
            "source": {"cluster": "kept"}, "destination": server.destination("store"), "retries": 0, "deadline": "20s",
        }});
        world.schedule("rarely", json!({"schedule": "0 0 29 2 *", "backupTemplate": template})).await?;
        let good = world.back_up_now("rarely", "first").await?;
        world.is_backed_up(&good).await?;
        // Backups differ by whole seconds: a failure in that of a good one does not count.
        let complete = Instant::now();
        until("the next second has begun", async || {
            Ok(if complete.elapsed() > Duration::from_secs(1) { Ok(()) } else { Err("not yet".to_owned()) })
        })
        .await?;
        server.stop()?;
        let bad = world.back_up_now("rarely", "second").await?;
        world.backup_ends(&bad, "Failed").await?;
        monitoring.fires("EtcdBackupUnhealthy", &cluster).await?;
        server.start_again()?;
        let good = world.back_up_now("rarely", "third").await?;
        world.is_backed_up(&good).await?;
        monitoring.ends("EtcdBackupUnhealthy", &cluster).await
    }

    /// Also those that filter by the labels that relabelling makes.
    async fn every_panel_has_data(monitoring: &Monitoring) -> Result<()> {
        let of_demo = [("namespace", "default"), ("etcd_cluster", "demo"), ("pod", "demo-.*")];
        let values: Vec<_> = of_demo.into_iter().chain([("__rate_interval", "30s")]).collect();
        until("every panel of the dashboard has data", async || {
            let empty = monitoring.empty_panels(&values).await?;
            Ok(if empty.is_empty() { Ok(()) } else { Err(empty.join("\n")) })
        })
        .await
    }

    /// It stays down: so does its node.
    async fn a_member_is_killed(world: &Playground, monitoring: &Monitoring) -> Result<()> {
        let (member, cluster) = ([("etcd_cluster", "demo"), ("pod", "demo-1")], [("etcd_cluster", "demo")]);
        let node = node_of(world, "demo-1").await?;
        world.fault(&["stop-node", &node])?;
        monitoring.fires("EtcdMemberDown", &member).await?;
        monitoring.fires("EtcdClusterNoSpareVoter", &cluster).await?;
        world.fault(&["stop-node", &node, "--undo"])?;
        monitoring.ends("EtcdMemberDown", &[]).await?;
        monitoring.ends("EtcdClusterNoSpareVoter", &cluster).await?;
        world.settled("demo", 3).await
    }

    /// Two of three, so that no two members reach each other.
    async fn nodes_are_cut_off(world: &Playground, monitoring: &Monitoring) -> Result<()> {
        let cluster = [("etcd_cluster", "demo")];
        let nodes = [node_of(world, "demo-1").await?, node_of(world, "demo-2").await?];
        for node in &nodes {
            world.fault(&["partition", node])?;
        }
        monitoring.fires("EtcdClusterUnavailable", &cluster).await?;
        for node in &nodes {
            world.fault(&["partition", node, "--undo"])?;
        }
        monitoring.ends("EtcdClusterUnavailable", &cluster).await?;
        world.settled("demo", 3).await
    }

    async fn the_operator_hangs(world: &Playground, monitoring: &Monitoring) -> Result<()> {
        world.fault(&["stop-operator"])?;
        monitoring.fires("QuorateDown", &[]).await?;
        world.fault(&["cont-operator"])?;
        monitoring.ends("QuorateDown", &[]).await
    }
}
