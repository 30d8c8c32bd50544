//! `kubectl logs`: reads the log files of containers.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use quorate_localkube::logs::{LogRequest, LogSource};
use tokio::io::AsyncReadExt;

use crate::home::Home;
use crate::node::ContainerLogs;

/// How often a followed log is read.
const LOOK: Duration = Duration::from_millis(100);

/// The logs of all containers.
pub(crate) struct Logs {
    dir: PathBuf,
}

impl Logs {
    pub(crate) fn of(home: &Home) -> Self {
        Self { dir: home.logs() }
    }
}

impl LogSource for Logs {
    fn open(&self, request: &LogRequest) -> Result<BoxStream<'static, Bytes>, String> {
        let logs = ContainerLogs::of(&self.dir, &request.namespace, &request.pod, &request.container);
        let (newest, before) = logs.newest();
        let file = if request.previous { before } else { newest };
        let what = if request.previous { "previous terminated container" } else { "container" };
        let missing = || format!("{what} {:?} in pod {:?} not found", request.container, request.pod);
        let file = file.ok_or_else(missing)?;
        let content = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let read = content.len() as u64;
        let first = stream::once(async move { content });
        let shown = tail(first, request.tail);
        if !request.follow {
            return Ok(shown.boxed());
        }
        Ok(shown.chain(rest(file, read)).boxed())
    }
}

fn tail(content: impl StreamExt<Item = Vec<u8>>, lines: Option<u64>) -> impl StreamExt<Item = Bytes> {
    content.map(move |content| {
        let Some(wanted) = lines.and_then(|lines| usize::try_from(lines).ok()) else { return content.into() };
        let end = content.len().saturating_sub(usize::from(content.ends_with(b"\n")));
        let breaks = content[..end].iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
        let start = match wanted {
            0 => content.len(),
            wanted => breaks.map(|(at, _)| at + 1).nth(wanted - 1).unwrap_or(0),
        };
        content[start..].to_vec().into()
    })
}

/// What is written after a position, without end.
fn rest(file: PathBuf, from: u64) -> impl StreamExt<Item = Bytes> {
    stream::unfold((file, from), |(file, from)| async move {
        loop {
            tokio::time::sleep(LOOK).await;
            let mut open = tokio::fs::File::open(&file).await.ok()?;
            let length = open.metadata().await.ok()?.len();
            // The file was truncated: read it from the start.
            let from = if length < from { 0 } else { from };
            if length > from {
                tokio::io::AsyncSeekExt::seek(&mut open, std::io::SeekFrom::Start(from)).await.ok()?;
                let mut more = Vec::new();
                open.read_to_end(&mut more).await.ok()?;
                let reached = from + more.len() as u64;
                return Some((more.into(), (file, reached)));
            }
        }
    })
}
