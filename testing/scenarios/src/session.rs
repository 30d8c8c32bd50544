//! A page whose sessions are run: commands as a user types them, each with what it prints. What a run prints is compared with what
//! the page shows.
//!
//! A session is a fence of `console`. A command begins with `$ `; what follows is what it prints, where `...` is whatever is printed
//! there. IDs, ports, process IDs and numbers of nodes may differ, but each has to be the same throughout the session. Line breaks and
//! the cells of the columns `AGE`, `LEADER` and `REVISION` may differ, too.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};

/// What a page shows under one heading of the second level.
#[derive(Debug, Default)]
pub struct Session {
    /// Fences of YAML whose first line is a comment with a file name, such as `# demo.yaml`: that name and the fence.
    pub files: BTreeMap<String, String>,
    /// In the order of the page.
    pub steps: Vec<Step>,
}

/// A command, and what it prints.
#[derive(Debug, PartialEq)]
pub struct Step {
    /// As it is typed.
    pub command: String,
    /// What it prints on the page.
    pub shown: String,
}

/// What differs between runs: from its value on the page to that of this run.
#[derive(Clone, Default)]
pub struct Values(BTreeMap<String, String>);

impl Session {
    /// The sessions of a page of this repository, by their headings.
    pub fn read(page: &str) -> Result<BTreeMap<String, Self>> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {page}"))?;
        Ok(sessions(&text))
    }
}

impl Step {
    /// The command as it has to be typed in this run.
    pub fn command(&self, values: &Values) -> String {
        let mut command = self.command.clone();
        for token in tokens(&self.command).iter().rev() {
            if let Some(value) = values.0.get(&token.key()) {
                command.replace_range(token.range.clone(), value);
            }
        }
        command
    }

    /// Compares what a run printed with what the page shows. An error has the first difference.
    pub fn compare(&self, printed: &str, values: &mut Values) -> Result<(), String> {
        let (shown, ran) = (without_varying_cells(&self.shown), without_varying_cells(printed));
        let (shown_tokens, printed_tokens) = (tokens(&shown), tokens(&ran));
        let mut furthest = (0, 0);
        if let Some(all) = matched(&shown_tokens, &printed_tokens, (0, 0), values, &mut furthest) {
            *values = all;
            return Ok(());
        }
        Err(format!(
            "$ {}\n- {}\n+ {}\nfirst difference above: - the page shows, + this run printed\n\
             the page shows:\n{}\nthis run printed:\n{printed}",
            self.command,
            line_of(&shown, &shown_tokens, furthest.0),
            line_of(&ran, &printed_tokens, furthest.1),
            self.shown
        ))
    }
}

fn sessions(text: &str) -> BTreeMap<String, Session> {
    let mut sessions: BTreeMap<String, Session> = BTreeMap::new();
    let mut heading = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            title.clone_into(&mut heading);
        }
        let Some(language) = line.strip_prefix("```") else { continue };
        let fence: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let session = sessions.entry(heading.clone()).or_default();
        match language {
            "console" => session.steps.extend(steps(&fence)),
            "yaml" => {
                if let Some(name) = fence.first().and_then(|first| first.strip_prefix("# ")) {
                    session.files.insert(name.to_owned(), fence.join("\n"));
                }
            }
            _ => {}
        }
    }
    sessions.retain(|_, session| !session.steps.is_empty());
    sessions
}

fn steps(fence: &[&str]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = fence.iter();
    while let Some(line) = lines.next() {
        if let Some(command) = line.strip_prefix("$ ") {
            let mut command = command.to_owned();
            if command.ends_with("<<EOF") {
                for line in lines.by_ref() {
                    command.push('\n');
                    command.push_str(line);
                    if *line == "EOF" {
                        break;
                    }
                }
            }
            steps.push(Step { command, shown: String::new() });
        } else if let Some(step) = steps.last_mut() {
            step.shown.push_str(line);
            step.shown.push('\n');
        }
    }
    steps
}

