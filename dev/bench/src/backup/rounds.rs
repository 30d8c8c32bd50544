//! Rounds of back up, wreck, restore. A round has passed if the restored cluster has everything up to the revision of the backup.

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, DeleteParams, PostParams};
use quorate_etcd::testkit::{MINORS, etcd};
use quorate_scenarios::backups::{restored, restored_from};
use quorate_scenarios::{NamespaceClient, Playground, S3Server, Writer, kube_client, spec, until};
use serde_json::{Value, json};

#[derive(Args, Clone)]
pub struct Rounds {
    /// How many
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// What is lost in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wreck {
    /// The cluster and all its volumes.
    Volumes,
    /// The namespace, with the EtcdBackups in it.
    Namespace,
    /// The cluster, and a byte of the latest backup: the one before it is restored.
    TamperedBackup,
}

const WRECKS: [Wreck; 3] = [Wreck::Volumes, Wreck::Namespace, Wreck::TamperedBackup];

pub async fn run(args: &Rounds) -> Result<()> {
    let world = Playground::start().await?;
    let s3 = S3Server::start()?;
    let versions: Vec<String> =
        MINORS.iter().map(|minor| xtask::etcd_version(&etcd(*minor))).collect::<Result<_>>()?;
    println!(
        "{:>5}  {:<8} {:>4}  {:<15} {:>9} {:>9}  result",
        "round", "etcd", "size", "wreck", "backup s", "restore s"
    );
    let mut passed = 0;
    for round in 0..args.rounds {
        let turn = usize::try_from(round)?;
        let round = Round {
            number: round,
            version: versions[turn % versions.len()].clone(),
            size: if turn % 4 == 3 { 1 } else { 3 },
            wreck: WRECKS[turn / versions.len() % WRECKS.len()],
        };
        let result = round.run(&world, &s3).await;
        passed += u32::from(result.is_ok());
        let Round { number, version, size, wreck } = &round;
        let (times, result) = match result {
            Ok((backup, restore)) => (format!("{backup:>9.1} {restore:>9.1}"), "passed".to_owned()),
            Err(error) => (format!("{:>9} {:>9}", "-", "-"), format!("FAILED: {error:#}")),
        };
        println!("{number:>5}  {version:<8} {size:>4}  {:<15} {times}  {result}", format!("{wreck:?}"));
    }
    println!("{passed} of {} rounds passed", args.rounds);
    ensure!(passed == args.rounds, "not every round has passed");
    Ok(())
}

struct Round {
    number: u32,
    version: String,
    size: usize,
    wreck: Wreck,
}

impl Round {
    /// The seconds of the last backup, and of the restore until every member serves.
    async fn run(&self, world: &Playground, s3: &S3Server) -> Result<(f64, f64)> {
        let store = json!({"s3": {
            "bucket": S3Server::BUCKET, "prefix": format!("round-{}", self.number), "endpoint": s3.endpoint(),
            "credentialsSecret": {"name": "s3"},
        }});
        let user = self.namespace(world, "a").await?;
        user.create("demo", self.spec(spec(self.size))).await?;
        user.settled("demo", self.size).await?;
        let writer = Writer::start(&user, "demo").await?;
        user.back_up("first", "demo", &store).await?;
        let mut result = user.is_backed_up("first").await?["result"].clone();
        let began = Instant::now();
        user.back_up("second", "demo", &store).await?;
        let second = user.is_backed_up("second").await?["result"].clone();
        let backup = began.elapsed().as_secs_f64();
        let acknowledged = writer.stop().await?;
        let source = match self.wreck {
            Wreck::Volumes => {
                user.wreck("demo").await?;
                result = second;
                json!({"backupRef": {"name": "second"}})
            }
            Wreck::Namespace => {
                delete_namespace(&user).await?;
                result = second;
                json!({"source": {"destination": store, "key": result["key"], "sha256": result["storedSha256"]}})
            }
            Wreck::TamperedBackup => {
                self.tamper(s3, &second)?;
                user.wreck("demo").await?;
                user.create("spoilt", self.spec(restored_from(1, "second"))).await?;
                user.reports("spoilt", "SHA-256").await?;
                user.wreck("spoilt").await?;
                json!({"backupRef": {"name": "first"}})
            }
        };
        let user = if self.wreck == Wreck::Namespace { self.namespace(world, "b").await? } else { user };
        let began = Instant::now();
        user.create("again", self.spec(restored(self.size, &source))).await?;
        user.settled("again", self.size).await?;
        let restore = began.elapsed().as_secs_f64();
        let revision = result["revision"].as_i64().with_context(|| format!("no revision in {result}"))?;
        acknowledged.are_readable_as_of(&user, "again", revision).await?;
        delete_namespace(&user).await?;
        self.clear(world)?;
        Ok((backup, restore))
    }

    /// The playground keeps the directories of volumes that are gone: some 400 MB a round.
    fn clear(&self, world: &Playground) -> Result<()> {
        let own = format!("_round-{}-", self.number);
        for entry in std::fs::read_dir(world.path().join("volumes"))? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().contains(&own) {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    fn spec(&self, mut spec: Value) -> Value {
        spec["version"] = json!(self.version);
        spec
    }

    /// A new namespace with the credentials of the store.
    async fn namespace(&self, world: &Playground, part: &str) -> Result<NamespaceClient> {
        let name = format!("round-{}-{part}", self.number);
        let user = NamespaceClient { client: kube_client(&world.path().join("kubeconfig"), &name).await? };
        let namespaces: Api<Namespace> = Api::all(user.client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
        let secrets: Api<Secret> = Api::default_namespaced(user.client.clone());
        let secret = json!({
            "metadata": {"name": "s3"},
            "stringData": {"AWS_ACCESS_KEY_ID": S3Server::ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": S3Server::SECRET_KEY},
        });
        secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
        Ok(user)
    }

    /// Changes one byte in the middle of the object.
    fn tamper(&self, s3: &S3Server, result: &Value) -> Result<()> {
        let key = result["key"].as_str().with_context(|| format!("no key in {result}"))?;
        let file = s3.bucket_dir().join(format!("round-{}", self.number)).join(key);
        let mut bytes = std::fs::read(&file).with_context(|| format!("no object {}", file.display()))?;
        let middle = bytes.len() / 2;
        match bytes.get_mut(middle) {
            Some(byte) => *byte ^= 1,
            None => bail!("{} is empty", file.display()),
        }
        Ok(std::fs::write(file, bytes)?)
    }
}

#[expect(clippy::disallowed_methods, reason = "the benchmark is the user who deletes")]
async fn delete_namespace(user: &NamespaceClient) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(user.client.clone());
    let name = user.client.default_namespace();
    namespaces.delete(name, &DeleteParams::default()).await?;
    until(&format!("the namespace {name} is gone"), async || {
        let there = namespaces.get_opt(name).await?.is_some();
        Ok(if there { Err("it is there".to_owned()) } else { Ok(()) })
    })
    .await
}
