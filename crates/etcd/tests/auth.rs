//! Etcd's auth on every supported minor version, with certificates: who may do what, and what happens to calls that are on their way
//! while it is enabled, disabled or changed.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use quorate_etcd::testkit::{Cluster, Setup, eventually};
use quorate_etcd::{
    CallError, Deadlines, Endpoint, KeyAccess, MemberClient, Permission, Read, Refusal, Stream, Tls,
    TlsConfig, Transport,
};
use quorate_model::Minor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

macro_rules! behaviours {
    ($version:ident, $minor:expr) => {
        mod $version {
            use quorate_model::Minor;

            const MINOR: Minor = $minor;

            #[tokio::test]
            async fn root_enables_auth_and_then_every_user_has_what_its_roles_allow() {
                super::life_of_a_user(MINOR).await;
            }

            #[tokio::test]
            async fn calls_on_their_way_while_auth_changes_are_refused_or_done_and_the_same_call_again_is_done() {
                super::calls_in_flight(MINOR).await;
            }

            #[tokio::test]
            async fn a_session_that_is_resumed_shows_no_certificate_and_is_of_the_same_user() {
                super::resumed_sessions(MINOR).await;
            }
        }
    };
}

behaviours!(etcd_3_5, Minor(3, 5));
behaviours!(etcd_3_6, Minor(3, 6));
behaviours!(etcd_3_7, Minor(3, 7));

