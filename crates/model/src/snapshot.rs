//! What was observed of one cluster, in Kubernetes and in etcd, and how old it is. It is partial: what is absent was not
//! observed, and may still exist.

mod health;

use std::collections::BTreeMap;

use crate::guard::GuardVerdict;
use crate::ids::{ClusterId, MemberId, Revision};
use crate::names::{ClusterRef, ClusterUid, MemberName, PeerUrl, Token, Uid};
use crate::object::ManagedObject;
use crate::record::Record;
use crate::target::{PodRevision, Target};
use crate::time::{Instant, Span};
use crate::version::Version;

/// How long an observation of etcd counts as fresh. Longer than the calm interval (10 s) plus one deadline.
pub const FRESH: Span = Span::seconds(15);

/// Everything the planner knows of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Which cluster.
    pub cluster: ClusterRef,
    /// Its incarnation.
    pub uid: ClusterUid,
    /// What the spec asks for now (not yet committed).
    pub desired: Target,
    /// `spec.paused`.
    pub paused: bool,
    /// The object is being deleted.
    pub deleting: bool,
    /// Our finalizer is on the object.
    pub finalizer: bool,
    /// The annotation that adopts volumes of an earlier cluster.
    pub adopt: Option<ClusterId>,
    /// What is recorded in status.
    pub record: Record,
    /// Why status was written by a newer operator, if it was: then the record is not complete.
    pub newer_status: Option<String>,
    /// Pods by member name.
    pub pods: BTreeMap<MemberName, Pod>,
    /// Volumes by member name, of every incarnation.
    pub volumes: BTreeMap<MemberName, Volume>,
    /// Objects that have the names of this cluster's objects and are not owned by this EtcdCluster, each with its kind and name
    /// for messages: `Service default/demo`.
    pub foreign: BTreeMap<ManagedObject, String>,
    /// The headless peer Service matches its desired form.
    pub peer_service: bool,
    /// The client Service matches its desired form.
    pub client_service: bool,
    /// `minAvailable` of the PodDisruptionBudget, if one exists.
    pub budget: Option<usize>,
    /// All Secrets with certificates exist (or TLS is off).
    pub certificates: bool,
    /// What etcd reported.
    pub etcd: Etcd,
}

/// A member's Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its uid: the precondition of every delete.
    pub uid: Uid,
    /// Its resource version when it was observed.
    pub resource_version: String,
    /// It is being deleted.
    pub terminating: bool,
    /// Failed or Succeeded: it will never run again.
    pub finished: bool,
    /// Its containers run and its member is a started voter.
    pub ready: bool,
    /// It has an address, so it can be dialled.
    pub ip: Option<String>,
    /// The node it is bound to.
    pub node: Option<String>,
    /// The zone of that node, where known.
    pub zone: Option<String>,
    /// The revision of the Pod template it was built from.
    pub revision: PodRevision,
    /// It has our scheduling gate: it runs nowhere before it is ungated.
    pub gated: bool,
    /// Started with `new`.
    pub boots_new: bool,
    /// Annotated as joined: its guard takes an empty volume for a loss.
    pub joined: bool,
    /// Labelled as joined: the client Service selects it.
    pub labelled: bool,
    /// etcd was started in it at least once.
    pub has_run: bool,
    /// How often etcd was restarted in it.
    pub restarts: u32,
    /// etcd refused to start as new because its peers know it (from the termination message).
    pub already_bootstrapped: bool,
    /// What the guard refused, if it did.
    pub guard: Option<(GuardVerdict, String)>,
    /// What keeps it from running, as Kubernetes reports it: `ErrImagePull: ...`.
    pub trouble: Option<String>,
}

/// A member's volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its uid.
    pub uid: Uid,
    /// Its resource version when it was observed.
    pub resource_version: String,
    /// It is being deleted.
    pub terminating: bool,
    /// The incarnation of the cluster that it was created for.
    pub cluster_uid: Option<ClusterUid>,
    /// The cluster id of its identity annotation.
    pub cluster_id: Option<ClusterId>,
    /// The member id of its identity annotation.
    pub member_id: Option<MemberId>,
    /// The token of its identity annotation.
    pub token: Option<Token>,
    /// The bytes that it requests.
    pub bytes: u64,
    /// Why it is not usable, as Kubernetes reports it, if it is not.
    pub trouble: Option<String>,
}

/// What etcd reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Etcd {
    /// A linearizable member list: proof of a quorum at that moment (R9).
    pub list: Option<List>,
    /// Why there is no list.
    pub list_failure: Option<String>,
    /// Each member's own answer, by the name of its Pod.
    pub answers: BTreeMap<MemberName, Answer>,
}

/// A linearizable member list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// When it was read.
    pub at: Instant,
    /// The cluster it is of.
    pub cluster_id: ClusterId,
    /// The member that served it; membership calls go to the same one.
    pub via: MemberName,
    /// Its members.
    pub members: Vec<Listed>,
}

