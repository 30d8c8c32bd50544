//! Which Pods of a cluster were taken, when, and what served at that moment: from the API server's own sequence of events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use tokio::task::JoinHandle;

use crate::{NamespaceClient, is_ready};

/// A Pod of which the API server reported this recently that it does not serve may have been seen as serving by somebody who
/// looked first and acted then.
const BETWEEN_LOOK_AND_ACT: Duration = Duration::from_millis(500);

/// Observes the Pods of one cluster until it is dropped.
pub struct Disruptions {
    log: Arc<Mutex<Log>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Log {
    pods: BTreeMap<String, State>,
    /// Taken by the test itself.
    own: BTreeSet<String>,
    hung: BTreeSet<String>,
    taken: Vec<Taken>,
}

struct State {
    uid: String,
    is_going: bool,
    /// Whether it ever served: only voters do.
    voter: bool,
    serves: bool,
    since: Instant,
}

/// A Pod that somebody other than the test deleted or evicted.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Its name.
    pub pod: String,
    /// The voters that served besides it.
    pub serving: Vec<String>,
    /// The voters that did not: not ready, going, or with a disk that hangs.
    pub missing: Vec<String>,
}

impl Taken {
    /// Whether those that serve are fewer than a quorum of all voters, without any that left.
    pub fn loses_quorum(&self) -> bool {
        let voters = self.serving.len() + self.missing.len() + 1;
        // A cluster of two has no voter to spare.
        voters > 2 && self.serving.len() < (voters - 1) / 2 + 1
    }
}

impl Disruptions {
    /// Observes the Pods of this cluster from now on.
    pub fn observe(namespace_client: &NamespaceClient, cluster: &str) -> Self {
        let log = Arc::new(Mutex::new(Log::default()));
        let of = watcher::Config::default().labels(&format!("operator.etcd.io/cluster={cluster}"));
        let mut events = watch(namespace_client.pods(), of).default_backoff().boxed();
        let shared = log.clone();
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let mut log = lock(&shared);
                match event {
                    Ok(Event::Apply(pod) | Event::InitApply(pod)) => log.apply(&pod),
                    Ok(Event::Delete(pod)) => log.delete(&pod),
                    // The watcher repeats what failed.
                    Ok(Event::Init | Event::InitDone) | Err(_) => {}
                }
            }
        });
        Self { log, task }
    }

    /// The test itself is about to take this Pod.
    pub fn own(&self, pod: &Pod) {
        lock(&self.log).own.extend(pod.uid());
    }

    /// The disk of this member hangs from now on, or no more. Kubernetes may not know it.
    pub fn hangs(&self, pod: &str, hangs: bool) {
        let mut log = lock(&self.log);
        if hangs {
            log.hung.insert(pod.to_owned());
        } else {
            log.hung.remove(pod);
        }
    }

    /// The cluster has settled: members whose Pod is gone are members no more.
    pub fn forget_removed(&self) {
        lock(&self.log).pods.retain(|_, state| state.serves);
    }

    /// The Pods that were taken since the last call of this.
    pub fn taken(&self) -> Vec<Taken> {
        std::mem::take(&mut lock(&self.log).taken)
    }
}

impl Drop for Disruptions {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Log {
    fn apply(&mut self, pod: &Pod) {
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        let (serves, is_going) = (is_ready(pod), pod.metadata.deletion_timestamp.is_some());
        let before = self.pods.remove(&name);
        let was_going = before.as_ref().is_some_and(|before| before.uid == uid && before.is_going);
        let voter = serves || before.as_ref().is_some_and(|before| before.voter);
        if is_going && !was_going && voter && !self.own.contains(&uid) {
            self.taken.push(self.others(&name));
        }
        let same = before.filter(|before| before.serves == serves);
        let since = same.map_or_else(Instant::now, |before| before.since);
        self.pods.insert(name, State { uid, is_going, voter, serves, since });
    }

    /// The member still is a voter, unless it was removed.
    fn delete(&mut self, pod: &Pod) {
        let name = pod.name_any();
        if let Some(state) = self.pods.get_mut(&name) {
            let serves = std::mem::take(&mut state.serves);
            if serves {
                state.since = Instant::now();
            }
        }
    }

    fn others(&self, pod: &str) -> Taken {
        let hung = |name: &str| self.hung.contains(name);
        let serves = |state: &State| state.serves || state.since.elapsed() < BETWEEN_LOOK_AND_ACT;
        let others = self.pods.iter().filter(|(name, state)| *name != pod && state.voter);
        let (serving, missing): (Vec<_>, Vec<_>) =
            others.partition(|(name, state)| serves(state) && !hung(name));
        let names = |pods: Vec<(&String, &State)>| pods.into_iter().map(|(name, _)| name.clone()).collect();
        Taken { pod: pod.to_owned(), serving: names(serving), missing: names(missing) }
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, uid: &str, ready: bool, going: bool) -> Pod {
        let going = if going { json!("2026-01-01T00:00:00Z") } else { Value::Null };
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": uid, "deletionTimestamp": going},
            "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
        }))
        .unwrap()
    }

    fn three() -> Log {
        let mut log = Log::default();
        for name in ["a", "b", "c"] {
            log.apply(&pod(name, name, true, false));
            // Long ago.
            log.pods.get_mut(name).unwrap().since -= Duration::from_secs(60);
        }
        log
    }

    #[test]
    fn a_pod_taken_while_another_is_gone_loses_quorum() {
        let mut log = three();
        log.own.insert("a".to_owned());
        log.apply(&pod("a", "a", true, true));
        assert!(log.taken.is_empty(), "the test's own act");
        log.pods.get_mut("a").unwrap().since -= Duration::from_secs(1);
        log.apply(&pod("b", "b", true, true));
        log.apply(&pod("b", "b", false, true));
        let [taken] = &log.taken[..] else { panic!("{:?}", log.taken) };
        assert!(taken.loses_quorum(), "{taken:?}");
        assert_eq!((&*taken.missing, &*taken.serving), (&["a".to_owned()][..], &["c".to_owned()][..]));
    }

    #[test]
    fn one_pod_at_a_time_loses_nothing_and_a_hung_disk_counts_as_missing() {
        let mut log = three();
        log.apply(&pod("b", "b", true, true));
        assert!(!log.taken.pop().unwrap().loses_quorum());
        let mut log = three();
        log.hung.insert("a".to_owned());
        log.apply(&pod("b", "b", true, true));
        assert!(log.taken.pop().unwrap().loses_quorum());
    }

    #[test]
    fn what_never_served_is_no_voter() {
        let mut log = three();
        log.apply(&pod("d", "d", false, false));
        log.apply(&pod("d", "d", false, true));
        assert!(log.taken.is_empty());
    }
}
