//! Jobs over the API. Their controller is tested in `controllers/jobs.rs`.

use serde_json::{Value, json};

use super::world::World;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

fn job() -> Value {
    json!({
        "metadata": {"name": "backup"},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "agent", "image": "quorate:1"}],
        }}},
    })
}

#[tokio::test]
async fn a_deletion_that_does_not_say_what_becomes_of_the_pods_is_warned_about() {
    let warned = async |query: &str| {
        let world = World::new();
        world.send("POST", JOBS, &job()).await.unwrap();
        let request = http::Request::delete(format!("{JOBS}/backup{query}")).body(Vec::new().into()).unwrap();
        let reply = world.client.send(request).await.unwrap();
        reply.headers().get("warning").map(|warning| warning.to_str().unwrap().to_owned())
    };
    let warning = warned("").await.unwrap();
    assert!(
        warning.starts_with("299 - \"child pods are preserved by default when jobs are deleted; set "),
        "{warning}"
    );
    assert_eq!(warned("?propagationPolicy=Background").await, None);
    assert_eq!(warned("?propagationPolicy=Orphan").await, None);
}

#[tokio::test]
async fn unknown_fields_of_a_job_are_dropped_and_its_status_is_a_part_of_its_own() {
    let world = World::new();
    let mut sent = job();
    sent["spec"]["template"]["spec"]["nonsense"] = json!(1);
    sent["status"] = json!({"succeeded": 7});
    let made = world.send("POST", JOBS, &sent).await.unwrap();
    assert_eq!(made["status"], json!({}));
    assert!(made["spec"]["template"]["spec"].get("nonsense").is_none());
    let change = json!({"status": {"active": 1}, "spec": {"backoffLimit": 0}});
    let path = format!("{JOBS}/backup/status");
    let changed = world.send_as("PATCH", &path, "application/merge-patch+json", &change).await.unwrap();
    assert_eq!((&changed["status"], &changed["spec"]["backoffLimit"]), (&json!({"active": 1}), &json!(6)));
}
