//! A member played by the server side of the port: slow to answer, and counting.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use quorate_etcd::testkit::Pki;
use quorate_etcd::wire::cluster_server::{Cluster, ClusterServer};
use quorate_etcd::wire::kv_server::{Kv, KvServer};
use quorate_etcd::wire::maintenance_server::{Maintenance, MaintenanceServer};
use quorate_etcd::wire::{
    AlarmRequest, AlarmResponse, DowngradeRequest, DowngradeResponse, HashKvRequest, HashKvResponse,
    MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest,
    MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse, MoveLeaderRequest, MoveLeaderResponse,
    PutRequest, PutResponse, RangeRequest, RangeResponse, ResponseHeader, SnapshotRequest, SnapshotResponse,
    StatusRequest, StatusResponse, TxnRequest, TxnResponse,
};
use quorate_etcd::wire::{CompactionRequest, CompactionResponse, DefragmentRequest, DefragmentResponse};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};
use tonic::{Request, Response, Status};

#[derive(Clone)]
pub struct FakeMember {
    pub address: SocketAddr,
    statuses: Arc<AtomicUsize>,
    auth: Auth,
    hangs: Arc<AtomicBool>,
}

/// What etcd before 3.6.12 answers to a call without a user.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    Disabled,
    RefusesVoter,
    RefusesLearner,
}

pub async fn start(auth: Auth) -> FakeMember {
    start_with(auth, tonic::transport::Server::builder()).await
}

/// One that serves with this certificate, to clients of the same authority.
pub async fn start_tls(pki: &Pki) -> FakeMember {
    let server = pki.leaf("server", &["127.0.0.1"]);
    let pem = |file: &Path| fs::read_to_string(file).unwrap();
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(pem(&server.cert), pem(&server.key)))
        .client_ca_root(Certificate::from_pem(pem(&pki.ca_file())));
    start_with(Auth::Disabled, tonic::transport::Server::builder().tls_config(tls).unwrap()).await
}

async fn start_with(auth: Auth, mut server: tonic::transport::Server) -> FakeMember {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let member = FakeMember {
        address: listener.local_addr().unwrap(),
        statuses: Arc::default(),
        auth,
        hangs: Arc::default(),
    };
    let (hangs, mut held) = (member.hangs.clone(), Vec::new());
    let incoming = TcpListenerStream::new(listener).filter_map(move |connection| {
        let serve = !hangs.load(Ordering::SeqCst);
        let connection = if serve {
            Some(connection)
        } else {
            held.push(connection);
            None
        };
        std::future::ready(connection)
    });
    let server = server
        .add_service(MaintenanceServer::new(member.clone()))
        .add_service(KvServer::new(member.clone()))
        .add_service(ClusterServer::new(member.clone()))
        .serve_with_incoming(incoming);
    tokio::spawn(server);
    member
}

impl FakeMember {
    /// Accepts connections from now on, and answers none.
    pub fn hang(&self) {
        self.hangs.store(true, Ordering::SeqCst);
    }

    /// How often it was asked for its status.
    pub fn statuses(&self) -> usize {
        self.statuses.load(Ordering::SeqCst)
    }
}

impl FakeMember {
    fn refuse_by_auth(&self) -> Result<(), Status> {
        match self.auth {
            Auth::Disabled => Ok(()),
            Auth::RefusesVoter | Auth::RefusesLearner => {
                Err(Status::invalid_argument("etcdserver: user name is empty"))
            }
        }
    }
}

fn not_played<T>() -> Result<T, Status> {
    Err(Status::unimplemented("not played"))
}

#[tonic::async_trait]
impl Maintenance for FakeMember {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        self.statuses.fetch_add(1, Ordering::SeqCst);
        self.refuse_by_auth()?;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let header = ResponseHeader { cluster_id: 1, member_id: 2, revision: 3, raft_term: 4 };
        let version = "3.6.0".to_owned();
        Ok(Response::new(StatusResponse { header: Some(header), version, leader: 2, ..Default::default() }))
    }

    async fn alarm(&self, _: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        not_played()
    }

    async fn hash_kv(&self, _: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        not_played()
    }

    type SnapshotStream = tokio_stream::Empty<Result<SnapshotResponse, Status>>;

    async fn snapshot(&self, _: Request<SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        not_played()
    }

    async fn move_leader(
        &self,
        _: Request<MoveLeaderRequest>,
    ) -> Result<Response<MoveLeaderResponse>, Status> {
        not_played()
    }

    async fn downgrade(&self, _: Request<DowngradeRequest>) -> Result<Response<DowngradeResponse>, Status> {
        not_played()
    }

    async fn defragment(
        &self,
        _: Request<DefragmentRequest>,
    ) -> Result<Response<DefragmentResponse>, Status> {
        not_played()
    }
}

#[tonic::async_trait]
impl Kv for FakeMember {
    async fn range(&self, _: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        self.refuse_by_auth()?;
        Ok(Response::new(RangeResponse::default()))
    }

    async fn put(&self, _: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        not_played()
    }

    async fn txn(&self, _: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        not_played()
    }

    async fn compact(&self, _: Request<CompactionRequest>) -> Result<Response<CompactionResponse>, Status> {
        not_played()
    }
}

#[tonic::async_trait]
impl Cluster for FakeMember {
    async fn member_list(
        &self,
        _: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        if self.auth == Auth::RefusesLearner {
            return Err(Status::unavailable("etcdserver: rpc not supported for learner"));
        }
        self.refuse_by_auth()?;
        Ok(Response::new(MemberListResponse::default()))
    }

    async fn member_add(&self, _: Request<MemberAddRequest>) -> Result<Response<MemberAddResponse>, Status> {
        not_played()
    }

    async fn member_remove(
        &self,
        _: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        not_played()
    }

    async fn member_promote(
        &self,
        _: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        not_played()
    }
}
