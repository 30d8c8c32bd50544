//! The definition of EtcdCluster in a real API server: every case of `validation.yaml` from the tests of the API crate.

use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use quorate_api::EtcdCluster;
use quorate_scenarios::Kubernetes;
use serde_json::json;

#[path = "../../../../crates/api/tests/validation/case.rs"]
mod case;

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_validates_every_case_with_the_same_messages() -> Result<()> {
    // No operator is installed yet: it would act on objects that are only written to be validated.
    let world = Kubernetes::start().await?;
    let failures = judge(&world.client).await?;
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
async fn a_real_api_server_says_of_what_no_operator_has_seen_that_it_is_not_known_to_be_ready() -> Result<()>
{
    let world = Kubernetes::start().await?;
    let api: Api<EtcdCluster> = Api::default_namespaced(world.client.clone());
    let cluster = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "metadata": { "name": "unseen" },
        "spec": { "size": 1, "version": "3.6.16" },
    });
    api.create(&PostParams::default(), &serde_json::from_value(cluster)?).await?;
    let status = api.get("unseen").await?.status.unwrap_or_default();
    api.delete("unseen", &DeleteParams::default()).await?;
    let conditions: Vec<_> =
        status.conditions.iter().map(|one| [&*one.type_, &*one.status, &*one.reason]).collect();
    ensure!(conditions == [["Ready", "Unknown", "Pending"]], "{conditions:?}");
    Ok(())
}

async fn judge(client: &Client) -> Result<Vec<String>> {
    let cases = case::all();
    ensure!(cases.len() > 100, "{} cases", cases.len());
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("operator.etcd.io", "v1alpha1", "EtcdCluster"));
    let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &kind);
    let mut failures = Vec::new();
    for case in &cases {
        let refusal = answer(&api, case).await.with_context(|| case.title.clone())?.unwrap_or_default();
        let has = |desired: &String| desired.splitn(2, ": ").all(|part| refusal.contains(part));
        let missing: Vec<&String> = case.refused.iter().filter(|desired| !has(desired)).collect();
        if !missing.is_empty() || (case.refused.is_empty() && !refusal.is_empty()) {
            failures.push(format!(
                "{}: expected {:?}, the API server replied {refusal:?}",
                case.title, case.refused
            ));
        }
    }
    Ok(failures)
}

/// The message with which the API server refuses a case, if it does. No object is left behind.
#[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
async fn answer(api: &Api<DynamicObject>, case: &case::Case) -> Result<Option<String>> {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let (before, after) = case.objects();
    let mut after: DynamicObject = serde_json::from_value(after)?;
    let Some(before) = before else { return Ok(refusal(api.create(&dry, &after).await)?) };
    let status = Patch::Merge(json!({"status": before["status"]}));
    let before: DynamicObject = serde_json::from_value(before)?;
    let name = before.name_any();
    api.create(&PostParams::default(), &before).await?;
    let updated = api.patch_status(&name, &PatchParams::default(), &status).await?;
    after.metadata.resource_version = updated.metadata.resource_version;
    let answer = refusal(api.replace(&name, &dry, &after).await);
    api.delete(&name, &DeleteParams::default()).await?;
    Ok(answer?)
}

fn refusal<T>(answer: kube::Result<T>) -> kube::Result<Option<String>> {
    match answer {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(Some(status.message)),
        Err(other) => Err(other),
    }
}
