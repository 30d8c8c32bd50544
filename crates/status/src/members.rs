//! One member in status, besides what is recorded of it.

use quorate_api::status::{MemberStatus, Role};
use quorate_model::MemberName;
use quorate_model::target::Medium;

use super::picture::Picture;
use super::time;

/// Fills in what is observed of the member. What cannot be observed now, such as the role without a list, stays.
pub(super) fn fill(status: &mut MemberStatus, picture: &Picture<'_>) {
    let Picture { seen, record, now, .. } = picture;
    let name = MemberName::new(&*status.name);
    let recorded = record.members.get(&name);
    if seen.list(*now).is_some() {
        let listed = seen.listed(record, &name, *now);
        status.role = listed.map(|listed| if listed.is_learner { Role::Learner } else { Role::Voter });
        status.is_learner = listed.is_some_and(|listed| listed.is_learner);
    }
    let id = recorded.and_then(|member| member.id);
    status.is_leader = id.is_some() && id == seen.leader(*now);
    if let Some(reply) = seen.status_of(&name, *now) {
        status.version = Some(reply.version.to_string());
    }
    // The last one, until another is known: where the Pod vanishes, its container may still run there.
    let node = seen.pods.get(&name).and_then(|pod| pod.node.clone());
    let follows = seen.status_of(&name, *now).is_some_and(|reply| reply.leader.is_some());
    if follows && seen.list(*now).is_some() {
        status.served_on_node_name = None;
    } else if node.is_some() && node != status.node_name && status.served_on_node_name.is_none() {
        // A later Pod may hang elsewhere, while etcd runs where it ran.
        status.served_on_node_name = status.node_name.take();
    }
    status.node_name = node.or_else(|| status.node_name.take());
    if record.hibernating && !seen.pods.contains_key(&name) {
        (status.node_name, status.served_on_node_name) = (None, None);
    }
    let on_disk = picture.target().storage.medium == Medium::Disk;
    let volume = recorded.and_then(|member| member.volume.as_ref());
    status.pvc_name = volume.filter(|_| on_disk).map(|_| status.name.clone());
    let why_not = picture.why_not_healthy(&name);
    if status.healthy != why_not.is_none() || status.since.is_none() {
        status.since = Some(time(*now));
    }
    status.healthy = why_not.is_none();
    status.is_healthy = status.healthy;
    status.reason = why_not;
}
