//! The gRPC server of a modelled member: etcd's messages, etcd's refusals, and the outcome of a call that the test decides.

use std::time::Duration;

use quorate_etcd::wire::cluster_server::Cluster;
use quorate_etcd::wire::downgrade_request::DowngradeAction as WireAction;
use quorate_etcd::wire::kv_server::Kv;
use quorate_etcd::wire::maintenance_server::Maintenance;
use quorate_etcd::wire::{self, ResponseHeader};
use quorate_model::effect::DowngradeAction;
use quorate_model::snapshot::{Alarm, AlarmKind};
use quorate_model::{ClusterId, MemberId, PeerUrl, Refusal, Version};
use quorate_sim::etcd::{Conf, Failed};
use quorate_sim::world::World as Nodes;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status, async_trait};

use super::members::{Call, CallOutcome, Members, host};

/// etcd's `ReqTimeout`, 5 s, and twice the election time-out.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(7);

/// One member, as the server of one connection.
#[derive(Clone)]
pub struct Member {
    pub at: String,
    pub name: String,
    pub members: Members,
    pub connection: CancellationToken,
}

type Reply<T> = Result<Response<T>, Status>;

impl Member {
    /// Carries out a call with the outcome that the test decides.
    async fn handle<T: Send + 'static>(
        &self,
        method: &'static str,
        act: impl Fn(&mut Nodes, &Self) -> Result<T, Failed> + Clone + Send + Sync + 'static,
    ) -> Reply<T> {
        if self.members.hangs(&self.name) {
            return std::future::pending().await;
        }
        match self.members.outcome_of(&Call { member: self.name.clone(), method }) {
            CallOutcome::Done => self.arrives(&act).await,
            CallOutcome::Never => std::future::pending().await,
            CallOutcome::Refused(code, words) => Err(Status::new(code, words)),
            CallOutcome::RefusedAfter(code, words) => {
                self.arrives(&act).await?;
                Err(Status::new(code, words))
            }
            CallOutcome::NotSent => self.hang_up().await,
            CallOutcome::ReplyLost => {
                let _ = self.arrives(&act).await;
                self.hang_up().await
            }
            CallOutcome::Twice => {
                let _ = self.arrives(&act).await;
                self.arrives(&act).await
            }
            CallOutcome::Slow(by) => {
                tokio::time::sleep(by).await;
                self.arrives(&act).await
            }
            CallOutcome::Late(by) => {
                let (member, act) = (self.clone(), act.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(by).await;
                    let _ = member.arrives(&act).await;
                });
                std::future::pending().await
            }
        }
    }

    async fn arrives<T>(&self, act: &(impl Fn(&mut Nodes, &Self) -> Result<T, Failed> + Sync)) -> Reply<T> {
        let reply = {
            let mut nodes = self.members.nodes();
            nodes.now = self.members.now();
            act(&mut nodes, self)
        };
        match reply {
            Ok(reply) => Ok(Response::new(reply)),
            Err(Failed::Refused(refusal)) => Err(refused(refusal)),
            Err(Failed::Unknown) => {
                tokio::time::sleep(REQUEST_TIMEOUT).await;
                Err(Status::unavailable("etcdserver: request timed out"))
            }
            // A member accepts connections before it serves, and one behind a partition is silent.
            Err(Failed::Unreachable) => std::future::pending().await,
        }
    }

    async fn hang_up<T>(&self) -> Reply<T> {
        self.connection.cancel();
        std::future::pending().await
    }

    fn changed(&self, nodes: &mut Nodes, what: String) {
        let now = nodes.now;
        nodes.etcd.settle(now);
        self.members.changed(what);
    }

    fn header(&self, nodes: &Nodes) -> ResponseHeader {
        let dir = nodes.etcd.process(&self.at).and_then(|process| nodes.etcd.dir_of(process));
        let (cluster_id, member_id) = dir.map_or((0, 0), |dir| (dir.cluster.0, dir.member.0));
        ResponseHeader { cluster_id, member_id, revision: 0, raft_term: 2 }
    }

    /// The list of members, as this member knows it.
    fn list(&self, nodes: &Nodes) -> Vec<wire::Member> {
        nodes.etcd.member_list(&self.at).map(|(_, conf)| members(&conf)).unwrap_or_default()
    }
}

