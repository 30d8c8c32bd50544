//! Writes the Record to status, and reads it back unchanged.

mod incarnation;
mod quorum_recovery;
mod replacement;
mod rotation;
mod time;
pub mod witness;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use quorate_api::cluster;
use quorate_api::status::{
    AbandonedReason, AgentDelivery, AgentDeliveryStatus, AuthStatus, AuthorityStatus, BootstrapStatus,
    CertificatesStatus, ClientGraceStatus, DefragmentingStatus, EarlierStatus, EtcdClusterStatus,
    FailedLearnersStatus, LeavingReason, MemberPhase, MemberStatus, PodTarget, StorageTarget, TargetStatus,
    TurnStatus,
};
use quorate_model::adoption::Earlier;
use quorate_model::auth::{AuthStage, ClientGrace};
use quorate_model::quorum_recovery::RecoverFrom;
use quorate_model::record::{Abandoned, Defragmenting, FailedLearners, Leaving, Member, Stage, Turn};
use quorate_model::target::{Medium, Retention, Storage};
use quorate_model::{
    ClusterUid, Fingerprint, Instant, MemberName, Ordinal, Record, Revision, Target, Token, Uid,
};

pub use incarnation::write_order as ordered_by;

use crate::{bootstrap, template};
use time::{micro, timestamp};

/// The recorded facts in a status; an empty or unreadable part counts as not recorded. Members in a phase that only a newer
/// operator knows are left out.
pub fn from_status(status: &EtcdClusterStatus) -> Record {
    let bootstrap = status.bootstrap.clone().unwrap_or_default();
    let members = status
        .members
        .iter()
        .filter_map(|member| Some((MemberName::new(&*member.name), read_member(member)?)));
    Record {
        attempt: bootstrap.attempt,
        token: status.cluster_token.as_deref().map(Token::new),
        adopted_by: bootstrap.adopted_by.map(ClusterUid::new),
        taken_back: bootstrap.taken_back,
        earlier: status.earlier.as_ref().and_then(read_earlier),
        had_leader: bootstrap.had_leader,
        restore: bootstrap.restore.as_ref().map(bootstrap::read),
        cluster_id: status.cluster_id.as_deref().and_then(|id| id.parse().ok()),
        authority: status
            .certificates
            .as_ref()
            .and_then(|own| own.authority.as_deref())
            .map(Fingerprint::new),
        peer_authority: status
            .certificates
            .as_ref()
            .and_then(|own| own.peer_authority.as_deref())
            .map(Fingerprint::new),
        certificates: status
            .certificates
            .iter()
            .flat_map(|own| &own.authorities)
            .map(read_authority)
            .collect(),
        given: status.certificates.as_ref().is_some_and(|own| own.given),
        rotation: status.certificates.as_ref().and_then(|own| rotation::read(own.rotation.as_ref()?)),
        spent_rotation: status.certificates.as_ref().and_then(|own| own.last_rotation_order.clone()),
        trust: status.certificates.as_ref().map_or(0, |own| own.trust),
        auth: status.auth.as_ref().and_then(|auth| {
            [AuthStage::Preparing, AuthStage::On].into_iter().find(|stage| stage.as_str() == auth.stage)
        }),
        client_grace: status.client_grace.as_ref().map(|grace| {
            grace
                .since
                .as_ref()
                .map_or(ClientGrace::Over, |since| ClientGrace::Since(Instant(since.0.as_millisecond())))
        }),
        spent_disable_auth: status.spent_disable_auth.as_deref().and_then(|id| id.parse().ok()),
        abandoned: bootstrap.abandoned.and_then(|why| match why {
            AbandonedReason::VolumeLost => Some(Abandoned::VolumeLost),
            AbandonedReason::SpecEdited => Some(Abandoned::SpecEdited),
            AbandonedReason::VolumeEmptied => Some(Abandoned::VolumeEmptied),
            AbandonedReason::Unknown => None,
        }),
        hibernating: status.hibernating,
        stopped_at: status.stopped_at_revision.map(Revision),
        next_ordinal: Ordinal(status.next_ordinal.unwrap_or(0)),
        target: status.target.as_ref().and_then(read_target),
        failed_learners: status.failed_learners.as_ref().map(|failed| FailedLearners {
            count: failed.count,
            reason: failed.last_reason.clone(),
            at: Instant(failed.last_time.0.as_millisecond()),
        }),
        no_image_volume: status.agent_delivery.as_ref().map(|delivery| match delivery.method {
            AgentDelivery::InitContainer => delivery.reason.clone(),
        }),
        members: members.collect(),
        suspected: replacement::suspected(status),
        differ_since: status.data_differ_since.as_ref().map(|since| Instant(since.0.as_millisecond())),
        replacement: replacement::replacement(status),
        last_replacement: replacement::last(status),
        downgrading_to: status.goes_back_to.as_deref().and_then(|minor| minor.parse().ok()),
        takes_defaults: turn(status),
        defragmenting: status.defragmenting.as_ref().map(|ordered| Defragmenting {
            member: MemberName::new(&*ordered.member),
            pod: Uid::new(&*ordered.pod_uid),
            restarts: ordered.restarts,
            since: Instant(ordered.since.0.as_millisecond()),
        }),
        incarnation: status.incarnation.as_ref().and_then(incarnation::read),
        next_incarnation: status.replacing.as_ref().and_then(incarnation::read_next),
        quorum_recovery: status.quorum_recovery.as_ref().map(quorum_recovery::read),
        last_quorum_recovery: status.spent_quorum_recovery.as_deref().map(RecoverFrom::read),
    }
}

