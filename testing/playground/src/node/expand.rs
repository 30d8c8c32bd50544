//! Expands `$(NAME)` in commands, arguments and environment, as Kubernetes does: an unknown name stays unchanged, and
//! `$$` is a dollar sign.

use std::collections::BTreeMap;

/// The text with its references replaced.
pub fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, behind)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match env.get(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.push_str(&rest[at..rest.len() - behind.len()]),
            }
            rest = behind;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_expanded_as_kubernetes_does() {
        let env = [("IP".to_owned(), "127.1.2.3".to_owned()), ("A".to_owned(), "$(B)".to_owned())].into();
        for (text, expanded) in [
            ("http://$(IP):2379", "http://127.1.2.3:2379"),
            ("$(NONE)-$(IP)", "$(NONE)-127.1.2.3"),
            ("$$(IP)", "$(IP)"),
            ("$(A)", "$(B)"),
            ("cost: 5$", "cost: 5$"),
            ("$IP $(IP", "$IP $(IP"),
            ("", ""),
        ] {
            assert_eq!(expand(text, &env), expanded, "{text}");
        }
    }
}
