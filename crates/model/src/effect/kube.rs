//! Effects on Kubernetes.

use std::fmt;

use crate::certificate::{Ca, Fingerprint, Leaf};
use crate::ids::{ClusterId, MemberId};
use crate::names::{MemberName, PeerUrl, Uid};
use crate::object::{ManagedObject, ObservedObject};
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
    /// Create the headless peer Service, or bring it to its desired form.
    ApplyPeerService,
    /// Create the client Service, or bring it to its desired form.
    ApplyClientService,
    /// Create the Secret with all that an application connects with, or bring it to its desired form.
    ApplyConnection,
    /// Create the PodDisruptionBudget, or change its number or what it selects.
    ApplyBudget {
        /// How many ready voters must stay.
        min_available: usize,
        /// The member whose Pod it does not select.
        excludes: Option<MemberName>,
    },
    /// Delete the PodDisruptionBudget, which the spec does not want.
    DeleteBudget {
        /// Precondition.
        observed: ObservedObject,
    },
    /// Create the NetworkPolicy, or bring it to its desired form.
    ApplyNetworkPolicy,
    /// Delete the NetworkPolicy, which the spec does not want.
    DeleteNetworkPolicy {
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
    /// Delete the Secret of an authority.
    DeleteAuthority {
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
    /// Delete a Certificate, on which nothing rests any more.
    DeleteCertificate {
        /// The leaf.
        leaf: Leaf,
        /// Precondition.
        observed: ObservedObject,
    },
    /// Delete the Secret that cert-manager wrote for a Certificate of this cluster. While there is the Certificate, cert-manager issues it anew.
    DeleteIssued {
        /// The leaf.
        leaf: Leaf,
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

impl KubeEffect {
    names! {
        AddFinalizer,
        RemoveFinalizer,
        ApplyPeerService,
        ApplyClientService,
        ApplyConnection,
        ApplyBudget,
        DeleteBudget,
        ApplyNetworkPolicy,
        DeleteNetworkPolicy,
        CreateBackup,
        CreateAuthority,
        KeepAuthority,
        DeleteAuthority,
        MakeNextAuthority,
        ArrangeAuthority,
        WriteTrust,
        IssueLeaf,
        RenewLeaf,
        CreateCertificate,
        ChangeCertificate,
        DeleteCertificate,
        DeleteIssued,
        CreateVolume,
        AnnotateVolume,
        ApplyMetadata,
        ExpandVolume,
        QuarantineVolume,
        DeleteVolume,
        CreatePod,
        UngatePod,
        LabelJoined,
        LabelServes,
        LeadClientsAway,
        EvictPod,
        DeletePod,
    }

    /// Whether it deletes a Pod, a volume or the authority.
    pub(super) fn is_destructive(&self) -> bool {
        match self {
            Self::DeleteAuthority { .. }
            | Self::DeleteVolume { .. }
            | Self::EvictPod { .. }
            | Self::DeletePod { .. } => true,
            Self::AddFinalizer
            | Self::RemoveFinalizer
            | Self::ApplyPeerService
            | Self::ApplyClientService
            | Self::ApplyConnection
            | Self::ApplyBudget { .. }
            | Self::DeleteBudget { .. }
            | Self::ApplyNetworkPolicy
            | Self::DeleteNetworkPolicy { .. }
            | Self::CreateBackup { .. }
            | Self::CreateAuthority { .. }
            | Self::KeepAuthority { .. }
            | Self::MakeNextAuthority { .. }
            | Self::ArrangeAuthority { .. }
            | Self::WriteTrust { .. }
            | Self::IssueLeaf { .. }
            | Self::RenewLeaf { .. }
            | Self::CreateCertificate { .. }
            | Self::ChangeCertificate { .. }
            | Self::DeleteCertificate { .. }
            | Self::DeleteIssued { .. }
            | Self::CreateVolume { .. }
            | Self::AnnotateVolume { .. }
            | Self::ApplyMetadata { .. }
            | Self::QuarantineVolume { .. }
            | Self::ExpandVolume { .. }
            | Self::CreatePod { .. }
            | Self::UngatePod { .. }
            | Self::LabelJoined { .. }
            | Self::LabelServes { .. }
            | Self::LeadClientsAway { .. } => false,
        }
    }

    /// Whether other independent writes of the same step may be sent before the reply to this one arrives.
    pub(super) fn is_independent(&self) -> bool {
        match self {
            Self::ApplyPeerService
            | Self::ApplyClientService
            | Self::ApplyConnection
            | Self::ApplyBudget { .. }
            | Self::ApplyNetworkPolicy
            | Self::CreateAuthority { .. }
            | Self::WriteTrust { .. }
            | Self::IssueLeaf { .. }
            | Self::RenewLeaf { .. }
            | Self::CreateCertificate { .. }
            | Self::ChangeCertificate { .. }
            | Self::DeleteCertificate { .. }
            | Self::DeleteIssued { .. }
            | Self::CreateVolume { .. }
            | Self::AnnotateVolume { .. }
            | Self::ApplyMetadata { .. }
            | Self::QuarantineVolume { .. }
            | Self::CreatePod { .. }
            | Self::UngatePod { .. }
            | Self::LabelJoined { .. }
            | Self::LabelServes { .. }
            | Self::LeadClientsAway { .. } => true,
            Self::AddFinalizer
            | Self::RemoveFinalizer
            | Self::CreateBackup { .. }
            | Self::ExpandVolume { .. }
            | Self::KeepAuthority { .. }
            | Self::MakeNextAuthority { .. }
            | Self::ArrangeAuthority { .. }
            | Self::DeleteAuthority { .. }
            | Self::DeleteVolume { .. }
            | Self::DeleteBudget { .. }
            | Self::DeleteNetworkPolicy { .. }
            | Self::EvictPod { .. }
            | Self::DeletePod { .. } => false,
        }
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
            Self::ApplyPeerService => f.write_str("apply the peer Service"),
            Self::ApplyClientService => f.write_str("apply the client Service"),
            Self::ApplyConnection => f.write_str("apply the connection Secret"),
            Self::ApplyBudget { min_available, excludes: None } => {
                write!(f, "apply the PodDisruptionBudget (minAvailable {min_available})")
            }
            Self::ApplyBudget { min_available, excludes: Some(member) } => {
                write!(
                    f,
                    "apply the PodDisruptionBudget (minAvailable {min_available}, without Pod {member})"
                )
            }
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
            Self::DeleteAuthority { ca, observed } => {
                write!(f, "delete the Secret of the certificate authority of {ca} (uid {})", observed.uid)
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
            Self::DeleteCertificate { leaf, observed } => {
                write!(f, "delete the Certificate of {leaf} (uid {})", observed.uid)
            }
            Self::DeleteIssued { leaf, observed } => {
                write!(f, "delete the Secret that cert-manager wrote for {leaf} (uid {})", observed.uid)
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
            Self::DeleteBudget { .. } => f.write_str("delete the PodDisruptionBudget"),
            Self::ApplyNetworkPolicy => f.write_str("apply the NetworkPolicy"),
            Self::DeleteNetworkPolicy { .. } => f.write_str("delete the NetworkPolicy"),
            Self::EvictPod { member, pod } => write!(f, "evict Pod {member} (uid {pod})"),
            Self::DeletePod { member, pod, .. } => write!(f, "delete Pod {member} (uid {pod})"),
        }
    }
}
