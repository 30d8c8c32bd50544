//! The words of an edit of the spec that waits, and of versions that do not follow each other.

use quorate_model::effect::{
    Downgrading, GivenUp, HeldUp, LEARNER_DEADLINE, NoStep, PodTrouble, SafePoint, VersionRefused,
};
use quorate_model::{MemberName, Version};

use super::{auth, authority, refusal};

/// What goes on with claims that are being deleted.
const CLAIMS_GO: &str = "PersistentVolumeClaims of members are being deleted, and these members move to new ones first; where spec.recovery.enabled is false, on order";

pub(super) fn safe_point(why: &SafePoint) -> String {
    match why {
        SafePoint::Learner(member) => format!("the edit is committed once learner {member} is a voter"),
        SafePoint::LearnerMakesWay(member, why) => {
            format!("{member} makes way for the edit: {}", held_up(why))
        }
        SafePoint::LearnerGivenUp(member, why) => given_up(member, why),
        SafePoint::Unfinished { voter, runs, data } => format!(
            "{voter} runs etcd {runs}, and its data are still those of {data}. The next minor version is committed once etcd \
             has raised the cluster version, some seconds after every member runs {runs}"
        ),
        SafePoint::NoRootCertificate(why) => auth::no_root_certificate(&authority::not_signed(why)),
        SafePoint::VersionAfterClaims => {
            "another minor version waits: PersistentVolumeClaims of members are being deleted, and their data would go with the Pods".to_owned()
        }
        SafePoint::SizeZeroAfterClaims => {
            "size zero waits: PersistentVolumeClaims of members are being deleted, and their data would go with the Pods".to_owned()
        }
    }
}

fn held_up(why: &HeldUp) -> String {
    match why {
        HeldUp::NoCopy(limit) => format!("it has no copy of the leader's database after more than {limit}"),
        HeldUp::Voter(voter) => format!("it is not promoted while {voter} is not healthy"),
        HeldUp::NoProgress => {
            format!("it has not come closer to the leader for more than {LEARNER_DEADLINE}")
        }
    }
}

fn given_up(member: &MemberName, why: &GivenUp) -> String {
    let urgent = match why {
        GivenUp::VolumeGone => "its volume is gone, or is being deleted".to_owned(),
        GivenUp::NotWanted => "it is no longer desired".to_owned(),
        GivenUp::Unsafe(why) => refusal(why),
        GivenUp::LostFirst(lost) => format!("{lost} has no usable data, and it is replaced first"),
        GivenUp::DatabaseFull => "a database is full, and it is given room again first".to_owned(),
        GivenUp::VoterUnhealthy(voter) => {
            format!("{voter} has not been healthy for more than {LEARNER_DEADLINE}, so no member is promoted")
        }
        GivenUp::DataDiffer | GivenUp::NotInSync { .. } => return why.failure(member).unwrap_or_default(),
    };
    format!("{member} makes way: {urgent}")
}

/// Why learners did not get in sync, and when the next one follows.
pub(super) fn learners_failed(count: u32, reason: &str) -> String {
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times in a row") };
    format!(
        "adding a member has failed {times}: {reason}. The next attempt follows at status.failedLearners.nextTry, and at once \
         after an edit of the spec"
    )
}

/// What keeps a Pod from running.
pub(super) fn pod_trouble(why: &PodTrouble) -> String {
    match why {
        PodTrouble::Says(why) => why.clone(),
        PodTrouble::Guard(verdict, why) => format!("{verdict}: {why}"),
        PodTrouble::SnapshotNotMounted => {
            "its volumes are not mounted: another Pod, such as that of a Job, may hold the claim of destination.pvc on another node, or the \
             volume behind the claim is not there. `kubectl describe pod` has the event of the kubelet"
                .to_owned()
        }
        PodTrouble::KeepsEnding { member, why, times, delay } => {
            let why = why.as_deref().unwrap_or("it ended").trim_end_matches('.');
            format!(
                "{why}. {times} Pods of {member} have ended one after another, so the next one follows {} s after this one ended. Cure what the \
                 Pod names; to have the next one at once, delete Pod {member}",
                delay.0 / 1000
            )
        }
    }
}

/// The version to use instead of an unsound one.
const SOUND: Version = Version::new(3, 5, 32);

pub(super) fn version_refused(why: &VersionRefused) -> String {
    match why {
        VersionRefused::Unknown(version) => format!(
            "version {version} is refused: {}. Use one of these, or a newer release of the operator",
            version.why_unknown().unwrap_or_default()
        ),
        VersionRefused::Unsound(version) => format!(
            "version {version} is refused: {}. Use {SOUND} or later",
            version.why_unsound().unwrap_or_default()
        ),
        VersionRefused::NoStep { from, to, why } => {
            format!("version {to} must not follow {from}{}", no_step(*from, *to, why))
        }
        VersionRefused::Unsafe(why) => refusal(why),
    }
}

fn no_step(from: Version, to: Version, why: &NoStep) -> String {
    match why {
        NoStep::PatchFirst(floor) => format!(": upgrade to {floor} or later first"),
        NoStep::NotKnown => ": this release of the operator does not know that upgrade".to_owned(),
        NoStep::Finished => format!(
            ": the upgrade to {} is finished. To take it back, set the annotation operator.etcd.io/allow-downgrade to {to}",
            from.line()
        ),
        NoStep::TooFarBack => {
            ": etcd goes back one minor version at a time, and not below 3.5. Restore a backup, or go forward"
                .to_owned()
        }
        NoStep::TooFar => ": etcd is upgraded one minor version at a time".to_owned(),
        NoStep::Data => String::new(),
    }
}

pub(super) fn downgrading(what: &Downgrading) -> String {
    match what {
        Downgrading::Asked(to) => format!("etcd is asked to go back to {to}"),
        Downgrading::ClaimsFirst => format!("etcd is not asked to go back yet: {CLAIMS_GO}"),
        Downgrading::Lowering(to) => format!(
            "etcd lowers the version of its data to {to}, while all members still run the newer version"
        ),
        Downgrading::Cancelling(to) => format!("the downgrade to {to} is being cancelled"),
        Downgrading::CancellingForClaims(to) => {
            format!("the downgrade to {to} is being cancelled: {CLAIMS_GO}")
        }
        Downgrading::Ending(to) => {
            format!("every member runs {to}, and etcd ends the downgrade within seconds")
        }
        Downgrading::ImageStays { runs, to } => format!(
            "spec.image names its version itself: every member runs it already, and it is etcd {runs}. Name an image of etcd {to}, or set spec.version back to {runs}"
        ),
    }
}