/// The cluster's turn to take new defaults of the operator, if it has it.
pub fn turn(status: &EtcdClusterStatus) -> Option<Turn> {
    let turn = status.takes_defaults.as_ref()?;
    Some(Turn { since: Instant(turn.since.0.as_millisecond()), restarted: turn.restarted })
}

/// Writes the recorded facts into a status; what else it reports of members is kept.
pub fn into_status(record: &Record, status: &mut EtcdClusterStatus) {
    let Record {
        attempt,
        token,
        adopted_by,
        taken_back,
        earlier,
        had_leader,
        cluster_id,
        authority,
        peer_authority,
        certificates,
        given,
        rotation,
        spent_rotation,
        trust,
        auth,
        client_grace,
        spent_disable_auth,
        restore,
        abandoned,
        hibernating,
        stopped_at,
        next_ordinal,
        target,
        failed_learners,
        no_image_volume,
        members,
        suspected,
        differ_since,
        replacement,
        last_replacement,
        downgrading_to,
        takes_defaults,
        defragmenting,
        incarnation,
        next_incarnation,
        quorum_recovery,
        last_quorum_recovery,
    } = record;
    let abandoned = abandoned.map(|why| match why {
        Abandoned::VolumeLost => AbandonedReason::VolumeLost,
        Abandoned::SpecEdited => AbandonedReason::SpecEdited,
        Abandoned::VolumeEmptied => AbandonedReason::VolumeEmptied,
    });
    status.bootstrap = (*attempt > 0).then(|| BootstrapStatus {
        attempt: *attempt,
        adopted_by: adopted_by.as_ref().map(ToString::to_string),
        taken_back: *taken_back,
        had_leader: *had_leader,
        restore: restore.as_ref().and_then(bootstrap::write),
        abandoned,
    });
    status.incarnation = incarnation.as_ref().map(incarnation::write);
    status.replacing = next_incarnation.as_ref().and_then(incarnation::write_next);
    status.earlier = earlier.as_ref().map(write_earlier);
    status.quorum_recovery = quorum_recovery.as_ref().map(quorum_recovery::write);
    status.spent_quorum_recovery = last_quorum_recovery.as_ref().map(ToString::to_string);
    status.cluster_token = token.as_ref().map(ToString::to_string);
    status.cluster_id = cluster_id.map(|id| id.to_string());
    let not_after = status.certificates.take().and_then(|before| before.not_after);
    let certificates = CertificatesStatus {
        authority: authority.as_ref().map(|own| own.as_str().to_owned()),
        peer_authority: peer_authority.as_ref().map(|own| own.as_str().to_owned()),
        authorities: certificates.iter().map(write_authority).collect(),
        given: *given,
        trust: *trust,
        rotation: rotation.as_ref().map(rotation::write),
        last_rotation_order: spent_rotation.clone(),
        not_after,
    };
    status.spent_disable_auth = spent_disable_auth.map(|id| id.to_string());
    status.client_grace = client_grace.map(|grace| ClientGraceStatus {
        since: match grace {
            ClientGrace::Since(since) => Some(Time(timestamp(since))),
            ClientGrace::Over => None,
        },
    });
    status.auth = auth.map(|stage| AuthStatus { stage: stage.as_str().to_owned() });
    status.certificates = Some(certificates).filter(|own| *own != CertificatesStatus::default());
    status.hibernating = *hibernating;
    status.stopped_at_revision = stopped_at.map(|revision| revision.0);
    status.next_ordinal = (next_ordinal.0 > 0).then_some(next_ordinal.0);
    status.target = target.as_ref().map(write_target);
    status.failed_learners = failed_learners.as_ref().map(|failed| FailedLearnersStatus {
        count: failed.count,
        last_reason: failed.reason.clone(),
        last_time: micro(failed.at),
        next_try: Time(timestamp(failed.next_try())),
    });
    status.agent_delivery = no_image_volume
        .clone()
        .map(|reason| AgentDeliveryStatus { method: AgentDelivery::InitContainer, reason });
    status.defragmenting = defragmenting.as_ref().map(|ordered| DefragmentingStatus {
        member: ordered.member.as_str().to_owned(),
        pod_uid: ordered.pod.to_string(),
        restarts: ordered.restarts,
        since: micro(ordered.since),
    });
    status.data_differ_since = differ_since.map(micro);
    status.target_version = target.as_ref().map(|target| target.version.to_string());
    status.goes_back_to = downgrading_to.map(|minor| minor.to_string());
    status.takes_defaults =
        takes_defaults.map(|Turn { since, restarted }| TurnStatus { since: micro(since), restarted });
    let before = std::mem::take(&mut status.members);
    status.members = members
        .iter()
        .map(|(name, member)| {
            let before = before.iter().find(|before| before.name == name.as_str());
            let suspected = suspected.get(name).map(replacement::write_suspected);
            MemberStatus { suspected, ..write_member(name, member, before) }
        })
        .collect();
    status.recovery = replacement::write(replacement.as_ref(), last_replacement.as_ref());
}

