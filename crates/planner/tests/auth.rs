//! etcd's auth: switched on once everybody who must go on is root, and off by order only.

use std::collections::BTreeSet;

use crate::world::{World, name, words};
use quorate_model::auth::{AuthChange, AuthStage, ClientGrace, Clients, Marked, Orphan, Root, SeenAuth};
use quorate_model::effect::{AuthChanging, AuthWait, Unsafe};
use quorate_model::{
    Ca, ClusterId, Effect, EtcdCall, Instant, KubeEffect, Leaf, Plan, Record, Snapshot, Span, Step, Waiting,
};
use quorate_planner::safety::mutants::without;
use quorate_planner::safety::{Scene, permits};

/// A cluster whose spec asks for auth.
fn wanted(size: usize) -> World {
    let mut world = World::running(size);
    world.seen.auth_policy.wanted = true;
    world
}

fn judge(world: &World, effect: &Effect) -> Result<(), Unsafe> {
    let scene = Scene { seen: &world.seen, record: &world.seen.record, now: world.now, before: &[] };
    permits(&scene, effect)
}

/// Judges an effect that comes after these, with this record.
fn judge_after(world: &World, record: &Record, before: &[Effect], effect: &Effect) -> Result<(), Unsafe> {
    permits(&Scene { seen: &world.seen, record, now: world.now, before }, effect)
}

/// What enables auth: root is made anew right before.
const ENABLED: [AuthChange; 4] =
    [AuthChange::RemoveRootUser, AuthChange::AddRootUser, AuthChange::GrantRoot, AuthChange::Enable];

fn changes(plan: &Plan) -> Vec<AuthChange> {
    let change = |effect: &Effect| match effect.as_etcd() {
        Some(EtcdCall::Auth { change }) => Some(*change),
        Some(_) | None => None,
    };
    plan.effects.iter().filter_map(change).collect()
}

/// Whether the plan has this change, once it is carried out up to there.
fn comes_to(world: &mut World, wanted: AuthChange) -> bool {
    for _ in 0..200 {
        let plan = world.plan();
        if changes(&plan).contains(&wanted) {
            return true;
        }
        if plan.effects.is_empty() && plan.recorded_steps.is_empty() {
            return false;
        }
        world.carry_out(plan);
    }
    false
}

#[test]
fn auth_is_enabled_last_when_every_pod_has_the_credential_and_root_is_made() {
    let mut world = wanted(3);
    let story = world.settle();
    assert_eq!(world.auth, (true, Root::Ready));
    assert_eq!(world.seen.record.auth, Some(AuthStage::On));
    assert!(world.seen.pods.values().all(|pod| pod.has_credential));
    let at = |words: &str| story.find(words).unwrap_or_else(|| panic!("no {words:?} in\n{story}"));
    let last_pod = story.rfind("U5").unwrap();
    assert!(at("L1 records") < at("L4 UserAdd root"), "{story}");
    assert!(at("operator") < last_pod && last_pod < at("L4 UserAdd root"), "{story}");
    assert!(at("L4 UserAdd root") < at("L5 RoleAdd root") && at("L5 RoleAdd root") < at("L6 UserGrantRole"));
    assert!(at("L6 UserGrantRole") < at("L8 records") && at("L8 records") < at("L8 AuthEnable"), "{story}");
    insta::assert_snapshot!("auth_on", story);
}

#[test]
fn auth_is_recorded_in_the_same_plan_as_it_is_enabled_and_is_enabled_again_after_a_lost_call() {
    let mut world = wanted(3);
    assert!(comes_to(&mut world, AuthChange::Enable));
    let plan = world.plan();
    assert_eq!(plan.record.auth, Some(AuthStage::On), "recorded before it is sent");
    // The call never arrives.
    world.seen.record = plan.record;
    let again = world.plan();
    assert_eq!(changes(&again), ENABLED);
    world.carry_out(again);
    assert!(world.auth.0);
}

