//! What tools for GitOps make of the statuses in `testing/scenarios/statuses`, which the tests of quorate-manifests and quorate-orders write:
//! the library kstatus of Flux and Helm, and our scripts for Argo CD in the surroundings that it gives to scripts. The table of
//! docs/gitops.md is made of this.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use quorate_scenarios::tool;
use serde_json::{Value, json};

const BEGIN: &str = "<!-- made of testing/scenarios/statuses -->\n";
const END: &str = "<!-- end -->\n";

/// A status, and what was made of it.
struct Judged {
    name: String,
    object: Value,
    verdict: Value,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn judge() -> Vec<Judged> {
    let folder = root().join("testing/scenarios/statuses");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut judge = Command::new(tool("kstatus", "etcd").unwrap());
    let output = judge.arg(root().join("charts/quorate/files/argocd")).args(&files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let verdicts: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(verdicts.len(), files.len());
    let pairs = files.iter().zip(verdicts);
    pairs
        .map(|(file, verdict)| Judged {
            name: file.file_stem().unwrap().to_str().unwrap().to_owned(),
            object: serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap(),
            verdict,
        })
        .collect()
}

fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|one| one["type"] == type_).unwrap_or(&Value::Null)
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

#[test]
fn tools_take_an_object_for_current_exactly_when_it_is_ready() {
    for Judged { name, object, verdict } in judge() {
        let (ready, stalled) = (condition(&object, "Ready"), condition(&object, "Stalled"));
        let is_seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        let goes = object["metadata"].get("deletionTimestamp").is_some();
        let expected = match (word(&ready["status"]), word(&stalled["status"])) {
            _ if goes => "Terminating",
            (_, "True") => "Failed",
            ("True", _) if is_seen => "Current",
            _ => "InProgress",
        };
        assert_eq!(verdict["kstatus"], expected, "{name}: {verdict}");
        let healthy = ["Healthy", "Suspended"].contains(&word(&verdict["argo"]));
        assert!(!healthy || expected == "Current" || ready["reason"] == "Paused", "{name}: {verdict}");
        assert!(expected != "Current" || healthy, "{name}: {verdict}");
        assert!(expected != "Failed" || verdict["argo"] == "Degraded", "{name}: {verdict}");
        assert!(
            !["False", "Unknown"].contains(&word(&ready["status"])) || expected != "Current",
            "{name}: {verdict}"
        );
    }
}

#[test]
fn the_page_has_what_tools_make_of_each_status() {
    let mut table = String::from(
        "| kind | situation | `Ready` | reason | `Stalled` | Flux, Helm (kstatus) | Argo CD |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for Judged { name, object, verdict } in judge() {
        let (_, situation) = name.split_once('-').unwrap();
        let (ready, stalled) = (condition(&object, "Ready"), condition(&object, "Stalled"));
        writeln!(
            table,
            "| {} | {} | {} | `{}` | {} | {} | {} |",
            word(&object["kind"]),
            situation.replace('-', " "),
            word(&ready["status"]),
            word(&ready["reason"]),
            word(&stalled["status"]),
            word(&verdict["kstatus"]),
            word(&verdict["argo"]),
        )
        .unwrap();
    }
    let page = root().join("docs/gitops.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the page has the mark");
    let (_, after) = rest.split_once(END).expect("the page has the mark");
    let wanted = format!("{before}{BEGIN}{table}{END}{after}");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(&page, &wanted).unwrap();
    }
    assert_eq!(
        fs::read_to_string(&page).unwrap(),
        wanted,
        "run it with INSTA_UPDATE=always and read the difference"
    );
}

#[test]
fn each_action_of_argo_cd_changes_what_it_says_and_nothing_else() {
    let all: BTreeMap<String, Value> =
        judge().into_iter().map(|one| (one.name, one.verdict["actions"].clone())).collect();
    let running = &all["etcdcluster-running"];
    let wake = ".metadata.annotations.argocd.operator.etcd.io/wake-to-size";
    assert_eq!(
        *running,
        json!({ "pause": { ".spec.paused": true }, "hibernate": { ".spec.size": 0, wake: "3" } })
    );
    assert_eq!(all["etcdcluster-paused"]["resume"], json!({ ".spec.paused": false }));
    // Nobody knows to which size, where the action did not stop it.
    assert_eq!(all["etcdcluster-hibernated"], json!({ "pause": { ".spec.paused": true } }));
    assert_eq!(
        all["etcdcluster-hibernated-by-the-action"]["wake"],
        json!({ ".spec.size": 3, wake: null }),
        "{all:?}"
    );
    let schedule = &all["etcdbackupschedule-healthy"];
    assert_eq!(schedule["suspend"], json!({ ".spec.suspend": true }));
    let order = schedule["back-up-now"].as_object().unwrap();
    let word = order[".metadata.annotations.operator.etcd.io/backup-now"].as_str().unwrap();
    assert!(order.len() == 1 && word.starts_with("argocd-20") && word.len() == 22, "{schedule}");
    assert_eq!(all["etcdbackupschedule-suspended"], json!({ "resume": { ".spec.suspend": false } }));
}
