//! What a store may hand out: manifests that somebody else wrote. Whatever of them can be read leads to an answer that a termination message has
//! room for, without a panic, and within a time. What passes by of a snapshot is in `auth`.

use std::fs;
use std::path::Path;

use quorate_api::Destination;
use quorate_api::destination::Pvc;
use quorate_api::job::{Answer, ClusterName, FindOrder, FoundBackup, InspectOrder, ListOrder, ListedBackups};
use quorate_rubbish::{MANIFESTS, each_round, values};
use tokio_util::sync::CancellationToken;

use crate::{Context, Places, find, inspect, list};

/// Where the manifests of the corpus say that they are.
const KEY: &str = "default/demo/nightly-1.db.zst";

/// The most bytes of a termination message.
const MOST: usize = 4096;

/// A store on a volume with one object and this manifest.
fn store(root: &Path, key: &str, manifest: &str) -> Context {
    let object = root.join(key);
    fs::create_dir_all(object.parent().unwrap()).unwrap();
    fs::write(&object, b"data").unwrap();
    fs::write(root.join(format!("{key}.json")), manifest).unwrap();
    let places = Places { pvc: root.to_owned(), ..Places::default() };
    Context { places, stop: CancellationToken::new(), log: |_| {} }
}

fn destination() -> Destination {
    Destination { pvc: Some(Pvc::default()), ..Destination::default() }
}

/// How many bytes an answer takes in a termination message.
fn size(answer: &Answer) -> usize {
    serde_json::to_string(answer).unwrap().len()
}

/// Everything that reads manifests. How many of three read something from this one.
async fn readers(context: &Context, sha256: &str) -> usize {
    let cluster = || ClusterName { namespace: "default".to_owned(), name: "demo".to_owned() };
    let order = ListOrder {
        destination: destination(),
        cluster: cluster(),
        after: None,
        most: 10,
        allow_unsigned: true,
    };
    let listed = list(&order, context).await;
    // Notes and what was left out are shortened before they are written.
    if let Ok(listed) = &listed {
        assert!(size(&Answer::Listed(ListedBackups { notes: Vec::new(), ..listed.clone() })) <= MOST);
    }
    let order = InspectOrder {
        destination: destination(),
        key: KEY.to_owned(),
        sha256: sha256.to_owned(),
        cluster: Some("demo".to_owned()),
        allow_unsigned: true,
        ..InspectOrder::default()
    };
    let inspected = inspect(&order, context).await;
    if let Ok(manifest) = &inspected {
        assert!(size(&Answer::Inspected(manifest.clone())) <= MOST);
    }
    let order = FindOrder {
        destination: destination(),
        cluster: Some(cluster()),
        cluster_id: None,
        before: None,
        allow_unsigned: true,
    };
    let found = find(&order, context).await;
    if let Ok(found) = &found {
        assert!(
            size(&Answer::Found(FoundBackup { skipped: Vec::new(), ..found.clone() })) <= MOST,
            "{found:?}"
        );
    }
    usize::from(listed.is_ok_and(|listed| !listed.backups.is_empty()))
        + usize::from(inspected.is_ok())
        + usize::from(found.is_ok())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn no_manifest_makes_a_reader_of_a_store_panic_or_hang_or_answer_at_length() {
    let (manifests, runtime) = (values(MANIFESTS), runtime());
    let dir = tempfile::tempdir().unwrap();
    each_round(400, 40, |chance| {
        let mut manifest = chance.one_of(&manifests).clone();
        chance.damage_value(&mut manifest, 3);
        let text = chance.text(&manifest);
        let sha256 = manifest["storedSha256"].as_str().unwrap_or_default();
        runtime.block_on(readers(&store(dir.path(), KEY, &text), sha256));
    });
}

#[test]
fn the_manifests_of_the_corpus_are_read_by_all() {
    for manifest in values(MANIFESTS) {
        let dir = tempfile::tempdir().unwrap();
        let context = store(dir.path(), KEY, &manifest.to_string());
        let sha256 = manifest["storedSha256"].as_str().unwrap();
        // What was taken without a quorum is restored by its name alone.
        let found = usize::from(manifest["withoutQuorum"] == false);
        assert_eq!(runtime().block_on(readers(&context, sha256)), 2 + found, "{manifest}");
    }
}
