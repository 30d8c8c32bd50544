//! The manifests under a part of a store: their keys are listed a page at a time, and many are read at a time. The number of objects has no
//! bound: anyone with the right to write to the store could exceed it, and no backup would be found any more. Time has one.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::TryStreamExt as _;
use quorate_api::job::{Failure, FailureKind};
use tokio::time::timeout;

use crate::{Result, Store, manifest};

/// How many manifests are read at a time.
const AT_A_TIME: usize = 32;

/// How long it may take. The operator gives the Job an hour, of which the objects that the manifests describe need a part.
const LONGEST: Duration = Duration::from_mins(50);

/// Reads each manifest, by the key of its object, and hands on what was read. Returns how many objects were seen. `instead`: what a person can
/// do where there are too many.
pub(crate) async fn manifests<T, F>(
    store: &Store,
    under: Option<&str>,
    read: impl Fn(String) -> F,
    mut take: impl FnMut(T),
    instead: &str,
) -> Result<u64>
where
    F: Future<Output = Result<T>>,
{
    let objects = AtomicU64::new(0);
    let walk = async {
        let seen = store.list(under)?.inspect_ok(|_| {
            objects.fetch_add(1, Ordering::Relaxed);
        });
        let keys = seen
            .try_filter_map(|key| std::future::ready(Ok(key.strip_suffix(manifest::END).map(str::to_owned))));
        let mut read = pin!(keys.map_ok(read).try_buffer_unordered(AT_A_TIME));
        while let Some(next) = read.try_next().await? {
            take(next);
        }
        Ok(())
    };
    let walked = timeout(LONGEST, walk).await;
    let objects = objects.load(Ordering::Relaxed);
    walked.unwrap_or_else(|_| {
        let message = format!(
            "{} has more objects than are read in {} minutes, which was enough for {objects}: find out who writes there, and {instead}",
            store.url(under.unwrap_or_default()),
            LONGEST.as_secs() / 60
        );
        Err(Failure::new(FailureKind::OrderRefused, message))
    })?;
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use quorate_api::Destination;
    use quorate_api::destination::Pvc;

    use super::*;
    use crate::Places;

    fn store(root: &std::path::Path) -> Store {
        let destination = Destination { pvc: Some(Pvc::default()), ..Destination::default() };
        Store::open(&destination, &Places { pvc: root.to_owned(), ..Places::default() }).unwrap()
    }

    #[tokio::test]
    async fn n22_every_manifest_is_read_however_many_objects_there_are() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..3000 {
            let folder = dir.path().join(format!("tenant/{}", number % 7));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("{number}.db")), "").unwrap();
            if number % 3 == 0 {
                fs::write(folder.join(format!("{number}.db.json")), "").unwrap();
            }
        }
        let mut read = Vec::new();
        let seen = manifests(&store(dir.path()), None, async |key| Ok(key), |key| read.push(key), "").await;
        assert_eq!((seen, read.len()), (Ok(4000), 1000));
        assert!(read.iter().all(|key: &String| !key.ends_with(manifest::END)));
    }

    #[tokio::test(start_paused = true)]
    async fn n22_a_walk_that_takes_too_long_says_how_far_it_came_and_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.db.json"), "").unwrap();
        let read = async |_| std::future::pending::<Result<()>>().await;
        let failure =
            manifests(&store(dir.path()), None, read, |()| {}, "name the object").await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::OrderRefused);
        assert!(failure.message.contains("50 minutes, which was enough for 1"), "{}", failure.message);
        assert!(failure.message.ends_with("and name the object"), "{}", failure.message);
    }
}
