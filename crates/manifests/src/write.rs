//! One write to the Kubernetes API, and its HTTP request.

use kube_core::params::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use crate::kind::Kind;

/// A write to the Kubernetes API.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The kind of the object.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What is done to it.
    pub act: Act,
}

/// What is done to an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// It is created; refused if the name is taken.
    Create(Value),
    /// A merge patch with preconditions in its metadata.
    Patch(Value),
    /// A merge patch of its status, with preconditions in its metadata.
    PatchStatus(Value),
    /// A Pod is evicted, if the budgets allow it. The version is no precondition: the API server takes the eviction from the budget
    /// before it compares versions, and a mismatch would close the budget for two minutes.
    Evict {
        /// This Pod and no later one.
        uid: String,
    },
    /// It is deleted, if it has not changed since it was observed.
    Delete {
        /// This object and no later one.
        uid: String,
        /// The observed version.
        resource_version: String,
    },
}

impl Write {
    /// The object as text: `Service default/demo`.
    pub fn object(&self) -> String {
        self.kind.called(&self.namespace, &self.name)
    }

    /// The write as text: `create Pod default/demo-2`.
    pub fn describe(&self) -> String {
        let verb = match &self.act {
            Act::Create(_) => "create",
            Act::Patch(_) => "change",
            Act::PatchStatus(_) => "write the status of",
            Act::Evict { .. } => "evict",
            Act::Delete { .. } => "delete",
        };
        format!("{verb} {}", self.object())
    }

    /// Whether it creates a Pod that gets the agent by an image volume.
    pub fn has_image_volume(&self) -> bool {
        let Act::Create(object) = &self.act else { return false };
        let volumes = object.pointer("/spec/volumes").and_then(Value::as_array);
        self.kind == Kind::Pod && volumes.into_iter().flatten().any(|volume| volume.get("image").is_some())
    }

    /// Whether it creates a Pod.
    pub fn creates_pod(&self) -> bool {
        self.kind == Kind::Pod && matches!(self.act, Act::Create(_))
    }

    /// The HTTP request that asks whether it would be admitted, without any effect. `None`: it creates nothing.
    pub fn dry_run(&self) -> Option<Result<http::Request<Vec<u8>>, kube_core::request::Error>> {
        let Act::Create(object) = &self.act else { return None };
        let request = kube_core::Request::new(self.kind.collection(&self.namespace));
        let params = PostParams { dry_run: true, ..PostParams::default() };
        Some(request.create(&params, body(object)))
    }

    /// The HTTP request to the API server.
    pub fn http(&self) -> Result<http::Request<Vec<u8>>, kube_core::request::Error> {
        let request = kube_core::Request::new(self.kind.collection(&self.namespace));
        match &self.act {
            Act::Create(object) => request.create(&PostParams::default(), body(object)),
            Act::Patch(patch) => request.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)),
            Act::PatchStatus(patch) => {
                request.patch_subresource("status", &self.name, &PatchParams::default(), &Patch::Merge(patch))
            }
            Act::Evict { uid } => {
                let eviction = json!({
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": { "name": self.name, "namespace": self.namespace },
                    "deleteOptions": { "preconditions": { "uid": uid } },
                });
                request.create_subresource("eviction", &self.name, &PostParams::default(), body(&eviction))
            }
            Act::Delete { uid, resource_version } => {
                let preconditions = Preconditions {
                    uid: Some(uid.clone()),
                    resource_version: Some(resource_version.clone()),
                };
                let params =
                    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
                request.delete(&self.name, &params)
            }
        }
    }
}

fn body(object: &Value) -> Vec<u8> {
    serde_json::to_vec(object).expect("JSON is writable as JSON")
}
