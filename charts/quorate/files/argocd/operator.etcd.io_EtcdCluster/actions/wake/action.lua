obj.spec.size = tonumber(obj.metadata.annotations["argocd.operator.etcd.io/wake-to-size"])
obj.metadata.annotations["argocd.operator.etcd.io/wake-to-size"] = nil
return obj
