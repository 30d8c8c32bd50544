//! Open files. Each connection to a member is one, and one for each member is kept open. Container runtimes set a soft limit of 1024 and a
//! hard one that is far higher.

use std::fmt;
use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;

/// Raises the soft limit to the hard one. What fails costs connections to members of a large fleet alone, so it is only reported.
pub(crate) fn raise_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
        }
        Ok((soft, hard))
    });
    match raised {
        Ok((soft, hard)) => tracing::info!(soft, hard, "open files: the soft limit is now the hard one"),
        Err(error) => tracing::warn!(%error, "the limit of open files is not raised"),
    }
}

/// Shows how many files are open, and how many may be.
#[derive(Debug)]
pub(crate) struct OpenFiles;

impl Collector for OpenFiles {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
        let mut show = |name: &str, help: &str, figure: u64| {
            let gauge = ConstGauge::<i64>::new(i64::try_from(figure).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        show("open_files", "Open files, of which each connection to a member is one", open as u64)?;
        show("open_files_limit", "How many files may be open", limit)
    }
}
