//! The client for one member.

mod auth;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_model::effect::DowngradeAction;
use quorate_model::snapshot::{DEFRAGMENT_DEADLINE, KeysHash};
use quorate_model::version::Minor;
use quorate_model::{MemberId, PeerUrl, Revision};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::dial::{Connection, Dialler, TlsConfig};
use crate::reply::{alarm_from_wire, header, keys_hash};
use crate::wire::cluster_client::ClusterClient;
use crate::wire::downgrade_request::DowngradeAction as WireAction;
use crate::wire::kv_client::KvClient;
use crate::wire::maintenance_client::MaintenanceClient;
use crate::wire::{self, AlarmAction, AlarmType};
use crate::{
    Alarm, AlarmKind, BadEndpoint, CallError, Deadlines, Endpoint, MemberList, MemberStatus, SnapshotStream,
    StoredValue, Transport,
};

/// How long a compaction may take until the database has the space back: it deletes a thousand revisions at a time, and pauses.
const COMPACT_DEADLINE: Duration = Duration::from_secs(60);

/// How long a hash may take: a database of several GiB that is not in memory is read once, at the pace of a disk of a network. etcd goes on
/// with a hash whose caller has left, so a short deadline would spare it nothing.
const HASH_DEADLINE: Duration = Duration::from_mins(2);

/// What etcd answers when the history was compacted up to this revision before.
const COMPACTED: &str = "required revision has been compacted";

/// A client for exactly one member. Every call has a deadline and is sent at most once: the caller repeats it, after it has
/// observed again (R8). Clones share the connection, which the first call makes.
#[derive(Clone)]
pub struct MemberClient {
    shared: Arc<Shared>,
}

struct Shared {
    dialler: Dialler,
    deadline: Duration,
    connection: Mutex<Connection>,
}

/// The consistency of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// A quorum confirms that the value is the latest.
    Linearizable,
    /// The member answers from its own state: needs no quorum and may be stale.
    Serializable,
}

impl MemberClient {
    /// A client for this endpoint. Does not connect yet. Must be called within a tokio runtime.
    pub fn new(endpoint: &Endpoint, deadlines: Deadlines) -> Result<Self, BadEndpoint> {
        Self::over(Transport::network(), endpoint, deadlines)
    }

    /// A client for this endpoint over this transport.
    pub fn over(
        transport: Transport,
        endpoint: &Endpoint,
        deadlines: Deadlines,
    ) -> Result<Self, BadEndpoint> {
        Ok(Self::with(Dialler::new(transport, endpoint, deadlines)?, deadlines))
    }

    /// A client for the member at this address, with the TLS configuration of all members of its cluster and the DNS name that its
    /// certificate must be valid for.
    pub fn sharing(
        transport: Transport,
        address: SocketAddr,
        tls: (&TlsConfig, &str),
        deadlines: Deadlines,
    ) -> Result<Self, BadEndpoint> {
        Ok(Self::with(Dialler::sharing(transport, address, deadlines, tls)?, deadlines))
    }

    fn with(dialler: Dialler, deadlines: Deadlines) -> Self {
        let connection = Mutex::new(dialler.connection());
        Self { shared: Arc::new(Shared { dialler, deadline: deadlines.call, connection }) }
    }

    /// The status of the member. Needs no quorum.
    pub async fn status(&self) -> Result<MemberStatus, CallError> {
        let reply = self
            .call(async |channel| MaintenanceClient::new(channel).status(wire::StatusRequest {}).await)
            .await?;
        reply.try_into()
    }

    /// The member list. Decisions need it linearizable (R9); otherwise it is the list in the state of this member. A learner
    /// refuses it either way.
    pub async fn member_list(&self, linearizable: bool) -> Result<MemberList, CallError> {
        let request = wire::MemberListRequest { linearizable };
        let reply = self.call(async |channel| ClusterClient::new(channel).member_list(request).await).await?;
        reply.try_into()
    }

    /// Adds a member as a learner (R6). Returns its id.
    pub async fn member_add_learner(&self, peer_url: &PeerUrl) -> Result<MemberId, CallError> {
        let request =
            wire::MemberAddRequest { peer_urls: vec![peer_url.as_str().to_owned()], is_learner: true };
        let reply = self.call(async |channel| ClusterClient::new(channel).member_add(request).await).await?;
        let added = reply
            .member
            .ok_or_else(|| CallError::Unknown("the reply to MemberAdd has no member".to_owned()))?;
        Ok(MemberId(added.id))
    }

