//! Watches: the changes of a kind after a version, as lines, with bookmarks.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Response, StatusCode, header};
use quorate_apistore::ApiError;
use quorate_apistore::cause::Cause;
use quorate_apistore::fields::{name, namespace};
use quorate_apistore::store::{Change, ChangeKind, Store};
use quorate_apistore::{ResourceInfo, ResourceKey};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::list::{include, metadata_only, wants_metadata, wants_table};
use super::path::Place;
use super::selector::Selector;
use super::{Reply, Request, events};
use crate::body::Body;
use crate::shared::Shared;
use crate::tables::{self, Include};

/// How long a watch runs by default; the real server's lower bound.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);
/// How often a quiet watch gets a bookmark.
const BOOKMARK_EVERY: Duration = Duration::from_secs(30);

struct Watch {
    store: Store,
    info: std::sync::Arc<ResourceInfo>,
    resource: ResourceKey,
    namespace: Option<String>,
    name: Option<String>,
    selector: Selector,
    changed: watch::Receiver<u64>,
    shape: Shape,
    version: u64,
    bookmarks: bool,
    until: Instant,
    first: Vec<Value>,
    done: bool,
}

enum Shape {
    Object,
    Metadata,
    Table { include: Include, headers: bool },
}

pub(super) fn watch(shared: &Shared, request: &Request, at: &Place, name: Option<&str>) -> Reply {
    if request.query.flag("sendInitialEvents") {
        let why = "streaming lists are not served here: list, then watch";
        let cause = Cause::forbidden("sendInitialEvents", why);
        return Err(ApiError::invalid_options("ListOptions", &cause));
    }
    let store = shared.store.clone();
    let selector = request.query.selector(&at.info)?;
    let changed = store.subscribe();
    let (version, first) = if let Some(version) = request.query.version()? {
        (version, Vec::new())
    } else {
        let (objects, version) = store.list(&at.storage, at.namespace.as_deref());
        (version, objects)
    };
    let shape = if wants_table(request) {
        Shape::Table { include: include(request), headers: true }
    } else if wants_metadata(request) {
        Shape::Metadata
    } else {
        Shape::Object
    };
    let timeout = request.query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
    let timeout = timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let watch = Watch {
        store,
        info: at.info.clone(),
        resource: at.storage.clone(),
        namespace: at.namespace.clone(),
        name: name.map(str::to_owned),
        selector,
        changed,
        shape,
        version,
        bookmarks: request.query.flag("allowWatchBookmarks"),
        until: Instant::now() + timeout,
        first,
        done: false,
    };
    let lines = stream::unfold(watch, |mut watch| async move {
        let lines = watch.next().await?;
        Some((lines, watch))
    });
    let mut response = Response::new(Body::stream(lines));
    *response.status_mut() = StatusCode::OK;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}

impl Watch {
    /// The next lines; `None` at the end of the watch.
    async fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let first = std::mem::take(&mut self.first);
        let mut lines: Vec<Value> = Vec::new();
        let meant: Vec<&Value> = first.iter().filter(|object| self.is_meant(object)).collect();
        for object in meant {
            lines.push(self.event("ADDED", object));
        }
        while lines.is_empty() {
            self.changed.mark_unchanged();
            match self.store.changes(&self.resource, self.version) {
                Ok((changes, reached)) => {
                    self.version = self.version.max(reached);
                    for change in changes {
                        lines.extend(self.event_of(&change));
                    }
                }
                Err(error) => {
                    self.done = true;
                    lines.push(json!({"type": "ERROR", "object": error.status()}));
                }
            }
            if lines.is_empty() && !self.wait(&mut lines).await {
                return None;
            }
        }
        let mut text = String::new();
        for line in &lines {
            let _ = writeln!(text, "{line}");
        }
        Some(text.into())
    }

    /// Waits for a change or the next bookmark. `false` at the end of the watch.
    async fn wait(&mut self, lines: &mut Vec<Value>) -> bool {
        let bookmark = Instant::now() + BOOKMARK_EVERY;
        tokio::select! {
            changed = self.changed.changed() => changed.is_ok(),
            () = tokio::time::sleep_until(self.until) => false,
            () = tokio::time::sleep_until(bookmark) => {
                if self.bookmarks && matches!(self.shape, Shape::Object | Shape::Metadata) {
                    let object = json!({
                        "kind": self.info.kind, "apiVersion": self.info.api_version(),
                        "metadata": {"resourceVersion": self.version.to_string(), "creationTimestamp": null},
                    });
                    lines.push(json!({"type": "BOOKMARK", "object": object}));
                }
                true
            }
        }
    }

    /// A change as this watch sees it: an object that starts to match is added, one that no longer matches is deleted.
    fn event_of(&mut self, change: &Change) -> Option<Value> {
        let now = self.is_meant(&change.object);
        let before = change.before.as_ref().is_some_and(|before| self.is_meant(before));
        let kind = match (change.kind, before, now) {
            (ChangeKind::Deleted, true, _) | (ChangeKind::Modified, true, false) => "DELETED",
            (ChangeKind::Added, _, true) | (ChangeKind::Modified, false, true) => "ADDED",
            (ChangeKind::Modified, true, true) => "MODIFIED",
            (ChangeKind::Added | ChangeKind::Modified | ChangeKind::Deleted, _, _) => return None,
        };
        // As on a real API server: the last state that matched, with the version of the change.
        let last = change.before.as_ref().filter(|_| change.kind == ChangeKind::Modified && !now);
        match last {
            Some(before) => {
                let mut last: Value = (**before).clone();
                last["metadata"]["resourceVersion"] = change.object["metadata"]["resourceVersion"].clone();
                Some(self.event(kind, &last))
            }
            None => Some(self.event(kind, &change.object)),
        }
    }

    fn is_meant(&self, object: &Value) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace(object))
            && self.name.as_deref().is_none_or(|wanted| wanted == name(object))
            && self.selector.matches(object)
    }

    fn event(&mut self, kind: &str, object: &Value) -> Value {
        let object = match &mut self.shape {
            Shape::Object => events::shown(&self.info, object.clone()),
            Shape::Metadata => metadata_only(object),
            Shape::Table { include, headers } => {
                let meta = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let with_headers = std::mem::take(headers);
                let rows = std::slice::from_ref(object);
                tables::render(&self.info, rows, &meta, *include, with_headers, self.store.now())
            }
        };
        json!({"type": kind, "object": object})
    }
}
