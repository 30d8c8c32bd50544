//! Which backups of a schedule are kept: the union of the rules. The newest good one of each etcd cluster is always kept, so that the last
//! one never goes, and those of a new, empty cluster do not push out the only ones with the data that were lost. While a restore test says
//! that the newest cannot be restored, the newest from before that one is kept as well.

use std::collections::{BTreeSet, HashSet};

use jiff::Zoned;
use quorate_api::schedule::Retention;
use quorate_api::{duration, quantity};
use quorate_model::Instant;

use super::cron::CronTimes;

/// A good backup, as far as retention looks at it.
#[derive(Clone, Debug)]
pub(crate) struct GoodBackup {
    pub(crate) name: String,
    /// When it was scheduled.
    pub(crate) at: Instant,
    /// The same in the time zone of the schedule.
    pub(crate) zoned: Option<Zoned>,
    pub(crate) bytes: u64,
    /// The id of the etcd cluster that it is of.
    pub(crate) cluster_id: String,
    /// A restore uses it, or it is being tested or deleted.
    pub(crate) is_in_use: bool,
    /// The last look into the store did not find it. It is a record, and nothing can be restored from it.
    pub(crate) is_gone: bool,
    /// A restore test found that it cannot be restored, or one before it, and none has passed since.
    pub(crate) is_doubtful: bool,
}

/// The names of those that no rule keeps, the oldest first. `newest_first` is in this order.
pub(crate) fn prunable(rules: &Retention, newest_first: &[GoodBackup], now: Instant) -> Vec<String> {
    let kept = kept(rules, newest_first, now);
    let gone = newest_first.iter().filter(|good| !kept.contains(good.name.as_str()) && !good.is_in_use);
    gone.rev().map(|good| good.name.clone()).collect()
}

fn kept<'a>(rules: &Retention, newest_first: &'a [GoodBackup], now: Instant) -> BTreeSet<&'a str> {
    let Retention { keep_last, max_age, max_bytes, hourly, daily, weekly, monthly } = rules;
    let all = || newest_first.iter();
    let there = || all().filter(|good| !good.is_gone);
    let mut kept: BTreeSet<&str> = newest_of_each_cluster(there()).collect();
    kept.extend(newest_of_each_cluster(there().filter(|good| !good.is_doubtful)));
    // Also if it is gone: that is what is to be reported.
    kept.extend(all().take(1).map(|newest| newest.name.as_str()));
    if *rules == Retention::default() {
        kept.extend(all().map(|good| good.name.as_str()));
    }
    let last = keep_last.map_or(0, |count| count as usize);
    kept.extend(all().take(last).map(|good| good.name.as_str()));
    if let Some(seconds) = max_age.as_deref().and_then(duration::seconds) {
        let oldest = now.0.saturating_sub(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000));
        kept.extend(all().filter(|good| good.at.0 >= oldest).map(|good| good.name.as_str()));
    }
    if let Some(limit) = max_bytes.as_ref().and_then(quantity::bytes) {
        let mut sum = 0_u64;
        let fits = all().take_while(|good| {
            sum = sum.saturating_add(good.bytes);
            sum <= limit
        });
        kept.extend(fits.map(|good| good.name.as_str()));
    }
    kept.extend(one_each(newest_first, *hourly, |at| at.strftime("%Y-%m-%d %H %z").to_string()));
    kept.extend(one_each(newest_first, *daily, |at| at.date().to_string()));
    kept.extend(one_each(newest_first, *weekly, |at| at.strftime("%G-%V").to_string()));
    kept.extend(one_each(newest_first, *monthly, |at| at.strftime("%Y-%m").to_string()));
    kept
}

/// The time of the oldest good backup that is not older than `limit` milliseconds, counted by the schedule: between a backup and the next
/// good one, and from the newest until now, no more than one interval of the schedule counts. So a clock that jumps ahead makes nothing
/// older than one interval would, also when a backup was taken by it; and what was not backed up for a month is not a month older than
/// what came after. One sweep from the newest, which ends at the limit.
pub(crate) fn counted_since(times: &CronTimes, mut taken: Vec<Instant>, limit: i64, now: Instant) -> Instant {
    taken.sort_unstable();
    taken.dedup();
    let (mut age, mut end, mut since) = (0_i64, now, Instant(i64::MAX));
    for begin in taken.into_iter().rev() {
        let interval = times.next(begin).map_or(0, |next| next.0.saturating_sub(begin.0));
        age = age.saturating_add(end.0.saturating_sub(begin.0).clamp(0, interval.max(0)));
        if age > limit {
            break;
        }
        (since, end) = (begin, begin);
    }
    since
}

fn newest_of_each_cluster<'a>(
    newest_first: impl Iterator<Item = &'a GoodBackup>,
) -> impl Iterator<Item = &'a str> {
    let mut clusters = HashSet::new();
    let newest = newest_first.filter(move |good| clusters.insert(good.cluster_id.as_str()));
    newest.map(|good| good.name.as_str())
}