#[test]
fn auth_is_enabled_after_the_users_of_the_cluster_are_made() {
    let mut world = wanted(3);
    world.seen.users_to_come.insert("billing".to_owned());
    assert!(!comes_to(&mut world, AuthChange::Enable));
    let first = AuthChanging::UserFirst("billing".to_owned());
    assert!(world.plan().waiting.contains(&Waiting::Auth(AuthWait::Changing(first))));
    world.seen.users_to_come.clear();
    assert!(comes_to(&mut world, AuthChange::Enable));
}

#[test]
fn auth_is_not_enabled_while_the_certificate_that_applications_share_is_that_of_root() {
    let mut world = wanted(3);
    world.clients = Clients::Root;
    assert!(!comes_to(&mut world, AuthChange::Enable));
    assert!(world.plan().waiting.contains(&Waiting::Auth(AuthWait::ClientsAreRoot)));
    world.clients = Clients::NoUser;
    assert!(comes_to(&mut world, AuthChange::Enable));
    // What is on stays on, and is told.
    world.settle();
    world.clients = Clients::Root;
    assert!(world.plan().waiting.contains(&Waiting::Auth(AuthWait::ClientsAreRoot)));
}

#[test]
fn a_password_that_somebody_gave_root_does_not_outlive_the_enabling() {
    let mut world = wanted(3);
    (world.auth, world.has_root_role, world.planted) = ((false, Root::Ready), true, true);
    world.settle();
    assert_eq!((world.auth, world.planted), ((true, Root::Ready), false));
    // Nor one of the time in which somebody had auth disabled.
    (world.auth.0, world.planted) = (false, true);
    world.settle();
    assert_eq!((world.auth, world.planted), ((true, Root::Ready), false));
}

#[test]
fn a_pass_that_ends_while_root_is_made_anew_is_made_good_by_the_next_one() {
    for done in 0..4 {
        let mut world = wanted(3);
        assert!(comes_to(&mut world, AuthChange::Enable));
        let mut plan = world.plan();
        plan.effects.truncate(done);
        world.carry_out(plan);
        assert!(!world.auth.0);
        // Somebody uses the moment.
        world.planted = true;
        world.settle();
        assert_eq!((world.auth, world.planted), ((true, Root::Ready), false), "after {done}");
    }
}

#[test]
fn auth_is_not_enabled_while_somebody_else_has_the_role_root() {
    let mut world = wanted(3);
    world.other_roots = BTreeSet::from(["eve".to_owned()]);
    assert!(!comes_to(&mut world, AuthChange::Enable));
    assert!(
        world.plan().waiting.contains(&Waiting::Auth(AuthWait::OthersAreRoot(world.other_roots.clone())))
    );
    world.other_roots.clear();
    assert!(comes_to(&mut world, AuthChange::Enable));
    // What was on before and is off is open to everybody, so it waits for nobody.
    world.settle();
    world.auth.0 = false;
    world.other_roots = BTreeSet::from(["eve".to_owned()]);
    world.settle();
    assert!(world.auth.0);
}

#[test]
fn an_order_to_disable_auth_is_spent_and_does_not_wait_for_a_spec_that_forgets_it() {
    let mut world = wanted(3);
    world.settle();
    let id = world.seen.record.cluster_id;
    // Beside a spec that wants auth it says nothing, today or later.
    world.seen.auth_policy.disable = id;
    world.settle();
    assert_eq!(world.seen.record.spent_disable_auth, id);
    world.seen.auth_policy.wanted = false;
    world.settle();
    assert!(world.auth.0, "it was spent");
    // Taken off and given again it is an order.
    world.seen.auth_policy.disable = None;
    world.settle();
    world.seen.auth_policy.disable = id;
    world.settle();
    assert!(!world.auth.0);
    // The one that was followed does not fire once auth is on again.
    world.seen.auth_policy.wanted = true;
    world.settle();
    assert!(world.auth.0);
    world.seen.auth_policy.wanted = false;
    world.settle();
    assert!(world.auth.0, "it was followed before");
}

#[test]
fn auth_that_is_off_is_enabled_again_also_where_the_spec_forgot_it() {
    let mut world = wanted(3);
    world.settle();
    world.seen.auth_policy.wanted = false;
    world.auth = (false, Root::Missing);
    world.settle();
    assert_eq!(world.auth, (true, Root::Ready));
}

