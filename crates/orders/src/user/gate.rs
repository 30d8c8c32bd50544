//! The gate: the one place that refuses a change in etcd's auth. The operator acts there as root, so nothing in etcd would refuse it. What
//! is due proposes; the gate looks at what etcd has again, for each act.

use quorate_api::user::{RESERVED_PREFIX, ROLE_PREFIX, ROOT};

use quorate_model::Fingerprint;

use super::decide::{Act, AuthState};

/// Why a change is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsafe {
    /// The role is not that of this EtcdUser.
    RoleNotOurs,
    /// The user is not that of this EtcdUser: its name has not the uid that its role has; or there is none.
    UserNotOurs,
    /// A user that the operator or a member is.
    Reserved,
    /// A role that would give more than the spec can say, or belongs to another EtcdUser.
    RoleReserved,
    /// R19: it is not the recorded authority of clients that signs.
    AnotherAuthority,
}

/// Whose changes they are.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// The name of the user: `NAME-UID8`, so whoever has it is of this EtcdUser.
    pub user: &'a str,
    /// The name of its role: `quorate:UID8:NAME`.
    pub role: &'a str,
}

impl Own<'_> {
    /// Whether both are of one EtcdUser.
    fn is_marked(self) -> bool {
        let role = self.role.strip_prefix(ROLE_PREFIX).and_then(|rest| rest.split_once(':'));
        role.is_some_and(|(mark, name)| {
            !mark.is_empty() && self.user.strip_prefix(name) == Some(&*format!("-{mark}"))
        })
    }
}

/// Whether an act may be carried out on what etcd has.
pub fn permits(own: Own<'_>, etcd: &AuthState, act: &Act) -> Result<(), Unsafe> {
    match act {
        Act::AddRetained
        | Act::AddRole
        | Act::Grant(..)
        | Act::Revoke(_)
        | Act::DeleteRole
        | Act::DeleteRetained => {
            if own.is_marked() {
                Ok(())
            } else {
                Err(Unsafe::RoleNotOurs)
            }
        }
        Act::AddUser => {
            may_change(own)?;
            if etcd.roles.is_none() { Ok(()) } else { Err(Unsafe::UserNotOurs) }
        }
        Act::GrantRole(role) => {
            if role != own.role && (role == ROOT || role.starts_with(ROLE_PREFIX)) {
                return Err(Unsafe::RoleReserved);
            }
            may_change(own)
        }
        Act::RevokeRole(_) | Act::DeleteUser => may_change(own),
        Act::AddFinalizer | Act::RemoveFinalizer | Act::WriteSecret | Act::RemoveSecret => Ok(()),
    }
}

/// R19: whether a certificate with the name of the user may be signed. Whoever has it is that user, so it must be the one of this
/// EtcdUser.
pub fn may_sign(
    own: Own<'_>,
    etcd: &AuthState,
    (recorded, by): (Option<&Fingerprint>, &Fingerprint),
) -> Result<(), Unsafe> {
    may_change(own)?;
    if etcd.roles.is_none() {
        return Err(Unsafe::UserNotOurs);
    }
    if recorded != Some(by) {
        return Err(Unsafe::AnotherAuthority);
    }
    Ok(())
}

fn may_change(own: Own<'_>) -> Result<(), Unsafe> {
    let is_reserved = own.user == ROOT || own.user.starts_with(RESERVED_PREFIX);
    if is_reserved {
        return Err(Unsafe::Reserved);
    }
    if own.is_marked() { Ok(()) } else { Err(Unsafe::UserNotOurs) }
}
