//! Whether a backup could be restored: it is read to its end, and nothing of it is kept.

use quorate_api::job::{Manifest, ReadOrder};

use crate::{Context, Found, Result};

/// Reads it. Without a manifest in the store, the answer has what was found.
pub async fn read(order: &ReadOrder, context: &Context) -> Result<Manifest> {
    let found = Found::find(&order.source, context).await?;
    let bytes = found.read(context).await?;
    Ok(found.manifest().cloned().unwrap_or_else(|| Manifest { snapshot_bytes: bytes, ..found.as_manifest() }))
}
