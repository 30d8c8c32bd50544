//! The times of a schedule.

use croner::Cron;
use croner::parser::{CronParser, Seconds};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use quorate_model::Instant;

/// The shortest time between two backups.
const SHORTEST: SignedDuration = SignedDuration::from_mins(5);

/// How many intervals are looked at to find one that is too short: enough for every minute of an hour.
const LOOKED_AT: usize = 64;

/// The times of a schedule, in a time zone.
#[derive(Clone, Debug)]
pub(super) struct CronTimes {
    cron: Cron,
    zone: TimeZone,
}

impl CronTimes {
    /// Reads a schedule, and looks at its times from `now` on. The error says what is wrong and what to do.
    pub(super) fn read(schedule: &str, zone: Option<&str>, now: Instant) -> Result<Self, String> {
        let times = Self::parse(schedule, zone)?;
        let mut at = times.next(now).ok_or_else(|| {
            format!("the schedule {schedule:?} has no time at all: there is no such day of the month")
        })?;
        for _ in 0..LOOKED_AT {
            let Some(next) = times.next(at) else { break };
            if SignedDuration::from_millis(next.0 - at.0) < SHORTEST {
                return Err(format!(
                    "the schedule {schedule:?} asks for backups more often than every five minutes"
                ));
            }
            at = next;
        }
        Ok(times)
    }

    /// Reads a schedule, and looks at none of its times.
    pub(super) fn parse(schedule: &str, zone: Option<&str>) -> Result<Self, String> {
        let name = zone.unwrap_or("UTC");
        let zone = TimeZone::get(name).map_err(|_| {
            format!(
                "the time zone {name:?} is not known: give one such as Europe/Berlin, or leave it out for UTC"
            )
        })?;
        let parser = CronParser::builder().seconds(Seconds::Disallowed).build();
        let cron = parser
            .parse(schedule)
            .map_err(|error| format!("the schedule {schedule:?} cannot be read: {error}. Five fields are needed, such as \"30 2 * * *\""))?;
        Ok(Self { cron, zone })
    }

    /// The first time after this one.
    pub(super) fn next(&self, after: Instant) -> Option<Instant> {
        let next = self.cron.find_next_occurrence(&self.zoned(after)?, false).ok()?;
        Some(Instant(next.timestamp().as_millisecond()))
    }

    /// The last time that is not after `now`, and after `since`.
    pub(super) fn last(&self, since: Instant, now: Instant) -> Option<Instant> {
        let last = self.cron.find_previous_occurrence(&self.zoned(now)?, true).ok()?;
        // croner keeps the part below a second of a time that matches.
        let last = Instant(last.timestamp().as_second() * 1000);
        (last > since).then_some(last)
    }

    /// The moment in the time zone.
    pub(super) fn zoned(&self, at: Instant) -> Option<Zoned> {
        Some(Timestamp::from_millisecond(at.0).ok()?.to_zoned(self.zone.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Instant {
        Instant(text.parse::<Timestamp>().unwrap().as_millisecond())
    }

    fn shown(at: Option<Instant>) -> Option<String> {
        at.map(|at| Timestamp::from_millisecond(at.0).unwrap().to_string())
    }

    #[test]
    fn a_schedule_that_cannot_be_read_has_no_time_or_comes_too_often_is_refused() {
        let now = at("2026-11-24T10:00:00Z");
        let refused = |schedule: &str, zone: Option<&str>| CronTimes::read(schedule, zone, now).unwrap_err();
        assert!(refused("0 0 31 2 *", None).contains("no such day"));
        assert!(refused("* * * * *", None).contains("every five minutes"));
        assert!(refused("0,3 * * * *", None).contains("every five minutes"));
        assert!(refused("58,0 * * * *", None).contains("every five minutes"));
        assert!(refused("0 0 0 * * *", None).contains("cannot be read"));
        assert!(refused("never", None).contains("cannot be read"));
        assert!(refused("@daily", Some("Mars/Olympus")).contains("time zone"));
        for good in [
            "*/5 * * * *",
            "@hourly",
            "@daily",
            "@weekly",
            "@monthly",
            "@yearly",
            "30 2 * * 1-5",
            "0 0 29 2 *",
        ] {
            assert!(CronTimes::read(good, None, now).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_time_that_the_clock_skips_is_made_up_for_and_one_that_comes_twice_counts_once() {
        let times = CronTimes::read("30 2 * * *", Some("Europe/Berlin"), at("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(shown(times.next(at("2026-03-28T12:00:00Z"))).unwrap(), "2026-03-29T01:00:00Z");
        let first = times.next(at("2026-10-24T12:00:00Z")).unwrap();
        assert_eq!(shown(Some(first)).unwrap(), "2026-10-25T00:30:00Z");
        assert_eq!(shown(times.next(first)).unwrap(), "2026-10-26T01:30:00Z");
    }

    #[test]
    fn of_the_times_that_were_missed_the_last_one_counts() {
        let times = CronTimes::read("0 * * * *", None, at("2026-11-24T10:00:00Z")).unwrap();
        let last = |since, now| shown(times.last(at(since), at(now)));
        assert_eq!(last("2026-11-24T06:00:00Z", "2026-11-24T10:20:00Z").unwrap(), "2026-11-24T10:00:00Z");
        assert_eq!(last("2026-11-24T06:00:00Z", "2026-11-24T10:00:00.250Z").unwrap(), "2026-11-24T10:00:00Z");
        assert_eq!(last("2026-11-24T10:00:00Z", "2026-11-24T10:20:00Z"), None);
    }
}
