//! etcd's auth, which the operator switches on and off: how far that is, what was seen, and what people ask for.

use std::collections::BTreeSet;
use std::fmt;

use crate::ids::ClusterId;
use crate::time::Instant;

/// How far etcd's auth is. Recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuthStage {
    /// L1 to L7: members get the operator's credential, and the user root is made. Auth is off.
    Preparing,
    /// L8: auth is on, or is about to be. From here on it is never off but by order.
    On,
}

/// What was seen of etcd's auth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenAuth {
    /// When.
    pub at: Instant,
    /// Whether it is on.
    pub enabled: bool,
    /// How far the user root is. Where auth is on, etcd keeps it.
    pub root: Root,
    /// Whether the certificate that applications share, that of the cluster's clients, is that of a user with the role root.
    pub clients_are_root: bool,
    /// Who else has the role root, while auth is off. Whoever has it when auth is enabled may do everything.
    pub others: BTreeSet<String>,
    /// Whether that certificate is of a user that has any role. With auth on it is refused every key otherwise.
    pub clients_have_role: bool,
    /// The users of EtcdUsers that the namespace does not have, each with the name of its role, while auth is on.
    pub orphans: BTreeSet<(String, String)>,
}

/// How far the user root is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Root {
    /// There is no user root.
    #[default]
    Missing,
    /// There is the user.
    NoRole,
    /// There is the role root, too.
    NotGranted,
    /// The user has the role, so whoever is root may do everything.
    Ready,
}

/// What people ask of etcd's auth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthPolicy {
    /// `spec.auth.enabled`.
    pub wanted: bool,
    /// The cluster id in the annotation that lets auth be switched off.
    pub disable: Option<ClusterId>,
}

/// A change of etcd's auth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuthChange {
    /// L4: the user root goes, right before it is made anew. Whoever was let in while auth was off may have given it a password, which nobody
    /// can see.
    RemoveRootUser,
    /// L4: the user root, without a password: it is known by a certificate alone.
    AddRootUser,
    /// L5: the role root.
    AddRootRole,
    /// L6: the user gets the role.
    GrantRoot,
    /// L8.
    Enable,
    /// L9.
    Disable,
}

impl AuthStage {
    /// In status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Preparing => "Preparing",
            Self::On => "On",
        }
    }
}

impl fmt::Display for AuthChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RemoveRootUser => "UserDelete root",
            Self::AddRootUser => "UserAdd root",
            Self::AddRootRole => "RoleAdd root",
            Self::GrantRoot => "UserGrantRole root to root",
            Self::Enable => "AuthEnable",
            Self::Disable => "AuthDisable",
        })
    }
}