#[test]
fn auth_is_not_committed_while_the_certificate_of_root_cannot_be_signed() {
    let mut world = wanted(3);
    let authority = world.seen.certificates.as_mut().unwrap().authorities.remove(&Ca::Clients);
    world.settle();
    assert!(!world.seen.record.target.as_ref().unwrap().auth, "the members go on as they are");
    let says = |world: &mut World, text: &str| {
        let waiting = world.plan().waiting;
        let is_told = |wait: &Waiting| match wait {
            Waiting::SafePoint(_) | Waiting::Auth(AuthWait::Changing(_)) => words(wait).contains(text),
            _ => false,
        };
        assert_eq!(waiting.iter().filter(|wait| is_told(wait)).count(), 2, "{waiting:?}");
    };
    says(&mut world, "NoRootCertificate(Lost { secret: \"Secret default/demo-ca\", loss: Missing(");
    world.seen.certificates.as_mut().unwrap().authorities.extend(authority.map(|one| (Ca::Clients, one)));
    world.settle();
    assert!(world.auth.0);
}

#[test]
fn auth_that_somebody_disabled_is_enabled_again() {
    let mut world = wanted(3);
    world.settle();
    world.auth.0 = false;
    world.settle();
    assert!(world.auth.0);
    // After a restore of a snapshot from before, root is made first.
    world.auth = (false, Root::Missing);
    let story = world.settle();
    assert_eq!(world.auth, (true, Root::Ready), "{story}");
}

#[test]
fn auth_that_a_person_enabled_is_taken_over_once_the_spec_asks_for_it() {
    let mut world = wanted(3);
    world.auth = (true, Root::Ready);
    let story = world.settle();
    assert_eq!(world.seen.record.auth, Some(AuthStage::On));
    assert!(!story.contains("AuthEnable"), "{story}");
}

#[test]
fn auth_that_a_person_enabled_is_told_and_left_alone_until_the_spec_asks_for_it() {
    let mut world = World::running(3);
    world.auth = (true, Root::Ready);
    let plan = world.plan();
    assert_eq!(plan.waiting, [Waiting::Auth(AuthWait::NotOurs)]);
    assert_eq!((plan.effects.len(), plan.record.auth), (0, None));
    // A person made the operator's user root, which keeps nothing from it.
    world.clients = Clients::Root;
    assert_eq!(world.plan().waiting, []);
    world.clients = Clients::NoUser;
    world.auth.0 = false;
    assert_eq!(world.plan().waiting, []);
    world.auth.0 = true;
    world.seen.auth_policy.wanted = true;
    world.settle();
    assert_eq!((world.seen.record.auth, world.plan().waiting), (Some(AuthStage::On), Vec::new()));
}

#[test]
fn a_cluster_without_auth_is_asked_for_it_now_and_then_and_sooner_where_a_person_has_enabled_it() {
    let world = World::running(3);
    let seen = |enabled, ago: i64| SeenAuth::new(Instant(world.now.0 - ago * 1000), enabled);
    let asks = |known: Option<SeenAuth>| world.seen.asks_for_auth(known.as_ref(), world.now);
    assert!(asks(None));
    assert_eq!([59, 599, 600].map(|ago| asks(Some(seen(false, ago)))), [false, false, true]);
    assert_eq!([59, 60].map(|ago| asks(Some(seen(true, ago)))), [false, true]);
    let mut new = world.seen.clone();
    new.record.cluster_id = None;
    assert!(!new.asks_for_auth(None, world.now), "it is not bootstrapped");
}

#[test]
fn a_spec_that_is_taken_back_before_auth_is_enabled_leaves_it_off() {
    let mut world = wanted(3);
    while world.seen.record.auth.is_none() {
        let plan = world.plan();
        world.carry_out(plan);
    }
    assert_eq!(world.seen.record.auth, Some(AuthStage::Preparing));
    world.seen.auth_policy.wanted = false;
    world.settle();
    assert_eq!((world.seen.record.auth, world.auth.0), (None, false));
    assert!(!world.seen.record.target.as_ref().unwrap().auth);
}

