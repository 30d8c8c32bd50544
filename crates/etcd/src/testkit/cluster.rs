//! A cluster of etcd processes.

use std::path::Path;

use quorate_model::{MemberId, Minor, PeerUrl};
use tempfile::TempDir;

use super::address::own_address;
use super::wait::eventually;
use super::{Leaf, Member, Pki};
use crate::{CallError, MemberStatus, Tls};

/// The common name of peers' certificates.
pub const PEER_NAME: &str = "quorate-peer";

/// The cluster to start.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The minor version of etcd.
    pub minor: Minor,
    /// The number of members.
    pub size: usize,
    /// Whether members serve TLS. Certificates are valid for `<member>.test.svc` only, not for addresses.
    pub tls: bool,
    /// Whether members speak TLS with each other, with certificates of the common name [`PEER_NAME`], which are valid for their addresses.
    pub peer_tls: bool,
    /// Further flags of each member.
    pub args: Vec<String>,
}

/// A running cluster. Members are named `m0`, `m1`, ...
pub struct Cluster {
    /// The members, in the order of their start.
    pub members: Vec<Member>,
    pki: Option<Pki>,
    setup: Setup,
    dir: TempDir,
}

impl Setup {
    /// This many members of this version, with plain http.
    pub fn new(minor: Minor, size: usize) -> Self {
        Self { minor, size, tls: false, peer_tls: false, args: Vec::new() }
    }
}

impl Cluster {
    /// A cluster of which no member runs yet.
    pub fn new(setup: Setup) -> Self {
        let dir = tempfile::Builder::new().prefix("etcd-test-").tempdir().expect("a temporary folder");
        let pki = (setup.tls || setup.peer_tls).then(|| Pki::new(&dir.path().join("pki")));
        let mut cluster = Self { members: Vec::new(), pki, setup, dir };
        cluster.members = (0..cluster.setup.size).map(|n| cluster.member(n)).collect();
        cluster
    }

    /// Starts a cluster and waits until every member knows the leader.
    pub async fn start(setup: Setup) -> Self {
        let mut cluster = Self::new(setup);
        let all: Vec<_> = cluster.members.iter().map(listing).collect();
        for member in &mut cluster.members {
            member.set_initial(&all, true);
            member.start();
        }
        cluster.led().await;
        cluster
    }

    /// A member that is not in the member list and does not run. Its peer URL can be added.
    pub fn spare(&self, n: usize) -> Member {
        self.member(n)
    }

    /// Starts an added member, which joins the cluster.
    pub fn join(&mut self, mut member: Member) {
        let mut all: Vec<_> = self.members.iter().map(listing).collect();
        all.push(listing(&member));
        member.set_initial(&all, false);
        member.start();
        self.members.push(member);
    }

    /// The authority that signs for this cluster. Panics without TLS.
    pub fn pki(&self) -> &Pki {
        self.pki.as_ref().expect("a cluster with TLS")
    }

    /// The temporary directory, also for files of the test.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Waits until every member knows the leader. Returns the position of the leader.
    pub async fn led(&self) -> usize {
        let mut ids = Vec::new();
        for member in &self.members {
            let client = member.client();
            let status = eventually("the member knows a leader", async || match client.status().await {
                Ok(status) if status.leader.is_some() => Ok(status),
                Ok(status) => Err(format!("{status:?}")),
                Err(error) => Err(error.to_string()),
            });
            ids.push(status.await);
        }
        let leads = |status: &MemberStatus| status.is_leader();
        ids.iter().position(leads).expect("the leader is one of them")
    }

    /// The id of the member at this position.
    pub async fn id(&self, n: usize) -> MemberId {
        let client = self.members[n].client();
        let status = eventually("the member answers", async || client.status().await);
        status.await.member_id
    }

    /// Adds a learner, which etcd refuses during the first seconds of a cluster.
    pub async fn add_learner(&self, member: &Member) -> MemberId {
        let client = self.members[0].client();
        let add = async || match client.member_add_learner(&member.peer_url()).await {
            Err(CallError::Unknown(reason)) => panic!("cannot tell whether it was added: {reason}"),
            known => known,
        };
        eventually("the learner is added", add).await
    }

    fn member(&self, n: usize) -> Member {
        let name = format!("m{n}");
        let tls = self.pki.as_ref().filter(|_| self.setup.tls).map(|pki| tls(pki, &name));
        let (dir, address) = (self.dir.path().join(&name), own_address());
        let member = Member::new(name.clone(), address, dir, self.setup.minor);
        let mut member = member.with_tls(tls).with_peer_tls(self.setup.peer_tls);
        let mut args = self.setup.args.clone();
        if let Some(pki) = self.pki.as_ref().filter(|_| self.setup.tls) {
            args.extend(tls_flags("", &pki.leaf(&name, &[&server_name(&name)]), pki));
        }
        if let Some(pki) = self.pki.as_ref().filter(|_| self.setup.peer_tls) {
            // All connections on this machine come from 127.0.0.1, for which etcd wants the certificate to be valid.
            let names = [&*address.to_string(), "127.0.0.1"];
            let leaf = pki.leaf_of(PEER_NAME, &format!("{name}-peer"), &names);
            args.extend(tls_flags("peer-", &leaf, pki));
        }
        member.add_args(args);
        member
    }
}

fn tls_flags(prefix: &str, leaf: &Leaf, pki: &Pki) -> Vec<String> {
    let file = |flag: &str, file: &Path| format!("--{prefix}{flag}={}", file.display());
    vec![
        format!("--{prefix}client-cert-auth"),
        file("cert-file", &leaf.cert),
        file("key-file", &leaf.key),
        file("trusted-ca-file", &pki.ca_file()),
    ]
}

fn listing(member: &Member) -> (String, PeerUrl) {
    (member.name.clone(), member.peer_url())
}

fn tls(pki: &Pki, member: &str) -> Tls {
    let client = pki.leaf(&format!("{member}-client"), &[]);
    pki.tls(&client, &server_name(member))
}

fn server_name(member: &str) -> String {
    format!("{member}.test.svc")
}
