//! What is built, and how long that took on this machine the last time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cache;

/// A build that took less had little to do, and says nothing about the next one.
const SHORT: Duration = Duration::from_secs(2);

/// Something that takes a while to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// As people read it: `etcd 3.7 from source`.
    what: String,
    /// Names the duration in the cache.
    key: String,
    /// What is reported as long as no duration is known: `a few minutes on two cores`.
    guess: &'static str,
}

impl Step {
    /// A step.
    pub fn new(what: &str, key: &str, guess: &'static str) -> Self {
        Self { what: what.to_owned(), key: key.to_owned(), guess }
    }

    /// `took 67 s here the last time`, or the guess.
    pub fn duration(&self) -> String {
        self.duration_in(&folder())
    }

    /// Remembers how long it took.
    pub fn took(&self, duration: Duration) {
        self.took_in(&folder(), duration);
    }

    fn duration_in(&self, folder: &Path) -> String {
        let known = fs::read_to_string(self.file(folder)).ok().and_then(|text| text.trim().parse().ok());
        known.map_or_else(
            || self.guess.to_owned(),
            |seconds: u64| format!("took {seconds} s here the last time"),
        )
    }

    /// What cannot be remembered is no failure of the build.
    fn took_in(&self, folder: &Path, duration: Duration) {
        if duration >= SHORT && fs::create_dir_all(folder).is_ok() {
            let _ = fs::write(self.file(folder), format!("{}\n", duration.as_secs()));
        }
    }

    fn file(&self, folder: &Path) -> PathBuf {
        folder.join(self.key.replace([' ', '/'], "-"))
    }
}

/// Reports what will be built, a line each. Nothing if there is nothing to build.
pub fn announce<'a>(steps: impl IntoIterator<Item = &'a Step>) {
    for line in lines(steps, &folder()) {
        eprintln!("{line}");
    }
}

fn lines<'a>(steps: impl IntoIterator<Item = &'a Step>, folder: &Path) -> Vec<String> {
    let steps: Vec<&Step> = steps.into_iter().collect();
    let line = |(index, step): (usize, &&Step)| {
        let number = match steps.len() {
            1 => "building".to_owned(),
            many => format!("{} of {many}:", index + 1),
        };
        format!("{number} {} ({})", step.what, step.duration_in(folder))
    };
    steps.iter().enumerate().map(line).collect()
}

fn folder() -> PathBuf {
    cache::root().join("durations")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_reports_how_long_it_took_the_last_time() {
        let folder = tempfile::tempdir().unwrap();
        let etcd = Step::new("etcd 3.7 from source", "etcd 3.7", "a few minutes on two cores");
        let quorate = Step::new("quorate", "quorate", "a few minutes on two cores");
        etcd.took_in(folder.path(), Duration::from_secs(67));
        etcd.took_in(folder.path(), Duration::from_millis(1999));
        let expected = [
            "1 of 2: etcd 3.7 from source (took 67 s here the last time)",
            "2 of 2: quorate (a few minutes on two cores)",
        ];
        assert_eq!(lines([&etcd, &quorate], folder.path()), expected);
        assert_eq!(lines([&quorate], folder.path()), ["building quorate (a few minutes on two cores)"]);
        assert!(lines([], folder.path()).is_empty());
    }
}
