//! The gate: the one place that refuses a deletion of an EtcdBackup by its schedule, and a removal of an object from a store. What is
//! due proposes; the gate looks at the facts again, at the moment of the act, and each of its lines is needed by a test
//! (`tests/gate.rs`).
//!
//! - [`may_prune`]: an EtcdBackup that no rule keeps, or that failed
//! - [`keeper`]: the backup that must stay for that, which the caller reads from the API server
//! - [`may_remove`]: the object of an EtcdBackup that is being deleted

use std::collections::{BTreeSet, HashMap};

use kube_core::ResourceExt as _;
use quorate_api::backup::{BackupPhase, DeletionPolicy, EtcdBackupSpec, EtcdBackupStatus};
use quorate_api::schedule::EtcdBackupScheduleStatus;
use quorate_api::{EtcdBackup, EtcdBackupSchedule, duration};
use quorate_model::{ClockDifference, Instant};

use crate::backup::User;
use crate::schedule::{
    CronTimes, cluster_id, counted_since, is_doubtful, is_fresh, is_gone_for_sure, is_good,
    is_not_older_data, is_of, is_to_come, phase, scheduled,
};

#[cfg(feature = "mutants")]
pub mod mutants;

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// Why a deletion is refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Unsafe {
            $($(#[$doc])* $name,)+
        }

        impl Unsafe {
            /// The names of all.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

refusals! {
    /// This incarnation of the schedule did not create it.
    NotOfSchedule,
    /// The schedule is suspended.
    Resting,
    /// A backup that is under way, or that this operator cannot judge.
    NotEnded,
    /// A restore or a restore test needs it.
    InUse,
    /// It is the last good one of its etcd cluster, as far as is known.
    LastGood,
    /// The one that stays is not known to be in the store, as the API server has it.
    KeeperNotThere,
    /// Nobody has seen the object of the one that stays lately.
    KeeperNotSeen,
    /// R23: the operator's clock is not that of the API server.
    ClockDiffers,
    /// It is younger than `maxAge`, counted in intervals of the schedule or since it was created: a clock that jumped has made it look old.
    CountedYounger,
    /// Nobody deleted the EtcdBackup.
    NotDeleted,
    /// Its object is to stay.
    Retained,
    /// It has written nothing, so the object of its key would not be its own.
    NotBegun,
    /// A Pod may still write the object.
    StillWritten,
    /// A restore needs the object.
    StillNeeded,
}

type Judged = Result<(), Unsafe>;

/// Every check ends here, so that a test can turn any one of them off and show what it is for.
fn forbid(why: Unsafe) -> Judged {
    #[cfg(feature = "mutants")]
    if mutants::is_off(why) {
        return Ok(());
    }
    Err(why)
}

/// What the deletion of an EtcdBackup by its schedule is judged against.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The schedule.
    pub schedule: &'a EtcdBackupSchedule,
    /// Its status as it is written before the deletion.
    pub status: &'a EtcdBackupScheduleStatus,
    /// The EtcdBackups that it created.
    pub backups: &'a [&'a EtcdBackup],
    /// The names of those that a restore needs.
    pub used: &'a BTreeSet<String>,
    /// How far the clock is from the API server's, if it is too far.
    pub clock: Option<ClockDifference>,
    /// The time.
    pub now: Instant,
}

/// The good backup of each etcd cluster that must stay, and its time.
type BestOf<'a> = HashMap<&'a str, (Instant, &'a EtcdBackup)>;

/// What the judgements of one scene have in common. A schedule may have thousands of backups, so it is found once for all of them.
#[derive(Debug)]
pub struct Judge<'a> {
    scene: Scene<'a>,
    /// The names of those that a restore needs now, if that was looked at since.
    used: Option<BTreeSet<String>>,
    /// The good backup of each etcd cluster that must stay, at the present place of the schedule: one without a doubt if there is one, and the
    /// newest of those.
    best: BestOf<'a>,
    /// The same for each other place that a backup has. There are few: of before an edit of the template, and of who may create EtcdBackups.
    elsewhere: Vec<(&'a EtcdBackupSpec, BestOf<'a>)>,
    /// What was taken since then is younger than `maxAge`. `None`: everything is.
    young_since: Option<Instant>,
}

/// Whether a schedule may delete an EtcdBackup. `stays` is its [`keeper`] as the API server has it.
pub fn may_prune(scene: &Scene<'_>, backup: &EtcdBackup, stays: Option<&EtcdBackup>) -> Judged {
    Judge::of(*scene).may_prune(backup, stays)
}

/// Whether two backups are of one etcd, in one store, and readable by the same people. Who may create EtcdBackups may give one the name, the
/// annotations and the source of a schedule, and a bucket or recipients of his own: only where the schedule itself writes now, or where the
/// one that goes is, is another one that can stay for it.
pub(crate) fn is_at_one_place(one: &EtcdBackupSpec, other: &EtcdBackupSpec) -> bool {
    one.source == other.source
        && one.destination.is_same_place(&other.destination)
        && one.encryption == other.encryption
}

