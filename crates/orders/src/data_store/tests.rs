//! The DataStore of an EtcdCluster in a Kubernetes that is a table: what is decided is carried out act by act, and the operator may die after
//! each.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use quorate_api::{EtcdCluster, Reason, keys};
use quorate_manifests::certificate::KeyPair;
use quorate_manifests::user::{NoSigner, Own, Presence, Signer};
use quorate_manifests::{Act as Writing, data_store as objects};
use quorate_model::certificate::Validity;
use quorate_model::snapshot::{Authority, LeafCertificate, LeafSecret};
use quorate_model::{ClusterRef, Fingerprint, Instant, ObservedObject, Span};
use quorate_status::DataStoreHealth;
use serde_json::{Value, json};

use super::*;

const NOW: Instant = Instant(1_800_000_000_000);
const UID: &str = "c1";

#[derive(Clone, Debug)]
struct World {
    cluster: Value,
    stores: BTreeMap<String, Value>,
    /// The Secret of the credential: until when its certificate is valid.
    secret: Option<Instant>,
    kind_exists: bool,
    may_read: bool,
    is_admitted: bool,
    contest: Contest,
    contest_of_secret: Contest,
    namespace_ends: bool,
    auth_is_on: bool,
    compacts: bool,
    runs: bool,
    signer: NoSigner,
    /// Another authority than that of the credential signs.
    signs: bool,
    is_immutable: bool,
    stores_unknown: bool,
    done: Vec<String>,
}

impl World {
    fn new() -> Self {
        Self {
            cluster: json!({
                "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
                "metadata": {
                    "name": "demo", "namespace": "tenant", "uid": UID, "finalizers": [keys::FINALIZER],
                    "annotations": { keys::KAMAJI_DATA_STORE: "shared" },
                },
                "spec": {"size": 3, "version": "3.6.16", "auth": {"enabled": true}},
                "status": {"clusterID": "8e9e05c52164694d", "certificates": {"authority": "aa", "peerAuthority": "bb"}},
            }),
            stores: BTreeMap::new(),
            secret: Some(NOW + Span::seconds(3600)),
            kind_exists: true,
            may_read: true,
            is_admitted: true,
            contest: Contest::None,
            contest_of_secret: Contest::None,
            namespace_ends: false,
            auth_is_on: true,
            compacts: true,
            runs: true,
            signer: NoSigner::NotYet(
                "its client certificate is not of the recorded authority yet".to_owned(),
            ),
            signs: false,
            is_immutable: false,
            stores_unknown: false,
            done: Vec::new(),
        }
    }

    fn published() -> Self {
        let mut world = Self::new();
        world.settle();
        assert_eq!(world.reason(), Reason::Published);
        world.done.clear();
        world
    }

    fn parsed(&self) -> EtcdCluster {
        serde_json::from_value(self.cluster.clone()).unwrap()
    }

    fn decision(&self) -> Decision {
        let cluster = self.parsed();
        let at = ClusterRef::new("tenant", "demo");
        let is_unlabelled =
            |store: &&Value| !objects::is_own(&cluster, store) && objects::leads_to(&at, store);
        let stores = match (self.kind_exists, self.may_read) {
            (_, false) => Stores::Forbidden("forbidden".to_owned()),
            (false, true) => Stores::NoKind,
            (true, true) => Stores::Seen {
                own: self.stores.values().filter(|store| objects::is_own(&cluster, store)).cloned().collect(),
                unlabelled: self.stores.values().filter(is_unlabelled).cloned().collect(),
                named: objects::wanted(&cluster).and_then(|name| self.stores.get(name)).cloned(),
            },
        };
        let object = Secret::default();
        let secret = self.secret.map_or(Presence::Absent, |until| {
            Presence::Own(Own { must_be_made_again: self.is_immutable, ..own(&object, until) })
        });
        let stores = if self.stores_unknown { Stores::Unknown("no answer".to_owned()) } else { stores };
        let signer = signer();
        decide(&Seen {
            cluster: &cluster,
            is_admitted: self.is_admitted,
            contest: self.contest,
            contest_of_secret: self.contest_of_secret,
            namespace_ends: self.namespace_ends,
            auth_is_on: self.auth_is_on,
            compacts: self.compacts,
            runs: self.runs,
            stores: &stores,
            secret: &secret,
            keys_fit: true,
            signer: if self.signs { Ok(&signer) } else { Err(&self.signer) },
            now: NOW,
        })
    }

    fn health(&self) -> DataStoreHealth {
        self.decision().health.expect("it says something")
    }

