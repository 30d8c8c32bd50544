//! The reason and message of everything that a plan waits for.

use quorate_api::{Explanation, Reason};
use quorate_model::Waiting;
use quorate_model::restore::RestoreCause;

/// The reason and message of what a plan waits for.
pub fn explain(waiting: &Waiting) -> Explanation {
    let reason = match waiting {
        Waiting::Paused => Reason::Paused,
        Waiting::ForeignObjects(_) => Reason::ForeignObjects,
        Waiting::ExistingData { .. }
        | Waiting::AdoptionRefused(..)
        | Waiting::EarlierDataGone { .. }
        | Waiting::RestoredWithoutData(_)
        | Waiting::AdoptionDiffers { .. }
        | Waiting::UnknownPods(_) => Reason::ExistingData,
        Waiting::SplitBrain(_) => Reason::SplitBrain,
        Waiting::WrongMember { .. } => Reason::MemberMismatch,
        Waiting::UnmanagedMember(..) => Reason::UnmanagedMember,
        Waiting::Objects => Reason::CertificatesMissing,
        Waiting::AuthorityLost { .. } => Reason::AuthorityLost,
        Waiting::AuthorityEnded(_) => Reason::CertificateExpired,
        Waiting::Clearing(_) => Reason::BootstrapAbandoned,
        Waiting::PodStarting(_) | Waiting::PodStopping(_) => Reason::Restarting,
        Waiting::PodStuck(..) => Reason::PodStuck,
        Waiting::VolumeLost(_) => Reason::VolumeLost,
        Waiting::Quorum { .. } => Reason::QuorumLost,
        Waiting::FirstLeader | Waiting::Restoring(..) => Reason::Bootstrapping,
        Waiting::NoSnapshot(why) | Waiting::RestoreFailed(_, why) | Waiting::OrderWaits(_, why) => {
            match why.cause {
                RestoreCause::NotReady => Reason::RestoreWaiting,
                RestoreCause::Refused => Reason::RestoreRefused,
                RestoreCause::Gone => Reason::RestoreSourceGone,
                RestoreCause::Forbidden => Reason::RestoreForbidden,
                RestoreCause::Failed => Reason::RestoreFailed,
            }
        }
        Waiting::InSync(_) | Waiting::VolumeGoing(_) => Reason::Scaling,
        Waiting::LearnersFailed { .. } => Reason::LearnersFailed,
        Waiting::Sick(..) => Reason::MemberUnhealthy,
        Waiting::LeadershipStays { .. } => Reason::LeadershipStays,
        Waiting::VersionRefused(_) => Reason::VersionRefused,
        Waiting::UpgradeBackup(_) => Reason::UpgradeBackupRunning,
        Waiting::UpgradeBackupFailed(_) => Reason::UpgradeBackupFailed,
        Waiting::FinalBackup(_) => Reason::FinalBackupRunning,
        Waiting::NoFinalBackup(_) => Reason::FinalBackupMissing,
        Waiting::SafePoint(_) => Reason::SpecPending,
        Waiting::StatusFromNewerVersion(_) => Reason::StatusFromNewerVersion,
        Waiting::Unsafe(_) => Reason::UnsafeChange,
        Waiting::MayBeLost { .. } => Reason::DataLost,
        Waiting::Undecided { .. } => Reason::DataInconsistent,
        Waiting::ClaimPending { .. } => Reason::Replacing,
        Waiting::ReplacementOff { .. } => Reason::ReplacementOff,
        Waiting::ReplacementFailed { .. } => Reason::ReplacementFailed,
        Waiting::Downgrading(_) => Reason::Downgrading,
        Waiting::Wave(_) => Reason::WaitingForWave,
        Waiting::Defragmenting(_) => Reason::Defragmenting,
        Waiting::StillFull { .. } => Reason::AlarmActive,
        Waiting::VolumeGrowing(_) => Reason::VolumeGrowing,
        Waiting::Recovering { .. } | Waiting::NotRead { .. } => Reason::RecoveringQuorum,
        Waiting::RecoveryRefused(_) => Reason::RecoveryRefused,
        Waiting::MayRun { .. } => Reason::MemberMayRun,
        Waiting::Replacing(_) => Reason::RestoringInPlace,
        Waiting::OldMemberStays { .. } => Reason::OldMemberStays,
    };
    Explanation::new(reason, waiting.to_string())
}
