//! A kubelet that runs one program: etcd, modelled. Every Pod gets an address of its own and answers there as the member
//! it is; the membership is shared and always consistent. Enough to drive the operator through every protocol step.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use quorate_etcd::wire::cluster_server::{Cluster, ClusterServer};
use quorate_etcd::wire::maintenance_server::{Maintenance, MaintenanceServer};
use quorate_etcd::wire::{self, Member, ResponseHeader};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::server::{Router, TcpIncoming};
use tonic::{Request, Response, Status, async_trait};

/// The modelled cluster and the Pods that run it.
#[derive(Clone)]
pub struct Members(Arc<Mutex<Model>>);

#[derive(Default)]
struct Model {
    /// Addresses of its own: other tests run beside this one, each in its process.
    net: Option<Net>,
    next_ip: u8,
    cluster_id: u64,
    next_id: u64,
    members: Vec<Member>,
    running: BTreeMap<String, Running>,
    hung: BTreeSet<String>,
    /// Every call that changed the membership.
    changes: Vec<String>,
}

struct Running {
    uid: String,
    ip: String,
    server: JoinHandle<()>,
}

impl Members {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Model { net: Some(Net::claim()), ..Model::default() })))
    }

    /// Runs whatever Pods there are, until dropped.
    pub async fn run(&self, client: kube::Client) -> Result<()> {
        let pods: Api<Pod> = Api::default_namespaced(client);
        loop {
            let there = pods.list(&ListParams::default()).await?.items;
            let uids: BTreeSet<String> = there.iter().filter_map(ResourceExt::uid).collect();
            self.model().stop_all_but(&uids);
            for pod in there {
                self.tend(&pods, &pod).await?;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// From now on this member takes connections and never answers.
    pub fn hang(&self, member: &str) {
        self.model().hung.insert(member.to_owned());
    }

    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.model().members.iter().map(|member| host(&member.peer_urls[0])).collect();
        names.sort();
        names
    }

    pub fn changes(&self) -> Vec<String> {
        self.model().changes.clone()
    }

    pub fn cluster_id(&self) -> String {
        format!("{:x}", self.model().cluster_id)
    }

    async fn tend(&self, pods: &Api<Pod>, pod: &Pod) -> Result<()> {
        let name = pod.name_any();
        let starts = !self.model().running.contains_key(&name);
        if starts {
            self.start(pod).await?;
        }
        let (ip, ready) = {
            let model = self.model();
            let voter = model.by_name(&name).is_some_and(|member| !member.is_learner);
            (model.running[&name].ip.clone(), voter && !model.hung.contains(&name))
        };
        let was_ready =
            pod.status.as_ref().and_then(|status| status.conditions.as_ref()).is_some_and(|all| {
                all.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
            });
        if starts || ready != was_ready {
            let ready = if ready { "True" } else { "False" };
            let status = json!({"status": {
                "phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": ready}],
            }});
            // Gone meanwhile: the next round sees that.
            let _ = pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
        }
        Ok(())
    }

    async fn start(&self, pod: &Pod) -> Result<()> {
        let name = pod.name_any();
        let ip = self.model().address();
        let args: Vec<String> = pod
            .spec
            .iter()
            .flat_map(|spec| &spec.containers)
            .flat_map(|one| one.args.clone().unwrap_or_default())
            .collect();
        let flag = |name: &str| {
            args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
        };
        let peers = flag("--initial-cluster").context("no --initial-cluster")?;
        if flag("--initial-cluster-state").as_deref() == Some("new") {
            self.model().found(&peers);
        }
        self.model().started(&name);
        let listener = TcpListener::bind((ip, 2379)).await?;
        let member = One { name: name.clone(), members: self.clone() };
        let router: Router = tonic::transport::Server::builder()
            .add_service(ClusterServer::new(member.clone()))
            .add_service(MaintenanceServer::new(member));
        let server = tokio::spawn(async move {
            let _ = router.serve_with_incoming(TcpIncoming::from(listener)).await;
        });
        let running = Running { uid: pod.uid().unwrap_or_default(), ip: ip.to_string(), server };
        self.model().running.insert(name, running);
        Ok(())
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.0.lock().expect("no test panics holding it")
    }
}

