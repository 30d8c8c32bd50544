//! Compares the operator's permissions with the API server's audit log of its requests: none is missing, and each is used.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{kube, manifests, repo};

/// The operator's account, as requests name it.
const ACCOUNT: &str = "system:serviceaccount:quorate-system:quorate";

/// Permissions that are not used in every run.
const NOT_ALWAYS_SEEN: [(&str, &str); 19] = [
    // No request of its own: an API server that is configured to checks it when an owner reference with blockOwnerDeletion is
    // written.
    ("etcdclusters.operator.etcd.io/finalizers", "update"),
    ("etcdbackups.operator.etcd.io/finalizers", "update"),
    ("etcdbackupschedules.operator.etcd.io/finalizers", "update"),
    ("etcdrestores.operator.etcd.io/finalizers", "update"),
    ("etcdusers.operator.etcd.io/finalizers", "update"),
    // Written for an EtcdUser, which the tier `etcd` has and no behaviour on kubelets.
    ("etcdusers.operator.etcd.io", "patch"),
    ("etcdusers.operator.etcd.io/status", "patch"),
    // Read again after a conflict.
    ("etcdusers.operator.etcd.io", "get"),
    // A cluster by cert-manager is on kubelets with `--full` alone.
    ("certificates.cert-manager.io", "get"),
    ("certificates.cert-manager.io", "create"),
    ("certificates.cert-manager.io", "patch"),
    ("certificates.cert-manager.io", "delete"),
    ("certificaterequests.cert-manager.io", "list"),
    // Read again after a conflict with the disruption controller.
    ("poddisruptionbudgets.policy", "get"),
    // Read again where another one's policy, or one without its label, has the name.
    ("networkpolicies.networking.k8s.io", "get"),
    // Read where a removal is refused at the act: by a restore that was created in the same moment, or a Pod that still runs.
    ("jobs.batch", "get"),
    // Read where a Job has the identity of a ServiceAccount, for a store of a cloud: there is none.
    ("serviceaccounts", "get"),
    // Read when the operator is asked to end.
    ("namespaces", "get"),
    // Nodes are listed where the one that a volume is pinned to is gone: a node is lost for good with `--full` alone.
    ("nodes", "list"),
];

/// A resource (`pods`, `etcdclusters.operator.etcd.io/status`) and a verb.
type Permission = (String, String);

/// The audit log from a moment on. The API server begins another file when it has 100 MiB.
pub struct Watch {
    /// The files that were full then.
    full: BTreeSet<PathBuf>,
    /// How far the newest had come.
    from: u64,
}

impl Watch {
    /// From now on.
    pub fn start() -> Result<Self> {
        let from = fs::metadata(kube::audit_log()).context("the API server writes no audit log")?.len();
        Ok(Self { full: full(&kube::audit_log())?, from })
    }

    /// Requests that RBAC refused, and permissions that were not used, a line each.
    pub fn faults(&self) -> Result<Vec<String>> {
        let manifests = manifests::documents(&repo::read(Path::new(manifests::PLAIN))?)?;
        judge(&manifests, &self.read(&kube::audit_log())?)
    }

    /// What was written since.
    fn read(&self, newest: &Path) -> Result<String> {
        let mut text = String::new();
        let mut from = self.from;
        // Their names end with the time, so they are in order.
        for file in full(newest)?.difference(&self.full).map(PathBuf::as_path).chain([newest]) {
            let mut log = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
            log.seek(SeekFrom::Start(from))?;
            log.read_to_string(&mut text)?;
            from = 0;
        }
        Ok(text)
    }
}

/// The files beside the newest: `audit-2026-11-25T15-24-20.330.log` beside `audit.log`.
fn full(newest: &Path) -> Result<BTreeSet<PathBuf>> {
    let dir = newest.parent().context("the audit log is in a directory")?;
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| name.starts_with("audit-")) {
            files.insert(dir.join(name));
        }
    }
    Ok(files)
}

fn judge(manifests: &[Value], log: &str) -> Result<Vec<String>> {
    let mut used = BTreeSet::new();
    let mut faults = BTreeSet::new();
    for line in log.lines() {
        // The last line may be incomplete.
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        if event["user"]["username"] != ACCOUNT || event["objectRef"].is_null() {
            continue;
        }
        let (resource, verb) = asked(&event);
        if event["responseStatus"]["code"] == 403 && !is_policy(&event) {
            faults
                .insert(format!("refused: {verb} {resource}: {}", text(&event["responseStatus"]["message"])));
        }
        used.insert((resource, verb));
    }
    ensure!(!used.is_empty(), "the log has no request of the operator");
    for (resource, verb) in granted(manifests).difference(&used) {
        if !NOT_ALWAYS_SEEN.contains(&(resource.as_str(), verb.as_str())) {
            faults.insert(format!("never used: {verb} {resource}"));
        }
    }
    Ok(faults.into_iter().collect())
}