async fn life_of_a_user(minor: Minor) {
    let cluster = Cluster::start(setup(minor, 1)).await;
    let [root, alice, nobody] = ["root", "alice", "nobody"].map(|name| client(&cluster, 0, name));

    // While it is disabled, everybody may do everything, and prepare it.
    let before = nobody.auth_status().await.unwrap();
    assert!(!before.enabled, "{before:?}");
    assert_refused(&nobody.auth_enable().await, Refusal::RootUserMissing);
    nobody.user_add("root").await.unwrap();
    assert_refused(&nobody.auth_enable().await, Refusal::RootRoleMissing);
    assert_refused(&nobody.user_add("root").await, Refusal::UserExists);
    assert_refused(&nobody.user_grant_role("root", "nothing").await, Refusal::RoleNotFound);
    nobody.role_add("root").await.unwrap();
    assert_refused(&nobody.role_add("root").await, Refusal::RoleExists);
    nobody.user_grant_role("root", "root").await.unwrap();
    nobody.user_grant_role("root", "root").await.unwrap();

    nobody.user_add("alice").await.unwrap();
    nobody.role_add("alices").await.unwrap();
    assert_refused(&nobody.user_revoke_role("alice", "alices").await, Refusal::RoleNotGranted);
    nobody.user_grant_role("alice", "alices").await.unwrap();
    let mut owned = Permission { access: KeyAccess::Read, ..prefix("/alice/") };
    nobody.role_grant_permission("alices", &owned).await.unwrap();
    assert_eq!(nobody.role_get("alices").await.unwrap(), [owned.clone()]);
    owned.access = KeyAccess::ReadWrite;
    nobody.role_grant_permission("alices", &owned).await.unwrap();
    assert_eq!(nobody.role_get("alices").await.unwrap(), [owned.clone()], "another access takes its place");
    let flag = Permission { key: b"/flag".to_vec(), range_end: Vec::new(), access: KeyAccess::Write };
    assert_refused(&revoke(&nobody, &flag).await, Refusal::PermissionNotGranted);
    nobody.role_grant_permission("alices", &flag).await.unwrap();
    assert_eq!(nobody.user_list().await.unwrap(), ["alice", "root"]);
    assert_eq!(nobody.role_list().await.unwrap(), ["alices", "root"]);
    assert_eq!(nobody.user_get("alice").await.unwrap(), ["alices"]);
    assert_refused(&nobody.user_get("bob").await, Refusal::UserNotFound);
    assert_refused(&nobody.role_get("bobs").await, Refusal::RoleNotFound);
    let prepared = nobody.auth_status().await.unwrap();
    assert!(prepared.revision > before.revision && !prepared.enabled, "{before:?}, {prepared:?}");

    root.auth_enable().await.unwrap();
    root.auth_enable().await.unwrap();
    let status = root.auth_status().await.unwrap();
    // So that no write of a user that is on its way is refused.
    assert!(status.enabled && status.revision == prepared.revision, "{prepared:?}, {status:?}");

    alice.put("/alice/key", "value").await.unwrap();
    alice.put("/flag", "value").await.unwrap();
    assert_eq!(alice.get("/alice/key", Read::Linearizable).await.unwrap().unwrap().value, b"value");
    for read in [Read::Linearizable, Read::Serializable] {
        assert_refused(&alice.get("/flag", read).await, Refusal::PermissionDenied);
        assert_refused(&alice.get("/bob/key", read).await, Refusal::PermissionDenied);
        assert_refused(&nobody.get("/alice/key", read).await, Refusal::PermissionDenied);
    }
    assert_refused(&alice.put("/bob/key", "value").await, Refusal::PermissionDenied);
    assert_refused(&nobody.put("/alice/key", "value").await, Refusal::PermissionDenied);
    // A user may ask for itself and for its own roles, and change neither.
    assert_eq!(alice.user_get("alice").await.unwrap(), ["alices"]);
    assert_eq!(alice.role_get("alices").await.unwrap().len(), 2);
    assert_refused(&alice.user_get("root").await, Refusal::PermissionDenied);
    assert_refused(&alice.user_add("bob").await, Refusal::PermissionDenied);
    assert_refused(&alice.role_grant_permission("alices", &prefix("/bob/")).await, Refusal::PermissionDenied);
    assert_refused(&alice.auth_disable().await, Refusal::PermissionDenied);
    assert_refused(&nobody.user_add("bob").await, Refusal::UserNotFound);
    assert_refused(&nobody.auth_disable().await, Refusal::UserNotFound);
    // What needs no key goes on for everybody; what reads or moves everything does not.
    nobody.status().await.unwrap();
    nobody.member_list(true).await.unwrap();
    assert_refused(&nobody.defragment().await, Refusal::UserNotFound);
    assert_refused(&alice.defragment().await, Refusal::PermissionDenied);
    root.defragment().await.unwrap();
    let asked = nobody.auth_status().await;
    if minor >= Minor(3, 7) {
        assert!(asked.unwrap().enabled);
    } else {
        assert_refused(&asked, Refusal::UserNotFound);
    }

    // Taken away, it is refused at the next call.
    revoke(&root, &owned).await.unwrap();
    assert_refused(&alice.put("/alice/key", "value").await, Refusal::PermissionDenied);
    root.role_delete("alices").await.unwrap();
    assert_eq!(
        root.user_get("alice").await.unwrap(),
        [""; 0],
        "a role that is deleted is taken from its users"
    );
    assert_refused(&alice.put("/flag", "value").await, Refusal::PermissionDenied);
    root.user_delete("alice").await.unwrap();
    assert_refused(&root.user_delete("alice").await, Refusal::UserNotFound);
    assert_refused(&root.role_delete("alices").await, Refusal::RoleNotFound);
    assert_refused(&root.user_delete("root").await, Refusal::Other);

    let enabled = root.auth_status().await.unwrap();
    root.auth_disable().await.unwrap();
    root.auth_disable().await.unwrap();
    let disabled = nobody.auth_status().await.unwrap();
    assert!(!disabled.enabled && disabled.revision == enabled.revision + 1, "{enabled:?}, {disabled:?}");
    nobody.put("/alice/key", "value").await.unwrap();
    assert_eq!(nobody.user_list().await.unwrap(), ["root"], "users and roles stay");
}

/// How often each change is made at most, until it has met a call on its way.
const TURNS: usize = 60;