/// The newest of each of so many periods that have one.
fn one_each(newest_first: &[GoodBackup], count: Option<u32>, period: impl Fn(&Zoned) -> String) -> Vec<&str> {
    let mut seen = HashSet::new();
    let newest =
        newest_first.iter().filter(|good| good.zoned.as_ref().is_some_and(|at| seen.insert(period(at))));
    newest.take(count.unwrap_or(0) as usize).map(|good| good.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff::tz::TimeZone;
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-11-24T12:00:00Z";

    fn good(at: &str) -> GoodBackup {
        let timestamp: Timestamp = at.parse().unwrap();
        let zoned = Some(timestamp.to_zoned(TimeZone::UTC));
        GoodBackup {
            name: at.to_owned(),
            at: Instant(timestamp.as_millisecond()),
            zoned,
            bytes: 100,
            cluster_id: "new".to_owned(),
            is_in_use: false,
            is_gone: false,
            is_doubtful: false,
        }
    }

    fn kept(rules: Value, times: &[&str]) -> Vec<String> {
        let all: Vec<GoodBackup> = times.iter().map(|at| good(at)).collect();
        let now = good(NOW).at;
        let gone = prunable(&serde_json::from_value(rules).unwrap(), &all, now);
        times.iter().filter(|at| !gone.contains(&(**at).to_owned())).map(|at| (*at).to_owned()).collect()
    }

    /// Every six hours, the newest first.
    const TIMES: [&str; 8] = [
        "2026-11-24T06:00:00Z",
        "2026-11-24T00:00:00Z",
        "2026-11-23T18:00:00Z",
        "2026-11-23T12:00:00Z",
        "2026-11-22T18:00:00Z",
        "2026-11-15T00:00:00Z",
        "2026-10-31T00:00:00Z",
        "2026-09-01T00:00:00Z",
    ];

    #[test]
    fn each_rule_keeps_what_it_says_and_together_they_keep_the_union() {
        let table: [(Value, &[usize]); 11] = [
            (json!({}), &[0, 1, 2, 3, 4, 5, 6, 7]),
            (json!({"keepLast": 1}), &[0]),
            (json!({"keepLast": 3}), &[0, 1, 2]),
            (json!({"maxAge": "24h"}), &[0, 1, 2, 3]),
            (json!({"maxAge": "1s"}), &[0]),
            (json!({"maxBytes": "250"}), &[0, 1]),
            (json!({"maxBytes": "1"}), &[0]),
            (json!({"daily": 3}), &[0, 2, 4]),
            // The 23rd is a Monday.
            (json!({"weekly": 3}), &[0, 4, 5]),
            (json!({"monthly": 12}), &[0, 6, 7]),
            (json!({"keepLast": 2, "daily": 2, "monthly": 2}), &[0, 1, 2, 6]),
        ];
        for (rules, desired) in table {
            let desired: Vec<String> = desired.iter().map(|place| TIMES[*place].to_owned()).collect();
            assert_eq!(kept(rules.clone(), &TIMES), desired, "{rules}");
        }
    }

    #[test]
    fn the_last_good_one_and_what_is_in_use_are_kept_by_every_rule() {
        assert_eq!(kept(json!({"maxAge": "1s"}), &TIMES[7..]), [TIMES[7]]);
        let mut all: Vec<GoodBackup> = TIMES.iter().map(|at| good(at)).collect();
        all[3].is_in_use = true;
        let rules: Retention = serde_json::from_value(json!({"keepLast": 1})).unwrap();
        let gone = prunable(&rules, &all, good(NOW).at);
        assert_eq!(gone.len(), 6);
        assert!(!gone.contains(&TIMES[3].to_owned()));
        assert_eq!(gone[0], TIMES[7], "the oldest first");
        for lost in &mut all[5..] {
            lost.cluster_id = "lost".to_owned();
        }
        let gone = prunable(&rules, &all, good(NOW).at);
        assert!(!gone.contains(&TIMES[5].to_owned()), "the last one of a cluster that was replaced");
        assert!(gone.contains(&TIMES[6].to_owned()));
    }

    #[test]
    fn the_newest_from_before_a_restore_test_that_failed_is_kept_beside_the_newest() {
        let mut all: Vec<GoodBackup> = TIMES.iter().map(|at| good(at)).collect();
        // The second was tested, and the first came after it.
        all[0].is_doubtful = true;
        all[1].is_doubtful = true;
        for rules in [json!({"keepLast": 1}), json!({"maxAge": "1s"}), json!({"maxBytes": "1"})] {
            let rules: Retention = serde_json::from_value(rules).unwrap();
            let gone = prunable(&rules, &all, good(NOW).at);
            let kept: Vec<_> = TIMES.iter().filter(|at| !gone.contains(&(**at).to_owned())).collect();
            assert_eq!(kept, [&TIMES[0], &TIMES[2]], "{rules:?}");
        }
        let rules: Retention = serde_json::from_value(json!({"keepLast": 1})).unwrap();
        for one in &mut all {
            one.is_doubtful = true;
        }
        assert_eq!(prunable(&rules, &all, good(NOW).at).len(), 7, "none is known to be better");
    }
}