    /// Makes a learner a voter. Refused until it is in sync.
    pub async fn member_promote(&self, id: MemberId) -> Result<(), CallError> {
        let request = wire::MemberPromoteRequest { id: id.0 };
        self.call(async |channel| ClusterClient::new(channel).member_promote(request).await).await.map(drop)
    }

    /// Removes a member. It can never come back under this id.
    pub async fn member_remove(&self, id: MemberId) -> Result<(), CallError> {
        let request = wire::MemberRemoveRequest { id: id.0 };
        self.call(async |channel| ClusterClient::new(channel).member_remove(request).await).await.map(drop)
    }

    /// Moves leadership. Only the leader accepts this.
    pub async fn move_leader(&self, to: MemberId) -> Result<(), CallError> {
        let request = wire::MoveLeaderRequest { target_id: to.0 };
        self.call(async |channel| MaintenanceClient::new(channel).move_leader(request).await).await.map(drop)
    }

    /// Checks whether the cluster may be downgraded to this minor version, begins that, or ends it.
    pub async fn downgrade(&self, action: DowngradeAction, to: Minor) -> Result<(), CallError> {
        let action = match action {
            DowngradeAction::Validate => WireAction::Validate,
            DowngradeAction::Enable => WireAction::Enable,
            DowngradeAction::Cancel => WireAction::Cancel,
        };
        let request = wire::DowngradeRequest { action: action.into(), version: format!("{to}.0") };
        self.call(async |channel| MaintenanceClient::new(channel).downgrade(request).await).await.map(drop)
    }

    /// All active alarms. A raft entry: needs a quorum. [`MemberClient::status`] has the alarms that the member knows of, at
    /// no cost.
    pub async fn alarms(&self) -> Result<Vec<Alarm>, CallError> {
        let request = wire::AlarmRequest { action: AlarmAction::Get.into(), member_id: 0, alarm: 0 };
        let reply = self.call(async |channel| MaintenanceClient::new(channel).alarm(request).await).await?;
        Ok(reply.alarms.into_iter().filter_map(alarm_from_wire).collect())
    }

    /// Disarms one alarm of one member, which may be gone. A raft entry: needs a quorum. One that is not active is no error.
    pub async fn disarm(&self, alarm: Alarm) -> Result<(), CallError> {
        let Alarm { member, kind } = alarm;
        let kind = match kind {
            AlarmKind::NoSpace => AlarmType::NoSpace,
            AlarmKind::Corrupt => AlarmType::Corrupt,
        };
        let request = wire::AlarmRequest {
            action: AlarmAction::Deactivate.into(),
            member_id: member.0,
            alarm: kind.into(),
        };
        self.call(async |channel| MaintenanceClient::new(channel).alarm(request).await).await.map(drop)
    }

    /// Compacts the history of keys up to a revision, and waits until the member has the space back. That it is compacted already
    /// is no error.
    pub async fn compact(&self, revision: Revision) -> Result<(), CallError> {
        let request = wire::CompactionRequest { revision: revision.0, physical: true };
        let reply = self
            .call_within(COMPACT_DEADLINE, async |channel| KvClient::new(channel).compact(request).await)
            .await;
        match reply {
            Err(CallError::Refused(_, message) | CallError::Unknown(message))
                if message.contains(COMPACTED) =>
            {
                Ok(())
            }
            reply => reply.map(drop),
        }
    }

    /// Defragments the database of this member, and waits until that is done. It answers no other call meanwhile, or few. Two calls
    /// at the same time are carried out one after the other.
    pub async fn defragment(&self) -> Result<(), CallError> {
        let request = wire::DefragmentRequest {};
        let within = Duration::from_millis(DEFRAGMENT_DEADLINE.0);
        self.call_within(within, async |channel| MaintenanceClient::new(channel).defragment(request).await)
            .await
            .map(drop)
    }

    /// The hash of all keys and their history up to a revision; without one, up to the latest. Needs no quorum. The member reads its
    /// whole database and applies nothing meanwhile, so it is asked for only with a reason.
    pub async fn hash_kv(&self, revision: Option<Revision>) -> Result<KeysHash, CallError> {
        let request = wire::HashKvRequest { revision: revision.map_or(0, |revision| revision.0) };
        let reply = self
            .call_within(HASH_DEADLINE, async |channel| {
                MaintenanceClient::new(channel).hash_kv(request).await
            })
            .await?;
        keys_hash(reply, revision)
    }