#[test]
fn without_an_order_auth_stays_on_whatever_the_spec_says() {
    let mut world = wanted(3);
    world.settle();
    world.seen.auth_policy.wanted = false;
    let other = Some(ClusterId(0x99));
    for disable in [None, other] {
        world.seen.auth_policy.disable = disable;
        let plan = world.plan();
        assert!(plan.effects.is_empty(), "{plan:?}");
        let cluster = world.seen.record.cluster_id.unwrap();
        assert!(plan.waiting.contains(&Waiting::Auth(AuthWait::StaysOn(cluster))), "{:?}", plan.waiting);
        assert_eq!(plan.record.auth, Some(AuthStage::On));
        assert!(plan.record.target.as_ref().unwrap().auth, "the members keep the credential");
    }
    // An order beside a spec that wants it is none.
    world.seen.auth_policy.wanted = true;
    world.seen.auth_policy.disable = world.seen.record.cluster_id;
    assert!(changes(&world.plan()).is_empty());
}

#[test]
fn auth_is_disabled_by_order_before_the_members_give_the_credential_back() {
    let mut world = wanted(3);
    world.settle();
    world.seen.auth_policy.wanted = false;
    world.seen.auth_policy.disable = world.seen.record.cluster_id;
    let plan = world.plan();
    assert_eq!(changes(&plan), [AuthChange::Disable]);
    assert_eq!(plan.record.auth, Some(AuthStage::On), "the record comes after it is seen");
    world.settle();
    assert_eq!((world.seen.record.auth, world.auth.0), (None, false));
}

#[test]
fn each_refusal_of_auth_is_what_keeps_it_from_happening() {
    // A Pod without the credential: its agent would be nobody.
    let mut world = wanted(3);
    assert!(comes_to(&mut world, AuthChange::Enable));
    world.seen.pods.get_mut(&name("demo-1")).unwrap().has_credential = false;
    assert!(changes(&world.plan()).is_empty());
    let plan = without("LacksCredential", || world.plan());
    assert_eq!(changes(&plan), ENABLED);

    // Root was taken away meanwhile, though the plan would go on.
    let mut world = wanted(3);
    assert!(comes_to(&mut world, AuthChange::Enable));
    let mut before = world.plan().effects;
    let enable = before.pop().unwrap();
    let record = world.plan().record;
    let judged = |world: &World| judge_after(world, &record, &before, &enable);
    assert_eq!(judged(&world), Ok(()));
    world.seen.etcd.auth.as_mut().unwrap().root = Root::NotGranted;
    assert_eq!(judged(&world), Err(Unsafe::NoRootUser));
    assert_eq!(without("NoRootUser", || judged(&world)), Ok(()));
    // What was seen too long ago is not seen.
    world.seen.etcd.auth.as_mut().unwrap().root = Root::Ready;
    world.seen.etcd.auth.as_mut().unwrap().at = world.now;
    assert_eq!(judged(&world), Ok(()));
    world.seen.etcd.auth.as_mut().unwrap().at.0 -= 600_000;
    assert_eq!(judged(&world), Err(Unsafe::NoRootUser));
    // Nor is the operator root without its certificate.
    world.seen.etcd.auth.as_mut().unwrap().at = world.now;
    world.seen.certificates.as_mut().unwrap().leaves.remove(&Leaf::Operator);
    assert_eq!(judged(&world), Err(Unsafe::NoRootUser));

    // Somebody else has the role root, and the record does not have auth on yet.
    let mut world = wanted(3);
    assert!(comes_to(&mut world, AuthChange::Enable));
    world.seen.etcd.auth.as_mut().unwrap().others.insert("eve".to_owned());
    assert_eq!(judged(&world), Err(Unsafe::OthersAreRoot));
    assert_eq!(without("OthersAreRoot", || judged(&world)), Ok(()));

    // Root is not made anew right before: at all, in part, in another order, or at another member.
    let mut world = wanted(3);
    assert!(comes_to(&mut world, AuthChange::Enable));
    let elsewhere = before.iter().map(|effect| match effect {
        Effect::Etcd { step, call, .. } => Effect::etcd(*step, name("demo-9"), call.clone()),
        Effect::Kube { .. } => panic!("{effect:?}"),
    });
    let all: [Vec<Effect>; 5] = [
        Vec::new(),
        before[1..].to_vec(),
        before[..2].to_vec(),
        before.iter().rev().cloned().collect(),
        elsewhere.collect(),
    ];
    for before in all {
        let judged = || judge_after(&world, &record, &before, &enable);
        assert_eq!(judged(), Err(Unsafe::RootNotNew), "{before:?}");
        assert_eq!(without("RootNotNew", judged), Ok(()));
    }
    // While auth is on, root is the operator.
    world.seen.etcd.auth.as_mut().unwrap().enabled = true;
    assert_eq!(judge_after(&world, &record, &[], &before[0]), Err(Unsafe::NoRootUser));

    // Nobody ordered it.
    let mut world = wanted(3);
    world.settle();
    let via = world.seen.etcd.list.as_ref().unwrap().via.clone();
    let disable = Effect::etcd(Step::L9, via, EtcdCall::Auth { change: AuthChange::Disable });
    assert_eq!(judge(&world, &disable), Err(Unsafe::AuthNotOrdered));
    assert_eq!(without("AuthNotOrdered", || judge(&world, &disable)), Ok(()));
}

