//! Whether a backup could be restored: it is read to its end, and nothing of it is kept.

use quorate_api::job::{Manifest, ReadOrder};

use crate::{Context, Found, Result};

/// Reads it. Without a manifest in the store, the answer has what was found. Whether auth is enabled is always what was found.
pub async fn read(order: &ReadOrder, context: &Context) -> Result<Manifest> {
    let found = Found::find(&order.source, context).await?;
    let (bytes, auth_enabled) = found.read(context).await?;
    let manifest = found.manifest().cloned();
    let manifest = manifest.unwrap_or_else(|| Manifest { snapshot_bytes: bytes, ..found.as_manifest() });
    Ok(Manifest { auth_enabled, ..manifest })
}