/// The text without the cells of tables that may differ. A table ends with an empty line.
fn without_varying_cells(text: &str) -> String {
    let mut varying: Vec<Range<usize>> = Vec::new();
    let mut kept = String::new();
    for line in text.lines() {
        if is_header(line) {
            varying = columns(line, &["AGE", "LEADER", "REVISION"]);
            kept += line;
        } else {
            if line.trim().is_empty() {
                varying.clear();
            }
            let letters = line.chars().enumerate();
            let letters = letters.filter(|(at, _)| !varying.iter().any(|column| column.contains(at)));
            kept.extend(letters.map(|(_, letter)| letter));
        }
        kept.push('\n');
    }
    kept
}

fn is_header(line: &str) -> bool {
    let of_title = |letter: char| letter.is_ascii_uppercase() || letter == '-';
    line.split_whitespace().count() > 2 && line.chars().all(|letter| letter == ' ' || of_title(letter))
}

/// Where the columns of these titles begin and end.
fn columns(header: &str, titles: &[&str]) -> Vec<Range<usize>> {
    let starts = |at: &usize| !header[*at..].starts_with(' ') && (*at == 0 || header[..*at].ends_with(' '));
    let starts: Vec<usize> = (0..header.len()).filter(starts).collect();
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    let columns = starts.iter().copied().zip(ends);
    let of_titles = |start: usize| titles.contains(&header[start..].split(' ').next().unwrap_or_default());
    columns.filter(|(start, _)| of_titles(*start)).map(|(start, end)| start..end).collect()
}

/// A word of letters and digits, or another character.
struct Token<'a> {
    text: &'a str,
    range: Range<usize>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Fixed,
    /// `...`
    Gap,
    Id,
    Node,
    Port,
    Process,
}

impl Token<'_> {
    /// Under which its value in this run is known. A node is known by its number, which also means other things.
    fn key(&self) -> String {
        if self.kind == Kind::Node { format!("node-{}", self.text) } else { self.text.to_owned() }
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = if rest.starts_with("...") {
            3
        } else if first.is_alphanumeric() {
            rest.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            let kind = kind(&rest[..length], &text[..at]);
            tokens.push(Token { text: &rest[..length], range: at..at + length, kind });
        }
        at += length;
    }
    tokens
}

fn kind(text: &str, before: &str) -> Kind {
    let is_number = text.chars().all(|letter| letter.is_ascii_digit());
    let is_hex = text.chars().all(|letter| matches!(letter, '0'..='9' | 'a'..='f'));
    match text {
        "..." => Kind::Gap,
        _ if is_hex && (13..=16).contains(&text.len()) => Kind::Id,
        _ if is_number && text.len() == 5 && before.ends_with(':') => Kind::Port,
        _ if is_number && before.ends_with("node-") => Kind::Node,
        _ if is_number && before.ends_with("pid ") => Kind::Process,
        _ => Kind::Fixed,
    }
}