fn members(conf: &Conf) -> Vec<wire::Member> {
    let one = |(id, peer): (&MemberId, &quorate_sim::etcd::Peer)| wire::Member {
        id: id.0,
        name: peer.name.clone(),
        peer_urls: vec![peer.url.as_str().to_owned()],
        client_urls: if peer.started { vec![format!("http://{}:2379", peer.name)] } else { Vec::new() },
        is_learner: peer.is_learner,
    };
    conf.members.iter().map(one).collect()
}

/// As protobuf prints an alarm in a Status.
fn in_etcds_words(Alarm { member, kind }: Alarm) -> String {
    let kind = match kind {
        AlarmKind::NoSpace => "NOSPACE",
        AlarmKind::Corrupt => "CORRUPT",
    };
    format!("memberID:{} alarm:{kind} ", member.0)
}

fn name_of(nodes: &Nodes, id: MemberId) -> String {
    let peers = nodes.etcd.groups().filter_map(|group| group.conf().members.get(&id));
    peers.map(|peer| host(peer.url.as_str())).next().unwrap_or_default()
}

/// In etcd's own words and codes (`rpctypes/error.go`).
fn refused(refusal: Refusal) -> Status {
    let (code, words) = match refusal {
        Refusal::UnhealthyCluster => (Code::Unavailable, "etcdserver: unhealthy cluster"),
        Refusal::NotEnoughStartedMembers => (
            Code::FailedPrecondition,
            "etcdserver: re-configuration failed due to not enough started members",
        ),
        Refusal::TooManyLearners => {
            (Code::FailedPrecondition, "etcdserver: too many learner members in cluster")
        }
        Refusal::LearnerNotReady => (
            Code::FailedPrecondition,
            "etcdserver: can only promote a learner member which is in sync with leader",
        ),
        Refusal::PeerUrlExists => (Code::FailedPrecondition, "etcdserver: Peer URLs already exists"),
        Refusal::MemberNotFound => (Code::NotFound, "etcdserver: member not found"),
        Refusal::MemberNotLearner => {
            (Code::FailedPrecondition, "etcdserver: can only promote a learner member")
        }
        Refusal::NotLeader => (Code::FailedPrecondition, "etcdserver: not leader"),
        Refusal::BadLeaderTransferee => (Code::FailedPrecondition, "etcdserver: bad leader transferee"),
        Refusal::NotSupportedForLearner => (Code::Unavailable, "etcdserver: rpc not supported for learner"),
        Refusal::Other => (Code::InvalidArgument, "etcdserver: invalid downgrade target version"),
        Refusal::MemberExists
        | Refusal::NoLeader
        | Refusal::ClusterIdMismatch
        | Refusal::PermissionDenied
        | Refusal::Unauthenticated
        | Refusal::NoUser
        | Refusal::AuthRevisionOld
        | Refusal::UserExists
        | Refusal::RoleExists
        | Refusal::UserNotFound
        | Refusal::RoleNotFound
        | Refusal::RoleNotGranted
        | Refusal::PermissionNotGranted
        | Refusal::AuthNotEnabled
        | Refusal::RootUserMissing
        | Refusal::RootRoleMissing
        | Refusal::NoSpace
        | Refusal::Corrupt => unreachable!("the modelled etcd never refuses with {refusal:?}"),
    };
    Status::new(code, words)
}

#[async_trait]
impl Cluster for Member {
    async fn member_list(&self, _: Request<wire::MemberListRequest>) -> Reply<wire::MemberListResponse> {
        self.handle("MemberList", |nodes, own| {
            let (_, conf): (ClusterId, Conf) = nodes.etcd.member_list(&own.at)?;
            Ok(wire::MemberListResponse { header: Some(own.header(nodes)), members: members(&conf) })
        })
        .await
    }

