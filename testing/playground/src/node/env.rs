//! The environment and the command line of a container.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Container, EnvVarSource, Pod};
use kube::ResourceExt;

use super::cache::Cache;
use super::expand::expand;

/// The command line and environment of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The environment.
    pub env: Vec<(String, String)>,
}

/// Facts of a Pod that only the node has.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// The Pod's address.
    pub ip: Ipv4Addr,
    /// The node's address.
    pub host: Ipv4Addr,
}

/// The command line and environment of a container, or why they cannot be built (CreateContainerConfigError).
pub fn invocation(
    pod: &Pod,
    container: &Container,
    entrypoint: &[String],
    placed: Placed,
    cache: &Cache,
) -> Result<Invocation, String> {
    let mut env = BTreeMap::from([
        ("PATH".to_owned(), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
        ("HOSTNAME".to_owned(), hostname(pod)),
        ("HOME".to_owned(), "/root".to_owned()),
    ]);
    let namespace = pod.namespace().unwrap_or_default();
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.clone().unwrap_or_default();
        let mut values = BTreeMap::new();
        if let Some(from) = &source.secret_ref {
            values.extend(cache.secret(&namespace, &from.name, from.optional)?);
        }
        if let Some(from) = &source.config_map_ref {
            values.extend(cache.config_map(&namespace, &from.name, from.optional)?);
        }
        for (key, value) in values {
            env.insert(format!("{prefix}{key}"), String::from_utf8_lossy(&value).into_owned());
        }
    }
    for var in container.env.iter().flatten() {
        let value = match &var.value_from {
            None => Some(expand(var.value.as_deref().unwrap_or_default(), &env)),
            Some(source) => from_source(pod, container, source, placed, cache)?,
        };
        if let Some(value) = value {
            env.insert(var.name.clone(), value);
        }
    }
    let own = container.command.clone().unwrap_or_default();
    let args = container.args.clone().unwrap_or_default();
    let program = if own.is_empty() { entrypoint.to_vec() } else { own };
    let command = program.iter().chain(&args).map(|part| expand(part, &env)).collect();
    Ok(Invocation { command, env: env.into_iter().collect() })
}

/// The Pod's hostname.
pub fn hostname(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.hostname.clone()).unwrap_or_else(|| pod.name_any())
}

fn from_source(
    pod: &Pod,
    container: &Container,
    source: &EnvVarSource,
    placed: Placed,
    cache: &Cache,
) -> Result<Option<String>, String> {
    let namespace = pod.namespace().unwrap_or_default();
    if let Some(field) = &source.field_ref {
        return field_of(pod, &field.field_path, placed).map(Some);
    }
    if let Some(resource) = &source.resource_field_ref {
        return resource_of(container, &resource.resource).map(Some);
    }
    let picked =
        |values: BTreeMap<String, Vec<u8>>, key: &str, optional: Option<bool>, what: String| match values
            .get(key)
        {
            Some(value) => Ok(Some(String::from_utf8_lossy(value).into_owned())),
            None if optional == Some(true) => Ok(None),
            None => Err(format!("couldn't find key {key} in {what}")),
        };
    if let Some(from) = &source.secret_key_ref {
        let values = cache.secret(&namespace, &from.name, from.optional)?;
        return picked(values, &from.key, from.optional, format!("Secret {namespace}/{}", from.name));
    }
    if let Some(from) = &source.config_map_key_ref {
        let values = cache.config_map(&namespace, &from.name, from.optional)?;
        return picked(values, &from.key, from.optional, format!("ConfigMap {namespace}/{}", from.name));
    }
    Ok(None)
}

/// A field of the downward API.
pub fn field_of(pod: &Pod, path: &str, placed: Placed) -> Result<String, String> {
    let spec = pod.spec.as_ref();
    let subscript =
        |prefix: &str| Some(path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']")?.to_owned());
    let value = match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => pod.namespace().unwrap_or_default(),
        "metadata.uid" => pod.uid().unwrap_or_default(),
        "metadata.labels" => listed(pod.labels()),
        "metadata.annotations" => listed(pod.annotations()),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => {
            spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default()
        }
        "status.hostIP" | "status.hostIPs" => placed.host.to_string(),
        "status.podIP" | "status.podIPs" => placed.ip.to_string(),
        _ => {
            let label = subscript("metadata.labels").map(|key| pod.labels().get(&key).cloned());
            let annotation =
                || subscript("metadata.annotations").map(|key| pod.annotations().get(&key).cloned());
            match label.or_else(annotation) {
                Some(value) => value.unwrap_or_default(),
                None => return Err(format!("unsupported fieldPath: {path}")),
            }
        }
    };
    Ok(value)
}

/// Maps as the downward API writes them to files: `key="value"`, sorted.
fn listed(map: &BTreeMap<String, String>) -> String {
    map.iter().map(|(key, value)| format!("{key}={value:?}")).collect::<Vec<_>>().join("\n")
}

fn resource_of(container: &Container, resource: &str) -> Result<String, String> {
    let resources = container.resources.clone().unwrap_or_default();
    let (map, name) = match resource.split_once('.') {
        Some(("limits", name)) => (resources.limits, name),
        Some(("requests", name)) => (resources.requests, name),
        Some(_) | None => return Err(format!("unsupported container resource : {resource}")),
    };
    // Integers of bytes or cores: a fraction is rounded up.
    let amount = map.and_then(|map| map.get(name).and_then(quorate_api::quantity::bytes));
    Ok(amount.unwrap_or_default().to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLACED: Placed = Placed { ip: Ipv4Addr::new(127, 70, 0, 9), host: Ipv4Addr::new(127, 70, 254, 1) };

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "demo-0", "namespace": "prod", "uid": "u", "labels": {"a/b": "c"}},
            "spec": {"hostname": "zero", "containers": []},
        }))
        .unwrap()
    }

    fn of(container: serde_json::Value, cache: &Cache) -> Result<Invocation, String> {
        let container = serde_json::from_value(container).unwrap();
        invocation(&pod(), &container, &["/entry".to_owned()], PLACED, cache)
    }

    #[test]
    fn arguments_see_the_pods_address_and_variables_see_those_before_them() {
        let made = of(
            json!({"name": "c", "command": ["/usr/local/bin/etcd"], "args": ["--listen=https://$(POD_IP):2379", "$(NOT)"],
                "env": [
                    {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "URL", "value": "http://$(POD_IP)/$(LATER)"},
                    {"name": "LATER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}},
                ]}),
            &Cache::empty(),
        )
        .unwrap();
        assert_eq!(made.command, ["/usr/local/bin/etcd", "--listen=https://127.70.0.9:2379", "$(NOT)"]);
        let var = |name: &str| made.env.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        assert_eq!(var("URL"), Some("http://127.70.0.9/$(LATER)"));
        assert_eq!(var("LATER"), Some("c"));
        assert_eq!(var("HOSTNAME"), Some("zero"));
    }

    #[test]
    fn without_a_command_the_image_entrypoint_runs() {
        assert_eq!(
            of(json!({"name": "c", "args": ["x"]}), &Cache::empty()).unwrap().command,
            ["/entry", "x"]
        );
    }

    #[test]
    fn a_missing_secret_prevents_the_start_unless_it_is_optional() {
        let from = |optional: bool| {
            json!({"name": "c", "env": [{"name": "A", "valueFrom": {"secretKeyRef":
                {"name": "s", "key": "k", "optional": optional}}}]})
        };
        assert_eq!(of(from(false), &Cache::empty()).unwrap_err(), "secret \"s\" not found");
        assert!(of(from(true), &Cache::empty()).is_ok());
    }
}
