//! Etcd's users, roles and permissions.
//!
//! Every call is one raft entry, also those that only read: it needs a quorum, and the answer is the latest. While auth is enabled, all of these calls need a user with the role `root`; a user may ask for itself and
//! for its own roles. While it is disabled, anybody may make every one of them.
//!
//! What calls of other users that are on their way meet (etcd 3.5, 3.6 and 3.7, `tests/auth.rs`): every change but [`MemberClient::auth_enable`]
//! raises the revision of the auth store. While auth is enabled, etcd refuses writes that arrived before the change and are carried out after
//! it, with [`Refusal::AuthRevisionOld`](crate::Refusal): they did nothing, and the same call again is done. At [`MemberClient::auth_enable`] and
//! [`MemberClient::auth_disable`] no write of a user is refused, provided that nothing else changed just before.

use crate::wire::auth_client::AuthClient;
use crate::wire::permission::Type;
use crate::{AuthStatus, CallError, KeyAccess, Permission, wire};

use super::MemberClient;

impl MemberClient {
    /// Whether auth is enabled, and the revision of its store. 3.5 and 3.6 refuse it to a certificate that is no user, once auth is enabled.
    pub async fn auth_status(&self) -> Result<AuthStatus, CallError> {
        let request = wire::AuthStatusRequest {};
        let reply = self.call(async |channel| AuthClient::new(channel).auth_status(request).await).await?;
        Ok(AuthStatus { enabled: reply.enabled, revision: reply.auth_revision })
    }

    /// Enables auth. Refused without a user `root` that has the role `root`. That it is enabled already is no error.
    pub async fn auth_enable(&self) -> Result<(), CallError> {
        let request = wire::AuthEnableRequest {};
        self.call(async |channel| AuthClient::new(channel).auth_enable(request).await).await.map(drop)
    }

    /// Disables auth: everybody who is let in may read and write everything. Users and roles stay. That it is disabled already is no error.
    pub async fn auth_disable(&self) -> Result<(), CallError> {
        let request = wire::AuthDisableRequest {};
        self.call(async |channel| AuthClient::new(channel).auth_disable(request).await).await.map(drop)
    }

    /// Adds a user without a password: whoever presents a certificate of this common name is that user.
    pub async fn user_add(&self, name: &str) -> Result<(), CallError> {
        let options = Some(wire::UserAddOptions { no_password: true });
        let request = wire::AuthUserAddRequest { name: name.to_owned(), options };
        self.call(async |channel| AuthClient::new(channel).user_add(request).await).await.map(drop)
    }

    /// The roles of a user.
    pub async fn user_get(&self, name: &str) -> Result<Vec<String>, CallError> {
        let request = wire::AuthUserGetRequest { name: name.to_owned() };
        let reply = self.call(async |channel| AuthClient::new(channel).user_get(request).await).await?;
        Ok(reply.roles)
    }

    /// The names of all users.
    pub async fn user_list(&self) -> Result<Vec<String>, CallError> {
        let request = wire::AuthUserListRequest {};
        let reply = self.call(async |channel| AuthClient::new(channel).user_list(request).await).await?;
        Ok(reply.users)
    }

    /// Deletes a user. While auth is enabled, its next call for keys is refused.
    pub async fn user_delete(&self, name: &str) -> Result<(), CallError> {
        let request = wire::AuthUserDeleteRequest { name: name.to_owned() };
        self.call(async |channel| AuthClient::new(channel).user_delete(request).await).await.map(drop)
    }

    /// Grants a role to a user. The role must exist. That the user has it already is no error.
    pub async fn user_grant_role(&self, user: &str, role: &str) -> Result<(), CallError> {
        let request = wire::AuthUserGrantRoleRequest { user: user.to_owned(), role: role.to_owned() };
        self.call(async |channel| AuthClient::new(channel).user_grant_role(request).await).await.map(drop)
    }

    /// Takes a role from a user.
    pub async fn user_revoke_role(&self, user: &str, role: &str) -> Result<(), CallError> {
        let request = wire::AuthUserRevokeRoleRequest { name: user.to_owned(), role: role.to_owned() };
        self.call(async |channel| AuthClient::new(channel).user_revoke_role(request).await).await.map(drop)
    }

    /// Adds a role without permissions.
    pub async fn role_add(&self, name: &str) -> Result<(), CallError> {
        let request = wire::AuthRoleAddRequest { name: name.to_owned() };
        self.call(async |channel| AuthClient::new(channel).role_add(request).await).await.map(drop)
    }

    /// The permissions of a role. The role `root` has none, and may do everything.
    pub async fn role_get(&self, name: &str) -> Result<Vec<Permission>, CallError> {
        let request = wire::AuthRoleGetRequest { role: name.to_owned() };
        let reply = self.call(async |channel| AuthClient::new(channel).role_get(request).await).await?;
        reply.perm.into_iter().map(Permission::try_from).collect()
    }

    /// The names of all roles.
    pub async fn role_list(&self) -> Result<Vec<String>, CallError> {
        let request = wire::AuthRoleListRequest {};
        let reply = self.call(async |channel| AuthClient::new(channel).role_list(request).await).await?;
        Ok(reply.roles)
    }

    /// Deletes a role, and takes it from all users.
    pub async fn role_delete(&self, name: &str) -> Result<(), CallError> {
        let request = wire::AuthRoleDeleteRequest { role: name.to_owned() };
        self.call(async |channel| AuthClient::new(channel).role_delete(request).await).await.map(drop)
    }

    /// Grants a permission to a role, in place of one for the same key and range end.
    pub async fn role_grant_permission(&self, role: &str, permission: &Permission) -> Result<(), CallError> {
        let perm = Some(permission.into());
        let request = wire::AuthRoleGrantPermissionRequest { name: role.to_owned(), perm };
        self.call(async |channel| AuthClient::new(channel).role_grant_permission(request).await)
            .await
            .map(drop)
    }

    /// Takes the permission for exactly this key and range end from a role, whatever its access.
    pub async fn role_revoke_permission(
        &self,
        role: &str,
        key: &[u8],
        range_end: &[u8],
    ) -> Result<(), CallError> {
        let (role, key, range_end) = (role.to_owned(), key.to_vec(), range_end.to_vec());
        let request = wire::AuthRoleRevokePermissionRequest { role, key, range_end };
        self.call(async |channel| AuthClient::new(channel).role_revoke_permission(request).await)
            .await
            .map(drop)
    }
}

impl TryFrom<wire::Permission> for Permission {
    type Error = CallError;

    fn try_from(permission: wire::Permission) -> Result<Self, CallError> {
        let access = match Type::try_from(permission.perm_type) {
            Ok(Type::Read) => KeyAccess::Read,
            Ok(Type::Write) => KeyAccess::Write,
            Ok(Type::Readwrite) => KeyAccess::ReadWrite,
            Err(error) => {
                return Err(CallError::Unknown(format!("the reply to RoleGet is not understood: {error}")));
            }
        };
        Ok(Self { key: permission.key, range_end: permission.range_end, access })
    }
}

impl From<&Permission> for wire::Permission {
    fn from(permission: &Permission) -> Self {
        let Permission { key, range_end, access } = permission;
        let kind = match access {
            KeyAccess::Read => Type::Read,
            KeyAccess::Write => Type::Write,
            KeyAccess::ReadWrite => Type::Readwrite,
        };
        Self { perm_type: kind.into(), key: key.clone(), range_end: range_end.clone() }
    }
}