async fn calls_in_flight(minor: Minor) {
    let cluster = Cluster::start(setup(minor, 3)).await;
    let root = client(&cluster, cluster.led().await, "root");
    root.user_add("root").await.unwrap();
    root.role_add("root").await.unwrap();
    root.user_grant_role("root", "root").await.unwrap();
    for name in ["alice", "bob"] {
        root.user_add(name).await.unwrap();
        root.role_add(name).await.unwrap();
        root.user_grant_role(name, name).await.unwrap();
        root.role_grant_permission(name, &prefix(&format!("/{name}/"))).await.unwrap();
    }

    let load = Load::start(&cluster);
    for turn in 0..TURNS {
        load.during(Change::UserAddWhileDisabled, async || root.user_add(&format!("off-{turn}")).await).await;
        load.during(Change::Enable, async || root.auth_enable().await).await;
        load.during(Change::UserAdd, async || root.user_add(&format!("on-{turn}")).await).await;
        load.during(Change::Grant, async || {
            root.role_grant_permission("bob", &prefix(&format!("/{turn}/"))).await
        })
        .await;
        load.during(Change::Disable, async || root.auth_disable().await).await;
        let refused = load.refused();
        let met = |change| refused.contains(&(change, Call::Put));
        if turn >= 10 && met(Change::UserAdd) && met(Change::Grant) {
            break;
        }
    }
    let (done, refused) = load.stop().await;
    let mut count = BTreeMap::new();
    for refused in &refused {
        *count.entry(*refused).or_insert(0) += 1;
    }
    println!("{minor}: of {done} calls, refused at their first try: {count:?}");
    for change in [Change::UserAdd, Change::Grant] {
        assert!(count.contains_key(&(change, Call::Put)), "{change:?} meets writes on their way: {count:?}");
    }
    for change in [Change::Enable, Change::Disable, Change::UserAddWhileDisabled] {
        assert!(!count.contains_key(&(change, Call::Put)), "{change:?} met a write: {count:?}");
    }
    assert!(!count.contains_key(&(Change::Enable, Call::Get)), "it does not raise the revision: {count:?}");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    UserAddWhileDisabled,
    Enable,
    UserAdd,
    Grant,
    Disable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Put,
    Get,
}

/// Calls of the user `alice` through every member, without rest.
struct Load {
    state: Arc<Mutex<State>>,
    ends: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

struct State {
    change: Change,
    /// How many calls each task has done since the change began.
    since: Vec<usize>,
    done: usize,
    refused: Vec<(Change, Call)>,
}

impl Load {
    fn start(cluster: &Cluster) -> Self {
        let ways = [Call::Put, Call::Put, Call::Put, Call::Get];
        let size = cluster.members.len();
        let state =
            State { change: Change::Disable, since: vec![0; size * ways.len()], done: 0, refused: vec![] };
        let (state, ends) = (Arc::new(Mutex::new(state)), Arc::new(AtomicBool::new(false)));
        let each = (0..size).flat_map(|member| ways.map(|call| (member, call))).enumerate();
        let tasks = each.map(|(n, (member, call))| {
            let (client, state, ends) = (client(cluster, member, "alice"), state.clone(), ends.clone());
            tokio::spawn(async move {
                while !ends.load(Ordering::Relaxed) {
                    carry_out(&client, call, &format!("/alice/{n}"), &state).await;
                    let mut state = state.lock().unwrap();
                    state.since[n] += 1;
                    state.done += 1;
                }
            })
        });
        let tasks = tasks.collect();
        Self { state, ends, tasks }
    }

    /// Makes the change, and waits until every call that began before it has ended: what is refused meanwhile is refused for it.
    async fn during(&self, change: Change, act: impl AsyncFn() -> Result<(), CallError>) {
        {
            let mut state = self.state.lock().unwrap();
            state.change = change;
        }
        act().await.unwrap();
        self.state.lock().unwrap().since.fill(0);
        eventually("every call that began before has ended", async || {
            let since = self.state.lock().unwrap().since.clone();
            if since.iter().all(|calls| *calls >= 3) { Ok(()) } else { Err(since) }
        })
        .await;
    }

    fn refused(&self) -> Vec<(Change, Call)> {
        self.state.lock().unwrap().refused.clone()
    }

    async fn stop(self) -> (usize, Vec<(Change, Call)>) {
        self.ends.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("no call failed for another reason");
        }
        let state = self.state.lock().unwrap();
        (state.done, state.refused.clone())
    }
}

