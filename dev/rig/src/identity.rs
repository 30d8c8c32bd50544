//! Identifies a process. A pid alone is not enough, because the kernel uses it again.

use std::fs;

use serde::{Deserialize, Serialize};

/// Identifies one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its pid, which another process may get later.
    pub pid: i32,
    /// When it started, in ticks since the boot.
    started: u64,
    /// The id of the boot.
    boot: String,
}

/// The fields of /proc/PID/stat that are needed.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    started: u64,
}

impl Identity {
    /// The identity of a running process.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = Stat::of(pid)?;
        stat.runs().then(|| Self { pid, started: stat.started, boot: boot() })
    }

    /// Whether it still runs. A zombie does not count.
    pub fn runs(&self) -> bool {
        self.boot == boot()
            && Stat::of(self.pid).is_some_and(|stat| stat.runs() && stat.started == self.started)
    }
}

impl Stat {
    fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The program's name is in parentheses and may contain parentheses.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        // The third field was the state, the 22nd is the start.
        let started = fields.nth(18)?.parse().ok()?;
        Some(Self { state, started })
    }

    fn runs(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_stat_of_a_program_with_an_odd_name_is_read() {
        let text = "42 (a) R (b) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 1000 1 184467";
        assert_eq!(Stat::parse(text), Some(Stat { state: 'S', started: 777 }));
        assert_eq!(Stat::parse("42 (cut"), None);
    }

    #[test]
    fn a_process_that_ended_does_not_run_even_before_its_status_is_fetched() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity::of(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(identity.runs());
        child.kill().unwrap();
        let dead = || Stat::of(identity.pid).is_none_or(|stat| !stat.runs());
        while !dead() {
            std::thread::yield_now();
        }
        assert!(!identity.runs());
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_got_the_number_later_is_another() {
        let own = Identity::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.runs());
        assert!(!Identity { started: own.started + 1, ..own.clone() }.runs());
        assert!(!Identity { boot: "another".to_owned(), ..own }.runs());
    }
}
