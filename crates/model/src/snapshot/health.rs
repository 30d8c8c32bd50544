//! The one definition of a healthy member, and the one text for why a member is not. Planner, status and metrics use them.

use super::Snapshot;
use crate::names::MemberName;
use crate::time::Instant;

impl Snapshot {
    /// Whether a member answered recently, follows a leader and reports no error.
    pub fn is_healthy(&self, member: &MemberName, now: Instant) -> bool {
        self.status_of(member, now).is_some_and(|status| status.leader.is_some() && status.errors.is_empty())
    }

    /// Why a member with a Pod is not healthy, from the nearest cause to the farthest. `None` if it is healthy.
    pub fn why_unhealthy(&self, member: &MemberName, now: Instant) -> Option<String> {
        if self.is_healthy(member, now) {
            return None;
        }
        let pod = self.pods.get(member);
        if let Some((verdict, message)) = pod.and_then(|pod| pod.guard.as_ref()) {
            return Some(format!("the guard refuses its volume: {verdict}: {message}"));
        }
        if let Some(trouble) = pod.and_then(|pod| pod.trouble.as_ref()) {
            return Some(trouble.clone());
        }
        if pod.is_some_and(|pod| pod.ip.is_none()) {
            return Some("its Pod is starting".to_owned());
        }
        Some(match self.etcd.answers.get(member).map(|answer| &answer.reply) {
            Some(Err(why)) => why.clone(),
            Some(Ok(status)) if status.leader.is_none() => "it follows no leader".to_owned(),
            Some(Ok(status)) if !status.errors.is_empty() => status.errors.join("; "),
            Some(Ok(_)) => "it has not answered recently".to_owned(),
            None => "it was not asked yet".to_owned(),
        })
    }
}
