//! Whether one object is in the store as an EtcdBackup describes it that did not write it. Nothing is downloaded: a restore compares all of it.

use quorate_api::job::{Failure, FailureKind, InspectOrder, Manifest};

use crate::find::broken;
use crate::signature::Keys;
use crate::store::Seen;
use crate::{Context, Result, Store, manifest};

/// Looks for it. The answer is its manifest, without all recipients but one.
pub async fn inspect(order: &InspectOrder, context: &Context) -> Result<Manifest> {
    let store = Store::open(&order.destination, &context.places)?;
    let keys = Keys::read(&context.places.signing_keys)?;
    context.unless_stopped(see(&store, order, &keys)).await
}

async fn see(store: &Store, order: &InspectOrder, keys: &Keys) -> Result<Manifest> {
    match described(store, order, keys).await {
        Err(failure) if order.cluster.is_none() && is_about_the_manifest(failure.kind) => {
            undescribed(store, order).await
        }
        described => described,
    }
}

/// Whether another object, or none, is described: the store itself has answered.
fn is_about_the_manifest(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::NotInStore | FailureKind::Mismatch | FailureKind::NotOurs)
}

/// The object as the store has it, where no manifest that can be believed describes it.
async fn undescribed(store: &Store, order: &InspectOrder) -> Result<Manifest> {
    let InspectOrder { key, sha256, version_id, .. } = order;
    let mut seen = None;
    if let Some(version) = version_id {
        seen = store.see_version(key, version).await?;
    }
    if seen.is_none() {
        seen = store.see(key).await?;
    }
    let Some(Seen { bytes, mark }) = seen else {
        store.confirm_missing(key).await?;
        let message = format!("{} is not in the store. Check key and destination", store.url(key));
        return Err(Failure::new(FailureKind::NotInStore, message));
    };
    let (key, stored_sha256) = (key.clone(), sha256.clone());
    Ok(Manifest { key, stored_sha256, stored_bytes: bytes, mark: Some(mark), ..Manifest::default() })
}

