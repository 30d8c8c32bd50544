//! The words for why a member is not healthy.

use quorate_api::keys;
use quorate_model::snapshot::{
    AlarmKind, CATCH_UP_ENTRIES, MOUNTED_WITHIN, NoRoom, PodName, READY_WITHIN, ReplaceMember, Sick,
    Unhealthy,
};

/// Why a member is not healthy, and what to do.
pub fn why_sick(why: &Sick) -> String {
    match why {
        Sick::Guard(verdict, message) => format!("the guard refuses its volume: {verdict}: {message}"),
        Sick::Pod { trouble, says, lost } => {
            let says = says.as_ref().map_or_else(String::new, |says| format!(" ({says})"));
            format!("{trouble}{says}{}", way_out(lost.as_ref()))
        }
        Sick::NotMounted { pod, says, lost } => {
            let why = says.as_ref().map_or_else(
                || format!("The events of the Pod say why: {}", describe(pod)),
                |says| format!("Its node says: {says}"),
            );
            // Without the time, which would change status for ever.
            format!(
                "its node has not mounted its volume, or not set up its network, for more than {MOUNTED_WITHIN}. {why}{}",
                way_out(lost.as_ref())
            )
        }
        Sick::Starting(None) => "its Pod is starting".to_owned(),
        Sick::Starting(Some(says)) => format!("its Pod does not start: {says}"),
        Sick::Silent => "it has not answered recently".to_owned(),
        Sick::KeptOut => {
            "etcd's auth refuses the operator, so nothing is known of it but that it runs".to_owned()
        }
        Sick::Defragmented => {
            format!("it was defragmented, and its Pod is not ready yet: that takes {READY_WITHIN} at most")
        }
        Sick::NotReady { pod, says } => {
            let says = says.as_ref().map_or_else(|| describe(pod), Clone::clone);
            format!("{}: {says}", unhealthy(&Unhealthy::NotReady))
        }
        Sick::FarBehind(no_room) => far_behind(no_room.as_ref()),
        Sick::MustAnswer => {
            "it does not answer. Until it answers or its Pod is gone, no Pod that may contradict it is labelled joined, and the client Service \
             selects only Pods with that label"
                .to_owned()
        }
        Sick::Is(why) => unhealthy(why),
    }
}

fn unhealthy(why: &Unhealthy) -> String {
    match why {
        Unhealthy::NoPod => "it has no Pod".to_owned(),
        Unhealthy::Terminating => "its Pod is being deleted".to_owned(),
        Unhealthy::NoAnswer(Some(why)) => why.clone(),
        Unhealthy::NoAnswer(None) => "it was not asked yet".to_owned(),
        Unhealthy::Learner => {
            "it reports that it is still a learner: it has not applied its promotion, and counts as a voter".to_owned()
        }
        Unhealthy::NoLeader => "it follows no leader that a quorum follows".to_owned(),
        Unhealthy::OtherLeader { follows, leader } => {
            format!("it follows {follows}, and the others follow {leader}")
        }
        // Without the indices: they change with every proof, and status with them.
        Unhealthy::Lagging { .. } => {
            "it does not keep up: it has not applied what the leader had committed before. Its disk may hang, or \
             its connection to the leader be slow"
                .to_owned()
        }
        Unhealthy::Differs => "its data differ from those of a majority of the members".to_owned(),
        Unhealthy::Alarm(AlarmKind::NoSpace) => "alarm NOSPACE".to_owned(),
        Unhealthy::Alarm(AlarmKind::Corrupt) => "alarm CORRUPT".to_owned(),
        Unhealthy::Errors(errors) => errors.join("; "),
        Unhealthy::NotReady => {
            "its Pod is not ready although etcd answers: its volume may hang. The events of the Pod have what its \
             readiness probe reports"
                .to_owned()
        }
    }
}

/// Without the sizes of files: status would change with every write.
fn far_behind(no_room: Option<&NoRoom>) -> String {
    let behind = format!(
        "it does not keep up: it is more than {CATCH_UP_ENTRIES} entries behind the leader, so it may need a snapshot of the leader's database"
    );
    let Some(NoRoom { needed, new_volume_fits, order }) = no_room else {
        return format!(
            "{behind}, which takes a while. If this lasts, look at its disk and at the network between it and the leader"
        );
    };
    let (needed, order) = (needed >> 20, replace_command(order));
    let no_room = format!("{behind}, and by its size its volume has no room for that beside its own");
    if *new_volume_fits {
        format!(
            "{no_room}. Replace it by a new member, which begins on an empty volume: {order}. To have room the next time, first raise \
             spec.storageSpec.volumeSizeRequest to {needed}Mi or more"
        )
    } else {
        format!(
            "{no_room}. Nor has the database room beside the log on a new volume of spec.storageSpec.volumeSizeRequest. Raise that to \
             {needed}Mi or more; if the volume does not grow, then replace the member by a new one: {order}"
        )
    }
}

fn describe(PodName { member, namespace }: &PodName) -> String {
    format!("kubectl describe pod {member} -n {namespace}")
}

fn way_out(lost: Option<&ReplaceMember>) -> String {
    lost.map_or_else(String::new, |order| {
        format!(". If its disk is gone for good, replace the member: {}", replace_command(order))
    })
}

/// The command by which a person orders to replace a member. An earlier order may have left its annotation.
pub(crate) fn replace_command(ReplaceMember { cluster, member, id }: &ReplaceMember) -> String {
    format!(
        "kubectl annotate etcd {} -n {} {}={member}/{} --overwrite",
        cluster.name,
        cluster.namespace,
        keys::REPLACE_MEMBER,
        id.map_or_else(|| "ID".to_owned(), |id| id.to_string())
    )
}
