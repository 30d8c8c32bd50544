//! The client for one member.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_model::{MemberId, PeerUrl, Revision};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::dial::{Dialler, Line};
use crate::reply::header;
use crate::wire::cluster_client::ClusterClient;
use crate::wire::kv_client::KvClient;
use crate::wire::maintenance_client::MaintenanceClient;
use crate::wire::{self, AlarmAction};
use crate::{
    Alarm, BadEndpoint, CallError, Deadlines, Endpoint, MemberList, MemberStatus, StoredValue, Transport,
};

/// A client for exactly one member. Every call has a deadline and is sent at most once: repeating is the caller's
/// business, after looking again (R8). Clones share the connection, which is made on the first call.
#[derive(Clone)]
pub struct MemberClient {
    shared: Arc<Shared>,
}

struct Shared {
    dialler: Dialler,
    deadline: Duration,
    line: Mutex<Line>,
}

/// How much a read may rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// A quorum confirms that it is the latest.
    Linearizable,
    /// What the member has; needs no quorum and may be stale.
    Serializable,
}

impl MemberClient {
    /// A client for this endpoint. Does not connect yet. Must be called within a tokio runtime.
    pub fn new(endpoint: &Endpoint, deadlines: Deadlines) -> Result<Self, BadEndpoint> {
        Self::over(Transport::network(), endpoint, deadlines)
    }

    /// The same, over this transport.
    pub fn over(
        transport: Transport,
        endpoint: &Endpoint,
        deadlines: Deadlines,
    ) -> Result<Self, BadEndpoint> {
        let dialler = Dialler::new(transport, endpoint, deadlines)?;
        let line = Mutex::new(dialler.line());
        Ok(Self { shared: Arc::new(Shared { dialler, deadline: deadlines.call, line }) })
    }

    /// The member about itself, without a quorum.
    pub async fn status(&self) -> Result<MemberStatus, CallError> {
        let reply = self
            .call(async |channel| MaintenanceClient::new(channel).status(wire::StatusRequest {}).await)
            .await?;
        reply.try_into()
    }

    /// The member list. Decisions take it linearizable (R9); otherwise it is what this member happens to know, and a
    /// learner refuses it either way.
    pub async fn member_list(&self, linearizable: bool) -> Result<MemberList, CallError> {
        let request = wire::MemberListRequest { linearizable };
        let reply = self.call(async |channel| ClusterClient::new(channel).member_list(request).await).await?;
        reply.try_into()
    }

    /// Adds a member as a learner (R6); its id.
    pub async fn member_add_learner(&self, peer_url: &PeerUrl) -> Result<MemberId, CallError> {
        let request =
            wire::MemberAddRequest { peer_urls: vec![peer_url.as_str().to_owned()], is_learner: true };
        let reply = self.call(async |channel| ClusterClient::new(channel).member_add(request).await).await?;
        let added =
            reply.member.ok_or_else(|| CallError::Unknown("added, but the reply names no id".to_owned()))?;
        Ok(MemberId(added.id))
    }

    /// Makes a learner a voter. Refused until it is in sync.
    pub async fn member_promote(&self, id: MemberId) -> Result<(), CallError> {
        let request = wire::MemberPromoteRequest { id: id.0 };
        self.call(async |channel| ClusterClient::new(channel).member_promote(request).await).await.map(drop)
    }

    /// Removes a member, for ever.
    pub async fn member_remove(&self, id: MemberId) -> Result<(), CallError> {
        let request = wire::MemberRemoveRequest { id: id.0 };
        self.call(async |channel| ClusterClient::new(channel).member_remove(request).await).await.map(drop)
    }

    /// Hands leadership over. Only the leader does it.
    pub async fn move_leader(&self, to: MemberId) -> Result<(), CallError> {
        let request = wire::MoveLeaderRequest { target_id: to.0 };
        self.call(async |channel| MaintenanceClient::new(channel).move_leader(request).await).await.map(drop)
    }

    /// All alarms in force, by way of raft: needs a quorum and costs a log entry. [`MemberClient::status`] tells those
    /// the member knows of at no cost.
    pub async fn alarms(&self) -> Result<Vec<Alarm>, CallError> {
        let request = wire::AlarmRequest { action: AlarmAction::Get.into(), member_id: 0, alarm: 0 };
        let reply = self.call(async |channel| MaintenanceClient::new(channel).alarm(request).await).await?;
        Ok(reply.alarms.into_iter().filter_map(Alarm::from_wire).collect())
    }

    /// The value of a key.
    pub async fn get(&self, key: &str, read: Read) -> Result<Option<StoredValue>, CallError> {
        let request = wire::RangeRequest {
            key: key.into(),
            serializable: read == Read::Serializable,
            ..Default::default()
        };
        let reply = self.call(async |channel| KvClient::new(channel).range(request).await).await?;
        let stored =
            |kv: wire::KeyValue| StoredValue { value: kv.value, mod_revision: Revision(kv.mod_revision) };
        Ok(reply.kvs.into_iter().next().map(stored))
    }

    /// Writes a key; the revision that did.
    pub async fn put(&self, key: &str, value: impl Into<Vec<u8>>) -> Result<Revision, CallError> {
        let request = wire::PutRequest { key: key.into(), value: value.into(), ..Default::default() };
        let reply = self.call(async |channel| KvClient::new(channel).put(request).await).await?;
        Ok(Revision(header(reply.header)?.revision))
    }

    async fn call<T>(
        &self,
        send: impl AsyncFnOnce(Channel) -> Result<Response<T>, Status>,
    ) -> Result<T, CallError> {
        let Line { channel, verdict } = self.line().clone();
        if let Ok(reply) = tokio::time::timeout(self.shared.deadline, send(channel)).await {
            return reply.map(Response::into_inner).map_err(|status| match verdict.turned_down() {
                Some(reason) => CallError::Unreachable(reason),
                None => status.into(),
            });
        }
        // The address may have gone without a farewell (a lost node); on the old connection every further call would
        // wait in vain.
        *self.line() = self.shared.dialler.line();
        Err(CallError::Unknown(format!("no answer within {:?}", self.shared.deadline)))
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.shared.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemberClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberClient")
            .field("address", &self.shared.dialler.address())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_call_can_be_spawned() {
        fn spawnable<T: Send>(_: &T) {}
        let endpoint = Endpoint::plain("127.0.0.1:1".parse().unwrap());
        let client = MemberClient::new(&endpoint, Deadlines::default()).unwrap();
        let url = PeerUrl::new("http://127.0.0.1:2380");
        spawnable(&client.status());
        spawnable(&client.member_list(true));
        spawnable(&client.member_add_learner(&url));
        spawnable(&client.member_promote(MemberId(1)));
        spawnable(&client.member_remove(MemberId(1)));
        spawnable(&client.move_leader(MemberId(1)));
        spawnable(&client.alarms());
        spawnable(&client.get("key", Read::Linearizable));
        spawnable(&client.put("key", "value"));
    }
}