impl Model {
    fn address(&mut self) -> Ipv4Addr {
        self.next_ip += 1;
        self.net.as_ref().expect("claimed when made").address(self.next_ip)
    }

    fn stop_all_but(&mut self, uids: &BTreeSet<String>) {
        self.running.retain(|_, running| {
            let stays = uids.contains(&running.uid);
            if !stays {
                running.server.abort();
            }
            stays
        });
    }

    fn found(&mut self, peers: &str) {
        if !self.members.is_empty() {
            return;
        }
        self.cluster_id = 0xc1;
        for (_, url) in peers.split(',').filter_map(|peer| peer.split_once('=')) {
            self.add(url, false);
        }
    }

    fn add(&mut self, url: &str, is_learner: bool) -> Member {
        self.next_id += 1;
        let member = Member {
            id: 0xa0 + self.next_id,
            peer_urls: vec![url.to_owned()],
            is_learner,
            ..Member::default()
        };
        self.members.push(member.clone());
        member
    }

    fn started(&mut self, name: &str) {
        if let Some(member) = self.members.iter_mut().find(|member| host(&member.peer_urls[0]) == name) {
            name.clone_into(&mut member.name);
            member.client_urls = vec![format!("http://{name}:2379")];
        }
    }

    fn by_name(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    /// The first voter that runs, if a quorum of voters does.
    fn leader(&self) -> u64 {
        let voters: Vec<&Member> = self.members.iter().filter(|member| !member.is_learner).collect();
        let runs =
            |member: &&&Member| self.running.contains_key(&member.name) && !self.hung.contains(&member.name);
        let running: Vec<&&Member> = voters.iter().filter(runs).collect();
        if running.len() * 2 > voters.len() { running[0].id } else { 0 }
    }

    fn header(&self, name: &str) -> ResponseHeader {
        let member_id = self.by_name(name).map_or(0, |member| member.id);
        ResponseHeader { cluster_id: self.cluster_id, member_id, revision: 7, raft_term: 2 }
    }

    /// Membership changes need a quorum.
    fn change(&mut self, what: String) -> Result<(), Status> {
        if self.leader() == 0 {
            return Err(Status::unavailable("etcdserver: request timed out"));
        }
        self.changes.push(what);
        Ok(())
    }
}

/// A range of loopback addresses, claimed for as long as its last one is listened on.
struct Net {
    third: u8,
    _claim: std::net::TcpListener,
}

impl Net {
    fn claim() -> Self {
        let claim = |third| Some((third, std::net::TcpListener::bind((Self::at(third, 255), 2379)).ok()?));
        let (third, claim) = (1..=254).find_map(claim).expect("a range that nobody uses");
        Self { third, _claim: claim }
    }

    fn address(&self, last: u8) -> Ipv4Addr {
        Self::at(self.third, last)
    }

    fn at(third: u8, last: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, 91, third, last)
    }
}

fn host(url: &str) -> String {
    url.split("://").nth(1).and_then(|rest| rest.split('.').next()).unwrap_or_default().to_owned()
}

/// One member's view of the model.
#[derive(Clone)]
struct One {
    name: String,
    members: Members,
}

impl One {
    async fn model(&self) -> MutexGuard<'_, Model> {
        while self.members.model().hung.contains(&self.name) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.members.model()
    }
}

#[async_trait]
impl Cluster for One {
    async fn member_list(
        &self,
        _: Request<wire::MemberListRequest>,
    ) -> Result<Response<wire::MemberListResponse>, Status> {
        let model = self.model().await;
        Ok(Response::new(wire::MemberListResponse {
            header: Some(model.header(&self.name)),
            members: model.members.clone(),
        }))
    }