/// The values with which all tokens match, from these on. `furthest` gets how far they match.
fn matched(
    shown: &[Token<'_>],
    printed: &[Token<'_>],
    (mut at, mut of_run): (usize, usize),
    values: &Values,
    furthest: &mut (usize, usize),
) -> Option<Values> {
    let mut values = values.clone();
    loop {
        *furthest = (*furthest).max((at, of_run));
        match (shown.get(at), printed.get(of_run)) {
            (None, None) => return Some(values),
            (Some(Token { kind: Kind::Gap, .. }), _) => {
                let mut skips = of_run..=printed.len();
                return skips.find_map(|next| matched(shown, printed, (at + 1, next), &values, furthest));
            }
            (Some(token), Some(other)) if is_same(token, other, &mut values) => {
                at += 1;
                of_run += 1;
            }
            _ => return None,
        }
    }
}

fn is_same(shown: &Token<'_>, printed: &Token<'_>, values: &mut Values) -> bool {
    if shown.kind == Kind::Fixed || shown.kind != printed.kind {
        return shown.text == printed.text;
    }
    let value = values.0.entry(shown.key()).or_insert_with(|| printed.text.to_owned());
    value == printed.text
}

/// The line of a token.
fn line_of<'a>(text: &'a str, tokens: &[Token<'_>], at: usize) -> &'a str {
    let Some(token) = tokens.get(at) else { return "(nothing more)" };
    let start = text[..token.range.start].rfind('\n').map_or(0, |end| end + 1);
    text[start..].lines().next().unwrap_or_default().trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
## A heading

```yaml
# demo.yaml
kind: EtcdCluster
```

```console
$ start
playground pid 1804 at 127.0.0.1:32379, demo-1 on node-1
...
done, the cluster ID is 908938944d8dae6d
$ apply <<EOF
a: 1
EOF
created
```

## Another

```
$ no session
```
";

    fn step(command: &str, shown: &str) -> Step {
        Step { command: command.to_owned(), shown: shown.to_owned() }
    }

    fn compare(shown: &str, printed: &str) -> Result<(), String> {
        step("x", shown).compare(printed, &mut Values::default())
    }

    #[test]
    fn a_session_has_commands_what_they_print_and_files() {
        let sessions = sessions(PAGE);
        assert_eq!(sessions.keys().collect::<Vec<_>>(), ["A heading"]);
        let session = &sessions["A heading"];
        assert_eq!(session.files["demo.yaml"], "# demo.yaml\nkind: EtcdCluster");
        assert_eq!(session.steps[1], step("apply <<EOF\na: 1\nEOF", "created\n"));
        assert_eq!(session.steps.len(), 2);
    }

    #[test]
    fn what_differs_between_runs_is_the_same_throughout_a_run() {
        let session = &sessions(PAGE)["A heading"];
        let mut values = Values::default();
        let run = "playground pid 77 at 127.0.0.1:40001, demo-1 on node-3\nmore\nand more\ndone, the cluster ID is 1234567890abcde\n";
        session.steps[0].compare(run, &mut values).unwrap();
        let next = step("adopt=908938944d8dae6d https://127.0.0.1:32379", "(pid 1804)");
        assert_eq!(next.command(&values), "adopt=1234567890abcde https://127.0.0.1:40001");
        next.compare("(pid 77)", &mut values).unwrap();
        let node = step("uncordon node-1", "demo-1 on node-1");
        assert_eq!(node.command(&values), "uncordon node-3");
        node.compare("demo-1 on node-2", &mut values).unwrap_err();
        next.compare("(pid 78)", &mut values).unwrap_err();
    }

    #[test]
    fn cells_are_compared_except_those_that_may_differ() {
        let shown = "NAME   READY   LEADER   AGE\ndemo   1/1     demo-1   7s\n";
        compare(shown, "NAME   READY   LEADER      AGE\ndemo   1/1     demo-0      111s\n").unwrap();
        compare(shown, "NAME   READY   LEADER   AGE\ndemo   1/1              7s\n").unwrap();
        let error = compare(shown, "NAME   READY   LEADER   AGE\ndemo   2/2     demo-1   7s\n").unwrap_err();
        assert!(error.starts_with("$ x\n- demo   1/1\n+ demo   2/2\n"), "{error}");
    }

    #[test]
    fn lines_may_break_elsewhere_but_none_may_be_missing() {
        compare("one\ntwo three\n", "one two\nthree").unwrap();
        let error = compare("one\ntwo\n", "one\n").unwrap_err();
        assert!(error.starts_with("$ x\n- two\n+ (nothing more)\n"), "{error}");
        let error = compare("one\n", "one\nmore\n").unwrap_err();
        assert!(error.starts_with("$ x\n- (nothing more)\n+ more\n"), "{error}");
    }
}