fn read_authority(own: &AuthorityStatus) -> (Fingerprint, String) {
    (Fingerprint::new(&*own.fingerprint), own.certificate.clone())
}

fn write_authority((fingerprint, certificate): (&Fingerprint, &String)) -> AuthorityStatus {
    AuthorityStatus { fingerprint: fingerprint.as_str().to_owned(), certificate: certificate.clone() }
}

fn read_earlier(status: &EarlierStatus) -> Option<Earlier> {
    Some(Earlier {
        cluster_id: status.cluster_id.parse().ok()?,
        voters: status.voters.iter().map(|name| MemberName::new(&**name)).collect(),
        had_volumes: status.had_volumes,
    })
}

fn write_earlier(earlier: &Earlier) -> EarlierStatus {
    EarlierStatus {
        cluster_id: earlier.cluster_id.to_string(),
        voters: earlier.voters.iter().map(ToString::to_string).collect(),
        had_volumes: earlier.had_volumes,
    }
}

fn read_member(status: &MemberStatus) -> Option<Member> {
    let stage = match status.phase {
        MemberPhase::Unknown => return None,
        MemberPhase::Bootstrap => Stage::Bootstrap,
        MemberPhase::Joining => Stage::Joining,
        MemberPhase::Voter => Stage::Voter,
        MemberPhase::Leaving => Stage::Leaving(match status.leaving {
            Some(LeavingReason::RolledBack) => Leaving::RolledBack,
            Some(LeavingReason::Lost) => Leaving::Lost,
            Some(LeavingReason::Stray) => Leaving::Stray,
            Some(LeavingReason::Removed) => Leaving::Removed,
            Some(LeavingReason::Replaced) => Leaving::Replaced,
            Some(LeavingReason::Unknown) => return None,
            Some(LeavingReason::Shrink) | None => Leaving::Shrink,
        }),
    };
    Some(Member {
        stage,
        id: status.id.as_deref().and_then(|id| id.parse().ok()),
        volume: status.volume_uid.as_deref().map(Uid::new),
        version: status.version.as_deref().and_then(|version| version.parse().ok()),
        since: Instant(status.phase_since.0.as_millisecond()),
    })
}