#[test]
fn auth_that_keeps_tenants_of_kamaji_apart_is_not_disabled_while_a_datastore_may_exist() {
    let mut world = wanted(3);
    world.settle();
    world.seen.auth_policy.wanted = false;
    world.seen.auth_policy.disable = world.seen.record.cluster_id;
    world.seen.may_have_data_store = true;
    world.settle();
    let refused = Waiting::Auth(AuthWait::OffRefused(Unsafe::TenantsNeedAuth));
    assert!(world.auth.0 && world.plan().waiting.contains(&refused), "{:?}", world.plan().waiting);
    let via = world.seen.etcd.list.as_ref().unwrap().via.clone();
    let disable = Effect::etcd(Step::L9, via, EtcdCall::Auth { change: AuthChange::Disable });
    assert_eq!(judge(&world, &disable), Err(Unsafe::TenantsNeedAuth));
    assert_eq!(without("TenantsNeedAuth", || judge(&world, &disable)), Ok(()));
    // Where a person disables it in etcd it is enabled again.
    world.auth.0 = false;
    world.settle();
    assert!(world.auth.0);
    // The order was not spent by that.
    world.seen.may_have_data_store = false;
    world.settle();
    assert!(!world.auth.0);
}

#[test]
fn the_credential_is_signed_before_any_pod_that_mounts_it_is_made() {
    let mut world = wanted(3);
    for _ in 0..100 {
        let plan = world.plan();
        let makes = plan.effects.iter().any(|effect| {
            matches!(effect.as_kube(), Some(KubeEffect::CreatePod { .. } | KubeEffect::EvictPod { .. }))
        });
        if makes && plan.record.target.as_ref().unwrap().auth {
            assert!(world.seen.certificates.as_ref().unwrap().leaves.contains_key(&Leaf::Operator));
            return;
        }
        world.carry_out(plan);
        world.now = world.now + Span::seconds(1);
    }
    panic!("no Pod was made");
}

fn user(name: &str) -> Marked {
    Marked::new(name, "01234567")
}

/// Auth that is on, and these users without an EtcdUser.
fn with_orphans(all: &[(&str, Orphan)]) -> World {
    let mut world = wanted(3);
    world.settle();
    world.orphans = all.iter().map(|(name, orphan)| (user(name), *orphan)).collect();
    world
}

fn revoked(plan: &Plan) -> Vec<String> {
    let named = |effect: &Effect| match effect.as_etcd() {
        Some(EtcdCall::DeleteUser { user }) => Some(user.user()),
        Some(EtcdCall::DeleteRole { user }) => Some(user.role()),
        Some(_) | None => None,
    };
    plan.effects.iter().filter_map(named).collect()
}

