//! The ports of members: etcd's gRPC over TLS with the Secret of the cluster, and the agent's HTTP. Every Pod has an address of its own.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use quorate_etcd::wire::auth_server::{Auth, AuthServer};
use quorate_etcd::wire::cluster_server::{Cluster, ClusterServer};
use quorate_etcd::wire::kv_server::{Kv, KvServer};
use quorate_etcd::wire::maintenance_server::{Maintenance, MaintenanceServer};
use quorate_etcd::wire::{self, ResponseHeader};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status, async_trait};

use super::etcd::{Etcd, Shared, lock};

const CLIENTS: u16 = 2379;
const AGENT: u16 = 9980;

/// etcd's `ReqTimeout`, 5 s, and twice the election time-out.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(7);

/// What the Secret of a cluster's servers has, as PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pem {
    pub ca: Vec<u8>,
    pub cert: Vec<u8>,
    pub key: Vec<u8>,
}

/// The TLS configurations of clusters, by their Secrets.
#[derive(Clone, Default)]
pub struct Certificates(Arc<Mutex<HashMap<(String, String), Kept>>>);

/// A Secret, and what was made of it once it was needed.
type Kept = (Pem, Option<Arc<ServerConfig>>);

impl Certificates {
    /// The Secret of a cluster is this.
    pub fn set(&self, key: (String, String), pem: Pem) {
        let mut all = lock(&self.0);
        let kept = all.entry(key).or_default();
        if kept.0 != pem {
            *kept = (pem, None);
        }
    }

    fn get(&self, key: &(String, String)) -> Result<Arc<ServerConfig>> {
        let mut all = lock(&self.0);
        let (pem, config) = all.get_mut(key).context("the cluster has no certificate")?;
        if let Some(config) = config {
            return Ok(config.clone());
        }
        let made = Arc::new(server(pem)?);
        *config = Some(made.clone());
        Ok(made)
    }
}

/// The ports of one Pod, until `stop`.
pub async fn serve(
    address: IpAddr,
    member: Member,
    key: (String, String),
    certificates: Certificates,
    stop: CancellationToken,
) -> Result<()> {
    let clients = TcpListener::bind(SocketAddr::new(address, CLIENTS)).await?;
    let agent = TcpListener::bind(SocketAddr::new(address, AGENT)).await?;
    let (ended, agents_end) = (stop.clone(), stop.clone());
    tokio::spawn(ended.run_until_cancelled_owned(async move {
        while let Ok((stream, _)) = clients.accept().await {
            let (member, key, certificates) = (member.clone(), key.clone(), certificates.clone());
            let serves = async move {
                // Of a client that hangs up, or that is refused, nobody need know.
                let _ = connection(stream, member, &key, &certificates).await;
            };
            tokio::spawn(stop.clone().run_until_cancelled_owned(serves));
        }
    }));
    tokio::spawn(agents_end.run_until_cancelled_owned(async move {
        while let Ok((stream, _)) = agent.accept().await {
            tokio::spawn(free_space(stream));
        }
    }));
    Ok(())
}

async fn connection(
    stream: TcpStream,
    member: Member,
    key: &(String, String),
    certificates: &Certificates,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let tls = TlsAcceptor::from(certificates.get(key)?).accept(stream).await?;
    let routes = Routes::new(ClusterServer::new(member.clone()))
        .add_service(KvServer::new(member.clone()))
        .add_service(AuthServer::new(member.clone()))
        .add_service(MaintenanceServer::new(member));
    let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    Ok(http.serve_connection(TokioIo::new(tls), TowerToHyperService::new(routes)).await?)
}

/// As the agent replies: two thirds of 8 GiB are free.
async fn free_space(mut stream: TcpStream) {
    let body = r#"{"freeBytes":5726623061,"volumeBytes":8589934592}"#;
    let reply = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.read(&mut [0; 1024]).await;
    let _ = stream.write_all(reply.as_bytes()).await;
}

fn server(pem: &Pem) -> Result<ServerConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem.ca).filter_map(Result::ok));
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem.cert).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(&pem.key)?;
    // As etcd with --client-cert-auth.
    let clients = WebPkiClientVerifier::builder(Arc::new(roots)).build()?;
    let mut config =
        ServerConfig::builder().with_client_cert_verifier(clients).with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // As etcd: its sessions are resumed, and its tickets have all that a process needs for that.
    config.ticketer = rustls::crypto::ring::Ticketer::new()?;
    config.send_tls13_tickets = 1;
    Ok(config)
}

