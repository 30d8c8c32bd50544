//! What is replicated besides keys and membership: alarms, whether auth is enabled. A change of it is an
//! entry, so a member that is behind does not know it yet, and an alarm outlives the member that raised it.

use quorate_model::auth::{AuthChange, Clients, Marked, Root};
use quorate_model::snapshot::Alarm;
use quorate_model::{ClusterId, MemberId, Refusal};

use super::calls::Reply;
use super::{Etcd, Failed, Group, Process, State, Stored};

/// What a caller must be where auth is enabled. The operator's certificate names root, or a user that does not exist; and without
/// certificates it has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Any user with a name.
    AnyUser,
    /// A user with the role root.
    Root,
}

impl Etcd {
    /// Raises an alarm. Returns whether that was committed.
    pub fn raise_alarm(&mut self, cluster: ClusterId, alarm: Alarm) -> bool {
        let is_new = self.group(cluster).is_some_and(|group| !group.tip.alarms.contains(&alarm));
        let raise = |group: &mut Group| {
            group.tip.alarms.insert(alarm);
        };
        is_new && self.commit_shared(cluster, raise)
    }

    /// Disarms all alarms of a cluster, as a person does. Returns whether that was committed.
    pub fn disarm(&mut self, cluster: ClusterId) -> bool {
        let any = self.group(cluster).is_some_and(|group| !group.tip.alarms.is_empty());
        self.make_room();
        any && self.commit_shared(cluster, |group| group.tip.alarms.clear())
    }

    /// Disarms one alarm at a member. One that is not active is no error.
    pub fn disarm_one(&mut self, at: &str, alarm: Alarm) -> Reply<()> {
        let cluster = self.consenting(at)?.id;
        self.may(at, Role::Root)?;
        let disarm = |group: &mut Group| {
            group.tip.alarms.remove(&alarm);
        };
        if self.commit_shared(cluster, disarm) { Ok(()) } else { Err(Failed::Unknown) }
    }

    /// Enables or disables auth, as a person does, who is root. Returns whether that was committed.
    pub fn set_auth(&mut self, cluster: ClusterId, enabled: bool) -> bool {
        let changes = self.group(cluster).is_some_and(|group| group.tip.auth != enabled);
        changes
            && self.commit_shared(cluster, |group| {
                (group.tip.auth, group.tip.root) = (enabled, Root::Ready);
                group.tip.has_root_role = true;
            })
    }

    /// Somebody who is let in while auth is off gives the user root a password, or another user the role root. Returns whether that was
    /// committed.
    pub fn plant(&mut self, cluster: ClusterId, other: Option<&str>) -> bool {
        let is_off = self.group(cluster).is_some_and(|group| !group.tip.auth);
        is_off
            && self.commit_shared(cluster, |group| {
                group.tip.has_root_role = true;
                if let Some(user) = other {
                    group.tip.other_roots.insert(user.to_owned());
                } else {
                    (group.tip.root, group.tip.root_has_password) = (Root::Ready, true);
                }
            })
    }

    /// A person takes the role root from all users but root. Returns whether that was committed.
    pub fn revoke_other_roots(&mut self, cluster: ClusterId) -> bool {
        self.commit_shared(cluster, |group| group.tip.other_roots.clear())
    }

    /// Somebody makes a user: one with the name and the role of the user of an EtcdUser, or one of another name. Returns whether that was
    /// committed.
    pub fn plant_user(&mut self, cluster: ClusterId, user: Result<Marked, String>) -> bool {
        self.commit_shared(cluster, |group| match user {
            Ok(user) => drop(group.tip.users.insert(user)),
            Err(user) => drop(group.tip.by_hand.insert(user)),
        })
    }

    /// What a member has of auth.
    pub fn auth(&self, at: &str) -> Reply<Stored> {
        let (_, dir, _) = self.voting(at)?;
        Ok(dir.stored.clone())
    }

    /// Deletes a user, or its role, at a member. The role is what is left of a user, so it goes with that. What is gone is no error to the
    /// operator.
    pub fn revoke(&mut self, at: &str, user: &Marked, is_role: bool) -> Reply<()> {
        let cluster = self.consenting(at)?.id;
        self.may(at, Role::Root)?;
        let revoke = |group: &mut Group| {
            if is_role {
                group.tip.users.remove(user);
            }
        };
        if self.commit_shared(cluster, revoke) { Ok(()) } else { Err(Failed::Unknown) }
    }