#[test]
fn users_without_an_etcduser_are_revoked_one_after_another_and_no_others() {
    use Orphan::{Confirmed, Retained, Unconfirmed};
    let mut world = with_orphans(&[("a", Unconfirmed), ("b", Confirmed), ("c", Confirmed), ("d", Retained)]);
    assert_eq!(revoked(&world.plan()), ["b-01234567", "quorate:01234567:b"]);
    world.settle();
    assert_eq!(world.orphans, [(user("a"), Unconfirmed), (user("d"), Retained)].into());
}

#[test]
fn no_user_is_revoked_where_the_spec_keeps_them_or_while_one_of_the_name_is_to_come() {
    let mut world = with_orphans(&[("a", Orphan::Confirmed)]);
    world.seen.auth_policy.keeps_orphans = true;
    assert!(revoked(&world.plan()).is_empty());
    world.seen.auth_policy.keeps_orphans = false;
    world.seen.users_to_come.insert("a".to_owned());
    assert!(revoked(&world.plan()).is_empty());
    world.seen.users_to_come = BTreeSet::from(["b".to_owned()]);
    assert_eq!(revoked(&world.plan()).len(), 2);
}

#[test]
fn where_users_are_to_be_revoked_etcd_is_asked_again_within_a_minute() {
    let mut world = with_orphans(&[]);
    let mut known = SeenAuth::new(Instant(world.now.0 - 60_000), true);
    assert!(!world.seen.asks_for_auth(Some(&known), world.now));
    known.orphans.insert(user("a"), Orphan::Unconfirmed);
    assert!(world.seen.asks_for_auth(Some(&known), world.now));
    world.seen.auth_policy.keeps_orphans = true;
    assert!(!world.seen.asks_for_auth(Some(&known), world.now));
}

#[test]
fn each_refusal_to_revoke_a_user_is_what_keeps_it_from_happening() {
    let mut world = with_orphans(&[("a", Orphan::Confirmed), ("b", Orphan::Confirmed)]);
    let effects = world.plan().effects;
    let judged = |seen: &Snapshot, before: &[Effect], effect: &Effect| {
        permits(&Scene { seen, record: &seen.record, now: world.now, before }, effect)
    };
    let refused = |seen: &Snapshot, before: &[Effect], effect: &Effect| {
        assert_eq!(judged(seen, before, effect), Err(Unsafe::NotAnOrphan("a-01234567".to_owned())));
        assert_eq!(without("NotAnOrphan", || judged(seen, before, effect)), Ok(()));
    };
    let but = |change: &dyn Fn(&mut SeenAuth)| {
        let mut seen = world.seen.clone();
        change(seen.etcd.auth.as_mut().unwrap());
        seen
    };
    for effect in &effects {
        assert_eq!(judged(&world.seen, &[], effect), Ok(()));
        let Effect::Etcd { step, at, .. } = effect else { panic!("{effect:?}") };
        // One at a time.
        let other = Effect::etcd(*step, at.clone(), EtcdCall::DeleteUser { user: user("b") });
        refused(&world.seen, &[other], effect);
        for orphan in [Orphan::Unconfirmed, Orphan::Retained] {
            refused(&but(&|seen| seen.orphans.extend([(user("a"), orphan)])), &[], effect);
        }
        refused(&but(&|seen| seen.orphans.retain(|other, _| *other != user("a"))), &[], effect);
        refused(&but(&|seen| seen.at.0 -= 600_000), &[], effect);
        refused(&but(&|seen| seen.enabled = false), &[], effect);
        let mut kept = world.seen.clone();
        kept.auth_policy.keeps_orphans = true;
        refused(&kept, &[], effect);
    }
    let mut off = world.seen.clone();
    off.record.auth = None;
    assert_eq!(judged(&off, &[], &effects[0]), Err(Unsafe::AuthNotOrdered));
}

/// The spec asks for auth, and gives clients an hour.
fn with_grace() -> World {
    let mut world = wanted(3);
    world.seen.auth_policy.client_grace = Span::seconds(3600);
    world
}

