//! The user of an EtcdUser in an etcd that is a table: what is decided is carried out act by act, and the operator may die after each.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use quorate_api::user::UserAccess::{Read, ReadWrite, Write};
use quorate_api::user::{EtcdUserStatus, UserAccess, UserPermission};
use quorate_api::{EtcdCluster, EtcdUser, Reason, keys};
use quorate_manifests::user::{NoSigner, Presence, presence};
use quorate_model::auth::{Marked, ROLE_PREFIX};
use quorate_model::{ClusterRef, Fingerprint, Instant, Span};
use serde_json::{Value, json};

use super::gate::{Own, Unsafe, may_sign, permits};
use super::permissions::{Permissions, Range, desired};
use super::*;

const NOW: Instant = Instant(1_800_000_000_000);
const ID: &str = "8e9e05c52164694d";
const OWN: &str = "billing-01234567";
const OWN_ROLE: &str = "quorate:01234567:billing";
const RETAINED: &str = "quorate:retain:01234567:billing";

/// etcd's auth, and what Kubernetes has of the EtcdUser.
#[derive(Clone, Debug)]
struct World {
    users: BTreeMap<String, Vec<String>>,
    roles: BTreeMap<String, Permissions>,
    enabled: bool,
    id: &'static str,
    user: Value,
    /// The EtcdUser is gone.
    gone: bool,
    allowed: Option<Vec<String>>,
    cluster: Option<Value>,
    answers: bool,
    signer: NoSigner,
    /// Its Secret is being deleted, and a finalizer of somebody else holds it.
    secret_is_held: bool,
    /// What was carried out.
    done: Vec<Act>,
}

impl World {
    fn new() -> Self {
        Self {
            users: BTreeMap::new(),
            roles: BTreeMap::new(),
            enabled: true,
            id: ID,
            user: json!({
                "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdUser",
                "metadata": {"name": "billing", "namespace": "default", "uid": "01234567-89ab-cdef-0123-456789abcdef", "generation": 1},
                "spec": {"cluster": "demo", "permissions": [
                    {"prefix": "/billing/", "access": "ReadWrite"}, {"key": "/flags/billing", "access": "Read"},
                ]},
            }),
            gone: false,
            allowed: None,
            cluster: Some(json!({
                "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
                "metadata": {"name": "demo", "namespace": "default", "uid": "c1"},
                "spec": {"size": 3, "version": "3.6.16"}, "status": {"clusterID": ID},
            })),
            answers: true,
            signer: NoSigner::NotYet("not in these tests".to_owned()),
            secret_is_held: false,
            done: Vec::new(),
        }
    }

    fn settled() -> Self {
        let mut world = Self::new();
        world.settle();
        world.done.clear();
        world
    }

    fn decision(&self) -> Decision {
        let user: EtcdUser = serde_json::from_value(self.user.clone()).unwrap();
        let cluster: Option<EtcdCluster> =
            self.cluster.clone().map(|cluster| serde_json::from_value(cluster).unwrap());
        let named = user.spec.roles.iter().map(|role| (role.clone(), self.roles.get(role).cloned()));
        let etcd = if !asks_etcd(&user, cluster.as_ref()) {
            Etcd::NotAsked
        } else if self.answers {
            Etcd::Answered(AuthState {
                cluster_id: self.id.to_owned(),
                enabled: self.enabled,
                roles: self.users.get(OWN).cloned(),
                earlier: earlier(&user, &self.users.keys().cloned().collect::<Vec<_>>()),
                own_role: self.roles.get(&role_name(&user)).cloned(),
                retained: self.roles.contains_key(RETAINED),
                named: named.collect(),
            })
        } else {
            Etcd::NoAnswer("no member answers".to_owned())
        };
        let held: Secret = serde_json::from_value(json!({"metadata": {
            "name": "billing-etcd", "namespace": "default", "uid": "s1", "ownerReferences": [{
                "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdUser", "name": "billing",
                "uid": user.metadata.uid, "controller": true,
            }],
            "finalizers": ["example.com/x"], "deletionTimestamp": "2027-01-15T07:59:00Z",
        }}))
        .unwrap();
        let at = ClusterRef::new("default", "demo");
        let secret =
            if self.secret_is_held { presence(&user, &at, Some(&held), None) } else { Presence::Absent };
        decide(&Seen {
            user: &user,
            cluster: cluster.as_ref(),
            etcd: &etcd,
            secret: &secret,
            key_fits: true,
            signer: Err(&self.signer),
            allowed: self.allowed.as_deref(),
            now: NOW,
        })
    }

