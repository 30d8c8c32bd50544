//! Circles of files: files of a crate that can only be read together, since each leads to the others by what it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use crate::repo;

/// How many files of a crate may be in one circle.
const MOST: usize = 4;

/// The crates that have a larger one, and its size. None grows, and a smaller one is written down here.
const LARGER: [(&str, usize); 8] = [
    ("agent", 8),
    ("api", 16),
    ("model", 25),
    ("operator", 24),
    ("orders", 6),
    ("planner", 22),
    ("reconcile", 10),
    ("status", 7),
];

/// By module, `""` for the top of the crate: the modules that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// A line for each crate with a circle that is too large, or smaller than it says here.
pub fn check() -> Result<Vec<String>> {
    let mut crates: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for file in repo::files_with("rs")? {
        let Some((name, module)) = module(&file) else { continue };
        crates.entry(name).or_default().insert(module, repo::read(&file)?);
    }
    let faults = crates.iter().filter_map(|(name, files)| fault(name, &largest(&uses(files))));
    Ok(faults.collect())
}

fn fault(name: &str, circle: &BTreeSet<String>) -> Option<String> {
    let known = LARGER.iter().find(|(of, _)| *of == name).map(|(_, size)| *size);
    let files: Vec<&str> = circle.iter().map(String::as_str).collect();
    match (known, circle.len()) {
        (None, 0..=MOST) => None,
        (Some(known), size) if size == known => None,
        (Some(known), size) if size < known => Some(format!(
            "crates/{name}: its largest circle has {size} files: write that into circles.rs, in place of {known}"
        )),
        (_, size) => Some(format!(
            "crates/{name}: {size} files use each other in a circle: {}. Move what they share to a file that uses none of them",
            files.join(", ")
        )),
    }
}

/// The crate and the module of a source file of the product.
fn module(file: &Path) -> Option<(String, String)> {
    let rest = file.to_str()?.strip_prefix("crates/")?;
    let (name, module) = rest.strip_suffix(".rs")?.split_once("/src/")?;
    let module = if matches!(module, "lib" | "main") { String::new() } else { module.replace('/', "::") };
    (!module.split("::").any(|part| part == "tests")).then(|| (name.to_owned(), module))
}

fn uses(files: &BTreeMap<String, String>) -> Uses {
    let of = |(module, text): (&String, &String)| {
        let code = code(text);
        let named = imported(&code).into_iter().chain(written_out(&code));
        let used = named.filter_map(|path| resolved(module, &path, files));
        (module.clone(), used.filter(|used| used != module && !used.is_empty()).collect())
    };
    files.iter().map(of).collect()
}

/// Without comments, and without the tests at its end.
fn code(text: &str) -> String {
    let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = product.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Every path of the `use` declarations.
fn imported(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].chars().next_back();
        if before.is_none_or(|before| before == '\n' || before == ' ') {
            let tree = code[at + 4..].split(';').next().unwrap_or_default();
            expand("", tree, &mut paths);
        }
    }
    paths
}

fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((before, inner)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        paths.push(format!("{prefix}{path}"));
        return;
    };
    let (inner, prefix) = (inner.trim_end().trim_end_matches('}'), format!("{prefix}{before}"));
    let (mut depth, mut start) = (0_usize, 0);
    for (at, sign) in inner.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&prefix, &inner[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, &inner[start..], paths);
}

/// The paths that begin at the top of the crate or at the module above.
fn written_out(code: &str) -> Vec<String> {
    let is_of_path = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '_' | ':');
    let words = code.split(|sign: char| !is_of_path(sign));
    let ours = words.filter(|word| word.starts_with("crate::") || word.starts_with("super::"));
    ours.map(|word| word.trim_end_matches(':').to_owned()).collect()
}

/// The module that a path leads to, if it leads to one of the crate.
fn resolved(module: &str, path: &str, files: &BTreeMap<String, String>) -> Option<String> {
    let own: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    let mut parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
    let mut full: Vec<&str> = match *parts.first()? {
        "crate" => Vec::new(),
        "super" => {
            let up = parts.iter().take_while(|part| **part == "super").count();
            parts.drain(1..up);
            own.get(..own.len().saturating_sub(up))?.to_vec()
        }
        "self" => own,
        // A module below this one. Else it is another crate.
        first => {
            let below: Vec<&str> = own.iter().copied().chain([first]).collect();
            files.contains_key(&below.join("::")).then_some(())?;
            parts.insert(0, "self");
            own
        }
    };
    full.extend(parts.iter().skip(1));
    while !full.is_empty() && !files.contains_key(&full.join("::")) {
        full.pop();
    }
    Some(full.join("::"))
}

/// The most files that lead to each other.
fn largest(uses: &Uses) -> BTreeSet<String> {
    let led_to: BTreeMap<&String, BTreeSet<&String>> =
        uses.keys().map(|from| (from, reached(uses, from))).collect();
    let circle = |file: &String| -> BTreeSet<String> {
        let others = led_to.get(file).into_iter().flatten();
        let back = others.filter(|other| led_to.get(**other).is_some_and(|reached| reached.contains(file)));
        back.map(|other| (*other).clone()).collect()
    };
    uses.keys().map(circle).max_by_key(BTreeSet::len).unwrap_or_default()
}

/// Every file that one leads to, itself among them if it is in a circle.
fn reached<'a>(uses: &'a Uses, from: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = uses.get(from).into_iter().flatten().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(uses.get(next).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(module, text)| ((*module).to_owned(), (*text).to_owned())).collect();
        largest(&uses(&files)).into_iter().collect()
    }

    #[test]
    fn files_that_use_each_other_by_any_way_are_a_circle() {
        let one = ("one", "use crate::{other::{self, Thing}, three as third};\nmod below;");
        let below = ("one::below", "fn f() { super::super::two::g() }");
        let two =
            ("two", "//! uses crate::three\nuse super::one;\n#[cfg(test)]\nmod tests { use crate::three; }");
        let three = ("three", "use std::fmt;");
        let top = ("", "mod one;\npub use one::Thing;");
        assert_eq!(circle(&[top, one, below, two, three]), Vec::<String>::new());
        let uses_below = ("one", "mod below;\nuse below::f;");
        assert_eq!(circle(&[top, uses_below, below, two, three]), ["one", "one::below", "two"]);
    }

    #[test]
    fn a_circle_may_not_grow_and_a_smaller_one_is_written_down() {
        let of = |size: usize| (0..size).map(|file| file.to_string()).collect::<BTreeSet<_>>();
        assert_eq!(fault("manifests", &of(MOST)), None);
        assert!(
            fault("manifests", &of(MOST + 1)).is_some_and(|fault| fault.contains("Move what they share"))
        );
        let (name, known) = LARGER[0];
        assert_eq!(fault(name, &of(known)), None);
        assert!(fault(name, &of(known + 1)).is_some_and(|fault| fault.contains("Move")));
        assert!(fault(name, &of(known - 1)).is_some_and(|fault| fault.contains("write that into")));
    }
}