    fn reason(&self) -> Reason {
        self.health().why.reason()
    }

    /// Carries out the first acts only: then the operator dies.
    fn pass(&mut self, acts: usize) -> bool {
        let decision = self.decision();
        for act in decision.acts.iter().take(acts) {
            self.carry_out(act);
            self.check();
        }
        !decision.acts.is_empty()
    }

    fn settle(&mut self) {
        for _ in 0..20 {
            if !self.pass(usize::MAX) {
                return;
            }
        }
        panic!("it does not settle: {self:#?}");
    }

    fn check(&self) {
        let has_own = self.stores.values().any(|store| objects::is_own(&self.parsed(), store));
        assert!(
            !has_own || objects::may_exist(&self.parsed()),
            "a DataStore without the finalizer: {self:#?}"
        );
        assert!(!has_own || self.secret.is_some(), "a DataStore without its credential: {self:#?}");
    }

    fn carry_out(&mut self, act: &Act) {
        let text = format!("{act:?}");
        self.done.push(text.split(['(', ' ']).next().unwrap_or_default().to_owned());
        match act {
            Act::AddFinalizer => {
                assert!(self.cluster["metadata"]["deletionTimestamp"].is_null(), "the API server refuses it");
                self.cluster["metadata"]["finalizers"] = json!([keys::FINALIZER, keys::DATA_STORE_FINALIZER]);
            }
            Act::StopCollector => {
                let finalizers = self.cluster["metadata"]["finalizers"].as_array_mut().unwrap();
                finalizers.retain(|one| !objects::COLLECTOR.contains(&one.as_str().unwrap()));
            }
            Act::RemoveFinalizer => self.cluster["metadata"]["finalizers"] = json!([keys::FINALIZER]),
            Act::WriteSecret => self.secret = Some(NOW + Span::seconds(3600)),
            Act::DeleteSecret => self.secret = None,
            Act::WriteStore(name, Writing::Create(object)) => {
                assert!(self.stores.insert(name.clone(), object.clone()).is_none(), "it exists");
            }
            Act::WriteStore(name, Writing::Patch(patch)) => {
                let store = self.stores.get_mut(name).expect("it exists");
                store["spec"] = patch["spec"].clone();
                store["metadata"]["labels"] = patch["metadata"]["labels"].clone();
            }
            Act::WriteStore(..) => panic!("{act:?}"),
            Act::DeleteStore(store) => {
                assert!(objects::tenants(store).is_empty(), "tenants use it");
                assert!(objects::is_own(&self.parsed(), store), "it is not ours");
                self.stores.remove(store["metadata"]["name"].as_str().unwrap());
            }
        }
    }

    fn used_by(&mut self, name: &str, tenants: &[&str]) {
        self.stores.get_mut(name).unwrap()["status"] = json!({ "ready": true, "usedBy": tenants });
    }

    fn delete(&mut self) {
        self.cluster["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
    }

    fn ask_for(&mut self, name: Option<&str>) {
        self.cluster["metadata"]["annotations"][keys::KAMAJI_DATA_STORE] = json!(name);
        if name.is_none() {
            self.cluster["metadata"]["annotations"] = json!({});
        }
    }

    fn ends(&self) -> bool {
        objects::ends(&self.parsed())
    }
}

fn signer() -> Signer {
    let validity = Validity { not_before: NOW, not_after: NOW + Span::seconds(3650 * 86_400) };
    let authority = Authority {
        fingerprint: Fingerprint::new("next"),
        certificate: String::new(),
        validity,
        minted: true,
        keyless: false,
    };
    Signer::new(authority, Vec::new(), KeyPair { cert: String::new(), key: String::new() })
}

fn own(secret: &Secret, until: Instant) -> Own<'_> {
    let validity = Validity { not_before: NOW, not_after: until };
    let content = LeafCertificate {
        fingerprint: Fingerprint::new("cc"),
        validity,
        signed_by: None,
        lacks: Vec::new(),
        misnamed: None,
        trust: 0,
        trusted: Vec::new(),
    };
    let leaf = LeafSecret { observed: ObservedObject::new("s1", "1"), content: Ok(content) };
    Own { secret, leaf: Box::new(leaf), matches: true, must_be_made_again: false, is_going: false }
}

