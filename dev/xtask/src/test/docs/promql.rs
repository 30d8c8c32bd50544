//! As much of PromQL as the tests of rules need: the names of metrics in an expression, and its comparisons. That it is PromQL at all,
//! promtool says.

use std::collections::BTreeSet;

/// Words that are no metrics although no parenthesis follows them.
const KEYWORDS: [&str; 12] = [
    "and",
    "or",
    "unless",
    "bool",
    "offset",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "inf",
];

/// Those before a list of labels.
const GROUPINGS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

/// Comparisons, the longer ones first, and what each is turned round into.
const TURNED: [(&str, &str); 6] =
    [("==", "!="), ("!=", "=="), (">=", "<"), ("<=", ">"), (">", "<"), ("<", ">")];

/// The names of metrics.
pub fn metrics(expression: &str) -> BTreeSet<String> {
    let text = without_matchers(expression);
    let mut names = BTreeSet::new();
    let mut rest = text.as_str();
    let mut listed = false;
    while let Some(at) = rest.find(is_word) {
        if rest[..at].contains(')') {
            listed = false;
        }
        let word_and_on = &rest[at..];
        let end = word_and_on.find(|c| !is_word(c)).unwrap_or(word_and_on.len());
        let (word, after) = word_and_on.split_at(end);
        let next = after.trim_start();
        let is_call = next.starts_with('(') || ["by", "without"].iter().any(|word| next.starts_with(word));
        if GROUPINGS.contains(&word) && is_call {
            listed = true;
        } else if !listed
            && !is_call
            && !KEYWORDS.contains(&word)
            && !word.starts_with(|c: char| c.is_ascii_digit())
        {
            names.insert(word.to_owned());
        }
        rest = after;
    }
    names
}

/// Where its comparisons are, each with what it is turned round into.
pub fn comparisons(expression: &str) -> Vec<(usize, &'static str, &'static str)> {
    let text = without_matchers(expression);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        match TURNED.iter().find(|(sign, _)| rest.starts_with(sign)) {
            Some((sign, turned)) => {
                found.push((at, *sign, *turned));
                at += sign.len();
            }
            None => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    found
}

/// The expression with spaces in place of what is in braces, brackets and quotes, so that places stay the same.
fn without_matchers(expression: &str) -> String {
    let (mut depth, mut quoted) = (0, false);
    let blank = |c: char| " ".repeat(c.len_utf8());
    expression.chars().fold(String::new(), |mut text, c| {
        match c {
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            _ if depth == 0 && !quoted => {
                text.push(c);
                return text;
            }
            _ => {}
        }
        text + &blank(c)
    })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_and_comparisons_are_found_in_every_shape() {
        let expression = r#"histogram_quantile(0.99, sum by (namespace, le) (rate(a_bucket{x=~"b > c",y!="d"}[5m]))) > 0.5
            and on (namespace) sum without(job) (b) > 1 and label_replace(q:r, "e", "$1", "f", "(.+)") >= 1e3
            unless on () absent(up) or vector(1) != 2"#;
        assert_eq!(metrics(expression).into_iter().collect::<Vec<_>>(), ["a_bucket", "b", "q:r", "up"]);
        let signs: Vec<_> =
            comparisons(expression).into_iter().map(|(_, sign, turned)| (sign, turned)).collect();
        assert_eq!(signs, [(">", "<"), (">", "<"), (">=", "<"), ("!=", "==")]);
        let (at, sign, _) = comparisons(expression)[2];
        assert_eq!(&expression[at..at + sign.len()], ">=");
    }
}
