//! The binding of a Pod: it sets `spec.nodeName`, once.

use serde_json::json;

use super::{Part, Store};
use crate::errors::ApiError;
use crate::fields::{deleting, items, seconds, text};
use crate::resources::{ObjectKey, ResourceInfo};

impl Store {
    /// Assigns a Pod to a node, as the `binding` subresource does, and sets its `PodScheduled` condition.
    pub fn bind(&self, key: &ObjectKey, node: &str) -> Result<(), ApiError> {
        let info = self.info(&key.resource)?;
        self.assign(&info, key, node)?;
        let condition = json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": seconds(self.now()),
        });
        self.modify(key, Part::Status, false, |pod| {
            let mut pod = pod.clone();
            let mut conditions = items(&pod, "/status/conditions").to_vec();
            conditions.retain(|one| one["type"] != "PodScheduled");
            conditions.push(condition);
            pod["status"]["conditions"] = json!(conditions);
            Ok(pod)
        })?;
        Ok(())
    }

    /// Sets `spec.nodeName`. Admission refuses this change from every other write.
    fn assign(&self, info: &ResourceInfo, key: &ObjectKey, node: &str) -> Result<(), ApiError> {
        let mut inner = self.lock();
        let mut pod = inner.get(key).cloned().ok_or_else(|| ApiError::not_found(info, &key.name))?;
        let assigned = text(&pod, "/spec/nodeName").to_owned();
        let why = if deleting(&pod) {
            Some(format!("pod {} is being deleted, cannot be assigned to a host", key.name))
        } else if !assigned.is_empty() {
            Some(format!("pod {} is already assigned to node {assigned:?}", key.name))
        } else if !items(&pod, "/spec/schedulingGates").is_empty() {
            Some(format!("pod {} has non-empty .spec.schedulingGates", key.name))
        } else {
            None
        };
        if let Some(why) = why {
            return Err(ApiError::conflict_on("pods/binding", "pods/binding", info, &key.name, why));
        }
        pod["spec"]["nodeName"] = json!(node);
        inner.put(key, pod);
        self.notify(inner);
        Ok(())
    }
}
