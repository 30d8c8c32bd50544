//! What a Pod remembers of its volume: that etcd has written data there. An identity file goes with the volume when that is
//! emptied, and the annotation `joined` takes a minute to reach the Pod's file. This marker lies in the Pod's own directory, so
//! it outlives the container and not the Pod.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::guard;
use crate::log;

const PACE: Duration = Duration::from_millis(100);

/// Sets the marker as soon as there are data, on a thread of its own; then calls `marked`.
pub(super) fn remember(
    data_dir: &Path,
    marker: Option<&PathBuf>,
    marked: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let Some(marker) = marker.cloned() else { return Ok(()) };
    let data_dir = data_dir.to_owned();
    thread::Builder::new().name("seen".to_owned()).spawn(move || {
        while !guard::has_data(&data_dir) {
            thread::sleep(PACE);
        }
        if let Err(error) = File::create(&marker) {
            log::warn(&format!("cannot write {}: {error}", marker.display()));
        }
        marked();
    })?;
    Ok(())
}
