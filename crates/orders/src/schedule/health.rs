//! What the schedules of a cluster say about its backups: the condition `BackupHealthy` of the EtcdCluster. A pure function of the
//! schedules and the time. The same state gives the same words, so that status is written only when something has changed.

use kube_core::ResourceExt as _;
use quorate_api::schedule::ScheduleCondition;
use quorate_api::{EtcdBackupSchedule, Explanation, Reason, conditions, duration};
use quorate_model::{Instant, Span};
use quorate_status::BackupHealth;

use super::cron::CronTimes;
use super::decide::{at, delay};

/// How long a backup may wait before its first attempt, for another backup of the cluster. Its own deadline counts from there.
const BEGIN: Span = Span::seconds(600);

/// The same while it waits for its place in the bound over all clusters: nobody has to look at it before that has lasted.
const PLACE: Span = Span::seconds(6 * 3600);

/// How many schedules a message names.
const NAMED: usize = 3;

/// What one schedule says.
enum Verdict {
    /// The last backup is good, and no later one should be there by now.
    Good,
    /// Something that a person should look at.
    Bad(Explanation),
    /// It is suspended.
    Rests,
    /// No backup was due yet.
    Early,
}

/// What the schedules say that name the cluster; `None` if none does.
pub fn health<'a>(
    cluster: &str,
    schedules: impl Iterator<Item = &'a EtcdBackupSchedule>,
    now: Instant,
) -> Option<BackupHealth> {
    let of_cluster = |schedule: &&EtcdBackupSchedule| {
        schedule.spec.backup_template.spec.source.cluster.as_deref() == Some(cluster)
            && schedule.metadata.deletion_timestamp.is_none()
    };
    let mut schedules: Vec<_> = schedules.filter(of_cluster).collect();
    schedules.sort_by_key(|schedule| schedule.name_any());
    let verdicts: Vec<_> =
        schedules.iter().map(|schedule| (schedule.name_any(), judge(schedule, now))).collect();
    let named = |wanted: fn(&Verdict) -> bool| -> Vec<&str> {
        let wanted = verdicts.iter().filter(|(_, verdict)| wanted(verdict));
        wanted.map(|(name, _)| name.as_str()).collect()
    };
    let bad: Vec<&Explanation> = verdicts.iter().filter_map(|(_, verdict)| verdict.trouble()).collect();
    let good = named(|verdict| matches!(verdict, Verdict::Good));
    let early = named(|verdict| matches!(verdict, Verdict::Early));
    let resting = named(|verdict| matches!(verdict, Verdict::Rests));
    let suspended =
        if resting.is_empty() { String::new() } else { format!(". {} is suspended", list(&resting)) };
    let (healthy, why) = if let Some(first) = bad.first() {
        let texts: Vec<&str> = bad.iter().take(NAMED).map(|why| why.message()).collect();
        (Some(false), Explanation::new(first.reason(), texts.join(". ")))
    } else if let Some(frequent) = most_frequent(&schedules).filter(|frequent| frequent.spec.suspend) {
        let text = format!(
            "EtcdBackupSchedule {} is suspended, and all others of the cluster take backups less often. Set spec.suspend to false, or delete it",
            frequent.name_any()
        );
        (Some(false), Explanation::new(Reason::Suspended, text))
    } else if !good.is_empty() {
        let text = format!("the last backup of {} is in the store{suspended}", list(&good));
        (Some(true), Explanation::new(Reason::BackupsHealthy, text))
    } else if !early.is_empty() {
        let text = format!("no backup of {} was due yet{suspended}", list(&early));
        (None, Explanation::new(Reason::NoBackupYet, text))
    } else if !resting.is_empty() {
        let text = format!(
            "no backup is taken: {} is suspended. Set spec.suspend to false, or delete it",
            list(&resting)
        );
        (Some(false), Explanation::new(Reason::Suspended, text))
    } else {
        return None;
    };
    Some(BackupHealth { healthy, why })
}

