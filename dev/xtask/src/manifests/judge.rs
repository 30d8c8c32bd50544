//! Rules for every installation of the operator, with any values of the chart.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

/// An account with one of these verbs can give itself every other permission.
const ESCALATING: [&str; 3] = ["bind", "escalate", "impersonate"];

/// The documents of a YAML stream. Empty ones are left out.
pub fn documents(text: &str) -> Result<Vec<Value>> {
    let documents = serde_yaml_ng::Deserializer::from_str(text).map(Value::deserialize);
    let documents: Vec<Value> = documents.collect::<Result<_, _>>().context("this is not YAML")?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// A line for each rule that is broken. `crds` are the CRDs as the code prints them.
pub fn faults(documents: &[Value], crds: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    for document in documents {
        let mut found = pod_faults(document);
        found.extend(rule_faults(document));
        found.extend(scope_faults(document, documents));
        let name = format!("{} {}", text(&document["kind"]), text(&document["metadata"]["name"]));
        faults.extend(found.into_iter().map(|fault| format!("{name}: {fault}")));
    }
    faults.extend(crd_faults(documents, crds));
    faults
}

/// The images that are run or handed to the operator to be run.
pub fn images(documents: &[Value]) -> Vec<String> {
    let containers = documents.iter().flat_map(containers);
    let images = containers.flat_map(|container| {
        let args = list(&container["args"]).iter().filter_map(Value::as_str);
        let agents = args.filter_map(|arg| arg.strip_prefix("--agent-image=")).map(str::to_owned);
        agents.chain(container["image"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    });
    images.collect()
}

/// The flags of the operator's container that its help does not know.
pub fn unknown_flags(documents: &[Value], help: &str) -> Vec<String> {
    let args = documents.iter().flat_map(containers).flat_map(|container| list(&container["args"]));
    let flags = args.filter_map(Value::as_str).filter(|arg| arg.starts_with("--"));
    let flags = flags.map(|arg| arg.split('=').next().unwrap_or(arg));
    let known = |flag: &&str| help.split_whitespace().any(|word| word == *flag);
    flags.filter(|flag| !known(flag)).map(|flag| format!("the operator has no flag {flag}")).collect()
}

/// The restricted Pod Security standard, and a file system that cannot be written.
fn pod_faults(document: &Value) -> Vec<String> {
    let pod = &document["spec"]["template"]["spec"];
    if pod.is_null() {
        return Vec::new();
    }
    let mut rules = vec![
        ("runs as root, or may", pod["securityContext"]["runAsNonRoot"] == true),
        ("has no seccomp profile", pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"),
        (
            "shares a namespace of its node",
            ["hostNetwork", "hostPID", "hostIPC"].iter().all(|field| pod[field] != true),
        ),
        (
            "mounts a folder of its node",
            list(&pod["volumes"]).iter().all(|volume| volume["hostPath"].is_null()),
        ),
    ];
    for container in containers(document) {
        let context = &container["securityContext"];
        rules.push(("may gain privileges", context["allowPrivilegeEscalation"] == false));
        rules.push(("may write to its image", context["readOnlyRootFilesystem"] == true));
        rules.push(("keeps capabilities", context["capabilities"] == json!({ "drop": ["ALL"] })));
        rules.push(("is privileged", context["privileged"] != true));
        rules.push(("asks for no memory", !container["resources"]["requests"]["memory"].is_null()));
    }
    let one = images(std::slice::from_ref(document)).windows(2).all(|pair| pair[0] == pair[1]);
    rules.push(("has agents of another image", one));
    rules.into_iter().filter(|(_, holds)| !holds).map(|(fault, _)| fault.to_owned()).collect()
}

fn rule_faults(document: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for rule in list(&document["rules"]) {
        for field in ["apiGroups", "resources", "verbs", "nonResourceURLs"] {
            for entry in list(&rule[field]).iter().filter_map(Value::as_str) {
                if entry.contains('*') {
                    faults.push(format!("a wildcard in {field}"));
                }
                if field == "verbs" && ESCALATING.contains(&entry) {
                    faults.push(format!("the verb {entry}"));
                }
            }
        }
    }
    faults
}

/// An operator that works in some namespaces has rights in these only.
fn scope_faults(document: &Value, all: &[Value]) -> Vec<String> {
    let args = all.iter().flat_map(containers).flat_map(|container| list(&container["args"]));
    let narrowed = args.filter_map(Value::as_str).any(|arg| arg.starts_with("--namespaces="));
    let is_wide = |kind: &str| {
        kind.starts_with("ClusterRole") || kind == "FlowSchema" || kind == "PriorityLevelConfiguration"
    };
    let wide = document["kind"].as_str().is_some_and(is_wide);
    if narrowed && wide { vec!["is there although namespaces are given".to_owned()] } else { Vec::new() }
}

/// Annotations for Helm are no part of the CRD.
fn crd_faults(documents: &[Value], crds: &[Value]) -> Vec<String> {
    let mut shown: Vec<Value> =
        documents.iter().filter(|document| document["kind"] == "CustomResourceDefinition").cloned().collect();
    for crd in &mut shown {
        if let Some(metadata) = crd["metadata"].as_object_mut() {
            metadata.remove("annotations");
        }
    }
    let same = shown.len() == crds.len() && crds.iter().all(|crd| shown.contains(crd));
    if same { Vec::new() } else { vec!["the CRDs are not those of config/crd".to_owned()] }
}

fn containers(document: &Value) -> Vec<&Value> {
    let pod = &document["spec"]["template"]["spec"];
    list(&pod["initContainers"]).iter().chain(list(&pod["containers"])).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "
kind: Deployment
metadata: {name: operator}
spec:
  template:
    spec:
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - image: a
          args: [operator, --agent-image=a, --workers=1]
          resources: {requests: {memory: 1Mi}}
          securityContext:
            {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
---
kind: ClusterRole
metadata: {name: operator}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
---
";

    fn faults_with(from: &str, to: &str) -> Vec<String> {
        assert!(SOUND.contains(from));
        faults(&documents(&SOUND.replace(from, to)).unwrap(), &[])
    }

    #[test]
    fn each_rule_is_judged() {
        assert_eq!(faults_with("kind", "kind"), [] as [String; 0]);
        for (from, to, fault) in [
            ("runAsNonRoot: true", "runAsNonRoot: false", "runs as root"),
            ("type: RuntimeDefault", "type: Unconfined", "seccomp"),
            ("containers:", "hostNetwork: true\n      containers:", "namespace of its node"),
            ("containers:", "volumes: [{hostPath: {path: /}}]\n      containers:", "folder of its node"),
            ("Escalation: false", "Escalation: true", "gain privileges"),
            ("readOnlyRootFilesystem: true, ", "", "write to its image"),
            ("drop: [ALL]", "drop: [ALL], add: [CHOWN]", "capabilities"),
            ("memory: 1Mi", "cpu: 1", "memory"),
            ("agent-image=a", "agent-image=b", "another image"),
            ("verbs: [get]", "verbs: ['*']", "a wildcard in verbs"),
            ("resources: [pods]", "resources: ['pods/*']", "a wildcard in resources"),
            ("verbs: [get]", "verbs: [escalate]", "the verb escalate"),
            ("--workers=1", "--namespaces=a", "although namespaces are given"),
        ] {
            let found = faults_with(from, to);
            assert!(found.iter().any(|found| found.contains(fault)), "{to}: {found:?}");
        }
    }

    #[test]
    fn crds_are_compared_without_annotations_for_helm() {
        let crd = "{kind: CustomResourceDefinition, metadata: {name: a, annotations: {b: c}}, spec: 1}";
        let without = documents("{kind: CustomResourceDefinition, metadata: {name: a}, spec: 1}").unwrap();
        let with = documents(crd).unwrap();
        assert!(faults(&with, &without).is_empty());
        assert_eq!(faults(&with, &[]).len(), 1);
        assert_eq!(faults(&[], &without).len(), 1);
        let other = documents(&crd.replace("spec: 1", "spec: 2")).unwrap();
        assert_eq!(faults(&other, &without).len(), 1);
    }

    #[test]
    fn a_flag_that_the_operator_does_not_have_is_a_fault() {
        let documents = documents(SOUND).unwrap();
        let help = "  --agent-image <IMAGE>\n  --workers <N>";
        assert!(unknown_flags(&documents, help).is_empty());
        assert_eq!(unknown_flags(&documents, "--workers"), ["the operator has no flag --agent-image"]);
    }
}
