//! Backups as tenants make them: in a store with a certificate of a private authority, in a namespace whose quota and policy bound every
//! Pod, and by a schedule. The Jobs run in Pods of kubelets, from the operator's image.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use quorate_etcd::Read;
use quorate_scenarios::{Kubernetes, NamespaceClient, S3Server, spec, until};
use serde_json::{Value, json};

use crate::tenants::counted_quota;

/// What the policy asks for, besides a user of the namespace's own range.
const ANNOTATION: &str = "example.com/cost-centre";

#[tokio::test(flavor = "multi_thread")]
async fn o10_where_every_pod_is_bounded_a_cluster_is_backed_up_over_tls_and_restored_in_place_by_our_api_alone()
-> Result<()> {
    let world = Kubernetes::start().await?;
    let store = store(&world).await?;
    let policy = Policy::in_force(&world).await?;
    let quota =
        json!({"limits.cpu": "8", "limits.memory": "8Gi", "requests.cpu": "4", "requests.memory": "4Gi"});
    counted_quota(&world, "bounded", json!({"metadata": {"name": "bounded"}, "spec": {"hard": quota}}))
        .await?;
    for name in ["demo", "other"] {
        world.create(name, bounded()).await?;
    }
    for name in ["demo", "other"] {
        world.settled(name, 1).await?;
    }
    // Of another etcd, so that it holds up no backup of this one.
    let destination = store.destination("s3-credentials");
    world.back_up("refused", "other", &destination).await?;

    let id = world.one_cluster_id("demo").await?;
    put(&world, "before").await?;
    let of_demo = |destination: &Value| {
        json!({
            "source": {"cluster": "demo"}, "destination": destination,
            "jobTemplate": {"annotations": {ANNOTATION: "a"}},
        })
    };
    let mut stranger = destination.clone();
    stranger["s3"]["caSecret"] = Value::Null;
    world.back_up_with("stranger", of_demo(&stranger)).await?;
    let failed = world.backup_ends("stranger", "Failed").await?;
    ensure!(failed["attempts"] == 1, "it was tried again: {failed}");
    let words = failed.to_string();
    ensure!(words.contains("certificate of the server") && words.contains("s3.caSecret"), "{words}");

    world.back_up_with("good", of_demo(&destination)).await?;
    let backup = world.is_backed_up("good").await?;
    let object = store.bucket_dir().join("etcd").join(backup["result"]["key"].as_str().context("a key")?);
    ensure!(object.is_file(), "{backup}");
    put(&world, "after").await?;

    // The members of before have the agent from a volume of its image, and the new one gets it from an init container.
    let delivered = world.pods().get("demo-0").await?;
    ensure!(init_containers(&delivered).is_empty(), "{:?}", init_containers(&delivered));
    let other_way = json!({"status": {"agentDelivery": {"method": "InitContainer", "reason": "a test"}}});
    world.clusters().patch_status("demo", &PatchParams::default(), &Patch::Merge(other_way)).await?;
    confirm_record(&world, "demo").await?;
    let snapshot = json!({"backupRef": {"name": "good"}});
    let order =
        json!({"clusterName": "demo", "clusterID": id, "snapshot": snapshot, "backupBefore": "Never"});
    world.restore_in_place_with("back", order).await?;
    world.restore_is("back", "Complete").await?;
    world.settled("demo", 1).await?;
    let (name, member) = world.members("demo").await?.pop().context("a member answers")?;
    ensure!(member.get("before", Read::Linearizable).await?.is_some(), "{name} lacks what was backed up");
    ensure!(member.get("after", Read::Linearizable).await?.is_none(), "{name} has what was given up");
    let delivered = world.pods().get(&name).await?;
    ensure!(!init_containers(&delivered).is_empty(), "the agent came by an image volume again");

    until("the words of the policy are in status", async || {
        let status = world.backup_status("refused").await?.to_string();
        let quoted = status.contains(&format!("the annotation {ANNOTATION} is missing"));
        Ok(if quoted && status.contains("spec.jobTemplate") { Ok(()) } else { Err(status) })
    })
    .await?;
    policy.end().await
}

