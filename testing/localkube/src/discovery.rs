//! API discovery: the groups, the resources of each, and both in one document for clients that accept the aggregated
//! format.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_apistore::{ResourceInfo, Resources};
use serde_json::{Value, json};

/// The media type of the aggregated format; clients that do not accept it get the plain lists.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// A discovery document.
pub struct Document {
    /// The document.
    pub body: Value,
    /// Its media type, by which clients distinguish the two formats.
    pub content_type: &'static str,
}

/// Serves `/api`, `/apis`, `/apis/GROUP` and the resource lists below them; `None` for any other path.
pub fn serve(path: &str, accept: &str, resources: &Resources) -> Option<Document> {
    let plain = |body| Document { body, content_type: "application/json" };
    let aggregate = |groups| Document { body: aggregated(groups), content_type: AGGREGATED };
    let prefers_aggregated = wants_aggregated(accept);
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        ["api"] if prefers_aggregated => Some(aggregate(&core_group(resources))),
        ["apis"] if prefers_aggregated => Some(aggregate(&named_groups(resources))),
        ["api"] => Some(plain(core_versions())),
        ["apis"] => Some(plain(groups(resources))),
        ["api", version] => list(resources, "", version).map(plain),
        ["apis", name] => group(resources, name).map(plain),
        ["apis", name, version] => list(resources, name, version).map(plain),
        _ => None,
    }
}

fn wants_aggregated(accept: &str) -> bool {
    let squeezed: String = accept.chars().filter(|character| !character.is_whitespace()).collect();
    squeezed.split(',').next().is_some_and(|first| first.starts_with(AGGREGATED))
}

fn core_versions() -> Value {
    json!({ "kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"], "serverAddressByClientCIDRs": [] })
}

fn groups(resources: &Resources) -> Value {
    let groups: Vec<Value> =
        named_groups(resources).into_iter().map(|(name, group)| describe(name, &group)).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

fn group(resources: &Resources, name: &str) -> Option<Value> {
    let groups = named_groups(resources);
    let mut answer = describe(name, groups.get(name)?);
    answer["kind"] = json!("APIGroup");
    answer["apiVersion"] = json!("v1");
    Some(answer)
}

fn list(resources: &Resources, group: &str, version: &str) -> Option<Value> {
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let entries: Vec<Value> = resources
        .all()
        .filter(|info| info.group == group && info.version == version)
        .flat_map(|info| {
            std::iter::once(whole(info)).chain(info.subresources.iter().map(|sub| part(info, sub)))
        })
        .collect();
    (!entries.is_empty()).then(|| {
        json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries })
    })
}

/// The kinds of a group by version, the preferred version first.
type Group<'a> = BTreeMap<VersionRank<'a>, Vec<&'a Arc<ResourceInfo>>>;

/// Versions in the order in which Kubernetes prefers them: `v2`, `v1`, `v1beta1`, `v1alpha1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct VersionRank<'a> {
    unstable: u8,
    major: std::cmp::Reverse<u32>,
    minor: std::cmp::Reverse<u32>,
    name: &'a str,
}

impl<'a> VersionRank<'a> {
    fn of(name: &'a str) -> Self {
        let rest = name.strip_prefix('v').unwrap_or_default();
        let (unstable, (major, minor)) = match (rest.split_once("beta"), rest.split_once("alpha")) {
            (Some(parts), _) => (1, parts),
            (None, Some(parts)) => (2, parts),
            (None, None) => (0, (rest, "0")),
        };
        let number = |digits: &str| digits.parse().ok();
        match number(major).zip(number(minor)) {
            Some((major, minor)) => {
                Self { unstable, major: std::cmp::Reverse(major), minor: std::cmp::Reverse(minor), name }
            }
            None => Self { unstable: 3, major: std::cmp::Reverse(0), minor: std::cmp::Reverse(0), name },
        }
    }
}

fn by_group(resources: &Resources) -> BTreeMap<&str, Group<'_>> {
    let mut groups: BTreeMap<&str, Group<'_>> = BTreeMap::new();
    for info in resources.all() {
        let group = groups.entry(info.group.as_str()).or_default();
        group.entry(VersionRank::of(&info.version)).or_default().push(info);
    }
    groups
}

fn core_group(resources: &Resources) -> BTreeMap<&str, Group<'_>> {
    by_group(resources).into_iter().filter(|(name, _)| name.is_empty()).collect()
}

fn named_groups(resources: &Resources) -> BTreeMap<&str, Group<'_>> {
    by_group(resources).into_iter().filter(|(name, _)| !name.is_empty()).collect()
}

fn describe(name: &str, group: &Group<'_>) -> Value {
    let versions: Vec<Value> = group
        .keys()
        .map(|version| json!({ "groupVersion": format!("{name}/{}", version.name), "version": version.name }))
        .collect();
    json!({ "name": name, "versions": versions, "preferredVersion": versions.first() })
}

fn whole(info: &ResourceInfo) -> Value {
    let mut entry = json!({
        "name": info.plural,
        "singularName": info.singular,
        "namespaced": info.namespaced,
        "kind": info.kind,
        "verbs": VERBS,
    });
    for (field, names) in [("shortNames", &info.short_names), ("categories", &info.categories)] {
        if !names.is_empty() {
            entry[field] = json!(names);
        }
    }
    entry
}

