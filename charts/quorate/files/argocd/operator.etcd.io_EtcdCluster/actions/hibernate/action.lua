-- Size zero keeps the volumes. The annotation keeps the size that the cluster comes back to.
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["argocd.operator.etcd.io/wake-to-size"] = tostring(obj.spec.size)
obj.spec.size = 0
return obj
