//! A cluster of etcd processes.

use std::path::Path;

use quorate_model::{MemberId, Minor, PeerUrl};
use tempfile::TempDir;

use super::address::own_address;
use super::wait::eventually;
use super::{Member, Pki};
use crate::{CallError, MemberStatus, Tls};

/// The cluster to start.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The minor version of etcd.
    pub minor: Minor,
    /// The number of members.
    pub size: usize,
    /// Whether members serve TLS. Certificates are valid for `<member>.test.svc` only, not for addresses.
    pub tls: bool,
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
        Self { minor, size, tls: false, args: Vec::new() }
    }
}

impl Cluster {
    /// A cluster of which no member runs yet.
    pub fn new(setup: Setup) -> Self {
        let dir = tempfile::Builder::new().prefix("etcd-test-").tempdir().expect("a temporary folder");
        let pki = setup.tls.then(|| Pki::new(&dir.path().join("pki")));
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
        let tls = self.pki.as_ref().map(|pki| tls(pki, &name));
        let dir = self.dir.path().join(&name);
        let mut member = Member::new(name.clone(), own_address(), dir, self.setup.minor).with_tls(tls);
        let mut args = self.setup.args.clone();
        if let Some(pki) = &self.pki {
            let server = pki.leaf(&name, &[&server_name(&name)]);
            args.extend(["--client-cert-auth".to_owned()]);
            for (flag, file) in
                [("cert-file", server.cert), ("key-file", server.key), ("trusted-ca-file", pki.ca_file())]
            {
                args.push(format!("--{flag}={}", file.display()));
            }
        }
        member.add_args(args);
        member
    }
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