/// One member, as a server.
#[derive(Clone)]
pub struct Member {
    pub name: String,
    pub etcd: Shared,
}

type Reply<T> = Result<Response<T>, Status>;

impl Member {
    /// An answer from the member's own state.
    #[expect(clippy::unnecessary_wraps, reason = "what every call returns")]
    fn answer<T>(&self, act: impl FnOnce(&mut Etcd, ResponseHeader) -> T) -> Reply<T> {
        let mut etcd = lock(&self.etcd);
        let header = self.header(&etcd);
        Ok(Response::new(act(&mut etcd, header)))
    }

    /// An answer that needs a quorum.
    async fn agreed<T>(&self, act: impl FnOnce(&mut Etcd, ResponseHeader) -> T) -> Reply<T> {
        if !lock(&self.etcd).has_quorum() {
            tokio::time::sleep(REQUEST_TIMEOUT).await;
            return Err(Status::unavailable("etcdserver: request timed out"));
        }
        self.answer(act)
    }

    fn header(&self, etcd: &Etcd) -> ResponseHeader {
        let member_id = etcd.members.get(&self.name).map_or(0, |member| member.id);
        let revision = etcd.revision().cast_signed();
        ResponseHeader { cluster_id: etcd.id, member_id, revision, raft_term: etcd.term }
    }
}

fn not_here<T>() -> Reply<T> {
    Err(Status::unimplemented("the members of a benchmark do not do this"))
}

#[async_trait]
impl Cluster for Member {
    async fn member_list(
        &self,
        request: Request<wire::MemberListRequest>,
    ) -> Reply<wire::MemberListResponse> {
        let list = |etcd: &mut Etcd, header| {
            let members = etcd.members.iter().map(|(name, member)| wire::Member {
                id: member.id,
                name: name.clone(),
                peer_urls: vec![member.peer_url.clone()],
                client_urls: vec![member.client_url.clone()],
                is_learner: false,
            });
            wire::MemberListResponse { members: members.collect(), header: Some(header) }
        };
        if request.into_inner().linearizable { self.agreed(list).await } else { self.answer(list) }
    }

    async fn member_add(&self, _: Request<wire::MemberAddRequest>) -> Reply<wire::MemberAddResponse> {
        not_here()
    }

    async fn member_remove(
        &self,
        _: Request<wire::MemberRemoveRequest>,
    ) -> Reply<wire::MemberRemoveResponse> {
        not_here()
    }

    async fn member_promote(
        &self,
        _: Request<wire::MemberPromoteRequest>,
    ) -> Reply<wire::MemberPromoteResponse> {
        not_here()
    }
}

#[async_trait]
impl Maintenance for Member {
    async fn status(&self, _: Request<wire::StatusRequest>) -> Reply<wire::StatusResponse> {
        self.answer(|etcd, header| {
            let (leader, index, term) = (etcd.leader.unwrap_or(0), etcd.index(), etcd.term);
            let has_quorum = etcd.has_quorum();
            etcd.note_asked(&self.name);
            let version = etcd.members.get(&self.name).map(|own| own.version.clone()).unwrap_or_default();
            let line = version.rsplit_once('.').map(|(line, _)| format!("{line}.0")).unwrap_or_default();
            wire::StatusResponse {
                header: Some(header),
                version,
                leader,
                raft_index: index,
                raft_applied_index: index,
                raft_term: term,
                storage_version: line,
                db_size: 20 << 20,
                db_size_in_use: 15 << 20,
                db_size_quota: 2 << 30,
                errors: if has_quorum { Vec::new() } else { vec!["etcdserver: no leader".to_owned()] },
                ..wire::StatusResponse::default()
            }
        })
    }

    async fn hash_kv(&self, request: Request<wire::HashKvRequest>) -> Reply<wire::HashKvResponse> {
        let asked = u64::try_from(request.into_inner().revision).unwrap_or(0);
        self.answer(|etcd, header| {
            let revision = if asked == 0 { etcd.revision() } else { asked };
            wire::HashKvResponse {
                header: Some(header),
                hash: etcd.hash(revision),
                compact_revision: 1,
                hash_revision: revision.cast_signed(),
            }
        })
    }

    type SnapshotStream = futures::stream::Empty<Result<wire::SnapshotResponse, Status>>;

