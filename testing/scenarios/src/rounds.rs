//! Rounds of back up, wreck, restore. A round has passed if the restored cluster has everything up to the revision of the backup, nothing
//! of what was written after it, a member on each node, and can be backed up again.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, Secret};
use kube::api::{Api, DeleteParams, PostParams};
use quorate_etcd::Read;
use serde_json::{Value, json};

use crate::backups::restored;
use crate::{
    Acknowledged, NamespaceClient, S3Server, Shell, Writer, clear_directory, kube_client, spec, until,
};

/// A key pair of age, of tests only.
const RECIPIENT: &str = "age1gaqylmtza02xuvtk4vg9vj4q3wwatnt4zk70eeehw5zvptsf3efspmvtvm";
const IDENTITY: &str = "AGE-SECRET-KEY-1QV28P899WG9TF0MMV02GS9447DLX9FK35H70GK8A7UL80XLZML2S7HC269";

/// The Secrets of a namespace: of the store, and of the identity.
const CREDENTIALS: &str = "s3";
const IDENTITIES: &str = "identities";

/// Written after the backup.
const LATE: &str = "late";

/// What is lost in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wreck {
    /// Every key, by a person.
    Keys,
    /// The disk of one member.
    Disk,
    /// The disks of most members.
    Quorum,
    /// Every member's database has other bytes.
    Corruption,
    /// The cluster and all its volumes.
    Volumes,
    /// The namespace, with the EtcdBackups in it.
    Namespace,
    /// The cluster, and a byte of the latest backup: the one before it is restored.
    TamperedBackup,
}

impl Wreck {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Keys,
        Self::Disk,
        Self::Quorum,
        Self::Corruption,
        Self::Volumes,
        Self::Namespace,
        Self::TamperedBackup,
    ];

    /// Whether the EtcdCluster is there afterwards.
    fn leaves_the_cluster(self) -> bool {
        !matches!(self, Self::Volumes | Self::Namespace)
    }
}

/// What came of a run of rounds.
#[derive(Clone, Copy, Debug)]
pub struct Tally<'a> {
    /// Where they ran.
    pub world: &'a str,
    /// The version of etcd.
    pub etcd: &'a str,
    /// How many there were.
    pub rounds: u32,
    /// How many of them passed.
    pub passed: u32,
}

/// Adds a run to the record of all runs, with the day and the commit: a line for each version. The record is a file of the repository, so the
/// commit is asked for once, before it changes.
pub fn record(file: &Path, run: &[Tally<'_>]) -> Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the day of a run, for people")]
    let day = k8s_openapi::jiff::Timestamp::now().strftime("%Y-%m-%d");
    let mut git = std::process::Command::new("git");
    git.args(["describe", "--always", "--dirty", "--exclude=*"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let commit = git.output().context("cannot ask git for the commit")?;
    let commit = String::from_utf8_lossy(&commit.stdout).trim().to_owned();
    let line = |Tally { world, etcd, rounds, passed }: &Tally<'_>| {
        format!("{day},{commit},{world},{etcd},{rounds},{passed}\n")
    };
    let lines: Vec<String> = run.iter().map(line).collect();
    let all = std::fs::OpenOptions::new().append(true).open(file);
    let written = all.and_then(|mut all| all.write_all(lines.concat().as_bytes()));
    written.with_context(|| format!("cannot add to {}", file.display()))
}

/// Where the backups of a round are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// An S3 server, over TLS with a certificate of a private authority.
    S3,
    /// A claim that one node at a time can mount.
    Claim,
}

/// How it is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// An EtcdRestore replaces the data of the EtcdCluster, if it is still there.
    InPlace,
    /// The EtcdCluster is deleted with its volumes, and another one begins with the backup.
    Anew,
}

/// A Kubernetes of this machine, in which each round has namespaces of its own.
pub struct Ground {
    kubeconfig: PathBuf,
    /// Where the directories of volumes are, if it is the playground.
    playground: Option<PathBuf>,
}

impl Ground {
    /// A playground in this directory.
    pub fn playground(directory: &Path) -> Self {
        let volumes = directory.join("volumes");
        Self { kubeconfig: directory.join("kubeconfig"), playground: Some(volumes) }
    }

