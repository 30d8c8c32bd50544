//! The words of the recovery of a lost quorum.

use std::fmt::Write as _;

use quorate_api::Reason;
use quorate_model::MemberName;
use quorate_model::effect::{LastNode, LeftOut, MayRun, NotRead, RecoveryRefused, RecoveryWait};
use quorate_model::quorum_recovery::{LOST_FOR, Log, RecoverFrom, STOPPED_WITHIN};

use super::edit::version_refused;
use super::restore::unfit;
use super::{Row, Stops, moves, waits};

pub(super) fn row(wait: &RecoveryWait) -> Row {
    match wait {
        RecoveryWait::Reads { from, logs } => moves(Reason::RecoveringQuorum, reads(from, logs)),
        RecoveryWait::Refused(why) => waits(
            Reason::RecoveryRefused,
            format!("operator.etcd.io/recover-quorum-from is not followed: {}", refused(why)),
        ),
        RecoveryWait::NotRead(member, why) => waits(
            Reason::RecoveringQuorum,
            format!("it is not known yet what {member} has stored: {}", not_read(why)),
        )
        .stopping(Stops::Nothing),
        RecoveryWait::MayRun(member, why) => waits(
            Reason::MemberMayRun,
            format!(
                "the quorum is recovered only once no member can run any more, and {member} may: {}",
                may_run(why)
            ),
        )
        .stopping(Stops::Nothing),
        RecoveryWait::Ended { withdrawn } => {
            let how = if *withdrawn {
                "is withdrawn"
            } else {
                "has ended, since a quorum answers, or has its data"
            };
            moves(
                Reason::RecoveringQuorum,
                format!(
                    "operator.etcd.io/recover-quorum-from {how}. Nothing was given up: the members are started again on their own volumes"
                ),
            )
        }
    }
}

fn refused(why: &RecoveryRefused) -> String {
    match why {
        RecoveryRefused::Spent => {
            "it was followed before, or given while a quorum answered, the cluster was paused, its data were being replaced or it was at \
             size zero; or it has ended because a quorum of voters have their data. To give the order again, remove the annotation, \
             and set it once the operator has seen that"
                .to_owned()
        }
        RecoveryRefused::TooSoon => format!(
            "no quorum has answered for less than {} s, and one may come back by itself. It begins then",
            LOST_FOR.0 / 1000
        ),
        RecoveryRefused::InMemory => {
            "the members keep their data in memory, and those of a Pod that stops are gone. Restore a backup".to_owned()
        }
        RecoveryRefused::ForgetsEntries(version, first) => format!(
            "etcd {version} forgets entries when it makes a new cluster of a member. Set spec.version to {first} or newer"
        ),
        RecoveryRefused::NoMember(member) => {
            format!("{member} is no member of this cluster. Name one of status.members, or auto")
        }
        RecoveryRefused::QuorumHasData { readable, voters } => format!(
            "{readable} of {voters} voters have their data, which is a quorum: nothing is lost if they start again, and they are \
             started. Mend what keeps them from running. If they can never run, name the member whose data are kept in place of auto"
        ),
        RecoveryRefused::DataDiffer => {
            "the data of members were found to differ, and it is not known whose are wrong. Name the member whose data are kept in place of auto"
                .to_owned()
        }
        RecoveryRefused::NoDataOf(member) => {
            format!("{member} has no data of this cluster. Name another member, or auto")
        }
        RecoveryRefused::NoData => {
            "no member has data of this cluster. Restore a backup into a new EtcdCluster".to_owned()
        }
        RecoveryRefused::LeftOut(all) => {
            let all: Vec<String> =
                all.iter().map(|(member, why)| format!("{member}: {}", left_out(*why))).collect();
            format!(
                "auto chooses none of those that have data ({}). Name one of them, or restore a backup",
                all.join("; ")
            )
        }
        RecoveryRefused::Agent(member, why) => format!("{member}: {why}"),
        RecoveryRefused::SizeZero => "spec.size is zero".to_owned(),
        RecoveryRefused::Unfit(why) => unfit(why),
        RecoveryRefused::Version(why) => version_refused(why),
    }
}