/// The schedule that takes backups clearly more often than those do that rest, or that do not, if there are both: a suspended one that is not
/// the most frequent is missed by nobody.
fn most_frequent<'a>(schedules: &[&'a EtcdBackupSchedule]) -> Option<&'a EtcdBackupSchedule> {
    let (rests, runs): (Vec<_>, Vec<_>) =
        schedules.iter().copied().partition(|schedule| schedule.spec.suspend);
    if rests.is_empty() || runs.is_empty() {
        return None;
    }
    let shortest = |of: &[&'a EtcdBackupSchedule]| {
        let intervals = of.iter().filter_map(|schedule| {
            let times = CronTimes::parse(&schedule.spec.schedule, schedule.spec.time_zone.as_deref()).ok()?;
            Some((times.interval()?, *schedule))
        });
        intervals.min_by_key(|(interval, _)| *interval)
    };
    let ((of_rests, rests), (of_runs, runs)) = (shortest(&rests)?, shortest(&runs)?);
    // Months differ in length: a fifth is no difference.
    Some(if of_rests * 5 < of_runs * 4 { rests } else { runs })
}

fn judge(schedule: &EtcdBackupSchedule, now: Instant) -> Verdict {
    if schedule.spec.suspend {
        return Verdict::Rests;
    }
    let name = schedule.name_any();
    let bad = |reason, text: &str| {
        Verdict::Bad(Explanation::new(reason, format!("EtcdBackupSchedule {name}: {text}")))
    };
    if let Some((reason, message)) = fails(schedule, ScheduleCondition::Ready) {
        // A reason of a newer operator is known to that one.
        return bad(Reason::named(reason).unwrap_or(Reason::BackupFailing), message);
    }
    if let Some(text) = overdue(schedule, now) {
        return bad(Reason::BackupOverdue, &text);
    }
    let tested = schedule.spec.verify.as_ref().and_then(|_| fails(schedule, ScheduleCondition::Verified));
    if let Some((_, message)) = tested {
        return bad(Reason::RestoreTestFailed, message);
    }
    let succeeded = schedule.status.as_ref().is_some_and(|status| status.last_success.is_some());
    if succeeded { Verdict::Good } else { Verdict::Early }
}

/// The reason and the message of a condition that is False. One of another spec than the present one says nothing about it: that
/// it was suspended, or could not be read.
fn fails(schedule: &EtcdBackupSchedule, wanted: ScheduleCondition) -> Option<(&str, &str)> {
    let condition = conditions::find_false(&schedule.status.as_ref()?.conditions, wanted.as_str())?;
    let is_current = condition.observed_generation == schedule.metadata.generation;
    (is_current || condition.reason != Reason::Suspended.as_str())
        .then_some((&*condition.reason, &*condition.message))
}

/// Whether the backup that is under way waits for its place over all clusters, or has waited for it.
fn waits_for_place(schedule: &EtcdBackupSchedule) -> bool {
    let all = schedule.status.iter().flat_map(|status| &status.conditions);
    let ready = conditions::find(all, ScheduleCondition::Ready.as_str());
    ready.is_some_and(|ready| ready.reason == Reason::BackupLimitReached.as_str())
}

/// What is missing, if a time of the schedule is past for longer than its backup may take, and no backup was complete since.
fn overdue(schedule: &EtcdBackupSchedule, now: Instant) -> Option<String> {
    let spec = &schedule.spec;
    // One that cannot be read is reported by its own condition.
    let times = CronTimes::parse(&spec.schedule, spec.time_zone.as_deref()).ok()?.late_by(delay(schedule));
    let deadline = Span(duration::seconds(&spec.backup_template.spec.deadline)?.saturating_mul(1000));
    let begin = if waits_for_place(schedule) { PLACE } else { BEGIN };
    let by = Instant(now.0.saturating_sub_unsigned(deadline.0.saturating_add(begin.0)));
    let created = at(schedule.metadata.creation_timestamp.as_ref()?);
    let due = times.due(created, by)?;
    let status = schedule.status.as_ref();
    let success = status.and_then(|status| status.last_success.as_ref());
    if success.is_some_and(|success| at(success) >= due) {
        return None;
    }
    let since = success.map_or_else(
        || "no backup is in the store yet, and one should be by now".to_owned(),
        |success| {
            format!("the last good backup is of {}, and a later one should be in the store by now", success.0)
        },
    );
    let active = status.map(|status| status.active.as_slice()).unwrap_or_default();
    Some(match active.first() {
        Some(backup) => {
            format!("{since}. EtcdBackup {backup} is not complete: kubectl describe etcdbackup {backup}")
        }
        None => format!("{since}. kubectl describe etcdbackupschedule {} shows why", schedule.name_any()),
    })
}