/// The object as its manifest describes it.
async fn described(store: &Store, order: &InspectOrder, keys: &Keys) -> Result<Manifest> {
    let key = &order.key;
    let url = store.url(key);
    let Some((mut found, doubt)) = manifest::read_signed(store, key, keys).await? else {
        store.confirm_missing(&manifest::key_of(key)).await?;
        let message = format!(
            "{url} has no manifest beside it, so it is no backup, or it is gone. Check key and destination"
        );
        return Err(Failure::new(FailureKind::NotInStore, message));
    };
    let has_room = manifest::fit(&mut found);
    let mismatch = |what: String| Failure::new(FailureKind::Mismatch, what);
    if let (Some(why), false) = (doubt, order.allow_unsigned) {
        return Err(mismatch(format!("the manifest of {url} {why}")));
    }
    if found.stored_sha256 != order.sha256 {
        let by_manifest: String = found.stored_sha256.chars().take(64).collect();
        return Err(mismatch(format!(
            "{url} has SHA-256 {by_manifest} by its manifest, and not {}: another backup is there",
            order.sha256
        )));
    }
    if let Some(cluster) =
        order.cluster.as_ref().filter(|cluster| found.origin.cluster.as_ref() != Some(cluster))
    {
        let of = found.origin.cluster.as_deref().unwrap_or("no EtcdCluster");
        let of: String = of.chars().take(63).collect();
        return Err(mismatch(format!("{url} is of {of} by its manifest, and source.cluster is {cluster}")));
    }
    if !has_room {
        return Err(mismatch(format!("the manifest of {url} is longer than one that an operator writes")));
    }
    match broken(store, &found).await? {
        // The store may be another one than that of the write, with the same objects: looks compare what it says from now on.
        None => {
            found.mark = store.see(key).await?.map(|seen| seen.mark);
            Ok(found)
        }
        Some(why) => Err(Failure::new(FailureKind::NotInStore, why)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use quorate_api::Destination;
    use quorate_api::destination::Pvc;
    use quorate_api::job::Origin;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::Places;
    use crate::manifest::{FORMAT, key_of, to_bytes};

    const KEY: &str = "tenant/demo/a.db";

    fn written(root: &Path, change: impl FnOnce(&mut Manifest)) {
        let mut manifest = Manifest {
            format: FORMAT,
            origin: Origin { cluster: Some("demo".to_owned()), ..Origin::default() },
            key: KEY.to_owned(),
            stored_bytes: 4,
            stored_sha256: "5".repeat(64),
            revision: 70,
            cluster_id: "a1".to_owned(),
            recipients: vec!["age1x".to_owned(); 200],
            ..Manifest::default()
        };
        change(&mut manifest);
        fs::create_dir_all(root.join("tenant/demo")).unwrap();
        fs::write(root.join(KEY), b"data").unwrap();
        fs::write(root.join(key_of(KEY)), to_bytes(&manifest)).unwrap();
    }

    async fn inspect_in(root: &Path) -> Result<Manifest> {
        inspect_with(root, true).await
    }

    async fn inspect_with(root: &Path, allow_unsigned: bool) -> Result<Manifest> {
        let order = InspectOrder {
            destination: Destination { pvc: Some(Pvc::default()), ..Destination::default() },
            key: KEY.to_owned(),
            sha256: "5".repeat(64),
            cluster: Some("demo".to_owned()),
            allow_unsigned,
            ..InspectOrder::default()
        };
        inspect_by(root, &order).await
    }

    async fn inspect_by(root: &Path, order: &InspectOrder) -> Result<Manifest> {
        let places = Places { pvc: root.to_owned(), signing_keys: root.join("keys"), ..Places::default() };
        inspect(order, &Context { places, stop: CancellationToken::new(), log: |_| {} }).await
    }

    #[tokio::test]
    async fn o02_an_object_of_before_is_what_its_manifest_says_or_it_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        written(root, |_| {});
        let found = inspect_in(root).await.unwrap();
        assert_eq!((found.revision, found.cluster_id.as_str(), found.recipients.len()), (70, "a1", 1));
        let refused = async |kind: FailureKind, words: &str| {
            let failure = inspect_in(root).await.unwrap_err();
            assert_eq!(failure.kind, kind, "{}", failure.message);
            assert!(failure.message.contains(words), "{words}: {}", failure.message);
        };
        written(root, |manifest| manifest.stored_sha256 = "6".repeat(64));
        refused(FailureKind::Mismatch, "another backup is there").await;
        written(root, |manifest| manifest.origin.cluster = Some("else".to_owned()));
        refused(FailureKind::Mismatch, "source.cluster is demo").await;
        written(root, |manifest| manifest.key = "tenant/demo/b.db".to_owned());
        refused(FailureKind::Mismatch, "moved or exchanged").await;
        written(root, |manifest| manifest.etcd_version = "3".repeat(9000));
        refused(FailureKind::Mismatch, "longer than one").await;
        written(root, |manifest| manifest.stored_bytes = 5);
        refused(FailureKind::NotInStore, "is damaged").await;
        written(root, |_| {});
        fs::remove_file(root.join(KEY)).unwrap();
        refused(FailureKind::NotInStore, "is gone").await;
        fs::remove_file(root.join(key_of(KEY))).unwrap();
        refused(FailureKind::NotInStore, "no manifest").await;
        fs::write(root.join(key_of(KEY)), "pay first").unwrap();
        refused(FailureKind::NotOurs, "not the manifest").await;
    }

    #[tokio::test]
    async fn o15_an_object_whose_manifest_nobody_vouches_for_is_taken_by_a_word_alone() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        written(root, |manifest| Keys::of(1).sign(manifest));
        let failure = inspect_with(root, false).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Mismatch, "{}", failure.message);
        assert!(failure.message.contains("does not have"), "{}", failure.message);
        assert_eq!(inspect_with(root, true).await.unwrap().signature, None);
        fs::create_dir(root.join("keys")).unwrap();
        fs::write(root.join("keys/before"), [1; 32]).unwrap();
        assert!(inspect_with(root, false).await.unwrap().signature.is_some());
    }

    #[tokio::test]
    async fn an_object_that_no_manifest_describes_is_taken_where_the_order_asks_for_no_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let order = InspectOrder {
            destination: Destination { pvc: Some(Pvc::default()), ..Destination::default() },
            key: KEY.to_owned(),
            sha256: "5".repeat(64),
            ..InspectOrder::default()
        };
        let missing = inspect_by(root, &order).await.unwrap_err();
        assert_eq!(missing.kind, FailureKind::NotInStore, "{}", missing.message);
        // Of whichever cluster, once a key has signed it; of nothing while none has.
        written(root, |_| {});
        let found = inspect_by(root, &order).await.unwrap();
        assert_eq!((found.revision, found.stored_bytes, found.stored_sha256), (0, 4, order.sha256.clone()));
        let believed = InspectOrder { allow_unsigned: true, ..order.clone() };
        assert_eq!(inspect_by(root, &believed).await.unwrap().revision, 70);
        // That of another object counts as none.
        written(root, |manifest| manifest.stored_sha256 = "6".repeat(64));
        assert_eq!(inspect_by(root, &believed).await.unwrap().revision, 0);
    }
}