    async fn member_add(&self, request: Request<wire::MemberAddRequest>) -> Reply<wire::MemberAddResponse> {
        let request = request.into_inner();
        let url = PeerUrl::new(request.peer_urls.first().cloned().unwrap_or_default());
        if !request.is_learner {
            return Err(Status::unimplemented("voters are not added"));
        }
        self.handle("MemberAdd", move |nodes, own| {
            let now = nodes.now;
            let id = nodes.etcd.add_learner(&own.at, &url, now)?;
            own.changed(nodes, format!("add {}", host(url.as_str())));
            let all = own.list(nodes);
            let member = all.iter().find(|member| member.id == id.0).cloned();
            Ok(wire::MemberAddResponse { header: Some(own.header(nodes)), member, members: all })
        })
        .await
    }

    async fn member_remove(
        &self,
        request: Request<wire::MemberRemoveRequest>,
    ) -> Reply<wire::MemberRemoveResponse> {
        let id = MemberId(request.into_inner().id);
        self.handle("MemberRemove", move |nodes, own| {
            let (now, gone) = (nodes.now, name_of(nodes, id));
            nodes.etcd.remove(&own.at, id, now)?;
            let header = own.header(nodes);
            own.changed(nodes, format!("remove {gone}"));
            Ok(wire::MemberRemoveResponse { header: Some(header), members: own.list(nodes) })
        })
        .await
    }

    async fn member_promote(
        &self,
        request: Request<wire::MemberPromoteRequest>,
    ) -> Reply<wire::MemberPromoteResponse> {
        let id = MemberId(request.into_inner().id);
        self.handle("MemberPromote", move |nodes, own| {
            nodes.etcd.promote(&own.at, id)?;
            let promoted = name_of(nodes, id);
            own.changed(nodes, format!("promote {promoted}"));
            Ok(wire::MemberPromoteResponse { header: Some(own.header(nodes)), members: own.list(nodes) })
        })
        .await
    }
}

#[async_trait]
impl Maintenance for Member {
    async fn status(&self, _: Request<wire::StatusRequest>) -> Reply<wire::StatusResponse> {
        self.handle("Status", |nodes, own| {
            let status = nodes.etcd.status(&own.at)?;
            let header = ResponseHeader { revision: status.revision.0, ..own.header(nodes) };
            Ok(wire::StatusResponse {
                header: Some(header),
                version: status.version.to_string(),
                leader: status.leader.map_or(0, |leader| leader.0),
                raft_index: status.committed,
                raft_applied_index: status.applied,
                is_learner: status.is_learner,
                storage_version: status.storage_version.map_or(String::new(), |line| format!("{line}.0")),
                downgrade_info: status
                    .downgrade
                    .map(|line| wire::DowngradeInfo { enabled: true, target_version: format!("{line}.0") }),
                db_size: i64::try_from(status.database.size).unwrap_or(i64::MAX),
                db_size_in_use: i64::try_from(status.database.in_use).unwrap_or(i64::MAX),
                db_size_quota: status.database.quota.and_then(|quota| i64::try_from(quota).ok()).unwrap_or(0),
                errors: status
                    .alarms
                    .iter()
                    .map(|alarm| in_etcds_words(*alarm))
                    .chain(status.errors)
                    .collect(),
                ..wire::StatusResponse::default()
            })
        })
        .await
    }

    async fn hash_kv(&self, _: Request<wire::HashKvRequest>) -> Reply<wire::HashKvResponse> {
        self.handle("HashKV", |nodes, own| {
            let made = nodes.etcd.hash_kv(&own.at)?;
            let header = ResponseHeader { revision: made.latest.0, ..own.header(nodes) };
            Ok(wire::HashKvResponse {
                header: Some(header),
                hash: made.hash,
                compact_revision: made.compacted.0,
                hash_revision: made.revision.0,
            })
        })
        .await
    }

    type SnapshotStream = tokio_stream::Empty<Result<wire::SnapshotResponse, Status>>;

