//! Effects on Kubernetes.

use std::fmt;

use crate::certificate::{Ca, Fingerprint, Leaf};
use crate::ids::{ClusterId, MemberId};
use crate::names::{MemberName, PeerUrl, Uid};
use crate::object::{AppliedObject, DeletedObject, ManagedObject, ObservedObject};
use crate::record::QuarantineCause;
use crate::snapshot::Asked;
use crate::time::Instant;
use crate::version::Version;

/// A write to the Kubernetes API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeEffect {
    /// Add our finalizer to the EtcdCluster, so that deletion runs in order.
    AddFinalizer,
    /// Remove our finalizer from the EtcdCluster.
    RemoveFinalizer,
    /// Create an object, or bring it to its desired form.
    Apply(AppliedObject),
    /// Delete an object.
    Delete {
        /// Which.
        object: DeletedObject,
        /// Precondition.
        observed: ObservedObject,
    },
    /// Create the EtcdBackup that comes before an upgrade, or before the end of the cluster, or that stands for what it is to begin with.
    CreateBackup {
        /// Its name.
        name: String,
    },
    /// Create an authority of the cluster: its key, its certificate and their Secret.
    CreateAuthority {
        /// Which.
        ca: Ca,
        /// Where in the Secret.
        place: AuthorityPlace,
        /// A copy of this one, in the Secret that the spec names; `None` if it is made.
        given: Option<Fingerprint>,
    },
    /// Take the Secret of an authority into the care of this EtcdCluster: it gets no owner, and this incarnation's uid.
    KeepAuthority {
        /// Which.
        ca: Ca,
        /// Precondition.
        observed: ObservedObject,
    },
    /// Make the authority that takes the place of another one, and keep it in the Secret of that.
    MakeNextAuthority {
        /// Which.
        ca: Ca,
        /// A copy of this one, in the Secret that the spec names; `None` if it is made.
        given: Option<Fingerprint>,
        /// Precondition.
        observed: ObservedObject,
    },
    /// Give the authority that signs its place in its Secret. Others in it are forgotten.
    ArrangeAuthority {
        /// Which.
        ca: Ca,
        /// Precondition.
        observed: ObservedObject,
        /// The one that signs.
        signer: Fingerprint,
    },
    /// Write which authorities the holders of a leaf trust, beside it in its Secret.
    WriteTrust {
        /// The leaf.
        leaf: Leaf,
        /// Precondition.
        observed: ObservedObject,
        /// These are trusted, in this order, and nothing else is.
        trust: Vec<Fingerprint>,
        /// The generation of trust that the Secret has from then on.
        generation: u32,
    },
    /// Sign a leaf certificate, and create its Secret.
    IssueLeaf {
        /// The leaf.
        leaf: Leaf,
        /// Precondition: the authority that signs it.
        by: Fingerprint,
    },
    /// Sign a leaf certificate anew, and put it into its Secret.
    RenewLeaf {
        /// The leaf.
        leaf: Leaf,
        /// Precondition: the authority that signs it.
        by: Fingerprint,
        /// Precondition.
        observed: ObservedObject,
    },
    /// Ask cert-manager for a leaf: create its Certificate.
    CreateCertificate {
        /// The leaf.
        leaf: Leaf,
        /// Precondition: what the accepted spec asks for.
        asked: Asked,
    },
    /// Put a Certificate right.
    ChangeCertificate {
        /// The leaf.
        leaf: Leaf,
        /// Precondition: what the accepted spec asks for.
        asked: Asked,
        /// Precondition.
        observed: ObservedObject,
    },
    /// Create a member's volume.
    CreateVolume {
        /// The member.
        member: MemberName,
    },
    /// Write the identity annotations of a volume: to which cluster and member its data belong.
    AnnotateVolume {
        /// The member.
        member: MemberName,
        /// Precondition: this volume and no later one.
        volume: Uid,
        /// The cluster its data belong to.
        cluster_id: ClusterId,
        /// The member its data belong to.
        member_id: MemberId,
        /// The version of etcd that has run on its data, or is about to, where it is known.
        version: Option<Version>,
    },
    /// Give an object the labels and annotations that the spec has for it.
    ApplyMetadata {
        /// Which.
        object: ManagedObject,
        /// Precondition.
        observed: ObservedObject,
    },
    /// Raise the requested size of a volume.
    ExpandVolume {
        /// The member.
        member: MemberName,
        /// Precondition: this volume and no later one.
        volume: Uid,
        /// The size to request.
        bytes: u64,
    },
    /// Quarantine a volume: keep it for a while, and never mount it again.
    QuarantineVolume {
        /// The member.
        member: MemberName,
        /// Precondition: this volume and no later one.
        volume: Uid,
        /// Since when.
        since: Instant,
        /// Why.
        why: QuarantineCause,
    },
    /// Delete a volume and the data on it.
    DeleteVolume {
        /// The member.
        member: MemberName,
        /// Precondition: this volume and no later one.
        volume: Uid,
        /// Precondition: as it was observed.
        resource_version: String,
    },
    /// Create a member's Pod.
    CreatePod {
        /// The member.
        member: MemberName,
        /// How etcd boots in it.
        boot: Boot,
        /// `--initial-cluster`.
        peers: Vec<(MemberName, PeerUrl)>,
    },
    /// Remove the scheduling gate of a bootstrap member's Pod. The Pod is created gated and ungated once it is observed
    /// while bootstrap still runs, so a Pod whose creation arrives late stays gated.
    UngatePod {
        /// The member.
        member: MemberName,
        /// Precondition: this Pod and no later one.
        pod: Uid,
    },
    /// Label a Pod as joined. The containers of a Pod may all restart on a volume that was emptied meanwhile; with this
    /// label the guard, which was configured for a first start, takes the empty volume for a loss.
    LabelJoined {
        /// The member.
        member: MemberName,
        /// Precondition: this Pod and no later one.
        pod: Uid,
    },
    /// Label a Pod as serving: the client Service selects it from now on (R24).
    LabelServes {
        /// The member.
        member: MemberName,
        /// Precondition: this Pod and no later one.
        pod: Uid,
    },
    /// Take that label off, so that clients go to other members, and note when (R24).
    LeadClientsAway {
        /// The member.
        member: MemberName,
        /// Precondition: this Pod and no later one.
        pod: Uid,
        /// When.
        at: Instant,
    },
    /// Evict a Pod that serves: the API server admits it only if the budgets allow it, so drains and the operator take turns
    /// (R16).
    EvictPod {
        /// The member.
        member: MemberName,
        /// Precondition: this Pod and no later one.
        pod: Uid,
    },
    /// Delete a Pod that does not serve, or whose cluster is to stop.
    DeletePod {
        /// The member.
        member: MemberName,
        /// Precondition: this Pod and no later one.
        pod: Uid,
        /// Precondition: as it was observed.
        resource_version: String,
    },
}

