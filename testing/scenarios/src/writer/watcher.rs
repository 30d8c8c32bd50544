//! A watch that is held open as a kube-apiserver holds it: it ends when its member has no leader, and goes on elsewhere after
//! the last revision that it reported.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use quorate_etcd::wire::watch_request::RequestUnion;
use quorate_etcd::wire::{KeyValue, WatchCreateRequest, WatchRequest};
use tokio::sync::watch;
use tonic::metadata::MetadataValue;

use super::end_of;
use super::pool::{Choice, Pool};

/// etcd's client waits 1 ms and more before it resumes; here it never spins.
const PACE: Duration = Duration::from_millis(20);

/// What is kept of each event.
type Keep<T> = Box<dyn Fn(KeyValue) -> T + Send + Sync>;

/// One watch of all keys with a prefix.
pub(super) struct Watcher<T> {
    pool: Arc<Pool>,
    choice: Choice,
    prefix: String,
    next: i64,
    keep: Keep<T>,
    /// What was reported, in that order, by revision.
    pub(super) reported: Vec<(i64, T)>,
    /// How often it was opened.
    pub(super) opened: usize,
}

impl<T> Watcher<T> {
    /// A watch from this revision on.
    pub(super) fn new(
        pool: Arc<Pool>,
        choice: Choice,
        prefix: &str,
        from: i64,
        keep: impl Fn(KeyValue) -> T + Send + Sync + 'static,
    ) -> Self {
        let (prefix, keep) = (prefix.to_owned(), Box::new(keep));
        Self { pool, choice, prefix, next: from, keep, reported: Vec::new(), opened: 0 }
    }

    /// Watches until it has reported this revision, or meets a revision that is compacted.
    pub(super) async fn run(&mut self, mut until: watch::Receiver<Option<i64>>) -> Result<()> {
        loop {
            self.opened += 1;
            let end = self.stream(&mut until).await?;
            if end {
                return Ok(());
            }
            // A member that has just started may have no leader for a while.
            self.choice = self.choice.another();
            tokio::time::sleep(PACE).await;
        }
    }

    /// Returns whether it reported all. Fails only with what a client cannot repair.
    async fn stream(&mut self, until: &mut watch::Receiver<Option<i64>>) -> Result<bool> {
        let connection = self.pool.pick(self.choice).await;
        let create = WatchCreateRequest {
            key: self.prefix.clone().into(),
            range_end: end_of(&self.prefix),
            start_revision: self.next,
        };
        let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        // The stream of requests stays open, because etcd ends the watch with it.
        let (requests, stream) = tokio::sync::mpsc::channel(1);
        requests.send(create).await.context("the stream is open")?;
        let mut request = tonic::Request::new(tokio_stream::wrappers::ReceiverStream::new(stream));
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        let Ok(replies) = connection.watch().watch(request).await else { return Ok(false) };
        let mut replies = replies.into_inner();
        loop {
            if until.borrow_and_update().is_some_and(|last| self.next > last) {
                return Ok(true);
            }
            let reply = tokio::select! {
                reply = replies.message() => reply,
                changed = until.changed() => {
                    changed.context("the writers are gone")?;
                    continue;
                }
            };
            let Ok(Some(reply)) = reply else { return Ok(false) };
            ensure!(
                reply.compact_revision == 0,
                "revision {} is compacted, the oldest is {}",
                self.next,
                reply.compact_revision
            );
            if reply.canceled {
                return Ok(false);
            }
            for event in reply.events {
                let Some(kv) = event.kv else { bail!("an event without a key") };
                let revision = kv.mod_revision;
                self.reported.push((revision, (self.keep)(kv)));
                self.next = revision + 1;
            }
        }
    }
}
