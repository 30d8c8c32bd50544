//! The times of a schedule.
//!
//! A pattern names times of the wall clock, and each stands for one moment: one that the clock skips for the end of the gap, one that comes
//! twice for its first pass. Only a pattern for every hour counts by the clock of the zone as it runs, so that nothing is late by an hour.
//! croner does the first for single hours and minutes alone, so it is asked in UTC, which has no gaps.

use croner::Cron;
use croner::parser::{CronParser, Seconds};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};
use quorate_model::Instant;

/// The shortest time between two backups.
const SHORTEST: SignedDuration = SignedDuration::from_mins(5);

/// How many intervals are looked at to find one that is too short: enough for every minute of an hour.
const LOOKED_AT: usize = 64;

/// Over how many milliseconds, and how many times, an average is taken: four weeks, and some days of a frequent schedule.
const AVERAGED: (i64, i64) = (28 * 24 * 3_600_000, 256);

/// The times of a schedule, in a time zone.
#[derive(Clone, Debug)]
pub(crate) struct CronTimes {
    cron: Cron,
    zone: TimeZone,
    /// Every hour is named, so there is nothing to make up for.
    is_hourly: bool,
    /// By how many milliseconds what is due begins late.
    delay: i64,
}

impl CronTimes {
    /// Reads a schedule, and looks at its times from `now` on. The error says what is wrong and what to do.
    pub(crate) fn read(schedule: &str, zone: Option<&str>, now: Instant) -> Result<Self, String> {
        let times = Self::parse(schedule, zone)?;
        // By the wall clock: what a change of the clock brings together is not the schedule's.
        let wall = Self { zone: TimeZone::UTC, ..times.clone() };
        let mut at = wall.next(now).ok_or_else(|| {
            format!("the schedule {schedule:?} has no time at all: there is no such day of the month")
        })?;
        for _ in 0..LOOKED_AT {
            let Some(next) = wall.next(at) else { break };
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
    pub(crate) fn parse(schedule: &str, zone: Option<&str>) -> Result<Self, String> {
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
        let is_hourly = (0..24).all(|hour| cron.pattern.hour_match(hour).unwrap_or(false));
        Ok(Self { cron, zone, is_hourly, delay: 0 })
    }

    /// The same times, and what is due begins so many milliseconds late.
    pub(crate) fn late_by(self, delay: i64) -> Self {
        Self { delay, ..self }
    }

    /// When it begins what is due at one of its times.
    pub(crate) fn begin_of(&self, due: Instant) -> Instant {
        Instant(due.0.saturating_add(self.delay))
    }

    /// The last of its times after `since` whose beginning has come.
    pub(crate) fn due(&self, since: Instant, now: Instant) -> Option<Instant> {
        self.last(since, Instant(now.0.saturating_sub(self.delay)))
    }

    /// When it begins next what is due after `since`.
    pub(crate) fn next_begin(&self, since: Instant, now: Instant) -> Option<Instant> {
        let after = Instant(now.0.saturating_sub(self.delay)).max(since);
        Some(self.begin_of(self.next(after)?))
    }

    /// Since when its times are due, if the one that was recorded last is this one, or else it was created then. A recorded time beyond
    /// the next one is of a clock that was ahead: it would hold up all until then.
    pub(crate) fn since(&self, recorded: Option<Instant>, created: Instant, now: Instant) -> Instant {
        match recorded {
            Some(recorded) if self.next(now).is_some_and(|next| recorded > next) => now,
            Some(recorded) => recorded,
            None => created,
        }
    }

    /// The first time after this one.
    pub(crate) fn next(&self, after: Instant) -> Option<Instant> {
        if self.is_hourly {
            let next = self.cron.find_next_occurrence(&self.zoned(after)?, false).ok()?;
            return Some(Instant(next.timestamp().as_millisecond()));
        }
        let mut wall = self.zoned(after)?.datetime();
        loop {
            wall = self.cron.find_next_occurrence(&in_utc(wall)?, false).ok()?.datetime();
            let next = self.moment(wall)?;
            if next > after {
                return Some(next);
            }
        }
    }

    /// How many milliseconds are between two of its times on average. Always of the same weeks, so that it is always the same.
    pub(crate) fn interval(&self) -> Option<i64> {
        let (long, many) = AVERAGED;
        let first = self.next(Instant(0))?;
        let (mut last, mut count) = (first, 0);
        while count < many && last.0 - first.0 < long {
            (last, count) = (self.next(last)?, count + 1);
        }
        Some((last.0 - first.0) / count)
    }

    /// The last time that is not after `now`, and after `since`.
    pub(crate) fn last(&self, since: Instant, now: Instant) -> Option<Instant> {
        if self.is_hourly {
            // croner keeps the part below a second of a time that matches, and in a second pass finds one that is later by less.
            let second = Instant(now.0.div_euclid(1000) * 1000);
            let last = self.cron.find_previous_occurrence(&self.zoned(second)?, true).ok()?;
            let last = Instant(last.timestamp().as_millisecond());
            return (last > since).then_some(last);
        }
        // In the second pass, times of the first one that the wall clock shows later are past as well.
        let mut wall = self.zoned(now)?.datetime();
        if let AmbiguousOffset::Fold { before, after } = self.zone.to_ambiguous_timestamp(wall).offset() {
            wall = wall.checked_add(before.duration_since(after)).ok()?;
        }
        let mut inclusive = true;
        loop {
            wall = self.cron.find_previous_occurrence(&in_utc(wall)?, inclusive).ok()?.datetime();
            inclusive = false;
            let last = self.moment(wall)?;
            if last <= now {
                return (last > since).then_some(last);
            }
        }
    }

    /// The moment that a time of the wall clock stands for. Later times never stand for earlier moments.
    fn moment(&self, wall: DateTime) -> Option<Instant> {
        let offset = match self.zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Fold { before, .. } => before,
            AmbiguousOffset::Gap { after, .. } => {
                let early = after.to_timestamp(wall).ok()?;
                let end = self.zone.following(early).next()?.timestamp();
                return Some(Instant(end.as_millisecond()));
            }
        };
        Some(Instant(offset.to_timestamp(wall).ok()?.as_second() * 1000))
    }

    /// The moment in the time zone.
    pub(crate) fn zoned(&self, at: Instant) -> Option<Zoned> {
        Some(Timestamp::from_millisecond(at.0).ok()?.to_zoned(self.zone.clone()))
    }
}

/// A time of the wall clock, where every one exists once.
fn in_utc(wall: DateTime) -> Option<Zoned> {
    wall.to_zoned(TimeZone::UTC).ok()
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
    fn how_often_a_schedule_comes_is_told_on_average() {
        let minutes = |schedule: &str| {
            CronTimes::parse(schedule, Some("Europe/Berlin")).unwrap().interval().unwrap() / 60_000
        };
        assert_eq!([minutes("*/5 * * * *"), minutes("@hourly"), minutes("30 2 * * *")], [5, 60, 24 * 60]);
        assert_eq!([minutes("0 2 * * 1-5"), minutes("@weekly")], [28 * 24 * 60 / 20, 7 * 24 * 60]);
        assert_eq!(minutes("@monthly"), 28 * 24 * 60, "of a February");
        assert!(minutes("0 0 29 2 *") > 365 * 24 * 60);
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
    fn o16_a_skipped_time_is_made_up_for_and_one_that_comes_twice_counts_once_in_lists_and_ranges_too() {
        let read = |schedule: &str, zone| CronTimes::parse(schedule, Some(zone)).unwrap();
        let times = read("30 2,14 * * *", "Europe/Berlin");
        assert_eq!(shown(times.next(at("2026-03-28T14:00:00Z"))).unwrap(), "2026-03-29T01:00:00Z");
        let first = times.next(at("2026-10-24T14:00:00Z")).unwrap();
        assert_eq!(shown(Some(first)).unwrap(), "2026-10-25T00:30:00Z");
        assert_eq!(shown(times.next(first)).unwrap(), "2026-10-25T13:30:00Z");
        // Every time, both ways, over the changes of the clock: by the minute, against what the words say.
        let (hour, day) = (3_600_000, 86_400_000);
        let schedules =
            ["30 2,14 * * *", "15 1-4 * * *", "*/20 2 * * *", "0 */2 * * *", "30 * * * *", "45 1,2,3 29 3 *"];
        let changes = [
            ("Europe/Berlin", "2026-03-28T20:00:00Z"),
            ("Europe/Berlin", "2026-10-24T20:00:00Z"),
            ("America/New_York", "2026-11-01T02:00:00Z"),
            ("Australia/Lord_Howe", "2026-04-04T08:00:00Z"),
            ("Australia/Lord_Howe", "2026-10-03T08:00:00Z"),
        ];
        for (zone, begin) in changes {
            let (begin, end) = (at(begin), Instant(at(begin).0 + day));
            let zone = TimeZone::get(zone).unwrap();
            let wall =
                |at: Instant| Timestamp::from_millisecond(at.0).unwrap().to_zoned(zone.clone()).datetime();
            let mut shown = vec![wall(begin)];
            // Each minute, with the times that it stands for: its own, those that are skipped before it, and none the second time.
            let mut minutes = Vec::new();
            for minute in 1..(end.0 - begin.0) / 60_000 {
                let now = Instant(begin.0 + minute * 60_000);
                let own = wall(now);
                let before = *shown.last().unwrap();
                let skipped = own.duration_since(before).as_mins() - 1;
                let mut walls: Vec<DateTime> =
                    (0..skipped).map(|gone| own - SignedDuration::from_mins(gone + 1)).collect();
                if !shown.contains(&own) {
                    walls.push(own);
                }
                shown.push(own);
                minutes.push((now, own, walls));
            }
            for schedule in schedules {
                let times = CronTimes { zone: zone.clone(), ..CronTimes::parse(schedule, None).unwrap() };
                let mut forward = Vec::new();
                let mut now = begin;
                while let Some(next) = times.next(now).filter(|next| *next < end) {
                    forward.push(next);
                    now = next;
                }
                let mut backward = Vec::new();
                let mut now = Instant(end.0 - 1);
                while let Some(last) = times.last(begin, now) {
                    backward.insert(0, last);
                    now = Instant(last.0 - 1);
                }
                let matches = |wall: &DateTime| times.cron.is_time_matching(&in_utc(*wall).unwrap()).unwrap();
                let wanted: Vec<Instant> = minutes
                    .iter()
                    .filter(
                        |(_, own, walls)| {
                            if times.is_hourly { matches(own) } else { walls.iter().any(matches) }
                        },
                    )
                    .map(|(now, ..)| *now)
                    .collect();
                assert_eq!((&forward, &backward), (&wanted, &wanted), "{schedule} {zone:?} {begin:?}");
            }
        }
        let half = at("2026-10-25T00:30:00Z");
        assert_eq!(read("30 * * * *", "Europe/Berlin").next(half), Some(Instant(half.0 + hour)));
        let close = CronTimes::read("2 1-3 * * *", Some("Europe/Berlin"), at("2026-03-28T12:00:00Z"));
        assert!(close.is_ok(), "what the clock brings together is not too often");
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