/// How etcd boots in a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// `--initial-cluster-state=new`: only for the recorded bootstrap set, before the cluster id is recorded (R1).
    New,
    /// `existing`, on the data of a snapshot that the agent restores before etcd starts: only for the recorded bootstrap set of a restore.
    /// etcd never starts on an empty volume in such a Pod.
    Restore,
    /// `existing`, on a volume that may still be empty: a learner that joins.
    Join,
    /// `existing`, on a volume that must have the member's data.
    Resume,
    /// Not at all: the agent reports what the member has stored (Q2).
    Read,
    /// Not at all: the agent takes a snapshot of what etcd keeps of the member's data (Q5).
    Extract,
}

/// How a write is carried out among the others of a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Other such writes of the same step may be sent before the reply to it arrives.
    Parallel,
    /// It waits for the effect before it, and the next one waits for it.
    InOrder,
    /// In order. It takes a Pod, a volume or an authority, so it is only right as long as what it rests on is (R18).
    Destructive,
}

// One row for each write: its name, what it is, and its manner.
macro_rules! table {
    ($($name:ident $effect:pat => $manner:ident),+ $(,)?) => {
        /// The names of all.
        pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

        /// Its name in tests.
        pub fn name(&self) -> &'static str {
            match self {
                $($effect => stringify!($name),)+
            }
        }

        fn manner(&self) -> Manner {
            match self {
                $($effect => Manner::$manner,)+
            }
        }
    };
}

