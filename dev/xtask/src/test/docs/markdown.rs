//! The parts of Markdown that the checks need: code apart from prose, links, anchors.

/// The lines outside of code fences, with their numbers, and with inline code replaced by blanks.
pub fn prose(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut fence: Option<&str> = None;
    for (number, line) in text.lines().enumerate() {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => lines.push((number + 1, without_code(line))),
        }
    }
    lines
}

/// The lines of code fences, with line numbers.
pub fn code(text: &str) -> Vec<(usize, String)> {
    let prose: Vec<usize> = prose(text).into_iter().map(|(number, _)| number).collect();
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.to_owned()));
    lines.filter(|(number, line)| !prose.contains(number) && !line.trim_start().starts_with("```")).collect()
}

/// The targets of `[text](target)`.
pub fn links(line: &str) -> Vec<&str> {
    let starts = line.match_indices("](").map(|(at, mark)| at + mark.len());
    let target = |start: usize| line[start..].split([')', ' ']).next();
    starts.filter_map(target).filter(|target| !target.is_empty()).collect()
}

/// The anchors of the headings, as GitHub makes them.
pub fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for line in prose_with_code(text) {
        let Some(title) = line.starts_with('#').then(|| line.trim_start_matches('#')) else { continue };
        if !title.starts_with(' ') {
            continue;
        }
        let slug = slug(title.trim());
        let twins = anchors.iter().filter(|other| **other == slug || is_twin(other, &slug)).count();
        anchors.push(if twins == 0 { slug } else { format!("{slug}-{twins}") });
    }
    anchors
}

/// Lines outside of code fences as they are.
fn prose_with_code(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    prose(text).into_iter().map(|(number, _)| lines[number - 1]).collect()
}

fn is_twin(other: &str, slug: &str) -> bool {
    let number = other.strip_prefix(slug).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| number.parse::<usize>().is_ok())
}

fn slug(title: &str) -> String {
    // Of a link in a heading, only the text counts.
    let mut text = String::new();
    let mut rest = title;
    while let Some((before, after)) = rest.split_once("](") {
        text += &before.replacen('[', "", 1);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text += rest;
    let keep = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    text.to_lowercase().chars().filter(keep).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let closed = parts.len() - usize::from(parts.len().is_multiple_of(2));
    let keep = |(n, part): (usize, &&str)| {
        // A back-tick without a second one begins no code.
        if n % 2 == 1 && n < closed { " ".repeat(part.len()) } else { (*part).to_owned() }
    };
    parts.iter().enumerate().map(keep).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_are_no_links() {
        let text = "[a](b.md) `[c](d.md)`\n```\n[e](f.md)\n```\n[g](h.md#i \"t\")";
        let found: Vec<String> =
            prose(text).iter().flat_map(|(_, line)| links(line).into_iter().map(str::to_owned)).collect();
        assert_eq!(found, ["b.md", "h.md#i"]);
        assert_eq!(code(text), [(3, "[e](f.md)".to_owned())]);
    }

    #[test]
    fn a_link_whose_text_is_code_is_a_link() {
        let found = prose("see [`x.rs`](../x.rs) and `y`");
        assert_eq!(links(&found[0].1), ["../x.rs"]);
    }

    #[test]
    fn anchors_are_made_as_on_the_web_page() {
        let text =
            "# One & `two`: three\n## Same\n## Same\n```\n# no\n```\n#!no\n### BA: giving up [an](x) attempt";
        assert_eq!(anchors(text), ["one--two-three", "same", "same-1", "ba-giving-up-an-attempt"]);
    }
}