    /// One pass, which ends after so many writes. Returns whether there was anything to do.
    fn pass(&mut self, writes: usize) -> bool {
        let decision = self.decision();
        let status = json!(decision.status);
        let has_changed = self.user["status"] != status && decision.status != EtcdUserStatus::default();
        let mut left = writes;
        if has_changed {
            if left == 0 {
                return true;
            }
            self.user["status"] = status;
            left -= 1;
        }
        let acts = decision.acts;
        for act in acts.iter().take(left) {
            self.carry_out(act);
        }
        has_changed || !acts.is_empty()
    }

    fn settle(&mut self) {
        for _ in 0..20 {
            if self.gone || !self.pass(usize::MAX) {
                return;
            }
        }
        panic!("it does not settle: {self:?}");
    }

    /// As etcd and Kubernetes do it, with their refusals.
    fn carry_out(&mut self, act: &Act) {
        self.done.push(act.clone());
        let role = OWN_ROLE.to_owned();
        match act {
            Act::AddFinalizer => self.user["metadata"]["finalizers"] = json!([keys::USER_FINALIZER]),
            Act::RemoveFinalizer => self.gone = true,
            Act::AddRole => assert!(self.roles.insert(role, Permissions::new()).is_none(), "it exists"),
            Act::Grant(range, access) => {
                self.roles.get_mut(&role).expect("the role exists").insert(range.clone(), *access);
            }
            Act::Revoke(range) => {
                self.roles.get_mut(&role).expect("the role exists").remove(range).expect("it is granted");
            }
            Act::AddUser => {
                assert!(self.users.insert(OWN.to_owned(), Vec::new()).is_none(), "it exists");
            }
            Act::GrantRole(role) => {
                assert!(self.roles.contains_key(role), "no role {role}");
                self.users.get_mut(OWN).expect("the user exists").push(role.clone());
            }
            Act::RevokeRole(role) => {
                self.users.get_mut(OWN).expect("the user exists").retain(|has| has != role);
            }
            Act::DeleteUser => drop(self.users.remove(OWN).expect("the user exists")),
            Act::DeleteRole => {
                self.roles.remove(&role).expect("the role exists");
                self.users.values_mut().for_each(|roles| roles.retain(|has| *has != role));
            }
            Act::AddRetained => {
                assert!(self.roles.insert(RETAINED.to_owned(), Permissions::new()).is_none(), "it exists");
            }
            Act::DeleteRetained => drop(self.roles.remove(RETAINED).expect("the role exists")),
            Act::WriteSecret | Act::RemoveSecret => {}
        }
    }

    fn is_as_desired(&self) -> bool {
        self.users.get(OWN).is_some_and(|roles| roles == &[OWN_ROLE])
            && self.roles.get(OWN_ROLE) == Some(&both())
    }

    fn ready(&self) -> (String, String, String) {
        let conditions = self.user["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let of =
            |type_: &str| conditions.iter().find(|one| one["type"] == type_).cloned().unwrap_or_default();
        let (ready, stalled) = (of("Ready"), of("Stalled"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&ready["reason"]), text(&stalled["status"]), text(&ready["message"]))
    }

    fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.user);
        let generation = self.user["metadata"]["generation"].as_i64().unwrap();
        self.user["metadata"]["generation"] = json!(generation + 1);
    }

    fn delete(&mut self) {
        self.user["metadata"]["deletionTimestamp"] = json!("2027-01-15T09:00:00Z");
    }
}

fn both() -> Permissions {
    [(Range::prefix(b"/billing/"), ReadWrite), (Range::key("/flags/billing"), Read)].into()
}

#[track_caller]
fn assert_reason(world: &World, reason: Reason, stalled: &str, says: &str) {
    let (found, is_stalled, message) = world.ready();
    assert_eq!((found.as_str(), is_stalled.as_str()), (reason.as_str(), stalled), "{message}");
    assert!(message.contains(says), "{message}");
}

