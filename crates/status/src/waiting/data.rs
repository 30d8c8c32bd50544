//! The words about data of an earlier cluster.

use quorate_api::Reason;
use quorate_model::adoption::{SaysNothing, Unadoptable};
use quorate_model::effect::{EarlierData, FixedField};
use quorate_model::quorum::quorum;
use quorate_model::target::Medium;
use quorate_model::{ClusterId, MemberName};

use super::text::names;
use super::{Row, Stops, needs_person};

pub(super) fn row(earlier: &EarlierData) -> Row {
    needs_person(Reason::ExistingData, text(earlier)).stopping(Stops::Everything)
}

fn text(earlier: &EarlierData) -> String {
    match earlier {
        EarlierData::Volumes { found, volumes, quarantined, unmatched } => {
            existing(found, volumes, quarantined, *unmatched)
        }
        EarlierData::NotAdopted(cluster, why) => {
            format!(
                "the volumes of cluster {cluster} are not adopted, and nothing is started: {}",
                unadoptable(why)
            )
        }
        EarlierData::Contradict(field) => {
            let Field { path, is, found } = field_of(field);
            // An empty value would not be seen.
            let needed = if is.is_empty() { "\"\"" } else { is };
            format!(
                "the data of the earlier cluster need {path}: {needed}, and it is {found}, which cannot be changed once they \
                 are adopted. Nothing is adopted until {path} is {needed}"
            )
        }
        EarlierData::Gone { cluster, voters } => format!(
            "status records cluster {cluster} with the members {}, but none of its volumes exists. \
             No empty cluster is started in its place. Bring the volumes back, or add spec.bootstrap.restore to begin with a backup. To \
             begin with nothing, delete this EtcdCluster and create it again without its status",
            names(voters)
        ),
        EarlierData::NotRestored(by) => format!(
            "{by} created this EtcdCluster, and there is neither a volume of it nor spec.bootstrap.restore. No empty cluster is \
             started in its place. Bring the volumes back, or add spec.bootstrap.restore to begin with a backup. To begin with \
             nothing, take off its label velero.io/restore-name"
        ),
        EarlierData::UnknownPods(pods) => format!(
            "status was lost while Pods with data in memory run: {}. The operator does not bootstrap a second cluster \
             beside them. Save the data, then delete these Pods to bootstrap a new cluster",
            names(pods)
        ),
    }
}

/// A field of the spec, and its values as they are written there.
struct Field<'a> {
    path: &'static str,
    is: &'a str,
    found: &'a str,
}

fn field_of(field: &FixedField) -> Field<'_> {
    let provider = |tls: bool| if tls { "auto" } else { "disabled" };
    let name = |medium: Medium| match medium {
        Medium::Disk => "",
        Medium::Memory => "Memory",
    };
    match field {
        FixedField::Tls { is, found } => {
            Field { path: "spec.tls.provider", is: provider(*is), found: provider(*found) }
        }
        FixedField::Medium { is, found } => {
            Field { path: "spec.storageSpec.medium", is: name(*is), found: name(*found) }
        }
        FixedField::AccessMode { is, found } => Field { path: "spec.storageSpec.accessModes", is, found },
    }
}

/// The edit of a field that is fixed came when members may have served.
pub(super) fn edited_too_late(field: &FixedField) -> String {
    let Field { path: field, is: committed, found } = field_of(field);
    let path = field.split('.');
    let patch = path.rev().fold(format!("{committed:?}"), |inner, name| format!("{{\"{name}\":{inner}}}"));
    format!(
        "{field} is {found:?}, and the members run with {committed:?}, which cannot change any more: the edit came while the cluster began, and \
         members may have stored data by then. All else of the spec is followed. Take the edit back: kubectl patch etcdcluster NAME \
         --type=merge -p '{patch}'. For {found:?}, take a backup and create another EtcdCluster with it"
    )
}