    /// The database of this member as a stream. Needs no quorum. etcd keeps a read transaction open until the stream has ended, so
    /// whoever reads slowly makes the database grow.
    pub async fn snapshot(&self) -> Result<SnapshotStream, CallError> {
        let request = wire::SnapshotRequest {};
        let stream =
            self.call(async |channel| MaintenanceClient::new(channel).snapshot(request).await).await?;
        Ok(SnapshotStream::new(stream))
    }

    /// The number of keys, and the revision at which they were counted.
    pub async fn count_keys(&self, read: Read) -> Result<(u64, Revision), CallError> {
        let request = wire::RangeRequest {
            // From the first key to the last.
            key: vec![0],
            range_end: vec![0],
            serializable: read == Read::Serializable,
            count_only: true,
            ..Default::default()
        };
        let reply = self.call(async |channel| KvClient::new(channel).range(request).await).await?;
        let revision = Revision(header(reply.header)?.revision);
        Ok((u64::try_from(reply.count).unwrap_or_default(), revision))
    }

    /// The number of keys that this member had at a revision. Refused where that is compacted.
    pub async fn count_keys_at(&self, revision: Revision) -> Result<u64, CallError> {
        let request = wire::RangeRequest {
            key: vec![0],
            range_end: vec![0],
            revision: revision.0,
            serializable: true,
            count_only: true,
            ..Default::default()
        };
        let reply = self.call(async |channel| KvClient::new(channel).range(request).await).await?;
        Ok(u64::try_from(reply.count).unwrap_or_default())
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

    /// The revision of the store. Linearizable: whatever was acknowledged before the call is in it.
    pub async fn revision(&self, read: Read) -> Result<Revision, CallError> {
        let request = wire::RangeRequest {
            key: vec![0],
            serializable: read == Read::Serializable,
            count_only: true,
            ..Default::default()
        };
        let reply = self.call(async |channel| KvClient::new(channel).range(request).await).await?;
        Ok(Revision(header(reply.header)?.revision))
    }

    /// Writes a key. Returns the revision of the write.
    pub async fn put(&self, key: &str, value: impl Into<Vec<u8>>) -> Result<Revision, CallError> {
        let request = wire::PutRequest { key: key.into(), value: value.into(), ..Default::default() };
        let reply = self.call(async |channel| KvClient::new(channel).put(request).await).await?;
        Ok(Revision(header(reply.header)?.revision))
    }

    async fn call<T>(
        &self,
        send: impl AsyncFnOnce(Channel) -> Result<Response<T>, Status>,
    ) -> Result<T, CallError> {
        self.call_within(self.shared.deadline, send).await
    }

    async fn call_within<T>(
        &self,
        deadline: Duration,
        send: impl AsyncFnOnce(Channel) -> Result<Response<T>, Status>,
    ) -> Result<T, CallError> {
        let Connection { channel, verdict } = self.connection().clone();
        if let Ok(reply) = tokio::time::timeout(deadline, send(channel)).await {
            return reply.map(Response::into_inner).map_err(|status| match verdict.rejection() {
                Some(reason) => CallError::Unreachable(reason),
                None => status.into(),
            });
        }
        // The address may be gone without a closed connection (a lost node). Then every further call on the old connection
        // would time out too.
        *self.connection() = self.shared.dialler.connection();
        Err(CallError::Unknown(format!("no reply within {deadline:?}")))
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.shared.connection.lock().unwrap_or_else(PoisonError::into_inner)
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
        spawnable(&client.downgrade(DowngradeAction::Validate, Minor(3, 6)));
        spawnable(&client.alarms());
        spawnable(&client.disarm(Alarm { member: MemberId(1), kind: AlarmKind::NoSpace }));
        spawnable(&client.compact(Revision(1)));
        spawnable(&client.defragment());
        spawnable(&client.hash_kv(None));
        spawnable(&client.snapshot());
        spawnable(&client.count_keys(Read::Linearizable));
        spawnable(&client.get("key", Read::Linearizable));
        spawnable(&client.put("key", "value"));
        spawnable(&client.auth_status());
        spawnable(&client.role_get("role"));
    }
}
