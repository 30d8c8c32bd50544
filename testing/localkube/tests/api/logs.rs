//! Logs come from a log source.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{LogParams, PostParams};
use quorate_localkube::logs::{LogRequest, LogSource};
use serde_json::json;

use super::world::{World, refusal_of};

#[derive(Default)]
struct Lines(Mutex<Vec<LogRequest>>);

impl LogSource for Lines {
    fn open(&self, request: &LogRequest) -> Result<BoxStream<'static, Bytes>, String> {
        self.0.lock().unwrap().push(request.clone());
        if request.previous {
            return Err("previous terminated container not found".to_owned());
        }
        Ok(stream::iter(["one\n", "two\n"].map(Bytes::from)).boxed())
    }
}

#[tokio::test]
async fn logs_are_read_from_the_log_source() {
    let world = World::new();
    let lines = Arc::new(Lines::default());
    world.kube.set_log_source(lines.clone());
    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    let containers = json!([{"name": "etcd", "image": "e"}, {"name": "probe", "image": "p"}]);
    let spec = json!({"containers": containers, "initContainers": [{"name": "guard", "image": "g"}]});
    let pod = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();

    let refusal = refusal_of(pods.logs("a", &LogParams::default()).await).unwrap_err();
    assert_eq!(
        refusal.message,
        "a container name must be specified for pod a, choose one of: [etcd probe] or one of the init containers: \
         [guard]"
    );
    let of = |container: &str| LogParams {
        container: Some(container.to_owned()),
        tail_lines: Some(5),
        follow: true,
        ..LogParams::default()
    };
    assert_eq!(pods.logs("a", &of("guard")).await.unwrap(), "one\ntwo\n");
    let asked = lines.0.lock().unwrap()[0].clone();
    assert_eq!((asked.container.as_str(), asked.tail, asked.follow), ("guard", Some(5), true));
    assert!(
        refusal_of(pods.logs("a", &of("nope")).await).unwrap_err().message.contains("is not valid for pod a")
    );
    let previous = LogParams { previous: true, ..of("etcd") };
    assert_eq!(refusal_of(pods.logs("a", &previous).await).unwrap_err().code, 400);
}
