//! What the processors did while something ran, read from `/proc/stat`.

use std::fs;
use std::ops::Sub;

/// Seconds of all processors together, since the machine started or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// In programs with the usual priority, and in the kernel.
    pub busy: f64,
    /// In programs with a lower priority: what runs in the background of a whole run.
    pub beside: f64,
    /// Without work, also while waiting for a disk.
    pub idle: f64,
}

impl Usage {
    /// Until now. Zero where the kernel does not report it.
    pub fn now() -> Self {
        fs::read_to_string("/proc/stat").ok().and_then(|text| Self::read(&text)).unwrap_or_default()
    }

    /// The first line is `cpu user nice system idle iowait irq softirq steal ...`, in hundredths of a second (proc(5)).
    fn read(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let seconds: Vec<f64> = line
            .split_whitespace()
            .map(|ticks| ticks.parse().map(|ticks: f64| ticks / 100.0))
            .collect::<Result<_, _>>()
            .ok()?;
        let [user, nice, system, idle, iowait, irq, softirq, ..] = seconds[..] else { return None };
        Some(Self { busy: user + system + irq + softirq, beside: nice, idle: idle + iowait })
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            busy: self.busy - before.busy,
            beside: self.beside - before.beside,
            idle: self.idle - before.idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_a_lower_priority_is_counted_apart() {
        let usage = Usage::read("cpu  300 200 100 1000 50 10 40 0 0 0\ncpu0 1 2 3\n").unwrap();
        assert_eq!(usage, Usage { busy: 4.5, beside: 2.0, idle: 10.5 });
        assert_eq!((usage - usage), Usage::default());
        assert_eq!(Usage::read("intr 1"), None);
    }
}
