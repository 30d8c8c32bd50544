//! The numbered steps of the protocols.

use std::fmt;

use super::Protocol::{
    self, Adopt, Bootstrap, Delete, Downgrade, Grow, Hibernate, Maintain, NamesAndCertificates,
    NewIncarnation, RecoverQuorum, Replace, Rollout, Shrink,
};
use crate::time::Span;

macro_rules! steps {
    ($($page:literal, $protocol:expr => { $($(#[$doc:meta])* $name:ident,)+ })+) => {
        /// A numbered step of a protocol: an act that the operator carries out or records, and so a place where it may crash. The
        /// numbers appear in the docs, the crash points and the tests.
        ///
        /// The docs also number conditions (B5, B8, U1, U2, U3, U6). A condition only waits or chooses: nothing is written at it,
        /// so it is not a step here and not a crash point.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "named after the steps in docs/protocols")]
        pub enum Step {
            $($($(#[$doc])* $name,)+)+
        }

        impl Step {
            /// Every step.
            pub const ALL: &'static [Self] = &[$($(Self::$name),+),+];

            /// The page in docs/protocols that has it in its table.
            pub fn page(self) -> &'static str {
                match self {
                    $($(Self::$name)|+ => $page,)+
                }
            }

            /// The protocol that it is a step of; `None` for what several protocols do and none of them ends a pass with.
            pub fn protocol(self) -> Option<Protocol> {
                match self {
                    $($(Self::$name)|+ => $protocol,)+
                }
            }
        }
    };
}

steps! {
    "bootstrap", Some(Bootstrap) => {
        B1,
        B2,
        B3,
        B4,
        /// Ungate the Pod of a bootstrap member, once it was observed.
        BR,
        B6,
        B7,
        /// Give up a bootstrap attempt: delete its Pods, then its volumes.
        BA,
    }
    "adopt", Some(Adopt) => {
        /// Adopt an earlier cluster's volumes.
        BX,
    }
    "rollout", None => {
        /// Commit an edit of the spec as the target.
        T1,
    }
    "rollout", Some(Rollout) => {
        U4,
        U5,
    }
    "upgrade", None => {
        /// Create the backup that comes before an upgrade.
        T0,
    }
    "upgrade", Some(Downgrade) => {
        /// Ask etcd whether the cluster may be downgraded.
        V1,
        /// Enable the downgrade.
        V2,
        /// Record that the data may go back, and commit the lower version.
        V4,
        /// The downgrade has ended.
        V5,
        /// Cancel the downgrade.
        VC,
    }
    "grow", Some(Grow) => {
        G1,
        G2,
        G3,
        G4,
        G5,
        G6,
    }
    "shrink", Some(Shrink) => {
        S1,
        S2,
        S3,
        S4,
        S5,
    }
    "hibernate", Some(Hibernate) => {
        Z1,
        Z2,
        Z3,
    }
    "restart", None => {
        /// Create a lost Pod again on its own volume; on waking, all Pods at once.
        W1,
        /// Delete a finished or stuck Pod before that.
        W2,
        /// Record that image volumes fail here, and delete a Pod that waits for one.
        W3,
    }
    "replace", Some(Replace) => {
        /// Note that the data of a voter may be lost; when the grace period is over, look again.
        P0,
        /// Record that a voter is replaced.
        P1,
        /// Remove the member that is replaced.
        P3,
        P4,
        P5,
        /// Record how the replacement ended.
        P7,
    }
    "delete", Some(Delete) => {
        /// Deletion of the cluster: the backup that comes before it, Pods, volumes, finalizer.
        D0,
        D1,
        D2,
        D3,
    }
    "certificates", Some(NamesAndCertificates) => {
        /// Record the authority that signs the leaves.
        I1,
        /// Create leaf certificates.
        I2,
        /// Renew a leaf certificate in place.
        I3,
        /// Keep the Secret of the authority beyond the life of its owner.
        I4,
        /// Keep a Certificate of cert-manager as the spec wants it.
        I5,
        /// Delete a Certificate of cert-manager, and its Secret, on which nothing rests any more.
        I6,
        /// Delete the Secret of a Certificate, so that cert-manager issues it anew, where nothing has started yet.
        I7,
    }
    "rotate", None => {
        /// Make the new authority, and record it.
        C1,
        /// Put both authorities into every bundle.
        C2,
        /// Record since when clients can know of the new authority.
        C3,
        /// Record that the new authority signs, and give it the place of the signer in the Secret.
        C4,
        /// Record since when clients have what the new authority signed.
        C5,
        /// Take the earlier authority out of every bundle.
        C6,
        /// Forget the earlier authority.
        C7,
    }
    "auth", None => {
        /// Record that etcd's auth is being switched on.
        L1,
        /// Make the user root, without a password.
        L4,
        /// Make the role root.
        L5,
        /// Give the user root that role.
        L6,
        /// Record that auth is on, and enable it.
        L8,
        /// Disable auth, as ordered, and record that it is off.
        L9,
        /// Delete a user without an EtcdUser, then its role.
        L10,
        /// Make the user of clients for a time, or delete it, and record that the time is over.
        L11,
    }
    "upkeep", None => {
        /// Upkeep: PodDisruptionBudget, NetworkPolicy, joined labels, identity annotations, volume size.
        K1,
        /// Lead clients to a member, or away from it.
        K2,
        /// Create the connection Secret, or bring it up to date.
        K3,
        /// Restart a member that serves nothing and from which clients were led away, so that their connections end.
        K4,
    }
    "maintain", Some(Maintain) => {
        /// Compact the history of a full database.
        N1,
        /// Move leadership away from the member that is defragmented next.
        N2,
        /// Record the member, then defragment it.
        N3,
        /// Record that the defragmentation is over.
        N4,
        /// Disarm an alarm.
        N5,
    }
    "in-place", Some(NewIncarnation) => {
        /// Record the order to replace the present incarnation by another one.
        J1,
        /// Stop every member of it.
        J2,
        /// Record that they are stopped, and quarantine their volumes.
        J3,
        /// Record the new incarnation.
        J4,
        /// Withdraw the order: its object was deleted before every member was stopped.
        JX,
    }
    "recover-quorum", Some(RecoverQuorum) => {
        /// Record the order to recover the quorum, and where the members ran.
        Q1,
        /// Stop etcd in every Pod, and have its agent read what the member has.
        Q2,
        /// Record the member whose data are kept.
        Q4,
        /// Take a snapshot of what etcd keeps of them.
        Q5,
        /// Record the order for an incarnation that begins with it.
        Q6,
        /// The order to recover the quorum has ended: it was withdrawn, or a quorum answers.
        QX,
    }
    "backup", None => {
        /// An EtcdBackup gets its finalizer.
        E1,
        /// Record in its status what is next, before the act, or what came of it.
        E2,
        /// Create the Job of an attempt.
        E3,
        /// Delete a Job whose answer is recorded, or that is to stop.
        E4,
        /// Create the Job that removes the object.
        E5,
        /// Remove the finalizer.
        E6,
        /// Create the key of the namespace that signs manifests, before the Job of a backup, if there is none.
        E7,
        /// Create the EtcdBackup of a time of a schedule, or of an order.
        Y1,
        /// Write what a look found into an EtcdBackup.
        Y2,
        /// Record in the status of a schedule the time that is used, and the Job that comes next.
        Y3,
        /// Create the Job of a restore test.
        Y4,
        /// Create the Job of a look into the store.
        Y5,
        /// Delete a Job whose answer is recorded.
        Y6,
        /// Delete an EtcdBackup that no rule keeps.
        Y7,
        /// Create an EtcdBackup that stands for an object that is in the store already.
        Y8,
        /// Create the Job that lists what the store has.
        Y9,
        /// Record in the status of an EtcdRestore the next try to read the snapshot, or what came of it.
        X1,
        /// Create the Job that reads the snapshot.
        X2,
        /// Delete a Job whose answer is recorded.
        X3,
        /// Create the EtcdBackup of the data that a restore in place gives up, or the one that stands for what it restores.
        X4,
    }
    "auth", None => {
        /// Take the finalizer off an EtcdUser.
        F0,
        /// An EtcdUser gets its finalizer.
        F1,
        /// Record in its status what is to be done, before it is, or what came of it.
        F2,
        /// Add its role.
        F3,
        /// Grant its role a permission, or take one from it.
        F4,
        /// Add its user.
        F5,
        /// Grant its user a role, or take one from it.
        F6,
        /// Write its Secret, or delete it.
        F7,
        /// Delete its user.
        F8,
        /// Delete its role.
        F9,
    }
    "publish", None => {
        /// An EtcdCluster gets the finalizer for its DataStore of Kamaji.
        O1,
        /// Write the credential that Kamaji has.
        O2,
        /// Create the DataStore, or bring it up to date.
        O3,
        /// Delete a DataStore that no tenant uses.
        O4,
        /// Delete the credential.
        O5,
        /// Take the finalizer off.
        O6,
        /// Take the finalizers of the garbage collector off, which would take Pods from tenants.
        O7,
    }
}

/// The deadline for a learner to run before it is rolled back (G5), for one that runs to come closer to the leader before an edit goes on
/// without it, and for a voter to be healthy again before a learner makes way.
pub const LEARNER_DEADLINE: Span = Span::seconds(600);

/// The deadline for a learner that runs to answer, or to come closer to the leader. etcd answers no request before it has caught up, so a large
/// database means a long silence; where it is larger than 3.5 GiB, the deadline is longer.
pub const LEARNER_SYNC_DEADLINE: Span = Span::seconds(3600);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_on_the_page_of_its_protocol() {
        for step in Step::ALL {
            assert!(step.protocol().is_none_or(|protocol| protocol.page() == step.page()), "{step}");
        }
    }
}