#[test]
fn a_datastore_comes_after_the_finalizer_and_goes_before_it_wherever_the_operator_dies() {
    for acts in 1..4 {
        let mut world = World::new();
        while world.pass(acts) {}
        assert_eq!(world.reason(), Reason::Published, "{acts}");
        assert_eq!(world.done.first().map(String::as_str), Some("AddFinalizer"), "{acts}");
        world.done.clear();
        world.delete();
        assert!(!world.ends(), "its members run on");
        while world.pass(acts) {}
        assert_eq!(world.done, ["DeleteStore", "DeleteSecret", "RemoveFinalizer"], "{acts}");
        assert!(world.ends() && world.stores.is_empty());
    }
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let mut world = World::published();
    world.settle();
    assert!(world.done.is_empty(), "{:?}", world.done);
    world.used_by("shared", &["a/one"]);
    world.settle();
    assert!(world.done.is_empty() && world.health().why.message().contains("Tenant a/one uses it"));
}

#[test]
fn a_datastore_in_use_holds_up_the_deletion_with_the_names_of_its_tenants() {
    let mut world = World::published();
    world.used_by("shared", &["a/one", "b/two"]);
    world.delete();
    world.settle();
    assert!(!world.ends() && world.done.is_empty(), "{:?}", world.done);
    let health = world.health();
    assert_eq!((health.ready, health.why.reason()), (Some(false), Reason::DataStoreInUse));
    assert!(health.why.message().contains("Tenants a/one, b/two use it"), "{}", health.why);
    world.used_by("shared", &[]);
    world.settle();
    assert!(world.ends());
}

#[test]
fn another_name_waits_until_no_tenant_uses_the_earlier_one() {
    let mut world = World::published();
    world.used_by("shared", &["a/one"]);
    for name in [Some("other"), None] {
        world.ask_for(name);
        world.settle();
        assert_eq!(world.reason(), Reason::DataStoreInUse, "{name:?}");
        assert_eq!(world.stores.keys().collect::<Vec<_>>(), ["shared"], "{name:?}");
    }
    world.used_by("shared", &[]);
    world.ask_for(Some("other"));
    world.settle();
    assert_eq!(world.stores.keys().collect::<Vec<_>>(), ["other"]);
    world.ask_for(None);
    world.settle();
    assert!(world.stores.is_empty() && world.secret.is_none() && !objects::may_exist(&world.parsed()));
}

#[test]
fn tenants_of_a_datastore_without_its_labels_hold_up_the_deletion_and_it_is_not_deleted() {
    let mut world = World::published();
    world.used_by("shared", &["a/one"]);
    world.stores.get_mut("shared").unwrap()["metadata"]["labels"] = json!({});
    for name in [Some("shared"), None] {
        world.ask_for(name);
        world.delete();
        world.settle();
        let health = world.health();
        assert_eq!((health.why.reason(), world.ends()), (Reason::DataStoreInUse, false), "{name:?}");
        assert!(health.why.message().contains("lacks the label"), "{}", health.why);
    }
    world.used_by("shared", &[]);
    world.settle();
    assert!(world.ends() && world.stores.contains_key("shared"), "it is not ours to delete");
}

