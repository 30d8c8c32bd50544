//! etcd's auth, which the operator switches on and off: how far that is, what was seen, and what people ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::ids::ClusterId;
use crate::time::{Instant, Span};

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
    /// What may be done with the certificate that applications share, that of the cluster's clients.
    pub clients: Clients,
    /// Who else has the role root, while auth is off. Whoever has it when auth is enabled may do everything.
    pub others: BTreeSet<String>,
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
            clients: Clients::NoUser,
            others: BTreeSet::new(),
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

/// What may be done with auth on by who has the certificate that applications share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clients {
    /// Nothing: there is no such user.
    #[default]
    NoUser,
    /// Nothing: the user has no role.
    NoRole,
    /// Everything with all keys, for a time: the user has the role [`CLIENT_ROLE`] alone.
    OfGrace,
    /// What a person gave the user.
    OfPerson,
    /// Everything, or to read or write everything, with all keys, by what a person gave the user.
    AllKeys,
    /// Everything: a person gave the user the role root.
    Root,
}

/// The role of the user of the cluster's clients while they have time to become users. No EtcdUser can be given one that begins so.
pub const CLIENT_ROLE: &str = "quorate:clients";

impl Clients {
    /// Whether every key is refused.
    pub fn are_refused(self) -> bool {
        matches!(self, Self::NoUser | Self::NoRole)
    }

    /// Whether the user is not one that a person made for something.
    pub fn are_nobodys(self) -> bool {
        self.are_refused() || self == Self::OfGrace
    }
}

/// The time in which clients with the certificate that applications share go on as before. Recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientGrace {
    /// It began then, when auth was enabled.
    Since(Instant),
    /// It is over, or there is none: nobody was served before.
    Over,
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
    /// `spec.auth.clientGrace`.
    pub client_grace: Span,
    /// The cluster id in the annotation by which all clients are users by now.
    pub clients_are_users: Option<ClusterId>,
    /// `spec.auth.afterRestore: Keep`: users without an EtcdUser are named, and not revoked.
    pub keeps_orphans: bool,
}

impl AuthPolicy {
    /// How long clients have, where the spec does not say.
    pub const CLIENT_GRACE: Span = Span::seconds(7 * 86_400);
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
    /// L11: the role of the user of clients.
    AddClientRole,
    /// L11: it allows everything with all keys.
    GrantClientKeys,
    /// L11: the user of clients goes.
    RemoveClientUser,
    /// L11: the user of clients, without a password.
    AddClientUser,
    /// L11: it gets its role.
    GrantClient,
    /// L11: its role goes.
    RemoveClientRole,
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
            Self::AddClientRole => "RoleAdd quorate:clients",
            Self::GrantClientKeys => "RoleGrantPermission all keys to quorate:clients",
            Self::RemoveClientUser => "UserDelete quorate-client",
            Self::AddClientUser => "UserAdd quorate-client",
            Self::GrantClient => "UserGrantRole quorate:clients to quorate-client",
            Self::RemoveClientRole => "RoleDelete quorate:clients",
            Self::Enable => "AuthEnable",
            Self::Disable => "AuthDisable",
        })
    }
}