/// Somebody edited the record. A person confirms it, as the message of the condition says.
async fn confirm_record(world: &Kubernetes, name: &str) -> Result<()> {
    let mut hash = String::new();
    until("the record is reported", async || {
        let conditions = world.clusters().get(name).await?.status.map(|status| status.conditions);
        let told = conditions.iter().flatten().find(|one| one.reason == "RecordIncomplete");
        let told = told.and_then(|one| one.message.split_once("confirm-record="));
        let Some((_, named)) = told else { return Ok(Err(format!("{conditions:?}"))) };
        hash.replace_range(.., named);
        Ok(Ok(()))
    })
    .await?;
    let confirm = json!({"metadata": {"annotations": {"operator.etcd.io/confirm-record": hash}}});
    world.clusters().patch(name, &PatchParams::default(), &Patch::Merge(confirm)).await?;
    world.settled(name, 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_fires_tests_its_backup_in_a_pod_and_deletes_with_its_object_what_no_rule_keeps()
-> Result<()> {
    let world = Kubernetes::start().await?;
    let store = store(&world).await?;
    world.create("demo", spec(1)).await?;
    world.settled("demo", 1).await?;
    put(&world, "kept").await?;
    let schedule = |minute: u8| format!("{minute}-59/5 * * * *");
    let times = json!({
        "schedule": schedule(0), "retention": {"keepLast": 1}, "verify": {"schedule": schedule(0)},
        "backupTemplate": {"spec": {
            "source": {"cluster": "demo"}, "destination": store.destination("s3-credentials"), "deletionPolicy": "Delete",
        }},
    });
    world.schedule("often", times).await?;
    until("the operator has seen it", async || {
        let status = world.schedules().get("often").await?.data["status"].clone();
        Ok(if status["next"].is_string() { Ok(()) } else { Err(status.to_string()) })
    })
    .await?;
    missed_a_time(&world, "lastScheduled").await?;
    let first = world.is_backed_up(&world.one_backup().await?).await?;
    missed_a_time(&world, "lastTest").await?;
    until("the restore test has passed", async || {
        let status = world.schedules().get("often").await?.data["status"].clone();
        let passed = status["lastVerified"]["revision"] == first["result"]["revision"];
        Ok(if passed { Ok(()) } else { Err(status.to_string()) })
    })
    .await?;

    // Another minute, so that the time of the next backup is another one.
    let edit = Patch::Merge(json!({"spec": {"schedule": schedule(1)}}));
    world.schedules().patch("often", &PatchParams::default(), &edit).await?;
    missed_a_time(&world, "lastScheduled").await?;
    let objects = store.bucket_dir().join("etcd").join(world.client.default_namespace()).join("demo");
    until("there were two backups, and one is left, in the store as well", async || {
        let created = world.events("often").await?.contains("BackupPruned");
        let left = world.backups().list(&ListParams::default()).await?.items.len();
        let stored = std::fs::read_dir(&objects)?.count();
        let done = created && left == 1 && stored == 2;
        Ok(if done { Ok(()) } else { Err(format!("pruned {created}, {left} EtcdBackups, {stored} files")) })
    })
    .await?;
    world.wait_for_condition("demo", "BackupHealthy", "True").await.map(drop)
}

/// A store on this machine, with its Secret in the namespace.
async fn store(world: &NamespaceClient) -> Result<S3Server> {
    let kubeconfig =
        std::env::var_os("QUORATE_TEST_KUBECONFIG").context("run this through `cargo xtask test kube`")?;
    let store = S3Server::start_beside(kubeconfig.as_ref())?;
    let secrets: Api<Secret> = Api::default_namespaced(world.client.clone());
    secrets.create(&PostParams::default(), &serde_json::from_value(store.secret("s3-credentials"))?).await?;
    Ok(store)
}

/// A cluster that the quota and the policy admit.
fn bounded() -> Value {
    let mut bounded = spec(1);
    bounded["storageSpec"]["volumeSizeRequest"] = json!("512Mi");
    bounded["podTemplate"] = json!({
        "metadata": {"annotations": {ANNOTATION: "a"}},
        "spec": {
            "securityContext": {"runAsUser": 20_001, "runAsGroup": 20_001, "fsGroup": 20_001},
            "resources": {"requests": {"cpu": "50m", "memory": "100Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
        },
    });
    bounded
}

async fn put(world: &NamespaceClient, key: &str) -> Result<()> {
    let (_, member) = world.members("demo").await?.pop().context("a member answers")?;
    member.put(key, "value").await?;
    Ok(())
}

fn init_containers(pod: &Pod) -> Vec<String> {
    let spec = pod.spec.as_ref();
    let names = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
    names.map(|container| container.name.clone()).collect()
}

/// As after an operator that was down for ten minutes: the shortest schedule has a time every five.
async fn missed_a_time(world: &NamespaceClient, field: &str) -> Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the operator's clock is that of the machine")]
    let then = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(10);
    let status = Patch::Merge(json!({"status": {field: then.round(jiff::Unit::Second)?.to_string()}}));
    world.schedules().patch_status("often", &PatchParams::default(), &status).await?;
    Ok(())
}

/// A ValidatingAdmissionPolicy of this namespace: each Pod runs as a user of a range, and has an annotation.
struct Policy {
    client: Client,
    name: String,
}

impl Policy {
    /// Creates it, and waits until the API server goes by it.
    async fn in_force(world: &NamespaceClient) -> Result<Self> {
        let (client, name) = (world.client.clone(), world.client.default_namespace().to_owned());
        let policy = json!({"metadata": {"name": name}, "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
            ]},
            "validations": [
                {
                    "expression": "object.spec.?securityContext.?runAsUser.orValue(0) >= 20000 && object.spec.securityContext.runAsUser < 21000",
                    "message": "Pods of this namespace run as one of its users",
                },
                {
                    "expression": format!("'{ANNOTATION}' in object.metadata.?annotations.orValue({{}})"),
                    "message": format!("the annotation {ANNOTATION} is missing"),
                },
            ],
        }});
        let binding = json!({"metadata": {"name": name}, "spec": {
            "policyName": name, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}},
        }});
        let new = PostParams::default();
        Api::<ValidatingAdmissionPolicy>::all(client.clone())
            .create(&new, &serde_json::from_value(policy)?)
            .await?;
        Api::<ValidatingAdmissionPolicyBinding>::all(client.clone())
            .create(&new, &serde_json::from_value(binding)?)
            .await?;
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "refused"}, "spec": {
            "securityContext": {"runAsNonRoot": true, "runAsUser": 20_001, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "a", "image": "a", "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            }}],
        }}))?;
        until("the policy is in force", async || {
            let dry = PostParams { dry_run: true, ..PostParams::default() };
            let words = world
                .pods()
                .create(&dry, &pod)
                .await
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            Ok(if words.contains(ANNOTATION) { Ok(()) } else { Err(words) })
        })
        .await?;
        Ok(Self { client, name })
    }

    /// Deletes it. A test that fails leaves it, and it matches no other namespace.
    #[expect(clippy::disallowed_methods, reason = "the test is the administrator who deletes")]
    async fn end(self) -> Result<()> {
        let Self { client, name } = self;
        let how = DeleteParams::default();
        Api::<ValidatingAdmissionPolicyBinding>::all(client.clone()).delete(&name, &how).await?;
        Api::<ValidatingAdmissionPolicy>::all(client).delete(&name, &how).await?;
        Ok(())
    }
}