    async fn snapshot(&self, _: Request<wire::SnapshotRequest>) -> Reply<Self::SnapshotStream> {
        Err(Status::unimplemented("Snapshot"))
    }

    async fn move_leader(
        &self,
        request: Request<wire::MoveLeaderRequest>,
    ) -> Reply<wire::MoveLeaderResponse> {
        let to = MemberId(request.into_inner().target_id);
        self.handle("MoveLeader", move |nodes, own| {
            let now = nodes.now;
            nodes.etcd.move_leader(&own.at, to, now)?;
            let next = name_of(nodes, to);
            own.changed(nodes, format!("lead {next}"));
            Ok(wire::MoveLeaderResponse { header: Some(own.header(nodes)) })
        })
        .await
    }

    async fn downgrade(&self, request: Request<wire::DowngradeRequest>) -> Reply<wire::DowngradeResponse> {
        let request = request.into_inner();
        let action = match request.action() {
            WireAction::Validate => DowngradeAction::Validate,
            WireAction::Enable => DowngradeAction::Enable,
            WireAction::Cancel => DowngradeAction::Cancel,
        };
        let to = request
            .version
            .parse::<Version>()
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.handle("Downgrade", move |nodes, own| {
            nodes.etcd.downgrade(&own.at, action, to.line())?;
            // A question may be asked again.
            if action != DowngradeAction::Validate {
                own.changed(nodes, format!("downgrade {action:?} {}", to.line()));
            }
            let (header, version) = (Some(own.header(nodes)), to.to_string());
            Ok(wire::DowngradeResponse { header, version })
        })
        .await
    }

    async fn defragment(&self, _: Request<wire::DefragmentRequest>) -> Reply<wire::DefragmentResponse> {
        self.handle("Defragment", |nodes, own| {
            nodes.etcd.defragment(&own.at)?;
            let now = nodes.now;
            nodes.etcd.settle(now);
            Ok(wire::DefragmentResponse { header: None })
        })
        .await
    }

    async fn alarm(&self, request: Request<wire::AlarmRequest>) -> Reply<wire::AlarmResponse> {
        let request = request.into_inner();
        if request.action() == wire::AlarmAction::Deactivate {
            let kind = match request.alarm() {
                wire::AlarmType::None => return Err(Status::unimplemented("all alarms at once")),
                wire::AlarmType::NoSpace => AlarmKind::NoSpace,
                wire::AlarmType::Corrupt => AlarmKind::Corrupt,
            };
            let alarm = Alarm { member: MemberId(request.member_id), kind };
            return self
                .handle("AlarmDisarm", move |nodes, own| {
                    nodes.etcd.disarm_one(&own.at, alarm)?;
                    own.changed(nodes, format!("disarm {kind}"));
                    Ok(wire::AlarmResponse { header: Some(own.header(nodes)), alarms: Vec::new() })
                })
                .await;
        }
        self.handle("AlarmList", |nodes, own| {
            let now = nodes.now;
            nodes.etcd.alarm_list(&own.at)?;
            nodes.etcd.settle(now);
            Ok(wire::AlarmResponse { header: Some(own.header(nodes)), alarms: Vec::new() })
        })
        .await
    }
}

#[async_trait]
impl Kv for Member {
    async fn range(&self, _: Request<wire::RangeRequest>) -> Reply<wire::RangeResponse> {
        Err(Status::unimplemented("the operator reads no keys"))
    }

    async fn put(&self, _: Request<wire::PutRequest>) -> Reply<wire::PutResponse> {
        Err(Status::unimplemented("the operator writes no keys"))
    }

    async fn txn(&self, _: Request<wire::TxnRequest>) -> Reply<wire::TxnResponse> {
        Err(Status::unimplemented("the operator writes no keys"))
    }

    async fn compact(&self, _: Request<wire::CompactionRequest>) -> Reply<wire::CompactionResponse> {
        self.handle("Compact", |nodes, own| {
            nodes.etcd.compact(&own.at)?;
            Ok(wire::CompactionResponse { header: Some(own.header(nodes)) })
        })
        .await
    }
}