#[test]
fn a_user_is_made_with_exactly_what_its_spec_says_and_then_nothing_is_done() {
    let mut world = World::new();
    world.settle();
    assert!(world.is_as_desired(), "{world:?}");
    let kinds: Vec<Act> = world.done.clone();
    assert_eq!(kinds.first(), Some(&Act::AddFinalizer), "before anything is in etcd");
    let place = |act: &Act| kinds.iter().position(|done| done == act).unwrap();
    assert!(place(&Act::AddRole) < place(&Act::AddUser), "a user never exists without its role");
    assert_eq!(world.user["status"]["username"], OWN);
    assert!(!world.pass(usize::MAX), "nothing is written when nothing has changed");
}

#[test]
fn wherever_the_operator_dies_the_next_one_ends_at_the_same_and_touches_nothing_else() {
    let mut stranger = World::new();
    stranger.users.insert("other".to_owned(), vec!["others".to_owned()]);
    stranger.roles.insert("others".to_owned(), [(Range::key("x"), Write)].into());
    for first in 0..10 {
        for second in 0..10 {
            let mut world = stranger.clone();
            world.pass(first);
            world.pass(second);
            world.settle();
            assert!(world.is_as_desired(), "{first}, {second}: {world:?}");
            assert_eq!(world.users["other"], ["others"]);
            // And when it goes.
            world.delete();
            world.pass(first);
            if !world.gone {
                world.pass(second);
            }
            world.settle();
            assert!(world.gone, "{first}, {second}");
            assert_eq!(world.users.len() + world.roles.len(), 2, "only those of others are left: {world:?}");
        }
    }
}

#[test]
fn a_user_of_somebody_else_is_another_one_though_it_has_the_name_of_the_etcd_user() {
    let mut world = World::new();
    world.users.insert("billing".to_owned(), vec!["root".to_owned()]);
    world.settle();
    assert!(world.is_as_desired(), "{world:?}");
    world.delete();
    world.settle();
    assert_eq!(world.users, [("billing".to_owned(), vec!["root".to_owned()])].into());
}

/// One that was deleted with `deletionPolicy: Retain`, or lost with its namespace, or that a restored snapshot brought back. Its certificates
/// may be with anybody, so the new user is another one.
#[test]
fn s17_the_user_of_an_earlier_etcd_user_of_this_name_goes_on_as_it_was_and_the_new_one_is_made() {
    let mut world = World::new();
    let (user, role) = ("billing-fedcba98".to_owned(), "quorate:fedcba98:billing".to_owned());
    world.users.insert(user.clone(), vec![role.clone()]);
    world.roles.insert(role.clone(), [(Range::prefix(b""), ReadWrite)].into());
    world.settle();
    assert!(world.is_as_desired(), "{world:?}");
    world.delete();
    world.settle();
    assert!(world.gone);
    assert_eq!(world.users, [(user, vec![role.clone()])].into());
    assert_eq!(world.roles.keys().collect::<Vec<_>>(), [&role]);
}

#[test]
fn users_of_earlier_etcd_users_are_named_with_the_commands_that_delete_them() {
    let user: EtcdUser = serde_json::from_value(World::new().user).unwrap();
    let all = [
        "root",
        "billing",
        OWN,
        "billing-fedcba98",
        "billing-fedcba98-01234567",
        "billing-2",
        "shop-fedcba98",
    ];
    let found = earlier(&user, &all.map(str::to_owned));
    assert_eq!(found, [("billing-fedcba98".to_owned(), "quorate:fedcba98:billing".to_owned())]);
    let state = AuthState { earlier: found, ..AuthState::default() };
    let said = super::report::earlier(&state);
    let commands = "etcdctl user delete billing-fedcba98; etcdctl role delete quorate:fedcba98:billing";
    assert!(said.ends_with(commands), "{said}");
    assert_eq!(super::report::earlier(&AuthState::default()), "");
}

#[test]
fn a_restored_snapshot_brings_an_older_user_which_is_put_right_or_none_which_is_made() {
    for has_user in [true, false] {
        let mut world = World::settled();
        world.id = "2";
        world.cluster.as_mut().unwrap()["status"]["clusterID"] = json!("2");
        world.roles.insert(OWN_ROLE.to_owned(), [(Range::prefix(b"/old/"), ReadWrite)].into());
        if !has_user {
            (world.users, world.roles) = (BTreeMap::new(), BTreeMap::new());
        }
        world.settle();
        assert!(world.is_as_desired(), "{world:?}");
    }
}