/// A member in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: MemberId,
    /// Its name; empty until it first started.
    pub name: String,
    /// Its peer URL. Members of this EtcdCluster have exactly one.
    pub peer_url: PeerUrl,
    /// Not yet a voter.
    pub is_learner: bool,
    /// It has published its client URLs by consensus, which a member does when it first runs with a quorum. What never
    /// did so, `etcdctl member list` calls unstarted.
    pub started: bool,
}

/// What one member answered, or that it did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When the reply or the failure arrived.
    pub at: Instant,
    /// The reply, or why there is none.
    pub reply: Result<StatusReply, String>,
}

/// A member's own Status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusReply {
    /// The cluster it believes to be in.
    pub cluster_id: ClusterId,
    /// Its own id.
    pub member_id: MemberId,
    /// The leader it follows.
    pub leader: Option<MemberId>,
    /// Its raft still says learner (the list alone can lie: etcd-io/etcd#18347).
    pub is_learner: bool,
    /// Applied raft index, for catching up.
    pub applied: u64,
    /// The store's revision.
    pub revision: Revision,
    /// The version that it runs.
    pub version: Version,
    /// Alarms and errors it reports.
    pub errors: Vec<String>,
}

impl Pod {
    /// Whether label and annotation are both on it: its member's data must exist, and the client Service selects it.
    pub fn is_labelled_joined(&self) -> bool {
        self.joined && self.labelled
    }
}

impl Snapshot {
    /// The linearizable list, if it is fresh.
    pub fn list(&self, now: Instant) -> Option<&List> {
        self.etcd.list.as_ref().filter(|list| now - list.at <= FRESH)
    }

    /// The Pods in which a member may answer. A stray Pod is not asked, because its member is not part of the cluster.
    pub fn can_answer(&self) -> impl Iterator<Item = (&MemberName, &Pod)> {
        self.pods.iter().filter(|(member, pod)| pod.ip.is_some() && !pod.finished && !self.is_stray(member))
    }

    /// Whether a late call created a Pod for a bootstrap attempt that was given up: its name is not recorded, and it was never
    /// labelled joined. If it runs, the cluster that it bootstraps has no clients.
    pub fn is_stray(&self, member: &MemberName) -> bool {
        let never_joined = self.pods.get(member).is_some_and(|pod| !pod.joined && !pod.labelled);
        never_joined && self.record.attempt > 0 && !self.record.members.contains_key(member)
    }

    /// What a member reports about itself, if it answered recently.
    pub fn status_of(&self, member: &MemberName, now: Instant) -> Option<&StatusReply> {
        self.etcd
            .answers
            .get(member)
            .filter(|answer| now - answer.at <= FRESH)
            .and_then(|answer| answer.reply.as_ref().ok())
    }

    /// Whether any volume of this incarnation has an identity annotation: then the cluster has served, even if status was lost.
    pub fn has_identity(&self) -> bool {
        self.volumes
            .values()
            .any(|volume| volume.cluster_uid.as_ref() == Some(&self.uid) && volume.cluster_id.is_some())
    }

    /// The peer URL of a member of this EtcdCluster.
    pub fn peer_url(&self, member: &MemberName) -> PeerUrl {
        let scheme = if self.target().tls { "https" } else { "http" };
        PeerUrl::new(format!("{scheme}://{}:2380", self.cluster.dns_name(member)))
    }

    /// The list's entry of a member of this EtcdCluster: by id where the record has it, else by peer URL. Never by position
    /// (R7). The record is an argument, because a plan in the making may know more than the observed record.
    pub fn listed(&self, record: &Record, member: &MemberName, now: Instant) -> Option<&Listed> {
        let id = record.members.get(member).and_then(|member| member.id);
        let url = self.peer_url(member);
        self.list(now)?.members.iter().find(|listed| match id {
            Some(id) => listed.id == id,
            None => listed.peer_url == url,
        })
    }

    /// The member of the record that has this id or, while it has none, this peer URL.
    pub fn member_of(&self, record: &Record, listed: &Listed) -> Option<MemberName> {
        record
            .members
            .iter()
            .find(|(name, member)| match member.id {
                Some(id) => id == listed.id,
                None => self.peer_url(name) == listed.peer_url,
            })
            .map(|(name, _)| name.clone())
    }

    /// The leader, as the members report it.
    pub fn leader(&self, now: Instant) -> Option<MemberId> {
        self.etcd
            .answers
            .keys()
            .filter_map(|member| self.status_of(member, now))
            .find_map(|status| status.leader)
    }

    /// The committed target; before the first commit, the desired one.
    pub fn target(&self) -> &Target {
        self.record.target.as_ref().unwrap_or(&self.desired)
    }
}
