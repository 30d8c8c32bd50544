{{/* What the operator may do where it works. Each verb is there for a call that it makes; it deletes nothing but Pods and
volumes, and touches no node, no storage class and nothing of RBAC. "get" reads one object again when a write of it was
refused; "list" and "watch" are how it sees. */}}
{{- define "quorate.rules" -}}
# What is wanted. Patched for the finalizer, by which Pods stop before the object goes.
- apiGroups: [operator.etcd.io]
  resources: [etcdclusters]
  verbs: [get, list, watch, patch]
# What is seen, and the record of what is under way.
- apiGroups: [operator.etcd.io]
  resources: [etcdclusters/status]
  verbs: [patch]
# Where owner references are guarded, naming an EtcdCluster as the owner that holds up deletion takes this.
- apiGroups: [operator.etcd.io]
  resources: [etcdclusters/finalizers]
  verbs: [update]
# Members. A Pod is patched to let a founder start, and for the mark that its member has joined.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
# Members' data. Patched to note whose data it is and to grow; deleted when its member is gone, by the retention policy.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
# The peer and the client Service. They go with the EtcdCluster that owns them.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch]
# The certificates of clusters, by label; RBAC cannot say so, hence all Secrets of the namespaces that are worked in.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create]
# How many voters an eviction must leave.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
# What happened, told on the EtcdCluster; counted up when it happens again.
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
{{- end -}}