impl KubeEffect {
    table! {
        AddFinalizer Self::AddFinalizer => InOrder,
        RemoveFinalizer Self::RemoveFinalizer => InOrder,
        ApplyPeerService Self::Apply(AppliedObject::PeerService) => Parallel,
        ApplyClientService Self::Apply(AppliedObject::ClientService) => Parallel,
        ApplyConnection Self::Apply(AppliedObject::Connection) => Parallel,
        ApplyBudget Self::Apply(AppliedObject::Budget { .. }) => Parallel,
        ApplyNetworkPolicy Self::Apply(AppliedObject::NetworkPolicy) => Parallel,
        DeleteBudget Self::Delete { object: DeletedObject::Budget, .. } => InOrder,
        DeleteNetworkPolicy Self::Delete { object: DeletedObject::NetworkPolicy, .. } => InOrder,
        DeleteAuthority Self::Delete { object: DeletedObject::Authority(_), .. } => Destructive,
        DeleteCertificate Self::Delete { object: DeletedObject::Certificate(_), .. } => Parallel,
        DeleteIssued Self::Delete { object: DeletedObject::Issued(_), .. } => Parallel,
        CreateBackup Self::CreateBackup { .. } => InOrder,
        CreateAuthority Self::CreateAuthority { .. } => Parallel,
        KeepAuthority Self::KeepAuthority { .. } => InOrder,
        MakeNextAuthority Self::MakeNextAuthority { .. } => InOrder,
        ArrangeAuthority Self::ArrangeAuthority { .. } => InOrder,
        WriteTrust Self::WriteTrust { .. } => Parallel,
        IssueLeaf Self::IssueLeaf { .. } => Parallel,
        RenewLeaf Self::RenewLeaf { .. } => Parallel,
        CreateCertificate Self::CreateCertificate { .. } => Parallel,
        ChangeCertificate Self::ChangeCertificate { .. } => Parallel,
        CreateVolume Self::CreateVolume { .. } => Parallel,
        AnnotateVolume Self::AnnotateVolume { .. } => Parallel,
        ApplyMetadata Self::ApplyMetadata { .. } => Parallel,
        ExpandVolume Self::ExpandVolume { .. } => InOrder,
        QuarantineVolume Self::QuarantineVolume { .. } => Parallel,
        DeleteVolume Self::DeleteVolume { .. } => Destructive,
        CreatePod Self::CreatePod { .. } => Parallel,
        UngatePod Self::UngatePod { .. } => Parallel,
        LabelJoined Self::LabelJoined { .. } => Parallel,
        LabelServes Self::LabelServes { .. } => Parallel,
        LeadClientsAway Self::LeadClientsAway { .. } => Parallel,
        EvictPod Self::EvictPod { .. } => Destructive,
        DeletePod Self::DeletePod { .. } => Destructive,
    }

    /// Whether it deletes a Pod, a volume or an authority.
    pub(super) fn is_destructive(&self) -> bool {
        self.manner() == Manner::Destructive
    }

    /// Whether other independent writes of the same step may be sent before the reply to this one arrives.
    pub(super) fn is_independent(&self) -> bool {
        self.manner() == Manner::Parallel
    }
}

/// Where in its Secret an authority is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorityPlace {
    /// In that of the signer: it is that one, or none signs yet.
    Signer,
    /// Beside the signer, whose place it is to take.
    Next,
}