    /// The Kubernetes of this kubeconfig.
    pub fn kubernetes(kubeconfig: PathBuf) -> Self {
        Self { kubeconfig, playground: None }
    }

    /// A new namespace with the Secrets of a round.
    async fn namespace(&self, name: &str, s3: &S3Server) -> Result<NamespaceClient> {
        let user = NamespaceClient::new(kube_client(&self.kubeconfig, name).await?);
        let namespaces: Api<Namespace> = Api::all(user.client.clone());
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
        if self.playground.is_none() {
            user.wait_for_service_account().await?;
        }
        let secrets: Api<Secret> = Api::default_namespaced(user.client.clone());
        let identities = json!({"metadata": {"name": IDENTITIES}, "stringData": {"key.txt": IDENTITY}});
        for secret in [s3.secret(CREDENTIALS), identities] {
            secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
        }
        Ok(user)
    }

    /// The directory of a claim's volume on this machine.
    async fn directory(&self, user: &NamespaceClient, claim: &str) -> Result<PathBuf> {
        let claim = user.volumes().get(claim).await?;
        let name = claim.spec.and_then(|spec| spec.volume_name).context("the volume is not bound yet")?;
        let volumes: Api<PersistentVolume> = Api::all(user.client.clone());
        let local = volumes.get(&name).await?.spec.and_then(|spec| spec.local).context("not a local one")?;
        let path = PathBuf::from(local.path);
        Ok(match &self.playground {
            Some(volumes) => volumes.join(path.file_name().context("a path without a name")?),
            None => path,
        })
    }
}

/// A round.
#[derive(Clone, Debug)]
pub struct Round {
    /// Names its namespaces: each is used once.
    pub number: u32,
    /// Of etcd.
    pub version: String,
    /// How many members.
    pub size: usize,
    /// What is lost.
    pub wreck: Wreck,
    /// Where the backups are.
    pub store: Store,
    /// How it is restored. What leaves no EtcdCluster is restored anew.
    pub way: Way,
    /// Whether the backups are encrypted.
    pub encrypted: bool,
}

/// How long it took, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// The last backup.
    pub backup: f64,
    /// The restore, until every member serves.
    pub restore: f64,
}

impl Round {
    /// The round of this number, of etcd of this version: over 20 of them every wreck meets both stores, and both ways where it has them.
    pub fn mixed(number: u32, version: String) -> Result<Self> {
        let turn = usize::try_from(number)?;
        let wreck = Wreck::ALL[turn % Wreck::ALL.len()];
        let in_claim = turn % 2 == 1 && wreck != Wreck::Namespace;
        let anew = turn / 2 % 2 == 1 || !wreck.leaves_the_cluster();
        Ok(Self {
            number,
            version,
            size: if turn % 5 == 4 { 1 } else { 3 },
            wreck,
            store: if in_claim { Store::Claim } else { Store::S3 },
            way: if anew { Way::Anew } else { Way::InPlace },
            encrypted: turn / 3 % 2 == 1,
        })
    }

    /// Carries it out, and deletes its namespaces.
    pub async fn run(&self, ground: &Ground, s3: &S3Server) -> Result<Took> {
        let user = ground.namespace(&self.namespace("a"), s3).await?;
        let result = self.run_in(&user, ground, s3).await;
        for part in ["a", "b"] {
            delete_namespace(&user, &self.namespace(part)).await?;
        }
        self.clear(ground)?;
        result
    }

