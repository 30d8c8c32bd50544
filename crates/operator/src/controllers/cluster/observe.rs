//! What a pass sees of Kubernetes: caches overlaid with our own writes, and objects of others that stand in our way.

mod foreign;
mod own;

pub use foreign::{Foreign, Foreigners, is_ours};
pub use own::{Own, Versions, View};