/// A quota or an admission policy refuses with the same code. The message of RBAC names the user.
fn is_policy(event: &Value) -> bool {
    !text(&event["responseStatus"]["message"]).contains("cannot ")
}

fn asked(event: &Value) -> Permission {
    let object = &event["objectRef"];
    let resource = name(text(&object["resource"]), text(&object["apiGroup"]), text(&object["subresource"]));
    (resource, text(&event["verb"]).to_owned())
}

/// Every permission of the roles.
fn granted(manifests: &[Value]) -> BTreeSet<Permission> {
    let mut granted = BTreeSet::new();
    let own = |role: &&Value| {
        let aggregated = role["metadata"]["labels"].as_object().into_iter().flatten();
        let for_people = aggregated.into_iter().any(|(label, _)| label.contains("aggregate-to-"));
        ["Role", "ClusterRole"].contains(&text(&role["kind"])) && !for_people
    };
    for rule in manifests.iter().filter(own).flat_map(|role| list(&role["rules"])) {
        for group in list(&rule["apiGroups"]) {
            for resource in list(&rule["resources"]) {
                let (resource, subresource) = text(resource).split_once('/').unwrap_or((text(resource), ""));
                let resource = name(resource, text(group), subresource);
                let verbs = list(&rule["verbs"]).iter();
                granted.extend(verbs.map(|verb| (resource.clone(), text(verb).to_owned())));
            }
        }
    }
    granted
}

fn name(resource: &str, group: &str, subresource: &str) -> String {
    let dot = if group.is_empty() { "" } else { "." };
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!("{resource}{dot}{group}{slash}{subresource}")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(verb: &str, resource: &str, code: u16, message: &str) -> String {
        let event = json!({
            "verb": verb, "user": {"username": ACCOUNT}, "objectRef": {"resource": resource, "namespace": "a"},
            "responseStatus": {"code": code, "message": message},
        });
        event.to_string() + "\n"
    }

    fn role(verbs: &[&str]) -> Value {
        json!({"kind": "ClusterRole", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]})
    }

    #[test]
    fn a_log_that_goes_on_in_another_file_is_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let newest = dir.path().join("audit.log");
        file("audit-2026-11-24T01-00-00.000.log", "of an earlier run\n");
        file("audit.log", "before\n");
        let watch = Watch { full: full(&newest).unwrap(), from: 7 };
        file("audit.log", "before\nfirst\n");
        assert_eq!(watch.read(&newest).unwrap(), "first\n");
        fs::rename(&newest, dir.path().join("audit-2026-11-25T01-00-00.000.log")).unwrap();
        file("audit-2026-11-25T02-00-00.000.log", "second\n");
        file("audit.log", "third\n");
        assert_eq!(watch.read(&newest).unwrap(), "first\nsecond\nthird\n");
    }

    #[test]
    fn what_rbac_refuses_is_a_fault_and_what_a_quota_refuses_is_not() {
        let log = event("list", "pods", 200, "") + &event("create", "pods", 403, "exceeded quota: small");
        assert_eq!(judge(&[role(&["list", "create"])], &log).unwrap(), Vec::<String>::new());
        let refused = event("delete", "pods", 403, "User \"x\" cannot delete resource \"pods\"");
        let faults = judge(&[role(&["list", "create"])], &(log + &refused)).unwrap();
        assert!(faults.len() == 1 && faults[0].starts_with("refused: delete pods"), "{faults:?}");
    }

    #[test]
    fn a_permission_that_is_never_used_is_a_fault() {
        let faults = judge(&[role(&["list", "deletecollection"])], &event("list", "pods", 200, "")).unwrap();
        assert_eq!(faults, ["never used: deletecollection pods"]);
    }

    #[test]
    fn the_roles_that_people_get_are_not_the_operators() {
        let mut people = role(&["escalate"]);
        people["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-admin": "true"});
        assert!(judge(&[people], &event("list", "pods", 200, "")).unwrap().is_empty());
    }

    #[test]
    fn a_log_without_the_operator_proves_nothing() {
        assert!(judge(&[role(&["list"])], "").is_err());
    }
}