#[test]
fn drift_is_put_right() {
    type Drift = fn(&mut World);
    let table: [(&str, Drift); 6] = [
        ("more", |world| {
            world.roles.get_mut(OWN_ROLE).unwrap().insert(Range::prefix(b""), Read);
        }),
        ("less", |world| drop(world.roles.get_mut(OWN_ROLE).unwrap().pop_first())),
        ("another access", |world| {
            world.roles.get_mut(OWN_ROLE).unwrap().insert(Range::key("/flags/billing"), ReadWrite);
        }),
        ("no role", |world| {
            world.roles.remove(OWN_ROLE);
            world.users.get_mut(OWN).unwrap().clear();
        }),
        ("root by hand", |world| world.users.get_mut(OWN).unwrap().push("root".to_owned())),
        ("no user", |world| world.users.clear()),
    ];
    for (what, drift) in table {
        let mut world = World::settled();
        drift(&mut world);
        world.settle();
        assert!(world.is_as_desired(), "{what}: {world:?}");
        assert!(world.done.len() <= 4, "{what}: no more than is needed: {:?}", world.done);
    }
}

#[test]
fn an_access_that_changes_is_revoked_and_granted_and_a_prefix_that_goes_is_revoked_first() {
    let mut world = World::settled();
    world.edit(|user| {
        user["spec"]["permissions"] = json!([
            {"prefix": "/new/", "access": "Read"}, {"key": "/flags/billing", "access": "Write"},
        ]);
    });
    world.settle();
    let flags = Act::Grant(Range::key("/flags/billing"), Write);
    let new = Act::Grant(Range::prefix(b"/new/"), Read);
    // etcd keeps a permission of before beside the one that is granted, if it is not the first of that key.
    let before = Act::Revoke(Range::key("/flags/billing"));
    assert_eq!(world.done, [Act::Revoke(Range::prefix(b"/billing/")), before, flags, new]);
}

#[test]
fn what_allowed_prefixes_do_not_have_is_refused_and_taken_away_and_the_rest_stays() {
    let mut world = World::settled();
    let hash = world.user["status"]["permissionsHash"].clone();
    world.allowed = Some(vec!["/billing/".to_owned()]);
    world.settle();
    assert_reason(&world, Reason::PermissionNotAllowed, "True", "key /flags/billing");
    assert_eq!(world.done, [Act::Revoke(Range::key("/flags/billing"))]);
    assert_ne!(world.user["status"]["permissionsHash"], hash);
    world.allowed = Some(Vec::new());
    world.settle();
    assert_reason(&world, Reason::PermissionNotAllowed, "True", "has nothing");
    assert!(world.roles[OWN_ROLE].is_empty());
    world.allowed = Some(vec![String::new()]);
    world.settle();
    assert!(world.is_as_desired(), "the empty prefix is that of all keys");
}

#[test]
fn a_role_made_by_hand_is_granted_where_it_exists_and_allows_nothing_beyond_the_bound() {
    let mut world = World::settled();
    world.edit(|user| user["spec"]["roles"] = json!(["reader"]));
    world.settle();
    assert_reason(&world, Reason::RoleNotFound, "True", "etcd has no role reader");
    world.roles.insert("reader".to_owned(), [(Range::prefix(b"/shared/"), Read)].into());
    world.settle();
    assert_eq!(world.users[OWN], [OWN_ROLE, "reader"]);
    world.allowed = Some(vec!["/billing/".to_owned(), "/flags/".to_owned()]);
    world.settle();
    assert_reason(&world, Reason::PermissionNotAllowed, "True", "role reader");
    assert_eq!(world.users[OWN], [OWN_ROLE], "and it is taken away");
    world.edit(|user| user["spec"]["roles"] = json!([]));
    world.settle();
    assert!(world.is_as_desired() && world.roles.contains_key("reader"), "the role of others stays");
}

