//! The length of files: more than 400 lines is a note, more than 800 needs a reason.

use anyhow::Result;

use crate::repo;

const SMELL: usize = 400;
const LIMIT: usize = 800;

/// How a long file gives its reason, within its first lines.
const REASON: &str = "Long because";
const TOP: usize = 20;

/// Warns of long files; a fault for each very long one without a reason.
pub fn check() -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for file in repo::files_with("rs")? {
        let text = repo::read(&file)?;
        match judge(&text) {
            Length::Fine => {}
            Length::Smells(lines) => eprintln!("    note: {} has {lines} lines", file.display()),
            Length::TooLong(lines) => faults.push(format!(
                "{}: {lines} lines; split it, or begin with a comment \"{REASON} ...\"",
                file.display()
            )),
        }
    }
    Ok(faults)
}

#[derive(Debug, PartialEq, Eq)]
enum Length {
    Fine,
    Smells(usize),
    TooLong(usize),
}

fn judge(text: &str) -> Length {
    let lines = text.lines().count();
    let excused = text.lines().take(TOP).any(|line| line.contains(REASON));
    match lines {
        0..=SMELL => Length::Fine,
        _ if lines <= LIMIT || excused => Length::Smells(lines),
        _ => Length::TooLong(lines),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_very_long_file_needs_a_reason_at_its_top() {
        assert_eq!(judge(&"\n".repeat(400)), Length::Fine);
        assert_eq!(judge(&"\n".repeat(401)), Length::Smells(401));
        assert_eq!(judge(&"\n".repeat(801)), Length::TooLong(801));
        let excused = format!("//! Long because it is a table.{}", "\n".repeat(900));
        assert_eq!(judge(&excused), Length::Smells(900));
        let too_late = format!("{}//! Long because it is a table.\n", "\n".repeat(900));
        assert_eq!(judge(&too_late), Length::TooLong(901));
    }
}
