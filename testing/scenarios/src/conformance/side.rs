//! One of the two servers, with a namespace of its own.

use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::mask::{Answer, Memory};
use super::{Call, Kind, Verb};

/// Runs a server's controllers until they are done, where the test controls them.
pub type Settle = Box<dyn FnMut() + Send>;

/// One of the two servers.
pub struct Side {
    client: Client,
    namespace: String,
    settle: Option<Settle>,
    memory: Memory,
    /// The resource version at which the sequence started.
    started_at: String,
}

/// An answer as it was received.
pub(super) struct Raw {
    pub code: u16,
    pub body: Value,
}

impl Side {
    /// A side that uses the client's namespace, which exists.
    pub async fn new(client: Client, settle: Option<Settle>) -> Result<Self> {
        let namespace = client.default_namespace().to_owned();
        let memory = Memory::default();
        let mut side = Self { client, namespace, settle, memory, started_at: String::new() };
        let list =
            side.send("GET", &Kind::Secret.path(&side.namespace), "application/json", &Value::Null).await?;
        let version = list.body["metadata"]["resourceVersion"].as_str().context("a list has a version")?;
        version.clone_into(&mut side.started_at);
        Ok(side)
    }

    /// Sends a call. Does not remember the answer.
    pub(super) async fn perform(&self, call: &Call) -> Result<Raw> {
        if call.verb == Verb::Watch {
            return self.watch(call).await;
        }
        let mut path = call.kind.path(&self.namespace);
        for part in [call.name.as_str(), call.subresource].iter().filter(|part| !part.is_empty()) {
            path = format!("{path}/{part}");
        }
        if !call.query.is_empty() {
            path = format!("{path}?{}", call.query);
        }
        let body = self.filled_in(&call.body);
        self.send(call.verb.method(), &path, call.verb.content_type(), &body).await
    }

    /// The comparable part of an answer.
    pub(super) fn comparable(&self, raw: &Raw) -> Answer {
        Answer { code: raw.code, body: self.memory.mask(&raw.body) }
    }

    /// Remembers the objects of an answer for later calls.
    pub(super) fn remember(&mut self, call: &Call, raw: &Raw) {
        if (200..300).contains(&raw.code) && !call.is_dry_run() && call.verb != Verb::Watch {
            self.memory.note(call.kind.plural(), &raw.body);
        }
    }

    /// Runs the controllers until they are done, where the test controls them.
    pub(super) fn settle(&mut self) {
        if let Some(settle) = &mut self.settle {
            settle();
        }
    }

    async fn send(&self, method: &str, path: &str, form: &str, body: &Value) -> Result<Raw> {
        let sent = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", form);
        let response = self.client.send(request.body(Body::from(sent))?).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes);
        Ok(Raw { code, body: body.unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))) })
    }

    /// All changes since the sequence started, by object: concurrent changes by controllers have no order. The watch ends at a
    /// marker object, which is created and deleted here.
    async fn watch(&self, call: &Call) -> Result<Raw> {
        const MARKER: &str = "zz-marker";
        let path = call.kind.path(&self.namespace);
        let marker = json!({"metadata": {"name": MARKER, "labels": {"tier": "1"}}});
        let made = self.send("POST", &path, "application/json", &marker).await?;
        let uri =
            format!("{path}?watch=true&timeoutSeconds=20&resourceVersion={}&{}", self.started_at, call.query);
        let request = http::Request::builder().uri(uri).body(Body::empty())?;
        let response = self.client.send(request).await?;
        let (code, mut body) = (response.status().as_u16(), response.into_body());
        let (mut seen, mut rest) = (json!({}), Vec::new());
        'reading: loop {
            let Some(frame) = body.frame().await else { bail!("the watch ended before the marker: {seen}") };
            rest.extend_from_slice(&frame?.into_data().unwrap_or_default());
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line)?;
                let metadata = &event["object"]["metadata"];
                let name = metadata["name"].as_str().unwrap_or_default();
                if name == MARKER && metadata["uid"] == made.body["metadata"]["uid"] {
                    break 'reading;
                }
                let masked = self.memory.mask(&event["object"]);
                let shown = masked["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                if ![MARKER, "kube-root-ca.crt", "default"].contains(&name) {
                    let kind = event["type"].as_str().unwrap_or_default();
                    let events = seen[&shown].as_str().unwrap_or_default();
                    seen[&shown] = json!(format!("{events} {kind}").trim_start());
                }
            }
        }
        self.send("DELETE", &format!("{path}/{MARKER}"), "application/json", &Value::Null).await?;
        Ok(Raw { code, body: seen })
    }

    /// The body with this side's uids and versions filled in.
    fn filled_in(&self, body: &Value) -> Value {
        match body {
            Value::Object(fields) => {
                let mut filled = match fields.get("$seen").and_then(Value::as_str) {
                    Some(place) => self.memory.object(place),
                    None => json!({}),
                };
                for (key, value) in fields.iter().filter(|(key, _)| *key != "$seen") {
                    let value = self.filled_in(value);
                    match (&mut filled[key], value) {
                        // An observed object is changed, not replaced.
                        (Value::Object(old), Value::Object(new)) => old.extend(new),
                        (old, new) => *old = new,
                    }
                }
                filled
            }
            Value::Array(entries) => entries.iter().map(|entry| self.filled_in(entry)).collect(),
            Value::String(text) if text == "$namespace" => json!(self.namespace),
            Value::String(text) => match text.split_once(' ') {
                Some(("$uid", place)) => json!(self.memory.uid(place)),
                Some(("$version", place)) => json!(self.memory.version(place, true)),
                Some(("$stale", place)) => json!(self.memory.version(place, false)),
                Some(_) | None => body.clone(),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => body.clone(),
        }
    }
}