/// The good backup of the same etcd cluster that must stay if this one goes: the newest that is not known to be gone from the store, that no
/// restore test doubts, which is newer than this one, by its time and by its data, unless this one is doubtful itself. `None`: this one is
/// the last.
pub fn keeper<'a>(scene: &Scene<'a>, backup: &EtcdBackup) -> Option<&'a EtcdBackup> {
    Judge::of(*scene).keeper(backup)
}

impl<'a> Judge<'a> {
    /// Looks at all backups once.
    pub fn of(scene: Scene<'a>) -> Self {
        let mut best: BestOf<'_> = HashMap::new();
        let mut elsewhere: Vec<(&EtcdBackupSpec, BestOf<'_>)> = Vec::new();
        let rank = |at: Instant, one: &EtcdBackup| (!is_doubtful(scene.status, one, at), at);
        let present = &scene.schedule.spec.backup_template.spec;
        for one in scene.backups.iter().copied() {
            let Some(at) = scheduled(one).filter(|at| !is_to_come(*at, scene.now)) else { continue };
            if phase(one) != BackupPhase::Complete || !is_good(one) || !is_of(one, scene.schedule) {
                continue;
            }
            let of_place = if is_at_one_place(&one.spec, present) {
                &mut best
            } else if let Some(known) =
                elsewhere.iter().position(|(spec, _)| is_at_one_place(&one.spec, spec))
            {
                &mut elsewhere[known].1
            } else {
                elsewhere.push((&one.spec, HashMap::new()));
                let Some((_, of_place)) = elsewhere.last_mut() else { continue };
                of_place
            };
            let known = of_place.entry(cluster_id(one)).or_insert((at, one));
            if rank(at, one) > rank(known.0, known.1) {
                *known = (at, one);
            }
        }
        Self { scene, used: None, best, elsewhere, young_since: young_since(&scene) }
    }

    /// How far the clock is from the API server's now, and which backups a restore needs now. Both are looked at before each deletion.
    pub fn see(&mut self, clock: Option<ClockDifference>, used: BTreeSet<String>) {
        self.scene.clock = clock;
        self.used = Some(used);
    }

    /// As [`keeper`].
    pub fn keeper(&self, backup: &EtcdBackup) -> Option<&'a EtcdBackup> {
        let own = scheduled(backup)?;
        let own_is_doubtful = is_doubtful(self.scene.status, backup, own);
        let stays = |(at, best): &(Instant, &'a EtcdBackup)| {
            let doubtful = is_doubtful(self.scene.status, best, *at);
            // Of two that are equally sure, the newer one: without the last condition each would keep the other out.
            let stays = best.metadata.uid != backup.metadata.uid
                && (!doubtful || own_is_doubtful)
                && (*at > own || (own_is_doubtful && !doubtful))
                && (own_is_doubtful || is_not_older_data(best, backup));
            stays.then_some(*best)
        };
        let mut elsewhere = self.elsewhere.iter();
        let own_place = elsewhere.find(|(spec, _)| is_at_one_place(&backup.spec, spec)).map(|(_, best)| best);
        let places = [Some(&self.best), own_place].into_iter().flatten();
        places.filter_map(|best| best.get(cluster_id(backup))).find_map(stays)
    }

    /// As [`may_prune`].
    pub fn may_prune(&self, backup: &EtcdBackup, stays: Option<&EtcdBackup>) -> Judged {
        let known = self.keeper(backup);
        let is_counted_younger =
            self.young_since.is_none_or(|since| scheduled(backup).is_none_or(|at| at >= since));
        let is_younger = is_counted_younger || was_created_later(&self.scene, backup);
        let scene = Scene { used: self.used.as_ref().unwrap_or(self.scene.used), ..self.scene };
        judge(&scene, backup, stays, known, is_younger)
    }
}

fn judge(
    scene: &Scene<'_>,
    backup: &EtcdBackup,
    stays: Option<&EtcdBackup>,
    known: Option<&EtcdBackup>,
    is_younger: bool,
) -> Judged {
    if !is_of(backup, scene.schedule) {
        forbid(Unsafe::NotOfSchedule)?;
    }
    if scene.schedule.spec.suspend {
        forbid(Unsafe::Resting)?;
    }
    let tested = [
        &scene.schedule.status.as_ref().and_then(|status| status.test.as_ref()),
        &scene.status.test.as_ref(),
    ];
    let name = backup.name_any();
    if scene.used.contains(&name) || tested.iter().any(|test| test.is_some_and(|test| test.backup == name)) {
        forbid(Unsafe::InUse)?;
    }
    match phase(backup) {
        // Its object is not there: nothing can be restored from it, and nothing has to stay for it.
        BackupPhase::Complete if is_gone_for_sure(backup, scene.now) => may_prune_by_time(scene, is_younger),
        BackupPhase::Complete => may_prune_good(scene, stays, known, is_younger),
        // It has no data that anything could be restored from.
        BackupPhase::Failed if !has_result(backup) => Ok(()),
        BackupPhase::Failed | BackupPhase::Pending | BackupPhase::Running | BackupPhase::Deleting => {
            forbid(Unsafe::NotEnded)
        }
    }
}