    async fn run_in(&self, user: &NamespaceClient, ground: &Ground, s3: &S3Server) -> Result<Took> {
        let store = match self.store {
            Store::Claim => user.claim_for_backups("backups").await?,
            Store::S3 => {
                let mut destination = s3.destination(CREDENTIALS);
                destination["s3"]["prefix"] = json!(format!("round-{}", self.number));
                destination
            }
        };
        let mut roomy = self.of_version(spec(self.size));
        roomy["storageSpec"]["volumeSizeRequest"] = json!("512Mi");
        user.create("demo", roomy).await?;
        user.settled("demo", self.size).await?;
        let writer = Writer::start(user, "demo").await?;
        let first = self.back_up(user, "first", "demo", &store).await?;
        let began = Instant::now();
        let second = self.back_up(user, "second", "demo", &store).await?;
        let backup = began.elapsed().as_secs_f64();
        let acknowledged = writer.stop().await?;
        let (_, member) = user.members("demo").await?.pop().context("a member answers")?;
        member.put(LATE, "to be given up").await?;
        let lost = user.one_cluster_id("demo").await?;

        self.wreck(user, ground, s3, &second).await?;
        let mut began = Instant::now();
        let (last, name) =
            if self.wreck == Wreck::TamperedBackup { (first, "first") } else { (second, "second") };
        let object = json!({"destination": store, "key": last["key"], "sha256": last["storedSha256"]});
        let source = if self.wreck == Wreck::Namespace {
            json!({"source": object})
        } else {
            json!({"backupRef": {"name": name}})
        };
        let (user, cluster) = match self.way {
            Way::InPlace => {
                self.is_refused_while_spoilt(user, &lost).await?;
                user.restore_in_place_from("back", "demo", &lost, &self.decrypted(source)).await?;
                user.restore_is("back", "Complete").await?;
                (user.clone(), "demo")
            }
            Way::Anew => {
                let user = self.anew(user, ground, s3).await?;
                // A clean end of the lost cluster takes etcd 7 s: its last leader waits for a successor that stops, too.
                began = Instant::now();
                user.create("again", self.of_version(restored(self.size, &self.decrypted(source)))).await?;
                (user, "again")
            }
        };
        user.settled(cluster, self.size).await?;
        let restore = began.elapsed().as_secs_f64();
        self.judge(&user, cluster, &acknowledged, &last).await?;
        let afterwards = self.back_up(&user, "afterwards", cluster, &store).await?;
        ensure!(afterwards["clusterID"] != json!(lost), "{afterwards}");
        Ok(Took { backup, restore })
    }

    async fn back_up(
        &self,
        user: &NamespaceClient,
        name: &str,
        cluster: &str,
        store: &Value,
    ) -> Result<Value> {
        let mut spec = json!({"source": {"cluster": cluster}, "destination": store});
        if self.encrypted {
            spec["encryption"] = json!({"recipients": [RECIPIENT]});
        }
        user.back_up_with(name, spec).await?;
        let result = user.is_backed_up(name).await?["result"].clone();
        ensure!(result["encrypted"] == json!(self.encrypted), "{result}");
        Ok(result)
    }

    async fn wreck(
        &self,
        user: &NamespaceClient,
        ground: &Ground,
        s3: &S3Server,
        latest: &Value,
    ) -> Result<()> {
        let members: Vec<String> = (0..self.size).map(|number| format!("demo-{number}")).collect();
        match self.wreck {
            Wreck::Keys => {
                let shell = Shell::start(&ground.kubeconfig, user.client.default_namespace())?;
                shell.run("kubectl exec demo-0 -c etcd -- etcdctl del '' --from-key=true").await.map(drop)
            }
            Wreck::Disk => wipe(user, ground, &members[..1]).await,
            Wreck::Quorum => wipe(user, ground, &members[..=self.size / 2]).await,
            Wreck::Corruption => {
                for member in &members {
                    let database = ground.directory(user, member).await?.join("data/member/snap/db");
                    let length = usize::try_from(std::fs::metadata(&database)?.len())?;
                    std::fs::write(&database, vec![0xa5; length])?;
                    user.delete_pod(member).await?;
                }
                Ok(())
            }
            // Done by what restores it anew.
            Wreck::Volumes | Wreck::Namespace => Ok(()),
            Wreck::TamperedBackup => self.tamper(user, ground, s3, latest).await,
        }
    }

    /// Changes one byte in the middle of the object.
    async fn tamper(
        &self,
        user: &NamespaceClient,
        ground: &Ground,
        s3: &S3Server,
        result: &Value,
    ) -> Result<()> {
        let key = result["key"].as_str().with_context(|| format!("no key in {result}"))?;
        let file = match self.store {
            Store::S3 => s3.bucket_dir().join(format!("round-{}", self.number)).join(key),
            Store::Claim => ground.directory(user, "backups").await?.join(key),
        };
        let mut bytes = std::fs::read(&file).with_context(|| format!("no object {}", file.display()))?;
        let middle = bytes.len() / 2;
        match bytes.get_mut(middle) {
            Some(byte) => *byte ^= 1,
            None => bail!("{} is empty", file.display()),
        }
        Ok(std::fs::write(file, bytes)?)
    }