fn part(info: &ResourceInfo, subresource: &str) -> Value {
    let kind = SubresourceKind::of(info, subresource);
    let mut entry = json!({
        "name": format!("{}/{subresource}", info.plural),
        "singularName": "",
        "namespaced": info.namespaced,
        "kind": kind.kind,
        "verbs": kind.verbs,
    });
    if (kind.group, kind.version) != (&info.group, &info.version) {
        entry["group"] = json!(kind.group);
        entry["version"] = json!(kind.version);
    }
    entry
}

fn aggregated(groups: &BTreeMap<&str, Group<'_>>) -> Value {
    let items: Vec<Value> = groups
        .iter()
        .map(|(name, group)| {
            let versions: Vec<Value> = group
                .iter()
                .map(|(version, infos)| {
                    let resources: Vec<Value> = infos.iter().map(|info| discovery(info)).collect();
                    json!({ "version": version.name, "resources": resources, "freshness": "Current" })
                })
                .collect();
            json!({ "metadata": { "name": name, "creationTimestamp": null }, "versions": versions })
        })
        .collect();
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
}

fn discovery(info: &ResourceInfo) -> Value {
    let subresources: Vec<Value> = info
        .subresources
        .iter()
        .map(|subresource| {
            let kind = SubresourceKind::of(info, subresource);
            json!({
                "subresource": subresource,
                "responseKind": { "group": kind.group, "version": kind.version, "kind": kind.kind },
                "verbs": kind.verbs,
            })
        })
        .collect();
    let mut entry = json!({
        "resource": info.plural,
        "responseKind": { "group": info.group, "version": info.version, "kind": info.kind },
        "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": info.singular,
        "verbs": VERBS,
    });
    for (field, names) in [("shortNames", &info.short_names), ("categories", &info.categories)] {
        if !names.is_empty() {
            entry[field] = json!(names);
        }
    }
    if !subresources.is_empty() {
        entry["subresources"] = json!(subresources);
    }
    entry
}

/// The kind of a subresource, which is often another than that of its resource.
struct SubresourceKind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    verbs: &'static [&'static str],
}

impl<'a> SubresourceKind<'a> {
    fn of(info: &'a ResourceInfo, subresource: &str) -> Self {
        let own = |verbs| Self { group: &info.group, version: &info.version, kind: &info.kind, verbs };
        match subresource {
            "scale" => Self {
                group: "autoscaling",
                version: "v1",
                kind: "Scale",
                verbs: &["get", "patch", "update"],
            },
            "eviction" => Self { group: "policy", version: "v1", kind: "Eviction", verbs: &["create"] },
            "binding" => Self { group: "", version: "v1", kind: "Binding", verbs: &["create"] },
            "log" => own(&["get"]),
            "finalize" => own(&["update"]),
            _ => own(&["get", "patch", "update"]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stable_and_newest_version_is_preferred() {
        let mut versions = ["v1alpha1", "v1", "v1beta2", "v2", "v1beta1", "foo"];
        versions.sort_by_key(|version| VersionRank::of(version));
        assert_eq!(versions, ["v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
    }

    fn body(path: &str, accept: &str) -> Option<Value> {
        serve(path, accept, &Resources::builtin()).map(|document| document.body)
    }

    #[test]
    fn the_eviction_subresource_is_listed_with_its_kind() {
        let list = body("/api/v1", "").unwrap();
        let eviction =
            list["resources"].as_array().unwrap().iter().find(|one| one["name"] == "pods/eviction").unwrap();
        assert_eq!((&eviction["kind"], &eviction["group"]), (&json!("Eviction"), &json!("policy")));
    }

    #[test]
    fn paths_that_are_not_served_are_not_found() {
        assert!(body("/apis/policy", "").is_some() && body("/apis/apps", "").is_none());
        assert!(body("/apis/policy/v1", "").is_some() && body("/apis/policy/v1beta1", "").is_none());
        assert!(body("/api/v1/pods", "").is_none(), "objects are not discovery");
    }

    #[test]
    fn only_clients_that_prefer_the_aggregated_format_get_it() {
        let kubectl = format!("{AGGREGATED},application/json");
        assert_eq!(body("/apis", &kubectl).unwrap()["kind"], "APIGroupDiscoveryList");
        assert_eq!(body("/apis", "application/json").unwrap()["kind"], "APIGroupList");
        assert_eq!(body("/api", "").unwrap()["kind"], "APIVersions");
    }

    #[test]
    fn both_formats_list_the_same_groups() {
        let names = |value: &Value, list: &str, name: &str| -> Vec<Value> {
            value[list].as_array().unwrap().iter().map(|one| one.pointer(name).unwrap().clone()).collect()
        };
        let aggregated = body("/apis", AGGREGATED).unwrap();
        assert_eq!(
            names(&aggregated, "items", "/metadata/name"),
            names(&body("/apis", "").unwrap(), "groups", "/name")
        );
        assert_eq!(body("/api", AGGREGATED).unwrap()["items"][0]["metadata"]["name"], "");
    }
}