fn may_prune_good(
    scene: &Scene<'_>,
    stays: Option<&EtcdBackup>,
    known: Option<&EtcdBackup>,
    is_younger: bool,
) -> Judged {
    if known.is_none() {
        forbid(Unsafe::LastGood)?;
    }
    let is_there = stays.is_some_and(|stays| {
        is_good(stays) && known.is_some_and(|known| known.metadata.uid == stays.metadata.uid)
    });
    if known.is_some() && !is_there {
        forbid(Unsafe::KeeperNotThere)?;
    }
    may_prune_by_time(scene, is_younger)?;
    // The last one: it is what a look into the store can change.
    if is_there && !stays.is_some_and(|stays| is_fresh(stays, scene.now)) {
        forbid(Unsafe::KeeperNotSeen)?;
    }
    Ok(())
}

fn may_prune_by_time(scene: &Scene<'_>, is_younger: bool) -> Judged {
    if scene.clock.is_some() {
        forbid(Unsafe::ClockDiffers)?;
    }
    if is_younger {
        forbid(Unsafe::CountedYounger)?;
    }
    Ok(())
}

fn has_result(backup: &EtcdBackup) -> bool {
    backup.status.as_ref().is_some_and(|status| status.result.is_some())
}

/// Since when a backup counts as younger than `maxAge`. Without the times of the schedule nothing can be counted.
fn young_since(scene: &Scene<'_>) -> Option<Instant> {
    let spec = &scene.schedule.spec;
    let Some(limit) = max_age(scene) else { return Some(Instant(i64::MAX)) };
    let times = CronTimes::parse(&spec.schedule, spec.time_zone.as_deref()).ok()?;
    let good = scene.backups.iter().filter(|one| phase(one) == BackupPhase::Complete && is_good(one));
    Some(counted_since(&times, good.filter_map(|one| scheduled(one)).collect(), limit, scene.now))
}

/// Whether a backup was created long after its time, and less than `maxAge` ago by the API server's clock: its data are younger than its time,
/// which a clock that was set back has chosen, or an operator that was away. One that was created in the future is judged by its time alone.
fn was_created_later(scene: &Scene<'_>, backup: &EtcdBackup) -> bool {
    let created = backup.metadata.creation_timestamp.as_ref().map(|created| created.0.as_millisecond());
    let (Some(created), Some(due), Some(limit)) = (created, scheduled(backup), max_age(scene)) else {
        return false;
    };
    let is_late = is_to_come(Instant(created), due);
    is_late && !is_to_come(Instant(created), scene.now) && scene.now.0.saturating_sub(created) < limit
}

/// `maxAge` in milliseconds.
fn max_age(scene: &Scene<'_>) -> Option<i64> {
    let rules = scene.schedule.spec.retention.as_ref()?;
    let seconds = duration::seconds(rules.max_age.as_deref()?)?;
    Some(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000))
}

/// What the removal of an object from a store is judged against.
#[derive(Clone, Copy, Debug)]
pub struct Removal<'a> {
    /// The EtcdBackup whose object it is.
    pub backup: &'a EtcdBackup,
    /// Its status.
    pub status: &'a EtcdBackupStatus,
    /// How many Pods of its Jobs have not ended.
    pub running_pods: usize,
    /// Who still restores from the object.
    pub used_by: Option<&'a User>,
}

/// Whether the object of an EtcdBackup may be removed from the store. That the object has the uid of this EtcdBackup is looked at in the
/// store, by the Job.
pub fn may_remove(removal: &Removal<'_>) -> Judged {
    let Removal { backup, status, running_pods, used_by } = removal;
    if backup.metadata.deletion_timestamp.is_none() {
        forbid(Unsafe::NotDeleted)?;
    }
    // What stands for an object that another EtcdBackup wrote removes none, also where an older definition admitted the policy.
    if backup.spec.deletion_policy != DeletionPolicy::Delete || backup.spec.existing.is_some() {
        forbid(Unsafe::Retained)?;
    }
    if !status.may_have_written() {
        forbid(Unsafe::NotBegun)?;
    }
    // What has been removed once may be half gone: it is removed whoever still waits for it.
    if status.removals <= 1 && *running_pods > 0 {
        forbid(Unsafe::StillWritten)?;
    }
    if status.removals <= 1 && used_by.is_some() {
        forbid(Unsafe::StillNeeded)?;
    }
    Ok(())
}