#[test]
fn clients_go_on_for_their_time_once_auth_is_enabled_and_no_longer() {
    let mut world = with_grace();
    let story = world.settle();
    assert_eq!((world.auth.0, world.clients), (true, Clients::OfGrace), "{story}");
    let at = |words: &str| story.find(words).unwrap_or_else(|| panic!("no {words:?} in\n{story}"));
    assert!(at("UserGrantRole quorate:clients") < at("AuthEnable"), "{story}");
    let Some(ClientGrace::Since(since)) = world.seen.record.client_grace else { panic!("{story}") };
    world.now = since + Span::seconds(3599);
    world.settle();
    assert_eq!(world.clients, Clients::OfGrace);
    world.now = since + Span::seconds(3601);
    world.settle();
    assert_eq!((world.clients, world.seen.record.client_grace), (Clients::NoUser, Some(ClientGrace::Over)));
    // What a snapshot brings back is not served for another time.
    world.clients = Clients::OfGrace;
    world.settle();
    assert_eq!(world.clients, Clients::NoUser);
}

#[test]
fn a_person_ends_the_time_of_clients_and_a_spec_without_any_gives_none() {
    let mut world = with_grace();
    world.settle();
    world.seen.auth_policy.clients_are_users = Some(ClusterId(0x99));
    world.settle();
    assert_eq!(world.clients, Clients::OfGrace, "that is another cluster");
    world.seen.auth_policy.clients_are_users = world.seen.record.cluster_id;
    world.settle();
    assert_eq!((world.clients, world.seen.record.client_grace), (Clients::NoUser, Some(ClientGrace::Over)));
    let mut none = wanted(3);
    let story = none.settle();
    assert!(!story.contains("quorate-client"), "{story}");
}

#[test]
fn a_user_of_clients_that_a_person_made_is_left_alone() {
    for clients in [Clients::OfPerson, Clients::AllKeys] {
        let mut world = with_grace();
        world.clients = clients;
        let story = world.settle();
        assert_eq!((world.auth.0, world.clients), (true, clients), "{story}");
        assert_eq!(world.seen.record.client_grace, Some(ClientGrace::Over));
    }
}

#[test]
fn a_pass_that_ends_while_the_user_of_clients_is_made_is_made_good_by_the_next_one() {
    for done in 0..8 {
        let mut world = with_grace();
        assert!(comes_to(&mut world, AuthChange::Enable));
        let mut plan = world.plan();
        plan.effects.truncate(done);
        world.carry_out(plan);
        world.settle();
        assert_eq!((world.auth.0, world.clients), (true, Clients::OfGrace), "after {done}");
    }
}

#[test]
fn where_status_is_lost_clients_have_their_time_anew() {
    let mut world = with_grace();
    world.settle();
    world.seen.record.client_grace = None;
    world.settle();
    assert_eq!(world.clients, Clients::OfGrace);
    assert!(matches!(world.seen.record.client_grace, Some(ClientGrace::Since(_))));
}

#[test]
fn each_refusal_about_the_user_of_clients_is_what_keeps_it_from_happening() {
    let mut world = with_grace();
    world.settle();
    let via = world.seen.etcd.list.as_ref().unwrap().via.clone();
    let effect = |change| Effect::etcd(Step::L11, via.clone(), EtcdCall::Auth { change });
    for change in [AuthChange::RemoveClientUser, AuthChange::RemoveClientRole] {
        assert_eq!(judge(&world, &effect(change)), Err(Unsafe::ClientsHaveTime));
        assert_eq!(without("ClientsHaveTime", || judge(&world, &effect(change))), Ok(()));
    }
    world.seen.auth_policy.clients_are_users = world.seen.record.cluster_id;
    assert_eq!(judge(&world, &effect(AuthChange::RemoveClientUser)), Ok(()));
    let make = effect(AuthChange::AddClientUser);
    assert_eq!(judge(&world, &make), Err(Unsafe::NoClientGrace));
    assert_eq!(without("NoClientGrace", || judge(&world, &make)), Ok(()));
    // Nobody takes away what a person made.
    world.seen.etcd.auth.as_mut().unwrap().clients = Clients::OfPerson;
    assert_eq!(judge(&world, &effect(AuthChange::RemoveClientUser)), Err(Unsafe::ClientsHaveTime));
}
