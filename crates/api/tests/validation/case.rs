//! The cases of `validation.yaml`, for both judges: this project's evaluation of the CRD, and the real API server.

use serde::Deserialize;
use serde_json::{Value, json};

/// A case of `validation.yaml`, which says what is what.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    #[serde(rename = "case")]
    pub title: String,
    #[serde(default = "demo")]
    name: String,
    #[serde(default)]
    spec: Value,
    bootstrapped: Option<Value>,
    begun: Option<Value>,
    new: Option<Value>,
    #[serde(default)]
    pub refused: Vec<String>,
}

impl Case {
    /// The object before, with its status, and after.
    pub fn objects(&self) -> (Option<Value>, Value) {
        let status = json!({ "clusterID": "8e9e05c52164694d" });
        let begun = json!({ "bootstrap": { "attempt": 1 } });
        let befores = [(&self.bootstrapped, status), (&self.begun, begun), (&self.new, json!({}))];
        let edit = befores.into_iter().find_map(|(before, status)| Some((before.as_ref()?, status)));
        match edit {
            Some((before, status)) => {
                (Some(self.object(before, status.clone())), self.object(&self.spec, status))
            }
            None => (None, self.object(&self.spec, Value::Null)),
        }
    }

    fn object(&self, patch: &Value, status: Value) -> Value {
        let mut spec = json!({ "size": 3, "version": "3.6.16" });
        merge(&mut spec, patch);
        let mut object = json!({
            "apiVersion": "operator.etcd.io/v1alpha1",
            "kind": "EtcdCluster",
            "metadata": { "name": self.name },
            "spec": spec,
        });
        if !status.is_null() {
            object["status"] = status;
        }
        object
    }
}

/// All of them.
pub fn all() -> Vec<Case> {
    serde_yaml_ng::from_str(include_str!("../validation.yaml")).unwrap()
}

fn demo() -> String {
    "demo".to_owned()
}

/// A JSON merge patch.
fn merge(into: &mut Value, patch: &Value) {
    let (Value::Object(fields), Value::Object(patch)) = (&mut *into, patch) else {
        if !patch.is_null() {
            *into = patch.clone();
        }
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