    /// The members serve on while an EtcdRestore names a backup that is not what was stored.
    async fn is_refused_while_spoilt(&self, user: &NamespaceClient, id: &str) -> Result<()> {
        if self.wreck != Wreck::TamperedBackup {
            return Ok(());
        }
        let spoilt = self.decrypted(json!({"backupRef": {"name": "second"}}));
        user.restore_in_place_from("spoilt", "demo", id, &spoilt).await?;
        until("the spoilt backup is refused", async || {
            let status = user.restores().get("spoilt").await?.data["status"].to_string();
            Ok(if status.contains("ChecksumMismatch") { Ok(()) } else { Err(status) })
        })
        .await?;
        user.settled("demo", self.size).await?;
        ensure!(user.one_cluster_id("demo").await? == id, "it was restored");
        user.delete_restore("spoilt").await
    }

    /// Deletes what is left of the cluster. Returns the namespace in which another one begins.
    async fn anew(&self, user: &NamespaceClient, ground: &Ground, s3: &S3Server) -> Result<NamespaceClient> {
        if self.wreck == Wreck::Namespace {
            delete_namespace(user, &self.namespace("a")).await?;
            return ground.namespace(&self.namespace("b"), s3).await;
        }
        user.wreck("demo").await?;
        if self.wreck == Wreck::TamperedBackup {
            let spoilt = self.decrypted(json!({"backupRef": {"name": "second"}}));
            user.create("spoilt", self.of_version(restored(1, &spoilt))).await?;
            user.reports("spoilt", "SHA-256").await?;
            user.wreck("spoilt").await?;
        }
        Ok(user.clone())
    }

    async fn judge(
        &self,
        user: &NamespaceClient,
        cluster: &str,
        acknowledged: &Acknowledged,
        result: &Value,
    ) -> Result<()> {
        let revision = result["revision"].as_i64().with_context(|| format!("no revision in {result}"))?;
        acknowledged.are_readable_as_of(user, cluster, revision).await?;
        for (name, member) in user.members(cluster).await? {
            let late = member.get(LATE, Read::Linearizable).await?;
            ensure!(late.is_none(), "{name} has what was written after the backup");
        }
        let nodes = user.nodes_of(cluster).await?;
        ensure!(nodes.len() == self.size, "{} members are on {nodes:?}", self.size);
        Ok(())
    }

    fn of_version(&self, mut spec: Value) -> Value {
        spec["version"] = json!(self.version);
        spec
    }

    fn decrypted(&self, mut restore: Value) -> Value {
        if self.encrypted {
            restore["identitiesSecret"] = json!({"name": IDENTITIES});
        }
        restore
    }

    fn namespace(&self, part: &str) -> String {
        format!("round-{}-{part}", self.number)
    }

    /// The playground keeps the directories of volumes that are gone: some 400 MB a round.
    fn clear(&self, ground: &Ground) -> Result<()> {
        let Some(volumes) = &ground.playground else { return Ok(()) };
        let own = format!("_round-{}-", self.number);
        for entry in std::fs::read_dir(volumes)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().contains(&own) {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Empties the volumes of members, whose Pods are then created again.
async fn wipe(user: &NamespaceClient, ground: &Ground, members: &[String]) -> Result<()> {
    for member in members {
        clear_directory(&ground.directory(user, member).await?)?;
        user.delete_pod(member).await?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
async fn delete_namespace(user: &NamespaceClient, name: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(user.client.clone());
    if namespaces.get_opt(name).await?.is_none() {
        return Ok(());
    }
    namespaces.delete(name, &DeleteParams::default()).await?;
    until(&format!("the namespace {name} is gone"), async || {
        let there = namespaces.get_opt(name).await?.is_some();
        Ok(if there { Err("it is there".to_owned()) } else { Ok(()) })
    })
    .await
}
