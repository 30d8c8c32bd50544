//! The state of an API server in memory: objects, versions, validation and patches, as Kubernetes does them.
//!
//! - [`store`]: the objects, every change in order, preconditions, finalizers, graceful deletion, admission
//! - [`schema`]: custom resources: pruning, defaults, validation, CEL rules
//! - [`patch`]: JSON patch, merge patch, strategic merge patch
//! - [`disruption`]: the status of budgets, evictions
//! - [`resources`]: which kinds are served
//! - [`errors`], [`cause`]: refusals in the words of the real server
//! - [`fields`], [`selectors`], [`quantity`]: reading objects that are JSON
//! - [`cluster_defaults`]: the objects that every cluster has
//!
//! There is no HTTP, no controller and no clock here. `quorate-localkube` serves the store, the simulation writes to
//! it directly.

pub mod cause;
pub mod cluster_defaults;
pub mod disruption;
pub mod errors;
pub mod fields;
pub mod patch;
pub mod quantity;
pub mod resources;
pub mod schema;
pub mod selectors;
pub mod store;

pub use errors::ApiError;
pub use resources::{ObjectKey, ResourceInfo, ResourceKey, Resources};
pub use store::Store;
