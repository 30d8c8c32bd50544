//! Which volumes are adopted (BX): those of one cluster, of which none is known to be a copy, and which nothing uses.
//!
//! Members that resume older data than they had have forgotten what they acknowledged and which member they voted for, and etcd does not notice. That
//! a volume is a copy is known only by how its claim came into being; whether its data are older than another's is not.

use std::collections::BTreeMap;

use quorate_model::adoption::{Earlier, SaysNothing, Unadoptable};
use quorate_model::quorum::has_quorum;
use quorate_model::snapshot::Volume;
use quorate_model::{ClusterId, ManagedObject, MemberId, MemberName, Snapshot, Token};

/// The longest part of an annotation that a message quotes, in characters.
const QUOTED: usize = 100;

/// Whether these volumes, all that have this cluster id, may be adopted together.
pub(crate) fn may_adopt(
    seen: &Snapshot,
    id: ClusterId,
    volumes: &[(&MemberName, &Volume)],
) -> Result<(), Unadoptable> {
    let pods = foreign_pods(seen);
    if !pods.is_empty() {
        return Err(Unadoptable::InUse(pods));
    }
    let by_token: BTreeMap<Token, Vec<MemberName>> = by(volumes, |volume| volume.token.clone());
    if by_token.len() > 1 {
        return Err(Unadoptable::SeveralTokens(by_token));
    }
    let by_member: BTreeMap<MemberId, Vec<MemberName>> = by(volumes, |volume| volume.member_id);
    if let Some((member, twins)) = by_member.into_iter().find(|(_, names)| names.len() > 1) {
        return Err(Unadoptable::SameMember(member, twins));
    }
    has_a_quorum(seen, id, volumes)?;
    // One copy shows one moment, as the disk of a member after a power failure does.
    let copied = |(name, volume): &(&MemberName, &Volume)| Some(((*name).clone(), volume.copied_by.clone()?));
    let copies: BTreeMap<MemberName, String> = volumes.iter().filter_map(copied).collect();
    if volumes.len() > 1 && !copies.is_empty() && seen.adopt_copies != Some(id) {
        return Err(Unadoptable::Copies(copies, says_nothing(seen, id)));
    }
    Ok(())
}

/// What is wrong with the annotation of copies, where there is one: a person may take a mistyped one for an answer.
fn says_nothing(seen: &Snapshot, cluster: ClusterId) -> Option<SaysNothing> {
    let given = seen.adopt_copies_given.as_ref()?.chars().take(QUOTED).collect();
    Some(SaysNothing { given, cluster, uid: seen.uid.clone() })
}

/// Pods with names of members that this EtcdCluster does not own, for messages.
pub(crate) fn foreign_pods(seen: &Snapshot) -> Vec<String> {
    let is_pod = |object: &ManagedObject| matches!(object, ManagedObject::Pod(_));
    seen.foreign.iter().filter(|(object, _)| is_pod(object)).map(|(_, name)| name.clone()).collect()
}

/// By the status of the earlier object, where one is left. It may be older than the volumes, so names are not compared.
fn has_a_quorum(
    seen: &Snapshot,
    id: ClusterId,
    volumes: &[(&MemberName, &Volume)],
) -> Result<(), Unadoptable> {
    let earlier = seen.record.earlier.as_ref().filter(|earlier| earlier.cluster_id == id);
    let Some(Earlier { voters, .. }) =
        earlier.filter(|earlier| !has_quorum(volumes.len(), earlier.voters.len()))
    else {
        return Ok(());
    };
    let there = volumes.iter().map(|(name, _)| (*name).clone()).collect();
    Err(Unadoptable::TooFew { there, voters: voters.clone() })
}

fn by<K: Ord>(
    volumes: &[(&MemberName, &Volume)],
    key: impl Fn(&Volume) -> Option<K>,
) -> BTreeMap<K, Vec<MemberName>> {
    let mut groups: BTreeMap<K, Vec<MemberName>> = BTreeMap::new();
    for (name, volume) in volumes {
        if let Some(key) = key(volume) {
            groups.entry(key).or_default().push((*name).clone());
        }
    }
    groups
}
