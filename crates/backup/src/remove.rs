//! Removes a backup from its store.

use quorate_api::job::{Failure, FailureKind, RemoveOrder};

use crate::store::Abandoned;
use crate::{Context, Result, Store, backup, manifest};

/// Deletes the manifest, then the object, so that nothing looks whole meanwhile, and aborts what was never completed. What is gone already
/// is no error.
pub async fn remove(order: &RemoveOrder, context: &Context) -> Result<()> {
    let store = Store::open(&order.destination, &context.places)?;
    let remove = async {
        if let Some(found) = manifest::read(&store, &order.key).await.map_err(unread)? {
            backup::is_ours(&store, &found, &order.backup_uid)?;
            store.delete(&manifest::key_of(&order.key)).await?;
        }
        store.delete(&order.key).await
    };
    context.unless_stopped(remove).await?;
    backup::tidy(&store, &order.key, Abandoned::OfKey, context).await;
    Ok(())
}

/// A manifest that cannot be read says nothing about whose the object is: a person decides, and the deletion waits for that.
fn unread(failure: Failure) -> Failure {
    if failure.kind == FailureKind::NotOurs {
        return Failure::new(FailureKind::Mismatch, failure.message);
    }
    failure
}