fn left_out(why: LeftOut) -> &'static str {
    match why {
        LeftOut::Differs => "its data differ from what the others had",
        LeftOut::GivenUp => "it was given up as lost",
        LeftOut::Learner => "it was a learner, and etcd makes no cluster of one",
    }
}

fn not_read(why: &NotRead) -> String {
    match why {
        NotRead::OnceMore(why) => format!("{why}. It is read once more"),
        NotRead::Extracted => {
            "its Pod has taken a snapshot, and does not say what the volume has. It is read once more"
                .to_owned()
        }
        NotRead::Silent { says, may_be_left } => {
            let says = says.as_deref().unwrap_or("its agent has not reported yet what the volume has");
            let otherwise = if *may_be_left {
                ". To go on without it, name the member whose data are kept in place of auto"
            } else {
                ""
            };
            format!("{says}{otherwise}")
        }
    }
}

fn may_run(why: &MayRun) -> String {
    match why {
        MayRun::ClaimTerminating(member) => format!(
            "its PersistentVolumeClaim {member} is being deleted, and its data go with its Pod, which is therefore not stopped. Copy them if \
             they matter, then delete the Pod"
        ),
        MayRun::PodThere(node) => {
            format!("its Pod is not gone yet, on {}. {}", name(node.as_deref()), remedy(node.as_deref()))
        }
        MayRun::NotRecorded => {
            "where it ran is not recorded, as after a lost status, so nothing shows that it has stopped. Restore a backup into this cluster with \
             an EtcdRestore instead, once no machine runs it for certain"
                .to_owned()
        }
        MayRun::Node { node, former, state } => on_node(node.as_deref(), *former, *state),
    }
}

/// `former`: it followed its last leader there, and had a later Pod elsewhere.
fn on_node(node: Option<&str>, former: bool, state: LastNode) -> String {
    let (name, remedy, seconds) = (name(node), remedy(node), STOPPED_WITHIN.0 / 1000);
    match (state, former) {
        (LastNode::Stopping, false) => {
            format!("its last Pod is gone, and the kubelet of {name} has {seconds} s to stop what may run")
        }
        (LastNode::Stopping, true) => {
            format!("it last followed a leader on {name}, whose kubelet has {seconds} s to stop what may run")
        }
        (LastNode::Silent, false) => {
            format!("its Pod vanished while {name} does not report, which proves nothing. {remedy}")
        }
        (LastNode::Silent, true) => format!(
            "it last followed a leader on {name}, which does not report: its Pod vanished from there, which proves nothing. {remedy}"
        ),
        (LastNode::NotKnown, false) => {
            format!("the state of {name} is not known: the operator needs the right to get Nodes. {remedy}")
        }
        (LastNode::NotKnown, true) => format!(
            "it last followed a leader on {name}, whose state is not known: the operator needs the right to get Nodes. {remedy}"
        ),
    }
}

fn name(node: Option<&str>) -> String {
    node.map_or_else(|| "a node that is not recorded".to_owned(), |node| format!("Node {node}"))
}

fn remedy(node: Option<&str>) -> String {
    let node = node.unwrap_or("<its node>");
    format!(
        "Bring the node back. If the machine is off for certain, delete Node {node}, or give it the taint \
         node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
    )
}

/// What each member has, and what the others lack.
fn reads(from: &RecoverFrom, logs: &[(MemberName, Result<Log, String>)]) -> String {
    let mut text = format!(
        "operator.etcd.io/recover-quorum-from={from}: etcd is stopped in every Pod, and the members report what they have stored"
    );
    for (member, log) in logs {
        let _ = match log {
            Ok(log) => write!(text, ". {member}: {log}"),
            Err(why) => write!(text, ". {member} has nothing: {why}"),
        };
    }
    text.push_str(". To end it and start the members again as they were, remove the annotation");
    text
}
