//! What the condition DataStoreReady says.

use crate::world::World;
use quorate_api::keys;
use quorate_manifests::user::NoSigner;
use quorate_model::ClusterRef;
use quorate_status::DataStoreHealth;
use quorate_status::data_store::report;
use serde_json::{Value, json};

/// What is said of a DataStore of Kamaji.
pub(super) fn all() -> Vec<DataStoreHealth> {
    let mut cluster = World::running(1).cluster();
    let store = |ready: Value, tenants: &[&str]| json!({ "metadata": { "name": "tenants" }, "status": { "ready": ready, "usedBy": tenants } });
    let many: Vec<String> = (1..12).map(|tenant| format!("team/{tenant}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let at = ClusterRef::new("default", "demo");
    let mut all = vec![
        report::not_admitted(&at),
        report::auth_off(),
        report::compaction_off(),
        report::not_serving("the cluster is not bootstrapped yet"),
        report::no_signer(&NoSigner::NotYet("its client certificate does not exist".to_owned())),
        report::no_signer(&NoSigner::Lost("Secret default/demo-ca does not exist".to_owned())),
        report::no_signer(&NoSigner::Elsewhere),
        report::key_goes(),
        report::published(&store(Value::Null, &[])),
        report::published(&store(json!(false), &["team-a/one"])),
        report::published(&store(json!(true), &many)),
        report::in_use(&cluster, &store(json!(true), &["team-a/one", "team-b/two"]), false),
        report::in_use_unlabelled(&store(json!(true), &["team-a/one"])),
        report::terminating(&store(json!(true), &["team-a/one"]), true),
        report::terminating(&store(json!(true), &[]), false),
        report::no_kind(),
        report::no_rights(&cluster, Some("tenants"), "datastores.kamaji.clastix.io is forbidden"),
        report::no_rights(&cluster, None, "datastores.kamaji.clastix.io is forbidden"),
        report::unknown("no answer within 5s"),
        report::no_name("Tenants"),
        report::name_taken("tenants"),
        report::secret_taken(&cluster),
        report::secret_going(&cluster),
        report::contested(
            &json!({ "metadata": { "name": "tenants", "managedFields": [{ "manager": "argocd-controller" }] } }),
        ),
        report::secret_contested(&cluster),
        report::refused("DataStore", "the API server refuses it: admission webhook denied the request"),
    ];
    cluster.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-28T12:00:00Z")).unwrap();
    all.push(report::in_use(&cluster, &store(json!(true), &["team-a/one"]), false));
    all.push(report::in_use(&cluster, &store(json!(true), &["team-a/one"]), true));
    cluster.metadata.finalizers = Some(vec![keys::FINALIZER.to_owned(), "foregroundDeletion".to_owned()]);
    all.push(report::in_use(&cluster, &store(json!(true), &["team-a/one"]), false));
    cluster.metadata.finalizers = Some(vec![keys::FINALIZER.to_owned(), "orphan".to_owned()]);
    all.push(report::in_use(&cluster, &store(json!(true), &["team-a/one"]), false));
    all.push(report::no_rights(&cluster, None, "datastores.kamaji.clastix.io is forbidden"));
    all
}