fn write_member(name: &MemberName, member: &Member, before: Option<&MemberStatus>) -> MemberStatus {
    let Member { stage, id, volume, version, since } = member;
    let (phase, leaving) = match stage {
        Stage::Bootstrap => (MemberPhase::Bootstrap, None),
        Stage::Joining => (MemberPhase::Joining, None),
        Stage::Voter => (MemberPhase::Voter, None),
        Stage::Leaving(why) => {
            let why = match why {
                Leaving::Shrink => LeavingReason::Shrink,
                Leaving::RolledBack => LeavingReason::RolledBack,
                Leaving::Lost => LeavingReason::Lost,
                Leaving::Stray => LeavingReason::Stray,
                Leaving::Removed => LeavingReason::Removed,
                Leaving::Replaced => LeavingReason::Replaced,
            };
            (MemberPhase::Leaving, Some(why))
        }
    };
    MemberStatus {
        name: name.as_str().to_owned(),
        id: id.map(|id| id.to_string()),
        phase,
        phase_since: micro(*since),
        leaving,
        volume_uid: volume.as_ref().map(ToString::to_string),
        role: before.and_then(|before| before.role),
        is_leader: before.is_some_and(|before| before.is_leader),
        healthy: before.is_some_and(|before| before.healthy),
        is_healthy: before.is_some_and(|before| before.healthy),
        is_learner: before.is_some_and(|before| before.is_learner),
        version: version.map(|version| version.to_string()),
        node_name: before.and_then(|before| before.node_name.clone()),
        served_on_node_name: before.and_then(|before| before.served_on_node_name.clone()),
        pvc_name: before.and_then(|before| before.pvc_name.clone()),
        reason: before.and_then(|before| before.reason.clone()),
        since: before.and_then(|before| before.since.clone()),
        suspected: None,
    }
}

fn read_target(status: &TargetStatus) -> Option<Target> {
    let TargetStatus { size, version, tls, auth, pod, storage } = status.clone();
    Some(Target {
        size: usize::try_from(size).ok()?,
        version: version.parse().ok()?,
        tls,
        auth,
        pod: template::read(pod.revision, pod.image_has_version, pod.template),
        storage: Storage {
            medium: match storage.medium {
                cluster::Medium::Disk => Medium::Disk,
                cluster::Medium::Memory => Medium::Memory,
            },
            class: storage.class,
            access_mode: storage.access_mode.as_str().to_owned(),
            bytes: storage.bytes,
            limit_bytes: storage.limit_bytes,
            when_deleted: read_retention(storage.when_deleted),
            when_scaled: read_retention(storage.when_scaled),
        },
    })
}

fn write_target(target: &Target) -> TargetStatus {
    let Target { size, version, pod, storage, tls, auth } = target.clone();
    TargetStatus {
        size: u32::try_from(size).unwrap_or(u32::MAX),
        version: version.to_string(),
        tls,
        auth,
        pod: PodTarget {
            revision: pod.revision.0,
            image_has_version: pod.image_has_version,
            template: pod.content,
        },
        storage: StorageTarget {
            medium: match storage.medium {
                Medium::Disk => cluster::Medium::Disk,
                Medium::Memory => cluster::Medium::Memory,
            },
            class: storage.class,
            access_mode: if storage.access_mode == "ReadWriteOncePod" {
                cluster::AccessMode::ReadWriteOncePod
            } else {
                cluster::AccessMode::ReadWriteOnce
            },
            bytes: storage.bytes,
            limit_bytes: storage.limit_bytes,
            when_deleted: write_retention(storage.when_deleted),
            when_scaled: write_retention(storage.when_scaled),
        },
    }
}

fn read_retention(retention: cluster::Retention) -> Retention {
    match retention {
        cluster::Retention::Retain => Retention::Retain,
        cluster::Retention::Delete => Retention::Delete,
    }
}

fn write_retention(retention: Retention) -> cluster::Retention {
    match retention {
        Retention::Retain => cluster::Retention::Retain,
        Retention::Delete => cluster::Retention::Delete,
    }
}