    async fn member_add(
        &self,
        request: Request<wire::MemberAddRequest>,
    ) -> Result<Response<wire::MemberAddResponse>, Status> {
        let request = request.into_inner();
        let mut model = self.model().await;
        let url = request.peer_urls[0].clone();
        if model.members.iter().any(|member| member.peer_urls[0] == url) {
            return Err(Status::failed_precondition("etcdserver: Peer URLs already exists"));
        }
        model.change(format!("add {}", host(&url)))?;
        let member = model.add(&url, request.is_learner);
        let members = model.members.clone();
        Ok(Response::new(wire::MemberAddResponse {
            header: Some(model.header(&self.name)),
            member: Some(member),
            members,
        }))
    }

    async fn member_remove(
        &self,
        request: Request<wire::MemberRemoveRequest>,
    ) -> Result<Response<wire::MemberRemoveResponse>, Status> {
        let id = request.into_inner().id;
        let mut model = self.model().await;
        let Some(gone) =
            model.members.iter().find(|member| member.id == id).map(|member| host(&member.peer_urls[0]))
        else {
            return Err(Status::not_found("etcdserver: member not found"));
        };
        model.change(format!("remove {gone}"))?;
        model.members.retain(|member| member.id != id);
        Ok(Response::new(wire::MemberRemoveResponse {
            header: Some(model.header(&self.name)),
            members: model.members.clone(),
        }))
    }

    async fn member_promote(
        &self,
        request: Request<wire::MemberPromoteRequest>,
    ) -> Result<Response<wire::MemberPromoteResponse>, Status> {
        let id = request.into_inner().id;
        let mut model = self.model().await;
        let member = model.members.iter_mut().find(|member| member.id == id);
        let member = member.ok_or_else(|| Status::not_found("etcdserver: member not found"))?;
        if member.name.is_empty() {
            let words = "etcdserver: can only promote a learner member which is in sync with leader";
            return Err(Status::failed_precondition(words));
        }
        member.is_learner = false;
        let promoted = member.name.clone();
        model.change(format!("promote {promoted}"))?;
        Ok(Response::new(wire::MemberPromoteResponse {
            header: Some(model.header(&self.name)),
            members: model.members.clone(),
        }))
    }

    async fn member_update(
        &self,
        _: Request<wire::MemberUpdateRequest>,
    ) -> Result<Response<wire::MemberUpdateResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}

#[async_trait]
impl Maintenance for One {
    type SnapshotStream = tokio_stream::Empty<Result<wire::SnapshotResponse, Status>>;

    async fn status(
        &self,
        _: Request<wire::StatusRequest>,
    ) -> Result<Response<wire::StatusResponse>, Status> {
        let model = self.model().await;
        if model.by_name(&self.name).is_none() {
            return Err(Status::unavailable("a removed member ends by itself"));
        }
        Ok(Response::new(wire::StatusResponse {
            header: Some(model.header(&self.name)),
            version: "3.6.16".to_owned(),
            leader: model.leader(),
            raft_index: 9,
            raft_applied_index: 9,
            is_learner: model.by_name(&self.name).is_some_and(|member| member.is_learner),
            ..wire::StatusResponse::default()
        }))
    }

    async fn move_leader(
        &self,
        _: Request<wire::MoveLeaderRequest>,
    ) -> Result<Response<wire::MoveLeaderResponse>, Status> {
        let mut model = self.model().await;
        // The first voter leads; the others move up.
        model.change("move leader".to_owned())?;
        model.members.rotate_left(1);
        Ok(Response::new(wire::MoveLeaderResponse { header: Some(model.header(&self.name)) }))
    }

    async fn alarm(&self, _: Request<wire::AlarmRequest>) -> Result<Response<wire::AlarmResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn defragment(
        &self,
        _: Request<wire::DefragmentRequest>,
    ) -> Result<Response<wire::DefragmentResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn hash(&self, _: Request<wire::HashRequest>) -> Result<Response<wire::HashResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn hash_kv(
        &self,
        _: Request<wire::HashKvRequest>,
    ) -> Result<Response<wire::HashKvResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn snapshot(
        &self,
        _: Request<wire::SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}
