//! The rules for Prometheus do what they should, by promtool: each alert fires in a case of its own and in no world that is calm. And these
//! cases notice it when a comparison is turned round.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::promql;
use crate::repo;
use crate::tools::monitoring::PROMTOOL;

/// The rules.
pub const RULES: &str = "monitoring/rules.yaml";

/// In which each alert fires.
pub const FIRING: &str = "monitoring/tests/firing.yaml";

/// In which nothing fires.
const QUIET: &str = "monitoring/tests/quiet.yaml";

/// A file of rules.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    groups: Vec<Group>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    rules: Vec<Rule>,
}

/// A rule: an alert or a series to record.
#[derive(Clone, Serialize, Deserialize)]
pub struct Rule {
    /// The alert.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert: Option<String>,
    /// The series.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// The expression.
    pub expr: String,
    /// Labels, annotations and for how long.
    #[serde(flatten)]
    pub rest: serde_json::Map<String, serde_json::Value>,
}

impl Rule {
    /// What its cases ask for.
    pub fn case(&self) -> Option<String> {
        let severity = self.rest.get("labels")?.get("severity")?.as_str()?;
        let alert = self.alert.as_ref()?;
        Some(format!("alertname=\"{alert}\",alertstate=\"firing\",severity=\"{severity}\""))
    }
}

impl Rules {
    /// The rules of the repository.
    pub fn read() -> Result<Self> {
        serde_yaml_ng::from_str(&repo::read(Path::new(RULES))?).context(RULES)
    }

    /// Every rule.
    pub fn all(&self) -> impl Iterator<Item = &Rule> {
        self.groups.iter().flat_map(|group| &group.rules)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Rule> {
        self.groups.iter_mut().flat_map(|group| &mut group.rules)
    }
}

/// A line for each fault.
pub fn check() -> Result<Vec<String>> {
    let promtool = PROMTOOL.path()?;
    let rules = Rules::read()?;
    let most = rules.all().map(|rule| promql::comparisons(&rule.expr).len()).max().unwrap_or_default();
    // Those of what is recorded by themselves: alerts need it.
    let rounds = (0..most).flat_map(|nth| [(nth, true), (nth, false)]);
    thread::scope(|scope| {
        let (promtool, rules) = (&promtool, &rules);
        let plain = scope.spawn(|| as_they_are(promtool, rules));
        let rounds: Vec<_> = rounds
            .map(|(nth, alerts)| scope.spawn(move || unnoticed(promtool, rules, nth, alerts)))
            .collect();
        let all = std::iter::once(plain).chain(rounds);
        let found = all.map(|round| round.join().expect("it does not panic")).collect::<Result<Vec<_>>>()?;
        Ok(found.concat())
    })
}

/// What promtool says of the rules and their cases.
fn as_they_are(promtool: &Path, rules: &Rules) -> Result<Vec<String>> {
    let folder = Folder::new("plain", rules)?;
    let mut faults = Vec::new();
    for arguments in [
        ["check", "rules", "--lint=all", "rules.yaml"].as_slice(),
        &["test", "rules", "firing.yaml"],
        &["test", "rules", "quiet.yaml"],
    ] {
        let (passes, said) = folder.run(promtool, arguments)?;
        if !passes {
            faults.push(format!("promtool {}: {said}", arguments.join(" ")));
        }
    }
    Ok(faults)
}

/// Comparisons that no case notices when they are turned round: the one of this number of each alert, or of each series that is recorded, at
/// a time. The cases of one alert do not depend on another one.
fn unnoticed(promtool: &Path, rules: &Rules, nth: usize, alerts: bool) -> Result<Vec<String>> {
    let mut turned = rules.clone();
    let mut changed = Vec::new();
    for rule in turned.all_mut().filter(|rule| rule.alert.is_some() == alerts) {
        if let Some((at, sign, other)) = promql::comparisons(&rule.expr).get(nth) {
            rule.expr.replace_range(*at..at + sign.len(), other);
            changed.push(rule.clone());
        }
    }
    if changed.is_empty() {
        return Ok(Vec::new());
    }
    let folder = Folder::new(&format!("{nth}-{alerts}"), &turned)?;
    let (_, said) = folder.run(promtool, &["test", "rules", "firing.yaml"])?;
    // It prints expressions in quotes.
    let said = said.replace('\\', "");
    let mut faults = Vec::new();
    for rule in changed {
        let mut cases = rules.all().filter_map(|other| {
            let needs = rule.record.as_ref().is_some_and(|series| other.expr.contains(series));
            (needs || other.case() == rule.case()).then(|| other.case())?
        });
        if !cases.any(|case| said.contains(&case)) {
            let Rule { alert, record, .. } = rule;
            let name = alert.or(record).unwrap_or_default();
            faults.push(format!(
                "{FIRING}: no case notices that comparison {} of {name} is turned round",
                nth + 1
            ));
        }
    }
    Ok(faults)
}

/// A folder with the rules and the cases side by side; promtool looks for the former beside the latter.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, rules: &Rules) -> Result<Self> {
        let folder = repo::target().join("rules").join(format!("{}-{name}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let folder = Self(folder);
        for file in [FIRING, QUIET] {
            let name = Path::new(file).file_name().context("a file has a name")?;
            fs::write(folder.0.join(name), repo::read(Path::new(file))?)?;
        }
        let text = serde_yaml_ng::to_string(rules)?;
        fs::write(folder.0.join("rules.yaml"), text).context("cannot write the rules")?;
        Ok(folder)
    }

    /// Whether it passes, and what it said.
    fn run(&self, promtool: &Path, arguments: &[&str]) -> Result<(bool, String)> {
        // It ends before its garbage is worth collecting.
        let output = Command::new(promtool).args(arguments).current_dir(&self.0).env("GOGC", "400").output();
        let output = output.context("cannot run promtool")?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        ensure!(output.status.code().is_some(), "promtool was killed");
        Ok((output.status.success(), said))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
