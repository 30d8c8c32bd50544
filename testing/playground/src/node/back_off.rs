//! The restart delays of a container, as the kubelet has them: none after the first exit, then 10 s, doubled each time
//! up to 5 min, and reset after a run of 10 min.

use std::time::Duration;

/// The longest delay.
const MOST: Duration = Duration::from_secs(300);

/// The delays of one container or image.
#[derive(Clone, Copy, Debug)]
pub struct BackOff {
    base: Duration,
    next: Option<Duration>,
}

impl BackOff {
    /// The first delay is `base`, 10 s on a real node.
    pub fn new(base: Duration) -> Self {
        Self { base, next: None }
    }

    /// The delay after an exit; `lasted` is how long the container ran.
    pub fn after(&mut self, lasted: Duration) -> Duration {
        if lasted >= 2 * MOST {
            self.next = None;
        }
        let wait = self.next.unwrap_or_default();
        self.next = Some(self.next.map_or(self.base, |last| (2 * last).min(MOST)));
        wait
    }
}

/// A delay as Go prints it: `10s`, `2m40s`.
pub fn shown(wait: Duration) -> String {
    let (minutes, seconds) = (wait.as_secs() / 60, wait.as_secs() % 60);
    match (minutes, wait.subsec_millis()) {
        (0, 0) => format!("{seconds}s"),
        (0, millis) if seconds == 0 => format!("{millis}ms"),
        (0, _) => format!("{}s", wait.as_secs_f64()),
        (minutes, _) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_is_immediate_and_later_delays_double_up_to_five_minutes() {
        let mut back_off = BackOff::new(Duration::from_secs(10));
        let waits: Vec<String> = (0..8).map(|_| shown(back_off.after(Duration::ZERO))).collect();
        assert_eq!(waits, ["0s", "10s", "20s", "40s", "1m20s", "2m40s", "5m0s", "5m0s"]);
    }

    #[test]
    fn a_run_of_ten_minutes_resets_the_delay() {
        let mut back_off = BackOff::new(Duration::from_secs(10));
        for _ in 0..5 {
            back_off.after(Duration::from_secs(599));
        }
        assert_eq!(back_off.after(Duration::from_secs(600)), Duration::ZERO);
        assert_eq!(back_off.after(Duration::ZERO), Duration::from_secs(10));
    }
}
