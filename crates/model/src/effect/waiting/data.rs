//! Data of an earlier cluster of the same name, beside which no other one begins.

use strum::{IntoStaticStr, VariantNames};

use crate::adoption::Unadoptable;
use crate::ids::ClusterId;
use crate::names::MemberName;
use crate::target::Medium;

/// What is there of an earlier cluster.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum EarlierData {
    /// Volumes exist; a person has to decide about them.
    Volumes {
        /// The cluster IDs in their annotations.
        found: Vec<ClusterId>,
        /// The volumes.
        volumes: Vec<MemberName>,
        /// Those of them that are quarantined: none of these is adopted.
        quarantined: Vec<MemberName>,
        /// The cluster ID in the `adopt` annotation, if no volume has it.
        unmatched: Option<ClusterId>,
    },
    /// The volumes of the cluster with this id are to be adopted, and are not; why.
    NotAdopted(ClusterId, Unadoptable),
    /// They contradict a field of the spec that is fixed later; a person has to correct it.
    Contradict(FixedField),
    /// The status of this EtcdCluster is that of another object, whose cluster had data; no volume of it exists.
    Gone {
        /// The cluster ID in that status.
        cluster: ClusterId,
        /// Its voters.
        voters: Vec<MemberName>,
    },
    /// A backup tool created this EtcdCluster, without volumes and without a snapshot to begin with; which one.
    NotRestored(String),
    /// Pods run that status does not record, and nothing identifies their data.
    UnknownPods(Vec<MemberName>),
}

/// A field of the spec that cannot change while members run.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum FixedField {
    /// Whether members speak TLS.
    Tls {
        /// What the data or the members have.
        is: bool,
        /// What the spec has.
        found: bool,
    },
    /// Where members keep their data.
    Medium {
        /// What the data or the members have.
        is: Medium,
        /// What the spec has.
        found: Medium,
    },
    /// The access mode of volumes.
    AccessMode {
        /// What the volumes have.
        is: String,
        /// What the spec has.
        found: String,
    },
}