#[test]
fn one_that_is_being_deleted_is_waited_for() {
    let mut world = World::published();
    world.stores.get_mut("shared").unwrap()["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
    world.settle();
    assert_eq!(world.reason(), Reason::DataStoreTerminating);
    world.delete();
    world.settle();
    assert_eq!((world.reason(), world.ends()), (Reason::DataStoreTerminating, false));
    assert!(world.done.is_empty());
    world.stores.clear();
    world.settle();
    assert!(world.ends());
}

#[test]
fn a_datastore_of_somebody_else_is_never_changed_or_deleted() {
    for labels in [json!({}), json!({ keys::CLUSTER_UID: "of-an-earlier-cluster" })] {
        let mut world = World::new();
        let foreign =
            json!({ "metadata": { "name": "shared", "labels": labels }, "spec": { "driver": "MySQL" } });
        world.stores.insert("shared".to_owned(), foreign.clone());
        world.settle();
        assert_eq!(world.reason(), Reason::NameTaken);
        world.delete();
        world.settle();
        assert_eq!(world.stores["shared"], foreign);
        assert!(world.ends(), "it never had one");
    }
}

#[test]
fn whose_namespace_is_not_admitted_learns_nothing_of_the_names_of_others() {
    let mut world = World::new();
    world.is_admitted = false;
    let foreign = json!({ "metadata": { "name": "shared" }, "spec": { "driver": "etcd" } });
    world.stores.insert("shared".to_owned(), foreign);
    world.settle();
    assert_eq!(world.reason(), Reason::NamespaceNotAdmitted);
    // What it had before is given up as ever.
    let mut world = World::published();
    world.is_admitted = false;
    world.delete();
    world.settle();
    assert!(world.ends() && world.stores.is_empty());
}

#[test]
fn a_rotation_from_one_authority_of_peers_to_another_keeps_no_datastore_from_being_made() {
    let mut world = World::new();
    world.cluster["status"]["certificates"]["rotation"] = json!({
        "authority": "peers", "from": "bb", "to": "cc", "stage": "Trust", "since": "2027-01-15T08:00:00.000000Z",
    });
    world.settle();
    assert_eq!(world.reason(), Reason::Published);
}

#[test]
fn what_kamaji_reports_as_not_ready_is_told_once_it_has_looked() {
    let mut world = World::published();
    let status = |condition: Value| json!({ "ready": false, "conditions": [condition], "usedBy": [] });
    let mut says = |validation: Value| {
        world.stores.get_mut("shared").unwrap()["status"] = status(validation);
        world.settle();
        let health = world.health();
        assert!(world.done.is_empty(), "{:?}", world.done);
        (health.ready, health.why.reason(), health.why.message().to_owned())
    };
    let type_ = "kamaji.clastix.io/DataStoreValidation";
    let (ready, reason, _) = says(json!({ "type": type_, "status": "Unknown", "message": "" }));
    assert_eq!((ready, reason), (Some(true), Reason::Published));
    let missing = "CA certificate is not valid, secret a/b is not found";
    let (ready, reason, message) = says(json!({ "type": type_, "status": "False", "message": missing }));
    assert_eq!((ready, reason), (Some(false), Reason::DataStoreNotReady));
    assert!(message.contains(missing), "{message}");
    let (ready, reason, _) = says(json!({ "type": "another", "status": "False" }));
    assert_eq!((ready, reason), (Some(false), Reason::DataStoreNotReady));
}

#[test]
fn one_that_something_else_changes_is_left_for_a_while_and_who_it_is_is_told() {
    let mut world = World::published();
    world.contest = Contest::Pauses;
    let store = world.stores.get_mut("shared").unwrap();
    store["spec"]["endpoints"] = json!(["elsewhere:2379"]);
    let by = |manager: &str, subresource: &str| json!({ "manager": manager, "subresource": subresource });
    store["metadata"]["managedFields"] =
        json!([by(objects::FIELD_MANAGER, ""), by("argocd", ""), by("kamaji", "status")]);
    world.settle();
    assert!(world.done.is_empty() && world.reason() == Reason::DataStoreContested);
    let message = world.health().why.message().to_owned();
    assert!(message.contains("managed fields: argocd. kubectl"), "{message}");
    // Between two writes it is said, too.
    world.contest = Contest::Goes;
    assert_eq!((world.decision().acts.len(), world.reason()), (1, Reason::DataStoreContested));
    world.settle();
    assert_eq!(world.reason(), Reason::DataStoreContested);
    world.done.clear();
    // A deletion does not wait for it.
    world.delete();
    world.settle();
    assert!(world.ends());
}

#[test]
fn a_deletion_that_takes_the_pods_from_tenants_is_told_with_the_command_that_ends_it() {
    let mut world = World::published();
    world.used_by("shared", &["a/one"]);
    world.delete();
    world.cluster["metadata"]["finalizers"] =
        json!([keys::FINALIZER, keys::DATA_STORE_FINALIZER, "foregroundDeletion"]);
    let command = |left: &[&str]| {
        let patch = json!([{ "op": "replace", "path": "/metadata/finalizers", "value": left }]);
        format!("kubectl patch etcd demo -n tenant --type=json -p '{patch}'")
    };
    let health = world.health();
    assert_eq!((health.ready, health.why.reason()), (Some(false), Reason::DeletedInForeground));
    let own = [keys::FINALIZER, keys::DATA_STORE_FINALIZER];
    assert!(health.why.message().contains(&command(&own)), "{}", health.why);
    // That is for where the operator may not.
    world.settle();
    assert_eq!((world.done.join(" "), world.reason()), ("StopCollector".to_owned(), Reason::DataStoreInUse));
    assert_eq!(world.cluster["metadata"]["finalizers"], json!(own));
    world.cluster["metadata"]["finalizers"] = json!([keys::FINALIZER, "orphan", keys::DATA_STORE_FINALIZER]);
    let health = world.health();
    assert_eq!((health.ready, health.why.reason()), (Some(false), Reason::DeletedWithOrphans));
    assert!(health.why.message().contains(&command(&own)), "{}", health.why);
    world.settle();
    assert_eq!(world.cluster["metadata"]["finalizers"], json!(own));
    assert_eq!(world.reason(), Reason::DataStoreInUse);
    world.namespace_ends = true;
    let health = world.health();
    assert_eq!(health.why.reason(), Reason::NamespaceTerminating);
    assert!(health.why.message().contains(&command(&own[..1])), "{}", health.why);
    assert!(!world.ends() && world.stores.contains_key("shared"));
}

/// A change, what the condition gives as its reason then, and words that the message has.
type Hindrance = (fn(&mut World), Reason, &'static str);

const HINDRANCES: [Hindrance; 12] = [
    // As long as the order to disable auth waits, and once it is carried out.
    (
        |world| world.cluster["spec"]["auth"] = json!({ "enabled": false }),
        Reason::AuthOff,
        "spec.auth.enabled is not true",
    ),
    (
        |world| world.cluster["spec"]["tls"] = json!({ "provider": "cert-manager" }),
        Reason::NoAuthorityKey,
        "is not replaced while",
    ),
    (
        |world| world.cluster["spec"]["tls"] = json!({ "provider": "secrets" }),
        Reason::NoAuthorityKey,
        "spec.tls.provider to auto",
    ),
    (|world| world.is_admitted = false, Reason::NamespaceNotAdmitted, "--kamaji-namespaces"),
    (
        |world| {
            world.auth_is_on = false;
            world.cluster["spec"]["auth"] = Value::Null;
        },
        Reason::AuthOff,
        "spec.auth.enabled",
    ),
    (|world| world.compacts = false, Reason::CompactionOff, "autoCompactionRetention: 5m"),
    (|world| world.signer = NoSigner::Elsewhere, Reason::NoAuthorityKey, "spec.tls.provider auto"),
    (|world| world.cluster["status"]["clusterID"] = Value::Null, Reason::NotServing, "not bootstrapped"),
    (|world| world.runs = false, Reason::NotServing, "size zero"),
    (|world| world.auth_is_on = false, Reason::NotServing, "auth is not on yet"),
    (|world| world.kind_exists = false, Reason::CrdMissing, "Install Kamaji"),
    (|world| world.may_read = false, Reason::NoRights, "kamaji.enabled"),
];

#[test]
fn what_is_missing_is_said_and_nothing_is_written() {
    for (change, reason, words) in HINDRANCES {
        let mut world = World::new();
        world.secret = None;
        change(&mut world);
        world.settle();
        let health = world.health();
        assert_eq!((health.ready, health.why.reason()), (Some(false), reason));
        assert!(health.why.message().contains(words), "{}", health.why);
        assert!(world.done.is_empty(), "{reason}: {:?}", world.done);
    }
}

#[test]
fn what_gets_lost_later_is_said_and_tenants_keep_their_datastore() {
    for (change, reason, _) in HINDRANCES {
        let mut world = World::published();
        world.used_by("shared", &["a/one"]);
        change(&mut world);
        world.settle();
        assert_eq!(world.reason(), reason);
        assert!(world.stores.contains_key("shared") && world.done.is_empty(), "{reason}: {:?}", world.done);
    }
}

/// What Kubernetes shows of a published DataStore, and whether anything but the credential is done about it.
type Branch = (&'static str, fn(&mut World), &'static [&'static str]);

const BRANCHES: [Branch; 10] = [
    (
        "its label was taken off",
        |world| {
            world.used_by("shared", &["a/one"]);
            world.stores.get_mut("shared").unwrap()["metadata"]["labels"] = json!({});
        },
        &[],
    ),
    ("they may not be read", |world| world.may_read = false, &[]),
    ("they cannot be read", |world| world.stores_unknown = true, &[]),
    ("no kind", |world| world.kind_exists = false, &[]),
    (
        "no name",
        |world| {
            world.ask_for(Some("No name"));
            world.stores.get_mut("shared").unwrap()["metadata"]["labels"] = json!({});
        },
        &[],
    ),
    ("not asked for, and it is to go", |world| world.ask_for(None), &["DeleteStore"]),
    (
        "not asked for, and used",
        |world| {
            world.used_by("shared", &["a/one"]);
            world.ask_for(None);
        },
        &[],
    ),
    (
        "it is being deleted",
        |world| {
            world.stores.get_mut("shared").unwrap()["metadata"]["deletionTimestamp"] =
                json!("2027-01-15T08:00:00Z");
        },
        &[],
    ),
    ("a hindrance", |world| world.is_admitted = false, &[]),
    ("nothing", |_| {}, &[]),
];

#[test]
fn its_credential_is_kept_up_before_all_else_whatever_else_is_so() {
    for (what, change, then) in BRANCHES {
        let mut world = World::published();
        change(&mut world);
        world.signs = true;
        world.pass(usize::MAX);
        let expected: Vec<&str> = ["WriteSecret"].iter().chain(then).copied().collect();
        assert_eq!(world.done, expected, "{what}");
    }
}

#[test]
fn a_secret_that_something_else_changes_is_left_for_a_while_and_that_is_told() {
    let mut world = World::published();
    world.signs = true;
    world.contest_of_secret = Contest::Pauses;
    world.settle();
    assert!(world.done.is_empty() && world.reason() == Reason::DataStoreContested);
    assert!(world.health().why.message().contains("Secret tenant/demo-root-client-tls"));
    world.contest_of_secret = Contest::Goes;
    assert_eq!((world.decision().acts, world.reason()), (vec![Act::WriteSecret], Reason::DataStoreContested));
    // One that is lost is written at once.
    world.contest_of_secret = Contest::Pauses;
    world.secret = None;
    assert_eq!(world.decision().acts, [Act::WriteSecret]);
}

#[test]
fn without_a_new_credential_a_datastore_is_deleted_all_the_same_and_none_is_made() {
    let delete = Act::DeleteStore(json!({}));
    assert!(delete.goes_on_without(&Act::WriteSecret) && delete.goes_on_without(&delete));
    let make = Act::WriteStore("shared".to_owned(), Writing::Create(json!({})));
    assert!(!make.goes_on_without(&Act::WriteSecret) && !make.goes_on_without(&Act::AddFinalizer));
    assert!(!Act::RemoveFinalizer.goes_on_without(&Act::DeleteSecret));
    assert!(Act::WriteSecret.goes_on_without(&Act::StopCollector));
}

#[test]
fn a_secret_that_cannot_be_changed_is_taken_away_only_where_another_one_can_be_made() {
    let mut world = World::published();
    world.is_immutable = true;
    world.settle();
    assert!(world.done.is_empty(), "nothing signs: {:?}", world.done);
    world.signs = true;
    let decision = world.decision();
    assert_eq!(decision.acts, [Act::DeleteSecret]);
}

#[test]
fn a_hindrance_leaves_no_key_of_an_authority_behind_where_no_datastore_is_left() {
    let lasting = [Reason::NamespaceNotAdmitted, Reason::AuthOff, Reason::NoAuthorityKey];
    for (change, reason, _) in HINDRANCES.into_iter().filter(|(_, reason, _)| lasting.contains(reason)) {
        let mut world = World::published();
        change(&mut world);
        world.stores.clear();
        world.settle();
        assert_eq!(
            (world.reason(), world.done.join(" ")),
            (reason, "DeleteSecret RemoveFinalizer".to_owned())
        );
    }
}

#[test]
fn without_the_kind_a_deletion_goes_on_and_without_the_rights_it_waits_and_says_so() {
    let mut world = World::published();
    world.delete();
    world.may_read = false;
    world.settle();
    assert!(!world.ends() && world.reason() == Reason::NoRights);
    assert!(world.health().why.message().contains(keys::DATA_STORE_FINALIZER), "{}", world.health().why);
    (world.may_read, world.kind_exists) = (true, false);
    world.stores.clear();
    world.settle();
    assert!(world.ends());
}

#[test]
fn a_name_that_no_object_can_have_is_refused() {
    for name in ["", "Shared", "a_b", "-a", "a..b", &"a".repeat(254)] {
        let mut world = World::new();
        world.secret = None;
        world.ask_for(Some(name));
        world.settle();
        assert_eq!((world.reason(), world.done.len()), (Reason::SpecInvalid, 0), "{name}");
    }
}

#[test]
fn a_start_of_the_operator_is_no_news() {
    let mut world = World::new();
    assert_eq!(earlier(&world.parsed()), None);
    world.cluster["status"]["conditions"] = json!([{
        "type": "DataStoreReady", "status": "True", "reason": "Published", "message": "DataStore shared",
        "lastTransitionTime": "2027-01-15T08:00:00Z",
    }]);
    let found = earlier(&world.parsed()).unwrap();
    assert_eq!(
        (found.ready, found.why.reason(), found.why.message()),
        (Some(true), Reason::Published, "DataStore shared")
    );
}
