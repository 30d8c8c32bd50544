//! What a change of etcd's auth waits for.

use std::collections::BTreeSet;

use strum::{IntoStaticStr, VariantNames};

use super::NotSigned;
use crate::effect::Unsafe;
use crate::ids::ClusterId;
use crate::snapshot::KeptOutByAuth;

/// What is waited for about etcd's auth.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum AuthWait {
    /// It is being switched on or off, and this comes next.
    Changing(AuthChanging),
    /// With etcd's auth on, the certificate that applications share is that of a user with the role root.
    ClientsAreRoot,
    /// These users have the role root, and the operator made none of them: auth is not enabled.
    OthersAreRoot(BTreeSet<String>),
    /// Users are to be deleted in etcd that nobody may be any more, and etcd is looked at again before.
    UsersToRevoke,
    /// `spec.auth.enabled` is false, and auth stays on: only the annotation with the cluster id lets it be switched off.
    StaysOn(ClusterId),
    /// It is ordered off, and stays on for tenants of Kamaji; why.
    OffRefused(Unsafe),
    /// A person enabled it, and it refuses the operator what needs the role root.
    NotOurs,
    /// It refuses the operator, which is no user.
    KeptOut(KeptOutByAuth),
}

/// The next thing that a change of etcd's auth needs.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum AuthChanging {
    /// The Pods of the members get the operator's credential.
    CredentialFirst,
    /// The Pods of the members lack the operator's credential; which.
    Unsafe(Unsafe),
    /// The certificate of the user root cannot be signed.
    NoRootCertificate(NotSigned),
    /// This EtcdUser gets its user.
    UserFirst(String),
    /// It is off, though the record has it on.
    OnAgain,
    /// The user root is made.
    MakingRoot,
    /// It is being enabled.
    Enabling,
    /// It is being disabled, as ordered.
    Disabling,
    /// A member is asked how far it is.
    Asked,
    /// A member is asked for the user of clients.
    ClientsAsked,
}
