//! The gate: the one place that refuses a change in etcd's auth. The operator acts there as root, so nothing in etcd would refuse it. What
//! is due proposes; the gate looks at what etcd has again, for each act.

use quorate_api::user::{RESERVED_PREFIX, ROLE_PREFIX, ROOT};

use quorate_model::{ClockDifference, Fingerprint};

use super::decide::{Act, AuthState};

/// Why a change is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsafe {
    /// The role is not that of this EtcdUser.
    RoleNotOurs,
    /// The user is not that of this EtcdUser: it has not its role, and existed before.
    UserNotOurs,
    /// A user that the operator or a member is.
    Reserved,
    /// A role that would give more than the spec can say, or belongs to another EtcdUser.
    RoleReserved,
    /// R19: it is not the recorded authority of clients that signs.
    AnotherAuthority,
    /// R23: nothing is signed by a clock that differs from the API server's.
    ClockDiffers(ClockDifference),
}

/// Whose changes they are.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// The name of the user.
    pub user: &'a str,
    /// The name of its role, which has the uid of the EtcdUser in it.
    pub role: &'a str,
    /// Status records that no user of this name was in this etcd cluster when this one was to be made.
    pub claimed: bool,
}

impl Own<'_> {
    /// Whether the user that etcd has is that of this EtcdUser.
    pub fn has_user(&self, etcd: &AuthState) -> bool {
        let has_role = |roles: &Vec<String>| roles.iter().any(|role| role == self.role);
        etcd.roles.as_ref().is_some_and(|roles| self.claimed || has_role(roles))
    }
}

/// Whether an act may be carried out on what etcd has.
pub fn permits(own: Own<'_>, etcd: &AuthState, act: &Act) -> Result<(), Unsafe> {
    match act {
        Act::AddRole | Act::Grant(..) | Act::Revoke(_) | Act::DeleteRole => {
            if own.role.starts_with(ROLE_PREFIX) { Ok(()) } else { Err(Unsafe::RoleNotOurs) }
        }
        Act::AddUser => {
            is_not_reserved(own)?;
            // It is written down before that nobody had the name, so that what a crash leaves behind is known again.
            if own.claimed && etcd.roles.is_none() { Ok(()) } else { Err(Unsafe::UserNotOurs) }
        }
        Act::GrantRole(role) => {
            if role != own.role && (role == ROOT || role.starts_with(ROLE_PREFIX)) {
                return Err(Unsafe::RoleReserved);
            }
            may_change(own, etcd)
        }
        Act::RevokeRole(_) | Act::DeleteUser => may_change(own, etcd),
        Act::AddFinalizer | Act::RemoveFinalizer | Act::WriteSecret | Act::RemoveSecret => Ok(()),
    }
}

/// R19, R23: whether a certificate with the name of the user may be signed. Whoever has it is that user, so it must be the one of this
/// EtcdUser.
pub fn may_sign(
    own: Own<'_>,
    etcd: &AuthState,
    (recorded, by): (Option<&Fingerprint>, &Fingerprint),
    clock_differs: Option<ClockDifference>,
) -> Result<(), Unsafe> {
    is_not_reserved(own)?;
    if !own.has_user(etcd) {
        return Err(Unsafe::UserNotOurs);
    }
    if recorded != Some(by) {
        return Err(Unsafe::AnotherAuthority);
    }
    match clock_differs {
        Some(differs) => Err(Unsafe::ClockDiffers(differs)),
        None => Ok(()),
    }
}

/// A user that is added in the same look is claimed.
fn may_change(own: Own<'_>, etcd: &AuthState) -> Result<(), Unsafe> {
    is_not_reserved(own)?;
    let is_added = etcd.roles.is_none() && own.claimed;
    if is_added || own.has_user(etcd) { Ok(()) } else { Err(Unsafe::UserNotOurs) }
}

fn is_not_reserved(own: Own<'_>) -> Result<(), Unsafe> {
    let is_reserved = own.user == ROOT || own.user.starts_with(RESERVED_PREFIX);
    if is_reserved { Err(Unsafe::Reserved) } else { Ok(()) }
}