fn list(names: &[&str]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let named = names[..names.len() - more].join(", ");
    if more > 0 {
        format!("EtcdBackupSchedule {named} and {more} more")
    } else {
        format!("EtcdBackupSchedule {named}")
    }
}

impl Verdict {
    fn trouble(&self) -> Option<&Explanation> {
        match self {
            Self::Bad(why) => Some(why),
            Self::Good | Self::Rests | Self::Early => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn instant(text: &str) -> Instant {
        Instant(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    /// A daily schedule at midnight of a cluster, created on the first of November.
    #[expect(clippy::needless_pass_by_value, reason = "a literal of the test")]
    fn schedule(name: &str, spec: Value, status: Value) -> EtcdBackupSchedule {
        let mut object = json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackupSchedule",
            "metadata": {"name": name, "namespace": "default", "uid": "u", "generation": 2,
                "creationTimestamp": "2026-11-01T12:00:00Z"},
            "spec": {
                "schedule": "0 0 * * *",
                "backupTemplate": {"spec": {"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "bucket"}}}},
            },
            "status": status,
        });
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
            "observedGeneration": 2, "lastTransitionTime": "2026-11-01T12:00:00Z"})
    }

    fn succeeded(at: &str) -> Value {
        json!({"lastSuccess": at, "conditions": [condition("Ready", "True", "BackupsHealthy", "the last backup is in the store")]})
    }

    fn says(schedules: &[EtcdBackupSchedule], now: &str) -> (Option<bool>, &'static str, String) {
        let BackupHealth { healthy, why } = health("demo", schedules.iter(), instant(now)).unwrap();
        (healthy, why.reason().as_str(), why.message().to_owned())
    }

    const NOON: &str = "2026-11-10T12:00:00Z";

    #[test]
    fn a_cluster_that_no_schedule_names_has_no_such_condition() {
        assert_eq!(health("demo", [].into_iter(), instant(NOON)), None);
        let other = schedule("nightly", json!({}), succeeded("2026-11-10T00:01:00Z"));
        assert_eq!(health("other", [&other].into_iter(), instant(NOON)), None);
        let mut going = other;
        going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
        assert_eq!(health("demo", [&going].into_iter(), instant(NOON)), None);
    }

    #[test]
    fn a_backup_is_overdue_when_its_time_is_past_for_longer_than_it_may_take() {
        let daily = |success: &str| [schedule("nightly", json!({}), succeeded(success))];
        let good = says(&daily("2026-11-10T00:01:00Z"), NOON);
        assert_eq!(
            good,
            (
                Some(true),
                "BackupsHealthy",
                "the last backup of EtcdBackupSchedule nightly is in the store".to_owned()
            )
        );
        // An hour is the deadline of its backups, and ten minutes may be spent in the queue.
        assert_eq!(says(&daily("2026-11-09T00:01:00Z"), "2026-11-10T01:09:59Z").0, Some(true));
        let late = says(&daily("2026-11-09T00:01:00Z"), "2026-11-10T01:10:00Z");
        assert_eq!((late.0, late.1), (Some(false), "BackupOverdue"));
        assert!(
            late.2.starts_with("EtcdBackupSchedule nightly: the last good backup is of 2026-11-09T00:01:00Z"),
            "{}",
            late.2
        );
        assert_eq!(late, says(&daily("2026-11-09T00:01:00Z"), NOON), "the words do not change with the time");
        let mut patient = daily("2026-11-09T00:01:00Z");
        patient[0].spec.backup_template.spec.deadline = "12h".to_owned();
        assert_eq!(says(&patient, NOON).0, Some(true));
    }

    #[test]
    fn a_new_schedule_is_neither_good_nor_bad_until_its_first_backup_is_due() {
        let new = [schedule("nightly", json!({}), json!({}))];
        assert_eq!(says(&new, "2026-11-02T00:30:00Z").0, None);
        let (healthy, reason, text) = says(&new, "2026-11-02T02:00:00Z");
        assert_eq!((healthy, reason), (Some(false), "BackupOverdue"));
        assert!(text.contains("no backup is in the store yet"), "{text}");
        let mut waits = new;
        waits[0].status = serde_json::from_value(json!({"active": ["nightly-1"]})).unwrap();
        assert!(says(&waits, "2026-11-02T02:00:00Z").2.contains("EtcdBackup nightly-1 is not complete"));
    }

    #[test]
    fn what_a_schedule_reports_about_itself_is_reported_with_its_name() {
        let failing =
            condition("Ready", "False", "BackupFailing", "2 backups failed since the last good one");
        let failing = schedule(
            "nightly",
            json!({}),
            json!({"lastSuccess": "2026-11-10T00:01:00Z", "conditions": [failing]}),
        );
        let told = says(std::slice::from_ref(&failing), NOON);
        let text = "EtcdBackupSchedule nightly: 2 backups failed since the last good one";
        assert_eq!(told, (Some(false), "BackupFailing", text.to_owned()));

        let verified = condition(
            "Verified",
            "False",
            "ChecksumMismatch",
            "EtcdBackup x failed its restore test: it is damaged",
        );
        let status = json!({"lastSuccess": "2026-11-10T00:01:00Z", "conditions": [verified]});
        let tested = schedule("tested", json!({"verify": {"schedule": "@weekly"}}), status.clone());
        let told = says(std::slice::from_ref(&tested), NOON);
        assert_eq!((told.0, told.1), (Some(false), "RestoreTestFailed"));
        assert!(told.2.starts_with("EtcdBackupSchedule tested: EtcdBackup x failed"), "{}", told.2);
        assert_eq!(
            says(&[schedule("tested", json!({}), status)], NOON).0,
            Some(true),
            "no tests are asked for any more"
        );

        let both = says(&[tested, failing], NOON);
        assert_eq!(both.1, "BackupFailing", "by the order of their names");
        assert!(
            both.2.contains("EtcdBackupSchedule nightly") && both.2.contains("EtcdBackupSchedule tested"),
            "{}",
            both.2
        );
    }

    #[test]
    fn a_suspended_schedule_counts_only_where_there_is_no_other() {
        let suspended = condition("Ready", "False", "Suspended", "spec.suspend is true");
        let rests = schedule("old", json!({"suspend": true}), json!({"conditions": [suspended.clone()]}));
        let (healthy, reason, text) = says(std::slice::from_ref(&rests), NOON);
        assert_eq!((healthy, reason), (Some(false), "Suspended"));
        assert!(text.contains("EtcdBackupSchedule old"), "{text}");
        let good = schedule("nightly", json!({}), succeeded("2026-11-10T00:01:00Z"));
        assert_eq!(says(&[rests.clone(), good], NOON).0, Some(true));
        // One that takes backups more often than what is left is missed.
        let often = json!({"suspend": true, "schedule": "0 * * * *"});
        let often = schedule("often", often, json!({"conditions": [suspended.clone()]}));
        let daily = schedule("nightly", json!({}), succeeded("2026-11-10T00:01:00Z"));
        let (healthy, reason, text) = says(&[often.clone(), daily.clone()], NOON);
        assert_eq!((healthy, reason), (Some(false), "Suspended"));
        assert!(text.starts_with("EtcdBackupSchedule often is suspended, and all others"), "{text}");
        let hourly = schedule("hourly", json!({"schedule": "30 * * * *"}), succeeded("2026-11-10T11:31:00Z"));
        let (healthy, _, text) = says(&[often, daily, hourly], NOON);
        assert_eq!(healthy, Some(true));
        assert!(text.ends_with("is in the store. EtcdBackupSchedule often is suspended"), "{text}");
        // Its status is not written yet for the spec that lets it go on.
        let mut resumed = schedule(
            "old",
            json!({}),
            json!({"lastSuccess": "2026-11-10T00:01:00Z", "conditions": [suspended]}),
        );
        resumed.metadata.generation = Some(3);
        assert_eq!(says(&[resumed], NOON).0, Some(true));
    }
}