#[test]
fn a_deleted_user_goes_with_its_role_and_stays_with_retain_and_waits_for_a_quorum() {
    let mut world = World::settled();
    world.answers = false;
    world.delete();
    world.settle();
    assert!(!world.gone, "it waits");
    assert_reason(&world, Reason::ClusterNotServing, "False", r#"-p '{"metadata":{"finalizers":null}}'"#);
    world.answers = true;
    world.settle();
    assert!(world.gone && world.users.is_empty() && world.roles.is_empty());
    assert_eq!(world.done, [Act::DeleteUser, Act::DeleteRole, Act::RemoveFinalizer]);

    let mut retained = World::settled();
    retained.edit(|user| user["spec"]["deletionPolicy"] = json!("Retain"));
    retained.settle();
    retained.answers = false;
    retained.delete();
    retained.settle();
    assert!(retained.gone && retained.is_as_desired(), "also without a quorum");
}

#[test]
fn with_its_cluster_gone_or_going_it_goes_at_once() {
    for going in [true, false] {
        let mut world = World::settled();
        world.answers = false;
        if going {
            world.cluster.as_mut().unwrap()["metadata"]["deletionTimestamp"] = json!("2027-01-15T09:00:00Z");
        } else {
            world.cluster = None;
        }
        world.settle();
        assert_reason(&world, Reason::ClusterNotFound, "False", "EtcdCluster demo");
        world.delete();
        world.settle();
        assert!(world.gone);
    }
}

#[test]
fn while_its_cluster_waits_for_tenants_of_kamaji_it_is_kept_up_and_revoked() {
    let mut world = World::settled();
    let waits = |world: &mut World, finalizers: &[&str]| {
        let meta = &mut world.cluster.as_mut().unwrap()["metadata"];
        meta["deletionTimestamp"] = json!("2027-01-15T09:00:00Z");
        meta["finalizers"] = json!(finalizers);
    };
    waits(&mut world, &[keys::FINALIZER, keys::DATA_STORE_FINALIZER]);
    world.edit(|user| user["spec"]["permissions"] = json!([{"prefix": "/other/", "access": "Read"}]));
    world.settle();
    let reads = (Range::prefix(b"/other/"), Read);
    assert_eq!(world.roles[OWN_ROLE], [reads].into());
    world.answers = false;
    world.delete();
    world.settle();
    assert!(!world.gone, "it is revoked first");
    waits(&mut world, &[keys::FINALIZER]);
    world.settle();
    assert!(world.gone);
}

#[test]
fn a_restore_in_place_of_its_cluster_is_waited_for_before_it_goes() {
    let mut world = World::settled();
    world.cluster.as_mut().unwrap()["status"]["clusterID"] = Value::Null;
    world.delete();
    world.settle();
    assert!(!world.gone, "the snapshot may have the user");
    world.cluster.as_mut().unwrap()["status"]["clusterID"] = json!("2");
    world.id = "2";
    world.settle();
    assert!(world.gone && world.users.is_empty() && world.roles.is_empty());
}

#[test]
fn the_finalizer_of_somebody_else_is_left_alone() {
    let mut world = World::settled();
    world.user["metadata"]["finalizers"] = json!(["example.com/other"]);
    world.delete();
    world.settle();
    assert!(!world.gone && world.done.is_empty() && world.is_as_desired());
}

#[test]
fn an_etcd_with_another_id_than_status_records_is_not_touched() {
    let mut world = World::new();
    world.id = "9";
    world.settle();
    assert_reason(&world, Reason::ClusterNotServing, "False", "another cluster ID");
    assert!(world.done.is_empty());
}

#[test]
fn a_cluster_without_tls_has_no_users() {
    let mut world = World::new();
    world.cluster.as_mut().unwrap()["spec"]["tls"] = json!({"provider": "disabled"});
    world.settle();
    assert_reason(&world, Reason::TlsDisabled, "True", "spec.tls.provider: disabled");
    assert!(world.done.is_empty());
}

#[test]
fn the_gate_refuses_every_change_of_what_is_not_that_of_the_user() {
    let etcd = |roles: Option<&[&str]>| AuthState {
        roles: roles.map(|roles| roles.iter().map(|role| (*role).to_owned()).collect()),
        ..AuthState::default()
    };
    let own = Own { user: OWN, role: OWN_ROLE };
    let grant = |role: &str| Act::GrantRole(role.to_owned());
    let (none, ours) = (etcd(None), etcd(Some(&[OWN_ROLE])));
    let of_users = [Act::DeleteUser, grant(OWN_ROLE), Act::RevokeRole("others".to_owned()), Act::AddUser];
    for act in &of_users {
        let state = if *act == Act::AddUser { &none } else { &ours };
        assert_eq!(permits(own, state, act), Ok(()), "{act:?}");
        for user in ["billing", "billing-fedcba98", "shop-01234567", "billing01234567", ""] {
            assert_eq!(permits(Own { user, ..own }, state, act), Err(Unsafe::UserNotOurs), "{act:?}, {user}");
        }
        for user in ["root", "quorate-client"] {
            assert_eq!(permits(Own { user, ..own }, state, act), Err(Unsafe::Reserved), "{act:?}");
        }
    }
    let without_uid = Own { user: "billing-", role: "quorate::billing" };
    assert_eq!(permits(without_uid, &none, &Act::AddUser), Err(Unsafe::UserNotOurs));
    assert_eq!(permits(own, &ours, &Act::AddUser), Err(Unsafe::UserNotOurs), "it exists");
    for role in ["root", "quorate:fedcba98:other"] {
        assert_eq!(permits(own, &ours, &grant(role)), Err(Unsafe::RoleReserved));
    }
    for act in
        [Act::AddRole, Act::DeleteRole, Act::Revoke(Range::key("x")), Act::Grant(Range::key("x"), Read)]
    {
        for role in ["others", "quorate:fedcba98:billing", "quorate:01234567:shop"] {
            assert_eq!(
                permits(Own { role, ..own }, &ours, &act),
                Err(Unsafe::RoleNotOurs),
                "{act:?}, {role}"
            );
        }
        assert_eq!(permits(own, &ours, &act), Ok(()), "{act:?}");
    }
}

#[test]
fn the_gate_lets_the_recorded_authority_sign_for_a_user_of_its_own_by_a_clock_that_agrees() {
    let (known, other) = (Fingerprint::new("aa"), Fingerprint::new("bb"));
    let own = Own { user: OWN, role: OWN_ROLE };
    let state = AuthState { roles: Some(vec![OWN_ROLE.to_owned()]), ..AuthState::default() };
    let by = (Some(&known), &known);
    assert_eq!(may_sign(own, &state, by), Ok(()));
    assert_eq!(may_sign(own, &state, (Some(&known), &other)), Err(Unsafe::AnotherAuthority), "R19");
    assert_eq!(may_sign(own, &state, (None, &other)), Err(Unsafe::AnotherAuthority), "R19");
    let of_others = Own { user: "billing-fedcba98", ..own };
    assert_eq!(may_sign(of_others, &state, by), Err(Unsafe::UserNotOurs));
    assert_eq!(may_sign(own, &AuthState::default(), by), Err(Unsafe::UserNotOurs), "there is none");
    assert_eq!(may_sign(Own { user: "root", ..own }, &state, by), Err(Unsafe::Reserved));
}

#[test]
fn a_prefix_ends_where_no_key_begins_with_it_any_more() {
    let table: [(&[u8], &[u8]); 6] = [
        (b"/a/", b"/a0"),
        (b"a", b"b"),
        (b"", b"\0"),
        (b"\xff", b"\0"),
        (b"\xff\xff\xff", b"\0"),
        (b"a\xff\xff", b"b"),
    ];
    for (prefix, end) in table {
        assert_eq!(Range::prefix(prefix).end, end, "{prefix:?}");
    }
    assert_eq!(Range::prefix(b"").key, b"\0");
}

#[test]
fn a_range_is_within_a_prefix_if_every_key_of_it_is() {
    let allowed = ["/a/".to_owned(), "/b-".to_owned()];
    let range = |key: &[u8], end: &[u8]| Range { key: key.to_vec(), end: end.to_vec() };
    let within = [
        Range::prefix(b"/a/"),
        Range::prefix(b"/a/x/"),
        Range::key("/a/x"),
        Range::key("/b-"),
        Range::prefix(b"/b-1"),
        range(b"/a/x", b"/a/y"),
    ];
    let beyond = [
        Range::prefix(b"/a"),
        Range::prefix(b""),
        Range::key("/a"),
        Range::key("\0"),
        range(b"/a/x", b"\0"),
        range(b"/a/x", b"/a1"),
        range(b"/a/", b"/c"),
        range(b"/", b"/a0"),
    ];
    for range in within {
        assert!(range.is_within(&allowed), "{}", range.describe());
    }
    for range in beyond {
        assert!(!range.is_within(&allowed), "{}", range.describe());
        assert!(range.is_within(&[String::new()]) && !range.is_within(&[]), "{}", range.describe());
    }
}

#[test]
fn a_bound_that_ends_within_a_word_admits_what_is_below_it_and_no_neighbour() {
    let allowed = ["/tenant1".to_owned(), "/é".to_owned()];
    let within = [
        Range::key("/tenant1"),
        Range::key("/tenant1/a"),
        Range::prefix(b"/tenant1/"),
        Range::prefix("/é/".as_bytes()),
    ];
    let beyond = [
        Range::key("/tenant10"),
        Range::key("/tenant1-b"),
        Range::prefix(b"/tenant1"),
        Range::prefix(b"/tenant10/"),
        Range { key: b"/tenant1".to_vec(), end: b"/tenant10".to_vec() },
        Range::prefix("/éa".as_bytes()),
    ];
    for range in within {
        assert!(range.is_within(&allowed), "{}", range.describe());
    }
    for range in beyond {
        assert!(!range.is_within(&allowed), "{}", range.describe());
    }

    let mut world = World::settled();
    world.edit(|user| user["spec"]["permissions"] = json!([{"prefix": "/tenant1", "access": "ReadWrite"}]));
    world.allowed = Some(vec!["/tenant1".to_owned()]);
    world.settle();
    assert_reason(&world, Reason::PermissionNotAllowed, "True", "/tenant1 (that key, and prefix /tenant1/)");
    assert!(world.roles[OWN_ROLE].is_empty());
    world.edit(|user| user["spec"]["permissions"] = json!([{"prefix": "/tenant1/", "access": "ReadWrite"}]));
    world.settle();
    assert_eq!(world.roles[OWN_ROLE], [(Range::prefix(b"/tenant1/"), ReadWrite)].into());
}

#[test]
fn what_a_spec_says_twice_is_allowed_together_and_what_says_nothing_is_nothing() {
    let permission = |prefix: Option<&str>, key: Option<&str>, all_keys: bool, access: UserAccess| {
        UserPermission { prefix: prefix.map(str::to_owned), key: key.map(str::to_owned), all_keys, access }
    };
    let found = desired(&[
        permission(Some("/a/"), None, false, Read),
        permission(Some("/a/"), None, false, Write),
        permission(None, Some("/a/"), false, Read),
        // An older definition lets them in.
        permission(None, None, false, ReadWrite),
        permission(Some(""), None, false, ReadWrite),
        permission(Some("/b"), Some("/b"), false, ReadWrite),
    ]);
    assert_eq!(found, [(Range::prefix(b"/a/"), ReadWrite), (Range::key("/a/"), Read)].into());
    assert_eq!(desired(&[permission(None, None, true, Read)]), [(Range::prefix(b""), Read)].into());
}

/// Whether etcd's auth waits for the user of this world, so many minutes after now.
fn is_awaited(world: &World, minutes: u64) -> bool {
    let user: EtcdUser = serde_json::from_value(world.user.clone()).unwrap();
    let cluster: EtcdCluster = serde_json::from_value(world.cluster.clone().unwrap()).unwrap();
    !to_come(&cluster, [&user].into_iter(), NOW + Span::seconds(60 * minutes)).is_empty()
}

#[test]
fn auth_does_not_wait_for_a_user_that_is_in_etcd_and_whose_certificate_is_made_somewhere_else() {
    let mut world = World { signer: NoSigner::Elsewhere, enabled: false, ..World::new() };
    assert!(is_awaited(&world, 0));
    world.settle();
    assert_reason(&world, Reason::CertificatesMissing, "False", "etcd knows the user");
    assert!(!is_awaited(&world, 0));
}

#[test]
fn auth_does_not_wait_for_a_secret_that_the_finalizer_of_somebody_else_holds() {
    let mut world = World { secret_is_held: true, enabled: false, ..World::new() };
    world.settle();
    assert_reason(&world, Reason::UserPending, "False", "Secret billing-etcd is written");
    assert!(!is_awaited(&world, 0));
}

#[test]
fn auth_waits_for_a_user_until_it_is_in_etcd_as_this_spec_asks_for() {
    let mut world = World::settled();
    assert!(!is_awaited(&world, 0));
    world.edit(|user| user["spec"]["permissions"][0]["access"] = json!("Read"));
    assert!(is_awaited(&world, 0), "its role is that of the spec before");
    world.settle();
    assert!(!is_awaited(&world, 0));
    world.users.clear();
    world.pass(1);
    assert!(is_awaited(&world, 0), "somebody deleted it, and it is made again");
    world.settle();
    assert!(!is_awaited(&world, 0));
}

#[test]
fn auth_waits_ten_minutes_for_a_user_that_does_not_come_and_not_for_one_that_is_refused() {
    let mut world = World { answers: false, ..World::new() };
    world.user["metadata"]["creationTimestamp"] = json!("2027-01-15T08:00:00Z");
    assert!(is_awaited(&world, 9), "nobody has looked at it");
    assert!(!is_awaited(&world, 10));
    world.cluster.as_mut().unwrap()["metadata"]["creationTimestamp"] = json!("2027-01-15T08:05:00Z");
    assert!(is_awaited(&world, 14), "its EtcdCluster is younger");
    assert!(!is_awaited(&world, 15));
    world.cluster.as_mut().unwrap()["spec"]["tls"] = json!({"provider": "disabled"});
    world.settle();
    assert_reason(&world, Reason::TlsDisabled, "True", "");
    assert!(!is_awaited(&world, 0));
}

#[test]
fn a_role_of_etcd_with_the_mark_of_no_etcduser_is_of_an_orphan_and_one_that_a_person_made_of_none() {
    let roles = [
        "root",
        OWN_ROLE,
        "quorate:fedcba98:shop",
        "quorate:retain:fedcba98:shop",
        "quorate:retain:76543210:no-role",
        "quorate:89abcdef",
        "quorate:short:shop",
        "quorate:clients",
        "of-a-person",
    ];
    let roles: Vec<String> = roles.into_iter().map(str::to_owned).collect();
    let found = |uids: &[&str]| orphans(&roles, uids.iter().copied());
    let (own, shop) = (Marked::new("billing", "01234567"), Marked::new("shop", "fedcba98"));
    assert_eq!((&*own.user(), &*own.role(), &*own.retained_role()), (OWN, OWN_ROLE, RETAINED));
    assert_eq!(found(&[]), [(own.clone(), false), (shop.clone(), true)].into());
    let (uid, other) = ("01234567-0000-4000-8000-000000000000", "fedcba98-0000-4000-8000-000000000000");
    assert_eq!(found(&[uid]), [(shop, true)].into());
    assert_eq!(found(&[other]), [(own, false)].into());
    assert!(found(&[uid, other]).is_empty());
    assert_eq!(ROLE_PREFIX, quorate_api::user::ROLE_PREFIX);
}

/// Whether the user of this world would be revoked where its EtcdUser is gone.
fn is_revocable(world: &World) -> bool {
    let roles: Vec<String> = world.roles.keys().cloned().collect();
    orphans(&roles, std::iter::empty()).values().any(|stays| !stays)
}

#[test]
fn a_user_that_is_to_stay_is_known_by_what_etcd_has_from_before_it_is_made() {
    let retain = |user: &mut Value| user["spec"]["deletionPolicy"] = json!("Retain");
    let mut world = World::new();
    world.edit(retain);
    for writes in 0..12 {
        let mut made = world.clone();
        made.pass(writes);
        assert!(!is_revocable(&made), "after {writes}");
    }
    world.settle();
    assert!(world.roles.contains_key(RETAINED) && world.users[OWN] == [OWN_ROLE], "{world:?}");
    world.delete();
    world.settle();
    assert!(world.gone && world.users.contains_key(OWN) && !is_revocable(&world));
}

#[test]
fn the_policy_at_the_moment_of_the_deletion_is_the_one_that_etcd_keeps() {
    // It becomes Retain, and the EtcdUser is deleted before anybody looked.
    let mut world = World::settled();
    assert!(is_revocable(&world));
    world.edit(|user| user["spec"]["deletionPolicy"] = json!("Retain"));
    world.delete();
    world.answers = false;
    world.settle();
    assert!(!world.gone, "it waits for a member that answers");
    world.answers = true;
    world.settle();
    assert!(world.gone && !is_revocable(&world));
    // And back: nothing is left.
    let mut world = World::new();
    world.edit(|user| user["spec"]["deletionPolicy"] = json!("Retain"));
    world.settle();
    world.edit(|user| user["spec"]["deletionPolicy"] = json!("Revoke"));
    let mut live = world.clone();
    live.settle();
    assert!(!live.roles.contains_key(RETAINED) && live.is_as_desired());
    world.delete();
    world.settle();
    assert!(world.gone && world.users.is_empty() && world.roles.is_empty(), "{world:?}");
}
