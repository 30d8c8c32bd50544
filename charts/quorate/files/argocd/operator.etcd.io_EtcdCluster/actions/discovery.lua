-- The actions on an EtcdCluster.
local size = obj.spec.size or 0
local annotations = obj.metadata.annotations or {}
return {
  ["pause"] = { disabled = obj.spec.paused == true },
  ["resume"] = { disabled = obj.spec.paused ~= true },
  ["hibernate"] = { disabled = size == 0 },
  -- Without the annotation nobody knows how many members it had: set spec.size.
  ["wake"] = { disabled = size ~= 0 or annotations["argocd.operator.etcd.io/wake-to-size"] == nil },
}