    async fn snapshot(&self, _: Request<wire::SnapshotRequest>) -> Reply<Self::SnapshotStream> {
        not_here()
    }

    async fn move_leader(
        &self,
        request: Request<wire::MoveLeaderRequest>,
    ) -> Reply<wire::MoveLeaderResponse> {
        let to = request.into_inner().target_id;
        let own = self.answer(|etcd, header| (etcd.leader == Some(header.member_id), header))?.into_inner();
        match own {
            (false, _) => Err(Status::new(Code::FailedPrecondition, "etcdserver: not leader")),
            (true, header) if self.answer(|etcd, _| etcd.move_leader(to))?.into_inner() => {
                Ok(Response::new(wire::MoveLeaderResponse { header: Some(header) }))
            }
            (true, _) => Err(Status::new(Code::FailedPrecondition, "etcdserver: bad leader transferee")),
        }
    }

    async fn downgrade(&self, _: Request<wire::DowngradeRequest>) -> Reply<wire::DowngradeResponse> {
        not_here()
    }

    async fn defragment(&self, _: Request<wire::DefragmentRequest>) -> Reply<wire::DefragmentResponse> {
        self.answer(|_, header| wire::DefragmentResponse { header: Some(header) })
    }

    /// Every one is an entry; there are no alarms.
    async fn alarm(&self, _: Request<wire::AlarmRequest>) -> Reply<wire::AlarmResponse> {
        let list = |etcd: &mut Etcd, header| {
            etcd.append();
            wire::AlarmResponse { header: Some(header), alarms: Vec::new() }
        };
        self.agreed(list).await
    }
}

#[async_trait]
impl Kv for Member {
    async fn range(&self, _: Request<wire::RangeRequest>) -> Reply<wire::RangeResponse> {
        self.agreed(|_, header| wire::RangeResponse { header: Some(header), ..Default::default() }).await
    }

    async fn put(&self, _: Request<wire::PutRequest>) -> Reply<wire::PutResponse> {
        let put = |etcd: &mut Etcd, header| {
            etcd.append();
            wire::PutResponse { header: Some(header) }
        };
        self.agreed(put).await
    }

    async fn txn(&self, _: Request<wire::TxnRequest>) -> Reply<wire::TxnResponse> {
        not_here()
    }

    async fn compact(&self, _: Request<wire::CompactionRequest>) -> Reply<wire::CompactionResponse> {
        self.agreed(|_, header| wire::CompactionResponse { header: Some(header) }).await
    }
}

/// Auth is off, and nobody switches it on.
macro_rules! auth {
    ($($call:ident: $request:ident -> $reply:ident,)*) => {
        #[async_trait]
        impl Auth for Member {
            async fn auth_status(&self, _: Request<wire::AuthStatusRequest>) -> Reply<wire::AuthStatusResponse> {
                self.agreed(|etcd, header| {
                    etcd.append();
                    wire::AuthStatusResponse { header: Some(header), enabled: false, auth_revision: 1 }
                })
                .await
            }
            $(async fn $call(&self, _: Request<wire::$request>) -> Reply<wire::$reply> { not_here() })*
        }
    };
}

auth! {
    auth_enable: AuthEnableRequest -> AuthEnableResponse,
    auth_disable: AuthDisableRequest -> AuthDisableResponse,
    user_add: AuthUserAddRequest -> AuthUserAddResponse,
    user_get: AuthUserGetRequest -> AuthUserGetResponse,
    user_list: AuthUserListRequest -> AuthUserListResponse,
    user_delete: AuthUserDeleteRequest -> AuthUserDeleteResponse,
    user_grant_role: AuthUserGrantRoleRequest -> AuthUserGrantRoleResponse,
    user_revoke_role: AuthUserRevokeRoleRequest -> AuthUserRevokeRoleResponse,
    role_add: AuthRoleAddRequest -> AuthRoleAddResponse,
    role_get: AuthRoleGetRequest -> AuthRoleGetResponse,
    role_list: AuthRoleListRequest -> AuthRoleListResponse,
    role_delete: AuthRoleDeleteRequest -> AuthRoleDeleteResponse,
    role_grant_permission: AuthRoleGrantPermissionRequest -> AuthRoleGrantPermissionResponse,
    role_revoke_permission: AuthRoleRevokePermissionRequest -> AuthRoleRevokePermissionResponse,
}