/// One call, until it is done. It may be refused for the changes that it meets, and for nothing else.
async fn carry_out(client: &MemberClient, call: Call, key: &str, state: &Mutex<State>) {
    for _ in 0..5 {
        let reply = match call {
            Call::Put => client.put(key, "value").await.map(drop),
            Call::Get => client.get(key, Read::Linearizable).await.map(drop),
        };
        match reply {
            Ok(()) => return,
            Err(CallError::Refused(Refusal::AuthRevisionOld, _)) => {
                let mut state = state.lock().unwrap();
                let change = state.change;
                state.refused.push((change, call));
            }
            Err(error) => panic!("{call:?}: {error}"),
        }
    }
    panic!("{call:?} was refused again and again");
}

/// A calm cluster's connections are closed after each look and made again for the next one.
async fn resumed_sessions(minor: Minor) {
    let cluster = Cluster::start(setup(minor, 1)).await;
    let root = client(&cluster, 0, "root");
    for user in ["root", "alice"] {
        root.user_add(user).await.unwrap();
    }
    root.role_add("root").await.unwrap();
    root.user_grant_role("root", "root").await.unwrap();
    root.auth_enable().await.unwrap();
    let (address, own) = (cluster.members[0].endpoint().address, |name| tls(&cluster, 0, name));
    for (name, may) in [("root", true), ("alice", false)] {
        let Tls { server_name, ca, cert, key } = own(name);
        let config = TlsConfig::new(&ca, &cert, &key).unwrap();
        let mut received = Vec::new();
        for nth in 0..3 {
            let bytes = Arc::new(AtomicUsize::new(0));
            let counted = bytes.clone();
            let transport = Transport::instead(move |address| {
                let counted = counted.clone();
                async move {
                    let counting = Counting { inner: TcpStream::connect(address).await?, bytes: counted };
                    Ok(Box::new(counting) as Stream)
                }
            });
            let connection =
                MemberClient::sharing(transport, address, (&config, &server_name), Deadlines::default())
                    .unwrap();
            let added = connection.user_add(&format!("made-by-{name}-{nth}")).await;
            if may {
                added.unwrap();
            } else {
                assert_refused(&added, Refusal::PermissionDenied);
            }
            received.push(bytes.load(Ordering::Relaxed));
        }
        // The certificate of the server and the proof that it has its key.
        let least = received[0] - 400;
        assert!(received[1..].iter().all(|bytes| *bytes < least), "{name}: {received:?}");
    }
}

/// Counts what the server sends.
struct Counting {
    inner: TcpStream,
    bytes: Arc<AtomicUsize>,
}

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, into);
        self.bytes.fetch_add(into.filled().len() - before, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Counting {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

fn setup(minor: Minor, size: usize) -> Setup {
    Setup { tls: true, ..Setup::new(minor, size) }
}

/// A client for the member at this position, with a certificate of this common name.
fn client(cluster: &Cluster, n: usize, name: &str) -> MemberClient {
    let endpoint = Endpoint::tls(cluster.members[n].endpoint().address, tls(cluster, n, name));
    MemberClient::new(&endpoint, Deadlines::default()).unwrap()
}

fn tls(cluster: &Cluster, n: usize, name: &str) -> Tls {
    let (pki, endpoint) = (cluster.pki(), cluster.members[n].endpoint());
    let server_name = endpoint.tls.expect("a cluster with TLS").server_name;
    pki.tls(&pki.leaf(name, &[]), &server_name)
}

fn prefix(prefix: &str) -> Permission {
    let mut range_end = prefix.as_bytes().to_vec();
    *range_end.last_mut().expect("not empty") += 1;
    Permission { key: prefix.into(), range_end, access: KeyAccess::ReadWrite }
}

async fn revoke(client: &MemberClient, permission: &Permission) -> Result<(), CallError> {
    client.role_revoke_permission("alices", &permission.key, &permission.range_end).await
}

fn assert_refused<T: std::fmt::Debug>(reply: &Result<T, CallError>, expected: Refusal) {
    assert_eq!(reply.as_ref().err().and_then(CallError::refusal), Some(expected), "{reply:?}");
}