    /// A change of auth at a member. etcd judges it when it applies it.
    pub fn change_auth(&mut self, at: &str, change: AuthChange) -> Reply<()> {
        let cluster = self.consenting(at)?.id;
        self.may(at, Role::Root)?;
        let mut tip = self.group(cluster).map(|group| group.tip.clone()).unwrap_or_default();
        let (auth, root) = match (change, tip.root) {
            (AuthChange::RemoveRootUser, _) if tip.auth => return Err(Failed::Refused(Refusal::Other)),
            (AuthChange::RemoveRootUser, _) => {
                tip.root_has_password = false;
                (tip.auth, Root::Missing)
            }
            (AuthChange::AddRootUser, Root::Missing) if tip.has_root_role => (tip.auth, Root::NotGranted),
            (AuthChange::AddRootUser, Root::Missing) => (tip.auth, Root::NoRole),
            (AuthChange::AddRootRole, Root::NoRole) => {
                tip.has_root_role = true;
                (tip.auth, Root::NotGranted)
            }
            (AuthChange::GrantRoot, Root::NotGranted) => (tip.auth, Root::Ready),
            (AuthChange::AddClientUser, _) if tip.clients != Clients::NoUser => {
                return Err(Failed::Refused(Refusal::UserExists));
            }
            (AuthChange::GrantClient, _) if tip.clients == Clients::NoUser => {
                return Err(Failed::Refused(Refusal::UserNotFound));
            }
            (
                AuthChange::AddClientRole | AuthChange::GrantClientKeys | AuthChange::RemoveClientRole,
                root,
            ) => (tip.auth, root),
            (AuthChange::RemoveClientUser, root) => {
                tip.clients = Clients::NoUser;
                (tip.auth, root)
            }
            (AuthChange::AddClientUser, root) => {
                tip.clients = Clients::NoRole;
                (tip.auth, root)
            }
            (AuthChange::GrantClient, root) => {
                tip.clients = Clients::OfGrace;
                (tip.auth, root)
            }
            (AuthChange::Enable, Root::Ready) => (true, Root::Ready),
            (AuthChange::Disable, root) => (false, root),
            // It is so already.
            (AuthChange::AddRootUser, _) => return Err(Failed::Refused(Refusal::UserExists)),
            (AuthChange::AddRootRole | AuthChange::GrantRoot, Root::NotGranted | Root::Ready) => {
                return Ok(());
            }
            (AuthChange::AddRootRole | AuthChange::GrantRoot | AuthChange::Enable, _) => {
                return Err(Failed::Refused(Refusal::RootUserMissing));
            }
        };
        let committed = self.commit_shared(cluster, |group| {
            (group.tip.auth, group.tip.root) = (auth, root);
            group.tip.has_root_role = tip.has_root_role;
            group.tip.root_has_password = tip.root_has_password;
            group.tip.clients = tip.clients;
        });
        if committed { Ok(()) } else { Err(Failed::Unknown) }
    }

    /// Who the operator is to members from now on.
    pub fn operator_is_root(&mut self, is_root: bool) {
        self.operator_is_root = is_root;
    }

    /// Refuses what a caller may not do where auth is enabled, by what the member has of the log.
    pub(super) fn permits(&self, process: &Process, stored: &super::Stored, role: Role) -> Reply<()> {
        let has_name = process.launch.url.as_str().starts_with("https:");
        let allowed = match role {
            _ if !stored.auth => true,
            Role::AnyUser => has_name,
            Role::Root => has_name && self.operator_is_root,
        };
        if allowed { Ok(()) } else { Err(Failed::Refused(Refusal::Other)) }
    }

    pub(super) fn commit_shared(&mut self, cluster: ClusterId, change: impl FnOnce(&mut Group)) -> bool {
        self.commit_as(cluster, |group| {
            group.tip.without_effect += 1;
            change(group);
        })
    }

    /// A person starts one member with `--force-new-cluster`, all others being stopped. Its data are the cluster from then on, under
    /// the same cluster id: entries that it lacks are gone, and the others are removed.
    pub fn force_new_cluster(&mut self, dir: &str) -> bool {
        let Some(own) = self.dirs.get(dir).cloned() else { return false };
        let others_run = self
            .processes
            .values()
            .filter(|process| matches!(process.state, State::Starting | State::Running))
            .filter_map(|process| self.dir_of(process))
            .any(|other| other.cluster == own.cluster && other.member != own.member);
        if others_run {
            return false;
        }
        // The person decides to lose these.
        drop(self.take_entries_after(own.cluster, &own.stored));
        let Some(group) = self.group_mut(own.cluster) else { return false };
        let mut conf = group.conf().clone();
        let others: Vec<MemberId> = conf.members.keys().copied().filter(|id| *id != own.member).collect();
        conf.members.retain(|id, _| *id == own.member);
        conf.members.values_mut().for_each(|peer| peer.is_learner = false);
        conf.removed.extend(others);
        group.log.push(super::Entry::Conf(conf.into()));
        group.tip.len = group.log.len();
        group.lead(None);
        let tip = group.tip.clone();
        if let Some(own) = self.dirs.get_mut(dir) {
            own.stored = tip;
        }
        true
    }

    /// The storage puts a snapshot of before the last write of a client in the place of a volume that no process uses. `false` where the
    /// volume has no more than that, or where membership, auth, alarms or the version have changed since.
    pub fn go_back(&mut self, dir: &str) -> bool {
        let Some(own) = self.dirs.get(dir) else { return false };
        let Some(group) = self.group(own.cluster) else { return false };
        let Some(before) = group.before_last_write.clone() else { return false };
        let lost = group.log.get(before.len..own.stored.len).unwrap_or_default();
        let only_writes = lost.iter().all(|entry| matches!(entry, super::Entry::Write(_)));
        let Stored { len, without_effect, term, mib, .. } = before;
        let as_before = Stored { len, without_effect, term, mib, ..own.stored.clone() } == before;
        let is_used = self.processes.values().any(|process| process.launch.dir == dir);
        if lost.is_empty() || !only_writes || !as_before || is_used {
            return false;
        }
        self.dirs.get_mut(dir).map(|own| own.stored = before).is_some()
    }

    /// The volume is as it was some entries ago: the storage restored an earlier snapshot of it.
    pub fn roll_back(&mut self, dir: &str, entries: usize) -> bool {
        let Some(own) = self.dirs.get_mut(dir).filter(|own| own.stored.len >= entries) else { return false };
        own.stored.len -= entries;
        entries > 0
    }
}