fn existing(
    found: &[ClusterId],
    volumes: &[MemberName],
    quarantined: &[MemberName],
    unmatched: Option<ClusterId>,
) -> String {
    let is_quarantined = !quarantined.is_empty();
    let unmatched = unmatched.map(|unmatched| {
        let that_can = if is_quarantined { " that is not quarantined" } else { "" };
        format!("None of them{that_can} belongs to cluster {unmatched}, which operator.etcd.io/adopt names. ")
    });
    let choice = match found {
        [] => {
            "They have no cluster ID and cannot be adopted. Delete them to bootstrap a new cluster".to_owned()
        }
        [id] => format!(
            "To serve their data, annotate this EtcdCluster with operator.etcd.io/adopt={id}. To bootstrap a new cluster, \
             delete them"
        ),
        several => {
            let ids: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!(
                "They belong to several clusters ({}). To serve the data of one, annotate this EtcdCluster with \
                 operator.etcd.io/adopt=<its ID>. To bootstrap a new cluster, delete them",
                ids.join(", ")
            )
        }
    };
    let first = is_quarantined.then(|| {
        format!(
            ". Quarantined volumes ({}) are never served: to serve their data, first remove the annotation \
             operator.etcd.io/quarantined-since and the label operator.etcd.io/quarantined from them. An EtcdRestore that replaced them may \
             be carried out again then: delete it if that is not wanted",
            names(quarantined)
        )
    });
    format!(
        "volumes of an earlier cluster of this name exist: {}. {}{choice}{}",
        names(volumes),
        unmatched.unwrap_or_default(),
        first.unwrap_or_default()
    )
}

/// Why volumes are not adopted, and what to do.
fn unadoptable(why: &Unadoptable) -> String {
    match why {
        Unadoptable::InUse(pods) => format!(
            "this EtcdCluster does not own {}, which may run etcd on these volumes. A backup tool that restores Pods before the \
                 EtcdCluster leaves them so. Delete them (kubectl delete pod), and leave Pods out of what is restored",
            pods.join(", ")
        ),
        Unadoptable::SeveralTokens(by_token) => {
            let groups = by_token.iter().map(|(token, members)| format!("{} ({token})", names(members)));
            format!(
                "they come from several bootstraps: {}. Their data have nothing in common. Find out which ones have the data, and \
                     delete the others or move them to another name",
                groups.collect::<Vec<_>>().join(" | ")
            )
        }
        Unadoptable::SameMember(id, members) => format!(
            "{} have the identity of one member, {id}, so one is a copy of the other. Keep the newer one, and delete the other",
            names(members)
        ),
        Unadoptable::Copies(copies, says) => {
            let says = says.as_ref().map_or_else(String::new, |SaysNothing { given, cluster, uid }| {
                    format!(". Its annotation says {given:?}, which says nothing of these volumes: what would is {cluster}/{uid}")
                });
            let copies = copies.iter().map(|(member, how)| format!("{member} ({how})"));
            format!(
                "these may be copies of the members' volumes: {}. Copies of several members, made one after another, are no backup: a \
                     write that etcd acknowledged may be on no quorum of them, and members may end up with different data. Delete these \
                     claims, and restore an EtcdBackup (spec.bootstrap.restore). Only if all of them are the original volumes, or were \
                     copied while no member ran, annotate this EtcdCluster with operator.etcd.io/adopt-copies=<the cluster ID>/<metadata.uid of this \
                     EtcdCluster> as well{says}",
                copies.collect::<Vec<_>>().join(", ")
            )
        }
        Unadoptable::TooFew { there, voters } => format!(
            "there are volumes of {} only, and by the status that came with this EtcdCluster its voters were {}: {} of them are \
                 needed for a quorum. Bring the other volumes back, or restore an EtcdBackup (spec.bootstrap.restore). If it had fewer \
                 members since, create this EtcdCluster again without its status",
            names(there),
            names(voters),
            quorum(voters.len())
        ),
    }
}
