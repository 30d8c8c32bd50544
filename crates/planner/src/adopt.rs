//! Volumes of an earlier cluster of this name, or a status that says that there were some. No cluster is bootstrapped beside them, and they are not changed, until a
//! person decides: delete them, or adopt their data with the annotation (BX). Adopted members start as `existing`, never as
//! `new`.

use std::collections::BTreeSet;

use quorate_model::adoption::Earlier;
use quorate_model::effect::{EarlierData, FixedField, Foreign};
use quorate_model::record::{Member, Stage};
use quorate_model::snapshot::Volume;
use quorate_model::target::Medium;
use quorate_model::{ClusterId, KubeEffect, MemberName, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON};
use crate::safety;

/// Adopts the volumes that are chosen, or waits for a person to decide.
pub(crate) fn existing_data(draft: &mut Draft<'_>) -> Flow {
    if draft.record.attempt > 0 {
        return ON;
    }
    if draft.seen.volumes.is_empty() {
        return earlier_data(draft);
    }
    let volumes = chosen(draft).map(|id| (id, volumes_of(draft, id)));
    let fit = volumes.filter(|(_, volumes)| !volumes.is_empty());
    let Some((id, volumes)) = fit else {
        keep_names(draft);
        let found: BTreeSet<ClusterId> =
            draft.seen.volumes.values().filter_map(|volume| volume.cluster_id).collect();
        let unmatched = chosen(draft);
        let quarantined = draft.seen.volumes.iter().filter(|(_, volume)| volume.quarantine.is_some());
        draft.wait(Waiting::EarlierData(EarlierData::Volumes {
            found: found.into_iter().collect(),
            volumes: draft.seen.volumes.keys().cloned().collect(),
            quarantined: quarantined.map(|(name, _)| name.clone()).collect(),
            unmatched,
        }));
        let pods = safety::foreign_pods(draft.seen);
        if !pods.is_empty() {
            draft.wait(Waiting::ForeignObjects(pods.into_iter().map(Foreign::Object).collect()));
        }
        return DONE;
    };
    let refused = contradiction(draft, id).or_else(|| {
        let why = safety::may_adopt(draft.seen, id, &volumes).err()?;
        Some(EarlierData::NotAdopted(id, why))
    });
    if let Some(why) = refused {
        keep_names(draft);
        draft.wait(Waiting::EarlierData(why));
        return DONE;
    }
    adopt(draft, id);
    ON
}

/// A new cluster must not use these names again, whatever the person decides.
fn keep_names(draft: &mut Draft<'_>) {
    let next = draft.next_ordinal();
    draft.write_record(Step::BX, |record| {
        record.next_ordinal = next;
        if let Some(earlier) = &mut record.earlier {
            earlier.had_volumes = true;
        }
    });
}

/// Without volumes. No empty cluster takes the place of one that had data, as far as its status or a backup tool's label shows that it had:
/// unless a person deleted its volumes since, or the spec has it begin with a backup.
fn earlier_data(draft: &mut Draft<'_>) -> Flow {
    if draft.seen.restore.is_some() {
        return ON;
    }
    let why = match (draft.record.earlier.clone(), &draft.seen.restored_by) {
        (Some(earlier), _) if earlier.had_volumes => return ON,
        (Some(Earlier { cluster_id: cluster, voters, had_volumes: _ }), _) => {
            EarlierData::Gone { cluster, voters }
        }
        (None, Some(by)) => EarlierData::NotRestored(by.clone()),
        (None, None) => return ON,
    };
    draft.wait(Waiting::EarlierData(why));
    DONE
}

/// The id in the `adopt` annotation. Where only the record was lost, the id on the volumes of this incarnation.
fn chosen(draft: &Draft<'_>) -> Option<ClusterId> {
    let own_id = || {
        // Those of an earlier incarnation are quarantined.
        let is_own = |volume: &&Volume| draft.view().is_own(volume) && volume.quarantine.is_none();
        draft.seen.volumes.values().filter(is_own).find_map(|volume| volume.cluster_id)
    };
    draft.seen.adopt.or_else(own_id)
}

/// The volumes whose identity annotations name this cluster.
fn volumes_of<'a>(draft: &Draft<'a>, id: ClusterId) -> Vec<(&'a MemberName, &'a Volume)> {
    let is_of_it = |(_, volume): &(&MemberName, &Volume)| {
        volume.cluster_id == Some(id)
            && volume.member_id.is_some()
            && volume.token.is_some()
            && !volume.terminating
            && volume.quarantine.is_none()
    };
    draft.seen.volumes.iter().filter(is_of_it).collect()
}

/// What the spec says otherwise than the data. Medium and TLS are recorded with the adoption and never change afterwards: with the
/// wrong medium every member would count as lost, and with the wrong TLS no member would find another.
///
/// Where only the status of this EtcdCluster was lost, its members may run, and the edit was not carried out before either: T1 takes from
/// the volumes what is fixed.
fn contradiction(draft: &Draft<'_>, id: ClusterId) -> Option<EarlierData> {
    let desired = &draft.seen.desired;
    if volumes_of(draft, id).into_iter().all(|(_, volume)| draft.view().is_own(volume)) {
        return None;
    }
    if desired.storage.medium == Medium::Memory {
        let field = FixedField::Medium { is: Medium::Disk, found: Medium::Memory };
        return Some(EarlierData::Contradict(field));
    }
    let tls = volumes_of(draft, id).into_iter().find_map(|(_, volume)| volume.tls)?;
    let field = FixedField::Tls { is: tls, found: desired.tls };
    (tls != desired.tls).then_some(EarlierData::Contradict(field))
}

/// BX: records their members as voters, with the version that their volumes say. The target follows as after its loss (T1): the data
/// may be of another version than the spec asks for.
fn adopt(draft: &mut Draft<'_>, id: ClusterId) {
    let (next, now) = (draft.next_ordinal(), draft.now);
    let (volumes, uid) = (volumes_of(draft, id), draft.seen.uid.clone());
    draft.write_record(Step::BX, |record| {
        record.attempt = 1;
        record.adopted_by = Some(uid);
        record.taken_back = volumes.iter().any(|(_, volume)| volume.gave_way);
        record.earlier = None;
        record.cluster_id = Some(id);
        record.next_ordinal = next;
        for (name, volume) in volumes {
            record.token.clone_from(&volume.token);
            let (id, version) = (volume.member_id, volume.version);
            let member =
                Member { stage: Stage::Voter, id, volume: Some(volume.uid.clone()), version, since: now };
            record.members.insert(name.clone(), member);
        }
    });
    if !draft.seen.finalizer {
        draft.write(Step::B1, KubeEffect::AddFinalizer);
    }
}