impl fmt::Display for KubeEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddFinalizer => f.write_str("add the finalizer"),
            Self::RemoveFinalizer => f.write_str("remove the finalizer"),
            Self::Apply(object) => write!(f, "apply {object}"),
            Self::Delete { object, observed } => match object {
                DeletedObject::Budget | DeletedObject::NetworkPolicy => write!(f, "delete {object}"),
                DeletedObject::Authority(_) | DeletedObject::Certificate(_) | DeletedObject::Issued(_) => {
                    write!(f, "delete {object} (uid {})", observed.uid)
                }
            },
            Self::CreateBackup { name } => write!(f, "create EtcdBackup {name}"),
            Self::CreateAuthority { ca, given: None, .. } => {
                write!(f, "create the certificate authority of {ca}")
            }
            Self::CreateAuthority { ca, given: Some(given), .. } => {
                write!(f, "create the certificate authority of {ca} as a copy of {given}")
            }
            Self::KeepAuthority { ca, .. } => {
                write!(f, "keep the Secret of the certificate authority of {ca} beyond its owner")
            }
            Self::MakeNextAuthority { ca, given: None, .. } => {
                write!(f, "make the next certificate authority of {ca}")
            }
            Self::MakeNextAuthority { ca, given: Some(given), .. } => {
                write!(f, "take {given} as the next certificate authority of {ca}")
            }
            Self::ArrangeAuthority { ca, signer, .. } => {
                write!(f, "let certificate authority {signer} sign for {ca}")
            }
            Self::WriteTrust { leaf, trust, .. } => {
                let all = trust.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
                write!(f, "let holders of the {leaf} certificate trust {all}, and nothing else")
            }
            Self::IssueLeaf { leaf, by } => write!(f, "issue the {leaf} certificate, signed by {by}"),
            Self::RenewLeaf { leaf, by, .. } => write!(f, "renew the {leaf} certificate, signed by {by}"),
            Self::CreateCertificate { leaf, .. } => {
                write!(f, "ask cert-manager for the {leaf} certificate")
            }
            Self::ChangeCertificate { leaf, observed, .. } => {
                write!(f, "put the Certificate of {leaf} right (uid {})", observed.uid)
            }
            Self::CreateVolume { member } => write!(f, "create volume {member}"),
            Self::AnnotateVolume { member, cluster_id, member_id, version, .. } => {
                write!(f, "annotate volume {member} with cluster {cluster_id} member {member_id}")?;
                version.map_or(Ok(()), |version| write!(f, " etcd {version}"))
            }
            Self::ApplyMetadata { object, .. } => {
                write!(f, "apply the labels and annotations of the spec to {object}")
            }
            Self::ExpandVolume { member, bytes, .. } => write!(f, "expand volume {member} to {bytes} bytes"),
            Self::QuarantineVolume { member, volume, why, .. } => {
                write!(f, "quarantine volume {member} (uid {volume}): {why}")
            }
            Self::DeleteVolume { member, volume, .. } => write!(f, "delete volume {member} (uid {volume})"),
            Self::CreatePod { member, boot, peers } => {
                let boot = match boot {
                    Boot::New => "new",
                    Boot::Restore => "restored",
                    Boot::Join => "existing, joining",
                    Boot::Resume => "existing, on its data",
                    Boot::Read => "without etcd, to read its data",
                    Boot::Extract => "without etcd, to take a snapshot of its data",
                };
                let peers: Vec<&str> = peers.iter().map(|(name, _)| name.as_str()).collect();
                write!(f, "create Pod {member} ({boot}; peers {})", peers.join(" "))
            }
            Self::UngatePod { member, .. } => write!(f, "ungate Pod {member}"),
            Self::LabelJoined { member, .. } => write!(f, "label Pod {member} as joined"),
            Self::LabelServes { member, .. } => write!(f, "label Pod {member} as serving"),
            Self::LeadClientsAway { member, .. } => write!(f, "lead clients away from Pod {member}"),
            Self::EvictPod { member, pod } => write!(f, "evict Pod {member} (uid {pod})"),
            Self::DeletePod { member, pod, .. } => write!(f, "delete Pod {member} (uid {pod})"),
        }
    }
}
