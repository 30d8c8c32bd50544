//! etcd's auth, which the operator switches on and off: how far that is, what was seen, and what people ask for.

use std::collections::{BTreeMap, BTreeSet};
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
    /// The users of EtcdUsers that the namespace does not have, while auth is on.
    pub orphans: BTreeMap<Marked, Orphan>,
}

impl SeenAuth {
    /// Auth that is on or off, and nothing else is known of it.
    pub fn new(at: Instant, enabled: bool) -> Self {
        Self {
            at,
            enabled,
            root: if enabled { Root::Ready } else { Root::Missing },
            clients_are_root: false,
            others: BTreeSet::new(),
            clients_have_role: false,
            orphans: BTreeMap::new(),
        }
    }

    /// The users without an EtcdUser that do not stay by its word.
    pub fn to_revoke(&self) -> impl Iterator<Item = &Marked> {
        self.orphans.iter().filter(|(_, orphan)| **orphan == Orphan::Confirmed).map(|(user, _)| user)
    }

    /// Whether there are such users, also as far as it is not confirmed.
    pub fn has_orphans_to_go(&self) -> bool {
        let goes = |orphan: &Orphan| matches!(orphan, Orphan::Confirmed | Orphan::Unconfirmed);
        self.orphans.values().any(goes)
    }
}

/// What the names of roles begin with that belong to EtcdUsers.
pub const ROLE_PREFIX: &str = "quorate:";

/// What comes then in the name of a role that says that the user stays when its EtcdUser goes. It allows nothing, and nobody has it.
const RETAIN: &str = "retain:";

/// How many digits of a uid a name has.
const MARK: usize = 8;

/// The user of an EtcdUser, and its role: both names have the first digits of the uid. So nobody else can be named by it: neither root, nor
/// a user that a person made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Marked {
    name: String,
    mark: String,
}

impl Marked {
    /// That of an EtcdUser of this name, with these first digits of its uid.
    pub fn new(name: impl Into<String>, mark: impl Into<String>) -> Self {
        Self { name: name.into(), mark: mark.into() }
    }

    /// Whose role it is; `None`: that of no EtcdUser.
    pub fn of_role(role: &str) -> Option<Self> {
        let (mark, name) = role.strip_prefix(ROLE_PREFIX)?.split_once(':')?;
        (is_mark(mark) && !name.is_empty()).then(|| Self::new(name, mark))
    }

    /// Whose user the role says to stay; `None`: that of no EtcdUser.
    pub fn of_retained_role(role: &str) -> Option<Self> {
        Self::of_role(&format!("{ROLE_PREFIX}{}", role.strip_prefix(ROLE_PREFIX)?.strip_prefix(RETAIN)?))
    }

    /// The name of the EtcdUser.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first digits of the uid of the EtcdUser.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// The name of the user in etcd.
    pub fn user(&self) -> String {
        format!("{}-{}", self.name, self.mark)
    }

    /// The name of its role.
    pub fn role(&self) -> String {
        format!("{ROLE_PREFIX}{}:{}", self.mark, self.name)
    }

    /// The name of the role that says that it stays when its EtcdUser goes.
    pub fn retained_role(&self) -> String {
        format!("{ROLE_PREFIX}{RETAIN}{}:{}", self.mark, self.name)
    }
}

/// Whether a text is what names have of a uid.
pub fn is_mark(text: &str) -> bool {
    text.len() == MARK && text.chars().all(|digit| digit.is_ascii_hexdigit())
}

/// What is known of a user without an EtcdUser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Orphan {
    /// The API server said so after etcd had the user.
    Confirmed,
    /// The API server could not be asked.
    Unconfirmed,
    /// Its EtcdUser had it stay.
    Retained,
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
    /// `spec.auth.afterRestore: Keep`: users without an EtcdUser are named, and not revoked.
    pub keeps_orphans: bool,
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
