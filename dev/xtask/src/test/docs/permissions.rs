//! The table of docs/security.md has the permissions of the roles that are installed: none is missing, and none is left over.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::{manifests, repo};

const PAGE: &str = "docs/security.md";

/// The section with the table.
const SECTION: &str = "What each role may do";

/// A role, a resource (`pods`, `etcdclusters.operator.etcd.io/status`) and a verb.
type Permission = (String, String, String);

/// A line for each fault.
pub fn check() -> Result<Vec<String>> {
    let granted = granted(&manifests::documents(&repo::read(Path::new(manifests::PLAIN))?)?);
    judge(&granted, &repo::read(Path::new(PAGE))?)
}

fn judge(granted: &BTreeSet<Permission>, page: &str) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let told = told(page, &mut faults);
    ensure!(!told.is_empty(), "{PAGE} has no table in the section {SECTION}");
    let line = |(role, resource, verb): &Permission| format!("{role}: {verb} {resource}");
    let missing = granted.difference(&told).map(|one| format!("{PAGE}: no row has {}", line(one)));
    let left_over = told.difference(granted).map(|one| format!("{PAGE}: no role grants {}", line(one)));
    faults.extend(missing.chain(left_over));
    Ok(faults)
}

/// The rows `| role | resources | verbs | reason |`.
fn told(page: &str, faults: &mut Vec<String>) -> BTreeSet<Permission> {
    let section =
        page.split("\n## ").find(|section| section.lines().next() == Some(SECTION)).unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")).skip(1);
    let mut told = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [role, resources, verbs, reason] = cells[..] else {
            faults.push(format!("{PAGE}: not four cells: {row}"));
            continue;
        };
        if reason.is_empty() {
            faults.push(format!("{PAGE}: no reason: {row}"));
        }
        for resource in resources.split(", ").map(|resource| resource.trim_matches('`')) {
            for verb in verbs.split(", ") {
                if !told.insert((role.to_owned(), resource.to_owned(), verb.to_owned())) {
                    faults.push(format!("{PAGE}: twice: {role}: {verb} {resource}"));
                }
            }
        }
    }
    told
}

/// Every permission of every role, also of those for people.
fn granted(manifests: &[Value]) -> BTreeSet<Permission> {
    let mut granted = BTreeSet::new();
    let is_role = |role: &&Value| ["Role", "ClusterRole"].contains(&text(&role["kind"]));
    for role in manifests.iter().filter(is_role) {
        for rule in list(&role["rules"]) {
            for group in list(&rule["apiGroups"]) {
                for resource in list(&rule["resources"]) {
                    let (resource, subresource) =
                        text(resource).split_once('/').unwrap_or((text(resource), ""));
                    let dot = if text(group).is_empty() { "" } else { "." };
                    let slash = if subresource.is_empty() { "" } else { "/" };
                    let resource = format!("{resource}{dot}{}{slash}{subresource}", text(group));
                    let verbs = list(&rule["verbs"]).iter();
                    granted.extend(verbs.map(|verb| {
                        (text(&role["metadata"]["name"]).to_owned(), resource.clone(), text(verb).to_owned())
                    }));
                }
            }
        }
    }
    granted
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

    fn faults(rows: &str) -> Vec<String> {
        let role = json!({"kind": "ClusterRole", "metadata": {"name": "a"}, "rules": [
            {"apiGroups": ["x.org"], "resources": ["things", "things/status"], "verbs": ["get", "list"]},
        ]});
        let page = format!(
            "# Page\n\n## {SECTION}\n\n| role | resource | verbs | reason |\n| --- | --- | --- | --- |\n{rows}\n## More\n| b | `pods` | get | no |\n"
        );
        judge(&granted(&[role]), &page).unwrap()
    }

    #[test]
    fn the_page_and_the_roles_agree() {
        assert_eq!(check().unwrap(), [] as [String; 0]);
    }

    #[test]
    fn what_the_table_lacks_and_what_no_role_grants_are_faults() {
        let right = "| a | `things.x.org`, `things.x.org/status` | get, list | why |\n";
        assert_eq!(faults(right), [] as [String; 0]);
        assert_eq!(faults("| a | `things.x.org`, `things.x.org/status` | get | why |\n").len(), 2);
        let more = format!("{right}| a | `pods` | get | why |\n");
        assert_eq!(faults(&more), ["docs/security.md: no role grants a: get pods"]);
        assert_eq!(faults(&format!("{right}{right}")).len(), 4, "each is told once");
        assert_eq!(faults(&right.replace("why", "")).len(), 1, "each has a reason");
    }
}
