{{/* What the operator may do where it works. Each verb is there for a call that it makes; it deletes nothing but Pods,
volumes, Secrets of clusters, its PodDisruptionBudgets and NetworkPolicies, its Jobs and the EtcdBackups of its schedules, and changes no node, no storage class and nothing of RBAC. "get" reads one object again when a write of it was
refused; "list" and "watch" are how it sees. */}}
{{- define "quorate.rules" -}}
# The desired state. Patched for the finalizer: Pods are stopped before the object is deleted.
- apiGroups: [operator.etcd.io]
  resources: [etcdclusters]
  verbs: [get, list, watch, patch]
# The observed state, and the record of changes under way.
- apiGroups: [operator.etcd.io]
  resources: [etcdclusters/status]
  verbs: [patch]
# Needed for owner references with blockOwnerDeletion, where admission checks them.
- apiGroups: [operator.etcd.io]
  resources: [etcdclusters/finalizers]
  verbs: [update]
# Backups. Patched for the finalizer; created by schedules and deleted by their retention.
- apiGroups: [operator.etcd.io]
  resources: [etcdbackups]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [operator.etcd.io]
  resources: [etcdbackupschedules]
  verbs: [get, list, watch]
- apiGroups: [operator.etcd.io]
  resources: [etcdbackups/status, etcdbackupschedules/status]
  verbs: [patch]
- apiGroups: [operator.etcd.io]
  resources: [etcdbackups/finalizers, etcdbackupschedules/finalizers, etcdrestores/finalizers, etcdusers/finalizers]
  verbs: [update]
# Orders to restore in place. Only their status is written.
- apiGroups: [operator.etcd.io]
  resources: [etcdrestores]
  verbs: [list, watch]
- apiGroups: [operator.etcd.io]
  resources: [etcdrestores/status]
  verbs: [patch]
# Users of etcd. Patched for the finalizer: the user is deleted in etcd before the object is.
- apiGroups: [operator.etcd.io]
  resources: [etcdusers]
  verbs: [list, watch, patch]
- apiGroups: [operator.etcd.io]
  resources: [etcdusers/status]
  verbs: [patch]
# The Jobs that take backups, remove their objects, read and test them. Deleted when their answers are read. One that may have been
# created just before a crash is read again.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, delete]
# Members. A Pod is patched to remove the scheduling gate of a bootstrap member, and to label its member as joined.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
# A Pod that serves is evicted before it is restarted, so that drains and the operator take turns.
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
# Members' data. Patched to annotate the identity of the data and to grow; deleted by the retention policy once its member is removed.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
# Whether the identity of a ServiceAccount is for Jobs of backups.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get]
# The peer and the client Service, which is patched as spec.service says. They go with the EtcdCluster that owns them.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch]
# The certificates of clusters, and the Secrets that applications connect with. RBAC cannot select by label, so this covers all Secrets of the namespaces.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch, delete]
# How many voters an eviction must leave. Deleted where spec.disruption wants no budget.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
# Who reaches members by the network. Deleted where spec.networkPolicy wants no policy.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# What cert-manager is asked for, where spec.tls has it issue certificates, and why it does not. Deleted where nothing rests on it any more.
- apiGroups: [cert-manager.io]
  resources: [certificates]
  verbs: [get, create, patch, delete]
- apiGroups: [cert-manager.io]
  resources: [certificaterequests]
  verbs: [list]
# Events on the EtcdCluster; their count is patched when they happen again. Those of a Job without a Pod are listed: nothing else has the
# words of the quota or the policy that refuses the Pod.
- apiGroups: [""]
  resources: [events]
  verbs: [get, list, create, patch]
{{- end -}}
